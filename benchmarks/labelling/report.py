"""Tables of the simulated annotators: how many labels a strategy needs, relative to random ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

FloatArray = NDArray[np.float64]
Record = dict[str, Any]

REFERENCE = "random groups"
ACCURACY_TOLERANCE = 0.02
"""An accuracy within this of that of all labels counts as reached."""
NLL_TOLERANCE = 0.1
"""A loss within this share above that of all labels counts as reached."""
COMPARED = ("ours", "BADGE", "TypiClust", "entropy", "random images")
_RESAMPLES = 200


def labels_to(labels: FloatArray, values: FloatArray, target: float) -> float:
    """Return the labels at which an increasing curve first reaches a target; infinite where it never does.

    Args:
        labels: Labels at each point of the curve, ascending `[K]`.
        values: Values there, which an isotonic regression makes increasing `[K]`.
        target: To reach.
    """
    rising = IsotonicRegression().fit_transform(labels, values)
    if rising[-1] < target:
        return float("inf")
    place = int(np.argmax(rising >= target))
    if not place:
        return float(labels[0])
    step = (target - rising[place - 1]) / (rising[place] - rising[place - 1])
    return float(labels[place - 1] + step * (labels[place] - labels[place - 1]))


def ratio(
    curves: FloatArray, reference: FloatArray, whole: FloatArray, labels: FloatArray, tolerance: float
) -> tuple[float, float, float]:
    """Return a strategy's labels relative to the reference's, the target and the reference's labels.

    The target is the mean value of all labels less the tolerance, or what the reference reaches in the end
    where that is less. A strategy that never reaches it counts as if it did at twice the largest number.

    Args:
        curves: Values of the strategy, the larger the better `[seeds, K]`.
        reference: Those of the reference with the same seeds `[seeds, K]`.
        whole: Values with all labels `[seeds]`.
        labels: Labels at each point `[K]`.
        tolerance: Of the target.
    """
    rising = IsotonicRegression().fit_transform(labels, reference.mean(axis=0))
    target = min(float(whole.mean()) - tolerance, float(rising[-1]))
    needed = [
        min(labels_to(labels, rows.mean(axis=0), target), 2.0 * float(labels[-1]))
        for rows in (curves, reference)
    ]
    return needed[0] / needed[1], target, needed[1]


def table(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return a row for each pool, share of wrong answers and score."""
    found: dict[tuple[str, float], dict[str, dict[int, list[Record]]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for record in records:
        found[record["pool"], record["wrong"]][record["strategy"]][record["seed"]] = record["curve"]
    rows = []
    for (pool, wrong), by_strategy in found.items():
        if REFERENCE not in by_strategy or "all" not in by_strategy:
            continue
        for score, key in (("accuracy", "accuracy"), ("NLL", "nll"), ("accuracy of a logistic", "logistic")):
            if row := _row(by_strategy, key):
                rows.append({"pool": pool, "wrong": f"{100 * wrong:.0f} %", "score": score, **row})
    return rows


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the means over pools, the worst pool, and the worst ratio to the best of scikit-activeml."""
    summed = []
    for wrong in sorted({row["wrong"] for row in rows}):
        for score in ("accuracy", "NLL"):
            some = [row for row in rows if row["wrong"] == wrong and row["score"] == score]
            for name in COMPARED:
                values = [_number(row.get(name)) for row in some]
                known = np.array([value for value in values if value is not None])
                if not len(known):
                    continue
                line = {"wrong": wrong, "score": score, "strategy": name, "pools": len(known)}
                line |= {"mean": f"{known.mean():.2f}", "worst": f"{known.max():.2f}"}
                summed.append(line)
    return summed


def _number(cell: str | None) -> float | None:
    return None if cell in {None, "-"} else float(str(cell).split()[0])


def _row(by_strategy: dict[str, dict[int, list[Record]]], key: str) -> dict[str, Any] | None:
    """Return the cells of a row; None where nothing has that score."""
    row: dict[str, Any] = {}
    for name in COMPARED:
        found = _matched(by_strategy, name, key)
        if found is None:
            row[name] = "-"
            continue
        curves, reference, whole, labels = found
        sign = -1.0 if key == "nll" else 1.0
        tolerance = NLL_TOLERANCE * abs(float(whole.mean())) if key == "nll" else ACCURACY_TOLERANCE
        value, target, needed = ratio(curves, reference, whole, labels, tolerance)
        if name == "ours":
            row |= {"draws": len(whole), "all labels": f"{sign * whole.mean():.3f}"}
            row |= {"to reach": f"{sign * target:.3f}", "labels of random groups": f"{needed:.0f}"}
        rng, again = np.random.default_rng(0), []
        for _ in range(_RESAMPLES):
            drawn = rng.integers(len(whole), size=len(whole))
            again.append(ratio(curves[drawn], reference[drawn], whole[drawn], labels, tolerance)[0])
        low, high = np.percentile(again, [5, 95])
        row[name] = f"{value:.2f} ({low:.2f} to {high:.2f})"
    return row if row["ours"] != "-" else None


def _matched(
    by_strategy: dict[str, dict[int, list[Record]]], name: str, key: str
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
    """Return curves of a strategy and of the reference, values with all labels, and labels."""
    parts = [by_strategy.get(one, {}) for one in (name, REFERENCE, "all")]
    seeds = sorted(
        seed
        for seed in set.intersection(*(set(part) for part in parts))
        if all(key in part[seed][0] for part in parts)
    )
    if not seeds:
        return None
    points = min(len(part[seed]) for part in parts[:2] for seed in seeds)
    sign = -1.0 if key == "nll" else 1.0
    curves, reference = (
        np.array([[sign * point[key] for point in part[seed][:points]] for seed in seeds])
        for part in parts[:2]
    )
    whole = np.array([sign * parts[2][seed][0][key] for seed in seeds])
    labels = np.array([point["labels"] for point in parts[1][seeds[0]][:points]], float)
    return curves, reference, whole, labels
