"""Which cells a run consists of, and in which order they are computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.tabular.datasets import Dataset, Task
from benchmarks.tabular.methods import METHODS, OURS
from benchmarks.tabular.problem import NUM_EXPERTS

TABLES = ("classification", "regression", "inducing_points", "time_accuracy", "experts", "rows")
ONE_FOLD = ("time_accuracy", "experts", "rows")
"""Tables of the first fold alone."""

INDUCING_SHARE = 0.025
SMALLEST_INDUCING, LARGEST_INDUCING = 10, 1000
THESIS_INDUCING = {
    "kin40k": 500,
    "pole_telecom": 500,
    "pumadyn32nm": 500,
    "flights_2008": 100,
    "flights_2008_late": 100,
}
"""M of thesis Table 3.2 and, for the flights, of 3.5.6.2."""

INDUCING_SHARES = (0.01, 0.02, 0.04)
INDUCING_NUMBERS = (50, 100, 200)
INDUCING_BY_SHARE = ("ctg", "wfrn")
INDUCING_BY_NUMBER = ("kin40k", "pole_telecom")
TRAINING_ROWS = (1000, 3000, 10_000, 30_000, 60_000)


@dataclass(frozen=True)
class DatasetFacts:
    """What planning and reporting need to know of a set, without its arrays."""

    name: str
    task: Task
    num_rows: int
    num_features: int
    num_classes: int
    num_train: int
    num_folds: int
    sha256: str


@dataclass(frozen=True)
class Cell:
    """One training and test, in a process of its own.

    Args:
        table: One of `TABLES`.
        dataset: Name of the set.
        method: Key of `METHODS`.
        fold: From 0.
        num_folds: How many parts the set is cut into; 1 for its official split.
        seed: Of the method; the folds do not depend on it.
        num_inducing: M.
        num_expert_inducing: Of each expert; None for M.
        max_iterations: None for each method's own.
        sha256: Of the data file.
        num_experts: T at the start.
        num_train: So many rows drawn from the training part; None for all.
    """

    table: str
    dataset: str
    method: str
    fold: int
    num_folds: int
    seed: int
    num_inducing: int
    num_expert_inducing: int | None
    max_iterations: int | None
    sha256: str
    num_experts: int = NUM_EXPERTS
    num_train: int | None = None

    @property
    def name(self) -> str:
        """Unique within a run; the stem of the cell's file."""
        experts = "" if self.num_expert_inducing is None else f"_{self.num_expert_inducing}"
        experts += "" if self.num_experts == NUM_EXPERTS else f"--t{self.num_experts}"
        experts += "" if self.num_train is None else f"--n{self.num_train}"
        return (
            f"{self.table}--{self.dataset}--{self.method}--fold{self.fold}--seed{self.seed}"
            f"--m{self.num_inducing}{experts}"
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def dataset_facts(dataset: Dataset, cut: int | None = None) -> DatasetFacts:
    """The facts of a loaded set, cut into so many folds; None for what its size suggests."""
    num_rows, num_folds = len(dataset.targets), dataset.num_folds(cut)
    return DatasetFacts(
        name=dataset.name,
        task=dataset.task,
        num_rows=num_rows,
        num_features=dataset.inputs.shape[1],
        num_classes=dataset.num_classes,
        num_train=dataset.num_official or num_rows - -(-num_rows // num_folds),
        num_folds=num_folds,
        sha256=dataset.sha256,
    )


def inducing_points(facts: DatasetFacts) -> int:
    """M: 2.5 % of the training rows, within limits, or the thesis' 500."""
    share = round(INDUCING_SHARE * facts.num_train)
    return THESIS_INDUCING.get(facts.name, min(max(share, SMALLEST_INDUCING), LARGEST_INDUCING))


def inducing_grid(facts: DatasetFacts) -> list[tuple[int, int]]:
    """Pairs (M, P) of thesis Tables 4.2 and 3.1; none for other sets."""
    if facts.name in INDUCING_BY_SHARE:
        sizes = [round(share * facts.num_train) for share in INDUCING_SHARES]
    else:
        sizes = list(INDUCING_NUMBERS) if facts.name in INDUCING_BY_NUMBER else []
    return [(shared, local) for shared in sizes for local in sizes]


def plan_cells(
    datasets: Iterable[DatasetFacts],
    *,
    tables: Sequence[str],
    methods: Sequence[str],
    num_folds: int | None,
    seeds: Sequence[int],
    max_iterations: int | None,
    num_inducing: int | None = None,
    experts: Sequence[int] = (NUM_EXPERTS,),
) -> list[Cell]:
    """All cells, cheap ones first.

    The methods take turns on one fold after the other, so that what is done can be compared at any time; the
    first folds of expensive sets come before the last ones of cheap sets.

    Args:
        datasets: The sets.
        tables: Of `TABLES`.
        methods: Of `METHODS`.
        num_folds: How many of each set's folds to run; None for all.
        seeds: Of the methods.
        max_iterations: See `Cell`.
        num_inducing: M of every method; None for what the size of the training part suggests.
        experts: T at the start, each of them in the table of experts, the first one in the others; 0 is an
            SVGP.
    """
    weighted = []
    for facts in datasets:
        for table in tables:
            for method, sizes in _columns(table, facts, methods, experts):
                folds = 1 if table in ONE_FOLD else min(num_folds or facts.num_folds, facts.num_folds)
                for repeat, (seed, fold) in enumerate((s, f) for s in seeds for f in range(folds)):
                    settings: dict[str, Any] = {
                        "num_inducing": num_inducing or inducing_points(facts),
                        "num_expert_inducing": None,
                        **sizes,
                    }
                    cell = Cell(
                        table, facts.name, method, fold, facts.num_folds, seed, max_iterations=max_iterations,
                        sha256=facts.sha256, **settings,
                    )  # fmt: skip
                    num_train = cell.num_train or facts.num_train
                    cost = num_train * max(facts.num_classes - 1, 1) * cell.num_inducing**2
                    weighted.append((cost * (1 + repeat), cell))
    weighted.sort(key=lambda pair: (pair[0], pair[1].dataset, TABLES.index(pair[1].table)))
    return [cell for _, cell in weighted]


def _columns(
    table: str, facts: DatasetFacts, methods: Sequence[str], experts: Sequence[int]
) -> list[tuple[str, dict[str, int]]]:
    """Pairs of a method and the sizes, as `Cell` calls them, that a table has for a set."""
    able = [key for key in methods if facts.task in METHODS[key].tasks]
    if table == "inducing_points":
        grid = inducing_grid(facts) if OURS in methods else []
        return [(OURS, {"num_inducing": m, "num_expert_inducing": p}) for m, p in grid]
    if table == "experts":
        return [
            (key, {"num_experts": number})
            for number in experts
            for key in able
            if METHODS[key].has_experts == (number > 0)
        ]
    first = {key: {"num_experts": experts[0]} if METHODS[key].has_experts else {} for key in able}
    if table == "rows":
        return [
            (key, {"num_train": n, **first[key]})
            for n in TRAINING_ROWS
            if n <= facts.num_train
            for key in able
        ]
    if table == "time_accuracy":
        return [(key, first[key]) for key in able if METHODS[key].records]
    return [(key, first[key]) for key in able] if table == facts.task else []
