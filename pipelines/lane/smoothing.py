"""Probabilities of a video, smoothed over time along the optical flow.

With p_t the probability that the network gives a pixel x of frame t, Δ the seconds since the frame before,
τ a time constant, and d the optical flow from frame t back to the one before,

    p̄_t(x) = w(x) p̄_{t-1}(x + d(x)) + (1 - w(x)) p_t(x),      w(x) = c(x) exp(-Δ/τ)

an exponential average of what the network said of the same place of the world. The trust

    c(x) = exp(-|I_t(x) - I_{t-1}(x + d(x)) - b| / s) exp(-|d(x) + d'(x + d(x))|² / 2 σ²)

forgets the past where it shows something else. Its first factor compares grey levels I; b is the median of
their differences, which another exposure changes. Its second asks whether d', the flow from the frame before
to frame t, leads back to x: behind what moved away, and between different scenes, it does not. Where the mean
of c is small the frame shows another scene, and the average begins anew. Without optical flow d is 0 and c is
1, and nothing tells a cut.
"""

from dataclasses import dataclass
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.scores.pictures import Picture

_FLOW_SIDE: Final = 256  # pixels of the longer side of what the flow is computed of
_FLOW_LEAST_SIDE: Final = 48  # pixels; images of fewer than 32 rows make OpenCV 4.11 crash
_TRUST_SCALE: Final = 15.0  # s, grey levels of 255
_RETURN_SCALE: Final = 2.0  # σ, pixels of the small images
_CUT: Final = 0.5  # mean trust below which a frame shows another scene; videos have 0.7 to 0.95, cuts to 0.3

FloatMap = NDArray[np.float32]


@dataclass(frozen=True)
class _FrameBefore:
    """The frame before: p̄ `[H, W]`, its small grey image `[h, w]`, and its time in seconds."""

    probability: FloatMap
    grey: NDArray[np.uint8]
    seconds: float


class TimeSmoother:
    """Smooths the probabilities of one video, frame by frame in their order.

    Args:
        time_constant: τ in seconds; larger ones smooth more. 0 leaves the probabilities as they are.
        optical_flow: Whether the past moves along with what the frames show.

    Raises:
        ValueError: The time constant is negative.

    Example:
        >>> smooth = TimeSmoother(1.0, optical_flow=False)
        >>> frame = np.zeros((4, 4, 3), np.uint8)
        >>> first = smooth(np.ones((4, 4), np.float32), frame, seconds=0.0)
        >>> round(float(smooth(np.zeros((4, 4), np.float32), frame, seconds=1.0)[0, 0]), 3)  # exp(-1)
        0.368
    """

    def __init__(self, time_constant: float, *, optical_flow: bool) -> None:
        if time_constant < 0:
            raise ValueError(f"time_constant must be at least 0 seconds, but is {time_constant}")
        self._time_constant = time_constant
        # One flow object serves all frames: making it costs more than a frame.
        self._flow: Any = _flow_between() if optical_flow and time_constant else None
        self._past: _FrameBefore | None = None

    def __call__(self, probability: FloatMap, image: Picture, *, seconds: float) -> FloatMap:
        """Return p̄ of the next frame, float32 `[H, W]`.

        A first frame, one of another size, one that is not shown later than the one before, one after a cut,
        and one after probabilities that are no numbers begin anew.

        Args:
            probability: p of the frame, `[H, W]`.
            image: The frame, `[H, W, 3]`.
            seconds: When it is shown.
        """
        if self._time_constant == 0:
            return probability
        grey = _small_grey(image)
        past = self._past
        smoothed = probability
        if past is not None and past.probability.shape == probability.shape and seconds > past.seconds:
            earlier, trust = self._moved(past, grey) if self._flow else (past.probability, np.float32(1.0))
            if np.mean(trust) >= _CUT:
                weight = np.float32(np.exp(-(seconds - past.seconds) / self._time_constant))
                smoothed = np.clip(probability + weight * trust * (earlier - probability), 0.0, 1.0)
        self._past = _FrameBefore(smoothed, grey, seconds) if np.isfinite(smoothed).all() else None
        return smoothed

    def _moved(self, past: _FrameBefore, grey: NDArray[np.uint8]) -> tuple[FloatMap, FloatMap]:
        """Return p̄_{t-1}(x + d(x)) and c(x), `[H, W]` each."""
        flow = self._flow.calc(grey, past.grey, None)  # [h, w, 2], columns and rows
        back = self._flow.calc(past.grey, grey, None)
        height, width = past.probability.shape
        rows, columns = np.mgrid[: grey.shape[0], : grey.shape[1]].astype(np.float32)
        source = columns + flow[..., 0], rows + flow[..., 1]
        # A place outside of the frame before has no grey level there: infinitely far, hence not trusted.
        difference = grey - _sampled(past.grey.astype(np.float32), *source)
        exposure = np.median(difference)
        back_there = cv2.remap(back, *source, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        missed = np.square(flow + back_there).sum(axis=-1)
        trust = np.exp(-np.abs(difference - exposure) / _TRUST_SCALE - missed / (2 * _RETURN_SCALE**2))
        scale = np.array([width / grey.shape[1], height / grey.shape[0]], np.float32)
        flow, trust = (cv2.resize(part, (width, height)) for part in (flow * scale, trust))
        rows, columns = np.mgrid[:height, :width].astype(np.float32)
        moved = _sampled(past.probability, columns + flow[..., 0], rows + flow[..., 1])
        inside = np.isfinite(moved)
        return np.where(inside, moved, 0.0), np.where(inside, trust, 0.0)


def _small_grey(image: Picture) -> NDArray[np.uint8]:
    """Return the frame's grey levels as the flow takes them, the longer side `_FLOW_SIDE` pixels."""
    height, width = image.shape[:2]
    scale = _FLOW_SIDE / max(height, width)
    size = (max(_FLOW_LEAST_SIDE, round(width * scale)), max(_FLOW_LEAST_SIDE, round(height * scale)))
    return np.asarray(cv2.cvtColor(cv2.resize(image, size, interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2GRAY))


def _sampled(values: FloatMap, columns: FloatMap, rows: FloatMap) -> FloatMap:
    """Return values `[h, w]` at other places, interpolated linearly; infinity where these lie outside."""
    taken = cv2.remap(values, columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    outside = (rows < 0) | (rows > values.shape[0] - 1) | (columns < 0) | (columns > values.shape[1] - 1)
    return np.where(outside, np.float32(np.inf), taken)


def _flow_between() -> Any:
    """Return dense inverse search (Kroeger, Timofte, Dai and Van Gool, 2016), which runs in milliseconds."""
    return cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
