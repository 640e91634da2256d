"""Boxes read from annotation files: Pascal VOC XML, YOLO text, COCO JSON, CSV. Every file is untrusted."""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET
from xml.parsers import expat

import yaml

from data_prep.errors import InputError
from data_prep.files.tables import (
    CLASS_ALIASES,
    FILE_ALIASES,
    read_table,
    read_text,
    table_header,
    table_number,
    whole_number,
)
from data_prep.files.yaml_text import parse_yaml, yaml_problem
from data_prep.sonar.boxes import Box

CSV_COLUMNS = ("image", "x", "y", "w", "h", "class")
"""Columns of a CSV file of boxes: image file, left and upper border, width and height in pixels, class."""

CORNERS = ("x1", "y1", "x2", "y2")
"""Columns of a CSV file of boxes by corners: left, upper, right and lower border in pixels."""

_OF_CORNERS: dict[str, tuple[str, ...]] = {
    "x1": ("xmin", "x_min", "left"),
    "y1": ("ymin", "y_min", "top"),
    "x2": ("xmax", "x_max", "right"),
    "y2": ("ymax", "y_max", "bottom"),
}

_ALIASES: dict[str, tuple[str, ...]] = {
    "image": FILE_ALIASES,
    "class": CLASS_ALIASES,
    "x": ("left",),
    "y": ("top",),
    "w": ("width",),
    "h": ("height",),
}

_SHOWN = 10  # wrong rows that a message shows

_CLASS_FILES = ("classes.txt", "obj.names", "data.yaml", "data.yml", "dataset.yaml")


def read_voc(path: Path, size: tuple[int, int]) -> list[Box]:
    """Read the boxes of a Pascal VOC file: `object` elements with a `name` and a `bndbox`.

    Columns and rows count from 1, and the last ones belong to the box, as the VOC development kit has it.

    Args:
        path: The XML file.
        size: Height and width of the image; the file's own `size`, where it states one, must agree.

    Raises:
        InputError: No such file, no such format, an element without its numbers, or another size.

    Example:
        >>> read_voc(Path("annotations/line_07.xml"), (480, 320))  # doctest: +SKIP
        [Box(name='mine', left=12.0, top=40.0, width=31.0, height=28.0)]
    """
    root = _parse_xml(path)
    if root.tag != "annotation":
        raise InputError(
            f"{path}: the outermost element is {root.tag!r}; expected 'annotation', as in Pascal VOC."
        )
    stated = tuple(_number(path, root, f"size/{side}", default=0.0) for side in ("height", "width"))
    if all(stated) and stated != size:
        raise InputError(
            f"{path}: annotates an image of {stated[1]:g} x {stated[0]:g} pixels, but the image has "
            f"{size[1]} x {size[0]}. Export the annotations again at the image's present size."
        )
    boxes = []
    for element in root.iter("object"):
        name = (element.findtext("name") or "").strip()
        if not name:
            raise InputError(f"{path}: an object has no name. Expected the name of its class.")
        left, top, right, bottom = (
            _number(path, element, f"bndbox/{border}") for border in ("xmin", "ymin", "xmax", "ymax")
        )
        boxes.append(Box(name, left - 1, top - 1, right - left + 1, bottom - top + 1))
    as_written = [Box(box.name, box.left + 1, box.top + 1, box.width - 1, box.height - 1) for box in boxes]
    require_pixels(as_written, path)
    return boxes


def read_yolo(path: Path, size: tuple[int, int], class_names: Sequence[str]) -> list[Box]:
    """Read the boxes of a YOLO text file: per line a class number, centre x, centre y, width and height.

    Args:
        path: The text file; an empty one means that the image shows no object.
        size: Height and width of the image; the numbers in the file are shares of them.
        class_names: Names of the class numbers from 0, from `read_class_names`.

    Raises:
        InputError: No such file, or a line of another form.
    """
    boxes = []
    for at, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        fields = line.split()
        index, values = whole_number(fields[0]), _finite(fields[1:5])
        if len(fields) not in {5, 6} or values is None or index is None:
            raise InputError(
                f"{path}, line {at}: found {line.strip()[:60]!r}; expected a class number and four "
                "numbers: centre x, centre y, width, height, as shares of the image."
            )
        if index >= len(class_names):
            raise InputError(
                f"{path}, line {at}: class number {index}, but there are {len(class_names)} class "
                f"names ({', '.join(class_names[:5])}). Complete the file of class names."
            )
        x, width = values[0] * size[1], values[2] * size[1]
        y, height = values[1] * size[0], values[3] * size[0]
        boxes.append(Box(class_names[index], x - width / 2, y - height / 2, width, height))
    return boxes


