"""What a person is to look at again: what a model left to a person, and labels that something contradicts."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, Field, ValidationError

from data_prep.errors import InputError
from data_prep.files.atomic import write_text
from data_prep.files.json_files import read_json
from data_prep.files.name_ends import values_by_name
from data_prep.files.tables import read_table, table_header, table_number
from data_prep.labelled.near_duplicates import CONTRADICTIONS
from data_prep.prepared.manifest import MANIFEST_NAME, read_manifest
from data_prep.splits.settings import SplitSettings
from pipelines.bundles.prediction_lines import probability_column
from pipelines.command.config import dump_settings
from pipelines.command.folders import METADATA, PREDICTIONS, RUN
from pipelines.label.pool import Pool

_COLUMNS: Final = ("file", "label", "predictive_entropy", "referred", "status")
_FURTHER: Final = ("familiarity", "unfamiliar")
_SHOWN: Final = "pictures.json"
"""What the pictures of patches or candidates were made of, in the folder of labels."""


def predicted_folder(predictions: Path) -> Path:
    """Return the folder that all predicted files lie in.

    Args:
        predictions: Folder that `predict` wrote.

    Raises:
        InputError: The table cannot be read, or its files are not where it says.
    """
    files = predicted_files(predictions)
    gone = [file for file in files if not file.is_file()]
    if gone or not files:
        raise InputError(
            f"{predictions / PREDICTIONS}: {gone[0] if gone else 'no file'} is not there. Give the folder of "
            "the images: gpimaging label IMAGES --from PREDICTIONS."
        )
    return Path(os.path.commonpath([file.parent for file in files]))


def predicted_files(predictions: Path) -> list[Path]:
    """Return all files of a table of predictions, in its order.

    Args:
        predictions: Folder that `predict` wrote.

    Raises:
        InputError: The table cannot be read.
    """
    return [Path(row["file"]) for row in _read(predictions).values()]


def require_other_folder(out: Path, images: Path) -> None:
    """Raise `InputError` where labels would get into the folder of the images.

    Args:
        out: Folder of the labels.
        images: Folder of the images.
    """
    if out.resolve() == images.resolve():
        raise InputError(f"--out {out}: is the folder of the images. Give another one for the labels.")


def keep_what_pictures_show(out: Path, shown: Mapping[str, Sequence[Any]]) -> None:
    """Write what pictures are made of, before they are: the same names mean the same when labelling goes on.

    Args:
        out: Folder of the labels.
        shown: The file, and how its pictures are cut, by the name of each image or sequence.

    Raises:
        InputError: Pictures of the same names were made of something else, or the file cannot be written.
    """
    path = out / _SHOWN
    try:
        former = dict(read_json(path)) if path.exists() else {}
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: cannot be read ({error}). Give another --out.") from error
    shown = json.loads(json.dumps(shown))
    other = next((name for name in shown if former.get(name, shown[name]) != shown[name]), None)
    if other is not None:
        raise InputError(
            f"{path}: the pictures of {other!r} in {out} were made of {former[other]}, now it is "
            f"{shown[other]}, so their labels would not fit. Give another --out. If only the folder of the "
            "images was moved, remove this file instead."
        )
    out.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({**former, **shown}, indent=1) + "\n")


def predicted_classes(predictions: Path, table: str = PREDICTIONS) -> tuple[str, ...]:
    """Return the classes whose probabilities a table of a folder of predictions has."""
    prefix = probability_column("")
    columns = table_header(predictions / table)[0]
    return tuple(column.removeprefix(prefix) for column in columns if column.startswith(prefix))


def referred_first(pool: Pool, predictions: Path) -> Pool:
    """Return a pool that asks for what a model referred, the least familiar first, then the least certain.

    Args:
        pool: The images that were predicted, and others.
        predictions: Folder that `predict` wrote, of images that are given one class.

    Raises:
        InputError: The table cannot be read, or nothing of the pool was referred.
    """
    referred = referred_rows(predictions, [image.name for image in pool.images], pool.folder)
    places = {name: place for place, name in enumerate(referred)}
    images = sorted(pool.images, key=lambda image: places.get(image.name, len(places)))
    return replace(
        pool,
        images=tuple(
            replace(one, reason=reason_of(referred[one.name])) if one.name in places else one
            for one in images
        ),
        classes=predicted_classes(predictions),
        purpose="referred",
    )


def referred_rows(predictions: Path, names: Sequence[str], folder: Path) -> dict[str, dict[str, str]]:
    """Return the rows of what a model left to a person, the most useful first.

    Args:
        predictions: Folder that `predict` wrote, of images that are given one class.
        names: Names of the images there are.
        folder: Where these go from, for messages.

    Raises:
        InputError: The table cannot be read, or none of the images was referred.
    """
    path, rows = predictions / PREDICTIONS, list(_read(predictions).values())
    found = values_by_name(path, ((row["file"], row) for row in rows if row["status"] == "ok"), names)
    referred = {name: row for name, row in found.items() if is_left_to_a_person(row)}
    if not referred:
        why = "refers no image" if found else f"has no file of {folder}, such as {next(iter(names), 'none')}"
        raise InputError(
            f"{path}: {why}, so there is nothing to label. Expected predictions of images that are given one "
            "class, some of them referred; videos and lanes cannot be labelled here yet."
        )
    return dict(sorted(referred.items(), key=lambda one: usefulness(one[1])))


def _read(predictions: Path) -> dict[int, dict[str, str]]:
    path = predictions / PREDICTIONS
    remedy = "`label --from` takes predictions of images that are given one class."
    return read_table(
        path, _COLUMNS, (*_FURTHER, *map(probability_column, predicted_classes(predictions))), remedy=remedy
    )


def _is_true(cell: str) -> bool:
    return cell.lower() == "true"


def _is_unlike(row: Mapping[str, str]) -> bool:
    return _is_true(row.get("unfamiliar", ""))


def is_left_to_a_person(row: Mapping[str, str]) -> bool:
    """Return whether a row of a table of predictions is referred, or unlike what the model was judged on."""
    return _is_true(row["referred"]) or _is_unlike(row)


def usefulness(row: Mapping[str, str]) -> tuple[bool, float, float]:
    """Return what rows are sorted by: unfamiliar ones first, of them the least familiar, then by entropy."""
    is_unlike = _is_unlike(row)
    familiarity = _number(row.get("familiarity", "")) if is_unlike else 0.0
    return not is_unlike, familiarity, -_number(row["predictive_entropy"])


def _number(cell: str) -> float:
    try:
        return table_number(cell)
    except ValueError:
        return 0.0


def reason_of(row: Mapping[str, str]) -> str:
    """Return why a row of a table of predictions is for a person, in two sentences."""
    probability = row.get(probability_column(row["label"]), "")
    certain = f" with probability {_number(probability):.2f}" if probability else ""
    why = "It is unlike the images that the model was judged on." if _is_unlike(row) else "It is not certain."
    return f"The model that predicted takes it for {row['label']}{certain} and leaves it to a person. {why}"


class _Trained(BaseModel):
    """What the descriptions of a run and of a bundle have in common."""

    class_names: tuple[str, ...]


def trained_classes(model: Path) -> tuple[str, ...] | None:
    """Return the classes of a run or a bundle; None where the folder is neither.

    Args:
        model: Folder.

    Raises:
        InputError: What describes it is damaged.
    """
    described = next((model / name for name in (METADATA, RUN) if (model / name).exists()), None)
    if described is None:
        return None
    try:
        return _Trained.model_validate(read_json(described)).class_names
    except (OSError, ValueError) as error:
        raise InputError(f"{described}: names no classes. Name them with --classes instead.") from error


def like_prepared(
    prepared: Path, kind: type[SplitSettings], former: Mapping[str, Any], out: Path
) -> tuple[str, ...]:
    """Write the settings by which `prepare` keeps the split of a prepared folder; return the option for them.

    Args:
        prepared: Folder that `prepare` wrote.
        kind: Class of the settings.
        former: Those of the folder, perhaps changed.
        out: Folder of the labels.

    Raises:
        InputError: The file cannot be written.
    """
    split = {"keep_split": prepared.resolve(), "train_list": None, "test_list": None}
    out.mkdir(parents=True, exist_ok=True)
    dump_settings(kind.model_validate({**former, **split}), out / "prepare.yaml")
    return ("--config", str(out / "prepare.yaml"))


class _PreparedImage(BaseModel):
    name: str
    source: str = ""
    label: int = Field(ge=0)
    group: str
    split: str | None = None


class _PreparedImages(BaseModel):
    """What the manifests of images with one class have in common."""

    class_names: tuple[str, ...]
    examples: tuple[_PreparedImage, ...]


def with_prepared(pool: Pool, prepared: Path) -> Pool:
    """Return a pool with labels, groups and split of a prepared folder; contradictions are reasons.

    Args:
        pool: The images that were prepared.
        prepared: Folder that `prepare` wrote of images with one class.

    Raises:
        InputError: The folder is no such folder, or holds other images.
    """
    content = read_manifest(prepared)
    try:
        manifest = _PreparedImages.model_validate_json(content)
        of_image = {
            one.source or one.name: (one, manifest.class_names[one.label]) for one in manifest.examples
        }
    except (ValidationError, IndexError) as error:
        raise InputError(
            f"{prepared / MANIFEST_NAME}: does not list images with one class each. Give a folder that "
            "`prepare` of classify, sonar or histopathology wrote."
        ) from error
    known = list(of_image.items())
    several = [
        one.source for one in manifest.examples if of_image[one.source or one.name][0].label != one.label
    ]
    if several:
        raise InputError(
            f"{prepared}: the patches of {several[0]!r} are of several classes. Give --set by=patch, so that "
            "patches are labelled."
        )
    names = [image.name for image in pool.images]
    found = values_by_name(prepared / MANIFEST_NAME, known, names)
    if not found:
        raise InputError(
            f"{prepared}: none of its {len(known)} examples (such as {known[0][0]}) is among the images of "
            f"{pool.folder}. Give the folder of the images that were prepared."
        )
    contradicted = values_by_name(prepared / CONTRADICTIONS, _contradictions(prepared).items(), names)
    images = []
    for found_image in pool.images:
        image = replace(found_image, reason=contradicted.get(found_image.name, ""))
        if image.name in found:
            one, label = found[image.name]
            image = replace(image, label=image.label or label, group=one.group, split=one.split or "")
        images.append(image)
    return replace(pool, images=tuple(images), classes=manifest.class_names)


def _contradictions(prepared: Path) -> dict[str, str]:
    """Return what is to be said of each example that looks like one of another class."""
    path = prepared / CONTRADICTIONS
    rows = read_table(path, ("file", "class", "other file", "other class")) if path.exists() else {}
    reasons: dict[str, str] = {}
    for row in rows.values():
        for one, other in (("", "other "), ("other ", "")):
            text = f"It looks the same as {row[f'{other}file']}, which is labelled {row[f'{other}class']}."
            reasons.setdefault(row[f"{one}file"], text)
    return reasons
