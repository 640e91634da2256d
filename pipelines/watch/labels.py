"""Labels of the new place beside what was predicted there: which kept predictions are wrong."""

from __future__ import annotations

import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from data_prep.errors import InputError
from data_prep.files.tables import CLASS_ALIASES, FILE_ALIASES, read_table, table_number
from pipelines.bundles.file_names import FileNames
from pipelines.bundles.prediction_lines import probability_column
from pipelines.scores.definitions import FloatArray

OTHER_CLASS: Final = "other"
"""Label of an image that shows none of the bundle's classes: whatever is predicted of it is wrong."""

_PREDICTED: Final = ("file", "label", "predictive_entropy", "referred", "status")

Predictions = dict[str, tuple[str, float, bool, tuple[float, ...]]]
"""Class, entropy, whether it is referred, and probabilities of each file."""


@dataclass(frozen=True)
class LabelledPrediction:
    """What was predicted of an image whose class is known.

    Attributes:
        label: Its class.
        predicted: Class that was predicted of it.
        entropy: Predictive entropy, nats.
        referred: Whether `predict` gave it to a person.
        probability: Probability of each class; empty where the table of predictions has none.
        group: What it belongs to; None where the labels do not say.
    """

    label: str
    predicted: str
    entropy: float
    referred: bool
    probability: tuple[float, ...]
    group: str | None


def guarantee_losses(
    wrong: Sequence[bool], counts: Sequence[bool], group: Sequence[str | None], limit: float
) -> FloatArray:
    """Return a loss for each group, of which the mean is at most the limit where a guarantee is kept.

    It is the limit plus the mean over the group of 1[counts] (wrong - limit), as in
    `pipelines.scores.guarantee_thresholds`. A group of which nothing counts is left out.

    Args:
        wrong: Whether each image is wrong, in the sense of the guarantee.
        counts: Whether the guarantee is about it, for example because it is kept.
        group: What it belongs to; None for a group of its own.
        limit: The guaranteed share.

    Example:
        >>> guarantee_losses([True, False, False], [True, True, False], ["a", "b", "b"], 0.1).tolist()
        [1.0, 0.05]
    """
    groups: dict[object, list[float]] = defaultdict(list)
    for place, (is_wrong, does_count, name) in enumerate(zip(wrong, counts, group, strict=True)):
        groups[place if name is None else name].append(is_wrong - limit if does_count else math.nan)
    means = [np.nansum(one) / len(one) for one in groups.values() if not np.isnan(one).all()]
    return np.clip(limit + np.array(means, np.float64), 0.0, 1.0)


def read_labelled(
    tables: Iterable[Path], labels: Path, class_names: Sequence[str]
) -> tuple[list[LabelledPrediction], int]:
    """Read labels, and the predictions of the same images.

    Args:
        tables: predictions.csv of one or several runs.
        labels: Table with the columns image, class and perhaps group; an empty class is not known yet.
        class_names: Classes of the bundle; `OTHER_CLASS` is any other.

    Returns:
        The predictions in the order of the labels, and the number of labelled images without one.

    Raises:
        InputError: A table cannot be read, an image has two rows or predictions, a class is unknown, or no
            label belongs to a prediction.
    """
    aliases = {"image": FILE_ALIASES, "class": CLASS_ALIASES}
    rows = read_table(labels, ("image", "class"), ("group",), aliases=aliases)
    predictions = _by_file(tables, class_names)
    names = FileNames(predictions)
    found: dict[str, LabelledPrediction] = {}
    missing = 0
    for line, row in rows.items():
        where, label = f"{labels}, line {line}", unicodedata.normalize("NFC", row["class"])
        if label and label not in {*class_names, OTHER_CLASS}:
            raise InputError(
                f"{where}: {label!r} is no class of the bundle; expected one of {', '.join(class_names)}. "
                f"Correct it, or write {OTHER_CLASS} for an image that shows none of them."
            )
        file = names.find(row["image"], where=where) if label else None
        missing += bool(label and file is None)
        if file is not None:
            if file in found:
                raise InputError(f"{where}: {row['image']} has a label before. Keep one of the rows.")
            found[file] = LabelledPrediction(label, *predictions[file], row.get("group") or None)
    if not found:
        raise InputError(
            f"{labels}: none of its {missing} labels belongs to a prediction. Expected files as "
            "predictions.csv names them, or the ends of their paths."
        )
    return list(found.values()), missing


def _by_file(tables: Iterable[Path], class_names: Sequence[str]) -> Predictions:
    found: Predictions = {}
    for path in tables:
        remedy = "`recheck` takes predictions of images, snapshots or videos that are given one class."
        columns = [probability_column(name) for name in class_names]
        for line, row in read_table(path, _PREDICTED, columns, remedy=remedy).items():
            if row["status"] != "ok" or not row["label"]:
                continue
            try:
                entropy = table_number(row["predictive_entropy"])
            except ValueError:
                entropy = math.nan
            referred = row["referred"].lower()
            if referred not in {"true", "false"} or row["label"] not in class_names:
                raise InputError(
                    f"{path}, line {line}: found the label {row['label'][:40]!r} and, for referred, "
                    f"{row['referred'][:40]!r}; expected one of {', '.join(class_names)}, and true or false. "
                    "Pass the table as `predict` wrote it."
                )
            said = (row["label"], entropy, referred == "true", _probabilities(row, columns))
            before = found.setdefault(row["file"], said)
            if not entropy >= 0 or before != said:
                raise InputError(
                    f"{path}, line {line}: {row['file']} has the entropy {row['predictive_entropy'][:40]!r}, "
                    "or another prediction before. Expected nats, and one prediction of each image."
                )
    return found


def _probabilities(row: Mapping[str, str], columns: Sequence[str]) -> tuple[float, ...]:
    """Return the numbers of some columns; none where one is missing, or no share."""
    try:
        found = tuple(table_number(row[column]) for column in columns)
    except (LookupError, ValueError):
        return ()
    return found if all(0.0 <= value <= 1.0 for value in found) else ()
