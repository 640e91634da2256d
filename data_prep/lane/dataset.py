"""Prepared lane data as a `tf.data` pipeline for training, and as plain arrays for evaluation."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from data_prep.errors import InputError
from data_prep.labelled.augmentation import random_numbers
from data_prep.labelled.dataset import epoch_order
from data_prep.lane.augmentation import NUM_LANE_RANDOM, augment
from data_prep.lane.augmentation_settings import LaneAugmentation
from data_prep.lane.manifest import LaneManifest
from data_prep.lane.masks import IGNORED, LANE
from data_prep.prepared.prefetching import PARALLEL_CALLS, prefetched
from data_prep.prepared.shards import RecordReader, read_record


def lane_dataset(  # noqa: PLR0913 - all but three have defaults
    folder: Path,
    manifest: LaneManifest,
    names: Sequence[str],
    *,
    batch_size: int,
    seed: int = 0,
    epoch: int = 0,
    shuffle: bool = False,
    augmentation: LaneAugmentation | None = None,
    drop_remainder: bool = False,
) -> tf.data.Dataset:
    """Return one pass over examples of a prepared folder, in batches.

    Order and augmentation are pure functions of `seed` and `epoch`: a resumed run sees what an uninterrupted
    one would have seen. The order is a permutation of all names; only the batches under way are in memory.
    Workers run in parallel, and results keep their order.

    Args:
        folder: Prepared folder.
        manifest: Manifest of the folder, from `load_manifest`.
        names: The examples; without `shuffle` they come in this order.
        batch_size: Examples per batch.
        seed: Seed of order and augmentation.
        epoch: Number of the pass; a new one gives another order and other variations.
        shuffle: Whether to permute the examples.
        augmentation: Settings by which the images are varied; None for the images as they are.
        drop_remainder: Whether to leave out a last batch that is not full.

    Returns:
        Dataset of (image float32 [batch, height, width, 3] in 0..255, label float32 [batch, height, width] of
        0 and 1, weight float32 [batch, height, width], 0 where a pixel is ignored or comes from outside the
        image, else 1).

    Raises:
        InputError: There are no names, or one is not in the manifest.

    Example:
        >>> manifest = load_manifest(folder, LaneManifest)  # doctest: +SKIP
        >>> train = manifest_splits(manifest).train  # doctest: +SKIP
        >>> for image, label, weight in lane_dataset(folder, manifest, train, batch_size=3):  # doctest: +SKIP
        ...     print(image.shape)
    """
    if not names:
        raise InputError(
            f"{folder}: no examples were chosen. Expected at least one name. Check the split settings."
        )
    reader = RecordReader(folder, manifest, names)
    uniforms = random_numbers(len(names), seed, epoch)[:, :NUM_LANE_RANDOM]
    order = epoch_order(len(names), seed, epoch, shuffle=shuffle, length=None)

    def load(position: tf.Tensor, random: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        image, mask = _parse(reader.read(position), manifest.size)
        if augmentation is not None:
            image, mask = augment(image, mask, random, augmentation)
        return image, tf.cast(mask == LANE, tf.float32), tf.cast(mask != IGNORED, tf.float32)

    dataset = tf.data.Dataset.from_tensor_slices((reader.positions[order], uniforms[order]))
    dataset = dataset.map(load, num_parallel_calls=PARALLEL_CALLS, deterministic=True)
    return prefetched(dataset.batch(batch_size, drop_remainder=drop_remainder))


def lane_records(
    folder: Path, manifest: LaneManifest, names: Iterable[str]
) -> Iterator[tuple[str, npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]]:
    """Yield (name, image, mask, original mask) of examples, one at a time, in name order.

    Image uint8 [height, width, 3] and mask uint8 [height, width] have the prepared size, the original mask
    its own; masks are 0 background, 1 lane, 255 ignored.

    Args:
        folder: Prepared folder.
        manifest: Manifest of the folder, from `load_manifest`.
        names: Names of the examples, in any order.

    Raises:
        InputError: A name is not in the manifest.
    """
    for entry in manifest.select(sorted(names)):
        values = read_record(folder, entry)
        image = np.frombuffer(values["image"], dtype=np.uint8).reshape(*manifest.size, 3)
        mask = np.frombuffer(values["mask"], dtype=np.uint8).reshape(manifest.size)
        original = cv2.imdecode(np.frombuffer(values["original_mask"], dtype=np.uint8), cv2.IMREAD_UNCHANGED)
        yield entry.name, image, mask, np.asarray(original, dtype=np.uint8)


def lane_images(
    folder: Path, manifest: LaneManifest, names: Iterable[str]
) -> Iterator[tuple[str, npt.NDArray[np.uint8]]]:
    """Yield name and image of examples, as `lane_records` does, without their masks."""
    for entry in manifest.select(sorted(names)):
        values = read_record(folder, entry)
        yield entry.name, np.frombuffer(values["image"], dtype=np.uint8).reshape(*manifest.size, 3)


def _parse(record: tf.Tensor, size: tuple[int, int]) -> tuple[tf.Tensor, tf.Tensor]:
    """Decode a serialised example: image float32 [height, width, 3], mask uint8 [height, width]."""
    features = {key: tf.io.FixedLenFeature([], tf.string) for key in ("image", "mask")}
    example = tf.io.parse_single_example(record, features)
    image = tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [*size, 3])
    return tf.cast(image, tf.float32), tf.reshape(tf.io.decode_raw(example["mask"], tf.uint8), size)
