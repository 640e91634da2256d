"""Which files of a folder are images, which classes they have, and what is said of the others."""

import os

import numpy as np
import pytest
from PIL import Image

from data_prep.errors import InputError
from data_prep.explore.folders import find_image_files, read_fitted_images
from data_prep.files import entries


def write(path, size=(6, 8), level=100):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*size, 3), level, np.uint8)).save(path)


def test_images_without_subfolders_have_no_class(tmp_path):
    for name in ("b.png", "a.jpg", ".hidden.png"):
        write(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no image")
    files, skipped = find_image_files(tmp_path)
    assert [(file.name, file.class_name) for file in files] == [("a.jpg", None), ("b.png", None)]
    assert skipped == []


def test_subfolders_are_classes_and_what_lies_beside_them_is_left_out(tmp_path):
    for name in ("cat/1.png", "cat/young/2.png", "dog/1.png", "loose.png", ".cache/1.png"):
        write(tmp_path / name)
    (tmp_path / "dog" / "2.heic").write_bytes(b"")
    files, skipped = find_image_files(tmp_path)
    assert {file.name: file.class_name for file in files} == {
        "cat/1.png": "cat",
        "cat/young/2.png": "cat",
        "dog/1.png": "dog",
    }
    assert [entry.file.name for entry in skipped] == ["2.heic", "loose.png"]
    assert "Save the image as JPEG or PNG" in skipped[0].reason
    assert "in no class" in skipped[1].reason


def test_links_to_folders_are_classes_too(tmp_path):
    write(tmp_path / "elsewhere" / "1.png")
    write(tmp_path / "images" / "dog" / "1.png")
    (tmp_path / "images" / "cat").symlink_to(tmp_path / "elsewhere")
    files, skipped = find_image_files(tmp_path / "images")
    assert {file.name: file.class_name for file in files} == {"cat/1.png": "cat", "dog/1.png": "dog"}
    assert skipped == []


def test_links_to_nothing_and_pipes_are_named(tmp_path):
    write(tmp_path / "a" / "1.png")
    (tmp_path / "a" / "2.png").symlink_to(tmp_path / "gone.png")
    os.mkfifo(tmp_path / "a" / "3.jpg")
    (tmp_path / "a" / "notes").symlink_to(tmp_path / "gone")
    found, skipped = find_image_files(tmp_path)
    assert [file.name for file in found] == ["a/1.png"]
    assert [entry.file.name for entry in skipped] == ["2.png", "3.jpg"]
    assert all(entry.reason.startswith(f"{entry.file}: is no file") for entry in skipped)


def test_a_folder_without_images_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no image file found\. Expected a prepared folder, or a folder"):
        find_image_files(tmp_path)
    with pytest.raises(InputError, match="cannot be listed"):
        find_image_files(tmp_path / "nowhere")


def test_a_subfolder_that_cannot_be_listed_is_left_out(tmp_path, monkeypatch):
    for name in ("cat/1.png", "dog/1.png", "closed/1.png"):
        write(tmp_path / name)
    plain = entries.listed

    def listed(folder):
        if folder.name == "closed":
            raise InputError(f"{folder}: cannot be listed (Permission denied).")
        return plain(folder)

    monkeypatch.setattr(entries, "listed", listed)
    files, skipped = find_image_files(tmp_path)
    assert [file.name for file in files] == ["cat/1.png", "dog/1.png"]
    assert [entry.file.name for entry in skipped] == ["closed"]


def test_a_cluster_reads_the_same_images(tmp_path, cluster):
    for name in "abcd":
        write(tmp_path / f"{name}.png", (10, 40))
    (tmp_path / "broken.png").write_bytes(b"no image")
    files, _ = find_image_files(tmp_path)
    read = []
    for jobs in (1, cluster):
        skipped = []
        images = read_fitted_images(files, tmp_path, (16, 16), "pad", skipped, jobs=jobs, progress=None)
        read.append(([(one.file, one.image.tobytes()) for one in images], skipped))
    assert read[0] == read[1]
    assert len(read[0][0]) == 4


def test_images_get_one_size_and_damaged_ones_are_listed(tmp_path):
    write(tmp_path / "wide.png", (10, 40))
    write(tmp_path / "high.png", (300, 200))
    (tmp_path / "broken.png").write_bytes(b"no image")
    files, skipped = find_image_files(tmp_path)
    images = read_fitted_images(files, tmp_path, (16, 16), "pad", skipped, jobs=1, progress=None)
    assert [one.file.name for one in images] == ["high.png", "wide.png"]
    assert {one.image.shape for one in images} == {(16, 16, 3)}
    assert [one.thumbnail.shape for one in images] == [(160, 107, 3), (10, 40, 3)]
    assert [entry.file.name for entry in skipped] == ["broken.png"]
    assert "unreadable or truncated" in skipped[0].reason


def test_the_class_is_inside_folders_called_train_and_val(tmp_path):
    for name in ("train/ring/a.png", "val/ring/b.png", "train/bar/day/c.png", "val/bar/d.png"):
        write(tmp_path / name)
    files, skipped = find_image_files(tmp_path)
    assert {file.name: file.class_name for file in files} == {
        "train/ring/a.png": "ring",
        "val/ring/b.png": "ring",
        "train/bar/day/c.png": "bar",
        "val/bar/d.png": "bar",
    }
    assert skipped == []


def test_what_holds_no_classes_beside_a_split_is_no_class(tmp_path):
    for folder in ("train/a", "test/a", "annotations", "__MACOSX/train"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in ("train/a", "test/a"):
        Image.new("L", (4, 4)).save(tmp_path / folder / "1.png")
    (tmp_path / "annotations" / "1.xml").write_text("<a/>")
    (tmp_path / "__MACOSX" / "train" / "._1.png").write_bytes(b"fork")
    files, _ = find_image_files(tmp_path)
    assert [file.class_name for file in files] == ["a", "a"]


@pytest.mark.parametrize("other", ["unlabelled"])
def test_a_folder_beside_those_of_a_split_is_named_and_makes_no_classes_of_them(tmp_path, other):
    for folder in ("train/a", "test/a", f"{other}/a"):
        (tmp_path / folder).mkdir(parents=True)
        Image.new("L", (4, 4)).save(tmp_path / folder / "1.png")
    with pytest.raises(InputError, match=rf"test and train hold class folders .* beside them is {other}\."):
        find_image_files(tmp_path)
    for folder in ("train", "test"):
        (tmp_path / folder / "a" / "1.png").rename(tmp_path / folder / "1.png")
        (tmp_path / folder / "a").rmdir()
    files, _ = find_image_files(tmp_path)
    assert sorted(file.class_name for file in files) == sorted(["test", "train", other])
