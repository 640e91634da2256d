"""Multiple-kernel learning on simulated cell events: train on one sequence, test on another.

    python -m benchmarks.cells_simulated --frames time_lapse --work out/cells --seeds 0 1 2

The frames are real (a folder of phase-contrast images in which nobody labelled events); the events pasted
into them are simulated (`benchmarks.cells.simulator`): the scores compare methods and say nothing of cells.
A real event that the frames may show counts as none. The field of view is cut into 3 x 3 tiles, which are
the sequences: no pixel of a test sequence is trained on. The tiles of the last column choose settings (those
of `GRIDS`) and the probability from which a candidate is called an event, by the mean F1 score over their
ordered pairs, with simulated events of their own. The other six tiles are judged: 30 ordered pairs for each
seed, which draws new events.

All methods learn from the same candidates, all events of a sequence and `NONE_PER_EVENT` times as many others
drawn at random, and are judged on all candidates of the other sequence. All see the same eight views:
standardised, and projected on principal components of each view, both fitted on the training candidates.

Pairs share sequences, so differences are tested between means over what one training sequence of one seed is
tested on (Wilcoxon's signed-rank test). What is complete is kept in `--work` and not repeated, unless the
frames, the simulation, the candidates or a method's settings have changed.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score
from sklearn.preprocessing import StandardScaler

from benchmarks.cells.simulator import (
    EVENTS_NAME,
    SEQUENCES_NAME,
    SimulationSettings,
    simulate_events,
    write_simulated,
)
from benchmarks.common import fingerprint, host, write_results
from benchmarks.peers.averaged_svm import AveragedKernelSVC
from benchmarks.peers.bemkl import BEMKLClassifier
from benchmarks.peers.mkgp import MKGPClassifier
from benchmarks.tabular.summary import paired_test
from data_prep.cells.manifest import CellsManifest
from data_prep.cells.prepare import prepare_cells
from data_prep.cells.sequences import find_sequences, read_sequence
from data_prep.cells.settings import CellsPrepareSettings
from data_prep.cells.views import EXTRACTOR, NO_CHANGE
from data_prep.errors import Skipped
from data_prep.files.atomic import atomic_file
from data_prep.labelled.views import read_views
from data_prep.prepared.manifest import load_manifest
from gpmodels import DFGPClassifier, SVGPClassifier

SIMULATION = SimulationSettings(mitoses=7, apoptoses=7, roundings=3)
NONE_PER_EVENT = 20
CHOOSING_SEED = 1000
ROWS, COLUMNS = 3, 3
THRESHOLDS = np.concatenate([np.linspace(0.02, 0.98, 49), [0.99, 0.995, 0.998, 0.999]])
PAPER = {"DFGP-MKL": 0.80, "BEMKL": 0.79, "MKGP": 0.70, "SVM, averaged kernels": 0.77}
DIFFERENCE = "Difference threshold"
DIFFERENCE_VIEW = "current_difference_histogram"

Array = npt.NDArray[np.float64]
Views = dict[str, npt.NDArray[np.float32]]
Setting = dict[str, Any]


def dfgp_mkl(views: list[slice], seed: int, setting: Setting) -> Any:
    """A hidden unit for each view."""
    options = {key: value for key, value in setting.items() if key != "components"}
    return DFGPClassifier(views=views, random_state=seed, **options)


def linear(views: list[slice], seed: int, setting: Setting) -> Any:  # noqa: ARG001 - as the others
    """With a temperature by cross-validation."""
    model = LogisticRegression(C=setting["C"], max_iter=5000)
    return CalibratedClassifierCV(model, method="temperature", ensemble=False, cv=3)


METHODS: dict[str, Callable[[list[slice], int, Setting], Any]] = {
    "DFGP-MKL": dfgp_mkl,
    "DFGP-MKL, whole bound": dfgp_mkl,
    "DFGP-MKL, point posterior as in the paper": dfgp_mkl,
    "BEMKL": lambda views, seed, _: BEMKLClassifier(views=views, random_state=seed),
    "MKGP": lambda views, seed, _: MKGPClassifier(views=views, random_state=seed),
    "SVM, averaged kernels": lambda views, seed, _: AveragedKernelSVC(views=views, random_state=seed),
    "SVGP": lambda _, seed, setting: SVGPClassifier(
        num_inducing=50, max_iterations=setting["max_iterations"], random_state=seed
    ),
    "Linear + temperature": linear,
}
PREPARING = CellsPrepareSettings(one_kind="event")
COMPONENTS = (3, 5, 10, 30)
GRIDS: dict[str, Mapping[str, Sequence[Any]]] = {
    "DFGP-MKL": {
        "components": COMPONENTS,
        "hidden_lengthscales": ("learned", "median"),
        "hidden_kl_weight": (0.003, 0.03, 0.3),
        "max_iterations": (10, 50, 200),
    },
    "DFGP-MKL, whole bound": {
        "components": COMPONENTS,
        "hidden_lengthscales": ("learned", "median"),
        "max_iterations": (10, 50, 200),
    },
    "DFGP-MKL, point posterior as in the paper": {
        "components": COMPONENTS,
        "num_inducing": (10, 50),
        "max_iterations": (5, 25, 100),
        "hidden_posterior": ("point",),
    },
    "BEMKL": {"components": COMPONENTS},
    "MKGP": {"components": COMPONENTS},
    "SVM, averaged kernels": {"components": COMPONENTS},
    "SVGP": {"components": (*COMPONENTS, 60), "max_iterations": (20, 100, 300)},
    "Linear + temperature": {"components": (*COMPONENTS, 60), "C": (0.01, 0.1, 1.0, 10.0)},
}


@dataclass(frozen=True)
class Candidates:
    """All candidates of a simulated sequence."""

    views: Views
    events: npt.NDArray[np.bool_]

    @property
    def fingerprint(self) -> str:
        """Tells these candidates from others."""
        return fingerprint(self.events, *(part for pair in sorted(self.views.items()) for part in pair))


def tiles(frames: Path) -> Iterator[tuple[str, list[npt.NDArray[np.uint8]]]]:
    """Name and frames of each part of the field of view."""
    (sequence,), _ = find_sequences(frames)
    read = [levels for _, levels in read_sequence(sequence)]
    whole = [levels.astype(np.uint8) for levels in read if not isinstance(levels, Skipped)]
    height, width = whole[0].shape
    for row, column in product(range(ROWS), range(COLUMNS)):
        rows = slice(height * row // ROWS, height * (row + 1) // ROWS)
        columns = slice(width * column // COLUMNS, width * (column + 1) // COLUMNS)
        yield f"tile_{row}{column}", [frame[rows, columns] for frame in whole]


def chooses(name: str) -> bool:
    """Whether settings are chosen on a tile; the others are judged."""
    return name.endswith(str(COLUMNS - 1))


def prepared(frames: Path, work: Path, seed: int) -> dict[str, Candidates]:
    """Simulate the events of a seed and describe the candidates of all tiles that it is for."""
    folder = work / f"seed_{seed}"
    cut = list(tiles(frames))
    pixels = [part for name, tile in cut for part in (name, *tile)]
    made_of = fingerprint(SIMULATION, PREPARING.model_dump(mode="json"), EXTRACTOR, *pixels)
    note = folder / "made_of.txt"
    if not note.exists() or note.read_text(encoding="utf-8") != made_of:
        simulated = {
            name: simulate_events(tile, SIMULATION, seed=100 * seed + number)
            for number, (name, tile) in enumerate(cut)
            if chooses(name) == (seed == CHOOSING_SEED)
        }
        write_simulated(folder / "simulated", simulated, overwrite=True)
        prepare_cells(
            folder / "simulated" / SEQUENCES_NAME,
            folder / "simulated" / EVENTS_NAME,
            folder / "prepared",
            PREPARING,
            overwrite=True,
        )
        note.write_text(made_of, encoding="utf-8")
    manifest = load_manifest(folder / "prepared", CellsManifest)
    views = read_views(folder / "prepared", manifest)
    source = np.array([example.source for example in manifest.examples])
    events = np.array([example.label == 1 for example in manifest.examples])
    return {
        name: Candidates(
            {view: values[source == name] for view, values in views.items()}, events[source == name]
        )
        for name in sorted(set(source.tolist()))
    }


def training_rows(sequence: Candidates, seed: int) -> npt.NDArray[np.int64]:
    """All events, and some of the other candidates."""
    events, others = np.flatnonzero(sequence.events), np.flatnonzero(~sequence.events)
    number = min(len(others), NONE_PER_EVENT * len(events))
    drawn = np.random.default_rng(seed).choice(others, number, replace=False)
    return np.sort(np.concatenate([events, drawn]))


def projected(
    train: Candidates, rows: npt.NDArray[np.int64], others: Sequence[Candidates], components: int
) -> tuple[Array, list[Array], list[slice]]:
    """Principal components of each view, of the training rows and of other sequences, and their columns."""
    parts: list[list[Array]] = [[] for _ in range(1 + len(others))]
    for name, values in train.views.items():
        scaler = StandardScaler().fit(values[rows].astype(np.float64))
        scaled = scaler.transform(values[rows])
        axes = PCA(min(components, scaled.shape[1]), svd_solver="full").fit(scaled)
        parts[0].append(axes.transform(scaled))
        for part, other in zip(parts[1:], others, strict=True):
            part.append(axes.transform(scaler.transform(other.views[name])))
    ends = np.cumsum([0, *(part.shape[1] for part in parts[0])]).tolist()
    columns = [slice(first, last) for first, last in pairwise(ends)]
    first, *rest = (np.concatenate(part, axis=1) for part in parts)
    return first, rest, columns


def predicted(
    method: str, setting: Setting, train: Candidates, others: Sequence[Candidates], seed: int
) -> tuple[list[Array], float]:
    """Probability of an event for all candidates of other sequences, and the seconds that training took."""
    rows = training_rows(train, seed)
    x, tests, columns = projected(train, rows, others, setting["components"])
    model = METHODS[method](columns, seed, setting)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # iterations are a setting that is chosen
        model.fit(x, train.events[rows])
    seconds = time.perf_counter() - started
    return [model.predict_proba(test)[:, 1] for test in tests], seconds


def f1_scores(events: npt.NDArray[np.bool_], probability: Array) -> list[float]:
    """At each of `THRESHOLDS`."""
    return [f1_score(events, probability >= t, zero_division=0.0) for t in THRESHOLDS]


def choose(sequences: Mapping[str, Candidates], work: Path) -> dict[str, Setting]:
    """Setting and threshold of each method by the mean F1 over the ordered pairs of these sequences."""
    path = work / "chosen.json"
    chosen: dict[str, Setting] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    seen = [(name, sequence.fingerprint) for name, sequence in sequences.items()]
    for method, grid in GRIDS.items():
        made_of = fingerprint(seen, grid, THRESHOLDS, NONE_PER_EVENT, CHOOSING_SEED)
        if chosen.get(method, {}).get("made_of") == made_of:
            continue
        best = -1.0
        for values in product(*grid.values()):
            setting = dict(zip(grid, values, strict=True))
            curves = []
            for name, train in sequences.items():
                others = [other for key, other in sequences.items() if key != name]
                probabilities, _ = predicted(method, setting, train, others, CHOOSING_SEED)
                curves += [f1_scores(o.events, p) for o, p in zip(others, probabilities, strict=True)]
            mean = np.mean(curves, axis=0)
            print(f"{method} {setting}: F1 {mean.max():.3f}", flush=True)
            if mean.max() > best:
                best = float(mean.max())
                threshold = float(THRESHOLDS[int(mean.argmax())])
                chosen[method] = {
                    "setting": setting,
                    "threshold": threshold,
                    "f1": best,
                    "made_of": made_of,
                }
        path.write_text(json.dumps(chosen, indent=1) + "\n", encoding="utf-8")
    return {method: chosen[method] for method in GRIDS}


def judge(
    sequences: Mapping[str, Candidates], name: str, chosen: Mapping[str, Setting], seed: int, path: Path
) -> dict[str, dict[str, Any]]:
    """Scores of all methods trained on one sequence, on each of the others.

    Those in the file are kept where they are of the same candidates, setting and threshold.
    """
    train = sequences[name]
    others = [other for key, other in sequences.items() if key != name]
    results: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    seen = [train.fingerprint, *(other.fingerprint for other in others)]
    made_of = {
        method: fingerprint(
            seen, seed, NONE_PER_EVENT, *(chosen[method].get(key) for key in ("setting", "threshold"))
        )
        for method in chosen
    }
    made_of[DIFFERENCE] = fingerprint(seen)  # nothing is drawn or chosen
    missing = [method for method, key in made_of.items() if results.get(method, {}).get("made_of") != key]
    for method in missing:
        if method == DIFFERENCE:
            threshold, probabilities, seconds = *difference_threshold(train, others), 0.0
        else:
            threshold = chosen[method]["threshold"]
            probabilities, seconds = predicted(method, chosen[method]["setting"], train, others, seed)
        judged = scores(others, probabilities, threshold)
        results[method] = judged | {"seconds": seconds, "made_of": made_of[method]}
    if missing:
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps(results), encoding="utf-8")
    return {method: results[method] for method in made_of}


def difference_threshold(train: Candidates, others: Sequence[Candidates]) -> tuple[float, list[Array]]:
    """The threshold that would have been best on the training sequence, and the differences.

    All candidates count, since events are as rare among them as where the threshold is judged.
    """
    own = mean_difference(train.views[DIFFERENCE_VIEW])
    threshold = max(np.unique(own), key=lambda t: f1_score(train.events, own >= t))
    return float(threshold), [mean_difference(other.views[DIFFERENCE_VIEW]) for other in others]


def mean_difference(histogram: npt.NDArray[np.float32]) -> Array:
    """Mean absolute difference of a candidate's two patches, in levels, as far as its histogram tells."""
    bins = histogram.shape[-1]
    middles = (np.arange(bins) + 0.5) * 256 / bins
    return np.asarray(2.0 * histogram @ np.abs(middles - NO_CHANGE), np.float64)


