"""Judging the boxes of full sonar images by true ones at several thresholds, to choose `--threshold`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table

from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.tables import write_table
from data_prep.sonar.boxes import Box, inside_image
from data_prep.sonar.settings import SonarPrepareSettings
from data_prep.sonar.sources import SonarSource, read_source_boxes
from pipelines.sonar.windows import Find

THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
DETECTION = "detection.csv"

_SHARES = ("precision", "recall", "false_alarms_per_image")
_COLUMNS = ("threshold", *_SHARES, "boxes", "right_boxes", "found", "objects", "images")


@dataclass(frozen=True)
class DetectionScore:
    """How good the boxes above a threshold are; a row of `detection.csv`.

    Attributes:
        threshold: Threshold of the score.
        boxes: Number of boxes above it.
        right_boxes: Number of boxes that hold the centre of an object.
        objects: Number of true objects.
        found: Number of objects with their centre in a box.
        images: Number of images that were searched.
    """

    threshold: float
    boxes: int
    right_boxes: int
    objects: int
    found: int
    images: int

    @property
    def precision(self) -> float | None:
        """Return the share of the boxes that hold an object; None without a box."""
        return self.right_boxes / self.boxes if self.boxes else None

    @property
    def recall(self) -> float | None:
        """Return the share of the objects that are found; None without an object."""
        return self.found / self.objects if self.objects else None

    @property
    def false_alarms_per_image(self) -> float:
        """Return the mean number of boxes without an object in an image."""
        return (self.boxes - self.right_boxes) / self.images


@dataclass
class DetectionJudge:
    """Compares what is found in images with what was marked in them.

    Attributes:
        marked: Annotated images by their files.
        thresholds: Thresholds at which to judge.
        settings: Settings that say which mask values mean what.
    """

    marked: Mapping[Path, SonarSource]
    thresholds: tuple[float, ...]
    settings: SonarPrepareSettings = field(default_factory=SonarPrepareSettings)
    _judged: list[tuple[Sequence[Find], Sequence[Box]]] = field(default_factory=list)

    def add(self, image: Path, size: tuple[int, int], finds: Sequence[Find]) -> None:
        """Add what was found in an image with scores above the lowest threshold.

        Args:
            image: File of the image; one without an annotation is ignored.
            size: Height and width of the image.
            finds: What was found.

        Raises:
            InputError: The annotation cannot be read, or is for an image of another size.
        """
        source = self.marked.get(image)
        if source is not None:
            boxes = read_source_boxes(source, size, self.settings).objects
            self._judged.append((finds, inside_image(boxes, size)[0]))

    @property
    def has_masks(self) -> bool:
        """Return whether some objects are marked by masks."""
        files = (source.annotation for source in self.marked.values())
        return any(file is not None and file.suffix.lower() in IMAGE_SUFFIXES for file in files)

    def scores(self) -> list[DetectionScore]:
        """Return how good the boxes are at each threshold, ascending; empty if no image was judged."""
        return [self._score(threshold) for threshold in sorted(self.thresholds) if self._judged]

    def _score(self, threshold: float) -> DetectionScore:
        num_boxes = right = found = objects = 0
        for finds, marked in self._judged:
            boxes = [find.box for find in finds if find.score > threshold]
            num_boxes += len(boxes)
            right += sum(any(holds(box, one) for one in marked) for box in boxes)
            found += sum(any(holds(box, one) for box in boxes) for one in marked)
            objects += len(marked)
        return DetectionScore(threshold, num_boxes, right, objects, found, len(self._judged))


def holds(box: Box, marked: Box) -> bool:
    """Return whether a box holds the centre of another: boxes show where an object is, not how large.

    Example:
        >>> holds(Box("", 0, 0, 8, 8), Box("mine", 6, 6, 4, 4))
        True
    """
    column, row = (marked.left + marked.right) / 2, (marked.top + marked.bottom) / 2
    return box.left <= column <= box.right and box.top <= row <= box.bottom


def write_detection(path: Path, scores: Iterable[DetectionScore]) -> None:
    """Write `detection.csv` with a row for each threshold.

    Raises:
        InputError: The file cannot be written.
    """
    write_table(path, _COLUMNS, ([getattr(score, name) for name in _COLUMNS] for score in scores))


def detection_table(scores: Sequence[DetectionScore], chosen: float) -> Table:
    """Return the scores as a table for a console; the threshold that was used is marked."""
    title = f"Boxes against {scores[0].objects} marked objects in {scores[0].images} full images"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for header in ("Threshold", "Precision", "Recall", "False alarms an image", "Boxes"):
        table.add_column(header, justify="right")
    for score in scores:
        shares = ("-" if share is None else f"{share:.3f}" for share in (score.precision, score.recall))
        used = " (used)" if score.threshold == chosen else ""
        alarms = f"{score.false_alarms_per_image:.2f}"
        table.add_row(f"{score.threshold:g}{used}", *shares, alarms, str(score.boxes))
    return table
