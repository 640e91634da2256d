"""The step `recheck`: whether a guarantee of the bundle still holds where new labels come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from data_prep.errors import InputError
from pipelines.bundles.metadata import load_metadata
from pipelines.command.console import show_note
from pipelines.watch.bounded_means import MeanTest, mean_test
from pipelines.watch.labels import guarantee_losses, read_labelled
from pipelines.watch.reading import require_predictions_of


def recheck_guarantee(
    model: Path, tables: Sequence[Path], labels: Path, *, max_error: float, console: Console
) -> MeanTest:
    """Say by new labels whether at most the guaranteed share of what the guarantee keeps is wrong.

    Args:
        model: The bundle that predicted.
        tables: predictions.csv of one or several runs.
        labels: Table of images and their classes, in the order in which the labels came.
        max_error: The guaranteed share.
        console: Where the result is printed.

    Raises:
        InputError: The bundle guarantees nothing like this, or a table cannot be used.
    """
    metadata = load_metadata(model)
    record = metadata.guarantee
    if record is None:
        raise InputError(f"{model}: holds no guarantees. Train on with --resume, and export again.")
    limit, threshold = record.threshold(max_error)
    require_predictions_of(model, tables)
    found, missing = read_labelled(tables, labels, metadata.class_names)
    if missing:
        show_note(f"{missing} labelled images have no prediction and do not count.")
    if not record.binomial and not any(one.group for one in found):
        show_note(
            f"The guarantee was given by {record.noun}, and {labels} has no column group: images of one "
            "patient or object would count as independent."
        )
    wrong = [one.label != one.predicted for one in found]
    kept = [one.entropy <= threshold for one in found]
    losses = guarantee_losses(wrong, kept, [one.group for one in found], limit)
    result = mean_test(losses, limit, record.confidence)
    num_wrong = sum(a and b for a, b in zip(wrong, kept, strict=True))
    console.print(
        f"Of {len(kept)} labelled {record.judged} the guarantee of {limit:g} keeps {sum(kept)} (entropy "
        f"at most {threshold:.4g} nats), of which {num_wrong} are wrong.",
        markup=False,
        soft_wrap=True,
    )
    console.print(_sentence(result, limit, record.confidence), markup=False, soft_wrap=True)
    return result


def _sentence(result: MeanTest, limit: float, confidence: float) -> str:
    sure = f"of what is kept here are wrong, with {confidence:.0%} confidence, however often this is asked."
    if result.verdict == "kept":
        return f"kept: at most {limit:g} {sure}"
    if result.verdict == "broken":
        return f"broken: more than {limit:g} {sure} Refer everything, and train with images of this place."
    more = "more than 100,000" if result.more is None else f"about {result.more}"
    return (
        f"not known yet: {more} more labels of kept images (or of groups) are needed if they go on like this."
    )
