"""Which frames clips show, whatever the length, the rate and the state of the video."""

import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from data_prep.errors import InputError
from data_prep.files.resizing import resize_image
from data_prep.files.videos import Video
from data_prep.video import clips as video_clips
from data_prep.video.clips import (
    VideoClip,
    clip_starts,
    cut_clips,
    prepare_frame,
    sample_frames,
    survey_video,
    video_windows,
)
from data_prep.video.settings import ClipSettings
from tests.data_prep.video_files import numbers, write_video

SMALL = ClipSettings(frames=4, clip_seconds=1.0, resize=(12, 16), size=(8, 8))


class Shown:
    """Stands in for a `Video` of frames at given times; frame i has the level i."""

    def __init__(self, times: list[float], broken: tuple[int, ...] = ()) -> None:
        self.times, self.broken, self.end = times, broken, times[-1] + 0.1
        self.converted: list[int] = []
        self._number = -1

    def __iter__(self) -> Iterator[float]:
        for number, time in enumerate(self.times):
            self._number = number
            yield time

    def frame(self) -> np.ndarray | None:
        self.converted.append(self._number)
        return None if self._number in self.broken else np.full((8, 8, 3), self._number, np.uint8)


def sampled(video: Shown, times: list[float], **options: float) -> list[int]:
    return [int(frame[0, 0, 0]) for frame in sample_frames(video, times, SMALL, **options)]


def spans(clips: list[VideoClip]) -> list[tuple[float, float]]:
    return [(pytest.approx(clip.start_seconds), pytest.approx(clip.end_seconds)) for clip in clips]


def test_a_frame_is_shown_until_the_next_one() -> None:
    times = [0.0, 0.1, 1.0, 1.1]  # variable rate: frame 1 stands still
    assert sampled(Shown(times), [0.05, 0.1, 0.5, 0.99, 1.05, 1.15]) == [0, 1, 1, 1, 2, 3]
    assert sampled(Shown(times), [0.5, 1.3, 1.4]) == [1]  # nothing is shown after the end
    assert sampled(Shown(times, broken=(0, 2)), [0.05, 1.05]) == [1, 1]


def test_frames_that_nobody_wants_are_not_converted() -> None:
    video = Shown([number / 10 for number in range(100)])
    assert sampled(video, [5.05, 7.0], longest_gap=0.1) == [50, 70]
    assert len(video.converted) <= 4


@pytest.mark.parametrize(
    ("seconds", "clips", "starts"),
    [
        (10.0, 4, [0, 3, 6, 9]),
        (10.0, 1, [4.5]),
        (2.0, 8, [0, 0.5, 1]),  # no more than overlap by half
        (1.4, 8, [0.2]),
        (0.3, 8, [0]),
    ],
)
def test_clips_are_evenly_spaced(seconds: float, clips: int, starts: list[float]) -> None:
    np.testing.assert_allclose(clip_starts(seconds, SMALL, clips), starts)


@pytest.mark.parametrize(("name", "fourcc"), [("Straße im März.avi", "MJPG"), ("two words.mp4", "mp4v")])
def test_clips_of_a_file(tmp_path: Path, name: str, fourcc: str) -> None:
    survey = survey_video(write_video(tmp_path / name, 30, fourcc=fourcc))
    assert (survey.size, survey.num_frames, survey.note) == ((32, 48), 30, None)
    assert (survey.seconds, survey.longest_gap) == (pytest.approx(3.0), pytest.approx(0.1))
    clips = cut_clips(survey, SMALL, clips=2)
    assert spans(clips) == [(0, 1), (2, 3)]
    assert [numbers(clip.frames) for clip in clips] == [[1, 3, 6, 8], [21, 23, 26, 28]]
    assert (clips[0].frames.shape, clips[0].frames.dtype) == ((4, 8, 8, 3), np.uint8)
    overlapping, _ = cut_clips(survey, SMALL.model_copy(update={"clip_seconds": 2.0}), clips=5)
    assert numbers(overlapping.frames) == [2, 7, 12, 17]


