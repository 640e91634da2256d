"""What ``gpimaging cells pairs`` writes: a table of all pairs of sequences, and a report."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_prep.atomic import atomic_file
from pipelines.bootstrap import summarise_seeds
from pipelines.cells_scores import EVENT_SCORES
from pipelines.prediction import cell_text
from pipelines.results_tables import markdown_table, mean_and_spread, seeds_markdown

PAIRS = "pairs.csv"
REPORT = "report.md"


@dataclass(frozen=True)
class PairResult:
    """How a method trained on one sequence did on another.

    Attributes:
        method: As in tables.
        seed: Of the training.
        train: Sequence it was trained on.
        test: Sequence it was judged on.
        threshold: Candidates with a higher probability of an event are called one.
        candidates: Of the test sequence.
        events: Of these.
        scores: By the keys of :data:`~pipelines.cells_scores.EVENT_SCORES`.
    """

    method: str
    seed: int
    train: str
    test: str
    threshold: float
    candidates: int
    events: int
    scores: Mapping[str, float]


def write_pairs(path: Path, results: Sequence[PairResult]) -> None:
    """Write a line for each method, seed and ordered pair.

    Raises:
        InputError: The file cannot be written.
    """
    header = ["method", "seed", "train", "test", "threshold", "candidates", "events"]
    keys = [score.key for score in EVENT_SCORES]
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*header, *keys])
        for one in results:
            values = [*(getattr(one, name) for name in header), *(one.scores[key] for key in keys)]
            writer.writerow(map(cell_text, values))


def scores_markdown(results: Sequence[PairResult]) -> str:
    """Mean ± standard deviation over all pairs of each method's scores, as a table."""
    methods = dict.fromkeys(one.method for one in results)
    scores = {name: [one.scores for one in results if one.method == name] for name in methods}
    return seeds_markdown(EVENT_SCORES, {name: summarise_seeds(some) for name, some in scores.items()})


def write_report(
    path: Path,
    results: Sequence[PairResult],
    weights: Sequence[Mapping[str, float]],
    unusable: Sequence[str],
) -> None:
    """Write the report as Markdown.

    Args:
        path: The file.
        results: Of all pairs.
        weights: Of the views, of each training that has them.
        unusable: Why sequences are left out.

    Raises:
        InputError: The file cannot be written.
    """
    pairs = {(one.train, one.test) for one in results}
    trained = {one.train for one in results}
    seeds = ", ".join(map(str, sorted({one.seed for one in results})))
    counts = (
        f"{len(pairs)} ordered pairs of {len(trained)} sequences, seeds of training {seeds}: mean ± "
        "standard deviation over all of them. Pairs share sequences: the deviation says how much pairs "
        f"differ, and is no interval of the mean. {PAIRS} has every pair."
    )
    rule = (
        "A candidate is called an event where the probability of all kinds together is above a threshold: "
        "the one with the best F1 on the frames of the training sequence that its training held out."
    )
    parts = [
        "# Cell events: trained on one sequence, judged on another",
        counts,
        scores_markdown(results),
        rule,
        *(f"Left out: {reason}" for reason in unusable),
    ]
    if weights:
        rows = [[view, mean_and_spread(weight)] for view, weight in summarise_seeds(weights).items()]
        parts += [markdown_table(["View", "Weight for DFGP-MKL, over the trainings"], rows)]
    text = "\n\n".join(part.strip() for part in parts) + "\n"
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
