"""Decisions by cost: choosing the decision with the least expected cost.

Where deciding k costs V[c, k] if the truth is c, and c has the probability p[c], deciding k is expected to
cost Σ_c p[c] V[c, k]. The decision with the least of these is the best one on average if the probabilities
are calibrated (Elkan, "The foundations of cost-sensitive learning", 2001; with a reject option: Chow, "On
optimum recognition error and reject tradeoff", 1970). Of two classes with costs of 0 for what is right, the
second one is decided where its probability is above V[0, 1] / (V[0, 1] + V[1, 0]).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from data_prep.errors import InputError
from data_prep.files.tables import read_table, table_header, table_number
from pipelines.command.referral import CostSettings

REFER: Final = "refer"
"""Column of a cost table, and decision, that gives an example to a person."""

_TIE: Final = 1e-9
"""Expected costs that differ by less than this share of the largest cost are a tie."""

_LARGEST_FILE: Final = 10_000_000
"""Bytes of a table: more than a thousand classes need."""


class CostTable(BaseModel):
    """What each decision costs for each true class; units are free.

    Attributes:
        classes: The C classes, in the order of the labels.
        decisions: The K decisions: the classes in the same order, and perhaps `refer` as the last one.
        values: Cost of each decision for each true class, `[C, K]`.

    Raises:
        ValueError: The decisions are others, a cost is missing, negative or not finite, or another decision
            costs less than the right one.

    Example:
        >>> table = CostTable(
        ...     classes=("benign", "malignant"),
        ...     decisions=("benign", "malignant", "refer"),
        ...     values=((0, 1, 3), (50, 0, 3)),
        ... )
        >>> decision, cost = table.decide(np.array([[0.9, 0.1], [0.999, 0.001]]))
        >>> [table.decisions[place] for place in decision], cost.round(3).tolist()
        (['malignant', 'benign'], [0.9, 0.05])
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    classes: tuple[str, ...]
    decisions: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        number = len(self.classes)
        if (
            number < 2
            or self.decisions not in {self.classes, (*self.classes, REFER)}
            or REFER in self.classes
        ):
            raise ValueError(
                f"found the decisions {', '.join(self.decisions)}, expected the classes "
                f"{', '.join(self.classes)}, at least two, and perhaps {REFER}, which is no class"
            )
        if [len(row) for row in self.values] != number * [len(self.decisions)]:
            raise ValueError(f"expected {number} rows of {len(self.decisions)} costs")
        for name, row, right in zip(self.classes, self.values, range(number), strict=True):
            for decision, cost in zip(self.decisions, row, strict=True):
                found = f"{name} costs {cost:g} where the decision is {decision}"
                if not math.isfinite(cost):
                    raise ValueError(f"{found}, expected a finite number")
                if cost < 0:
                    raise ValueError(
                        f"{found}, expected 0 or more. Add the same amount to all costs of the row, which "
                        "changes no decision"
                    )
                if cost < row[right]:
                    raise ValueError(
                        f"{found}, less than {row[right]:g} where it is {name}, which is right. Expected the "
                        "right decision to cost the least of its row"
                    )
        return self

    @property
    def refers(self) -> bool:
        """Whether one of the decisions is to refer."""
        return len(self.decisions) > len(self.classes)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The costs as an array `[C, K]`."""
        return np.array(self.values, np.float64)

    def expected(self, probability: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the expected cost of each decision, `[N, K]`.

        Args:
            probability: Probabilities of the classes `[N, C]`.

        Raises:
            ValueError: The probabilities have another number of columns.
        """
        if probability.ndim != 2 or probability.shape[1] != len(self.classes):
            raise ValueError(f"probability {probability.shape} must be [N, {len(self.classes)}]")
        return np.asarray(probability.astype(np.float64) @ self.matrix)

    def decide(self, probability: NDArray[np.floating[Any]]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the decision with the least expected cost for each example, and that cost.

        Of equal costs that of the most probable class is taken, and `refer` of none.

        Args:
            probability: Probabilities of the classes `[N, C]`.

        Returns:
            Places among `decisions` `[N]`, and expected costs `[N]`.

        Raises:
            ValueError: The probabilities have another number of columns.
        """
        expected = self.expected(probability)
        least = expected.min(axis=1, keepdims=True)
        preferred = np.full(expected.shape, -1.0)  # to refer
        preferred[:, : len(self.classes)] = probability
        tied = expected <= least + _TIE * self.matrix.max(initial=0.0)
        decision = np.where(tied, preferred, -np.inf).argmax(axis=1)
        return decision, np.take_along_axis(expected, decision[:, None], axis=1)[:, 0]

    def never_chosen(self) -> tuple[str, ...]:
        """Return the decisions that are never the cheapest one, whatever the probabilities are.

        The decision k is the cheapest one for some probabilities p if the largest value, over p, of the least
        p · (V[:, j] - V[:, k]), over j, is above 0; a linear program finds it. A class needs no program if no
        other decision costs as little where that class is certain.
        """
        import scipy.optimize  # noqa: PLC0415 - it is slow to import, and commands check their paths first

        matrix, found = self.matrix, []
        for place, decision in enumerate(self.decisions):
            others = np.delete(matrix, place, axis=1)
            if decision != REFER:  # a class whose costs are those of another one is as good as that
                others = others[:, (others != matrix[:, [place]]).any(axis=0)]
                if (others[place] > matrix[place, place]).all():
                    continue
            gain = others - matrix[:, [place]]  # [C, K - 1]
            solved = scipy.optimize.linprog(
                c=[*np.zeros(len(gain)), -1.0],
                A_ub=np.hstack([-gain.T, np.ones((gain.shape[1], 1))]),
                b_ub=np.zeros(gain.shape[1]),
                A_eq=[[*np.ones(len(gain)), 0.0]],
                b_eq=[1.0],
                bounds=[*[(0, 1)] * len(gain), (None, None)],
            )
            if -solved.fun <= _TIE * matrix.max(initial=0.0):
                found.append(decision)
        return tuple(found)

    def warnings(self) -> tuple[str, ...]:
        """Return a sentence for each decision that the costs make pointless."""
        return tuple(
            f"With these costs {decision} is never the cheapest decision, whatever the probabilities are, so "
            "that it is never taken. If that is not meant, lower its costs or raise those of the others."
            for decision in self.never_chosen()
        )


def read_costs(path: Path, class_names: Sequence[str]) -> CostTable:
    """Read a table of costs, which nobody has checked.

    The first column has the names of the classes; the others are decisions. Columns may be separated by
    commas, semicolons or tabs, with decimal commas for the latter two; names may differ by case.

    Args:
        path: The CSV file.
        class_names: Classes of the model, in the order of the labels.

    Returns:
        The table with its rows and columns in the order of the classes.

    Raises:
        InputError: The file cannot be read, or does not give a cost for each class and decision; the message
            says where, and what was expected.

    Example:
        >>> read_costs(Path("costs.csv"), ("benign", "malignant"))  # doctest: +SKIP
    """
    _require_small(path)
    if REFER in class_names:
        raise InputError(
            f"{path}: a class is called {REFER}, which is the decision to ask a person. Rename the class, "
            "and prepare and train again."
        )
    header, delimiter = table_header(path)
    wanted = f"a column for each of {', '.join(class_names)}, and perhaps {REFER}"
    decisions = _columns(path, header[1:], (*class_names, REFER), "decision", wanted)
    if missing := [name for name in class_names if name not in decisions]:
        raise InputError(
            f"{path}: the first line {delimiter.join(header)[:80]!r} has no column {', '.join(missing)}. "
            f"Expected one with the true class, then {wanted}. Give what must not be decided large costs."
        )
    rows: dict[str, dict[str, float]] = {}
    for line, cells in read_table(path, header).items():
        truth = _row(f"{path}, line {line}", cells[header[0]], class_names, rows, "class")
        rows[truth] = {
            decision: _cost(cells[column], f"{path}, line {line}: {column}", delimiter)
            for column, decision in zip(header[1:], decisions, strict=True)
        }
    if missing := [name for name in class_names if name not in rows]:
        raise InputError(
            f"{path}: has no row for {', '.join(missing)}. Expected one for each true class. Add it."
        )
    ordered = (*class_names, *([REFER] if REFER in decisions else []))
    return _table(path, class_names, ordered, rows)


def given_costs(
    settings: BaseModel, class_names: Sequence[str], say: Callable[[str], object]
) -> CostTable | None:
    """Return the costs that settings of a step name, and say which decisions they make pointless.

    Args:
        settings: Settings of the step.
        class_names: Classes of the model, in the order of the labels.
        say: Is given each warning.

    Returns:
        The costs; None where the step or the model knows none, or none are given.

    Raises:
        InputError: As `read_costs`.
    """
    if not isinstance(settings, CostSettings) or settings.costs is None or not class_names:
        return None
    table = read_costs(settings.costs, class_names)
    for warning in table.warnings():
        say(f"Warning: {warning}")
    return table


def read_label_costs(path: Path, label_names: Sequence[str]) -> dict[str, CostTable]:
    """Read what mistakes about several yes/no labels cost, which nobody has checked.

    There is a row for each label, with the columns label, missed (no where it is yes), false_alarm (yes where
    it is no) and perhaps refer; what is right costs nothing. The rest is as for `read_costs`.

    Args:
        path: The CSV file.
        label_names: Labels of the model, in their order.

    Returns:
        The costs of deciding no, yes or to refer, by the name of the label.

    Raises:
        InputError: The file cannot be read, has another column, or does not give each cost of each label.
    """
    _require_small(path)
    header, delimiter = table_header(path)
    columns = ("label", "missed", "false_alarm")
    lines = read_table(path, columns, (REFER,))
    wanted = f"the columns {', '.join(columns)}, and perhaps {REFER}"
    _columns(path, header, (*columns, REFER), "cost of a label", wanted)
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for line, cells in lines.items():
        where = f"{path}, line {line}"
        name = _row(where, cells.pop("label"), label_names, rows, "label")
        cost = {key: _cost(text, f"{where}: {key} of {name}", delimiter) for key, text in cells.items()}
        for key, value in cost.items():
            if not 0 <= value < math.inf:
                raise InputError(
                    f"{where}: {key} of {name} is {cells[key]!r}. Expected a finite number from 0 on, "
                    "for what is right costs nothing. Correct it."
                )
        refer = {REFER: cost[REFER]} if REFER in cost else {}
        rows[name] = {
            "no": {"no": 0.0, "yes": cost["false_alarm"], **refer},
            "yes": {"no": cost["missed"], "yes": 0.0, **refer},
        }
    if missing := [name for name in label_names if name not in rows]:
        raise InputError(f"{path}: has no row for {', '.join(missing)}. Expected one for each label. Add it.")
    return {name: _table(path, ("no", "yes"), tuple(rows[name]["no"]), rows[name]) for name in label_names}


def given_label_costs(
    settings: BaseModel, label_names: Sequence[str], say: Callable[[str], object]
) -> dict[str, CostTable]:
    """Return the costs of each label that settings of a step name, as `given_costs`; empty where none are.

    Raises:
        InputError: As `read_label_costs`.
    """
    if not isinstance(settings, CostSettings) or settings.costs is None or not label_names:
        return {}
    tables = read_label_costs(settings.costs, label_names)
    for name, table in tables.items():
        for warning in table.warnings():
            say(f"Warning: of {name}: {warning}")
    return tables


def _table(
    path: Path, class_names: Sequence[str], decisions: Sequence[str], rows: Mapping[str, Mapping[str, float]]
) -> CostTable:
    try:
        return CostTable(
            classes=tuple(class_names),
            decisions=tuple(decisions),
            values=tuple(tuple(rows[name][decision] for decision in decisions) for name in class_names),
        )
    except ValidationError as error:
        problem = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InputError(f"{path}: {problem}.") from error


def _require_small(path: Path) -> None:
    if path.is_file() and path.stat().st_size > _LARGEST_FILE:
        raise InputError(f"{path}: has more than {_LARGEST_FILE:,} bytes. Expected a table of costs.")


def _columns(path: Path, header: Sequence[str], known: Sequence[str], kind: str, wanted: str) -> list[str]:
    """Return which of the known columns each one of a header is; every one is known, and there once."""
    columns: list[str] = []
    for name in header:
        column = _known(name, known)
        if column is None:
            raise InputError(
                f"{path}: the column {name!r} is no {kind}. Expected {wanted}. Rename or remove it."
            )
        if column in columns:
            raise InputError(f"{path}: two columns are of {column}. Expected {wanted}. Remove one of them.")
        columns.append(column)
    return columns


def _row(where: str, text: str, names: Sequence[str], rows: Collection[str], kind: str) -> str:
    """Return the class or label that a row describes; there must be no earlier row of it."""
    name = _known(text, names)
    if name is None or name in rows:
        fault = f"is no {kind} of the model" if name is None else "is there a second time"
        raise InputError(f"{where}: {text!r} {fault}. Expected a row for each of {', '.join(names)}.")
    return name


def _known(name: str, names: Sequence[str]) -> str | None:
    """Return which of the names is meant; None where none is, or several that differ by case alone."""
    if name in names:
        return name
    plain = name.strip().lower().replace(" ", "_")
    same = [one for one in names if one.lower().replace(" ", "_") == plain]
    return same[0] if len(same) == 1 else None


def _cost(text: str, where: str, delimiter: str) -> float:
    """Return the cost in a cell; a comma is a decimal sign where it does not separate columns."""
    means_thousands = re.fullmatch(r"[1-9]\d{0,2}([.,]\d{3})+", text)
    if (delimiter != "," and means_thousands) or (delimiter == "," and "," in text):
        raise InputError(
            f"{where} is {text!r}, which may mean thousands or decimals. Write 1000 or 1.5, without a "
            "mark for thousands."
        )
    try:
        return table_number(text.replace(",", "."))
    except ValueError as error:
        found = f"is {text!r}" if text else "is empty"
        hint = " Leave % out: the unit is free, but the same in all cells." if "%" in text else ""
        raise InputError(f"{where} {found}. Expected a cost as a number, such as 2.5.{hint}") from error
