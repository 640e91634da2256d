"""The manifest of a prepared folder: what it holds, how it was made, and a checksum of each file."""

import hashlib
import os
from collections.abc import Iterable
from functools import cached_property
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from data_prep.errors import InputError
from data_prep.files.atomic import refuse_existing
from data_prep.files.image_settings import KINDS_DESCRIPTION, ImageKinds

MANIFEST_NAME = "manifest.json"
SCHEMA_VERSION: Literal[1] = 1

RECORDS_SUFFIX = ".tfrecord"
RECORD_HEADER_BYTES = 12  # of a TFRecord: length (8) and its checksum (4)
RECORD_FOOTER_BYTES = 4  # checksum of the data
_LENGTH_BYTES = 8

_LABELS_OF = {
    "classify": "one class for each image",
    "multilabel": "several yes/no labels for each image",
    "votes": "votes of several people for the class of each image",
}
"""Of what users know as one application, `classify`: what its folders hold."""

ManifestKind = TypeVar("ManifestKind", bound="Manifest")


class Example(BaseModel):
    """One prepared example; an application adds what it knows of its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="Name of the example, unique in the folder.")
    shard: str = Field(description="File of the prepared folder that holds the example.")
    offset: int = Field(ge=0, description="Position in bytes of the example's record in the shard.")
    length: int = Field(
        gt=0, description="Length in bytes of the serialised example, without the record's framing."
    )
    height: int = Field(gt=0, description="Height of the original image in pixels, upright.")
    width: int = Field(gt=0, description="Width of the original image in pixels, upright.")
    group: str = Field(description="Examples of one group stay on one side of every split.")
    fold: int | None = Field(
        default=None, ge=0, description="The fold in which the example is tested, with k folds."
    )
    split: Literal["train", "test"] | None = Field(
        default=None, description="Part of a fixed split, without folds."
    )


class Manifest(BaseModel):
    """Contents of a prepared folder, stored in it as `manifest.json`.

    An application subclasses it: it gives `application` a fixed value and adds fields to the manifest and to
    its examples.

    Attributes:
        label_noun: What sentences call that by which examples are divided evenly, singular and plural.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    label_noun: ClassVar[tuple[str, str]] = ("class", "classes")

    schema_version: Literal[1] = Field(default=SCHEMA_VERSION, description="Version of this layout.")
    application: str = Field(description="The application the folder was prepared for.")
    class_names: tuple[str, ...] = Field(description="Name of each class, in the order of the labels.")
    size: tuple[int, int] = Field(description="Height and width in pixels of the prepared images.")
    kinds: ImageKinds = Field(default=(), description=KINDS_DESCRIPTION)
    num_folds: int | None = Field(default=None, description="Number of folds, or None for a fixed split.")
    settings: dict[str, Any] = Field(description="The settings of `prepare`, as given.")
    num_examples: int = Field(gt=0, description="Number of examples.")
    num_skipped: int = Field(ge=0, description="Number of inputs left out; they are listed in skipped.csv.")
    examples: tuple[Example, ...] = Field(description="The examples in the order of their names.")
    sha256: dict[str, str] = Field(description="SHA-256 of each other file of the folder, by name.")

    @field_validator("size")
    @classmethod
    def _check_size(cls, value: tuple[int, int]) -> tuple[int, int]:
        if min(value) < 1:
            raise ValueError(f"{value[0]} x {value[1]} is no size of an image")
        return value

    @field_validator("sha256")
    @classmethod
    def _check_plain_names(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if PurePosixPath(name).name != name or "\\" in name or name in {"", ".."}:
                raise ValueError(f"{name!r} is not a plain file name")
        return value

    def select(self, names: Iterable[str]) -> list[Example]:
        """Look up examples by name, in the order given.

        Args:
            names: Names of the examples.

        Returns:
            The examples, in the order of the names.

        Raises:
            InputError: A name is not in the manifest.
        """
        return [self.examples[row] for row in self.rows(names)]

    def rows(self, names: Iterable[str]) -> list[int]:
        """Return places among the examples, from 0, of names in the order given.

        Raises:
            InputError: A name is not in the manifest.
        """
        names = list(names)
        unknown = [name for name in names if name not in self._row]
        if unknown:
            raise InputError(
                f"{len(unknown)} names are not among the {self.num_examples} prepared examples: "
                f"{', '.join(unknown[:5])}. Use names listed in {MANIFEST_NAME}."
            )
        return [self._row[name] for name in names]

    @cached_property
    def _row(self) -> dict[str, int]:
        return {example.name: row for row, example in enumerate(self.examples)}


Target = float | tuple[float, ...]


class LabelledExample(Example):
    """One image or clip with its label."""

    label: int = Field(ge=0, description="Index of the example's class in the manifest's class_names.")
    digest: str = Field(
        default="",
        pattern="^[0-9a-f]*$",
        description="Digest of the image's pixels, by which it is recognised under another name; empty where "
        "the application takes none.",
    )

    @property
    def target(self) -> Target:
        """What a model learns of it: the index of its class, a number, or several labels."""
        return self.label


class LabelledManifest(Manifest):
    """Contents of a prepared folder of labelled images; an application gives `application` its name.

    Attributes:
        target_type: Type of the `target` of each example, as NumPy calls it.
    """

    target_type: ClassVar[str] = "int32"

    examples: tuple[LabelledExample, ...] = Field(description="The examples in the order of their names.")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a stored example: height, width, 3; a subclass may have more in front."""
        return (*self.size, 3)

    @model_validator(mode="after")
    def _check_labels(self) -> "LabelledManifest":
        highest = max((example.label for example in self.examples), default=0)
        if highest >= len(self.class_names):
            raise ValueError(f"label {highest}, but {len(self.class_names)} class_names")
        return self

    def targets(self, names: Iterable[str]) -> list[Target]:
        """Return what a model learns of examples by name, in the order given."""
        return [self.examples[row].target for row in self.rows(names)]


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_destination(out: Path, sources: Iterable[Path], *, overwrite: bool) -> None:
    """Refuse to write where input lies, or over what `prepare` has not written.

    Args:
        out: Folder to write.
        sources: Files and folders of the input.
        overwrite: Whether a folder that `prepare` has written may be replaced.

    Raises:
        InputError: `out` exists and `overwrite` is false, was not written by `prepare`, or holds a source.
    """
    refuse_existing(out, overwrite=overwrite)
    for source in sources:
        if source.resolve().is_relative_to(out.resolve()):
            raise InputError(f"{out}: holds the input folder {source}. Choose another output folder.")
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST_NAME).is_file():
        raise InputError(
            f"{out}: has no {MANIFEST_NAME}, so it was not written by `prepare`; it is not overwritten. "
            "Choose another output folder, or remove this one yourself."
        )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write `manifest.json` into a folder that is still under its temporary name."""
    (folder / MANIFEST_NAME).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> bytes:
    """Read the file of a manifest, unchecked.

    Args:
        folder: Prepared folder.

    Returns:
        The content of `manifest.json`.

    Raises:
        InputError: The folder is not a prepared one.
    """
    path = folder / MANIFEST_NAME
    try:
        return path.read_bytes()
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not os.path.lexists(folder):
            raise InputError(
                f"{folder} does not exist. Check the path: pass a folder written by `prepare`."
            ) from error
        if folder.is_file():
            raise InputError(
                f"{folder}: is a file, expected a folder written by `prepare`. Give the folder, such as "
                f"{folder.parent}."
            ) from error
        raise InputError(
            f"{path}: cannot be read ({error.strerror}). Expected a folder written by `prepare`. "
            "Give that folder, or run `prepare` first."
        ) from error


class _Application(BaseModel):
    application: str = ""


def application_of(folder: Path) -> str:
    """Return the application that a prepared folder names; empty where its manifest is none.

    Nothing else is checked: `load_manifest` says what is wrong with a manifest.

    Raises:
        InputError: The folder is not a prepared one.
    """
    try:
        return _Application.model_validate_json(read_manifest(folder)).application
    except ValidationError:
        return ""


def load_manifest(folder: Path, kind: type[ManifestKind]) -> ManifestKind:
    """Read the manifest of a prepared folder and check every file against it.

    Args:
        folder: Folder that `prepare` wrote.
        kind: The application's manifest class.

    Raises:
        InputError: The folder is not a prepared one, or is of another application or another schema version,
            or a file is missing or was changed.

    Example:
        >>> load_manifest(Path("prepared"), LaneManifest).num_examples  # doctest: +SKIP
        367
    """
    path = folder / MANIFEST_NAME
    try:
        manifest = kind.model_validate_json(read_manifest(folder))
    except ValidationError as error:
        problems = error.errors(include_url=False)
        for problem in problems:
            if problem["loc"] == ("application",):
                found, expected = problem["input"], kind.model_fields["application"].default
                labels, wanted = _LABELS_OF.get(str(found)), _LABELS_OF.get(expected)
                if labels and wanted:
                    raise InputError(
                        f"{path}: prepared with {labels}, expected {wanted}, as the model learned. Prepare "
                        "the images with a table of that kind."
                    ) from error
                raise InputError(
                    f"{path}: prepared for the application {found!r}, expected {expected!r}. Give a folder "
                    "that the application's own `prepare` wrote."
                ) from error
        first = problems[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(
            f"{path}: not a manifest of schema version {SCHEMA_VERSION} ({where}: {first['msg']}). "
            "Run `prepare` again with this version of gpimaging."
        ) from error
    for name, expected in manifest.sha256.items():
        _check_file(folder / name, expected)
    _check_shards_listed(path, manifest)
    _check_positions(folder, manifest)
    return manifest


def _check_file(path: Path, expected: str) -> None:
    if (
        path.exists() and not path.is_file()
    ):  # reading a pipe would wait for ever, and a device may have no end
        raise InputError(
            f"{path}: is no file, but a folder, a pipe or a device. Restore the file or run `prepare` again."
        )
    try:
        found = file_sha256(path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}), but {MANIFEST_NAME} lists it. Restore the file or "
            "run `prepare` again."
        ) from error
    if found != expected:
        raise InputError(
            f"{path}: does not match {MANIFEST_NAME} (SHA-256 {found[:12]}..., expected "
            f"{expected[:12]}...): the file was changed or not copied completely. Restore it or run "
            "`prepare` again."
        )


