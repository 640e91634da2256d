"""Clips of evenly spaced frames out of videos of any length; the frames of a clip or two are in memory."""

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError
from data_prep.files.resizing import resize_image
from data_prep.files.videos import Video, frames_missing, no_frame
from data_prep.video.settings import ClipSettings

_LARGEST_OVERLAP = 0.5  # of neighbouring clips, as a share of a clip
_ROUNDING = 1e-6  # seconds


@dataclass(frozen=True)
class VideoClip:
    """A clip and what it shows.

    Attributes:
        frames: uint8 [frames, height, width, 3] RGB.
        start_seconds: Time in the video at which it begins.
        end_seconds: Time in the video at which it ends.
    """

    frames: npt.NDArray[np.uint8]
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True)
class VideoSurvey:
    """What is known of a video after it has been read once.

    Attributes:
        path: The file.
        size: Height and width in pixels.
        num_frames: Number of frames that can be decoded.
        num_announced: Number of frames according to the file; 0 for unknown.
        seconds: Length of what can be decoded.
        longest_gap: Longest time that one frame is shown, in seconds.
    """

    path: Path
    size: tuple[int, int]
    num_frames: int
    num_announced: int
    seconds: float
    longest_gap: float

    @property
    def note(self) -> str | None:
        """Description of what is wrong with the video, or None unless frames are missing."""
        if not frames_missing(self.num_frames, self.num_announced):
            return None
        return (
            f"{self.path.name}: {self.num_frames} of the {self.num_announced} frames that the file announces "
            f"can be decoded ({self.seconds:.1f} seconds); these are used. Copy or convert the file again if "
            "it should be longer."
        )


def survey_video(path: Path) -> VideoSurvey:
    """Read a video once to find its length.

    Raises:
        InputError: No frame can be decoded.
    """
    size = None
    with Video(path) as video:
        for _ in video:
            if size is None and (frame := video.frame()) is not None:
                size = (frame.shape[0], frame.shape[1])
        if size is None:
            raise InputError(no_frame(path))
        gap = max(video.longest_gap, video.end - video.seconds)
        return VideoSurvey(path, size, video.num_frames, video.num_announced, video.end, longest_gap=gap)


def clip_starts(seconds: float, settings: ClipSettings, clips: int) -> npt.NDArray[np.float64]:
    """Return where to cut clips out of a video.

    Args:
        seconds: Length of the video.
        settings: Settings with the length of a clip.
        clips: Number of clips, if the video is long enough for so many that overlap by half.

    Returns:
        Seconds [at most clips]: evenly spaced from the start of the video, so that the last clip ends where
        the video ends; a single clip lies in the middle.

    Example:
        >>> clip_starts(5.0, ClipSettings(clip_seconds=1.0), 3).tolist()
        [0.0, 2.0, 4.0]
    """
    room = max(0.0, seconds - settings.clip_seconds)
    different = 1 + math.floor(room / (settings.clip_seconds * (1 - _LARGEST_OVERLAP)) + 1e-9)
    if min(clips, different) == 1:
        return np.array([room / 2])
    return np.linspace(0.0, room, min(clips, different))


def cut_clips(survey: VideoSurvey, settings: ClipSettings, clips: int) -> list[VideoClip]:
    """Cut evenly spaced clips out of a video, reading it once more.

    Args:
        survey: Survey of the video.
        settings: Settings of clips. A video shorter than a clip is shown whole, with frames repeated where it
            has too few.
        clips: Number of clips, as `clip_starts` takes it.

    Raises:
        InputError: No frame can be decoded.
    """
    starts = clip_starts(survey.seconds, settings, clips)
    length = min(settings.clip_seconds, survey.seconds)
    wanted = starts[:, np.newaxis] + (np.arange(settings.frames) + 0.5) * length / settings.frames
    times, positions = np.unique(wanted, return_inverse=True)  # clips may overlap
    with Video(survey.path) as video:
        frames = list(sample_frames(video, times.tolist(), settings, longest_gap=survey.longest_gap))
    if not frames:
        raise InputError(no_frame(survey.path))
    # A damaged video may end earlier the second time.
    positions = np.minimum(positions.reshape(wanted.shape), len(frames) - 1)
    return [
        VideoClip(np.stack([frames[i] for i in of_clip]), float(start), float(start + length))
        for start, of_clip in zip(starts, positions, strict=True)
    ]


