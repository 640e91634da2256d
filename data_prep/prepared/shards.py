"""TFRecord shards of a prepared folder: writing them, reading single records by position, reading ahead."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from data_prep.prepared.manifest import (
    RECORD_FOOTER_BYTES,
    RECORD_HEADER_BYTES,
    RECORDS_SUFFIX,
    Example,
    Manifest,
)
from data_prep.prepared.tensorflow_errors import system_errors

Facts = TypeVar("Facts")


@dataclass(frozen=True)
class Position:
    """Where a record is.

    Attributes:
        shard: Name of the file that holds it.
        offset: Position in bytes of the record in that file.
        length: Length in bytes of the serialised example, without the record's framing.
    """

    shard: str
    offset: int
    length: int


def write_shards(
    folder: Path, examples: Iterable[tuple[Facts, Mapping[str, bytes]]], *, examples_per_shard: int
) -> list[tuple[Facts, Position]]:
    """Write examples to TFRecord files `examples-00000.tfrecord` and so on, in the order given.

    Args:
        folder: Existing folder to write into.
        examples: Pairs of what is to be remembered of an example and the features to store, by their names;
            one is in memory at a time.
        examples_per_shard: Largest number of examples in one file.

    Returns:
        What is to be remembered of each example and the position of its record.

    Raises:
        OSError: The system refuses to write, for example because the disk is full.

    Example:
        >>> write_shards(folder, [("a", {"image": b"..."})], examples_per_shard=256)  # doctest: +SKIP
        [('a', Position(shard='examples-00000.tfrecord', offset=0, length=24))]
    """
    stored: list[tuple[Facts, Position]] = []
    remaining = iter(examples)
    for first in remaining:
        path = folder / f"examples-{len(stored) // examples_per_shard:05d}{RECORDS_SUFFIX}"
        stored += _write_shard(path, chain([first], islice(remaining, examples_per_shard - 1)))
    return stored


def _write_shard(
    path: Path, examples: Iterable[tuple[Facts, Mapping[str, bytes]]]
) -> Iterator[tuple[Facts, Position]]:
    offset = 0
    with system_errors(), tf.io.TFRecordWriter(str(path)) as writer:
        for facts, features in examples:
            serialised = _serialise(features)
            writer.write(serialised)
            yield facts, Position(path.name, offset, len(serialised))
            offset += RECORD_HEADER_BYTES + len(serialised) + RECORD_FOOTER_BYTES


def _serialise(features: Mapping[str, bytes]) -> bytes:
    example = tf.train.Example(
        features=tf.train.Features(
            feature={
                key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
                for key, value in features.items()
            }
        )
    )
    return example.SerializeToString(deterministic=True)


def read_record(folder: Path, example: Example | Position) -> dict[str, bytes]:
    """Read the features of one example of a prepared folder, by name.

    Args:
        folder: Prepared folder.
        example: Entry of the manifest that says where the record is, or its position.
    """
    record = _read_record(folder / example.shard, example.offset, example.length)
    features = tf.train.Example.FromString(record).features.feature
    return {key: value.bytes_list.value[0] for key, value in features.items()}


class RecordReader:
    """Reads the records of some examples inside a `tf.data` pipeline.

    Args:
        folder: Prepared folder.
        manifest: Manifest of the folder.
        names: The examples, in the order of `positions`.

    Attributes:
        positions: int64 [N, 3], one row for each example, to make a dataset of.

    Raises:
        InputError: A name is not in the manifest.

    Example:
        >>> reader = RecordReader(folder, manifest, names)  # doctest: +SKIP
        >>> dataset = tf.data.Dataset.from_tensor_slices(reader.positions).map(
        ...     lambda position: parse(reader.read(position))
        ... )  # doctest: +SKIP
    """

    def __init__(self, folder: Path, manifest: Manifest, names: Sequence[str]) -> None:
        self._shards = sorted(manifest.sha256)
        self._folder = folder
        self.positions: npt.NDArray[np.int64] = np.array(
            [(self._shards.index(e.shard), e.offset, e.length) for e in manifest.select(names)],
            dtype=np.int64,
        ).reshape(-1, 3)

    def read(self, position: tf.Tensor) -> tf.Tensor:
        """Return the serialised example [] at a row of `positions`."""
        record = tf.numpy_function(self._read, [position], tf.string, stateful=False)
        return tf.ensure_shape(record, [])

    def read_batch(self, positions: tf.Tensor) -> tf.Tensor:
        """Return the serialised examples [B] at rows [B, 3] of `positions`, by one call for many records."""
        records = tf.numpy_function(self._read_batch, [positions], tf.string, stateful=False)
        return tf.ensure_shape(records, [None])

    def _read_batch(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.object_]:
        return np.array([self._read(position) for position in positions], dtype=np.object_)

    def _read(self, position: npt.NDArray[np.int64]) -> bytes:
        shard, offset, length = position.tolist()
        return _read_record(self._folder / self._shards[shard], offset, length)


def _read_record(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset + RECORD_HEADER_BYTES)
        return file.read(length)


PARALLEL_CALLS = os.cpu_count() or 1
"""How many elements a pipeline's `map` works on at a time."""

_BATCHES_AHEAD = 4


def prefetched(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return a data set that makes a few batches ahead, with numbers of buffers and threads that are fixed.

    TensorFlow would tune these in a thread that sleeps 10 ms, then twice as long each time. On a busy machine
    the end of an epoch does not wake it (TensorFlow 2.21): the epoch then ends only with the sleep, which may
    double its time. The pipelines here have one `map` and need no tuning.

    Args:
        dataset: Data set of batches.

    Returns:
        The same elements in the same order.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.prefetch(_BATCHES_AHEAD).with_options(options)
