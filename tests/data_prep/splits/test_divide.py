"""Every split is disjoint, complete and deterministic, and keeps groups together."""

import itertools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.errors import InputError
from data_prep.prepared.manifest import Example, Manifest
from data_prep.splits.divide import (
    Assignment,
    assign_folds,
    assign_fraction,
    assign_lists,
    example_name,
    group_names,
    manifest_splits,
    read_name_list,
)

NAMES = [f"frame_{number:03d}" for number in range(20)]
GROUPS = st.dictionaries(
    st.text("abc012", min_size=1, max_size=6), st.sampled_from("ABCDEFG"), min_size=2, max_size=60
).filter(lambda groups: len(set(groups.values())) > 1)
SINGLES = st.sets(st.text("abc012", min_size=1, max_size=6), min_size=2, max_size=60).map(
    lambda names: {name: name for name in names}
)


def manifest_of(assignments: Mapping[str, Assignment], num_folds: int | None = None) -> Manifest:
    return Manifest(
        application="lane",
        class_names=("background", "lane"),
        size=(2, 2),
        num_folds=num_folds,
        settings={},
        num_examples=len(assignments),
        num_skipped=0,
        examples=tuple(
            Example(
                name=name,
                shard="examples",
                offset=0,
                length=1,
                height=2,
                width=2,
                group=assignment.group,
                fold=assignment.fold,
                split=assignment.split,
            )
            for name, assignment in sorted(assignments.items())
        ),
        sha256={"examples": ""},
    )


def check_groups_intact(groups: Mapping[str, str], *parts: tuple[str, ...]) -> None:
    of_part = [{groups[name] for name in part} for part in parts]
    assert sum(map(len, of_part)) == len(set().union(*of_part))


@given(GROUPS | SINGLES, st.sampled_from(["name", "seed"]), st.integers(2, 7), st.integers(0, 5), st.data())
def test_folds(
    groups: dict[str, str], order: Literal["name", "seed"], num_folds: int, seed: int, data: st.DataObject
) -> None:
    num_folds = min(num_folds, len(set(groups.values())))
    assigned = assign_folds(groups, num_folds, order, seed)
    assert assigned == assign_folds(dict(reversed(groups.items())), num_folds, order, seed)
    assert assigned.keys() == groups.keys()
    assert {assignment.fold for assignment in assigned.values()} == set(range(num_folds))

    manifest = manifest_of(assigned, num_folds)
    tested: list[str] = []
    for fold in range(num_folds):
        splits = manifest_splits(manifest, fold=fold, selection_fraction=0)
        assert not splits.selection
        assert sorted(splits.train + splits.test) == sorted(groups)
        check_groups_intact(groups, splits.train, splits.test)
        tested += splits.test
    assert sorted(tested) == sorted(groups)

    fold = data.draw(st.integers(0, num_folds - 1))
    training = {groups[name] for name in groups if assigned[name].fold != fold}
    if len(training) > 1:
        splits = manifest_splits(manifest, fold=fold, selection_fraction=0.3)
        assert splits.train
        assert splits.selection
        assert sorted(splits.train + splits.selection + splits.test) == sorted(groups)
        check_groups_intact(groups, splits.train, splits.selection, splits.test)


@given(SINGLES, st.integers(2, 7))
def test_folds_in_name_order_are_contiguous_and_even(groups: dict[str, str], num_folds: int) -> None:
    num_folds = min(num_folds, len(groups))
    assigned = assign_folds(groups, num_folds, "name", 0)
    folds = [assigned[name].fold for name in sorted(groups)]
    assert folds == sorted(folds)
    sizes = Counter(folds).values()
    assert max(sizes) - min(sizes) <= 1


def test_seed_changes_the_folds() -> None:
    groups = {name: name for name in NAMES}
    assert assign_folds(groups, 4, "seed", 0) != assign_folds(groups, 4, "seed", 1)


@given(GROUPS | SINGLES, st.floats(0.01, 0.99))
def test_fraction(groups: dict[str, str], fraction: float) -> None:
    splits = manifest_splits(manifest_of(assign_fraction(groups, fraction)), selection_fraction=0)
    assert splits.train
    assert splits.test
    assert sorted(splits.train + splits.test) == sorted(groups)
    check_groups_intact(groups, splits.train, splits.test)


@given(SINGLES, st.floats(0.05, 0.95))
def test_fraction_is_met_without_groups(groups: dict[str, str], fraction: float) -> None:
    test = [
        assignment for assignment in assign_fraction(groups, fraction).values() if assignment.split == "test"
    ]
    wanted = min(max(round(fraction * len(groups)), 1), len(groups) - 1)
    assert abs(len(test) - wanted) <= 1


def test_fraction_takes_a_few_contiguous_blocks() -> None:
    assigned = assign_fraction({f"{number:03d}": f"{number:03d}" for number in range(100)}, 0.2)
    sides = [assigned[name].split for name in sorted(assigned)]
    assert sides.count("test") == 20
    assert sum(first != second for first, second in itertools.pairwise(sides)) <= 9


@pytest.mark.parametrize(("fraction", "train", "test"), [(0, 20, 0), (1, 0, 20)])
def test_all_of_a_folder_can_be_one_side(fraction: float, train: int, test: int) -> None:
    manifest = manifest_of(assign_fraction({name: name for name in NAMES}, fraction))
    splits = manifest_splits(manifest, selection_fraction=0)
    assert (len(splits.train), len(splits.test)) == (train, test)
    splits = manifest_splits(manifest)  # an all-test folder has nothing to take a selection part from
    assert len(splits.selection) == (3 if train else 0)


