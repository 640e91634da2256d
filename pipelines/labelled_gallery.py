"""Which classified images a report shows, and what it says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.class_pictures import OTHER_COLOUR, TRUE_COLOUR, enlarged, probability_bars
from pipelines.evaluation import MethodResult
from pipelines.overlays import Picture
from pipelines.predictors import Outputs
from pipelines.report import Gallery, GalleryImage, GallerySection, LegendEntry, Panel
from pipelines.results_tables import format_number
from pipelines.uncertainty_scores import PREDICTIVE_ENTROPY


@dataclass(frozen=True)
class LabelledSelection:
    """Names of the images worth looking at.

    Args:
        confidently_wrong: wrong predictions, the highest confidence first.
        most_uncertain: the highest predictive entropy first.
    """

    confidently_wrong: tuple[str, ...]
    most_uncertain: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((*self.confidently_wrong, *self.most_uncertain)))


def select_labelled(result: MethodResult, count: int) -> LabelledSelection:
    """Picks the images to show of a classification result; equal ones in name order.

    Args:
        result: of the method whose predictions will be shown, one prediction for each record.
        count: how many of each kind.
    """
    rows = result.statistics.dense
    names = np.array(result.statistics.names)
    wrong = np.flatnonzero(rows["correct"] == 0)
    confidence = rows["calibration/confidence"].sum(axis=1)
    by_confidence = wrong[np.lexsort((names[wrong], -confidence[wrong]))]
    by_entropy = np.lexsort((names, -rows[f"{PREDICTIVE_ENTROPY}/total"]))
    return LabelledSelection(
        tuple(names[by_confidence[:count]].tolist()), tuple(names[by_entropy[:count]].tolist())
    )


@dataclass(frozen=True)
class LabelledImage:
    """One image, its true class and what was predicted."""

    name: str
    image: Picture
    label: int
    outputs: Outputs


def labelled_gallery(
    selection: LabelledSelection,
    images: Mapping[str, LabelledImage],
    class_names: Sequence[str],
    *,
    judged: str = "images",
) -> Gallery:
    """Confidently wrong and most uncertain images, under their headings.

    Args:
        selection: from `select_labelled`.
        images: name to image, for every name in ``selection.names``.
        class_names: in the order of the labels.
        judged: what one of them is, in the plural.
    """
    kinds = (
        (
            "Confidently wrong",
            "Wrong predictions, the highest confidence first.",
            selection.confidently_wrong,
        ),
        (f"Most uncertain {judged}", "The highest predictive entropy.", selection.most_uncertain),
    )
    sections = tuple(
        GallerySection(title, why, tuple(_gallery_image(images[name], class_names) for name in names))
        for title, why, names in kinds
        if names
    )
    legend = (
        LegendEntry("probability of the true class", TRUE_COLOUR),
        LegendEntry("of the others, in the order of the table of classes", OTHER_COLOUR),
    )
    return Gallery(sections, legend)


def _gallery_image(image: LabelledImage, class_names: Sequence[str]) -> GalleryImage:
    probability = image.outputs["probability"]
    predicted = int(probability.argmax())
    captions = (
        ("true class", class_names[image.label]),
        ("predicted", f"{class_names[predicted]} ({format_number(float(probability[predicted]), 3)})"),
        ("entropy", f"{format_number(float(image.outputs[PREDICTIVE_ENTROPY]), 3)} nats"),
        ("mutual information", f"{format_number(float(image.outputs['mutual_information']), 3)} nats"),
    )
    panels = (
        Panel("Image", enlarged(image.image), is_photograph=False),
        Panel("Probabilities", probability_bars(probability, image.label), is_photograph=False),
    )
    return GalleryImage(image.name, captions, panels)
