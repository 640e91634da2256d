"""``metrics.json``: every number of an evaluation, under keys that stay.

    schema_version, application, data, settings, warnings
    scores       key -> title, group, better ("higher" | "lower"), explanation
    methods      name -> scores (key -> number | null), counts, seconds_per_image, peak_memory_bytes, details,
                 reliability_diagram, risk_coverage_curve
                 Where classes are told apart also recalls (class -> number | null) and confusion (rows true,
                 columns predicted class, in the order of the recalls).
    comparisons  [method, baseline, scores (key -> difference, lower, upper, p_value, resamples)]

A number that is undefined is null, never NaN, which is no JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.atomic import atomic_file
from data_prep.errors import InputError
from pipelines.evaluation import Evaluation, MethodResult

METRICS_SCHEMA_VERSION = 1


def write_metrics(path: Path, evaluation: Evaluation) -> None:
    """Writes ``metrics.json``, complete or not at all.

    Args:
        path: the file, in an existing folder.
        evaluation: what to write.

    Raises:
        InputError: the file cannot be written.
        TypeError: settings or data hold something that JSON does not have.
    """
    text = json.dumps(metrics_content(evaluation), indent=2, ensure_ascii=False, allow_nan=False)
    with atomic_file(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def metrics_content(evaluation: Evaluation) -> dict[str, object]:
    """What `write_metrics` writes, as JSON's types."""
    content = {
        "schema_version": METRICS_SCHEMA_VERSION,
        "application": evaluation.application,
        "data": evaluation.data,
        "settings": evaluation.settings,
        "warnings": evaluation.all_warnings,
        "scores": {
            score.key: {
                "title": score.title,
                "group": score.group,
                "better": score.better,
                "explanation": score.explanation,
            }
            for score in evaluation.definitions
        },
        "methods": {result.name: _method(result, evaluation.class_names) for result in evaluation.results},
        "comparisons": [
            {
                "method": comparison.method,
                "baseline": comparison.baseline,
                "scores": {key: asdict(difference) for key, difference in comparison.differences.items()},
            }
            for comparison in evaluation.comparisons
        ],
    }
    return {key: _plain(value) for key, value in content.items()}


def read_metrics(path: Path) -> dict[str, Any]:
    """Contents of a ``metrics.json``.

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
        "reliability_diagram": asdict(result.reliability()),
        "risk_coverage_curve": None if curve is None else asdict(curve),
    }


def _plain(value: object) -> object:
    """The value in JSON's types, undefined numbers as None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    raise TypeError(f"metrics.json cannot hold {value!r} of type {type(value).__name__}")
