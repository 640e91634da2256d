"""Prepared images or clips with one label each as a `tf.data` pipeline for training, and as plain arrays.

Shared by all applications whose examples are one image, or one clip of frames, and one class.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from data_prep.errors import InputError
from data_prep.labelled.augmentation import augment_labelled, random_numbers
from data_prep.labelled.image_settings import LabelledAugmentation
from data_prep.prepared.manifest import MANIFEST_NAME, RECORDS_SUFFIX, LabelledManifest, Target
from data_prep.prepared.shards import PARALLEL_CALLS, RecordReader, prefetched, read_record

LABEL = "label"
"""Name of the feature of a record that has the label."""


def record_features(name: str, image: npt.NDArray[np.uint8], label: int) -> dict[str, bytes]:
    """Return what a shard stores of one example, for `data_prep.prepared.shards.write_shards`.

    Args:
        name: Name of the example.
        image: uint8 [height, width, 3] at the prepared size, or [frames, height, width, 3].
        label: Index of the example's class.

    Returns:
        The features `name` (UTF-8), `image` (raw uint8) and `label` (little-endian int32).
    """
    return {"name": name.encode(), "image": image.tobytes(), LABEL: stored_label(label)}


def stored_label(label: int) -> bytes:
    """Return a label as a record has it: little-endian int32."""
    return label.to_bytes(4, "little")


def require_stored_shape(folder: Path, manifest: LabelledManifest) -> None:
    """Refuse a folder whose examples are not in shards, or whose first one has another shape than it says.

    Raises:
        InputError: It has, or is no image.
    """
    others = sorted({e.shard for e in manifest.examples if not e.shard.endswith(RECORDS_SUFFIX)})
    if others:
        raise InputError(
            f"{folder / MANIFEST_NAME}: says that examples are in {others[0]}, no {RECORDS_SUFFIX} file. "
            "Run `prepare` again."
        )
    first = manifest.examples[0]
    stored = len(read_record(folder, first).get("image", b""))
    if stored != math.prod(manifest.shape):
        raise InputError(
            f"{folder / MANIFEST_NAME}: says that examples have the shape {list(manifest.shape)}, but "
            f"{first.name!r} has {stored} values. Run `prepare` again."
        )


def labelled_dataset(  # noqa: PLR0913 - all but three have defaults
    folder: Path,
    manifest: LabelledManifest,
    names: Sequence[str],
    *,
    batch_size: int,
    seed: int = 0,
    epoch: int = 0,
    shuffle: bool = False,
    augmentation: LabelledAugmentation | None = None,
    steps: int | None = None,
) -> tf.data.Dataset:
    """Return one epoch of examples of a prepared folder, in batches.

    Order and augmentation are pure functions of `seed` and `epoch`: a resumed run sees what an uninterrupted
    one would have seen. Without `steps` an epoch is one pass over the examples. With `steps` it is that many
    full batches of an endless sequence of passes, each in another order; the next epoch goes on where this
    one ends, so that all examples are seen equally often. A few hundred images make a few batches: epochs of
    one pass would spend their time between epochs.

    Args:
        folder: Prepared folder.
        manifest: Manifest of the folder, from `load_manifest`.
        names: The examples; without `shuffle` they come in this order.
        batch_size: Examples per batch.
        seed: Seed of order and augmentation.
        epoch: Number of the epoch; a new one gives another order and other variations.
        shuffle: Whether to permute the examples, anew in each pass.
        augmentation: Settings by which the images are varied; None for the images as they are.
        steps: Batches of an epoch; None for one pass, whose last batch may be smaller.

    Returns:
        Dataset of (image float32 [batch, *manifest.shape] in 0..255, label or number [batch], or several
        labels [batch, L]).

    Raises:
        InputError: There are no names, or one is not in the manifest.

    Example:
        >>> manifest = load_manifest(folder, LabelledManifest)  # doctest: +SKIP
        >>> train = manifest_splits(manifest).train  # doctest: +SKIP
        >>> for image, label in labelled_dataset(folder, manifest, train, batch_size=50):  # doctest: +SKIP
        ...     print(image.shape, label.shape)
    """
    if not names:
        raise InputError(
            f"{folder}: no examples were chosen. Expected at least one name. Check the split settings."
        )
    reader = RecordReader(folder, manifest, names)
    length = None if steps is None else steps * batch_size
    order = epoch_order(len(names), seed, epoch, shuffle=shuffle, length=length)

    def load(positions: tf.Tensor, random: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        images = _parse(reader.read_batch(positions), manifest.shape)
        if augmentation is not None:
            images = augment_labelled(images, random, augmentation)
        return images, target

    uniforms = random_numbers(len(order), seed, epoch)
    targets = np.array(manifest.targets(names), manifest.target_type)
    # Batches of positions: for small images the calls take longer than what they do.
    slices = (reader.positions[order], uniforms, targets[order])
    dataset = tf.data.Dataset.from_tensor_slices(slices).batch(batch_size)
    return prefetched(dataset.map(load, num_parallel_calls=PARALLEL_CALLS, deterministic=True))


def features_dataset(
    features: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int32 | np.float32],
    *,
    batch_size: int,
    seed: int = 0,
    epoch: int = 0,
    shuffle: bool = False,
    steps: int | None = None,
) -> tf.data.Dataset:
    """Return one epoch of features in batches, in the order of `labelled_dataset`.

    Args:
        features: float32 [examples, features].
        labels: Classes int32, or numbers float32, [examples].
        batch_size: Examples per batch.
        seed: Seed of the order.
        epoch: Number of the epoch.
        shuffle: Whether to permute the examples, anew in each pass.
        steps: Batches of an epoch; None for one pass.

    Returns:
        Dataset of (float32 [batch, features], labels [batch]).

    Raises:
        InputError: No examples.
    """
    if not len(features):
        raise InputError("No examples were chosen. Expected at least one. Check the split settings.")
    length = None if steps is None else steps * batch_size
    order = epoch_order(len(features), seed, epoch, shuffle=shuffle, length=length)
    rows = tf.data.Dataset.from_tensor_slices(order).batch(batch_size)
    x, y = tf.constant(features), tf.constant(labels)
    return prefetched(rows.map(lambda row: (tf.gather(x, row), tf.gather(y, row))))


def labelled_records(
    folder: Path, manifest: LabelledManifest, names: Iterable[str]
) -> Iterator[tuple[str, npt.NDArray[np.uint8], Target]]:
    """Yield (name, image, label, number or labels) of examples, one at a time, in name order.

    The image is uint8 [*manifest.shape].

    Args:
        folder: Prepared folder.
        manifest: Manifest of the folder, from `load_manifest`.
        names: Names of the examples, in any order.

    Raises:
        InputError: A name is not in the manifest.
    """
    names = sorted(names)
    for entry, target in zip(manifest.select(names), manifest.targets(names), strict=True):
        features = read_record(folder, entry)
        image = np.frombuffer(features["image"], dtype=np.uint8).reshape(manifest.shape)
        yield entry.name, image, target


def epoch_order(
    num_examples: int, seed: int, epoch: int, *, shuffle: bool, length: int | None
) -> npt.NDArray[np.int64]:
    """Return which examples an epoch takes, one after another; see `labelled_dataset`.

    Args:
        num_examples: Number of examples.
        seed: Seed of the order.
        epoch: Number of the epoch.
        shuffle: Whether to permute the examples, anew in each pass.
        length: Number of examples of the epoch; None for one pass.

    Returns:
        Numbers of examples, from 0.

    Example:
        >>> epoch_order(3, seed=0, epoch=1, shuffle=False, length=4).tolist()
        [1, 2, 0, 1]
    """
    if length is None:
        return _pass(num_examples, seed, epoch, shuffle=shuffle)
    return _excerpt(num_examples, seed, epoch, length, shuffle=shuffle)


def _pass(num_examples: int, seed: int, number: int, *, shuffle: bool) -> npt.NDArray[np.int64]:
    if not shuffle:
        return np.arange(num_examples)
    return np.random.default_rng([seed, number, 0]).permutation(num_examples)


def _excerpt(
    num_examples: int, seed: int, epoch: int, length: int, *, shuffle: bool
) -> npt.NDArray[np.int64]:
    """Return the epoch's part of the endless sequence of passes."""
    first, skipped = divmod(epoch * length, num_examples)
    num_passes = -(-(skipped + length) // num_examples)
    passes = [_pass(num_examples, seed, first + i, shuffle=shuffle) for i in range(num_passes)]
    return np.concatenate(passes)[skipped : skipped + length]


def _parse(records: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
    """Decode the images of serialised examples, float32 [batch, *shape]; the manifest has their labels."""
    examples = tf.io.parse_example(records, {"image": tf.io.FixedLenFeature([], tf.string)})
    images = tf.reshape(tf.io.decode_raw(examples["image"], tf.uint8), [-1, *shape])
    return tf.cast(images, tf.float32)
