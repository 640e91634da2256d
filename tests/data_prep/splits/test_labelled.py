"""Examples are divided as the settings say; those of one source and of one group stay together."""

from collections.abc import Sequence

import pytest

from data_prep.errors import InputError
from data_prep.prepared.manifest import LabelledExample, LabelledManifest
from data_prep.splits.divide import manifest_splits
from data_prep.splits.labelled import LabelledName, assign_labelled, one_sided_classes
from data_prep.splits.settings import SplitSettings

# Two clips of each of eight videos of two classes by four people.
EXAMPLES = [
    LabelledName(f"{label}{person}/{clip}", f"{label}{person}", f"g{person}", label)
    for label in (0, 1)
    for person in range(4)
    for clip in (1, 2)
]


def test_folds_and_fractions_keep_groups() -> None:
    folds = assign_labelled(EXAMPLES, SplitSettings(folds=4))
    assert len({(a.group, a.fold) for a in folds.values()}) == 4
    assert sorted(a.fold for a in folds.values()) == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    half = assign_labelled(EXAMPLES, SplitSettings(test_fraction=0.5))
    assert len({(a.group, a.split) for a in half.values()}) == 4
    assert [a.split for a in half.values()].count("test") == 8


def test_lists_name_sources() -> None:
    assigned = assign_labelled(EXAMPLES, SplitSettings(), train=["00", "10"], test=["01"])
    assert {name: a.split for name, a in assigned.items()} == {
        "00/1": "train",
        "00/2": "train",
        "10/1": "train",
        "10/2": "train",
        "01/1": "test",
        "01/2": "test",
    }


def manifest_of(sides: Sequence[tuple[str, int, str]]) -> LabelledManifest:
    """Of two classes, from names (each its own group), labels and sides."""
    examples = [
        LabelledExample(
            name=name, shard="s", offset=0, length=1, height=1, width=1, group=name, split=side, label=label
        )
        for name, label, side in sides
    ]
    return LabelledManifest(
        application="video",
        class_names=("a", "b"),
        size=(1, 1),
        settings={},
        num_examples=len(examples),
        num_skipped=0,
        examples=tuple(examples),
        sha256={},
    )


@pytest.mark.parametrize(("split", "warned"), [("train", ["b"]), ("test", [])])
def test_a_class_on_one_side_is_warned_of(split: str, warned: list[str]) -> None:
    sides = [("a", 0, "train"), ("b", 0, "test"), ("c", 1, "train"), ("d", 1, split)]
    warnings = one_sided_classes(manifest_of(sides))
    assert [warning.split("'")[1] for warning in warnings] == warned
    assert all(
        "to learn from, so that nothing says how well it is predicted (its 2 groups" in one
        for one in warnings
    )


def test_a_class_to_judge_by_alone_is_one_that_no_model_can_learn() -> None:
    sides = [("a", 0, "train"), ("b", 0, "test"), ("c", 1, "test")]
    (warning,) = one_sided_classes(manifest_of(sides))
    assert "class 'b': all examples are on one side of the split, to judge by, so that no model" in warning
    assert "(its only group stays together, by names, lists or near-duplicates" in warning


@pytest.mark.parametrize(("folds", "said"), [((0, 1, 2, 0, 1, 2), 0), ((0, 1, 2, 0, 1, 0), 1)])
def test_a_class_that_some_folds_lack_is_named(folds: Sequence[int], said: int) -> None:
    manifest = manifest_of([(str(number), number // 3, "train") for number in range(6)])
    examples = [
        example.model_copy(update={"split": None, "fold": fold})
        for example, fold in zip(manifest.examples, folds, strict=True)
    ]
    changed = {"examples": tuple(examples), "num_folds": 3}
    warnings = one_sided_classes(manifest.model_copy(update=changed))
    expected = "1 classes have no example in some of the 3 folds, such as 'b', which is in 2: the scores"
    assert [warning[: len(expected)] for warning in warnings] == [expected] * said


def test_selection_takes_no_class_away() -> None:
    manifest = manifest_of([("a", 0, "train"), ("b", 1, "train"), ("c", 1, "test")])
    with pytest.raises(InputError, match="Each class has one group of the 2 training examples at most"):
        manifest_splits(manifest)
    assert manifest_splits(manifest, selection_fraction=0).train == ("a", "b")
