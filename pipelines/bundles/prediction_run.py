"""What a predict step remembers of the files that are done, so that the same command goes on from there.

`predict_run.json` says by which bundle and settings the folder was predicted; `predict_run.jsonl` has a line
for each file that is done, in the order in which they were. Neither needs TensorFlow.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from data_prep.errors import InputError
from data_prep.files.atomic import write_text
from data_prep.files.json_files import parse_json, read_json
from data_prep.prepared.manifest import file_sha256
from pipelines.bundles.sources import Source
from pipelines.command.folders import METADATA, PREDICT_RUN, require_no_predictions

RECORDS: Final = "predict_run.jsonl"

_SHARED_SECONDS: Final = 60.0  # NFS shows what other machines have written that late

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Record:
    """What was predicted of a file.

    Attributes:
        file: The file, or the folder of several.
        stem: Stem of its outputs.
        sha256: Of the content when it was predicted, see `source_sha256`.
        lines: Fields of its lines in `predictions.csv`.
        files: Names within the output folder and sizes, bytes, of the files that were written of it.
        left_out: File and reason of parts of it that could not be used, such as frames.
    """

    file: str
    stem: str
    sha256: str
    lines: Annotated[Sequence[Mapping[str, Any]], Field(min_length=1)]
    files: Sequence[tuple[str, int]]
    left_out: Sequence[tuple[str, str]] = ()

    @property
    def is_good(self) -> bool:
        """Whether all of the file could be predicted; if not, it is tried again."""
        return all(line["status"] == "ok" for line in self.lines)

    def missing(self, out: Path) -> Path | None:
        """Return a file of it that is not in the output folder with its size, None where all are."""
        for name, size in self.files:
            path = out / name
            if not path.is_file() or path.stat().st_size != size:
                return path
        return None


@dataclass
class PredictionRun:
    """The files of an output folder that are done.

    Attributes:
        out: Output folder.
        header: Content of `predict_run.json`.
        kept: Records of the files that are done, by file and stem.
    """

    out: Path
    header: Mapping[str, Any]
    kept: dict[tuple[str, str], Record] = field(default_factory=dict)

    _is_started: bool = field(default=False, init=False)

    def record_of(self, source: Source) -> Record | None:
        """Return what was predicted of a file by an earlier command, None where nothing was."""
        return self.kept.get((str(source.path), source.stem))

    def require_lines(self, line_class: type) -> None:
        """Refuse records whose lines are none of an application.

        Args:
            line_class: Class of the application's lines.

        Raises:
            InputError: A line has other fields, or other types of them.
        """
        adapter: TypeAdapter[Any] = TypeAdapter(line_class)
        for record in self.kept.values():
            for fields in record.lines:
                try:
                    line_class(**fields)  # pydantic would let fields pass that there are not
                    adapter.validate_python(fields)
                except (TypeError, ValidationError) as error:
                    raise _damaged(self.out / RECORDS, f"in its entry for {record.file}") from error

    def require_shared(self, record: Record) -> None:
        """Refuse a record of a worker whose files are not in this output folder.

        Raises:
            InputError: One is not there after the time that a network's file system may take to show it.
        """
        ends = time.monotonic() + _SHARED_SECONDS
        while (path := record.missing(self.out)) is not None:
            if time.monotonic() > ends:
                raise InputError(
                    f"{path}: a worker of the cluster has written it, but here it is missing or of another "
                    "size. --out must be a folder that all workers share under the same path, and into which "
                    "only one command writes. Give another --out."
                )
            time.sleep(min(1.0, _SHARED_SECONDS))

    def _start(self) -> None:
        """Write `predict_run.json`, and the records that are kept."""
        self._is_started = True
        self.out.mkdir(parents=True, exist_ok=True)
        write_text(self.out / RECORDS, "".join(map(_text, self.kept.values())))
        write_text(self.out / PREDICT_RUN, json.dumps(self.header, indent=2) + "\n")

    def add(self, record: Record) -> None:
        """Remember a file that is done, unless a part of it could not be predicted."""
        if record.is_good:
            if not self._is_started:
                self._start()
            with (self.out / RECORDS).open("a", encoding="utf-8") as file:
                file.write(_text(record))


def open_run(
    out: Path, *, application: str, bundle: Path, settings: BaseModel, sources: Sequence[Source]
) -> PredictionRun:
    """Find out which files of an output folder are done.

    Args:
        out: Output folder; need not exist.
        application: Name of the application.
        bundle: Folder of the bundle.
        settings: Of the step.
        sources: Files to predict.

    Raises:
        InputError: The folder holds predictions by another bundle or other settings, of files that have
            changed or are not among those to predict, or predictions without a record.
    """
    header = {
        "gpimaging": version("gpimaging"),
        "application": application,
        "bundle": bundle_sha256(bundle),
        "settings": settings.model_dump(mode="json"),
    }
    if not (out / PREDICT_RUN).is_file():
        require_no_predictions(out)
        return PredictionRun(out, header)
    _require_same(out, _read_header(out), header)
    return PredictionRun(out, header, _checked(out, _read_records(out), sources))


def _read_header(out: Path) -> Mapping[str, Any]:
    try:
        found = read_json(out / PREDICT_RUN)
    except ValueError as error:
        raise _damaged(out / PREDICT_RUN, "it is no JSON") from error
    if not (isinstance(found, dict) and isinstance(found.get("settings"), dict)):
        raise _damaged(out / PREDICT_RUN, "it has no settings")
    return found


def _require_same(out: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    names = {"bundle": "another bundle", "application": "another application", "gpimaging": "another version"}
    other = [text for key, text in names.items() if found.get(key) != wanted[key]]
    former, present = found["settings"], wanted["settings"]
    other += [
        f"other {key}"  # such as costs, whose tables would fill the screen
        if isinstance(former.get(key) or present.get(key), dict)
        else f"{key}={former.get(key)!r} instead of {present.get(key)!r}"
        for key in sorted({*former, *present})
        if former.get(key) != present.get(key)
    ]
    if other:
        raise InputError(
            f"{out} already holds predictions by {', '.join(other)}. Run the command that began them again, "
            "or give another --out."
        )


def _read_records(out: Path) -> list[Record]:
    """Return the records; a last line that was cut off is not one, and its file is done again."""
    path = out / RECORDS
    if not path.is_file():
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except ValueError as error:
        raise _damaged(path, "it is no text") from error
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    adapter = TypeAdapter(Record)
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(adapter.validate_python(parse_json(line)))
        except ValueError as error:
            raise _damaged(path, f"in line {number}") from error
    return records


def _damaged(path: Path, where: str) -> InputError:
    return InputError(f"{path}: is damaged ({where}). Give another --out.")


def _checked(
    out: Path, records: Sequence[Record], sources: Sequence[Source]
) -> dict[tuple[str, str], Record]:
    kept = {(record.file, record.stem): record for record in records}
    given = {(str(source.path), source.stem): source for source in sources}
    for key, record in kept.items():
        if key not in given:
            raise InputError(
                f"{out} already holds predictions of {record.file} as {record.stem}, which is not among the "
                "files to predict, or under another name. Pass the same --input, or give another --out."
            )
        if source_sha256(given[key]) != record.sha256:
            back = "its files" if given[key].files else "the file"
            raise InputError(
                f"{record.file}: has changed since {out} was predicted. Give another --out, or put {back} "
                "back."
            )
    incomplete = {key: path for key, record in kept.items() if (path := record.missing(out)) is not None}
    if incomplete:
        LOGGER.warning(
            "%d files are predicted again, for what was written of them is missing or changed, such as %s",
            len(incomplete),
            next(iter(incomplete.values())),
        )
    return {key: record for key, record in kept.items() if key not in incomplete}


def source_sha256(source: Source) -> str:
    """Return the SHA-256 of the content of a source, as hexadecimal digits.

    For a folder, the names and digests of its files are hashed in order; a file that cannot be read has no
    digest.

    Args:
        source: The source.

    Raises:
        OSError: The source is one file, which cannot be read.

    Example:
        >>> frames = (Path("well/0.png"), Path("well/1.png"))
        >>> source_sha256(Source(Path("well"), "well", files=frames))  # doctest: +SKIP
        '5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef'
    """
    if not source.files:
        return file_sha256(source.path)
    digest = hashlib.sha256()
    for file in source.files:
        digest.update(os.fsencode(file.name) + b"\0" + _sha256_if_readable(file).encode() + b"\n")
    return digest.hexdigest()


def _sha256_if_readable(file: Path) -> str:
    try:
        return file_sha256(file)
    except OSError:
        return ""  # the predictor leaves such a file out and names it


def bundle_sha256(bundle: Path) -> str:
    """Return what tells a bundle from others: its metadata's SHA-256, which have those of all other files.

    Whoever opens a bundle compares its files with these.

    Raises:
        InputError: There are no metadata.
    """
    if not (bundle / METADATA).is_file():
        raise InputError(
            f"{bundle}: is no bundle, or cannot be seen here; expected a folder with {METADATA}."
        )
    return file_sha256(bundle / METADATA)


def _text(record: Record) -> str:
    return json.dumps(vars(record)) + "\n"
