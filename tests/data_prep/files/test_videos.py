"""Frames of a video, one at a time."""

import contextlib
import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from data_prep.errors import InputError, Skipped
from data_prep.files.videos import Video, read_frames

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
    assert [frame.number for frame in frames] == list(range(COUNT))
    for number, _, frame in frames:
        assert frame.shape == (*SIZE, 3)
        assert frame.dtype == np.uint8
        red, green = frame[16, -4].astype(int), frame[16, max(4 * number - 4, 0)].astype(int)
        np.testing.assert_allclose(red, [200, 0, 0], atol=25)
        if number:
            np.testing.assert_allclose(green, [0, 200, 0], atol=25)


@pytest.mark.parametrize(("every", "numbers"), [(2, [0, 2, 4, 6]), (5, [0, 5]), (100, [0])])
def test_some_frames_keep_their_numbers(tmp_path, every, numbers):
    path = write_video(tmp_path / "a.avi")
    whole = {frame.number: frame.image for frame in read_frames(path)}
    some = {frame.number: frame.image for frame in read_frames(path, every=every)}
    assert list(some) == numbers
    for number, frame in some.items():
        np.testing.assert_array_equal(frame, whole[number])


def test_a_video_is_released_when_nobody_reads_on(tmp_path, monkeypatch):
    path = write_video(tmp_path / "a.avi")
    capture = Capture(path)
    monkeypatch.setattr(cv2, "VideoCapture", lambda *_: capture)
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


