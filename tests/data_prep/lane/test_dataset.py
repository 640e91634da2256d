"""What training and evaluation read is what was prepared, in a reproducible order."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from tensorflow.python.framework import config

from data_prep.errors import InputError
from data_prep.files.images import read_image
from data_prep.files.resizing import resize_image, resize_mask
from data_prep.lane.dataset import lane_dataset, lane_records
from data_prep.lane.prepare import LanePrepareResult
from data_prep.lane.settings import LaneAugmentation

Prepared = tuple[Path, LanePrepareResult]
NAMES = [f"frame_{number:02d}" for number in range(10)]


def order(prepared: Prepared, names: list[str] = NAMES, **options: object) -> list[int]:
    """Numbers of the examples (their red level, see conftest) as the dataset yields them."""
    folder, result = prepared
    dataset = lane_dataset(folder, result.manifest, names, batch_size=3, **options)
    return [int(image[0, 0, 0]) for batch, _, _ in dataset for image in batch.numpy()]


def arrays(prepared: Prepared, **options: object) -> list[np.ndarray]:
    folder, result = prepared
    batches = list(lane_dataset(folder, result.manifest, NAMES, batch_size=4, **options))
    return [np.concatenate([batch[part] for batch in batches]) for part in range(3)]


def test_batches_hold_image_label_and_weight(prepared: Prepared, tmp_path: Path) -> None:
    folder, result = prepared
    batches = list(lane_dataset(folder, result.manifest, NAMES[1:8], batch_size=3))
    assert [image.shape[0] for image, _, _ in batches] == [3, 3, 1]
    image, label, weight = (part.numpy() for part in batches[0])
    assert (image.shape, label.shape, weight.shape) == ((3, 12, 16, 3), (3, 12, 16), (3, 12, 16))
    assert {part.dtype for part in (image, label, weight)} == {np.dtype("float32")}
    np.testing.assert_array_equal(
        image[0], resize_image(read_image(tmp_path / "images" / "frame_01.png"), (12, 16))
    )
    levels = resize_mask(np.array(Image.open(tmp_path / "masks" / "frame_01.png")), (12, 16))
    np.testing.assert_array_equal(label[0], levels == 255)
    np.testing.assert_array_equal(weight[0], levels != 7)
    assert 0 < weight[0].sum() < weight[0].size


def test_counts_of_the_manifest_are_those_of_the_batches(prepared: Prepared) -> None:
    _, label, weight = arrays(prepared)
    examples = prepared[1].manifest.examples
    assert [example.labelled_pixels for example in examples] == weight.sum(axis=(1, 2)).tolist()
    assert [example.lane_pixels for example in examples] == (label * weight).sum(axis=(1, 2)).tolist()


def test_static_shape_is_known(prepared: Prepared) -> None:
    folder, result = prepared
    shapes = [
        spec.shape.as_list()
        for spec in lane_dataset(folder, result.manifest, NAMES, batch_size=2).element_spec
    ]
    assert shapes == [[None, 12, 16, 3], [None, 12, 16], [None, 12, 16]]
    dataset = lane_dataset(folder, result.manifest, NAMES, batch_size=3, drop_remainder=True)
    assert dataset.element_spec[0].shape.as_list() == [3, 12, 16, 3]
    assert len(dataset) == 3


@pytest.mark.parametrize(("steps", "passes"), [(2, 0), (7, 2)])
def test_an_epoch_of_so_many_steps_follows_passes_in_new_orders(
    prepared: Prepared, steps: int, passes: int
) -> None:
    options = {"seed": 3, "shuffle": True, "steps": steps}
    first, second = order(prepared, epoch=0, **options), order(prepared, epoch=1, **options)
    assert len(first) == len(second) == 3 * steps
    assert first != second
    assert first == order(prepared, epoch=0, **options)
    whole = order(prepared)
    both = first + second
    assert all(sorted(both[10 * k : 10 * k + 10]) == sorted(whole) for k in range(len(both) // 10))
    assert all(first.count(number) >= passes for number in whole)


def test_an_image_that_an_epoch_shows_again_is_varied_anew(prepared: Prepared) -> None:
    folder, result = prepared
    options = {"batch_size": 1, "seed": 1, "augmentation": LaneAugmentation()}
    shown = lane_dataset(folder, result.manifest, NAMES[1:2], steps=4, **options)
    assert len({image.numpy().tobytes() for image, _, _ in shown}) > 1


def test_order_is_as_given_or_a_permutation_of_all(prepared: Prepared) -> None:
    assert order(prepared, ["frame_07", "frame_02", "frame_05"]) == [7, 2, 5]
    shuffled = order(prepared, shuffle=True)
    assert sorted(shuffled) == list(range(10))
    assert shuffled != list(range(10))


def test_order_is_a_function_of_seed_and_epoch(prepared: Prepared) -> None:
    orders = {
        (seed, epoch): order(prepared, shuffle=True, seed=seed, epoch=epoch)
        for seed in range(2)
        for epoch in range(3)
    }
    assert len(set(map(tuple, orders.values()))) == 6
    assert orders[1, 2] == order(prepared, shuffle=True, seed=1, epoch=2)


@pytest.mark.slow
def test_augmentation_is_a_function_of_seed_epoch_and_example(prepared: Prepared) -> None:
    options = {"augmentation": LaneAugmentation(), "seed": 1}
    first, again, later = (arrays(prepared, epoch=epoch, **options) for epoch in (0, 0, 1))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.all(np.any(first[0] != later[0], axis=(1, 2, 3)))
    assert np.all(np.any(first[0] != arrays(prepared)[0], axis=(1, 2, 3)))
    assert not np.any(first[1].astype(bool) & (first[1] != 1))
    assert np.all(np.isin(first[2], (0, 1)))
    assert first[2].sum() < arrays(prepared)[2].sum()  # what came from outside has no weight


def test_an_example_varies_in_the_same_way_wherever_it_comes_in_the_order(prepared: Prepared) -> None:
    plain = arrays(prepared, augmentation=LaneAugmentation())
    shuffled = arrays(prepared, augmentation=LaneAugmentation(), shuffle=True)
    positions = order(prepared, shuffle=True)
    for one, other in zip(plain, shuffled, strict=True):
        np.testing.assert_array_equal(one[positions], other)


@pytest.fixture
def op_determinism() -> Iterator[None]:
    tf.keras.utils.set_random_seed(0)
    tf.config.experimental.enable_op_determinism()
    yield
    config.disable_op_determinism()


@pytest.mark.usefixtures("op_determinism")
def test_works_under_op_determinism(prepared: Prepared) -> None:
    options = {"augmentation": LaneAugmentation(), "shuffle": True}
    for one, other in zip(arrays(prepared, **options), arrays(prepared, **options), strict=True):
        np.testing.assert_array_equal(one, other)


def test_names_must_be_known(prepared: Prepared) -> None:
    with pytest.raises(InputError, match="1 names are not among the 10 prepared examples: other"):
        order(prepared, ["other"])
    with pytest.raises(InputError, match="no examples were chosen"):
        order(prepared, [])


def test_records_have_the_original_mask(prepared: Prepared, tmp_path: Path) -> None:
    folder, result = prepared
    records = list(lane_records(folder, result.manifest, ["frame_09", "frame_03"]))
    assert [name for name, _, _, _ in records] == ["frame_03", "frame_09"]
    _, image, mask, original = records[0]
    np.testing.assert_array_equal(
        image, resize_image(read_image(tmp_path / "images" / "frame_03.png"), (12, 16))
    )
    levels = np.array(Image.open(tmp_path / "masks" / "frame_03.png"))
    coded = np.where(levels == 7, 255, levels == 255)
    np.testing.assert_array_equal(original, coded)
    np.testing.assert_array_equal(mask, resize_mask(coded.astype(np.uint8), (12, 16)))
    assert {part.dtype for part in (image, mask, original)} == {np.dtype("uint8")}


def test_shards_are_plain_tfrecords(prepared: Prepared) -> None:
    folder, result = prepared
    shards = sorted(folder.glob("*.tfrecord"))
    assert len(shards) == 3
    examples = [
        tf.train.Example.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(list(map(str, shards)))
    ]
    assert [e.features.feature["name"].bytes_list.value[0].decode() for e in examples] == NAMES
    assert [example.name for example in result.manifest.examples] == NAMES
