"""Single images in the report of a lane evaluation and in TensorBoard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.lane.dataset import lane_records
from data_prep.lane.manifest import LaneManifest
from gpmodels import HybridModel
from gpmodels.familiarity.flags import flagged
from pipelines.scores import pictures as overlays
from pipelines.scores.definitions import AnyFloatArray, FloatArray
from pipelines.scores.pictures import Picture
from pipelines.scores.report import (
    UNFAMILIAR_TEXT,
    Gallery,
    GalleryImage,
    LegendEntry,
    Panel,
    gallery_sections,
)
from pipelines.scores.results import MethodResult
from pipelines.scores.segmentation import overlap_measures, pixel_confusion
from pipelines.scores.tables import format_number
from pipelines.scores.uncertainty import PREDICTIVE_ENTROPY


@dataclass(frozen=True)
class GallerySelection:
    """Names of the images worth looking at.

    Attributes:
        best: Highest F-measure first, among images with lane in the truth.
        worst: Lowest F-measure first.
        most_uncertain: Highest mean predictive entropy first.
        unfamiliar: What is unlike all that the training showed, the least familiar first.
    """

    best: tuple[str, ...]
    worst: tuple[str, ...]
    most_uncertain: tuple[str, ...]
    unfamiliar: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names, each once."""
        return tuple(dict.fromkeys((*self.best, *self.worst, *self.most_uncertain, *self.unfamiliar)))


def select_gallery(result: MethodResult, count: int = 3) -> GallerySelection:
    """Choose the images to show of a segmentation result; equal ones in the order of names.

    Args:
        result: Result of the method whose predictions are shown.
        count: Number of images of each kind.
    """
    rows = result.statistics.dense
    names = np.array(result.statistics.names)
    scored = rows["scored_images"] > 0
    has_lane = scored & (rows["pixels"][:, 1, :].sum(axis=-1) > 0)
    f_measure = rows["image_f_measure"]
    entropy = rows[f"{PREDICTIVE_ENTROPY}/total"] / np.maximum(rows["count"], 1.0)

    def first(key: FloatArray, allowed: NDArray[np.bool_]) -> tuple[str, ...]:
        candidates = np.flatnonzero(allowed)
        order = np.lexsort((names[candidates], key[candidates]))
        return tuple(names[candidates[order[:count]]].tolist())

    return GallerySelection(first(-f_measure, has_lane), first(f_measure, scored), first(-entropy, scored))


@dataclass(frozen=True)
class LaneImage:
    """One image with its prediction, all at the network's size.

    Attributes:
        name: The image's name.
        image: `[H, W, 3]`.
        mask: True labels `[H, W]`: 0 background, 1 lane, 255 ignored; None if unknown.
        probability: Probability of lane `[H, W]`.
        predictive_entropy: Predictive entropy `[H, W]`, nats.
        familiarity: Familiarity `[H, W]`; None of a method that does not say.
    """

    name: str
    image: Picture
    mask: Picture | None
    probability: AnyFloatArray
    predictive_entropy: AnyFloatArray
    familiarity: AnyFloatArray | None = None


def lane_gallery(selection: GallerySelection, images: Mapping[str, LaneImage]) -> Gallery:
    """Return images worth looking at under their headings.

    Args:
        selection: Names from `select_gallery`.
        images: Image of every name in `selection.names`.
    """
    kinds = (
        ("Best images", "The highest F-measures, among images that have a lane.", selection.best),
        ("Worst images", "The lowest F-measures.", selection.worst),
        ("Most uncertain images", "The highest mean predictive entropy.", selection.most_uncertain),
        ("Unfamiliar images", UNFAMILIAR_TEXT, selection.unfamiliar),
    )
    shown = {name: gallery_image(image) for name, image in images.items()}
    return Gallery(gallery_sections(kinds, shown), _legend())


def _legend() -> tuple[LegendEntry, ...]:
    return (
        LegendEntry("lane, found", overlays.LANE_COLOUR),
        LegendEntry("lane, missed", overlays.MISSED_COLOUR),
        LegendEntry("not lane, but predicted", overlays.FALSE_COLOUR),
        LegendEntry("ignored", overlays.IGNORED_COLOUR),
        LegendEntry(
            "probability 0",
            scale=overlays.colour_scale(overlays.PROBABILITY_COLOURS),
            scale_description="dark blue to yellow",
            end="1",
        ),
        LegendEntry(
            "uncertainty 0",
            scale=overlays.colour_scale(overlays.UNCERTAINTY_COLOURS),
            scale_description="black to light yellow",
            end=f"{format_number(overlays.ENTROPY_LIMIT, 2)} nats",
        ),
    )


def gallery_image(image: LaneImage) -> GalleryImage:
    """Return the image, the truth, the prediction and its maps side by side, with the image's scores."""
    return GalleryImage(image.name, _captions(image), _panels(image))


def _captions(image: LaneImage) -> tuple[tuple[str, str], ...]:
    """Return the image's overlap with the truth, if this is known, and its uncertainty."""
    entropy = ("mean entropy", f"{format_number(float(image.predictive_entropy.mean()), 3)} nats")
    if image.mask is None:
        return (entropy,)
    measures = overlap_measures(pixel_confusion(image.mask, image.probability))
    shown = (("F-measure", "f_measure"), ("recall", "recall"), ("precision", "precision"), ("IoU", "iou"))
    return (*((title, format_number(float(measures[key]), 3)) for title, key in shown), entropy)


def _panels(image: LaneImage) -> tuple[Panel, ...]:
    lane = image.probability > 0.5
    panels = [Panel("Input", image.image)]
    if image.mask is None:
        panels.append(Panel("Prediction", overlays.lane_overlay(image.image, lane)))
    else:
        panels.append(Panel("Truth", overlays.truth_overlay(image.image, image.mask)))
        panels.append(Panel("Prediction", overlays.error_overlay(image.image, lane, image.mask)))
    probability = overlays.probability_picture(image.probability)
    uncertainty = overlays.uncertainty_picture(image.predictive_entropy)
    panels.append(Panel("Probability", probability, is_photograph=False))
    panels.append(Panel("Uncertainty", uncertainty, is_photograph=False))
    if image.familiarity is not None:
        unfamiliar = overlays.unfamiliar_outline(image.image, flagged(image.familiarity))
        panels.append(Panel("Unfamiliar, in red", unfamiliar))
    return tuple(panels)


class LanePanels:
    """Draws input, truth, probability and uncertainty side by side, for TensorBoard.

    Args:
        data: Prepared folder.
        manifest: Manifest of the folder.
        names: Names of the images to choose from, evenly spaced over their order.
        count: Number of images.
    """

    def __init__(self, data: Path, manifest: LaneManifest, names: Sequence[str], count: int) -> None:
        places = np.linspace(0, len(names) - 1, min(count, len(names)), dtype=int)
        self._records = list(lane_records(data, manifest, [names[place] for place in places]))

    def __call__(self, model: HybridModel) -> dict[str, Picture]:
        """Return a model's pictures by tag, `images/<name>`."""
        pictures = {}
        for name, image, mask, _ in self._records:
            maps = model(tf.constant(image[None], tf.float32), training=False)
            pictures[f"images/{name}"] = overlays.side_by_side(
                [
                    image,
                    overlays.truth_overlay(image, mask),
                    overlays.probability_picture(maps["probability"].numpy()[0]),
                    overlays.uncertainty_picture(maps["predictive_entropy"].numpy()[0]),
                ]
            )
        return pictures
