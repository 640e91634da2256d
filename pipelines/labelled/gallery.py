"""Which classified images a report shows, and what it says about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpmodels.familiarity.flags import is_unfamiliar
from pipelines.bundles.metadata import FAMILIARITY
from pipelines.scores.pictures import OTHER_COLOUR, TRUE_COLOUR, Outputs, Picture, enlarged, probability_bars
from pipelines.scores.report import (
    UNFAMILIAR_TEXT,
    Gallery,
    GalleryImage,
    LegendEntry,
    Panel,
    gallery_sections,
)
from pipelines.scores.results import MethodResult
from pipelines.scores.tables import format_number
from pipelines.scores.uncertainty import PREDICTIVE_ENTROPY


@dataclass(frozen=True)
class LabelledSelection:
    """Names of the images worth looking at.

    Attributes:
        confidently_wrong: Wrong predictions, the highest confidence first.
        most_uncertain: The highest predictive entropy first.
        most_certain: Right predictions, the lowest predictive entropy first.
        unfamiliar: What is unlike all that the training showed, the least familiar first.
    """

    confidently_wrong: tuple[str, ...]
    most_uncertain: tuple[str, ...]
    most_certain: tuple[str, ...]
    unfamiliar: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names, each once."""
        kinds = (self.confidently_wrong, self.most_uncertain, self.unfamiliar, self.most_certain)
        return tuple(dict.fromkeys(name for names in kinds for name in names))


def select_labelled(result: MethodResult, count: int) -> LabelledSelection:
    """Choose the images to show of a classification result; equal ones in the order of names.

    Args:
        result: Result of the method whose predictions are shown, with one prediction for each record.
        count: Number of images of each kind.
    """
    rows = result.statistics.dense
    names = np.array(result.statistics.names)
    wrong = np.flatnonzero(rows["correct"] == 0)
    confidence = rows["calibration/confidence"].sum(axis=1)
    by_confidence = wrong[np.lexsort((names[wrong], -confidence[wrong]))]
    entropy = rows[f"{PREDICTIVE_ENTROPY}/total"]
    uncertain, certain = np.lexsort((names, -entropy)), np.lexsort((names, entropy))
    right = certain[rows["correct"][certain] > 0]
    first = (tuple(names[order[:count]].tolist()) for order in (by_confidence, uncertain, right))
    return LabelledSelection(*first)


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
    """Return images worth looking at under their headings.

    Args:
        selection: Names from `select_labelled`.
        images: Image of every name in `selection.names`.
        class_names: Names of the classes in the order of the labels.
        judged: What is judged, in the plural.
    """
    kinds = (
        (
            "Confidently wrong",
            "Wrong predictions, the highest confidence first.",
            selection.confidently_wrong,
        ),
        (f"Most uncertain {judged}", "The highest predictive entropy.", selection.most_uncertain),
        (
            f"Unfamiliar {judged}",
            UNFAMILIAR_TEXT,
            selection.unfamiliar,
        ),
        ("Most certain and right", "Right predictions, the lowest entropy.", selection.most_certain),
    )
    shown = {name: _gallery_image(image, class_names) for name, image in images.items()}
    legend = (
        LegendEntry("probability of the true class", TRUE_COLOUR),
        LegendEntry("of the other classes", OTHER_COLOUR),
    )
    return Gallery(gallery_sections(kinds, shown), legend)


def _gallery_image(image: LabelledImage, class_names: Sequence[str]) -> GalleryImage:
    probability = image.outputs["probability"]
    predicted = int(probability.argmax())
    captions = (
        ("true class", class_names[image.label]),
        ("predicted", f"{class_names[predicted]} ({format_number(float(probability[predicted]), 3)})"),
        ("entropy", f"{format_number(float(image.outputs[PREDICTIVE_ENTROPY]), 3)} nats"),
        ("mutual information", f"{format_number(float(image.outputs['mutual_information']), 3)} nats"),
        *_familiarity_caption(image.outputs),
    )
    panels = (
        Panel("Image", enlarged(image.image), is_photograph=False),
        Panel("Probabilities", probability_bars(probability, image.label, class_names), is_photograph=False),
    )
    return GalleryImage(image.name, captions, panels)


def _familiarity_caption(outputs: Outputs) -> tuple[tuple[str, str], ...]:
    """Return what to say of how familiar an example is; nothing of a method that does not say."""
    if FAMILIARITY not in outputs:
        return ()
    familiarity = float(outputs[FAMILIARITY])
    flag = " (unfamiliar)" if is_unfamiliar(familiarity) else ""
    return (("familiarity", f"{format_number(familiarity, 3)}{flag}"),)
