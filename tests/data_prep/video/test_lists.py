"""UCF101's lists, with and without numbers, with good and with bad lines."""

from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.splits.divide import group_names
from data_prep.video.plan import read_class_list, read_video_list, video_groups


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "list01.txt"
    path.write_text("\r\n".join(lines) + "\r\n", encoding="utf-8")
    return path


def test_videos_with_and_without_numbers(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "Run/v_Run_g08_c01.avi 1",
        "UCF/Walk/two words.MP4\t2",
        "",
        "Walk/v_Walk_g01_c02.avi",
        "Run/no 2",
    )
    names = ("Run/v_Run_g08_c01", "Walk/two words", "Walk/v_Walk_g01_c02", "Run/no 2")
    assert read_video_list(path) == names
    assert read_video_list(path, ["Run", "Walk"]) == names


def test_numbers_must_agree_with_the_classes(tmp_path: Path) -> None:
    path = written(tmp_path, "Run/a.avi 1", "Walk/a.avi 1")
    with pytest.raises(InputError, match=r"'Walk/a.avi 1' has the number 1, which is Run in class_list, but"):
        read_video_list(path, ["Run", "Walk"])
    with pytest.raises(InputError, match="which is no class in class_list, but lies in the folder Run"):
        read_video_list(written(tmp_path, "Run/a.avi 0"), ["Run", "Walk"])
    with pytest.raises(InputError, match=r"has the number 9+, which is no class in class_list"):
        read_video_list(written(tmp_path, "Run/a.avi " + "9" * 5000), ["Run", "Walk"])


def test_classes_with_and_without_numbers(tmp_path: Path) -> None:
    assert read_class_list(written(tmp_path, "2 Walk", "1 Run fast")) == ("Run fast", "Walk")
    assert read_class_list(written(tmp_path, "Walk", "3 Jumps")) == ("Walk", "3 Jumps")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("1 Run", "3 Walk"), "numbers of its 2 classes do not count from 1 to 2"),
        (("1 Run", "9" * 5000 + " Walk"), "numbers of its 2 classes do not count from 1 to 2"),
        (("Run", "Walk", "Run"), "lists Run more than once"),
        (("",), "has no names"),
    ],
)
def test_bad_class_lists(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_class_list(written(tmp_path, *lines))


def test_groups_by_name() -> None:
    names = ["Run/v_Run_g03_c01", "Walk/v_Walk_g03", "Walk/my_g_dog"]
    assert list(video_groups(names).values()) == ["g03", "g03", "Walk/my_g_dog"]
    assert list(group_names(names, r"^\w").values()) == ["R", "W", "W"]
