"""A bundle whose guarantees are of the new place: thresholds found by labelled images of there."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_folder
from data_prep.prepared.manifest import file_sha256
from pipelines.bundles.guarantees import GuaranteeRecord
from pipelines.bundles.metadata import CARD, load_metadata, model_card
from pipelines.command.folders import METADATA
from pipelines.scores.guarantees import ReferralErrors, method_guarantees
from pipelines.scores.held_out import HELD_OUT
from pipelines.scores.metrics import read_metrics
from pipelines.watch.labels import LabelledPrediction


def write_new_guarantees(
    model: Path, found: Sequence[LabelledPrediction], out: Path, *, labels: str
) -> GuaranteeRecord:
    """Copy a bundle, with guarantees by labelled images in the place of those by held-out ones.

    The tests are those of `pipelines.scores.guarantee_thresholds`: their confidence is for labels whose
    number was decided before they were looked at.

    Args:
        model: The bundle that predicted.
        found: Its predictions of labelled images, a random choice of those of the new place.
        out: Folder of the new bundle.
        labels: Name of the table of labels, for the model card.

    Returns:
        What the new bundle can guarantee.

    Raises:
        InputError: Nothing can be guaranteed by so few labels, or `out` cannot be written.
    """
    metadata = load_metadata(model)
    before = metadata.guarantee
    if before is None:
        raise InputError(f"{model}: holds no guarantees. Train on with --resume, and export again.")
    errors = _errors(found, metadata.class_names)
    groups = {
        name: name if one.group is None else one.group for name, one in zip(errors.names, found, strict=True)
    }
    held_out = errors.held_out(groups)
    if held_out is None:
        raise InputError(f"{labels}: no label belongs to a prediction.")
    given = method_guarantees(
        errors.by(groups, before.judged), None, judged_noun=before.judged, max_errors=(), source={}
    )
    if not given.table:
        raise InputError(
            f"{out} is not written: by {given.units} labelled {given.noun} no share of wrong ones can be "
            "guaranteed here. Label more, a random choice of all images, or train with images of this place."
        )
    record = GuaranteeRecord.of(replace(given, noun=f"labelled {given.noun}"))
    missing = [name for name in metadata.sha256 if not (model / name).is_file()]
    if missing:
        raise InputError(f"{model}: {missing[0]} is missing. Restore the bundle, or export the model again.")
    source = f"{given.units} labelled {given.noun} of {labels}, not the held-out part of the training"
    with atomic_folder(out) as folder:
        for name in metadata.sha256:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(model / name, target)
        held_out.write(folder / HELD_OUT)
        changed = metadata.model_copy(
            update={
                "guarantee": record,
                "training_data": {**metadata.training_data, "guarantees by": source},
                "sha256": {**metadata.sha256, HELD_OUT: file_sha256(folder / HELD_OUT)},
            }
        )
        card = model_card(changed, read_metrics(folder / "metrics.json"))
        (folder / CARD).write_text(card, encoding="utf-8")
        (folder / METADATA).write_text(changed.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return record


def _errors(found: Sequence[LabelledPrediction], class_names: Sequence[str]) -> ReferralErrors:
    """Return uncertainties and errors, and the classes where each image has one that the bundle knows."""
    names = tuple(str(number) for number in range(len(found)))
    uncertainty = np.array([one.entropy for one in found])
    wrong = np.array([one.label != one.predicted for one in found], np.float64)
    if all(one.label in class_names and one.probability for one in found):
        truth = np.array([class_names.index(one.label) for one in found], np.intp)
        return ReferralErrors(names, uncertainty, wrong, truth, np.array([one.probability for one in found]))
    return ReferralErrors(names, uncertainty, wrong)
