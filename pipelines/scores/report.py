"""`report.html`: an evaluation for people to read, in one file that needs nothing else.

The report says what was run, how the methods did, whether differences are larger than chance and whether
probabilities and uncertainties can be trusted, and shows images. It loads nothing: pictures are data URIs,
there is no script.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Final

import numpy as np

from data_prep.files.atomic import write_text
from data_prep.files.fitting import fit_within
from pipelines.scores.definitions import format_share
from pipelines.scores.figures import (
    confusion_figure,
    costs_figure,
    referral_figure,
    reliability_figure,
    risk_coverage_figure,
    shifts_figure,
    uncertainty_figure,
)
from pipelines.scores.guarantees import MethodGuarantees
from pipelines.scores.inline import jpeg_uri, page_environment, png_uri, svg_uri
from pipelines.scores.number_figures import pit_figure, scatter_figure
from pipelines.scores.numbers import NumberResult
from pipelines.scores.pictures import Picture
from pipelines.scores.results import Evaluation
from pipelines.scores.tables import (
    PEAK_MEMORY,
    best_methods,
    class_sentence,
    cost_sentences,
    format_difference,
    format_memory,
    format_number,
    format_p_value,
    kept_sentence,
    referral_sentence,
    verdict,
)
from pipelines.scores.unfamiliar_scores import SCORE_TITLES

_LONGEST_SIDE = 360
_TEMPLATES = ("report.html.jinja", "report_numbers.html.jinja", "report.css")
_VERDICTS = ("better", "worse", "no clear difference", "undefined")


@dataclass(frozen=True)
class Panel:
    """One picture of a gallery image.

    Attributes:
        title: The line under the picture.
        picture: `[H, W, 3]`.
        is_photograph: Whether it may be compressed with losses.
    """

    title: str
    picture: Picture
    is_photograph: bool = True


@dataclass(frozen=True)
class GalleryImage:
    """One image with its prediction.

    Attributes:
        name: The image's name.
        captions: What to say about it, as names and texts.
        panels: Pictures side by side.
    """

    name: str
    captions: tuple[tuple[str, str], ...]
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class GallerySection:
    """Images shown under one heading.

    Attributes:
        title: The heading.
        explanation: One sentence on how they were chosen.
        images: The images.
    """

    title: str
    explanation: str
    images: tuple[GalleryImage, ...]


@dataclass(frozen=True)
class LegendEntry:
    """What a colour, or a scale of colours from `text` to `end`, means in the gallery."""

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


UNFAMILIAR_TEXT: Final = "Unlike all that the training showed: predict refers them."
"""What a report says of unfamiliar examples."""


def gallery_sections(
    kinds: Iterable[tuple[str, str, Sequence[str]]], images: Mapping[str, GalleryImage]
) -> tuple[GallerySection, ...]:
    """Return a section for each kind of images that has any.

    Args:
        kinds: Title, explanation and names of the images of each kind.
        images: Image of every name.
    """
    return tuple(
        GallerySection(title, explanation, tuple(images[name] for name in names))
        for title, explanation, names in kinds
        if names
    )


def write_report(path: Path, title: str, evaluation: Evaluation, gallery: Gallery | None = None) -> None:
    """Write the report, complete or not at all.

    Args:
        path: The HTML file, in an existing folder.
        title: The heading.
        evaluation: The evaluation to report.
        gallery: The images to show.

    Raises:
        InputError: The file cannot be written.
    """
    text = render_report(title, evaluation, gallery or Gallery(), datetime.now(UTC))
    write_text(path, text)


def render_report(title: str, evaluation: Evaluation, gallery: Gallery, created: datetime) -> str:
    """Return the report as HTML; arguments as `write_report`, and the time that it states."""
    environment = page_environment(dict.fromkeys(_TEMPLATES, "pipelines.scores"))
    environment.filters |= {
        "number": format_number,
        "difference": format_difference,
        "p_value": format_p_value,
        "memory": format_memory,
        "share": format_share,
        "rows": _rows,
        "jpeg": _jpeg,
        "png": _png,
    }
    chosen = evaluation.chosen_guarantees
    marks = () if chosen is None else _marks(chosen[1])
    marked = evaluation.main.name if marks and chosen and chosen[0] == evaluation.main.name else ""
    by_group = groupby(evaluation.definitions, key=lambda score: score.group)
    return environment.get_template("report.html.jinja").render(
        title=title,
        created=f"{created:%d %B %Y, %H:%M} UTC",
        version=version("gpimaging"),
        evaluation=evaluation,
        results=evaluation.results,
        main=evaluation.main,
        first=[text for text in _answers(evaluation) if text],
        strip=[(section.title, section.images[0]) for section in gallery.sections],
        marked=marked,
        of_classes=None if chosen is None else chosen[1].classes,
        summary=_summary(evaluation),
        best={score.key: best_methods(score, evaluation.results) for score in evaluation.definitions},
        groups=[(group, list(scores)) for group, scores in by_group],
        peak_memory=PEAK_MEMORY,
        score_titles=SCORE_TITLES,
        verdict=verdict,
        figures=_figures(evaluation, marks if marked else ()),
        **_classes(evaluation),
        gallery=gallery,
        otherwise=_otherwise(evaluation),
    )


def _answers(evaluation: Evaluation) -> tuple[str, ...]:
    """Return what a reader wants to know first, in sentences."""
    sentences = (kept_sentence, referral_sentence, class_sentence)
    answers = (sentence(evaluation) for sentence in sentences)
    return (evaluation.choice, *answers, *cost_sentences(evaluation))


def _marks(guarantees: MethodGuarantees) -> tuple[tuple[float, float], ...]:
    """Return the shares of the judged that guaranteed thresholds keep, and the error among these."""
    rows = ((row.judged_kept, row.judged_error) for row in guarantees.rows)
    return tuple((kept, error) for kept, error in rows if math.isfinite(error))


def _summary(evaluation: Evaluation) -> list[str]:
    """Return the findings in a few sentences."""
    main = evaluation.main
    scores = ", ".join(f"{s.title} {format_number(main.scores[s.key])}" for s in evaluation.headline)
    sentences = [f"{main.name}: {scores}."]
    definitions = {score.key: score for score in evaluation.definitions}
    for comparison in evaluation.comparisons:
        titles: dict[str, list[str]] = {kind: [] for kind in _VERDICTS}
        for key, difference in comparison.differences.items():
            titles[verdict(definitions[key], difference)].append(definitions[key].title)
        parts = [f"{kind} in {', '.join(found)}" for kind, found in titles.items() if found]
        sentences.append(f"{comparison.method} against {comparison.baseline}: {'; '.join(parts)}.")
    return sentences


def _otherwise(evaluation: Evaluation) -> list[str]:
    """Return the other ways to decide with which the costs of any method are compared."""
    found = (costs for one in evaluation.all_costs.values() for costs in one.methods.values())
    return list(dict.fromkeys(name for costs in found for name in costs.others))


def _rows(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested settings as rows of dotted name and text."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _rows(value, f"{name}.")
        elif isinstance(value, list | tuple):
            yield name, ", ".join(str(item) for item in value) or "none"
        elif isinstance(value, float):
            yield name, f"{value:.6g}"
        else:
            yield name, "none" if value is None else str(value)


def _figures(evaluation: Evaluation, marks: Sequence[tuple[float, float]]) -> dict[str, str | None]:
    """Return the figures as data URIs; None for one that says nothing here."""
    tells_classes, main = bool(evaluation.class_names), evaluation.main
    results = sorted(evaluation.results, key=lambda result: result is main)  # the last line stands out
    shifted = dict(sorted(evaluation.shifted.items(), key=lambda entry: entry[0] == main.name))
    numbers = [result for result in results if isinstance(result, NumberResult)]
    drawn = {
        "reliability": None if numbers else reliability_figure(results),
        "scatter": scatter_figure(numbers[-1]) if numbers else None,
        "pit": pit_figure(numbers) if numbers else None,
        "risk_coverage": None if tells_classes else risk_coverage_figure(results, marks),
        "referral": referral_figure(results, marks) if tells_classes else None,
        "uncertainty": uncertainty_figure(main),
        "shifts": shifts_figure(shifted),
        **{f"costs {name}": costs_figure(one, main.name) for name, one in evaluation.all_costs.items()},
    }
    return {key: None if svg is None else svg_uri(svg) for key, svg in drawn.items()}


def _classes(evaluation: Evaluation) -> dict[str, object]:
    """Return recall and precision of each class, and the confusion matrix; empty without separate classes."""
    names = evaluation.class_names
    if not names:
        return {"classes": [], "confusion": None}
    confusion = evaluation.main.confusion()
    with np.errstate(invalid="ignore"):
        precisions = np.diag(confusion) / confusion.sum(axis=0)  # of a class that is never given: NaN
    examples = confusion.sum(axis=1).astype(int)
    return {
        "classes": list(zip(names, examples, evaluation.main.recalls(), precisions.tolist(), strict=True)),
        "confusion": svg_uri(confusion_figure(evaluation.main, names)),
    }


def _jpeg(picture: Picture) -> str:
    return jpeg_uri(fit_within(picture, _LONGEST_SIDE))


def _png(picture: Picture) -> str:
    return png_uri(fit_within(picture, _LONGEST_SIDE))
