"""The files that sonar snapshots come from: class folders, or images with annotations."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError, Skipped
from data_prep.files.class_folders import files_by_stem, find_class_files
from data_prep.files.entries import IMAGE_SUFFIXES, MASK_SUFFIXES, listed
from data_prep.files.orientation import read_mask_of
from data_prep.files.pairing import without_common_ending
from data_prep.files.split_folders import Side
from data_prep.sonar.box_files import (
    CocoBoxes,
    is_class_file,
    read_box_table,
    read_class_names,
    read_coco,
    read_voc,
    read_yolo,
)
from data_prep.sonar.boxes import Box
from data_prep.sonar.images import SONAR_SUFFIXES
from data_prep.sonar.settings import SonarPrepareSettings
from data_prep.splits.divide import example_name

_TABLE_SUFFIX = ".csv"
_COCO_SUFFIX = ".json"


@dataclass(frozen=True)
class SonarSource:
    """A file that gives one snapshot or many.

    Attributes:
        name: Stem of the file, after class and slash where it is in a class folder.
        image: The file.
        class_name: Class of the whole file, where it is in a class folder.
        annotation: File with the image's boxes, or with its mask.
        boxes: The image's boxes, where a table had them.
        class_names: Names of the class numbers in a YOLO annotation.
        side: Side of the split that folders such as train and test give.
        stated_size: Height and width of the image as its annotation has them.
        num_crowds: How many of the boxes stand for several objects, as COCO has it.
    """

    name: str
    image: Path
    class_name: str | None = None
    annotation: Path | None = None
    boxes: tuple[Box, ...] = ()
    class_names: tuple[str, ...] = ()
    side: Side | None = None
    stated_size: tuple[int, int] | None = None
    num_crowds: int = 0

    @property
    def mask(self) -> Path | None:
        """The image's mask, where its annotation is one."""
        path = self.annotation
        return path if path is not None and path.suffix.lower() in MASK_SUFFIXES else None


@dataclass(frozen=True)
class SourceBoxes:
    """What is marked in one image.

    Attributes:
        objects: Boxes of the objects.
        marked: Boxes of everything marked in a mask, which includes areas that are too small or have a value
            without a name: no objects, but no background either.
        unnamed: Values of a mask that have no name.
        num_small: Number of areas of a mask that are too small for objects.
    """

    objects: Sequence[Box] = ()
    marked: Sequence[Box] = ()
    unnamed: tuple[int, ...] = ()
    num_small: int = 0


def find_class_folders(
    images: Path, *, judged_alone: bool = False
) -> tuple[list[SonarSource], list[Skipped]]:
    """List the image files of a folder's subfolders, each of which is a class.

    Args:
        images: Folder of class folders.
        judged_alone: Whether the whole folder is for judging, so that classes may be empty.

    Returns:
        The sources in the order of their names, and what cannot be used, as `find_class_files` has it.

    Raises:
        InputError: The folder cannot be listed, or fewer than two subfolders have image files.
    """
    files, skipped = find_class_files(
        images,
        IMAGE_SUFFIXES,
        "image",
        instead="images together with annotations",
        judged_alone=judged_alone,
    )
    return [SonarSource(file.name, file.path, file.class_name, side=file.side) for file in files], skipped


def find_annotated_images(images: Path, annotations: Path) -> tuple[list[SonarSource], list[Skipped]]:
    """Match full images with their annotations.

    Args:
        images: Folder of image or XTF files.
        annotations: A CSV file, a file in COCO's JSON, or a folder of Pascal VOC files (.xml), of YOLO files
            (.txt, with the class names in a file there or beside it) or of masks, with the stems of the
            images.

    Returns:
        The sources in the order of their names, and what has no counterpart or only looks like a file to
        read, see `data_prep.files.unusable`. An image that shows no object needs an annotation that says so.

    Raises:
        InputError: A folder cannot be listed or has none of these files, or the CSV file is not as expected.
    """
    files, skipped = files_by_stem(_data_files(images), SONAR_SUFFIXES)
    if not files:
        raise InputError(
            f"{images}: no image file found. Expected files with a suffix of "
            f"{', '.join(sorted(SONAR_SUFFIXES))}."
        )
    annotated, more = match_annotations(files, images, annotations)
    return sorted(annotated, key=lambda source: source.name), skipped + more


