"""Records come back from where they were said to be, one at a time and inside a pipeline."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

from data_prep.errors import InputError
from data_prep.prepared.manifest import Example, Manifest
from data_prep.prepared.shards import RecordReader, read_record, write_shards

NAMES = [f"record {number}" for number in range(7)]


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """Seven records of different lengths in shards of three."""
    stored = write_shards(
        tmp_path,
        ((name, {"name": name.encode(), "data": bytes(number)}) for number, name in enumerate(NAMES)),
        examples_per_shard=3,
    )
    examples = tuple(
        Example(
            name=name,
            shard=position.shard,
            offset=position.offset,
            length=position.length,
            height=1,
            width=1,
            group=name,
        )
        for name, position in stored
    )
    return Manifest(
        application="test",
        class_names=("a", "b"),
        size=(1, 1),
        settings={},
        num_examples=len(examples),
        num_skipped=0,
        examples=examples,
        sha256={path.name: "" for path in tmp_path.iterdir()},
    )


def test_records_are_read_by_position(manifest: Manifest, tmp_path: Path) -> None:
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"examples-0000{number}.tfrecord" for number in range(3)
    ]
    for number, example in enumerate(manifest.examples):
        assert read_record(tmp_path, example) == {"name": NAMES[number].encode(), "data": bytes(number)}


def test_records_are_read_in_a_pipeline_in_the_order_asked_for(manifest: Manifest, tmp_path: Path) -> None:
    wanted = [NAMES[6], NAMES[0], NAMES[4]]
    reader = RecordReader(tmp_path, manifest, wanted)
    dataset = tf.data.Dataset.from_tensor_slices(reader.positions).map(
        lambda position: tf.io.parse_single_example(
            reader.read(position), {"name": tf.io.FixedLenFeature([], tf.string)}
        )["name"]
    )
    assert [name.decode() for name in dataset.as_numpy_iterator()] == wanted
    with pytest.raises(InputError, match="1 names are not among the 7 prepared examples: other"):
        RecordReader(tmp_path, manifest, ["other"])


def test_one_example_is_in_memory_at_a_time(tmp_path: Path) -> None:
    size = []

    def examples() -> Iterator[tuple[int, dict[str, bytes]]]:
        for number in range(4):
            size.append(sum(path.stat().st_size for path in tmp_path.glob("*.tfrecord")))
            yield number, {"data": bytes(2_000_000)}

    assert [number for number, _ in write_shards(tmp_path, examples(), examples_per_shard=4)] == [0, 1, 2, 3]
    assert size[3] > 2_000_000  # earlier ones are in the file when a later one is asked for
