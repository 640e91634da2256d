"""How often guarantees of single classes, several at once, and prediction sets are kept.

    python -m benchmarks.class_guarantees --data FOLDER --out benchmarks/results/class_guarantees

Simulated: many draws of held-out predictions choose thresholds, and a sample so large that its shares are
those of the distribution shows what is wrong: each guarantee must be kept in 95 of 100 draws.

Real: a run is trained on frozen features, and its test part is divided into halves of whole groups, many
times. One half chooses the thresholds, the other shows what is wrong among what they keep. It is a sample,
too, so that more guarantees seem broken than are. A prediction set has no confidence of its own: what counts
is the mean of its coverage over all divisions.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.common import host, write_results
from benchmarks.guarantees import errors_of_test_part, judged
from benchmarks.scoreboard.data_sets import solar_cells, ultrasound
from benchmarks.simulated_classes import simulated
from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from pipelines.classify.application import CLASSIFY
from pipelines.classify.settings import TrainSettings
from pipelines.labelled.settings import LabelledRun
from pipelines.runs.train import train
from pipelines.scores.class_guarantees import Limit, ReferralRule, joint_guarantee
from pipelines.scores.guarantees import ReferralErrors
from pipelines.scores.held_out import HeldOut
from pipelines.scores.prediction_sets import judged_sets, prediction_sets

SONAR_SUBJECTS = ("side-scan", "debris")
IMAGE_SUBJECTS: Mapping[str, Callable[..., Any]] = {"BUSI": ultrasound, "elpv": solar_cells}
SUBJECTS = (*SONAR_SUBJECTS, *IMAGE_SUBJECTS)
METHODS = ("Linear + temperature", "SVGP + temperature", "HGP + temperature")
SHARES = (0.05, 0.1, 0.2)
COVERAGE = 0.9
_WORLD = 200_000


@dataclass(frozen=True)
class ClassCounts:
    """What came of guarantees of one kind over all draws.

    Attributes:
        subject: Data set.
        method: Name of the method.
        guarantee: What was guaranteed.
        draws: How often it was asked for, of any class.
        given: How often it could be given.
        kept: How often no more was wrong than guaranteed; of sets, how often the coverage was reached.
        value: Mean share that was wrong, or mean coverage.
        not_referred: Mean share of what was not referred, or mean number of classes in a set.
    """

    subject: str
    method: str
    guarantee: str
    draws: int
    given: int
    kept: int
    value: float | None
    not_referred: float | None


def shares_of(rule: ReferralRule, limit: Limit, shown: HeldOut) -> tuple[float, float]:
    """Return the share that a limit is about, and the share that is not referred.

    Args:
        rule: What is kept.
        limit: The limit.
        shown: Examples that chose nothing.
    """
    kept = rule.keeps(shown.predicted, shown.probability, shown.uncertainty)
    if limit.kind == "missed":
        share = shown.mean(kept & (shown.predicted != limit.place), shown.truth == limit.place)
    elif limit.kind == "false":
        share = shown.mean(shown.truth != limit.place, kept & (shown.predicted == limit.place))
    else:
        share = shown.mean(shown.predicted != shown.truth, kept)
    return share, shown.mean(kept, np.ones(kept.size, bool))


def counted(
    subject: str, method: str, draws: Sequence[tuple[HeldOut, HeldOut]], wanted: Sequence[Sequence[Limit]]
) -> Iterator[ClassCounts]:
    """Yield what came of guarantees and sets, summed over classes.

    Args:
        subject: Data set.
        method: Name of the method.
        draws: What chooses the thresholds, and what shows what is wrong, of each draw.
        wanted: Limits that are asked for together.
    """
    asked: dict[str, int] = defaultdict(int)
    found: dict[str, list[tuple[bool, float, float]]] = defaultdict(list)
    for chooses, shows in draws:
        for limits in wanted:
            name = " and ".join(f"{limit.kind} {limit.share:g}" for limit in limits)
            asked[name] += 1
            joint = joint_guarantee(chooses, limits)
            if not joint.refused:
                shares = [shares_of(joint.rule, limit, shows) for limit in limits]
                kept = all(not share > limit.share for (share, _), limit in zip(shares, limits, strict=True))
                found[name].append((kept, shares[0][0], shares[0][1]))
        name = f"sets {COVERAGE:g}"
        asked[name] += 1
        sets = judged_sets(prediction_sets(chooses, COVERAGE), shows)
        found[name].append((sets.covered >= COVERAGE, sets.covered, sets.size))
    for name, number in asked.items():
        rows = np.array(found[name], float).reshape(-1, 3)
        value, not_referred = (
            np.round(np.nanmean(rows[:, 1:], axis=0), 4).tolist() if len(rows) else (None, None)
        )
        yield ClassCounts(
            subject, method, name, number, len(rows), int(rows[:, 0].sum()), value, not_referred
        )


def of_each_class(num_classes: int) -> list[list[Limit]]:
    """Return the limits of every class and share, and two of each class together."""
    wanted: list[list[Limit]] = []
    for share in SHARES:
        for place in range(num_classes):
            missed, false = Limit("missed", share, place), Limit("false", share, place)
            wanted += [[missed], [false], [missed, false]]
        wanted += [[Limit("error", share), Limit("missed", share, place)] for place in range(num_classes)]
    return wanted


def halves(errors: ReferralErrors, group_of: Mapping[str, str], seed: int) -> tuple[HeldOut, HeldOut]:
    """Return two halves of whole groups."""
    held_out = errors.held_out(group_of)
    if held_out is None:
        raise ValueError("there is no example to divide")
    number = int(held_out.unit.max()) + 1
    first = np.isin(held_out.unit, np.random.default_rng(seed).permutation(number)[: number // 2])
    return held_out.rows(first), held_out.rows(~first)


def of_images(subject: str, data: Path) -> tuple[dict[str, ReferralErrors], dict[str, str]]:
    """Train a run on four images of ten; return what its methods predict of the others, and their groups."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        images, table = IMAGE_SUBJECTS[subject](data, work)
        prepare_classify(images, work / "prepared", ClassifyPrepareSettings(test_fraction=0.6), table=table)
        return trained_on_images(work, TrainSettings(out_of_fold=False))[1:]


