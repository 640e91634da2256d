"""What `classify predict` makes of one image: a line of the table, and a place on the contact sheet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from data_prep.files.fitting import Fit, fit_image
from data_prep.files.images import read_image
from pipelines.bundles.prediction import (
    UNCERTAINTIES,
    ClassPredictionLine,
    Source,
    class_fields,
    printable,
    reading,
    run_signature,
)
from pipelines.bundles.saved_model import Signature
from pipelines.classify.contact_sheet import ContactSheet
from pipelines.classify.settings import PredictSettings


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
        fit: How training images of other proportions got that size.
        settings: Of the step.
    """

    signature: Signature
    size: tuple[int, int]
    class_names: tuple[str, ...]
    fit: Fit
    settings: PredictSettings

    @cached_property
    def sheet(self) -> ContactSheet:
        """The least certain images until now."""
        return ContactSheet(self.settings.sheet_images, self.size, self.fit)

    def __call__(self, source: Source) -> Iterator[ImagePrediction]:
        """The line of a file.

        Raises:
            UnreadableSourceError: The file cannot be read.
        """
        with reading():
            image = read_image(source.path)
        started = time.perf_counter()
        fitted = fit_image(image, self.size, self.fit)
        outputs = run_signature(self.signature, fitted, str(source.path))
        seconds = time.perf_counter() - started
        line = ImagePrediction(
            file=printable(str(source.path)),
            height=image.shape[0],
            width=image.shape[1],
            **class_fields(outputs, self.class_names, self.settings.refer_above),
            seconds=seconds,
        )
        self.sheet.add(image, line)
        yield line
