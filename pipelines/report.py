"""``report.html``: an evaluation for people to read, in one file that needs nothing else.

The report tells what was run, how the methods did, whether differences are larger than chance, whether
probabilities and uncertainties can be trusted, and shows images. It loads nothing: pictures are data URIs,
there is no script.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from itertools import groupby
from pathlib import Path

import cv2
from jinja2 import DictLoader, Environment, StrictUndefined

from data_prep.atomic import atomic_file
from pipelines.bootstrap import PairedDifference
from pipelines.evaluation import Evaluation
from pipelines.figures import (
    confusion_figure,
    referral_figure,
    reliability_figure,
    risk_coverage_figure,
    uncertainty_figure,
)
from pipelines.overlays import Picture, fit_within
from pipelines.results_tables import (
    best_methods,
    format_difference,
    format_memory,
    format_number,
    format_p_value,
    verdict,
)
from pipelines.scores import Score

_LONGEST_SIDE = 360
_JPEG_QUALITY = 85
_TEMPLATES = ("report.html.jinja", "report.css")


@dataclass(frozen=True)
class Panel:
    """One picture of a gallery image.

    Args:
        title: stands under it.
        picture: ``[H, W, 3]``.
        is_photograph: whether it may be compressed with losses.
    """

    title: str
    picture: Picture
    is_photograph: bool = True


@dataclass(frozen=True)
class GalleryImage:
    """One image with its prediction.

    Args:
        name: the image's name.
        captions: what to say of it, as names and texts.
        panels: pictures side by side.
    """

    name: str
    captions: tuple[tuple[str, str], ...]
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class GallerySection:
    """Images shown under one heading.

    Args:
        title: the heading.
        explanation: one sentence: how they were chosen.
        images: the images.
    """

    title: str
    explanation: str
    images: tuple[GalleryImage, ...]


@dataclass(frozen=True)
class LegendEntry:
    """What a colour, or a scale of colours from ``text`` to ``end``, means in the gallery."""

    text: str
    colour: tuple[int, int, int] | None = None
    scale: Picture | None = None
    scale_description: str = ""
    end: str = ""


@dataclass(frozen=True)
class Gallery:
    """The images of a report, and what their colours mean."""

    sections: tuple[GallerySection, ...] = ()
    legend: tuple[LegendEntry, ...] = ()


def write_report(path: Path, title: str, evaluation: Evaluation, gallery: Gallery | None = None) -> None:
    """Writes the report, complete or not at all.

    Args:
        path: the HTML file, in an existing folder.
        title: the heading.
        evaluation: what to report.
        gallery: images to show.

    Raises:
        InputError: the file cannot be written.
    """
    text = render_report(title, evaluation, gallery or Gallery(), datetime.now(UTC))
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def render_report(title: str, evaluation: Evaluation, gallery: Gallery, created: datetime) -> str:
    """The report as HTML; arguments as `write_report`, and the time it states."""
    folder = files("pipelines")
    environment = Environment(
        loader=DictLoader({name: folder.joinpath(name).read_text("utf-8") for name in _TEMPLATES}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    main = evaluation.results[-1]
    return environment.get_template("report.html.jinja").render(
        title=title,
        created=f"{created:%d %B %Y, %H:%M} UTC",
        version=version("gpimaging"),
        application=evaluation.application,
        examples=len(main.statistics.names),
        methods=[result.name for result in evaluation.results],
        main=main.name,
        summary=_summary(evaluation),
        data=list(_flat(evaluation.data)),
        settings=list(_flat(evaluation.settings)),
        details=[
            (result.name, list(_flat(result.details))) for result in evaluation.results if result.details
        ],
        headline=_headline(evaluation),
        groups=_groups(evaluation),
        comparisons=_comparisons(evaluation),
        figures=_figures(evaluation),
        classes=_classes(evaluation),
        gallery=[_section(section) for section in gallery.sections],
        legend=[_legend_entry(entry) for entry in gallery.legend],
        warnings=evaluation.all_warnings,
    )


def _summary(evaluation: Evaluation) -> list[str]:
    """The findings in a few sentences."""
    main = evaluation.results[-1]
    scores = ", ".join(f"{s.title} {format_number(main.scores[s.key])}" for s in evaluation.headline)
    sentences = [f"{main.name}: {scores}."]
    definitions = {score.key: score for score in evaluation.definitions}
    for comparison in evaluation.comparisons:
        titles: dict[str, list[str]] = {"better": [], "worse": [], "no clear difference": [], "undefined": []}
        for key, difference in comparison.differences.items():
            titles[verdict(definitions[key], difference)].append(definitions[key].title)
        parts = [f"{kind} in {', '.join(found)}" for kind, found in titles.items() if found]
        sentences.append(f"{comparison.method} against {comparison.baseline}: {'; '.join(parts)}.")
    return sentences


def _flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as rows of dotted name and text."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        elif isinstance(value, list | tuple):
            yield name, ", ".join(str(item) for item in value) or "none"
        elif isinstance(value, float):
            yield name, f"{value:.6g}"
        else:
            yield name, "none" if value is None else str(value)


def _headline(evaluation: Evaluation) -> dict[str, object]:
    best = {score.key: best_methods(score, evaluation.results) for score in evaluation.headline}
    return {
        "scores": [{"title": score.title, "better": score.better} for score in evaluation.headline],
        "rows": [
            {
                "name": result.name,
                "values": [
                    {
                        "text": format_number(result.scores[score.key]),
                        "best": result.name in best[score.key],
                    }
                    for score in evaluation.headline
                ],
                "seconds": format_number(result.seconds_per_image, 3),
                "memory": format_memory(result.peak_memory_bytes),
            }
            for result in evaluation.results
        ],
    }


def _groups(evaluation: Evaluation) -> list[dict[str, object]]:
    """All scores, by what they are about."""
    return [
        {
            "title": group,
            "scores": [
                {
                    "title": score.title,
                    "better": score.better,
                    "explanation": score.explanation,
                    "values": [
                        {
                            "text": format_number(result.scores[score.key]),
                            "best": result.name in best_methods(score, evaluation.results),
                        }
                        for result in evaluation.results
                    ],
                }
                for score in scores
            ],
        }
        for group, scores in groupby(evaluation.definitions, key=lambda score: score.group)
    ]


def _comparisons(evaluation: Evaluation) -> dict[str, object] | None:
    """One row for each score, one cell for each baseline; None if nothing is compared."""
    if not evaluation.comparisons:
        return None
    compared = evaluation.comparisons[0].differences
    definitions = [score for score in evaluation.definitions if score.key in compared]
    return {
        "method": evaluation.comparisons[0].method,
        "baselines": [comparison.baseline for comparison in evaluation.comparisons],
        "rows": [
            {
                "title": score.title,
                "better": score.better,
                "cells": [_difference(score, c.differences[score.key]) for c in evaluation.comparisons],
            }
            for score in definitions
        ],
    }


def _difference(score: Score, difference: PairedDifference) -> dict[str, str]:
    return {
        "difference": format_difference(difference.difference),
        "lower": format_difference(difference.lower),
        "upper": format_difference(difference.upper),
        "p_value": format_p_value(difference.p_value),
        "verdict": verdict(score, difference),
    }


def _figures(evaluation: Evaluation) -> dict[str, str | None]:
    tells_classes = bool(evaluation.class_names)
    drawn = {
        "reliability": reliability_figure(evaluation.results),
        "risk_coverage": None if tells_classes else risk_coverage_figure(evaluation.results),
        "referral": referral_figure(evaluation.results) if tells_classes else None,
        "uncertainty": uncertainty_figure(evaluation.results[-1]),
    }
    return {key: None if svg is None else _svg_uri(svg) for key, svg in drawn.items()}


def _classes(evaluation: Evaluation) -> dict[str, object] | None:
    """Recall of each class and confusion matrices; None where the report tells no classes apart."""
    if not evaluation.class_names:
        return None
    recalls = [result.recalls() for result in evaluation.results]
    examples = evaluation.results[0].confusion().sum(axis=1)
    return {
        "rows": [
            {
                "name": name,
                "examples": int(examples[index]),
                "recalls": [format_number(recall[index], 3) for recall in recalls],
            }
            for index, name in enumerate(evaluation.class_names)
        ],
        "confusions": [
            {"name": result.name, "source": _svg_uri(confusion_figure(result, evaluation.class_names))}
            for result in evaluation.results
        ],
    }


def _svg_uri(svg: str) -> str:
    return _data_uri(svg.encode(), "image/svg+xml")


def _section(section: GallerySection) -> dict[str, object]:
    return {
        "title": section.title,
        "explanation": section.explanation,
        "images": [
            {
                "name": image.name,
                "scores": image.captions,
                "panels": [
                    {"title": panel.title, "source": (_jpeg if panel.is_photograph else _png)(panel.picture)}
                    for panel in image.panels
                ],
            }
            for image in section.images
        ],
    }


def _legend_entry(entry: LegendEntry) -> dict[str, str | None]:
    return {
        "text": entry.text,
        "colour": None if entry.colour is None else _css_colour(entry.colour),
        "scale": None if entry.scale is None else _png(entry.scale),
        "description": entry.scale_description,
        "end": entry.end,
    }


def _jpeg(picture: Picture) -> str:
    return _encoded(picture, ".jpg", "image/jpeg", [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])


def _png(picture: Picture) -> str:
    return _encoded(picture, ".png", "image/png", [cv2.IMWRITE_PNG_COMPRESSION, 9])


def _encoded(picture: Picture, suffix: str, media_type: str, parameters: list[int]) -> str:
    blue_green_red = fit_within(picture, _LONGEST_SIDE)[..., ::-1]
    encoded = cv2.imencode(suffix, blue_green_red, parameters)[1]
    return _data_uri(encoded.tobytes(), media_type)


def _data_uri(content: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode('ascii')}"


def _css_colour(colour: tuple[int, int, int]) -> str:
    return f"rgb({colour[0]}, {colour[1]}, {colour[2]})"
