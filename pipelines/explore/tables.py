"""`embedding.csv` and `metrics.json`: what the page shows, for other programs."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data_prep.files.atomic import atomic_file
from data_prep.files.tables import write_table
from pipelines.explore.page import Findings
from pipelines.explore.settings import ExploreSettings

EMBEDDING = "embedding.csv"


def write_embedding(path: Path, findings: Findings) -> None:
    """Write a row for each example: file, class, group, position, score, suspicion and more.

    Positions and deviations are those of all dimensions, the most relevant first. A cell is empty where the
    data have no classes or groups, or where there are no neighbours or predictions.

    Raises:
        InputError: The file cannot be written.
    """
    dimensions = range(1, findings.latent.position.shape[1] + 1)
    header = [
        *("file", "class", "group"),
        *(f"position_{number}" for number in dimensions),
        *(f"std_{number}" for number in dimensions),
        *("score", "oddness_rank", "suspicion", "neighbours_class", "predicted", "model_error", "poor"),
    ]
    write_table(path, header, _rows(findings))


def _rows(findings: Findings) -> Iterator[list[object]]:
    examples, latent, suspicion = findings.examples, findings.latent, findings.suspicion
    names = sorted(set(examples.classes or ()))
    poor = {way: frozenset(rows) for way, rows in examples.poor.items()}
    for row, file in enumerate(examples.files):
        suggested = -1 if suspicion is None else int(suspicion.suggested[row])
        yield [
            file,
            None if examples.classes is None else examples.classes[row],
            None if examples.groups is None else examples.groups[row],
            *map(float, latent.position[row]),
            *map(float, latent.std[row]),
            float(latent.score[row]),
            int(latent.oddness_rank[row]),
            None if suspicion is None or suggested < 0 else float(suspicion.share[row]),
            None if suggested < 0 else names[suggested],
            None if findings.predicted is None else findings.predicted.label[row],
            None if findings.predicted is None else _known(float(findings.predicted.error[row])),
            "; ".join(way for way, rows in poor.items() if row in rows) or None,
        ]


def write_findings(path: Path, findings: Findings, settings: ExploreSettings) -> None:
    """Write what was found in numbers, and the settings.

    Raises:
        InputError: The file cannot be written.
    """
    text = json.dumps(metrics(findings, settings), indent=2, allow_nan=False) + "\n"
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def metrics(findings: Findings, settings: ExploreSettings) -> dict[str, Any]:
    """Return what was found in numbers."""
    examples, latent, suspicion = findings.examples, findings.latent, findings.suspicion
    return {
        "examples": len(examples.files),
        "classes": None if examples.classes is None else len(set(examples.classes)),
        "groups": None if examples.groups is None else len(set(examples.groups)),
        "skipped": len(examples.skipped),
        "notes": list(findings.notes),
        "features": examples.features.words,
        "num_features": examples.features.values.shape[1],
        "relevance": latent.relevance.tolist(),
        "relevant_dimensions": latent.num_relevant,
        "mean_score": float(latent.score.mean()),
        "oddest": [examples.files[row] for row in findings.oddest[: settings.shown]],
        "neighbours_agree": None if suspicion is None else _known(suspicion.agreement),
        "commonest_class": None if suspicion is None else suspicion.commonest,
        "suspects": []
        if suspicion is None
        else [examples.files[row] for row in suspicion.suspects[: settings.shown]],
        "num_suspects": None if suspicion is None else len(suspicion.suspects),
        "contradictions": [[examples.files[row] for row in pair] for pair in examples.contradictions],
        "poor": {way: len(rows) for way, rows in examples.poor.items()},
        "seconds": latent.seconds,
        "settings": settings.model_dump(mode="json"),
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
