"""What training and evaluation read is what was stored, in a reproducible order."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from data_prep.errors import InputError
from data_prep.labelled.dataset import (
    epoch_order,
    features_dataset,
    labelled_dataset,
    labelled_records,
    record_features,
    require_stored_shape,
)
from data_prep.labelled.image_settings import LabelledAugmentation
from data_prep.prepared.manifest import LabelledExample, LabelledManifest
from data_prep.prepared.shards import write_shards

Prepared = tuple[Path, LabelledManifest]
NAMES = [f"snapshot_{number}" for number in range(10)]


def picture(number: int) -> np.ndarray:
    """A picture that tells which example it is: its first level is the example's number."""
    image = np.random.default_rng(number).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    image[0, 0] = number
    return image


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Ten examples of three classes in shards of four."""
    folder = tmp_path_factory.mktemp("prepared")
    records = [(name, record_features(name, picture(i), i % 3)) for i, name in enumerate(NAMES)]
    stored = write_shards(folder, records, examples_per_shard=4)
    examples = tuple(
        LabelledExample(
            name=name,
            shard=position.shard,
            offset=position.offset,
            length=position.length,
            height=6,
            width=8,
            group=name,
            label=number % 3,
        )
        for number, (name, position) in enumerate(stored)
    )
    manifest = LabelledManifest(
        application="sonar",
        class_names=("a", "b", "c"),
        size=(6, 8),
        settings={},
        num_examples=10,
        num_skipped=0,
        examples=examples,
        sha256={path.name: "" for path in folder.iterdir()},
    )
    return folder, manifest


def order(prepared: Prepared, **options: object) -> list[int]:
    """Numbers of the examples as the dataset yields them."""
    dataset = labelled_dataset(*prepared, NAMES, batch_size=4, **options)
    return [int(image[0, 0, 0]) for batch, _ in dataset for image in batch.numpy()]


def test_batches_hold_images_and_labels(prepared: Prepared) -> None:
    batches = list(labelled_dataset(*prepared, [NAMES[7], NAMES[2], NAMES[9]], batch_size=2))
    assert [image.shape for image, _ in batches] == [(2, 6, 8, 3), (1, 6, 8, 3)]
    assert (batches[0][0].dtype, batches[0][1].dtype) == ("float32", "int32")
    np.testing.assert_array_equal(np.concatenate([i for i, _ in batches]), [picture(n) for n in (7, 2, 9)])
    assert np.concatenate([label for _, label in batches]).tolist() == [1, 2, 0]


@pytest.mark.parametrize("augmentation", [None, LabelledAugmentation()])
def test_static_shape_is_known(prepared: Prepared, augmentation: LabelledAugmentation | None) -> None:
    dataset = labelled_dataset(*prepared, NAMES, batch_size=2, steps=3, augmentation=augmentation)
    assert [spec.shape.as_list() for spec in dataset.element_spec] == [[None, 6, 8, 3], [None]]
    assert len(dataset) == 3


def test_records_are_what_was_stored(prepared: Prepared) -> None:
    records = list(labelled_records(*prepared, [NAMES[9], NAMES[4]]))
    assert [(name, label) for name, _, label in records] == [("snapshot_4", 1), ("snapshot_9", 0)]
    np.testing.assert_array_equal(records[0][1], picture(4))


def test_a_pass_is_as_given_or_a_permutation_by_seed_and_epoch(prepared: Prepared) -> None:
    assert order(prepared) == list(range(10))
    orders = {(s, e): order(prepared, shuffle=True, seed=s, epoch=e) for s in (0, 1) for e in (0, 1)}
    assert all(sorted(one) == list(range(10)) for one in orders.values())
    assert len(set(map(tuple, orders.values()))) == 4
    assert orders[1, 1] == order(prepared, shuffle=True, seed=1, epoch=1)


def test_epochs_of_steps_cut_one_endless_sequence_of_passes(prepared: Prepared) -> None:
    epochs = [order(prepared, shuffle=True, steps=6, epoch=epoch) for epoch in range(5)]
    assert [len(epoch) for epoch in epochs] == [24] * 5
    sequence = np.concatenate(epochs).reshape(-1, 10)
    assert all(sorted(one) == list(range(10)) for one in sequence)
    assert len(set(map(tuple, sequence))) == 12
    assert epochs[3] == order(prepared, shuffle=True, steps=6, epoch=3)
    assert order(prepared, steps=3, epoch=1) == [2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3]


@pytest.mark.slow
def test_augmentation_is_a_function_of_seed_and_epoch_and_varies_each_repetition(prepared: Prepared) -> None:
    def images(**options: object) -> np.ndarray:
        dataset = labelled_dataset(
            *prepared, NAMES, batch_size=10, steps=2, augmentation=LabelledAugmentation(), **options
        )
        return np.concatenate([batch for batch, _ in dataset])

    first, again, later, other = images(), images(), images(epoch=1), images(seed=1)
    np.testing.assert_array_equal(first, again)
    for changed in (later, other):
        assert np.all(np.any(first != changed, axis=(1, 2, 3)))
    assert np.all(np.any(first[:10] != first[10:], axis=(1, 2, 3)))
    assert Counter(order(prepared, steps=5)) == dict.fromkeys(range(10), 2)


def test_names_must_be_known(prepared: Prepared) -> None:
    with pytest.raises(InputError, match="1 names are not among the 10 prepared examples: other"):
        labelled_dataset(*prepared, ["other"], batch_size=2)
    with pytest.raises(InputError, match="no examples were chosen"):
        labelled_dataset(*prepared, [], batch_size=2)


def test_labels_must_have_names(prepared: Prepared) -> None:
    values = prepared[1].model_dump()
    with pytest.raises(ValidationError, match="label 2, but 2 class_names"):
        LabelledManifest.model_validate(values | {"class_names": ("a", "b")})


class ClipManifest(LabelledManifest):
    """Of clips of two frames."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (2, 3, 8, 3)


