"""TFRecord shards of lane examples: writing them, and reading single records by position."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import tensorflow as tf

from data_prep.lane_masks import IGNORED, LANE
from data_prep.lane_pairs import PreparedPair, StoredExample
from data_prep.tensorflow_errors import system_errors

_HEADER_BYTES = 12  # of a TFRecord: length (8) and its checksum (4)
_FOOTER_BYTES = 4  # checksum of the data


def write_shard(path: Path, pairs: Iterable[PreparedPair]) -> list[StoredExample]:
    """Write examples to a TFRecord file, in the order given.

    Each record is a `tf.train.Example` with the bytes features `name` (UTF-8), `image` (raw uint8, height x
    width x 3), `mask` (raw uint8, height x width) and `original_mask` (PNG).

    Raises:
        OSError: the system refuses to write, for example because the disk is full.
    """
    stored: list[StoredExample] = []
    offset = 0
    with system_errors(), tf.io.TFRecordWriter(str(path)) as writer:
        for pair in pairs:
            serialised = _serialise(pair)
            writer.write(serialised)
            stored.append(
                StoredExample(
                    name=pair.name,
                    shard=path.name,
                    offset=offset,
                    length=len(serialised),
                    height=pair.original_size[0],
                    width=pair.original_size[1],
                    lane_pixels=int(np.count_nonzero(pair.mask == LANE)),
                    labelled_pixels=int(np.count_nonzero(pair.mask != IGNORED)),
                )
            )
            offset += _HEADER_BYTES + len(serialised) + _FOOTER_BYTES
    return stored


def read_record(path: Path, offset: int, length: int) -> bytes:
    """Read one serialised example, by the position that the manifest gives."""
    with path.open("rb") as file:
        file.seek(offset + _HEADER_BYTES)
        return file.read(length)


def _serialise(pair: PreparedPair) -> bytes:
    features = {
        "name": pair.name.encode(),
        "image": pair.image.tobytes(),
        "mask": pair.mask.tobytes(),
        "original_mask": pair.original_mask,
    }
    example = tf.train.Example(
        features=tf.train.Features(
            feature={
                key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
                for key, value in features.items()
            }
        )
    )
    return example.SerializeToString(deterministic=True)
