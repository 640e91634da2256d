"""Candidates for cell events as pictures to label: each in the frame before and in its own, outlined.

The pictures lie in the folder of the labels. `cells prepare` takes annotations of sequences, not labels of
candidates: these are written when the command ends.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from data_prep.cells.annotations import CellEvent, read_annotations
from data_prep.cells.candidates import Candidate, survey_sequence
from data_prep.cells.manifest import CellsManifest
from data_prep.cells.sequences import find_sequences
from data_prep.cells.settings import CandidateSettings, CellsPrepareSettings
from data_prep.cells.views import candidates_of, corner
from data_prep.errors import InputError, Skipped
from data_prep.files.json_files import read_json
from data_prep.files.tables import read_table, write_table
from data_prep.prepared.manifest import MANIFEST_NAME, application_of, load_manifest
from pipelines.bundles.prediction_lines import probability_column
from pipelines.command.folders import PREDICT_RUN, PREDICTIONS
from pipelines.label.answers import LABELS
from pipelines.label.patches import BEYOND, PATCH_SIDE, write_outlined
from pipelines.label.pool import Pool, PoolImage
from pipelines.label.reviewing import (
    is_left_to_a_person,
    keep_what_pictures_show,
    like_prepared,
    predicted_classes,
    reason_of,
    require_other_folder,
    usefulness,
)

ANNOTATIONS = "annotations.csv"
"""Table of the events that were labelled, in the folder of the labels."""
_EVENTS = "events.csv"
"""What `cells predict` writes."""
_UNKNOWN = "leave_out_unknown"
"""The setting of `cells prepare` for what was not answered."""

_Found = Mapping[PoolImage, tuple[str, CellEvent]]
"""Candidates with the names of their sequences, by their pictures; the kind is what was known before."""


def is_of_cells(source: Path) -> bool:
    """Return whether a folder is what `cells predict` or `cells prepare` wrote."""
    is_prepared = (source / MANIFEST_NAME).exists()
    return (source / _EVENTS).exists() or (is_prepared and application_of(source) == "cells")


def referred_events(predictions: Path, sequences: Path | None, out: Path) -> Pool:
    """Return the events that a model found; those that it left to a person are asked, others keep their kind.

    Args:
        predictions: Folder that `cells predict` wrote.
        sequences: Folder of the sequences; None for the one that predictions were made of.
        out: Folder of the labels, which gets the pictures.

    Raises:
        InputError: A table or a sequence cannot be read, or no event was referred.
    """
    path = predictions / _EVENTS
    classes = predicted_classes(predictions, _EVENTS)
    further = ("familiarity", "unfamiliar", *map(probability_column, classes))
    rows = read_table(path, ("kind", "predictive_entropy", "referred"), further)
    first = int(read_json(predictions / PREDICT_RUN)["settings"]["first_frame"])
    events = read_annotations(path, CellsPrepareSettings(first_frame=first, none_name=classes[0]))
    of_line = {one.line: (name or "", one) for name, some in events.items() for one in some}
    found: dict[PoolImage, tuple[str, CellEvent]] = {}
    for line in sorted(of_line, key=lambda line: usefulness(rows[line])):
        row, (sequence, event) = rows[line], of_line[line]
        name = f"{sequence}/{event.frame + first:05d}_{event.y:05.0f}_{event.x:05.0f}.jpg"
        is_asked = is_left_to_a_person(row)
        reason = reason_of({**row, "label": event.kind}) if is_asked else ""
        label = "" if is_asked else event.kind
        found[PoolImage(name, _crop(out, name), sequence, label, reason=reason)] = sequence, event
    if not any(image.reason for image in found):
        raise InputError(f"{path}: refers no event, so there is nothing to label.")
    if sequences is None:
        lines = read_table(predictions / PREDICTIONS, ("file",)).values()
        sequences = Path(os.path.commonpath([Path(line["file"]).absolute() for line in lines]))
        require_other_folder(out, sequences)
    options = ("--set", f"first_frame={first}") if first else ()
    pool = _of_pictures(
        found, first, sequences, out, CandidateSettings(), *options, "--set", f"{_UNKNOWN}=true"
    )
    write = partial(_write_annotations, found, [name or "" for name in events], first, classes[0], out)
    return replace(pool, classes=classes, purpose="referred", write_annotations=write)


def prepared_candidates(prepared: Path, sequences: Path | None, out: Path) -> Pool:
    """Return the candidates of a prepared folder with their labels, which are looked at again.

    Args:
        prepared: Folder that `cells prepare` wrote.
        sequences: Folder of the sequences that were prepared.
        out: Folder of the labels, which gets the pictures.

    Raises:
        InputError: The folder is damaged, or a sequence is not there.
    """
    if sequences is None:
        raise InputError(f"{prepared}: name what was prepared: gpimaging label FOLDER --from {prepared}.")
    manifest = load_manifest(prepared, CellsManifest)
    classes, first = manifest.class_names, int(manifest.settings["first_frame"])
    found: dict[PoolImage, tuple[str, CellEvent]] = {}
    for one in manifest.examples:
        name, kind = f"{one.name}.jpg", classes[one.label]
        image = PoolImage(name, _crop(out, name), one.group, kind, one.split or "")
        found[image] = one.source, CellEvent(one.frame - first, one.x, one.y, kind)
    options = like_prepared(prepared, CellsPrepareSettings, {**manifest.settings, _UNKNOWN: True}, out)
    pool = _of_pictures(found, first, sequences, out, manifest.candidate_settings, *options)
    names = [one.name for one in manifest.sequences]
    write = partial(_write_annotations, found, names, first, classes[0], out)
    return replace(pool, classes=classes, purpose="suspects", write_annotations=write)


def _of_pictures(
    found: _Found, first: int, folder: Path, out: Path, settings: CandidateSettings, *options: str
) -> Pool:
    """Write the pictures that are not there yet, and return those that there are as a pool."""
    sequences, skipped = find_sequences(folder)
    by_name = {one.name: one for one in sequences}
    cut = settings.model_dump(), first
    names = sorted({name for name, _ in found.values()} & set(by_name))
    keep_what_pictures_show(out, {name: (str(by_name[name].path.resolve()), *cut) for name in names})
    wide = settings.model_copy(update={"patch": 2 * settings.patch})
    lacking = [(*place, image.path) for image, place in found.items() if not image.path.exists()]
    lacking.sort(key=lambda one: (one[0], one[1].frame))
    for name, some in groupby(lacking, key=lambda one: one[0]):
        if name not in by_name:
            known = ", ".join(sorted(by_name)[:5])
            raise InputError(
                f"{folder}: has no sequence {name!r}, only {known}. Name the folder of all of them."
            )
        paths = {Candidate(event.frame, event.y, event.x, 1): path for _, event, path in some}
        surveyed = replace(survey_sequence(by_name[name], settings), candidates=tuple(paths))
        for one in candidates_of(surveyed, wide):
            inside = [
                (start + np.arange(wide.patch) >= 0) & (start + np.arange(wide.patch) < end)
                for start, end in zip(corner(one.candidate, wide.patch), surveyed.size, strict=True)
            ]
            frames = np.split(one.image, 3, axis=1)[:2]
            shown = (np.where(np.outer(*inside)[..., None], frame, BEYOND) for frame in frames)
            numbers = (one.candidate.frame + first - 1, one.candidate.frame + first)
            write_outlined(paths[one.candidate], *map(_enlarged, shown, numbers))
    skipped += [
        Skipped(folder, f"{image.name}: its frame, or the one before, cannot be read.")
        for image in found
        if not image.path.exists()
    ]
    return Pool(
        _crop(out, ""),
        tuple(image for image in found if image.path.exists()),
        skipped=tuple(skipped),
        prepare=("cells", "prepare", "--sequences", str(folder), *options, "--annotations"),
        seen_share=(0.5, 0.75),
    )


def _enlarged(frame: NDArray[np.uint8], number: int) -> NDArray[np.uint8]:
    """Return a part of a frame as a picture, with the number of the frame above what the network sees."""
    picture = cv2.resize(frame, (2 * PATCH_SIDE, 2 * PATCH_SIDE), interpolation=cv2.INTER_CUBIC)
    for level, thickness in ((255, 4), (0, 1)):
        cv2.putText(
            picture, f"frame {number}", (8, 24), cv2.FONT_HERSHEY_SIMPLEX, 0.7, (level,) * 3, thickness
        )
    return np.asarray(picture, np.uint8)


def _write_annotations(found: _Found, sequences: Iterable[str], first: int, none: str, out: Path) -> Path:
    """Write the events with the kinds that they are labelled with; return the table.

    What is labelled to be none has no row. What is unsure, not usable or waits for an answer has one without
    a kind, so that it counts neither as an event nor as none.
    """
    labels = {row["image"]: row["class"] for row in read_table(out / LABELS, ("image", "class")).values()}
    rows: list[tuple[object, ...]] = [
        (sequence, event.frame + first, event.x, event.y, labels.get(image.name, ""))
        for image, (sequence, event) in found.items()
        if labels.get(image.name) != none
    ]
    rows += [(name, "", "", "", "") for name in sorted({*sequences} - {row[0] for row in rows})]
    write_table(out / ANNOTATIONS, ("sequence", "frame", "x", "y", "kind"), rows)
    return out / ANNOTATIONS


def _crop(out: Path, name: str) -> Path:
    return out / "candidates" / name
