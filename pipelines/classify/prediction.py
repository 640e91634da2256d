"""What `classify predict` makes of one image: a line of the table, and a place on the contact sheet."""

import heapq
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_prep.files.depth import read_at_levels
from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.fitting import fit_image, mostly_cut_off
from pipelines.bundles.image_preprocessing import ImagePreprocessing
from pipelines.bundles.metadata import Metadata
from pipelines.bundles.prediction import UNCERTAINTIES, bundle_preprocessing
from pipelines.bundles.prediction_lines import ClassPredictionLine, class_fields, printable
from pipelines.bundles.runtimes import Signature
from pipelines.bundles.sources import Source, print_outside_levels
from pipelines.bundles.step import FinishedPrediction, PredictStep, files_with
from pipelines.bundles.unreadable import reading, run_signature
from pipelines.classify.contact_sheet import ContactSheet
from pipelines.classify.settings import APPLICATION, PredictSettings


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
        done.console.print(f"Warning: {warning}", markup=False, soft_wrap=True)
    if sheet := contact_sheet(done.predictor, done.sources, done.lines).write(done.out):
        done.console.print(f"The least certain images: {sheet}", markup=False, soft_wrap=True)


CLASSIFY_PREDICTION = PredictStep(
    application=APPLICATION,
    judged="images",
    line_class=lambda _: ImagePrediction,
    make=make_predictor,
    find=files_with(IMAGE_SUFFIXES, "image"),
    finish=_finish,
)