@pytest.mark.parametrize("name", ["cut.avi", "cut.mp4"])
def test_nothing_is_written_on_the_screen_about_damaged_videos(tmp_path, name, capfd):
    content = bytearray(write_video(tmp_path / name, "MJPG" if name == "cut.avi" else "mp4v").read_bytes())
    for place in range(400, len(content), 97):
        content[place] ^= 0x5A
    for number, length in enumerate(range(100, len(content), len(content) // 8)):
        for kind, end in (("whole", len(content)), ("cut", length)):
            path = tmp_path / f"{number} {kind}{name[-4:]}"
            path.write_bytes(content[:end])
            with contextlib.suppress(InputError):
                list(read_frames(path))
    assert capfd.readouterr() == ("", "")


def test_a_missing_video_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.avi: no frame can be decoded"):
        list(read_frames(tmp_path / "nowhere.avi"))


def test_a_name_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9.avi")
    write_video(tmp_path / "a.avi").rename(path)
    with pytest.raises(InputError, match="no UTF-8 text"):  # OpenCV would end the process
        list(read_frames(path))


def test_frames_that_are_there_but_cannot_be_decoded_are_no_video(tmp_path, monkeypatch):
    class Undecodable(Capture):
        def retrieve(self) -> tuple[bool, None]:
            return False, None

    path = write_video(tmp_path / "a.avi")
    capture = Undecodable(path)
    monkeypatch.setattr(cv2, "VideoCapture", lambda *_: capture)
    with pytest.raises(InputError, match="no frame can be decoded"):
        list(read_frames(path))


def test_a_frame_that_cannot_be_decoded_is_named_and_the_others_are_there(tmp_path, monkeypatch):
    class Damaged(Capture):
        passed = -1

        def grab(self) -> bool:
            self.passed += 1
            return self._capture.grab()

        def retrieve(self) -> tuple[bool, object]:
            return (False, None) if self.passed == 3 else self._capture.retrieve()

    path = write_video(tmp_path / "a.avi")
    capture = Damaged(path)
    monkeypatch.setattr(cv2, "VideoCapture", lambda *_: capture)
    left_out: list[Skipped] = []
    assert [frame.number for frame in read_frames(path, left_out=left_out)] == [0, 1, 2, 4, 5, 6]
    (entry,) = left_out
    assert entry.file.name == "a.avi#3"
    assert "this frame cannot be decoded" in entry.reason


def test_a_video_that_ends_early_is_named(tmp_path):
    path = write_video(tmp_path / "a.avi", count=60)
    content = path.read_bytes()
    path.write_bytes(content[: int(0.7 * len(content))])
    left_out: list[Skipped] = []
    count = len(list(read_frames(path, left_out=left_out)))
    (entry,) = left_out
    assert entry.reason.startswith(f"{path}: ends after {count} of 60 frames")
    assert len(list(read_frames(path))) == count


class Told:
    """Stands in for a `cv2.VideoCapture` of frames at times that a file tells, in milliseconds."""

    def __init__(self, times: list[float], rate: float = 20.0, announced: float = 0.0) -> None:
        self.times = iter(times)
        self.number = -1
        self.facts = {cv2.CAP_PROP_FPS: rate, cv2.CAP_PROP_FRAME_COUNT: announced}

    def isOpened(self) -> bool:  # noqa: N802 - OpenCV's name
        return True

    def grab(self) -> bool:
        self.number += 1
        self.facts[cv2.CAP_PROP_POS_MSEC] = next(self.times, None)
        return self.facts[cv2.CAP_PROP_POS_MSEC] is not None

    def get(self, name: int) -> float:
        return self.facts[name]

    def retrieve(self) -> tuple[bool, np.ndarray]:
        return True, np.full((1, 1, 3), self.number, np.uint8)

    def release(self) -> None:
        pass


@pytest.mark.parametrize(
    ("told", "rate", "seconds", "end"),
    [
        ([0, 100, 150, 400, 450], 20, [0, 0.1, 0.15, 0.4, 0.45], 0.5625),  # variable rate
        ([80, 120, 160], 20, [0, 0.04, 0.08], 0.12),  # does not begin at 0
        ([0, 0, 0], 20, [0, 0.05, 0.1], 0.15),  # no times: the rate counts
        ([0, 50, 20, 150], 20, [0, 0.05, 0.1, 0.15], 0.2),  # a time that goes back
        ([0, 50, 1e12, float("nan")], 20, [0, 0.05, 0.1, 0.15], 0.2),
        ([0, 0], 0, [0, 0.04], 0.08),  # no rate either
        ([0, 0], float("nan"), [0, 0.04], 0.08),
        ([0], 20, [0], 0.05),
        # One wrong time, and the times after it as they are.
        ([0, 50, 100, 10_000, 150, 200, 400], 20, [0, 0.05, 0.1, 0.125, 0.15, 0.2, 0.4], 0.4 * 7 / 6),
        ([0, 50, 10_000, 20_000, 20_050], 20, [0, 0.05, 10, 20, 20.05], 20.05 * 5 / 4),  # a slow stretch
        ([0, 50, 10_000], 20, [0, 0.05, 0.1], 0.15),  # at the end nothing says that it is true
        ([0, 0.1, 0.2, 0.4], 10_000, [0, 1e-4, 2e-4, 4e-4], 16e-4 / 3),  # a high-speed camera
        ([0, 0], 90_000, [0, 0.04], 0.08),  # a unit of time, no rate
    ],
)
def test_times_grow_whatever_the_file_tells(monkeypatch, told, rate, seconds, end):
    monkeypatch.setattr(cv2, "VideoCapture", lambda *_: Told(told, rate, announced=-1e18))
    with Video(Path("a.avi")) as video:
        assert list(video) == pytest.approx(seconds)
        assert video.end == pytest.approx(end)
        assert video.num_announced == 0
        assert video.longest_gap == pytest.approx(max(np.diff(seconds), default=0))


def test_the_frame_of_a_doubted_time_is_its_own(monkeypatch):
    monkeypatch.setattr(cv2, "VideoCapture", lambda *_: Told([0, 50, 10_000, 100, 7000, 7050]))
    with Video(Path("a.avi")) as video:
        assert [video.frame()[0, 0, 0] for _ in video] == [0, 1, 2, 3, 4, 5]