def read_class_names(folders: Iterable[Path]) -> tuple[str, ...]:
    """Read the names of YOLO's class numbers from the first file found in some folders.

    Args:
        folders: Folders in which to look for `classes.txt` or `obj.names` (one name per line) or `data.yaml`
            (`names`).

    Raises:
        InputError: None of these files exists, or the one found has no names.
    """
    folders = list(folders)
    found = [folder / name for folder in folders for name in _CLASS_FILES if (folder / name).is_file()]
    if not found:
        raise InputError(
            f"{folders[0]}: YOLO annotations, but no file with the names of the classes. Expected one of "
            f"{', '.join(_CLASS_FILES)} there or beside the folder."
        )
    text = read_text(found[0])
    if found[0].suffix in {".yaml", ".yml"}:
        names = _yaml_names(found[0], text)
    else:
        names = [line.strip() for line in text.rstrip().splitlines()]
    if not names or not all(names):
        missing = "an empty class name" if names else "no class names"
        raise InputError(f"{found[0]}: {missing} found. Expected one name for each class number.")
    return tuple(names)


def is_class_file(path: Path) -> bool:
    """Whether a file holds the names of YOLO's class numbers, by its name."""
    return path.name in _CLASS_FILES


def read_box_table(path: Path) -> dict[str, list[Box]]:
    """Read the boxes of many images from a CSV file with the columns image, x, y, w, h, class.

    x and y are the left and the upper border. A file with the columns x2 and y2, or other names of the right
    and lower border, has those of the corners in the place of w and h. A row with nothing but an image says
    that it shows no object.

    Args:
        path: CSV file.

    Returns:
        Boxes by the image column, as it is written.

    Raises:
        InputError: No such file, a missing column, or a row without its numbers.
    """
    boxes: dict[str, list[Box]] = {}
    wrong = []
    plain = {name.lower().replace(" ", "_") for name in table_header(path)[0]}
    has_corners = not plain >= {*CSV_COLUMNS[1:5]} and all(
        plain & {name, *_OF_CORNERS[name]} for name in CORNERS
    )
    columns = ("image", *CORNERS, "class") if has_corners else CSV_COLUMNS
    for line, row in read_table(path, columns, aliases=_ALIASES | _OF_CORNERS).items():
        given = [row[column] for column in columns]
        values = _finite(given[1:5])
        if has_corners and values is not None:
            left, top, right, bottom = values
            values = [left, top, right - left, bottom - top]
        if row["image"] and not any(given[1:]):
            boxes.setdefault(row["image"], [])
        elif values is None or not row["image"] or not row["class"]:
            wrong.append(f"{path}, line {line}: found {','.join(given)!r}")
        else:
            boxes.setdefault(row["image"], []).append(Box(row["class"], *values))
    if wrong:
        more = f"... and {len(wrong) - _SHOWN} rows more\n" if len(wrong) > _SHOWN else ""
        shown = "\n".join(wrong[:_SHOWN])
        raise InputError(
            f"{shown}\n{more}Expected an image, four numbers and a class, or nothing but an image that shows "
            "no object. Correct or remove these rows."
        )
    require_pixels([box for of_image in boxes.values() for box in of_image], path)
    return boxes


def require_pixels(boxes: Collection[Box], path: Path) -> None:
    """Refuse boxes that are shares of their images, as YOLO and Open Images have them.

    Args:
        boxes: All boxes of a set.
        path: Where they were read, for the message.

    Raises:
        InputError: There are boxes, and all of their borders lie between 0 and 1.
    """
    if boxes and all(min(box.left, box.top) >= 0 and max(box.right, box.bottom) <= 1 for box in boxes):
        raise InputError(
            f"{path}: all {len(boxes)} boxes lie between 0 and 1, as shares of the image, for example "
            f"{next(iter(boxes)).describe()}. Expected pixels from the upper left corner: multiply x and w "
            "by the width of the image, y and h by its height."
        )