def test_an_application_may_store_clips(prepared: Prepared) -> None:
    folder, manifest = prepared
    clips = ClipManifest.model_validate(manifest.model_dump())
    ((_, clip, _),) = labelled_records(folder, clips, NAMES[5:6])
    np.testing.assert_array_equal(clip, picture(5).reshape(2, 3, 8, 3))
    dataset = labelled_dataset(
        folder, clips, NAMES[5:8], batch_size=3, augmentation=LabelledAugmentation(gain=0, shift=0, scale=0)
    )
    assert dataset.element_spec[0].shape.as_list() == [None, 2, 3, 8, 3]
    batch, _ = next(iter(dataset))
    plain = np.stack([picture(number).reshape(2, 3, 8, 3) for number in (5, 6, 7)])
    flipped = np.all(np.abs(batch - plain[:, :, :, ::-1]) < 0.01, axis=(1, 2, 3, 4))
    same = np.all(np.abs(batch - plain) < 0.01, axis=(1, 2, 3, 4))
    np.testing.assert_array_equal(flipped, ~same)


def test_batches_follow_the_order_that_clips_would_have():
    features, labels = np.arange(10, dtype=np.float32)[:, None], np.arange(10, dtype=np.int32)
    options = {"seed": 3, "epoch": 2, "shuffle": True}
    batches = list(features_dataset(features, labels, batch_size=4, steps=3, **options))
    seen = np.concatenate([label for _, label in batches])
    np.testing.assert_array_equal(seen, epoch_order(10, 3, 2, shuffle=True, length=12))
    np.testing.assert_array_equal(np.concatenate([x[:, 0] for x, _ in batches]), seen)
    assert [len(y) for _, y in features_dataset(features, labels, batch_size=4)] == [4, 4, 2]
    with pytest.raises(InputError, match="No examples"):
        features_dataset(features[:0], labels[:0], batch_size=4)


@pytest.mark.parametrize("size", [(6, 9), (1, 1), (10**6, 10**6)])
def test_a_size_that_is_not_that_of_the_examples_is_refused(
    prepared: Prepared, size: tuple[int, int]
) -> None:
    folder, manifest = prepared
    require_stored_shape(folder, manifest)
    with pytest.raises(InputError, match=r"manifest\.json: says that examples have the shape .* 144 values"):
        require_stored_shape(folder, manifest.model_copy(update={"size": size}))


def test_examples_outside_the_shards_are_refused(prepared: Prepared) -> None:
    folder, manifest = prepared
    first = manifest.examples[0].model_copy(update={"shard": "skipped.csv"})
    lying = manifest.model_copy(update={"examples": (first, *manifest.examples[1:])})
    with pytest.raises(InputError, match=r"examples are in skipped\.csv, no \.tfrecord file"):
        require_stored_shape(folder, lying)
