"""What is looked at: examples with their features, pictures, classes and groups, wherever they come from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from data_prep.errors import InputError, Skipped
from data_prep.explore.quality import Quality, poor_images
from data_prep.labelled.near_duplicates import (
    LEAST_CORRELATION,
    difference_hashes,
    duplicate_pairs,
    small_grey,
)
from data_prep.splits.settings import DUPLICATE_DISTANCE
from pipelines.explore.settings import ExploreSettings
from pipelines.scores.pictures import Picture

PIXEL_SIZE = (32, 32)
"""Height and width at which images are compared by their pixels, where the settings give none."""

FEWEST_EXAMPLES = 5
"""Fewer examples are no data set to be odd in."""

_TINT = 8  # grey levels between the channels from which a pixel counts as coloured
_COLOURED_SHARE = 0.02  # of the pixels of all images, from which colour is looked at

Scale = Literal["common", "columns"]
"""Whether all features keep their proportions, or each is standardised by itself."""


@dataclass(frozen=True)
class Features:
    """Numbers by which N examples are compared.

    Attributes:
        values: float64 `[N, D]`.
        scale: How they are scaled before the model sees them.
        words: What they are.
        are_pixels: Whether they are the levels of pixels, which hardly describe what photographs show.
    """

    values: NDArray[np.float64]
    scale: Scale
    words: str
    are_pixels: bool = False


@dataclass(frozen=True)
class Examples:
    """N examples of a data set.

    Attributes:
        files: Name of each: the path of its file, or its name in the prepared folder.
        classes: Class of each by name; None where the data have no classes.
        groups: Group of each; None where the data have none.
        pictures: Picture of each, at most `data_prep.explore.folders.THUMBNAIL_SIDE` long.
        features: What they are compared by.
        qualities: Measures of each image; None where the data are features without images.
        skipped: What was left out.
        notes: What a person should know of how they were read, in whole sentences.
    """

    files: tuple[str, ...]
    classes: tuple[str, ...] | None
    groups: tuple[str, ...] | None
    pictures: Sequence[Picture]
    features: Features
    qualities: Sequence[Quality] | None = None
    skipped: Sequence[Skipped] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def poor(self) -> Mapping[str, list[int]]:
        """For each way in which images can be poor the rows of those that may be, the worst first."""
        return {} if self.qualities is None else poor_images(self.qualities)

    @cached_property
    def contradictions(self) -> list[tuple[int, int]]:
        """Rows of pairs of pictures that look the same, or nearly so, and have different classes."""
        if self.classes is None:
            return []
        levels = [grey(picture).astype(np.float32) for picture in self.pictures]
        pairs = duplicate_pairs(
            np.stack([difference_hashes(one) for one in levels]),
            DUPLICATE_DISTANCE,
            np.stack([small_grey(one) for one in levels]),
            least_correlation=LEAST_CORRELATION,
        )
        return [(one, other) for one, other in pairs.tolist() if self.classes[one] != self.classes[other]]


def drawn_rows(number: int, settings: ExploreSettings) -> list[int]:
    """Return the rows that are looked at: all, or as many as the settings allow, drawn at random."""
    if number <= settings.max_examples:
        return list(range(number))
    chosen = np.random.default_rng(settings.seed).choice(number, settings.max_examples, replace=False)
    return sorted(chosen.tolist())


def drawing_note(number: int, settings: ExploreSettings) -> tuple[str, ...]:
    """Return what to say where not all examples are looked at."""
    if number <= settings.max_examples:
        return ()
    note = (
        f"{settings.max_examples} of {number} examples were drawn at random (max_examples); the others are "
        "not on the page."
    )
    return (note,)


def require_enough(number: int, what: str) -> None:
    """Raise `InputError` where there are too few examples to compare with each other."""
    if number < FEWEST_EXAMPLES:
        raise InputError(
            f"{what}: {number} examples can be used; expected at least {FEWEST_EXAMPLES} to compare with "
            "each other. Add some."
        )


def pixel_features(images: NDArray[np.uint8], features: str, size: tuple[int, int]) -> Features:
    """Return the pixels of images as features from 0 to 1.

    Args:
        images: uint8 `[N, *size, 3]`, or `[N, frames, *size, 3]` of clips.
        features: `"grey"`, `"colour"`, or `"auto"` for colour where the images have any.
        size: Height and width, to say it.
    """
    in_colour = features == "colour" or (features == "auto" and is_coloured(images))
    levels: NDArray[Any] = images if in_colour else grey(images)
    frames = f"{images.shape[1]} frames of " if images.ndim == 5 else ""
    words = f"{'colours' if in_colour else 'grey levels'} of {frames}{size[0]} x {size[1]} pixels"
    return Features(levels.reshape(len(images), -1) / 255.0, "common", words, are_pixels=True)


def is_coloured(images: NDArray[np.uint8]) -> bool:
    """Whether images `[..., 3]` have more than a touch of colour."""
    tint = images.max(axis=-1) - images.min(axis=-1)  # unsigned, and never negative
    return bool((tint > _TINT).mean() > _COLOURED_SHARE)


def grey(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the luminance of images `[..., 3]`."""
    flat = images.reshape(-1, 1, 3)
    return np.asarray(cv2.cvtColor(flat, cv2.COLOR_RGB2GRAY), np.uint8).reshape(images.shape[:-1])
