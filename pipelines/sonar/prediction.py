"""What `sonar predict` writes: lines for snapshots, boxes and annotated pictures for full images."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree as ET

import cv2
import numpy as np
from numpy.typing import NDArray

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file
from data_prep.files.images import write_picture
from data_prep.files.tables import write_table
from data_prep.sonar.box_files import CSV_COLUMNS
from data_prep.sonar.boxes import Box
from data_prep.sonar.images import cut_window, read_sonar
from data_prep.sonar.levels import Levels, resize_levels
from pipelines.bundles.metadata import Metadata
from pipelines.bundles.prediction import UNCERTAINTIES, bundle_preprocessing
from pipelines.bundles.prediction_lines import (
    ClassPredictionLine,
    class_fields,
    is_referred,
    printable,
    probability_column,
)
from pipelines.bundles.runtimes import Signature
from pipelines.bundles.sources import Source
from pipelines.bundles.unreadable import UnreadableSourceError, reading, run_signature
from pipelines.scores.pictures import CLASS_COLOURS, REFERRED_COLOUR, Outputs, Picture, write_label
from pipelines.sonar.detection import DetectionJudge
from pipelines.sonar.settings import PredictSettings, SnapshotPreprocessing
from pipelines.sonar.windows import Find, Search, search_image, snapshot_of

FULL_IMAGE = 2
"""An image more than so many times as high or as wide as the window is taken for a full one."""


@dataclass(frozen=True)
class SonarPrediction(ClassPredictionLine):
    """A line of `predictions.csv`.

    Attributes:
        height: Of the image, pixels.
        width: Of the image, pixels.
        label: Most probable class of a snapshot.
        predictive_entropy: Of a snapshot, nats; of a full image the largest of its boxes.
        mutual_information: Likewise.
        boxes: Number of objects found in a full image; None for a snapshot.
        probability: Of every class, by name, for a snapshot.
    """

    own_columns = ("height", "width", "label", *UNCERTAINTIES, "boxes")

    height: int | None = None
    width: int | None = None
    boxes: int | None = None


@dataclass(frozen=True)
class SonarPredictor:
    """Predicts files with a bundle.

    Attributes:
        signature: `serving_default` of the bundle.
        size: The network's height and width.
        class_names: In the order of the labels.
        snapshots: How training snapshots were made.
        settings: Of the step.
        out: Output folder.
        judge: Compares what is found with what was marked; None where nothing is to be judged.
    """

    signature: Signature
    size: tuple[int, int]
    class_names: tuple[str, ...]
    snapshots: SnapshotPreprocessing
    settings: PredictSettings
    out: Path
    judge: DetectionJudge | None = None

    def __call__(self, source: Source) -> Iterator[SonarPrediction]:
        """The line of a file, after its own files are written.

        Raises:
            UnreadableSourceError: The file cannot be read, or not with this bundle.
            InputError: A file cannot be written.
        """
        with reading():
            levels = read_sonar(source.path, self.snapshots.levels)
        yield self._full_image(source, levels) if self._is_full(levels) else self._snapshot(source, levels)

    def _is_full(self, levels: Levels) -> bool:
        if self.settings.mode != "auto":
            return self.settings.mode == "full"
        return self.can_search and self.is_large(levels.shape)

    @property
    def can_search(self) -> bool:
        """Whether a window can show no object: without backgrounds there are snapshots alone.

        Raises:
            InputError: As `objects`.
        """
        return len(self.objects) < len(self.class_names)

    def is_large(self, size: tuple[int, ...]) -> bool:
        """Whether an image of this height and width (and more axes) looks like a full one."""
        return any(side > FULL_IMAGE * usual for side, usual in zip(size[:2], self.window, strict=True))

    @property
    def window(self) -> tuple[int, int]:
        """Height and width in pixels of what the network sees at once."""
        return self.settings.window or self.snapshots.window

    @property
    def objects(self) -> tuple[int, ...]:
        """Labels of the classes that are objects.

        Raises:
            InputError: A background class is unknown, or all classes are backgrounds.
        """
        given = self.settings.background_classes
        backgrounds = self.snapshots.background_classes if given is None else given
        unknown = [name for name in backgrounds if name not in self.class_names]
        objects = tuple(label for label, name in enumerate(self.class_names) if name not in backgrounds)
        if unknown or not objects:
            raise InputError(
                f"background_classes is {', '.join(backgrounds)}; expected some, not all, of the bundle's "
                f"classes: {', '.join(self.class_names)}."
            )
        return objects

    def _snapshot(self, source: Source, levels: Levels) -> SonarPrediction:
        started = time.perf_counter()
        snapshot = snapshot_of(levels, self.size, self.snapshots.normalisation)
        outputs = run_signature(self.signature, snapshot, str(source.path))
        seconds = time.perf_counter() - started
        return SonarPrediction(
            file=printable(str(source.path)),
            height=levels.shape[0],
            width=levels.shape[1],
            **class_fields(outputs, self.class_names, self.settings.refer_above),
            seconds=seconds,
        )

    def _full_image(self, source: Source, levels: Levels) -> SonarPrediction:
        if not self.can_search:
            raise UnreadableSourceError(
                f"{source.path}: cannot be searched, since no class of the bundle is background: every "
                "window would show an object. Train with backgrounds, name the class with --set "
                "background_classes=[...], or leave out mode=full."
            )
        started = time.perf_counter()
        finds = search_image(levels, self._search(), self._predict)
        seconds = time.perf_counter() - started
        if self.judge is not None:
            with reading():
                self.judge.add(source.path, (levels.shape[0], levels.shape[1]), finds)
        # Of boxes that overlap the best is kept, whatever the threshold: those below it change no other.
        finds = [find for find in finds if find.score > self.settings.threshold]
        referred = [is_referred(find.predictive_entropy, self.settings.refer_above) for find in finds]
        self._write_table(source, levels.shape[:2], finds, referred)
        write_voc(self.out / "voc" / f"{source.stem}.xml", source.path.name, levels.shape[:2], finds)
        picture = annotated(*image_picture(levels), finds, referred, self.class_names)
        write_picture(self.out / "overlays" / f"{source.stem}.png", picture)
        return SonarPrediction(
            file=printable(str(source.path)),
            height=levels.shape[0],
            width=levels.shape[1],
            predictive_entropy=max((find.predictive_entropy for find in finds), default=None),
            mutual_information=max((find.mutual_information for find in finds), default=None),
            boxes=len(finds),
            referred=any(referred),
            seconds=seconds,
        )

    def _search(self) -> Search:
        settings = self.settings
        thresholds = (settings.threshold, *(self.judge.thresholds if self.judge is not None else ()))
        return Search(
            window=self.window,
            size=self.size,
            normalisation=self.snapshots.normalisation,
            stride=settings.stride,
            threshold=min(thresholds),
            overlap=settings.overlap,
            class_names=self.class_names,
            objects=self.objects,
        )

    def _predict(self, snapshots: NDArray[np.uint8]) -> Outputs:
        return {name: np.asarray(value) for name, value in self.signature(images=snapshots).items()}

    def _write_table(
        self, source: Source, size: tuple[int, ...], finds: Sequence[Find], referred: Sequence[bool]
    ) -> None:
        """`boxes/<stem>.csv`: columns that `prepare` reads, and what is known of each box."""
        names = map(probability_column, self.class_names)
        header = [*CSV_COLUMNS, "score", *UNCERTAINTIES, "referred", *names]
        image = printable(source.path.name)
        rows: list[list[object]] = []
        for find, refer in zip(finds, referred, strict=True):
            box = _inside(find.box, size)
            row = [image, box.left, box.top, box.width, box.height, box.name, find.score]
            row += [find.predictive_entropy, find.mutual_information, refer, *find.probability.tolist()]
            rows.append(row)
        # A row with the name alone: so that it is not taken for an image without an annotation.
        write_table(self.out / "boxes" / f"{source.stem}.csv", header, rows or [{CSV_COLUMNS[0]: image}])


def write_voc(path: Path, image: str, size: tuple[int, ...], finds: Sequence[Find]) -> None:
    """Write boxes as Pascal VOC; each object also has its `score` and `predictive_entropy`.

    Args:
        path: The XML file.
        image: Name of the image file.
        size: Height and width of the image.
        finds: The boxes.

    Raises:
        InputError: The file cannot be written.
    """
    root = ET.Element("annotation")
    ET.SubElement(root, "filename").text = printable(image)
    _add_numbers(ET.SubElement(root, "size"), {"width": size[1], "height": size[0], "depth": 1})
    for find in finds:
        element = ET.SubElement(root, "object")
        ET.SubElement(element, "name").text = find.box.name
        _add_numbers(element, {"score": find.score, "predictive_entropy": find.predictive_entropy})
        _add_numbers(ET.SubElement(element, "bndbox"), _voc_borders(_inside(find.box, size)))
    ET.indent(root)
    with atomic_file(path) as temporary:
        temporary.parent.mkdir(exist_ok=True)
        ET.ElementTree(root).write(temporary, encoding="utf-8")


def _inside(box: Box, size: tuple[int, ...]) -> Box:
    """The part of a box that lies in an image of a height and width; a window may be larger than that."""
    left, top = max(box.left, 0), max(box.top, 0)
    return replace(
        box,
        left=left,
        top=top,
        width=min(box.right, size[1]) - left,
        height=min(box.bottom, size[0]) - top,
    )


def _voc_borders(box: Box) -> dict[str, float]:
    """Columns and rows from 1, the last ones inside the box."""
    return {"xmin": box.left + 1, "ymin": box.top + 1, "xmax": box.right, "ymax": box.bottom}


def _add_numbers(element: ET.Element, numbers: dict[str, float]) -> None:
    for name, value in numbers.items():
        # Rows of a long line have more digits than a probability needs.
        ET.SubElement(element, name).text = f"{value:.0f}" if float(value).is_integer() else f"{value:.6g}"


def make_predictor(
    signature: Signature, metadata: Metadata, bundle: Path, settings: PredictSettings, out: Path
) -> SonarPredictor:
    """Return what predicts with an opened bundle, here or on a worker of a cluster.

    Raises:
        InputError: The bundle does not say how snapshots are made.
    """
    return SonarPredictor(
        signature=signature,
        size=metadata.network_size,
        class_names=metadata.class_names,
        snapshots=bundle_preprocessing(metadata, bundle, SnapshotPreprocessing),
        settings=settings,
        out=out,
    )


_LONGEST_SIDE = 4096  # pixels
_LEGIBLE_SIDE = 768  # pixels; the letters beside a box need room
_READ_AT_ONCE = 16_000_000  # pixels of the image that are reduced at once
_BRIGHTEST = 99.5  # percentile of the levels that becomes white


def annotated(
    picture: Picture, scale: float, finds: Sequence[Find], referred: Sequence[bool], names: Sequence[str]
) -> Picture:
    """Return the picture with a box, the class, an object's probability and the entropy for each find.

    Referred boxes are red; the others have a colour for each class.

    Args:
        picture: The image at another size, `[H, W, 3]`.
        scale: Pixels of the picture for a pixel of the image.
        finds: Boxes in pixels of the image.
        referred: Whether an analyst should look at each box.
        names: Names of all classes.
    """
    drawn = picture.copy()
    thickness = max(2, round(max(picture.shape[:2]) / 600))
    for find, refer in zip(finds, referred, strict=True):
        colour = REFERRED_COLOUR if refer else CLASS_COLOURS[names.index(find.box.name) % len(CLASS_COLOURS)]
        left, top, right, bottom = (
            round(scale * border) for border in (find.box.left, find.box.top, find.box.right, find.box.bottom)
        )
        # A dark rim, because speckle is as bright as any colour.
        cv2.rectangle(drawn, (left, top), (right, bottom), (0, 0, 0), 2 * thickness)
        cv2.rectangle(drawn, (left, top), (right, bottom), colour, thickness)
        text = f"{find.box.name} {find.score:.2f}, {find.predictive_entropy:.2f} nats"
        write_label(drawn, text, (left, top), colour, thickness=thickness)
    return drawn


def image_picture(levels: Levels) -> tuple[Picture, float]:
    """Return the image for people to look at, neither tiny nor above 4096 pixels a side, and its scale.

    The image is reduced in bands of rows, because a very large one does not fit into memory.
    """
    height, width = levels.shape[:2]
    longest = max(height, width)
    scale = min(1.0, _LONGEST_SIDE / longest) if longest >= _LEGIBLE_SIDE else -(-_LEGIBLE_SIDE // longest)
    rows, columns = max(1, round(height * scale)), max(1, round(width * scale))
    bands = []
    at_once = max(1, _READ_AT_ONCE * rows // (height * width))
    for first in range(0, rows, at_once):
        last = min(first + at_once, rows)
        top = first * height // rows
        bottom = max(last * height // rows, top + 1)
        bands.append(
            resize_levels(cut_window(levels, top, 0, (bottom - top, width)), (last - first, columns))
        )
    picture = np.concatenate(bands)
    grey = np.clip(255.0 * picture / max(float(np.percentile(picture, _BRIGHTEST)), 1e-6), 0, 255)
    return np.repeat(np.rint(grey).astype(np.uint8)[:, :, None], 3, axis=2), float(scale)
