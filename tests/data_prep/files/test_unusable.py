"""What is named like a file to read, and is none, is said wherever files are listed."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from data_prep.cells.sequences import find_sequences
from data_prep.errors import InputError
from data_prep.files.class_folders import files_by_stem, find_class_files
from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.images import write_picture
from data_prep.files.pairing import find_pairs
from data_prep.files.unusable import unusable_entries
from data_prep.files.videos import VIDEO_SUFFIXES
from data_prep.histopathology.slides import TISSUE_SUFFIXES
from pipelines.bundles.sources import find_sources

GREY = np.full((4, 6), 128, np.uint8)


@pytest.fixture
def entries(tmp_path):
    """Write a folder with files of all kinds."""
    for name in ("1.png", "2.GIF", "notes.txt", ".3.gif"):
        (tmp_path / name).touch()
    for name in ("4.png", "5.avi", "6.txt", ".7.png"):
        (tmp_path / name).symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "8.jpg")
    (tmp_path / "9.png").mkdir()
    (tmp_path / "10.png").symlink_to(tmp_path / "1.png")
    return sorted(tmp_path.iterdir())


def test_links_to_nothing_pipes_and_other_formats_are_reported(entries):
    found = {entry.file.name: entry.reason for entry in unusable_entries(entries, IMAGE_SUFFIXES)}
    assert found.keys() == {"2.GIF", "4.png", "8.jpg"}
    assert "is no file, but a link to nothing or to where you may not look, a pipe" in found["4.png"]
    assert found["2.GIF"].endswith("2.GIF: .GIF files are not read. Save the image as JPEG or PNG.")


def test_volumes_and_dicom_files_without_a_suffix_are_reported(tmp_path):
    for name in ("IM0001", "1.2.840.77", "text", "deep.zip"):
        (tmp_path / name).write_bytes(bytes(128) + (b"DICM" if "1" in name else b"text"))
    for name in ("brain.nii", "BRAIN.NII.GZ", "other.gz"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    entries = sorted(tmp_path.iterdir())
    found = {entry.file.name: entry.reason for entry in unusable_entries(entries, IMAGE_SUFFIXES)}
    assert found.keys() == {"IM0001", "1.2.840.77", "brain.nii", "BRAIN.NII.GZ"}
    assert "does not end in .dcm, and is not read. Rename it" in found["IM0001"]
    assert "volumes are not read. Save the slices" in found["BRAIN.NII.GZ"]
    of_tissue = unusable_entries(entries, TISSUE_SUFFIXES)
    assert [entry.file.name for entry in of_tissue] == ["BRAIN.NII.GZ", "brain.nii"]
    write_picture(tmp_path / "a.png", GREY)
    sources = find_sources([tmp_path])
    assert {source.path.name for source in sources} == {"a.png", *found}


def test_where_no_images_are_read_their_other_formats_are_of_no_interest(entries):
    assert [entry.file.name for entry in unusable_entries(entries, VIDEO_SUFFIXES)] == ["5.avi"]


def test_a_link_to_where_one_may_not_look_ends_nothing(tmp_path, monkeypatch):
    for name in ("1.png", "2.png", "closed.png", "closed.txt"):
        write_picture(tmp_path / name, GREY, suffix=".png")
    look = Path.stat

    def stat(path: Path, **options: bool) -> os.stat_result:
        if path.stem == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return look(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    files, skipped = files_by_stem(sorted(tmp_path.iterdir()), IMAGE_SUFFIXES)
    assert files.keys() == {"1", "2"}
    assert [entry.file.name for entry in skipped] == ["closed.png"]
    with pytest.raises(InputError, match="closed"):
        find_class_files(tmp_path, IMAGE_SUFFIXES, "image")


def test_class_folders_pairs_and_sequences_report_them(tmp_path):
    for folder in ("classes/a", "classes/b", "images", "masks", "cells/one"):
        for name in ("1.png", "2.png"):
            write_picture(tmp_path / folder / name, GREY)
        (tmp_path / folder / "3.png").symlink_to(tmp_path / "gone")
        (tmp_path / folder / "4.gif").touch()
    of_classes = find_class_files(tmp_path / "classes", IMAGE_SUFFIXES, "image")[1]
    of_pairs = find_pairs(tmp_path / "images", tmp_path / "masks")[1]
    of_cells = find_sequences(tmp_path / "cells")[1]
    assert sorted(str(entry.file.relative_to(tmp_path)) for entry in (*of_classes, *of_pairs, *of_cells)) == [
        f"{folder}/{name}"
        for folder in ("cells/one", "classes/a", "classes/b", "images", "masks")
        for name in ("3.png", "4.gif")
    ]


def test_a_class_of_nothing_that_can_be_read_is_reported_with_its_files(tmp_path):
    for folder in ("a", "b"):
        write_picture(tmp_path / folder / "1.png", GREY)
    (tmp_path / "2.gif").touch()
    (tmp_path / "3.png").symlink_to(tmp_path / "gone")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "1.gif").touch()
    _, skipped = find_class_files(tmp_path, IMAGE_SUFFIXES, "image")
    assert [entry.file.name for entry in skipped] == ["2.gif", "3.png", "1.gif", "c"]
    assert "is no file" in skipped[1].reason
    assert "a class without an image file" in skipped[3].reason


def test_folders_of_nothing_but_other_formats_say_so(tmp_path):
    for folder in ("classes/a", "classes/b", "images", "masks"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "1.heic").touch()
    with pytest.raises(InputError, match=r"0 class folders(.|\n)*a/1\.heic: \.heic files are not read"):
        find_class_files(tmp_path / "classes", IMAGE_SUFFIXES, "image")
    with pytest.raises(InputError, match=r"no image file found(.|\n)*1\.heic: \.heic files are not read"):
        find_pairs(tmp_path / "images", tmp_path / "masks")


def test_a_frame_that_cannot_be_read_for_two_reasons_is_reported_once(tmp_path):
    for name in ("1.png", "2.png"):
        write_picture(tmp_path / "one" / name, GREY)
    (tmp_path / "one" / os.fsdecode(b"\xff.gif")).touch()
    _, skipped = find_sequences(tmp_path)
    assert len(skipped) == 1


def test_a_dicom_file_beside_tissue_or_cells_is_of_no_interest(tmp_path):
    """These applications do not read grey DICOM; other formats of images are still reported."""
    for name in ("1.png", "2.png"):
        write_picture(tmp_path / "one" / name, GREY)
    for name in ("3.dcm", "4.heic"):
        (tmp_path / "one" / name).touch()
    entries = sorted((tmp_path / "one").iterdir())
    assert [entry.file.name for entry in unusable_entries(entries, TISSUE_SUFFIXES)] == ["4.heic"]
    assert [source.path.name for source in find_sources([tmp_path / "one"], suffixes=TISSUE_SUFFIXES)] == [
        *("1.png", "2.png"),
        "4.heic",
    ]
    (sequence,), skipped = find_sequences(tmp_path)
    assert [file.name for file in sequence.frames] == ["1.png", "2.png"]
    assert [entry.file.name for entry in skipped] == ["4.heic"]
