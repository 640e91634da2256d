"""Labels to and from other programs: Label Studio's JSON, and class folders."""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from numpy.typing import NDArray
from pydantic import BaseModel, TypeAdapter

from data_prep.errors import InputError, Skipped
from data_prep.files.atomic import atomic_folder, write_text
from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.json_files import read_json
from data_prep.files.name_ends import values_by_name
from pipelines.label.pool import Pool, PoolImage

_CHOICE: Final = {"from_name": "class", "to_name": "image", "type": "choices"}
"""Names of the two tags of a labelling configuration in Label Studio; docs/label.md shows it."""

_LOCAL_FILES: Final = "/data/local-files/?d="
_UPLOADED: Final = re.compile(r"^[0-9a-f]{8}-")


class ExportedImage(NamedTuple):
    """An image as other programs get it.

    Attributes:
        image: The image.
        label: Its class; empty without one.
        probability: Of each class `[C]`; None without a prediction, and for images that judge.
    """

    image: PoolImage
    label: str
    probability: NDArray[Any] | None


class _Result(BaseModel):
    type: str = ""
    value: dict[str, Any] = {}


class _Annotation(BaseModel):
    result: tuple[_Result, ...] = ()
    was_cancelled: bool = False


class _Task(BaseModel):
    data: dict[str, Any]
    annotations: tuple[_Annotation, ...] = ()


def with_label_studio(pool: Pool, path: Path) -> Pool:
    """Return a pool with the classes that an export of Label Studio has for its images.

    Args:
        pool: The images.
        path: The file, exported as JSON. What is skipped there stays without a label, and so does an image
            with several classes, which is listed as left out.

    Raises:
        InputError: The file is no such export, or has no image of the pool.
    """
    try:
        tasks = TypeAdapter(tuple[_Task, ...]).validate_python(read_json(path))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: is no export of Label Studio. Export the project there as JSON (not JSON-MIN)."
        ) from error
    named = [(file, _classes_of(task)) for task in tasks if (file := _file_of(task)) is not None]
    found = values_by_name(path, named, [image.name for image in pool.images])
    if not found:
        raise InputError(
            f"{path}: none of its {len(tasks)} tasks has an image of {pool.folder}, such as "
            f"{pool.images[0].name}. Give the folder of the images of that project."
        )
    several = [
        Skipped(path, f"{path}: {name} has the classes {', '.join(classes)}. Expected one. Correct it there.")
        for name, classes in found.items()
        if len(classes) > 1
    ]
    single = {name: classes[0] for name, classes in found.items() if len(classes) == 1}
    images = tuple(replace(one, label=single.get(one.name, one.label)) for one in pool.images)
    classes = tuple(sorted({*pool.classes, *single.values()}))
    return replace(pool, images=images, classes=classes, skipped=(*pool.skipped, *several))


def _file_of(task: _Task) -> str | None:
    """Return the path of a task's image, without what Label Studio puts before it."""
    for value in task.data.values():
        if not isinstance(value, str):
            continue
        address = urlsplit(value)
        file = parse_qs(address.query).get("d", [unquote(address.path)])[0]
        if Path(file).suffix.lower() in IMAGE_SUFFIXES:
            folder, slash, base = file.rpartition("/")
            is_uploaded = "data/upload" in folder
            return folder + slash + (_UPLOADED.sub("", base) if is_uploaded else base)
    return None


def _classes_of(task: _Task) -> list[str]:
    """Return the different classes that a task was given."""
    given = [
        str(choice)
        for annotation in task.annotations
        if not annotation.was_cancelled
        for result in annotation.result
        if result.type == "choices"
        for choice in result.value.get("choices", ())
    ]
    return list(dict.fromkeys(given))


def write_label_studio(path: Path, images: Sequence[ExportedImage], classes: Sequence[str]) -> None:
    """Write tasks that Label Studio imports: labels as annotations, probabilities as predictions with scores.

    Args:
        path: The file to write.
        images: The images, named from the folder on that Label Studio serves as local files.
        classes: Names of the classes.

    Raises:
        InputError: The file cannot be written.
    """
    tasks = []
    for image, label, probability in images:
        task: dict[str, Any] = {"data": {"image": _LOCAL_FILES + quote(image.name)}}
        if label:
            task["annotations"] = [{"result": [_choice(label)]}]
        elif probability is not None:
            place = int(probability.argmax())
            result, score = [_choice(classes[place])], round(float(probability[place]), 4)
            task["predictions"] = [{"model_version": "gpimaging", "score": score, "result": result}]
        tasks.append(task)
    write_text(path, json.dumps(tasks, indent=1) + "\n")


def _choice(class_name: str) -> dict[str, Any]:
    return {**_CHOICE, "value": {"choices": [class_name]}}


def write_class_folders(folder: Path, images: Sequence[ExportedImage]) -> None:
    """Copy the labelled images into a folder for each class.

    Args:
        folder: Folder to write; it must not be there.
        images: The images; those without a label are left out.

    Raises:
        InputError: A class cannot name a folder, two images would have one name, or the folder cannot be
            written.
    """
    copies: dict[Path, Path] = {}
    for image, label, _ in images:
        if not label:
            continue
        if Path(label).name != label or "\\" in label or label.startswith("."):
            raise InputError(f"The class {label!r} cannot name a folder. Export a .json file instead.")
        copy = Path(label, image.name.replace("/", "__"))
        if copy in copies:
            raise InputError(f"{copies[copy]} and {image.path} would both be {copy}. Rename one of them.")
        copies[copy] = image.path
    with atomic_folder(folder) as temporary:
        for copy, original in copies.items():
            (temporary / copy).parent.mkdir(exist_ok=True)
            shutil.copyfile(original, temporary / copy)
