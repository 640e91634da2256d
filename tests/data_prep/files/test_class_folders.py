"""Which files of class folders count, and which are complained about."""

import unicodedata
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.files.class_folders import find_class_files, lost_classes

SUFFIXES = {".avi", ".mp4"}


def touched(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_files_are_named_after_class_and_stem(tmp_path: Path) -> None:
    decomposed = unicodedata.normalize("NFD", "Läufe/zähe.MP4")
    touched(
        tmp_path,
        decomposed,
        "Go/b.avi",
        "Go/a.avi",
        "Go/.c.avi",
        "Go/notes.txt",
        ".git/a.avi",
        "list.txt",
        ".a.avi",
    )
    files, skipped = find_class_files(tmp_path, SUFFIXES, "video")
    assert [(file.name, file.class_name) for file in files] == [
        ("Go/a", "Go"),
        ("Go/b", "Go"),
        ("Läufe/zähe", "Läufe"),
    ]
    assert files[2].path == tmp_path / decomposed
    assert skipped == []


def test_what_cannot_be_used_is_complained_about(tmp_path: Path) -> None:
    touched(
        tmp_path, "A/a.avi", "A/a.mp4", "A/b.avi", "B/a.avi", "C/notes.txt", "D/\udcff.avi", "\udcfe/a.avi"
    )
    touched(tmp_path, "loose.avi")
    files, skipped = find_class_files(tmp_path, SUFFIXES, "video")
    assert [file.name for file in files] == ["A/b", "B/a"]
    expected = [
        "a.avi: several files with the stem 'a' (a.avi, a.mp4). Keep one.",
        "a.mp4: several files with the stem 'a' (a.avi, a.mp4). Keep one.",
        "C: a class without a video file. Add videos or remove the folder.",
        "\udcff.avi: the file name is not valid UTF-8. Rename the file.",
        "loose.avi: in no class. Move it into the folder of its class.",
        "\udcfe: the name is not valid UTF-8. Rename the folder.",
    ]
    assert [entry.reason.rsplit("/", 1)[-1] for entry in skipped] == expected
    (lost,) = lost_classes({"B"}, tmp_path, "video")
    assert lost.reason.endswith("B: none of the class's videos can be read. Replace or remove them.")


def test_of_two_spellings_of_a_folder_the_names_stay_different(tmp_path: Path) -> None:
    for form in ("NFC", "NFD"):
        touched(tmp_path, unicodedata.normalize("NFC", f"B/{form}.avi"))
        touched(tmp_path, f"{unicodedata.normalize(form, 'é')}/a.avi")
        touched(tmp_path, f"{unicodedata.normalize(form, 'é')}/{form}.avi")
    files, skipped = find_class_files(tmp_path, SUFFIXES, "video")
    assert [file.name for file in files] == ["B/NFC", "B/NFD", "é/NFC", "é/NFD", "é/a"]
    (left_out,) = skipped
    assert left_out.file == tmp_path / "é" / "a.avi"
    assert "é already has a file of this name" in unicodedata.normalize("NFC", left_out.reason)


def test_two_classes_are_needed(tmp_path: Path) -> None:
    touched(tmp_path, "A/a.avi", "B/b.png")
    with pytest.raises(
        InputError, match=r"1 class folders with video files; .* two classes, or a list\. Check"
    ):
        find_class_files(tmp_path, SUFFIXES, "video", instead="a list")
    with pytest.raises(InputError, match=r"nowhere: cannot be listed \(No such file or directory\)"):
        find_class_files(tmp_path / "nowhere", SUFFIXES, "video")