@pytest.mark.parametrize(("count", "shown"), [(1, [0, 0, 0, 0]), (2, [0, 0, 1, 1]), (3, [0, 1, 1, 2])])
def test_a_short_video_is_shown_whole(tmp_path: Path, count: int, shown: list[int]) -> None:
    path = write_video(tmp_path / "a.avi", count)
    for clips in (cut_clips(survey_video(path), SMALL, 4), list(video_windows(path, SMALL))):
        assert [numbers(clip.frames) for clip in clips] == [shown]
        assert spans(clips) == [(0, count / 10)]


def test_windows_follow_each_other_and_reach_the_end(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.avi", 25)
    windows = list(video_windows(path, SMALL))
    assert spans(windows) == [(0, 1), (1, 2), (1.5, 2.5)]
    assert [numbers(w.frames) for w in windows] == [[1, 3, 6, 8], [11, 13, 16, 18], [16, 18, 21, 23]]
    np.testing.assert_array_equal(windows[0].frames, cut_clips(survey_video(path), SMALL, 4)[0].frames)
    steps = list(video_windows(path, SMALL, step=2))
    assert spans(steps) == [(0, 1), (0.5, 1.5), (1, 2), (1.5, 2.5)]
    ends_within = list(video_windows(write_video(tmp_path / "b.avi", 29), SMALL))
    assert spans(ends_within) == [(0, 1), (1, 2), (2, 2.9)]
    with pytest.raises(InputError, match="step between clips is 0 frames; expected at least 1"):
        list(video_windows(path, SMALL, step=0))


def peak_of_cutting(path: Path) -> int:
    """Bytes that Python has in use at most while a video is surveyed and cut."""
    tracemalloc.start()
    survey = survey_video(path)
    for _ in video_windows(path, SMALL, step=1):
        pass
    cut_clips(survey, SMALL, 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length(tmp_path: Path) -> None:
    short, long = (write_video(tmp_path / f"{count}.avi", count, size=(64, 64)) for count in (60, 600))
    # In a process of its own: threads that other tests leave in this one, of a cluster say, would count too.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        _, *peaks = fresh.map(peak_of_cutting, (short, short, long))  # the first call imports what it needs
    assert peaks[1] < peaks[0] + 2 * 64 * 64 * 3  # two frames; the longer video has 540 more


def test_what_can_be_decoded_of_a_damaged_video_is_used(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.avi", 30)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 3 // 4])
    survey = survey_video(path)
    assert 10 < survey.num_frames < 25
    assert survey.note is not None
    assert survey.note.startswith(
        f"a.avi: {survey.num_frames} of the 30 frames that the file announces can be"
    )
    (clip,) = cut_clips(survey, SMALL, 1)
    assert numbers(clip.frames) == sorted(set(numbers(clip.frames)))


def test_a_video_that_ends_earlier_the_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    survey = survey_video(write_video(tmp_path / "a.avi", 30))
    write_video(tmp_path / "a.avi", 2)
    clips = cut_clips(survey, SMALL, 4)
    assert [numbers(clip.frames) for clip in clips][1:] == [[1] * 4] * 3
    monkeypatch.setattr(video_clips, "sample_frames", lambda *_, **__: iter(()))
    with pytest.raises(InputError, match=r"a\.avi: no frame can be decoded"):
        cut_clips(survey, SMALL, 4)


@pytest.mark.parametrize("content", [b"", b"a diary, not a video\n" * 99])
def test_what_is_no_video_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.avi"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.avi: no frame can be decoded"):
        survey_video(path)
    with pytest.raises(InputError, match=r"a\.avi: no frame can be decoded"):
        list(video_windows(path, SMALL))


def test_the_middle_of_the_resized_frame_is_kept(tmp_path: Path) -> None:
    frame = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    expected = resize_image(frame, (12, 16))[2:10, 4:12]
    np.testing.assert_array_equal(prepare_frame(frame, SMALL), expected)
    with Video(write_video(tmp_path / "a.avi", 1)) as video:
        (prepared,) = sample_frames(video, [0.0], ClipSettings())
    assert prepared.shape == (112, 112, 3)


def test_the_middle_part_is_a_part() -> None:
    with pytest.raises(ValidationError, match=r"size \(64, 64\) is larger than resize \(64, 60\)"):
        ClipSettings(resize=(64, 60), size=(64, 64))
