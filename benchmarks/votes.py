"""Learning from the votes of several people against learning from the class with most of them.

    pip install elpv-dataset
    python -m benchmarks.votes --out benchmarks/results/votes

The 2,624 solar cells of elpv have the probability that experts saw a defect: 0, 1/3, 2/3 or 1, read as three
votes. Both trainings have the same division, network, heads and budgets; their predictions of the test part,
by groups of near-duplicates, are judged by the votes. Differences are paired by group over all seeds.
"""

from __future__ import annotations

import argparse
import csv
import logging
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.common import host, write_results
from benchmarks.guarantees import errors_of_test_part
from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from pipelines.classify.application import CLASSIFY, VOTES
from pipelines.classify.settings import TrainSettings
from pipelines.runs.train import train
from pipelines.scores.bootstrap import RESAMPLES

VOTERS, CLASSES = 3, ("defective", "functional")
HEADS = ("linear", "svgp", "hgp")
_EPSILON = float(np.finfo(np.float32).eps)

Losses = dict[str, dict[str, tuple[float, float]]]
"""NLL and Brier score by method and image."""


@dataclass(frozen=True)
class VoteScores:
    """A row of the table.

    Attributes:
        trained_on: What the heads learned from.
        method: The head.
        images: The images that are judged, by how the votes were divided.
        number: How many, over all seeds.
        nll: -Σ s log p, mean.
        brier: Σ (p - s)², mean.
        less: NLL less that of the training on the majority, with a 95 % interval by groups.
    """

    trained_on: str
    method: str
    images: str
    number: int
    nll: float
    brier: float
    less: str


def votes_of_cells(folder: Path) -> dict[str, NDArray[np.float64]]:
    """Return the shares of the votes of each cell by name, and write the table of votes."""
    shares = {}
    for line in (folder / "labels.csv").read_text(encoding="utf-8").splitlines():
        name, probability, *_ = line.split()
        defect = round(VOTERS * float(probability)) / VOTERS
        shares[Path(name).stem] = np.array([defect, 1.0 - defect])
    return shares


def write_tables(shares: dict[str, NDArray[np.float64]], work: Path) -> None:
    """Write the table of votes and that of the classes with most of them."""
    for table, header, rows in (
        ("votes.csv", CLASSES, [np.round(VOTERS * share).astype(int).tolist() for share in shares.values()]),
        ("majority.csv", ("class",), [[CLASSES[int(share.argmax())]] for share in shares.values()]),
    ):
        with (work / table).open("w", newline="", encoding="utf-8") as file:
            lines = [[f"{name}.png", *row] for name, row in zip(shares, rows, strict=True)]
            csv.writer(file).writerows([["image", *header], *lines])


def judged(
    images: Path, shares: dict[str, NDArray[np.float64]], seed: int
) -> tuple[dict[str, Losses], dict[str, str]]:
    """Train on votes and on the majority; return what both lose on the votes of the test part, and groups."""
    found: dict[str, Losses] = {}
    groups: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        work, console = Path(folder), Console(quiet=True)
        write_tables(shares, work)
        for trained_on, application in (("majority", CLASSIFY), ("votes", VOTES)):
            data, run = work / f"{trained_on} prepared", work / trained_on
            settings = ClassifyPrepareSettings(seed=seed, votes=trained_on == "votes")
            prepare_classify(images, data, settings, table=work / f"{trained_on}.csv")
            train(
                application,
                TrainSettings(seed=seed, heads=HEADS),
                data=data,
                out=run,
                resume=False,
                console=console,
            )
            by_method, of_names = errors_of_test_part(application, run, data, console)
            if groups and groups != of_names:
                raise ValueError("the two trainings have other test images")
            groups = of_names
            found[trained_on] = {
                method: {
                    name: _losses(shares[name], probability)
                    for name, probability in zip(errors.names, errors.probability, strict=True)
                }
                for method, errors in by_method.items()
            }
    return found, groups


def _losses(shares: NDArray[Any], probability: NDArray[Any]) -> tuple[float, float]:
    p = np.clip(probability, _EPSILON, 1.0)
    return float(-(shares * np.log(p)).sum()), float(np.square(shares - probability).sum())


def scores(
    seeds: Sequence[tuple[dict[str, Losses], dict[str, str]]], shares: dict[str, NDArray[np.float64]]
) -> list[VoteScores]:
    """Return the table over all seeds."""
    rows = []
    for images, wanted in (("all", (0.0, 1.0)), ("all agree", (1.0, 1.0)), ("two of three", (0.5, 0.9))):
        for method in seeds[0][0]["votes"]:
            values: dict[str, list[tuple[float, float]]] = {"majority": [], "votes": []}
            group = []
            for number, (found, groups) in enumerate(seeds):
                chosen = [name for name in groups if wanted[0] <= shares[name].max() <= wanted[1]]
                group += [f"{number} {groups[name]}" for name in chosen]
                for trained_on, those in values.items():
                    those += [found[trained_on][method][name] for name in chosen]
            loss, brier = (
                {key: np.array([row[column] for row in those]) for key, those in values.items()}
                for column in (0, 1)
            )
            for trained_on in values:
                low, mean, high = _interval(loss[trained_on] - loss["majority"], group)
                less = f"{mean:+.4f} ({low:+.4f} to {high:+.4f})" if trained_on == "votes" else ""
                means = (round(float(part[trained_on].mean()), 4) for part in (loss, brier))
                rows.append(VoteScores(trained_on, method, images, len(group), *means, less))
    return rows


def _interval(values: NDArray[Any], group: Sequence[str]) -> tuple[float, float, float]:
    """Return the mean with a 95 % interval by a bootstrap over groups."""
    _, number = np.unique(group, return_inverse=True)
    total, count = np.bincount(number, values), np.bincount(number)
    rng = np.random.default_rng(0)
    weights = rng.multinomial(len(total), np.full(len(total), 1.0 / len(total)), size=RESAMPLES)
    low, high = np.quantile(weights @ total / (weights @ count), (0.025, 0.975))
    return float(low), float(values.mean()), float(high)


def main() -> None:
    """Train, judge and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    parser.add_argument("--seeds", type=int, nargs="+", default=(9301, 9302, 9303))
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    folder = Path(str(files("elpv_dataset"))) / "data"
    shares = votes_of_cells(folder)
    seeds = []
    for seed in arguments.seeds:
        seeds.append(judged(folder / "images", shares, seed))
        print(
            seed,
            {
                key: {m: np.mean(list(v.values()), axis=0).round(4).tolist() for m, v in of.items()}
                for key, of in seeds[-1][0].items()
            },
            flush=True,
        )
        write_results(
            arguments.out,
            title="Learning from votes and from the majority: elpv",
            rows=[asdict(row) for row in scores(seeds, shares)],
            host=host(),
        )


if __name__ == "__main__":
    main()
