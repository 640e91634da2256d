"""The step `recheck`: whether a guarantee of the bundle still holds where new labels come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from data_prep.errors import InputError
from pipelines.bundles.guarantees import GuaranteeRecord
from pipelines.bundles.line_rules import asked_limits, limit_text
from pipelines.bundles.metadata import Metadata, load_metadata
from pipelines.command.console import show_note
from pipelines.command.referral import ClassReferralSettings
from pipelines.scores.class_guarantees import Limit
from pipelines.watch.bounded_means import MeanTest, mean_test
from pipelines.watch.labels import LabelledPrediction, guarantee_losses, read_labelled
from pipelines.watch.new_guarantees import write_new_guarantees
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
        console.print(
            f"{out} guarantees by the {anew.units} {anew.noun} of {labels}: at best that at most "
            f"{anew.thresholds[0][0]:g} of what it keeps are wrong. This holds if they are a random choice "
            "of all images, and if you decided how many to label before you looked at what they said.",
            markup=False,
            soft_wrap=True,
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
    console.print(
        f"{text}: of {len(kept)} labelled {record.judged} {sum(kept)} are kept ({how}); of the {number} that "
        f"count {num_wrong} are wrong.",
        markup=False,
        soft_wrap=True,
    )
    console.print(_sentence(result, share, record.confidence), markup=False, soft_wrap=True)
    return result


def _sentence(result: MeanTest, limit: float, confidence: float) -> str:
    sure = f"of these are wrong here, with {confidence:.0%} confidence, however often this is asked."
    if result.verdict == "kept":
        return f"kept: at most {limit:g} {sure}"
    if result.verdict == "broken":
        return f"broken: more than {limit:g} {sure} Refer everything, and train with images of this place."
    more = "more than 100,000" if result.more is None else f"about {result.more}"
    return f"not known yet: {more} more labels that count (or groups) are needed if they go on like this."