def match_annotations(
    files: dict[str, Path], images: Path, annotations: Path
) -> tuple[list[SonarSource], list[Skipped]]:
    """Match image files with their annotations.

    Args:
        files: The image files by their names, see `source_name`.
        images: Folder that they are in, where names of classes are looked for too.
        annotations: Annotations as `find_annotated_images` takes them.

    Returns:
        The images with an annotation, and what has no counterpart.

    Raises:
        InputError: The annotations are not as `find_annotated_images` expects them.
    """
    if annotations.suffix.lower() == _TABLE_SUFFIX:
        return _from_table(files, annotations, CocoBoxes(read_box_table(annotations)))
    if annotations.suffix.lower() == _COCO_SUFFIX:
        return _from_table(files, annotations, read_coco(annotations))
    return _from_folder(files, images, annotations)


def source_name(file: str) -> str:
    """Return the name of the source that a file in a list or table means, as `example_name` does."""
    return example_name(file, folders=0, suffixes=SONAR_SUFFIXES)


def read_source_boxes(
    source: SonarSource, size: tuple[int, int], settings: SonarPrepareSettings
) -> SourceBoxes:
    """Read the boxes of one image, and boxes around whatever else an annotator has marked.

    Args:
        source: Source with an annotated image.
        size: Height and width of the image in pixels.
        settings: Settings that say which mask values mean what.

    Raises:
        InputError: The annotation cannot be read, or is for an image of another size.
    """
    path = source.annotation
    if path is None:
        if source.stated_size not in {None, size}:
            height, width = source.stated_size or size
            raise InputError(
                f"{source.image}: {size[1]} x {size[0]} pixels, but annotated with {width} x {height}. "
                "Export the annotations again at the image's present size."
            )
        return SourceBoxes(source.boxes)
    if path.suffix.lower() == ".xml":
        return SourceBoxes(read_voc(path, size))
    if path.suffix.lower() == ".txt":
        return SourceBoxes(read_yolo(path, size, source.class_names))
    mask: npt.NDArray[np.integer[Any]] = read_mask_of(source.image, path, settings.masks_drawn_on)
    if mask.shape != size:
        raise InputError(
            f"{path}: {mask.shape[1]} x {mask.shape[0]} pixels, but {source.image} has {size[1]} x "
            f"{size[0]}. Expected equal sizes. Export the mask again at the image's size."
        )
    names, smallest = settings.mask_names, settings.smallest_area
    objects, marked = component_boxes(mask, names, smallest), component_boxes(mask, {}, smallest_area=1)
    named = component_boxes(mask, names, smallest_area=1) if names else marked
    unnamed = values_without_name(mask, names) if names else ()
    return SourceBoxes(objects, marked, unnamed, len(named) - len(objects))


def _from_table(
    files: dict[str, Path],
    table: Path,
    said: CocoBoxes,
) -> tuple[list[SonarSource], list[Skipped]]:
    boxes: dict[str, list[Box]] = {}
    for file, of_image in said.boxes.items():
        boxes.setdefault(source_name(file), []).extend(of_image)
    stated = {source_name(file): size for file, size in said.sizes.items()}
    crowds = {source_name(file): number for file, number in said.crowds.items()}
    found = [
        SonarSource(
            stem,
            file,
            boxes=tuple(boxes[stem]),
            stated_size=stated.get(stem),
            num_crowds=crowds.get(stem, 0),
        )
        for stem, file in files.items()
        if stem in boxes
    ]
    orphans = [
        Skipped(table, f"{table}: boxes of {stem!r}, but no such image. Add the image or remove the rows.")
        for stem in sorted(boxes.keys() - files.keys())
    ]
    return found, orphans + _without_annotation(files, boxes.keys(), table)