def scores(
    others: Sequence[Candidates], probabilities: Sequence[Array], threshold: float
) -> dict[str, list[float]]:
    """F1 at a threshold, and average precision, which needs none, on each sequence."""
    pairs = list(zip(others, probabilities, strict=True))
    return {
        "f1": [float(f1_score(o.events, p >= threshold, zero_division=0.0)) for o, p in pairs],
        "average_precision": [float(average_precision_score(o.events, p)) for o, p in pairs],
    }


def summarise(
    cells: Sequence[Mapping[str, Mapping[str, Any]]], chosen: Mapping[str, Setting]
) -> list[Setting]:
    """A row for each method; tests are against the first one."""
    rows = []
    first = next(iter(chosen))
    means = {method: [float(np.mean(cell[method]["f1"])) for cell in cells] for method in cells[0]}
    for method in cells[0]:
        f1 = np.concatenate([cell[method]["f1"] for cell in cells])
        precision = np.concatenate([cell[method]["average_precision"] for cell in cells])
        tested = paired_test(dict(enumerate(means[first])), dict(enumerate(means[method])))
        choice = chosen.get(method)
        setting = "" if choice is None else ", ".join(f"{k} {v}" for k, v in choice["setting"].items())
        rows.append(
            {
                "method": method,
                "F1": f"{f1.mean():.3f} ± {f1.std():.3f}",
                "average precision": f"{precision.mean():.3f} ± {precision.std():.3f}",
                f"F1 of {first} less this": ""
                if method == first or tested is None
                else f"{tested.difference:+.3f}",
                "p": "" if method == first or tested is None else f"{tested.p_value:.2g}",
                "paper's F1 (other data)": PAPER.get(method, ""),
                "seconds to train": f"{np.mean([cell[method]['seconds'] for cell in cells]):.1f}",
                "settings tried": math.prod(map(len, GRIDS[method].values())) if choice else "",
                "chosen": setting and f"{setting}, threshold {choice['threshold']:.3g}" if choice else "",
            }
        )
    return rows


def main() -> None:
    """Choose settings, judge what is missing, and write the table after each seed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=Path, required=True, help="Folder of one real sequence.")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/cells_simulated"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    chosen = choose(prepared(arguments.frames, arguments.work, CHOOSING_SEED), arguments.work)
    cells: list[Mapping[str, Mapping[str, Any]]] = []
    for done, seed in enumerate(arguments.seeds, 1):
        sequences = prepared(arguments.frames, arguments.work, seed)
        for name in sequences:
            path = arguments.work / f"seed_{seed}" / f"{name}.json"
            cells.append(judge(sequences, name, chosen, seed, path))
        pairs = len(sequences) * (len(sequences) - 1) * done
        title = (
            f"Simulated cell events in real frames: {pairs} ordered pairs of training and test sequence "
            f"({len(sequences)} sequences, {done} seeds of events); F1 is the mean over pairs ± its standard "
            "deviation"
        )
        write_results(arguments.results, title=title, rows=summarise(cells, chosen), host=host())


if __name__ == "__main__":
    main()
