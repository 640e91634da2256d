"""The step `recheck`: whether a guarantee of the bundle still holds where new labels come from."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_folder
from data_prep.prepared.manifest import file_sha256
from pipelines.bundles.guarantees import GuaranteeRecord
from pipelines.bundles.line_rules import asked_limits, limit_text
from pipelines.bundles.metadata import CARD, Metadata, load_metadata, model_card
from pipelines.command.console import say, show_note
from pipelines.command.folders import METADATA
from pipelines.command.referral import ClassReferralSettings
from pipelines.scores.class_guarantees import Limit
from pipelines.scores.guarantees import ReferralErrors, method_guarantees
from pipelines.scores.held_out import HELD_OUT
from pipelines.scores.metrics import read_metrics
from pipelines.watch.bounded_means import MeanTest, mean_test
from pipelines.watch.labels import LabelledPrediction, guarantee_losses, read_labelled
from pipelines.watch.reading import require_guaranteed, require_predictions_of


def recheck_guarantees(
    model: Path,
    tables: Sequence[Path],
    labels: Path,
    *,
    out: Path | None = None,
    settings: ClassReferralSettings,
    console: Console,
) -> list[MeanTest]:
    """Say by new labels whether no more is wrong than was guaranteed, for each guarantee.

    Args:
        model: The bundle that predicted.
        tables: predictions.csv of one or several runs.
        labels: Table of images and their classes, in the order in which the labels came.
        out: Folder of a new bundle whose guarantees are by these labels; None writes none.
        settings: What was guaranteed, as for a predict step.
        console: Where the results are printed.

    Raises:
        InputError: The bundle guarantees nothing like this, a table cannot be used, or the labels can
            guarantee nothing.
    """
    metadata = load_metadata(model)
    record = metadata.guarantee
    if not metadata.class_names:
        raise InputError(f"{model}: predicts no classes, and only guarantees of these are checked again.")
    if record is None:
        raise InputError(f"{model}: holds no guarantees. Train on with --resume, and export again.")
    limits = asked_limits(settings, metadata.class_names)
    if not limits:
        raise InputError("Nothing to recheck. Pass --max-error or --max-false, as for predict.")
    is_joint = len(limits) > 1 or limits[0].place is not None
    if is_joint:
        require_guaranteed(tables, settings)
    require_predictions_of(model, tables)
    found, missing = read_labelled(tables, labels, metadata.class_names)
    if missing:
        show_note(f"{missing} labelled images have no prediction and do not count.")
    if not record.binomial and not any(one.group for one in found):
        show_note(
            f"The guarantee was given by {record.noun}, and {labels} has no column group: images of one "
            "patient or object would count as independent."
        )
    if any(limit.kind == "missed" for limit in limits) and not any(one.referred for one in found):
        show_note(
            "Of the labelled images none is referred. Missed ones are a share of all images of the class: "
            "label referred ones as well, by the same random choice."
        )
    results = [
        _rechecked(limit, found, metadata, record, is_joint=is_joint, console=console) for limit in limits
    ]
    if out is not None:
        anew = write_new_guarantees(model, found, out, labels=labels.name)
        say(
            console,
            f"{out} guarantees by the {anew.units} {anew.noun} of {labels}: at best that at most "
            f"{anew.thresholds[0][0]:g} of what it keeps are wrong. This holds if they are a random choice "
            "of all images, and if you decided how many to label before you looked at what they said.",
        )
    return results


def _rechecked(
    limit: Limit,
    found: Sequence[LabelledPrediction],
    metadata: Metadata,
    record: GuaranteeRecord,
    *,
    is_joint: bool,
    console: Console,
) -> MeanTest:
    share, kept = limit.share, [not one.referred for one in found]
    how = "not referred"
    if limit.place is None:
        if not is_joint:
            share, threshold = record.threshold(limit.share)
            kept = [one.entropy <= threshold for one in found]
            how = f"entropy at most {threshold:.4g} nats"
        wrong, counts = [one.label != one.predicted for one in found], kept
    elif limit.kind == "missed":
        name = metadata.class_names[limit.place]
        counts = [one.label == name for one in found]
        wrong = [is_kept and one.predicted != name for is_kept, one in zip(kept, found, strict=True)]
    else:
        name = metadata.class_names[limit.place]
        counts = [is_kept and one.predicted == name for is_kept, one in zip(kept, found, strict=True)]
        wrong = [one.label != name for one in found]
    losses = guarantee_losses(wrong, counts, [one.group for one in found], share)
    result = mean_test(losses, share, record.confidence)
    number, num_wrong = sum(counts), sum(a and b for a, b in zip(wrong, counts, strict=True))
    text = limit_text(replace(limit, share=share), metadata.class_names)
    say(
        console,
        f"{text}: of {len(kept)} labelled {record.judged} {sum(kept)} are kept ({how}); of the {number} that "
        f"count {num_wrong} are wrong.",
    )
    say(console, _sentence(result, share, record.confidence))
    return result


def _sentence(result: MeanTest, limit: float, confidence: float) -> str:
    sure = f"of these are wrong here, with {confidence:.0%} confidence, however often this is asked."
    if result.verdict == "kept":
        return f"kept: at most {limit:g} {sure}"
    if result.verdict == "broken":
        return f"broken: more than {limit:g} {sure} Refer everything, and train with images of this place."
    more = "more than 100,000" if result.more is None else f"about {result.more}"
    return f"not known yet: {more} more labels that count (or groups) are needed if they go on like this."


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