def video_windows(path: Path, settings: ClipSettings, *, step: int | None = None) -> Iterator[VideoClip]:
    """Cut a video of any length into clips one after another, while it is read once.

    Args:
        path: Video file, in any container that OpenCV reads.
        settings: Settings of clips.
        step: Frames of a clip between the start of one clip and that of the next; None for clips without
            overlap.

    Yields:
        Clips of equal length in the order of time. The last one ends with the video and may overlap the one
        before it; a video shorter than a clip gives one that shows it whole.

    Raises:
        InputError: No frame can be decoded.

    Example:
        >>> for clip in video_windows(Path("film.mp4"), ClipSettings(frames=16)):  # doctest: +SKIP
        ...     print(clip.start_seconds, clip.end_seconds, clip.frames.shape)
        0.0 1.0 (16, 112, 112, 3)
    """
    step = settings.frames if step is None else step
    if step < 1:
        raise InputError(f"The step between clips is {step} frames; expected at least 1.")
    period = settings.clip_seconds / settings.frames
    held: deque[npt.NDArray[np.uint8]] = deque(maxlen=settings.frames)
    waiting: VideoClip | None = None  # until it is known whether the video ends within its last frame
    number = 0
    with Video(path) as video:
        times = ((position + 0.5) * period for position in count())
        for number, frame in enumerate(sample_frames(video, times, settings), 1):
            if waiting is not None:
                yield waiting
                waiting = None
            held.append(frame)
            start = (number - settings.frames) * period
            if number >= settings.frames and (number - settings.frames) % step == 0:
                waiting = VideoClip(np.stack(held), start, start + settings.clip_seconds)
    if number < settings.frames:
        yield from cut_clips(survey_video(path), settings, clips=1)
    else:
        final = waiting or VideoClip(np.stack(held), start, start + settings.clip_seconds)
        yield replace(final, end_seconds=min(final.end_seconds, video.end))


def sample_frames(
    video: Video, times: Iterable[float], settings: ClipSettings, *, longest_gap: float = math.inf
) -> Iterator[npt.NDArray[np.uint8]]:
    """Read what a video shows at some times.

    Args:
        video: Video that is not yet read from.
        times: Times in seconds, growing; there may be no end of them.
        settings: Settings with the size of the frames.
        longest_gap: Longest time that one frame is shown, where known; saves converting frames nobody wants.

    Yields:
        For each time before the end of the video the prepared frame, uint8 [height, width, 3] RGB. A frame is
        shown until the next one; one that cannot be decoded is passed over.
    """
    remaining = iter(times)
    time = next(remaining, None)
    shown: npt.NDArray[np.uint8] | None = None
    prepared: npt.NDArray[np.uint8] | None = None
    for seconds in video:
        while time is not None and time < seconds and shown is not None:
            prepared = prepare_frame(shown, settings) if prepared is None else prepared
            yield prepared
            time = next(remaining, None)
        if time is None:
            return
        if time - seconds <= longest_gap + _ROUNDING:
            frame = video.frame()
            if frame is not None:
                shown, prepared = frame, None
    while time is not None and time < video.end and shown is not None:
        prepared = prepare_frame(shown, settings) if prepared is None else prepared
        yield prepared
        time = next(remaining, None)


def prepare_frame(frame: npt.NDArray[np.uint8], settings: ClipSettings) -> npt.NDArray[np.uint8]:
    """Resize a frame and keep its middle part.

    Args:
        frame: Frame, uint8 [H, W, 3].
        settings: Settings with the sizes.

    Returns:
        uint8 [*settings.size, 3].
    """
    top, left = ((whole - part) // 2 for whole, part in zip(settings.resize, settings.size, strict=True))
    resized = resize_image(frame, settings.resize)
    return resized[top : top + settings.size[0], left : left + settings.size[1]].copy()
