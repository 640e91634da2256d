"""Reading altered folders by the functions of the commands, in a process that a case may end.

`benchmarks.reliability.hostile_bundles` starts it, and tells what must hold.
"""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from rich.console import Console

from benchmarks.reliability.altered_cases import (
    LONGEST,
    REFUSED,
    SAME,
    SUBJECTS,
    Case,
    draw_case,
    write_case,
)
from data_prep.errors import InputError
from gpmodels import SVGPClassifier
from pipelines.bundles.prediction import bundle_preprocessing, open_bundle
from pipelines.bundles.preprocessing import ImagePreprocessing
from pipelines.classify.application import CLASSIFY
from pipelines.classify.settings import TrainSettings
from pipelines.runs.job import trained_job
from pipelines.runs.models import load_model
from pipelines.training.stages import StageState


def read_bundle(folder: Path) -> dict[str, Any]:
    """Open a bundle as `predict` does; return what it says and what it makes of an image."""
    signature, metadata = open_bundle(folder, "classify")
    preprocessing = bundle_preprocessing(metadata, folder, ImagePreprocessing)
    image = np.random.default_rng(0).integers(0, 256, (1, 12, 12, 3), np.uint8)
    outputs = signature(images=tf.constant(image))
    return {
        "metadata": metadata.model_dump(exclude={"sha256"}),
        "preprocessing": preprocessing,
        **{name: value.numpy().tobytes() for name, value in outputs.items()},
    }


def read_run(folder: Path) -> dict[str, Any]:
    """Open a run as `evaluate` and `train --resume` do; return its description and its weights."""
    job = trained_job(CLASSIFY, folder, Console(quiet=True))
    found: dict[str, Any] = {"run": job.run.model_dump(), "settings": job.settings.model_dump()}
    for name in job.run.heads:
        model = load_model(job, name)
        found[name] = [weight.tobytes() for weight in model.get_weights()]
        found[f"{name} state"] = StageState.load(folder / "heads" / name)
    return found


def read_prepared(folder: Path) -> dict[str, Any]:
    """Open a prepared folder as `train` does; return its manifest and all of its examples."""
    data = CLASSIFY.inputs.open(folder)
    names = [example.name for example in data.manifest.examples]
    batches = CLASSIFY.inputs.plain_batches(data, names, TrainSettings(), False)
    return {
        "manifest": data.manifest,
        "examples": [np.asarray(part).tobytes() for batch in batches for part in batch],
    }


def read_estimator(folder: Path) -> dict[str, Any]:
    """Load an estimator; return its parameters and what it predicts."""
    model = SVGPClassifier.load(folder / "model.npz")
    inputs = np.random.default_rng(1).normal(size=(20, model.n_features_in_))
    return {"parameters": model.get_params(), "probability": model.predict_proba(inputs).tobytes()}


READERS: Mapping[str, Callable[[Path], dict[str, Any]]] = {
    "bundle": read_bundle,
    "run": read_run,
    "prepared folder": read_prepared,
    "estimator file": read_estimator,
}


def outcome(case: Case, work: Path, good: Mapping[str, Any]) -> str:
    """Return whether a case was refused, is the same as the good one, or what is wrong, in words."""
    folder = case.folder(work)
    allowed = (ValueError, FileNotFoundError) if case.subject == "estimator file" else (InputError,)
    try:
        with at_most(LONGEST):
            found = READERS[case.subject](folder)
    except allowed as error:
        if str(folder) not in str(error):
            return f"the message does not name it: {str(error)[:300]}"
        return REFUSED if is_alone(folder) else "something was written beside it"
    except WaitedError:
        return f"not done after {LONGEST} s"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a fault to be listed
        return f"{type(error).__name__}: {str(error)[:300]}"
    if not is_alone(folder):
        return "something was written beside it"
    changed = [name for name in {**good, **found} if good.get(name) != found.get(name)]
    return f"accepted with another {', '.join(changed)}" if changed else SAME


def is_alone(folder: Path) -> bool:
    """Whether nothing is beside a case's folder, nor in the working folder."""
    return len(list(folder.parent.iterdir())) == 1 and not Path("outside").exists()


class WaitedError(BaseException):
    """A case took too long. No `Exception`: `TimeoutError` is an `OSError`, which is a reason to refuse."""


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise `WaitedError` where a block takes longer."""

    def stop(*_: object) -> None:
        raise WaitedError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def judge(numbers: Sequence[int], seed: int, work: Path, results: Path) -> None:
    """Read cases in this process, and write a line of each."""
    good: dict[str, dict[str, Any]] = {}
    with results.open("a", encoding="utf-8") as file:
        for number in numbers:
            case = draw_case(number, seed)
            if case.subject not in good:
                good[case.subject] = READERS[case.subject](work / "classify" / SUBJECTS[case.subject][0])
            found = outcome(case, work, good[case.subject])
            file.write(json.dumps({"number": number, "outcome": found}) + "\n")
            file.flush()


def fit_estimator(folder: Path) -> None:
    """Fit and save the good estimator."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(60, 3))
    model = SVGPClassifier(num_inducing=6, max_iterations=5, random_state=0)
    model.fit(inputs, (inputs[:, 0] > 0).astype(int))
    folder.mkdir()
    model.save(folder / "model.npz")


def main() -> None:
    """Write or judge cases, as `hostile_bundles.run` asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["write", "judge"])
    parser.add_argument("numbers", help="how many to write, or those to judge")
    parser.add_argument("seed", type=int)
    parser.add_argument("work", type=Path)
    arguments = parser.parse_args()
    work: Path = arguments.work
    if arguments.task == "judge":
        judge([int(n) for n in arguments.numbers.split(",")], arguments.seed, work, work / "outcomes.jsonl")
        return
    if not (work / "classify" / "estimator").exists():
        fit_estimator(work / "classify" / "estimator")
    for number in range(int(arguments.numbers)):
        write_case(draw_case(number, arguments.seed), arguments.seed, work)
        print(f"case {number} is written", flush=True)  # whoever waits sees that it goes on


if __name__ == "__main__":
    main()
