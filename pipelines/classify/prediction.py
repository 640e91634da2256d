"""What `classify predict` makes of one image: a line of the table, and a place on the contact sheet."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from data_prep.files.depth import read_at_levels
from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.fitting import fit_image, mostly_cut_off
from data_prep.files.image_settings import Fit
from data_prep.files.images import write_picture
from pipelines.bundles.metadata import Metadata
from pipelines.bundles.prediction import UNCERTAINTIES, bundle_preprocessing
from pipelines.bundles.prediction_lines import ClassPredictionLine, class_fields, printable
from pipelines.bundles.preprocessing import ImagePreprocessing
from pipelines.bundles.runtimes import Signature
from pipelines.bundles.sources import Source, print_outside_levels
from pipelines.bundles.step import FinishedPrediction, PredictStep, files_with
from pipelines.bundles.unreadable import reading, run_signature
from pipelines.classify.settings import APPLICATION, PredictSettings
from pipelines.command.console import say
from pipelines.scores.pictures import REFERRED_COLOUR, Picture, letters

SHEET_NAME = "contact_sheet.png"

_COLUMNS: Final = 8
_WIDTH = 176  # pixels of a place, its margins included
_PICTURE = 160
_MARGIN = 8
_FRAME = 4
_LETTERS = 12  # height of the letters in pixels; the font that matplotlib brings has most alphabets


@dataclass
class ContactSheet:
    """Keeps the images with the highest entropy.

    Attributes:
        number: How many are kept; 0 for no sheet.
        size: Height and width of the network's images, whose proportions the pictures have.
        fit: How images of other proportions get these.
    """

    number: int
    size: tuple[int, int]
    fit: Fit
    _kept: list[tuple[float, int, Picture, ClassPredictionLine]] = field(default_factory=list)
    _order: count[int] = field(default_factory=lambda: count(0, -1))  # of equal ones the first is kept

    def add(self, image: Picture, line: ClassPredictionLine) -> None:
        """Add an image `[H, W, 3]` with its prediction, if it is among the least certain."""
        rank = (line.predictive_entropy or 0.0, next(self._order))
        if self.number == 0 or (len(self._kept) == self.number and rank < self._kept[0][:2]):
            return
        longest = max(self.size)
        size = tuple(max(1, round(_PICTURE * side / longest)) for side in self.size)
        heapq.heappush(self._kept, (*rank, fit_image(image, (size[0], size[1]), self.fit), line))
        if len(self._kept) > self.number:
            heapq.heappop(self._kept)

    def write(self, folder: Path) -> Path | None:
        """Write `contact_sheet.png`; return its path, or None where no image is on it.

        Raises:
            InputError: The file cannot be written.
        """
        if not self._kept:
            return None
        write_picture(folder / SHEET_NAME, self.drawn())
        return folder / SHEET_NAME

    def drawn(self) -> Picture:
        """Return the images, the least certain first, each above its file, class, probability and entropy.

        What is referred to a person has a red frame.
        """
        entries = sorted(self._kept, key=lambda entry: entry[:2], reverse=True)
        places = [_place(image, line) for _, _, image, line in entries]
        columns = min(_COLUMNS, len(places))
        blank = np.full_like(places[0], 255)
        places += [blank] * (-len(places) % columns)
        rows = [
            np.concatenate(places[first : first + columns], 1) for first in range(0, len(places), columns)
        ]
        return np.concatenate(rows)


def _place(picture: Picture, line: ClassPredictionLine) -> Picture:
    """Return a picture with its letters below, `[height, 176, 3]`, all of one height."""
    texts = (
        Path(line.file).name,
        f"{line.label} {max(line.probability.values()):.2f}",
        f"{line.predictive_entropy:.2f} nats{', unfamiliar' if line.unfamiliar else ''}",
    )
    step = _LETTERS + 4
    place = Image.new("RGB", (_WIDTH, _PICTURE + 2 * _MARGIN + len(texts) * step + _MARGIN), "white")
    drawing = ImageDraw.Draw(place)
    left, top = (_WIDTH - picture.shape[1]) // 2, _MARGIN + (_PICTURE - picture.shape[0]) // 2
    if line.referred:
        borders = (
            left - _FRAME,
            top - _FRAME,
            left + picture.shape[1] + _FRAME,
            top + picture.shape[0] + _FRAME,
        )
        drawing.rectangle(borders, fill=REFERRED_COLOUR)
    place.paste(Image.fromarray(picture), (left, top))
    font = letters(_LETTERS)
    for number, text in enumerate(texts):
        below = _PICTURE + 2 * _MARGIN + number * step
        drawing.text((_MARGIN, below), _shortened(printable(text), font), fill="black", font=font)
    return np.asarray(place)


def _shortened(text: str, font: ImageFont.FreeTypeFont) -> str:
    """Return a text that fits into a place; of a longer one the middle is left out."""
    kept = text
    while font.getlength(kept) > _WIDTH - 2 * _MARGIN:
        half = (len(kept) - 2) // 2
        kept = f"{text[:half]}…{text[len(text) - half :]}"
    return kept


@dataclass(frozen=True)
class ImagePrediction(ClassPredictionLine):
    """A line of `predictions.csv`.

    Attributes:
        height: Of the image, pixels.
        width: Of the image, pixels.
    """

    own_columns = ("height", "width", "label", *UNCERTAINTIES)

    height: int | None = None
    width: int | None = None


@dataclass(frozen=True)
class ImagePredictor:
    """Predicts files with a bundle.

    Attributes:
        signature: `serving_default` of the bundle.
        size: The network's height and width.
        class_names: In the order of the labels.
        images: How training images were read and got that size.
        settings: Of the step.
    """

    signature: Signature
    size: tuple[int, int]
    class_names: tuple[str, ...]
    images: ImagePreprocessing
    settings: PredictSettings

    def __call__(self, source: Source) -> Iterator[ImagePrediction]:
        """The line of a file.

        Raises:
            UnreadableSourceError: The file cannot be read.
        """
        with reading():
            image = read_at_levels(source.path, self.images.levels)
        started = time.perf_counter()
        fitted = fit_image(image, self.size, self.images.fit)
        outputs = run_signature(self.signature, fitted, str(source.path))
        seconds = time.perf_counter() - started
        yield ImagePrediction(
            file=printable(str(source.path)),
            height=image.shape[0],
            width=image.shape[1],
            **class_fields(outputs, self.class_names, self.settings.refer_above),
            seconds=seconds,
        )


def contact_sheet(
    predictor: ImagePredictor, sources: Sequence[Source], lines: Sequence[ImagePrediction]
) -> ContactSheet:
    """Return the unfamiliar and least certain images, read anew: an earlier command may have done them.

    Args:
        predictor: Says how many there are and how they are fitted.
        sources: The files.
        lines: A line for each of them.

    Raises:
        InputError: An image can no longer be read.
    """
    number = predictor.settings.sheet_images
    good = [
        (bool(line.unfamiliar), line.predictive_entropy or 0.0, -i)
        for i, line in enumerate(lines)
        if line.status == "ok"
    ]
    sheet = ContactSheet(number, predictor.size, predictor.images.fit)
    for row in sorted(-order for *_, order in heapq.nlargest(number, good)):
        sheet.add(read_at_levels(sources[row].path, predictor.images.levels), lines[row])
    return sheet


def make_predictor(
    signature: Signature,
    metadata: Metadata,
    bundle: Path,
    settings: PredictSettings,
    out: Path,  # noqa: ARG001 - other applications write files
) -> ImagePredictor:
    """Return what predicts with an opened bundle, here or on a worker of a cluster.

    Raises:
        InputError: The bundle does not say how images are fitted.
    """
    return ImagePredictor(
        signature=signature,
        size=metadata.network_size,
        class_names=metadata.class_names,
        images=bundle_preprocessing(metadata, bundle, ImagePreprocessing),
        settings=settings,
    )


def _finish(done: FinishedPrediction[ImagePredictor, ImagePrediction]) -> None:
    """Say which images are unlike those of the training; write the contact sheet."""
    images = done.predictor.images
    print_outside_levels(done.sources, images.levels, done.console)
    extents = {line.file: (line.height, line.width) for line in done.lines if line.height and line.width}
    for warning in mostly_cut_off(extents, done.predictor.size, images.fit):
        say(done.console, f"Warning: {warning}")
    if sheet := contact_sheet(done.predictor, done.sources, done.lines).write(done.out):
        say(done.console, f"The least certain images: {sheet}")


CLASSIFY_PREDICTION = PredictStep(
    application=APPLICATION,
    judged="images",
    line_class=lambda _: ImagePrediction,
    make=make_predictor,
    find=files_with(IMAGE_SUFFIXES, "image"),
    finish=_finish,
)
