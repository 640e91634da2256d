"""Frames of a video, one at a time."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.videos import read_frames

SIZE = (32, 48)
COUNT = 7


def write_video(path: Path, fourcc: str = "MJPG", count: int = COUNT) -> Path:
    """Frame i is red with 4 i green columns on the left."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*fourcc), 10, SIZE[::-1])
    assert writer.isOpened()
    for number in range(count):
        frame = np.zeros((*SIZE, 3), np.uint8)
        frame[..., 2] = 200
        frame[:, : 4 * number] = (0, 200, 0)
        writer.write(frame)
    writer.release()
    return path


class Capture:
    """A `cv2.VideoCapture`, whose own class crashes when a subclass is made of it."""

    def __init__(self, path: Path) -> None:
        self._capture = cv2.VideoCapture(str(path))

    def __getattr__(self, name: str) -> object:
        return getattr(self._capture, name)


@pytest.mark.parametrize(
    ("name", "fourcc"), [("a.avi", "MJPG"), ("a.mp4", "mp4v"), ("Straße im März.avi", "MJPG")]
)
def test_frames_come_in_order_as_rgb(tmp_path, name, fourcc):
    frames = list(read_frames(write_video(tmp_path / name, fourcc)))
    assert [number for number, _ in frames] == list(range(COUNT))
    for number, frame in frames:
        assert frame.shape == (*SIZE, 3)
        assert frame.dtype == np.uint8
        red, green = frame[16, -4].astype(int), frame[16, max(4 * number - 4, 0)].astype(int)
        np.testing.assert_allclose(red, [200, 0, 0], atol=25)
        if number:
            np.testing.assert_allclose(green, [0, 200, 0], atol=25)


@pytest.mark.parametrize(("every", "numbers"), [(2, [0, 2, 4, 6]), (5, [0, 5]), (100, [0])])
def test_some_frames_keep_their_numbers(tmp_path, every, numbers):
    path = write_video(tmp_path / "a.avi")
    whole = dict(read_frames(path))
    some = dict(read_frames(path, every=every))
    assert list(some) == numbers
    for number, frame in some.items():
        np.testing.assert_array_equal(frame, whole[number])


def test_a_video_is_released_when_nobody_reads_on(tmp_path, monkeypatch):
    path = write_video(tmp_path / "a.avi")
    capture = Capture(path)
    monkeypatch.setattr(cv2, "VideoCapture", lambda _: capture)
    frames = read_frames(path)
    next(frames)
    assert capture.isOpened()
    frames.close()
    assert not capture.isOpened()


@pytest.mark.parametrize("content", [b"", b"no video", b"RIFF\x00\x00\x00\x00AVI "])
def test_what_is_no_video_is_refused(tmp_path, content):
    path = tmp_path / "a.avi"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.avi: no frame can be decoded\. Expected a video such as MP4"):
        list(read_frames(path))


def test_a_missing_video_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.avi: no frame can be decoded"):
        list(read_frames(tmp_path / "nowhere.avi"))


def test_frames_that_are_there_but_cannot_be_decoded_are_no_video(tmp_path, monkeypatch):
    class Undecodable(Capture):
        def retrieve(self) -> tuple[bool, None]:
            return False, None

    path = write_video(tmp_path / "a.avi")
    capture = Undecodable(path)
    monkeypatch.setattr(cv2, "VideoCapture", lambda _: capture)
    with pytest.raises(InputError, match="no frame can be decoded"):
        list(read_frames(path))
