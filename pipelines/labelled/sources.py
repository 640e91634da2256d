"""Sources of applications that give each example one class: which rows count, and in which scales."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.errors import InputError
from data_prep.labelled.dataset import features_dataset
from data_prep.splits.divide import Splits
from pipelines.labelled.data import LabelledData, PreparedMatrix
from pipelines.labelled.settings import LabelledTrainSettings
from pipelines.runs.application import TransferSource
from pipelines.runs.settings import SourceRows
from pipelines.runs.sources import joined_classes, require_known

MAX_AT_ONCE = 256
"""Examples in a batch of a source."""


def labelled_sources(
    data: LabelledData[Any],
    splits: Splits,
    settings: LabelledTrainSettings,
    opened: Sequence[LabelledData[Any]],
) -> tuple[TransferSource, ...]:
    """Return the sources of a run; arguments as `pipelines.runs.application.Inputs.sources`.

    Every labelled example of a source counts, whatever part of it would be judged, if its class is one of the
    run's. Rows of features are brought to the scales of the run's training examples, column by column.

    Raises:
        InputError: A source has no class of the run's, or other images or features, or a class to be renamed
            is of no source.
    """
    names = [one.manifest.class_names for one in opened]
    require_known(settings.source_classes, names, data.manifest.class_names)
    return tuple(_source(data, splits, settings, one) for one in opened)


def _source(
    data: LabelledData[Any], splits: Splits, settings: LabelledTrainSettings, source: LabelledData[Any]
) -> TransferSource:
    require_alike(data, source)
    labels = joined_classes(
        source.manifest.class_names, data.manifest.class_names, settings.source_classes, source.folder
    )
    examples = [example for example in source.manifest.examples if example.label in labels]
    names = [example.name for example in examples]
    if not names:
        raise InputError(
            f"--source {source.folder} has no example of a class that the data have. Prepare some."
        )
    left_out = [name for label, name in enumerate(source.manifest.class_names) if label not in labels]
    rows = SourceRows(
        name=source.folder.name, manifest_sha256=source.sha256, rows=len(names), left_out=tuple(left_out)
    )
    if isinstance(source, PreparedMatrix) and isinstance(data, PreparedMatrix):
        part = source.part(names)
        features = aligned_rows(part.features, data.part(splits.train).features)
        own = np.array([labels[int(label)] for label in part.labels], np.int32)
        batches = partial(features_dataset, features, own, batch_size=MAX_AT_ONCE, shuffle=False)
        return TransferSource(rows, batches, tuple(names))
    return TransferSource(rows, partial(_relabelled, source, names, labels), tuple(names))


def _relabelled(source: LabelledData[Any], names: Sequence[str], labels: dict[int, int]) -> tf.data.Dataset:
    table = np.zeros(max(labels) + 1, np.int32)
    for label, own in labels.items():
        table[label] = own
    constant = tf.constant(table)
    batches = source.dataset(names, batch_size=MAX_AT_ONCE, shuffle=False)
    return batches.map(lambda image, label: (image, tf.gather(constant, label)))


def require_alike(data: LabelledData[Any], source: LabelledData[Any]) -> None:
    """Raise `InputError` where the examples of a source are not described as those of the data."""
    one, other = data.manifest, source.manifest
    if one.size != other.size:
        raise InputError(
            f"--source {source.folder} has images of {other.size}, but {data.folder} of {one.size}. Prepare "
            "both with the same --size."
        )
    for name in ("extractor", "views"):
        if getattr(one, name, None) != getattr(other, name, None):
            raise InputError(
                f"--source {source.folder} has features of {getattr(other, name, None)!r}, but {data.folder} "
                f"of {getattr(one, name, None)!r}. Prepare both with the same settings and version of "
                "gpimaging."
            )


def aligned_rows(rows: NDArray[np.floating[Any]], like: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return rows `[N, D]` with the mean and deviation of other rows in each column.

    Args:
        rows: Features of a source.
        like: Features of the target's training examples; a column that does not vary there keeps a source's
            deviation.

    Example:
        >>> aligned_rows(np.array([[0.0], [2.0]]), np.array([[10.0], [14.0]])).tolist()
        [[10.0], [14.0]]
    """
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    new_mean, new_deviation = like.mean(axis=0), like.std(axis=0)
    factor = np.where(
        (deviation > 0) & (new_deviation > 0), new_deviation / np.maximum(deviation, 1e-12), 1.0
    )
    return np.asarray((rows - mean) * factor + new_mean, np.float32)
