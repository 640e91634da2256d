"""`metrics.json`: every number of an evaluation, under keys that stay.

    schema_version, application, data, settings, warnings
    scores       key -> title, group, better ("higher" | "lower"), explanation
    methods      name -> scores (key -> number | null), counts, seconds_per_image, peak_memory_bytes, details,
                 reliability_diagram, risk_coverage_curve
                 If the report tells classes apart, also recalls (class -> number | null) and confusion (rows
                 true, columns predicted class, in the order of the recalls).
                 Of numbers, intervals (coverage, covered: share of truths within, width) and groups (name,
                 examples, bias, mae, covered) in the place of the reliability diagram.
                 guarantee (null where there is none): confidence, judged, units, noun, binomial, source
                 (which model it is), rows (max_error, threshold | null, reason, needed, kept, judged_kept,
                 judged_error, violated: the guarantee, given by the selection part, and what came of it on
                 the judged part), table (error and threshold of each guarantee that a bundle can give),
                 classes (of the chosen method, null of others: limits, the smallest share of max_errors that
                 can be guaranteed of each class that is "missed" or "false", with judged_share and
                 judged_kept; sets: coverage, covered, of_classes, size, single of prediction sets)
                 unfamiliar (null if not asked for): number, scores (score -> auroc, fpr95: how well it tells
                 the images of a folder from the judged ones), flagged_known, flagged_unknown; shifted: a list
                 of kind, strength (0 is unshifted), nll, ece, kept, unfamiliar
    costs        null if none were given: classes, decisions, values (rows true class, columns decision),
                 judged, methods (name -> mean, lower, upper: cost of a judged example; decided: decision ->
                 share; against: other way to decide -> its mean, and difference, lower, upper, p_value,
                 resamples; curve: shares that are referred, and mean cost)
    labels       of several labels: name -> guarantee of the main method, and costs, as those of classes
    no_guarantee   why there are no guarantees; empty where there are
    choice       which head to take, in a sentence, and chosen, the name of that method; empty where unknown
    comparisons  [method, baseline, scores (key -> difference, lower, upper, p_value, resamples)]

A number that is undefined is null, never NaN, which JSON does not have. `peak_memory_bytes` is the largest
memory that the process had until the method was judged, methods before it included.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.errors import InputError
from data_prep.files.atomic import write_text
from pipelines.scores.class_results import ClassResults
from pipelines.scores.cost_results import CostResults
from pipelines.scores.guarantees import MethodGuarantees
from pipelines.scores.numbers import NumberResult
from pipelines.scores.results import Evaluation, MethodResult
from pipelines.scores.unfamiliar_scores import UnfamiliarResult

METRICS_SCHEMA_VERSION = 1


def write_metrics(path: Path, evaluation: Evaluation) -> None:
    """Write `metrics.json`, complete or not at all.

    Args:
        path: The file, in an existing folder.
        evaluation: The evaluation to write.

    Raises:
        InputError: The file cannot be written.
        TypeError: Settings or data hold something that JSON does not have.
    """
    text = json.dumps(metrics_content(evaluation), indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def metrics_content(evaluation: Evaluation) -> dict[str, object]:
    """Return what `write_metrics` writes, in JSON's types."""
    described = ("title", "group", "better", "explanation")
    content: dict[str, object] = {
        "schema_version": METRICS_SCHEMA_VERSION,
        "application": evaluation.application,
        "data": evaluation.data,
        "settings": evaluation.settings,
        "warnings": evaluation.all_warnings,
        "scores": {
            score.key: {name: getattr(score, name) for name in described} for score in evaluation.definitions
        },
        "costs": None if evaluation.costs is None else _costs(evaluation.costs),
        "labels": {
            name: {
                "guarantee": _guarantee(evaluation.label_guarantees.get(name)),
                "costs": _costs(evaluation.label_costs[name]) if name in evaluation.label_costs else None,
            }
            for name in {**evaluation.label_guarantees, **evaluation.label_costs}
        },
        "no_guarantee": evaluation.no_guarantee,
        "choice": evaluation.choice,
        "chosen": evaluation.chosen,
        "methods": {
            result.name: {
                **_method(result, evaluation.class_names),
                "guarantee": _guarantee(evaluation.guarantees.get(result.name)),
                "unfamiliar": _unfamiliar(evaluation.unfamiliar.get(result.name)),
                "shifted": [vars(scores) for scores in evaluation.shifted.get(result.name, ())],
            }
            for result in evaluation.results
        },
        "comparisons": [
            {
                "method": comparison.method,
                "baseline": comparison.baseline,
                "scores": {key: asdict(difference) for key, difference in comparison.differences.items()},
            }
            for comparison in evaluation.comparisons
        ],
    }
    return {key: as_json(value) for key, value in content.items()}


