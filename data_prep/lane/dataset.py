"""Prepared lane data as a `tf.data` pipeline for training, varied at random, and as plain arrays."""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from data_prep.errors import InputError
from data_prep.labelled.augmentation import output_to_input, random_numbers, warp
from data_prep.labelled.dataset import epoch_order
from data_prep.lane.manifest import LaneManifest
from data_prep.lane.masks import IGNORED, LANE
from data_prep.lane.settings import LaneAugmentation
from data_prep.prepared.shards import PARALLEL_CALLS, RecordReader, prefetched, read_record


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
    steps: int | None = None,
    drop_remainder: bool = False,
) -> tf.data.Dataset:
    """Return one pass over examples of a prepared folder, or so many steps, in batches.

    Order and augmentation are pure functions of `seed` and `epoch`: a resumed run sees what an uninterrupted
    one would have seen. The order of a pass is a permutation of all names; only the batches under way are in
    memory. Workers run in parallel, and results keep their order.

    Args:
        folder: Prepared folder.
        manifest: Manifest of the folder, from `load_manifest`.
        names: The examples; without `shuffle` they come in this order.
        batch_size: Examples per batch.
        seed: Seed of order and augmentation.
        epoch: Number of the pass; a new one gives another order and other variations.
        shuffle: Whether to permute the examples.
        augmentation: Settings by which the images are varied; None for the images as they are.
        steps: Number of batches; passes in new orders follow each other. None for one pass.
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
    order = epoch_order(
        len(names), seed, epoch, shuffle=shuffle, length=None if steps is None else steps * batch_size
    )

    # One pass: those of the images, as ever. More: others for each time that an image is shown.
    uniforms = random_numbers(len(names) if steps is None else len(order), seed, epoch)[:, :NUM_LANE_RANDOM]
    uniforms = uniforms[order] if steps is None else uniforms

    def load(position: tf.Tensor, random: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        image, mask = _parse(reader.read(position), manifest.size)
        if augmentation is not None:
            image, mask = augment(image, mask, random, augmentation)
        return image, tf.cast(mask == LANE, tf.float32), tf.cast(mask != IGNORED, tf.float32)

    dataset = tf.data.Dataset.from_tensor_slices((reader.positions[order], uniforms))
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


NUM_LANE_RANDOM = 6
"""Number of random numbers that one image takes."""


@check_shapes(
    "image: [height, width, 3]",
    "mask: [height, width]",
    "uniforms: [6]",
    "return[0]: [height, width, 3]",
    "return[1]: [height, width]",
)
def augment(
    image: tf.Tensor, mask: tf.Tensor, uniforms: tf.Tensor, settings: LaneAugmentation
) -> tuple[tf.Tensor, tf.Tensor]:
    """Vary one image and its mask; the same random numbers give the same result.

    Args:
        image: float32 [height, width, 3] in 0..255.
        mask: uint8 [height, width], 0 background, 1 lane, 255 ignored.
        uniforms: float32 [6] in [0, 1): flip, scale, shift down, shift right, brightness, contrast.
        settings: Settings that say how much to vary.

    Returns:
        The image, interpolated bilinearly and clipped to 0..255, and the mask, of nearest pixels. What comes
        from outside is the image's reflection, and ignored (255) in the mask.
    """
    transforms = _transform(tf.shape(mask), uniforms, settings)[tf.newaxis]
    image = warp(image[tf.newaxis], transforms)[0]
    mask = warp(mask[tf.newaxis, :, :, tf.newaxis], transforms, nearest=True, outside=float(IGNORED))
    return _relight(image, uniforms, settings), mask[0, :, :, 0]


def _transform(size: tf.Tensor, uniforms: tf.Tensor, settings: LaneAugmentation) -> tf.Tensor:
    mirror = tf.where(uniforms[0] < settings.flip_probability, -1.0, 1.0)
    # Log-uniform: enlarging and shrinking by the same factor are equally likely.
    zoom = tf.exp((2.0 * uniforms[1] - 1.0) * math.log1p(settings.scale))
    shift = (2.0 * uniforms[2:4] - 1.0) * settings.shift * tf.cast(size, tf.float32)
    return output_to_input(size, tf.stack([[1.0, mirror]]), zoom[tf.newaxis], shift[tf.newaxis], [0.0])[0]


def _relight(image: tf.Tensor, uniforms: tf.Tensor, settings: LaneAugmentation) -> tf.Tensor:
    brighter = (2.0 * uniforms[4] - 1.0) * settings.brightness * 255.0
    contrast = 1.0 + (2.0 * uniforms[5] - 1.0) * settings.contrast
    mean = tf.reduce_mean(image)
    return tf.clip_by_value((image - mean) * contrast + mean + brighter, 0.0, 255.0)
