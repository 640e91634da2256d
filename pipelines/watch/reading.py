"""What `predict` wrote, as a stream of images: each is counted once, however often a table is given."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from pydantic import Field

from data_prep.errors import InputError
from data_prep.files.json_files import read_json
from data_prep.files.tables import read_table, table_header, table_number
from pipelines.bundles.metadata import FAMILIARITY
from pipelines.bundles.prediction_run import bundle_sha256
from pipelines.command.console import show_note
from pipelines.command.folders import PREDICT_RUN
from pipelines.command.referral import ClassReferralSettings

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

_COUNTED: Final = ("file", FAMILIARITY)  # other columns may differ where the same images are predicted again


@dataclass(frozen=True)
class ReadTable:
    """A table that was read: how many images were counted from it, and the SHA-256 of their rows."""

    rows: Annotated[int, Field(ge=1)]
    digest: Digest


@dataclass(frozen=True)
class NewImages:
    """Images that were not counted before, in the order of time.

    Attributes:
        files: As the tables name them.
        familiarity: Of each of them.
        read: All tables that were read so far.
        left_out: Number of lines without a prediction or a familiarity.
    """

    files: tuple[str, ...]
    familiarity: tuple[float, ...]
    read: tuple[ReadTable, ...]
    left_out: int


def new_images(
    tables: Iterable[Path], read: Sequence[ReadTable], *, least: float, shuffle: int | None = None
) -> NewImages:
    """Read the images that tables of predictions have and earlier ones had not.

    A table that begins with all rows of an earlier one is that table, which has grown: the rest is new.

    Args:
        tables: Of `predict`, in the order of time.
        read: Tables that were read before.
        least: The least familiarity that the bundle can report.
        shuffle: Seed with which the new lines of each table are shuffled; None where they are in order.

    Raises:
        InputError: A table cannot be read, is empty, or has familiarities that the bundle cannot report.
    """
    remembered = {table.digest: table for table in read}
    files: list[str] = []
    familiarity: list[float] = []
    left_out = 0
    for path in tables:
        remedy = (
            "The bundle reports no familiarity of whole images; export the run again, or watch another one."
        )
        rows = read_table(path, ("file", FAMILIARITY, "status"), table_header(path)[0], remedy=remedy)
        counted = [
            (line, row) for line, row in rows.items() if row["status"] == "ok" and row[FAMILIARITY] != ""
        ]
        if not counted:
            raise InputError(
                f"{path}: none of its {len(rows)} lines has a familiarity and the status ok. Expected the "
                "predictions of one image at least. Leave the table out."
            )
        total, before = _compared([row for _, row in counted], remembered)
        remembered[total.digest] = total
        if before == total.rows:
            show_note(f"{path}: was counted before, and is not counted again.")
        new = counted[before:]
        if shuffle is not None:
            rng = np.random.default_rng([shuffle, int(total.digest[:16], 16)])
            new = [new[place] for place in rng.permutation(len(new))]
        for line, row in new:
            files.append(row["file"])
            familiarity.append(_number(f"{path}, line {line}", row[FAMILIARITY], least))
        left_out += len(rows) - len(counted)
    return NewImages(tuple(files), tuple(familiarity), tuple(remembered.values()), left_out)


def require_predictions_of(bundle: Path, tables: Iterable[Path]) -> str:
    """Refuse predictions by another bundle, as far as the record beside them tells.

    Returns:
        SHA-256 of the bundle's metadata.

    Raises:
        InputError: The record names another bundle, or is damaged.
    """
    sha256 = bundle_sha256(bundle)
    for path in tables:
        record = path.parent / PREDICT_RUN
        if not record.is_file():
            show_note(f"{path}: no {PREDICT_RUN} beside it says that this bundle predicted it.")
            continue
        if _header(record).get("bundle") != sha256:
            raise InputError(
                f"{path}: was predicted by another bundle than {bundle}, says {PREDICT_RUN} beside it. Pass "
                "that bundle as --model, or predict again."
            )
    return sha256


def require_guaranteed(tables: Iterable[Path], settings: ClassReferralSettings) -> None:
    """Refuse predictions that were made without these guarantees, by which they are referred.

    Args:
        tables: predictions.csv of predict steps.
        settings: The guarantees.

    Raises:
        InputError: The record beside a table is missing or damaged, or names other guarantees.
    """
    wanted = {"max_error": settings.max_error, "max_false": settings.max_false}
    for path in tables:
        record = path.parent / PREDICT_RUN
        given = _header(record).get("settings") if record.is_file() else None
        for name, limits in wanted.items():
            found = given.get(name, ()) if isinstance(given, dict) else ()
            for limit in limits:
                if str(limit) not in found:
                    option = f"--{name.replace('_', '-')} {limit}"
                    raise InputError(
                        f"{path}: {PREDICT_RUN} beside it does not say that it was predicted with {option}. "
                        f"Predict the images with {option}, and recheck what that keeps."
                    )


def _header(record: Path) -> dict[str, Any]:
    """Return what a predict step wrote of itself; nothing where it is no mapping."""
    try:
        found = read_json(record)
    except ValueError as error:
        raise InputError(f"{record}: is no JSON ({error}). Predict again into another folder.") from error
    return found if isinstance(found, dict) else {}


def _compared(rows: Sequence[Mapping[str, str]], remembered: dict[str, ReadTable]) -> tuple[ReadTable, int]:
    """Return the table of all rows, and how many the longest remembered one has with which it begins."""
    lengths = {table.rows for table in remembered.values()}
    digest, before = hashlib.sha256(), 0
    for number, row in enumerate(rows, start=1):
        cells = "\x1f".join(row[name] for name in _COUNTED)
        digest.update(cells.encode("utf-8", "surrogatepass") + b"\n")
        if number in lengths and digest.hexdigest() in remembered:
            before = number
    return ReadTable(len(rows), digest.hexdigest()), before


def _number(where: str, text: str, least: float) -> float:
    try:
        value = table_number(text)
    except ValueError:
        value = math.nan
    if not least * (1 - 1e-4) <= value <= 1:
        raise InputError(
            f"{where}: the familiarity is {text[:40]!r}; expected a number from {least:.4g} to 1, as this "
            "bundle reports. Pass its own predictions."
        )
    return value