def trained_on_images(
    work: Path, settings: TrainSettings
) -> tuple[LabelledRun, dict[str, ReferralErrors], dict[str, str]]:
    """Train a run in `work/run` on `work/prepared`.

    Args:
        work: Folder with the prepared data.
        settings: Settings of the training.

    Returns:
        The run, what its methods predict of the test part, and the groups of that.
    """
    console, data, out = Console(quiet=True), work / "prepared", work / "run"
    run = train(CLASSIFY, settings, data=data, out=out, resume=False, console=console)
    return (run, *errors_of_test_part(CLASSIFY, out, data, console))


def main() -> None:
    """Simulate, train, divide and write the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    parser.add_argument("--simulated", type=int, default=1000, help="draws of each simulation")
    parser.add_argument("--divisions", type=int, default=100)
    parser.add_argument("--subjects", nargs="*", default=SUBJECTS, choices=SUBJECTS)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    rows: list[ClassCounts] = []
    for name, groups in (("simulated, 500 images", None), ("simulated, 900 images of 90 groups", 90)):
        number = 500 if groups is None else 900
        world = simulated(np.random.default_rng(99), _WORLD, groups=groups and _WORLD // 10, slope=1.4)
        draws = [
            (simulated(np.random.default_rng(seed), number, groups=groups, slope=1.4), world)
            for seed in range(arguments.simulated)
        ]
        missed, false = Limit("missed", 0.045, 1), Limit("false", 0.045, 1)  # .055 without referral
        wanted = [[missed], [false], [missed, false], [Limit("error", 0.045), missed]]
        rows += counted(name, "right order of probabilities", draws, wanted)
    for subject in arguments.subjects:
        by_method, group_of = (
            judged(subject, arguments.data, 80)
            if subject in SONAR_SUBJECTS
            else of_images(subject, arguments.data)
        )
        for method in METHODS:
            errors = by_method[method]
            draws = [halves(errors, group_of, seed) for seed in range(arguments.divisions)]
            rows += counted(subject, method, draws, of_each_class(errors.probability.shape[1]))
    write_results(
        arguments.out,
        title="Guarantees of single classes, several at once, and prediction sets",
        rows=[asdict(row) for row in rows],
        host=host(),
    )


if __name__ == "__main__":
    main()