@dataclass(frozen=True)
class CocoBoxes:
    """What a COCO file says.

    Attributes:
        boxes: Boxes by the file name of their image; none of an image that shows no object.
        sizes: Height and width of the images by file name, where the file states them.
        crowds: How many of the boxes stand for several objects (`iscrowd`), by file name, where any do.
    """

    boxes: dict[str, list[Box]]
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    crowds: dict[str, int] = field(default_factory=dict)


def read_coco(path: Path) -> CocoBoxes:
    """Read the boxes of many images from a JSON file as COCO has it: images, annotations and categories.

    Args:
        path: The JSON file.

    Raises:
        InputError: No such file, no such format, or a box without its image, its category or four numbers.
    """
    try:
        content = json.loads(read_text(path))
        files = {entry["id"]: str(entry["file_name"]) for entry in content["images"]}
        classes = {entry["id"]: str(entry["name"]).strip() for entry in content["categories"]}
        if len(files) < len(content["images"]) or len(classes) < len(content["categories"]):
            raise ValueError("an id is given twice, as where files were joined")
        if not all(classes.values()):
            raise ValueError("a category without a name")
        sizes = {
            str(entry["file_name"]): (int(entry["height"]), int(entry["width"]))
            for entry in content["images"]
            if entry.get("height") and entry.get("width")
        }
        boxes: dict[str, list[Box]] = {file: [] for file in files.values()}
        for entry in content["annotations"]:
            left, top, width, height = map(float, entry["bbox"])
            if not all(map(math.isfinite, (left, top, width, height))):
                raise ValueError(f"bbox {entry['bbox']} is not finite")
            boxes[files[entry["image_id"]]].append(
                Box(classes[entry["category_id"]], left, top, width, height)
            )
        crowds = Counter(files[entry["image_id"]] for entry in content["annotations"] if entry.get("iscrowd"))
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: no COCO file of boxes ({type(error).__name__}: {error}). Expected images with id and "
            "file_name, annotations with image_id, category_id and bbox [x, y, width, height] in pixels, and "
            "categories with id and name; or a CSV file, or a folder of Pascal VOC or YOLO files."
        ) from error
    require_pixels([box for of_image in boxes.values() for box in of_image], path)
    return CocoBoxes(boxes, sizes, crowds)


def _parse_xml(path: Path) -> ET.Element:
    """Parse a file that declares no document type: entities are neither expanded nor fetched."""

    def refuse(*_: object) -> None:
        raise InputError(f"{path}: declares a document type, which annotations do not need. Remove it.")

    builder = ET.TreeBuilder()
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(path.read_bytes(), True)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}). Check that you may read it.") from error
    except (expat.ExpatError, ValueError, LookupError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: no complete XML file ({error}). Export the annotations again.") from error
    return builder.close()


def _number(path: Path, element: ET.Element, where: str, default: float | None = None) -> float:
    text = element.findtext(where)
    if text is None and default is not None:
        return default
    values = _finite([text or ""])
    if values is None:
        raise InputError(f"{path}: {where} is {text!r}; expected a number. Correct the annotation.")
    return values[0]


def _finite(texts: Sequence[str]) -> list[float] | None:
    try:
        values = [table_number(text) for text in texts]
    except ValueError:
        return None
    return values if all(map(math.isfinite, values)) else None


def _yaml_names(path: Path, text: str) -> list[str]:
    try:
        names = (parse_yaml(text) or {}).get("names") or []
        if isinstance(names, dict):
            names = [names[index] for index in range(len(names))]
    except (yaml.YAMLError, AttributeError, KeyError) as error:
        raise InputError(
            f"{path}: no names by class number found ({yaml_problem(error)}). Expected "
            "`names: [first, second]`."
        ) from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"{path}: names is {str(names)[:80]}; expected a list of texts, `names: [first, second]`. Put "
            "names in quotes that YAML takes for something else."
        )
    return names