def _from_folder(
    files: dict[str, Path], images: Path, annotations: Path
) -> tuple[list[SonarSource], list[Skipped]]:
    same = annotations.resolve() == images.resolve()
    entries = _data_files(annotations)
    suffixes = {entry.suffix.lower() for entry in entries}
    class_names: tuple[str, ...] = ()
    if ".xml" in suffixes:
        kinds: Collection[str] = {".xml"}
    elif ".txt" in suffixes:
        kinds = {".txt"}
        class_names = read_class_names([annotations, annotations.parent, images])
    elif suffixes & MASK_SUFFIXES and not same:
        kinds = MASK_SUFFIXES
    else:
        raise InputError(
            f"{annotations}: no annotation found. Expected a CSV or COCO JSON file, or a folder of Pascal "
            "VOC files (.xml), YOLO files (.txt) or masks other than the images."
        )
    by_stem, skipped = files_by_stem(entries, kinds)
    if kinds == MASK_SUFFIXES:
        by_stem = without_common_ending(by_stem, files)
    found = [
        SonarSource(stem, file, annotation=by_stem[stem], class_names=class_names)
        for stem, file in files.items()
        if stem in by_stem
    ]
    orphans = [
        Skipped(path, f"{path}: no image with the stem {stem!r} in {images}. Add it or remove the file.")
        for stem, path in by_stem.items()
        if stem not in files
    ]
    return found, skipped + orphans + _without_annotation(files, by_stem.keys(), annotations)


def _without_annotation(files: dict[str, Path], stems: Collection[str], where: Path) -> list[Skipped]:
    return [
        Skipped(
            file,
            f"{file}: no annotation in {where}. Add one; an empty one if the image shows no object.",
        )
        for stem, file in files.items()
        if stem not in stems
    ]


def _data_files(folder: Path) -> list[Path]:
    """List what a folder holds besides the names of YOLO's class numbers."""
    return [entry for entry in listed(folder) if not is_class_file(entry)]


OBJECT_NAME = "object"
"""Class of all values but 0 where values have no names."""


def values_without_name(mask: npt.NDArray[np.integer[Any]], names: Mapping[int, str]) -> tuple[int, ...]:
    """Return the values of a mask, but for 0, that have no name.

    Args:
        mask: uint8 or uint16 [height, width].
        names: Class of each value that marks objects.

    Example:
        >>> values_without_name(np.array([[0, 7], [9, 9]], np.uint8), {9: "mine"})
        (7,)
    """
    largest = int(np.iinfo(mask.dtype).max)
    counts = cv2.calcHist([np.ascontiguousarray(mask)], [0], None, [largest + 1], [0, largest + 1])
    return tuple(value for value in np.flatnonzero(counts).tolist() if value and value not in names)


def component_boxes(
    mask: npt.NDArray[np.integer[Any]], names: Mapping[int, str], smallest_area: int
) -> list[Box]:
    """Return a box around each connected component (with diagonal neighbours) of a mask's objects.

    Args:
        mask: [height, width], an object's value or another one at each pixel.
        names: Class of each value that marks objects; empty for "object" wherever the value is not 0.
        smallest_area: Smaller components, in pixels, are left out.

    Returns:
        The boxes, value by value.

    Example:
        >>> mask = np.zeros((8, 8), np.uint8)
        >>> mask[2:5, 3:5] = 255
        >>> component_boxes(mask, {}, smallest_area=2)
        [Box(name='object', left=3, top=2, width=2, height=3)]
    """
    chosen = (
        [(name, mask == value) for value, name in sorted(names.items())]
        if names
        else [(OBJECT_NAME, mask != 0)]
    )
    boxes = []
    for name, objects in chosen:
        # The first component is what is not an object.
        _, _, statistics, _ = cv2.connectedComponentsWithStats(objects.astype(np.uint8), connectivity=8)
        boxes += [
            Box(name, *map(int, row[:4])) for row in statistics[1:] if row[cv2.CC_STAT_AREA] >= smallest_area
        ]
    return boxes
