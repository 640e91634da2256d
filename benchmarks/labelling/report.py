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
_RESAMPLES = 500


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


def ratios(
    curves: dict[str, FloatArray], labels: FloatArray, whole: FloatArray, tolerance: float
) -> tuple[dict[str, float], float, float]:
    """Return each strategy's labels relative to the reference's, the target and the reference's labels.

    The target is the mean value of all labels less the tolerance, or what the reference reaches in the end
    where that is less. A strategy that never reaches it counts as if it did at twice the largest number.

    Args:
        curves: Values by strategy, the larger the better `[seeds, K]`.
        labels: Labels at each point `[K]`.
        whole: Values with all labels `[seeds]`.
        tolerance: Of the target.
    """
    reference = curves[REFERENCE].mean(axis=0)
    rising = IsotonicRegression().fit_transform(labels, reference)
    target = min(float(whole.mean()) - tolerance, float(rising[-1]))
    least = 2.0 * float(labels[-1])
    needed = {name: min(labels_to(labels, rows.mean(axis=0), target), least) for name, rows in curves.items()}
    return {name: count / needed[REFERENCE] for name, count in needed.items()}, target, needed[REFERENCE]


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
            for name in ("ours", "entropy", "BADGE", "TypiClust", "random images"):
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
    sign = -1.0 if key == "nll" else 1.0
    seeds = sorted(set(by_strategy[REFERENCE]) & set(by_strategy["all"]))
    curves: dict[str, FloatArray] = {}
    for name, by_seed in by_strategy.items():
        if name == "all" or not set(seeds) <= by_seed.keys() or key not in by_seed[seeds[0]][0]:
            continue
        shortest = min(len(by_seed[seed]) for seed in seeds)
        curves[name] = np.array([[sign * p[key] for p in by_seed[seed][:shortest]] for seed in seeds])
    if REFERENCE not in curves or "ours" not in curves:
        return None
    points = min(rows.shape[1] for rows in curves.values())
    curves = {name: rows[:, :points] for name, rows in curves.items()}
    labels = np.array([p["labels"] for p in by_strategy[REFERENCE][seeds[0]][:points]], float)
    whole = np.array([sign * by_strategy["all"][seed][0][key] for seed in seeds])
    tolerance = NLL_TOLERANCE * abs(float(whole.mean())) if key == "nll" else ACCURACY_TOLERANCE
    ratio, target, needed = ratios(curves, labels, whole, tolerance)
    low, high = _interval(curves, labels, whole, tolerance)
    row: dict[str, Any] = {"draws": len(seeds), "all labels": f"{sign * whole.mean():.3f}"}
    row |= {"to reach": f"{sign * target:.3f}", "labels of random groups": f"{needed:.0f}"}
    row["ours"] = f"{ratio['ours']:.2f} ({low:.2f} to {high:.2f})"
    for name in ("entropy", "BADGE", "TypiClust", "random images"):
        row[name] = f"{ratio[name]:.2f}" if name in ratio else "-"
    return row


def _interval(
    curves: dict[str, FloatArray], labels: FloatArray, whole: FloatArray, tolerance: float
) -> tuple[float, float]:
    """Return the 5 and 95 % points of our ratio over resamples of the draws."""
    rng, values = np.random.default_rng(0), []
    pair = {name: curves[name] for name in (REFERENCE, "ours")}
    for _ in range(_RESAMPLES):
        drawn = rng.integers(len(whole), size=len(whole))
        resampled = {name: rows[drawn] for name, rows in pair.items()}
        values.append(ratios(resampled, labels, whole[drawn], tolerance)[0]["ours"])
    low, high = np.percentile(values, [5, 95])
    return float(low), float(high)
