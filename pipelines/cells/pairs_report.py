"""What `gpimaging cells pairs` writes: a table of all pairs of sequences, and a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_prep.files.atomic import atomic_file
from data_prep.files.tables import write_table
from pipelines.cells.scores import EVENT_SCORES
from pipelines.scores.bootstrap import summarise_seeds
from pipelines.scores.tables import markdown_table, mean_and_spread, seeds_markdown

PAIRS = "pairs.csv"
REPORT = "report.md"


@dataclass(frozen=True)
class PairResult:
    """How a method trained on one sequence did on another.

    Attributes:
        method: Name of the method in tables.
        seed: Seed of the training.
        train: Sequence that it was trained on.
        test: Sequence that it was judged on.
        threshold: Candidates with a higher probability of an event are called events.
        candidates: Number of candidates in the test sequence.
        events: Number of these that are events.
        scores: Scores by the keys of `pipelines.cells.scores.EVENT_SCORES`.
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
    rows = ([*(getattr(one, name) for name in header), *(one.scores[key] for key in keys)] for one in results)
    write_table(path, [*header, *keys], rows)


def scores_markdown(results: Sequence[PairResult]) -> str:
    """Return mean ± standard deviation of each method's scores over all pairs as a Markdown table."""
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
        results: Results of all pairs.
        weights: Weights of the views in each training that has them.
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