def read_metrics(path: Path) -> dict[str, Any]:
    """Return the contents of a `metrics.json`.

    Raises:
        InputError: The file is missing or no JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({error}). Pass the metrics.json of an evaluation."
        ) from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no JSON object. Pass the metrics.json of an evaluation.")
    return content


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _method(result: MethodResult, class_names: tuple[str, ...]) -> dict[str, object]:
    curve = result.risk_coverage()
    by_class: dict[str, object] = {}
    if class_names:
        recalls = dict(zip(class_names, result.recalls(), strict=True))
        by_class = {"recalls": recalls, "confusion": result.confusion()}
    return {
        **by_class,
        "scores": result.scores,
        "counts": result.counts,
        "seconds_per_image": result.seconds_per_image,
        "peak_memory_bytes": result.peak_memory_bytes,
        "details": result.details,
        **_of_kind(result),
        "risk_coverage_curve": None if curve is None else asdict(curve),
    }


def _of_kind(result: MethodResult) -> dict[str, object]:
    """Return intervals of predicted numbers and errors of their groups, or how reliable classes are."""
    if isinstance(result, NumberResult):
        return {"intervals": result.intervals(), "groups": result.groups}
    return {"reliability_diagram": asdict(result.reliability())}


def _guarantee(guarantees: MethodGuarantees | None) -> dict[str, object] | None:
    if guarantees is None:
        return None
    rows = [
        {
            **{key: value for key, value in vars(row.guarantee).items() if key != "confidence"},
            "judged_kept": row.judged_kept,
            "judged_error": row.judged_error,
            "judged_cost": row.judged_cost,
            "violated": row.is_violated,
        }
        for row in guarantees.rows
    ]
    classes = None if guarantees.classes is None else _classes(guarantees.classes)
    return {**vars(guarantees), "rows": rows, "classes": classes}


def _classes(results: ClassResults) -> dict[str, object]:
    limits = [
        {**vars(limit.guarantee), **vars(limit), "guarantee": limit.guarantee.threshold is not None}
        for limit in results.limits
    ]
    return {"limits": limits, "sets": [vars(sets) for sets in results.sets]}


def _costs(results: CostResults) -> dict[str, object]:
    methods = {
        name: {
            "mean": found.mean.difference,
            "lower": found.mean.lower,
            "upper": found.mean.upper,
            "decided": found.decided,
            "against": {
                other: {"mean": found.others[other], **asdict(difference)}
                for other, difference in found.against.items()
            },
            "curve": {"shares": found.shares, "cost": found.curve},
        }
        for name, found in results.methods.items()
    }
    return {**results.table.model_dump(), "judged": results.judged, "methods": methods}


def _unfamiliar(result: UnfamiliarResult | None) -> dict[str, object] | None:
    if result is None:
        return None
    return {**vars(result), "scores": {key: vars(score) for key, score in result.scores.items()}}


def as_json(value: object) -> object:
    """Return a value in JSON's types, with None for an undefined number.

    Raises:
        TypeError: The value holds something that JSON does not have.
    """
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return as_json(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    raise TypeError(f"metrics.json cannot hold {value!r} of type {type(value).__name__}")
