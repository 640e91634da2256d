"""What belongs together, by lists, names, neighbours and pairs, stays together."""

from pathlib import Path

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.splits.groups import (
    connected_groups,
    consecutive_groups,
    joined_groups,
    listed_groups,
    settings_groups,
)
from data_prep.splits.settings import SplitSettings

NO_PAIRS = np.empty((0, 2), np.int64)


def test_listed_groups_of_class_folders(tmp_path: Path) -> None:
    path = tmp_path / "groups.csv"
    path.write_text("class,file,group\nmine,1.png,a\nrock,1.png,b\nrock,2.png,a\nrock,gone.png,c\n")
    names = ["mine/1", "rock/1", "rock/2"]
    assert listed_groups(path, names) == {"mine/1": "a", "rock/1": "b", "rock/2": "a"}
    path.write_text("file,group\nset/mine/1.png,a\nrock/1.png,b\nrock/2.png,a\n")
    assert listed_groups(path, names) == {"mine/1": "a", "rock/1": "b", "rock/2": "a"}


def test_listed_groups_of_nested_folders(tmp_path: Path) -> None:
    path = tmp_path / "groups.csv"
    path.write_text("file,group\nbenign/p1/1.png,a\nset/benign/p2/1.svs,b\nmalignant/1.png,c\n1.png,d\n")
    names = ["benign/p1/1", "benign/p2/1", "malignant/1", "1"]
    assert listed_groups(path, names) == dict(zip(names, "abcd", strict=True))


def test_listed_groups_of_full_images(tmp_path: Path) -> None:
    path = tmp_path / "groups.csv"
    path.write_text("group,file\nsurvey 1,line_1.xtf\nsurvey 1,b.v2.tif\n")
    assert listed_groups(path, ["line_1", "b.v2"]) == {"line_1": "survey 1", "b.v2": "survey 1"}


def test_every_file_needs_a_group(tmp_path: Path) -> None:
    path = tmp_path / "groups.csv"
    path.write_text("file,group\na.png,1\nb.png,\n")
    with pytest.raises(InputError, match=r"groups\.csv: 2 of 3 files have no group \(b, c\)"):
        listed_groups(path, ["a", "b", "c"])
    path.write_text("name,group\na.png,1\n")
    with pytest.raises(InputError, match=r"has no column file\. Expected the columns file,group"):
        listed_groups(path, ["a"])


def test_consecutive_names_in_natural_order() -> None:
    names = [f"mine/ping{number}" for number in (1, 2, 3, 10, 11)] + ["rock/ping4"]
    groups = consecutive_groups(names, 2)
    assert groups["mine/ping1"] == groups["mine/ping2"]
    assert groups["mine/ping3"] == groups["mine/ping10"]
    assert len(set(groups.values())) == 4
    assert len(set(consecutive_groups(["2a", "a2", "b"], 1).values())) == 3


def test_any_criterion_joins() -> None:
    names = ["a", "b", "c", "d", "e"]
    by_line = {"a": "1", "b": "1", "c": "2", "d": "3", "e": "4"}
    groups = joined_groups(names, [by_line, {name: name for name in names}], np.array([[1, 2]]))
    assert groups == {"a": "a", "b": "a", "c": "a", "d": "d", "e": "e"}
    assert joined_groups(names, [by_line], NO_PAIRS)["c"] == "c"
    assert joined_groups(names, [by_line]) == by_line
    assert joined_groups(names, []) == {name: name for name in names}


def test_settings_give_a_grouping_by_pattern_and_one_by_list(tmp_path: Path) -> None:
    path = tmp_path / "groups.csv"
    path.write_text("file,group\na1.png,x\na2.png,y\n")
    names = ["a1", "a2"]
    assert settings_groups(names, SplitSettings()) == []
    both = SplitSettings(group_pattern="^(a)", group_list=path)
    assert settings_groups(names, both) == [{"a1": "a", "a2": "a"}, {"a1": "x", "a2": "y"}]
    assert joined_groups(names, settings_groups(names, both)) == {"a1": "a1", "a2": "a1"}


def test_groups_join_through_others() -> None:
    groups = connected_groups(5, np.array([[0, 3], [3, 4]]))
    assert groups[0] == groups[3] == groups[4]
    assert len({groups[0], groups[1], groups[2]}) == 3
    assert connected_groups(2, np.empty((0, 2), np.int64)).tolist() == [0, 1]
