"""Images find their masks by stem; what has no unique partner is reported with the remedy."""

import os
import unicodedata
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.files.pairing import find_pairs


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    images, masks = tmp_path / "images", tmp_path / "masks"
    images.mkdir()
    masks.mkdir()
    return images, masks


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch()


def test_stems_pair_across_suffixes_in_name_order(folders: tuple[Path, Path]) -> None:
    images, masks = folders
    touch(images, "b c.JPG", "Überweg 2.png", "a.1.webp", ".hidden.png", "readme.txt")
    touch(masks, "b c.png", "Überweg 2.tif", "a.1.bmp", "Thumbs.db")
    (images / "more").mkdir()
    pairs, skipped = find_pairs(images, masks)
    assert [pair.name for pair in pairs] == ["a.1", "b c", "Überweg 2"]
    assert (pairs[1].image, pairs[1].mask) == (images / "b c.JPG", masks / "b c.png")
    assert skipped == []


def test_composed_and_decomposed_accents_are_one_name(folders: tuple[Path, Path]) -> None:
    images, masks = folders
    touch(images, unicodedata.normalize("NFD", "Weg é.png"))
    touch(masks, unicodedata.normalize("NFC", "Weg é.png"))
    pairs, skipped = find_pairs(images, masks)
    assert [pair.name for pair in pairs] == [unicodedata.normalize("NFC", "Weg é")]
    assert not skipped


@pytest.mark.parametrize("ending", ["_mask", "-gt", "_segmentation_v2", ".label"])
def test_an_ending_that_all_masks_have_is_left_out(folders: tuple[Path, Path], ending: str) -> None:
    images, masks = folders
    touch(images, "1.jpg", "1_b.jpg", "c.jpg")
    touch(masks, f"1{ending}.png", f"1_b{ending}.gif")
    pairs, skipped = find_pairs(images, masks)
    assert [(pair.name, pair.mask.name) for pair in pairs] == [
        ("1", f"1{ending}.png"),
        ("1_b", f"1_b{ending}.gif"),
    ]
    assert [entry.file.name for entry in skipped] == ["c.jpg"]


def test_endings_that_differ_or_are_digits_are_not_left_out(folders: tuple[Path, Path]) -> None:
    images, masks = folders
    touch(images, "1.jpg", "2.jpg")
    touch(masks, "10.png", "20.png")
    assert find_pairs(images, masks)[0] == []
    touch(masks, "1_mask.png", "2-gt.png")
    assert find_pairs(images, masks)[0] == []


def test_what_has_no_unique_partner_is_reported(folders: tuple[Path, Path]) -> None:
    images, masks = folders
    touch(images, "good.png", "alone.png", "twice.png", "twice.jpg")
    touch(masks, "good.png", "orphan.png", "twice.png")
    pairs, skipped = find_pairs(images, masks)
    assert [pair.name for pair in pairs] == ["good"]
    reasons = {entry.file.relative_to(images.parent).as_posix(): entry.reason for entry in skipped}
    assert reasons.keys() == {"images/alone.png", "masks/orphan.png", "images/twice.jpg", "images/twice.png"}
    assert "alone.png: no mask with the stem 'alone'" in reasons["images/alone.png"]
    assert "Add the mask or remove the image" in reasons["images/alone.png"]
    assert "orphan.png: no image with the stem 'orphan'" in reasons["masks/orphan.png"]
    assert (
        "several files with the stem 'twice' (twice.jpg, twice.png). Keep one" in reasons["images/twice.png"]
    )


def test_name_that_is_not_text_is_reported(folders: tuple[Path, Path]) -> None:
    images, masks = folders
    for folder in folders:
        touch(folder, "good.png")
        Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.png")).touch()
    pairs, skipped = find_pairs(images, masks)
    assert [pair.name for pair in pairs] == ["good"]
    assert len(skipped) == 2
    assert all("not valid UTF-8. Rename" in entry.reason for entry in skipped)


def test_folders_that_cannot_be_used(folders: tuple[Path, Path]) -> None:
    images, masks = folders
    touch(images, "a.png")
    with pytest.raises(InputError, match=r"images: given for both images and masks"):
        find_pairs(images, images / ".." / "images")
    with pytest.raises(
        InputError, match=r"masks: no image file found\. Expected files with a suffix of \.bmp"
    ):
        find_pairs(images, masks)
    (masks / "fold1").mkdir()
    with pytest.raises(InputError, match=r"masks: .*It has subfolders \(fold1\): give one of these"):
        find_pairs(images, masks)
    with pytest.raises(InputError, match=r"absent: cannot be listed \(No such file or directory\)"):
        find_pairs(images, images / "absent")
    with pytest.raises(InputError, match=r"a\.png: cannot be listed \(Not a directory\)"):
        find_pairs(images / "a.png", masks)
