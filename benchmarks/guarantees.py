"""How often a guaranteed error is kept: thresholds of half of the judged groups, held against the others.

    python -m benchmarks.guarantees --data FOLDER --out benchmarks/results/guarantees

A run is trained on a few snapshots of each class, and its test part, which trained nothing and chose nothing,
is divided at random into two halves of whole groups, many times. One half chooses the threshold by
`pipelines.scores.guarantee_thresholds`, the other shows what is wrong among what it keeps. A guarantee is
violated where that is more than guaranteed. It is chosen a second time as if each snapshot were a group of
its own, which snapshots that resemble each other are not.

The half that shows it is a sample, too: of a threshold whose true error is just what was guaranteed, half of
the samples have more. So more guarantees seem broken than are. FOLDER is as for `benchmarks.honesty`.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.common import host, write_results
from benchmarks.honesty.cell import train_settings
from benchmarks.honesty.data_sets import divided
from benchmarks.honesty.plan import PRETRAINED, Cell
from pipelines.evaluation.evaluate import run_predictors
from pipelines.runs.guarantees import ReferralCollector
from pipelines.runs.job import trained_job
from pipelines.runs.train import train
from pipelines.scores.guarantee_thresholds import SelectiveErrors, referral_threshold
from pipelines.scores.guarantees import ReferralErrors
from pipelines.sonar.application import SONAR

SUBJECTS = ("side-scan", "debris")
MAX_ERRORS = (0.02, 0.05, 0.1, 0.2)
HEADS = ("linear", "svgp", "hgp")


@dataclass(frozen=True)
class Counts:
    """What came of one guarantee of one method over all divisions.

    Attributes:
        subject: Data set.
        method: Name of the method.
        max_error: Guaranteed error.
        by: Whether groups or single examples chose the threshold.
        divisions: How often it was asked for.
        guaranteed: How often it could be guaranteed.
        kept: How often no more was wrong than guaranteed.
        share: Mean share of the judged half that was kept, where it was guaranteed; None if never.
        error: Mean error among what was kept; None if never.
    """

    subject: str
    method: str
    max_error: float
    by: str
    divisions: int
    guaranteed: int
    kept: int
    share: float | None
    error: float | None


def halves(errors: ReferralErrors, groups: Sequence[str], seed: int) -> tuple[ReferralErrors, ReferralErrors]:
    """Return two halves of whole groups.

    Args:
        errors: Uncertainty and error of each example.
        groups: Group of each of them.
        seed: Seed of the division.
    """
    names, member = np.unique(groups, return_inverse=True)
    first = np.isin(member, np.random.default_rng(seed).permutation(len(names))[: len(names) // 2])
    return _some(errors, first), _some(errors, ~first)


def _some(errors: ReferralErrors, chosen: np.ndarray) -> ReferralErrors:
    names = tuple(np.array(errors.names)[chosen].tolist())
    return ReferralErrors(names, errors.uncertainty[chosen], errors.error[chosen])


def counted(
    subject: str, method: str, errors: ReferralErrors, group_of: dict[str, str], divisions: int
) -> Iterator[Counts]:
    """Yield what came of every guarantee of a method."""
    seen: dict[tuple[float, str], list[tuple[float, float]]] = defaultdict(list)
    groups = [group_of[name] for name in errors.names]
    alone = {name: name for name in errors.names}
    for seed in range(divisions):
        chooses, shows = (_units(half, group_of) for half in halves(errors, groups, seed))
        single = _units(halves(errors, groups, seed)[0], alone)
        for max_error in MAX_ERRORS:
            for by, half in (("groups", chooses), ("examples", single)):
                threshold = referral_threshold(half, max_error).threshold
                if threshold is not None:
                    seen[max_error, by].append(shows.reality(threshold))
    for max_error in MAX_ERRORS:
        for by in ("groups", "examples"):
            real = np.array(seen[max_error, by]).reshape(-1, 2)
            broken = int(np.sum(real[:, 1] > max_error))
            share, error = np.round(np.nanmean(real, axis=0), 4).tolist() if len(real) else (None, None)
            yield Counts(
                subject, method, max_error, by, divisions, len(real), len(real) - broken, share, error
            )


def _units(errors: ReferralErrors, groups: dict[str, str]) -> SelectiveErrors:
    units = errors.by(groups, "snapshots")
    if units is None:
        raise ValueError("a half has no example")
    return units


def judged(subject: str, data: Path, size: int) -> tuple[dict[str, ReferralErrors], dict[str, str]]:
    """Train a run and return uncertainties and errors of its test part by method, and the groups.

    Args:
        subject: Data set of snapshots.
        data: Folder of the data sets.
        size: Snapshots of each class to train on.
    """
    cell, console = Cell(subject, PRETRAINED, size, seed=0), Console(quiet=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        prepared = divided(cell, data, work, work)
        settings = train_settings(cell, {"heads": HEADS, "ensemble": 0})
        train(SONAR, settings, data=prepared, out=work / "run", resume=False, console=console)
        return errors_of_test_part(SONAR, work / "run", prepared, console)


def errors_of_test_part(
    application: Any, run: Path, prepared: Path, console: Console
) -> tuple[dict[str, ReferralErrors], dict[str, str]]:
    """Return uncertainties and errors of the test part by each method of a run, and the groups.

    Args:
        application: Application of the run.
        run: Folder of the run.
        prepared: Folder that it was trained with.
        console: For progress.
    """
    job = trained_job(application, run, console)
    inputs, judge = application.inputs, application.judge
    job = job.on(inputs.encoded(inputs.open(prepared), job.settings, run, console), fold=0)
    found = {}
    for predictor in run_predictors(job):
        collector = ReferralCollector(judge)
        for example in judge.examples(job.data, job.splits.test):
            collector.add(example, judge.outputs(predictor, example))
        found[predictor.title] = collector.errors()
    return found, judge.groups(job.data, job.splits.test)


def main() -> None:
    """Train, divide and write the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    parser.add_argument("--subjects", nargs="*", default=SUBJECTS, choices=SUBJECTS)
    parser.add_argument("--size", type=int, default=80, help="snapshots of each class to train on")
    parser.add_argument("--divisions", type=int, default=100)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    rows: list[Counts] = []
    for subject in arguments.subjects:
        found, group_of = judged(subject, arguments.data, arguments.size)
        for method, errors in found.items():
            rows += counted(subject, method, errors, group_of, arguments.divisions)
    title = f"Guarantees kept, {arguments.size} snapshots of each class to train on"
    write_results(arguments.out, title=title, rows=[asdict(row) for row in rows], host=host())


if __name__ == "__main__":
    main()