@pytest.mark.parametrize(("fraction", "side"), [(0.2, "train"), (0.8, "test")])
def test_one_group_is_not_divided(fraction: float, side: str) -> None:
    assigned = assign_fraction({"a": "walk", "b": "walk"}, fraction)
    assert {assignment.split for assignment in assigned.values()} == {side}


def test_more_folds_than_groups() -> None:
    with pytest.raises(InputError, match="5 folds were asked for, but there are 2 groups"):
        assign_folds({"a": "x", "b": "x", "c": "y"}, 5, "name", 0)


def test_lists_decide() -> None:
    groups = {name: name for name in "abcd"}

    def sides(train: list[str] | None, test: list[str] | None) -> dict[str, str | None]:
        return {name: assignment.split for name, assignment in assign_lists(groups, train, test).items()}

    assert sides(["a", "b"], None) == {"a": "train", "b": "train", "c": "test", "d": "test"}
    assert sides(None, ["a", "absent"]) == {"a": "test", "b": "train", "c": "train", "d": "train"}
    assert sides(["a"], ["d"]) == {"a": "train", "d": "test"}


def test_lists_that_contradict() -> None:
    groups = {"a1": "a", "a2": "a", "b1": "b"}
    with pytest.raises(InputError, match=r"1 names are in both train_list and test_list \(a1\)"):
        assign_lists(groups, ["a1", "a2"], ["a1"])
    with pytest.raises(
        InputError, match=r"None of the 2 names of test_list \(x, y\) is among the examples \(a1"
    ):
        assign_lists(groups, None, ["x", "y"])
    with pytest.raises(InputError, match=r"one group on both sides \(a\)"):
        assign_lists(groups, ["a1", "b1"], ["a2"])


def test_list_files(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(
        "\ufeff# walk 1\n\nimages/weg 1.png\r\nC:\\data\\Straße.JPG\nframe.001\nweg 1\n".encode()
    )
    assert read_name_list(path) == ("weg 1", "Straße", "frame.001")
    path.write_text("# nothing\n")
    with pytest.raises(InputError, match=r"train\.txt: has no names"):
        read_name_list(path)
    path.write_bytes(b"caf\xe9\n")
    with pytest.raises(InputError, match=r"train\.txt: byte 3 is no UTF-8 text\. Save the file as UTF-8"):
        read_name_list(path)
    with pytest.raises(InputError, match=r"absent\.txt: cannot be read"):
        read_name_list(tmp_path / "absent.txt")


def test_one_suffix_of_a_listed_file_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("a/b/line.tif.png\na/film.AVI\n")
    assert read_name_list(path, folders=1) == ("b/line.tif", "a/film.AVI")
    assert read_name_list(path, suffixes={".avi"}) == ("line.tif.png", "film")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("a.png", "a"),
        ("x/y/a.b.TIF", "a.b"),
        ("frame.001", "frame.001"),
        (".png", ".png"),
        ("a", "a"),
        ("e\u0301", "é"),
    ],
)
def test_example_names(file: str, name: str) -> None:
    assert example_name(file) == name


def test_groups_by_pattern() -> None:
    names = ["0001TP_01", "0001TP_02", "seq05_7"]
    assert group_names(names, None) == {name: name for name in names}
    assert group_names(names, "^[^_]+") == {"0001TP_01": "0001TP", "0001TP_02": "0001TP", "seq05_7": "seq05"}
    assert group_names(names, "^(....).*_") == {"0001TP_01": "0001", "0001TP_02": "0001", "seq05_7": "seq0"}
    with pytest.raises(InputError, match=r"is not found in 1 names \(seq05_7\)"):
        group_names(names, "(TP)?_")  # the name matches, its group does not
    with pytest.raises(InputError, match=r"group_pattern '\^0' is not found in 1 names \(seq05_7\)"):
        group_names(names, "^0")


def test_fold_must_exist() -> None:
    groups = {name: name for name in NAMES}
    with pytest.raises(
        InputError, match=r"Fold 4 was asked for, but the data was prepared with 4\. Use 0 to 3"
    ):
        manifest_splits(manifest_of(assign_folds(groups, 4, "name", 0), 4), fold=4)
    with pytest.raises(InputError, match="Fold 1 was asked for"):
        manifest_splits(manifest_of(assign_fraction(groups, 0.2)), fold=1)


def test_selection_needs_two_groups_and_a_fraction() -> None:
    one = manifest_of(assign_fraction({"a": "walk", "b": "walk"}, 0))
    with pytest.raises(InputError, match="Only one group of 2 training examples"):
        manifest_splits(one)
    with pytest.raises(InputError, match="selection_fraction is 1; expected at least 0 and less than 1"):
        manifest_splits(one, selection_fraction=1)


def test_selection_is_contiguous_blocks_of_training_names() -> None:
    groups = {f"{number:03d}": f"{number:03d}" for number in range(100)}
    splits = manifest_splits(
        manifest_of(assign_folds(groups, 5, "name", 0), 5), fold=0, selection_fraction=0.25
    )
    assert splits.test == tuple(f"{number:03d}" for number in range(20))
    assert len(splits.selection) == 20
    training = sorted(splits.train + splits.selection)
    sides = [name in splits.selection for name in training]
    assert sum(first != second for first, second in itertools.pairwise(sides)) <= 9
