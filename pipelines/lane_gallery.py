"""What the report of a lane evaluation shows of single images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipelines import overlays
from pipelines.evaluation import GallerySelection
from pipelines.overlays import Picture
from pipelines.report import Gallery, GalleryImage, GallerySection, LegendEntry, Panel
from pipelines.results_tables import format_number
from pipelines.scores import AnyFloatArray
from pipelines.segmentation_scores import overlap_measures, pixel_confusion


@dataclass(frozen=True)
class LaneImage:
    """One image with its prediction, all at the network's size.

    Args:
        name: the image's name.
        image: ``[H, W, 3]``.
        mask: ``[H, W]`` truth, 0 background, 1 lane, 255 ignored; None where there is none.
        probability: ``[H, W]`` of lane.
        predictive_entropy: ``[H, W]``, nats.
    """

    name: str
    image: Picture
    mask: Picture | None
    probability: AnyFloatArray
    predictive_entropy: AnyFloatArray


def lane_gallery(selection: GallerySelection, images: Mapping[str, LaneImage]) -> Gallery:
    """The best, worst and most uncertain images, under their headings.

    Args:
        selection: from `pipelines.evaluation.select_gallery`.
        images: name to image, for every name in ``selection.names``.
    """
    kinds = (
        ("Best images", "The highest F-measures, among images that have a lane.", selection.best),
        ("Worst images", "The lowest F-measures.", selection.worst),
        ("Most uncertain images", "The highest mean predictive entropy.", selection.most_uncertain),
    )
    sections = [
        GallerySection(title, explanation, tuple(gallery_image(images[name]) for name in names))
        for title, explanation, names in kinds
        if names
    ]
    return Gallery(tuple(sections), _legend())


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
    """The image, the truth, the prediction and its maps side by side, with the image's scores."""
    return GalleryImage(image.name, _captions(image), _panels(image))


def _captions(image: LaneImage) -> tuple[tuple[str, str], ...]:
    """The image's overlap with the truth, if there is one, and its uncertainty."""
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
    return tuple(panels)
