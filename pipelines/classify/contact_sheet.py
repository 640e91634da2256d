"""A contact sheet: the least certain of many classified images on one picture."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from data_prep.files.fitting import Fit, fit_image
from data_prep.files.images import write_picture
from pipelines.bundles.prediction_lines import ClassPredictionLine, printable
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
