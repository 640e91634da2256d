"""`gpimaging explore --complete`: missing pixels of small images, filled in by what the other images show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import cv2
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from data_prep.errors import InputError, Skipped
from data_prep.explore.masked import MaskedImage, read_masked_images
from data_prep.prepared.preparing import Progress
from pipelines.command.console import stage_bars
from pipelines.explore.examples import is_coloured, require_enough
from pipelines.explore.latent import Floats, fit_model, make_model
from pipelines.explore.settings import OWN_FEATURES, ExploreSettings

_LEVELS = 255.0


@dataclass(frozen=True)
class Completed:
    """Images whose missing pixels were filled in, all of one size.

    Attributes:
        images: The N images as they were read.
        mean: Grey levels or colours from 0 to 255 `[N, H, W, channels]`; the known pixels are as given.
        std: Standard deviations in the same units; 0 where a pixel is known.
        never_seen: Pixels that are missing in every image `[H, W]`: nothing is known of them, and their mean
            and deviation are 0.
        is_learned: Whether the model found anything that images have in common.
        skipped: What was left out.
        seconds: How long the fit and the filling took.
    """

    images: Sequence[MaskedImage]
    mean: Floats
    std: Floats
    never_seen: NDArray[np.bool_]
    is_learned: bool
    skipped: Sequence[Skipped]
    seconds: float

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Which pixels were filled in `[N, H, W]`."""
        return ~np.stack([image.known for image in self.images]) & ~self.never_seen

    @property
    def pixel_std(self) -> Floats:
        """Standard deviation of each pixel `[N, H, W]`: over colours the root of the mean square."""
        return np.sqrt((self.std**2).mean(axis=-1))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know, in whole sentences."""
        notes = []
        if not self.is_learned:
            notes.append(
                "The model found nothing that the images have in common, so a missing pixel is filled in by "
                "no more than the mean of the others. Give more images, another --size or another --seed."
            )
        if self.never_seen.any():
            notes.append(
                f"{int(self.never_seen.sum())} of {self.never_seen.size} pixels are missing in every image, "
                "so nothing says what they show: they are not filled in, and are black in the pictures."
            )
        return tuple(notes)


def complete_images(
    folder: Path, masks: Path | None, settings: ExploreSettings, *, console: Console
) -> Completed:
    """Fit a Bayesian GPLVM to images with missing pixels and fill these in.

    Args:
        folder: Folder of images of one size, or that are shrunk to one.
        masks: Folder of masks; None where transparent pixels are missing.
        settings: Of the step; `size`, `features` (grey or colour) and those of the fit are used.
        console: For progress, and a line on what is done.

    Raises:
        InputError: The images or masks cannot be used.
    """
    if settings.features not in OWN_FEATURES or settings.features == "views":
        raise InputError(
            f"--features {settings.features}: pixels are filled in, so expected grey, colour or auto."
        )
    images, skipped = read_masked_images(folder, masks, settings.size)
    require_enough(len(images), str(folder))
    known = np.stack([image.known for image in images])
    levels = _channels(images, known, settings.features)
    console.print(
        f"Filling in {int((~known).sum())} of {known.size} pixels of {len(images)} images", markup=False
    )
    started = perf_counter()
    with stage_bars(console) as advance:
        mean, std, is_learned = _filled(levels, known, settings, advance)
    return Completed(
        images=images,
        mean=mean,
        std=std,
        is_learned=is_learned,
        never_seen=~known.any(axis=0),
        skipped=skipped,
        seconds=perf_counter() - started,
    )


def _channels(images: Sequence[MaskedImage], known: NDArray[np.bool_], features: str) -> Floats:
    """Return levels `[N, H, W, 3]`, or `[N, H, W, 1]` of images without colour."""
    levels = np.stack([image.levels for image in images])
    seen = np.round(levels[known]).astype(np.uint8)
    if features == "colour" or (features == "auto" and is_coloured(seen)):
        return levels.astype(np.float64)
    flat = levels.reshape(-1, 1, 3)
    return cv2.cvtColor(flat, cv2.COLOR_RGB2GRAY).reshape(*levels.shape[:3], 1).astype(np.float64)


def _filled(
    levels: Floats, known: NDArray[np.bool_], settings: ExploreSettings, progress: Progress
) -> tuple[Floats, Floats, bool]:
    """Return means and deviations of all pixels `[N, H, W, channels]`, and whether anything was learned."""
    shape = levels.shape
    is_seen = np.repeat(known.any(axis=0)[..., None], shape[-1], axis=-1).ravel()
    table = np.where(known[..., None], levels / _LEVELS, np.nan).reshape(len(levels), -1)[:, is_seen]
    model = make_model((table.shape[0], table.shape[1]), "common", settings)
    is_learned = fit_model(model, table, progress)
    filled, deviation = model.complete(table, return_std=True)
    mean, std = np.zeros((2, len(levels), is_seen.size))
    mean[:, is_seen] = np.clip(filled, 0, 1) * _LEVELS
    std[:, is_seen] = np.where(np.isnan(table), deviation, 0) * _LEVELS
    return mean.reshape(shape), std.reshape(shape), is_learned
