"""Images, videos and sequences that are not of the kind of all images of a training."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from data_prep.files.kinds import is_grey, kinds_of, unlike_kinds


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Grey ones as one channel, as three and as JPEG; coloured ones as PNG and JPEG; a deep and a bad one."""
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (30, 40), np.uint8)
    colours = rng.integers(0, 256, (30, 40, 3), np.uint8)
    pictures = {
        "one.png": grey,
        "three.png": np.dstack([grey] * 3),
        "three.jpg": np.dstack([grey] * 3),
        "colours.png": colours,
        "colours.jpg": colours,
        "deep.png": grey.astype(np.uint16) * 16,
    }
    for name, picture in pictures.items():
        Image.fromarray(picture).save(tmp_path / name)
    (tmp_path / "bad.png").write_bytes(b"bad")
    return [*(tmp_path / name for name in pictures), tmp_path / "bad.png", tmp_path / "absent.png"]


def test_colours_are_named_for_a_model_of_grey_images(files: list[Path]) -> None:
    (said,) = unlike_kinds(files, ("grey",))
    assert said.startswith("2 of 8 images have colours (colours.png), and all of the training were grey")
    assert unlike_kinds([file for file in files if "colours" not in file.name], ("grey",)) == []


def test_of_many_images_some_are_looked_at(files: list[Path]) -> None:
    (said,) = unlike_kinds(files[:4] * 15, ("grey",))
    assert " of 20 images that were looked at have colours (" in said


def test_eight_bits_are_named_for_a_model_of_deep_images(files: list[Path]) -> None:
    (said,) = unlike_kinds(files, ("deep",))
    assert said.startswith("5 of 8 images have 8 bits per sample (one.png), and all of the training had more")
    assert unlike_kinds(files[5:], ("deep",)) == unlike_kinds(files, ()) == []


def test_a_set_is_of_a_kind_if_all_its_images_are(files: list[Path]) -> None:
    assert kinds_of(files[5:]) == ("grey", "deep")  # what cannot be read says nothing
    assert kinds_of(files[:3]) == ("grey",)
    assert kinds_of(files[:6]) == kinds_of(files[6:]) == kinds_of([]) == ()


def test_a_sequence_is_of_the_kind_of_its_frames_and_a_video_of_some(
    files: list[Path], tmp_path: Path
) -> None:
    sequences = {name: tmp_path / name for name in ("grey", "colours")}
    for folder, file in zip(sequences.values(), (files[0], files[3]), strict=True):
        folder.mkdir()
        file.rename(folder / file.name)
    black, green = np.zeros((2, 32, 32, 3), np.uint8), np.zeros((32, 32, 3), np.uint8)
    green[..., 1] = 200
    for name, last in (("night.avi", black[1]), ("day.avi", green)):
        writer = cv2.VideoWriter(str(tmp_path / name), cv2.VideoWriter.fourcc(*"MJPG"), 25.0, (32, 32))
        for frame in [black[0]] * 25 + [last]:
            writer.write(frame)
        writer.release()
    assert kinds_of([sequences["grey"], tmp_path / "night.avi"]) == ("grey",)
    (said,) = unlike_kinds([*sequences.values(), tmp_path / "night.avi", tmp_path / "day.avi"], ("grey",))
    assert said.startswith("2 of 4 files have colours (colours), ")


@pytest.mark.parametrize(("tint", "grey"), [(0, True), (4, True), (9, False)])
def test_a_tint_of_compression_is_no_colour(tint: int, grey: bool) -> None:
    image = np.full((20, 20, 3), 100, np.uint8)
    image[..., 2] += tint
    assert is_grey(image) is grey