def _check_positions(folder: Path, manifest: Manifest) -> None:
    """Refuse places of records that are not where the shards have one, before anything is read from there."""
    for shard, examples in groupby(manifest.examples, key=lambda example: example.shard):
        if not shard.endswith(RECORDS_SUFFIX):
            continue
        size = (folder / shard).stat().st_size
        with (folder / shard).open("rb") as file:
            for example in examples:
                end = example.offset + RECORD_HEADER_BYTES + example.length + RECORD_FOOTER_BYTES
                stated = -1
                if end <= size:
                    file.seek(example.offset)
                    stated = int.from_bytes(file.read(_LENGTH_BYTES), "little")
                if stated != example.length:
                    raise InputError(
                        f"{folder / MANIFEST_NAME}: says that {example.name!r} has {example.length} bytes at "
                        f"byte {example.offset} of {shard}, where no such record is. Run `prepare` again."
                    )


def _check_shards_listed(path: Path, manifest: Manifest) -> None:
    unlisted = sorted({example.shard for example in manifest.examples} - manifest.sha256.keys())
    if unlisted or manifest.num_examples != len(manifest.examples):
        raise InputError(
            f"{path}: contradicts itself ({len(manifest.examples)} examples, {manifest.num_examples} "
            f"announced, shards without checksum: {unlisted}). Run `prepare` again."
        )
