"""Images as another camera, light or channel would give them: five kinds of shift in five strengths.

The kinds are those that harm recordings without changing what they show; labels and masks stay. They follow
Hendrycks and Dietterich, "Benchmarking neural network robustness to common corruptions", 2019, in kind, with
strengths of their own for images of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.scores.pictures import Picture

STRENGTHS = (1, 2, 3, 4, 5)

_BRIGHTER = (20.0, 40.0, 60.0, 80.0, 100.0)  # grey levels
_CONTRAST = (0.75, 0.6, 0.45, 0.3, 0.2)  # of the distance from the mean
_BLUR = (0.01, 0.015, 0.02, 0.03, 0.04)  # standard deviation in heights of the image
_NOISE = (8.0, 14.0, 22.0, 32.0, 45.0)  # standard deviation, grey levels
_QUALITY = (50, 30, 18, 10, 5)  # of JPEG


@dataclass(frozen=True)
class ShiftedScores:
    """How a method did on images of one kind of shift and one strength; strength 0 is without shift.

    Attributes:
        kind: Name of the shift.
        strength: 0 to 5.
        nll: Negative log-likelihood, nats.
        ece: Expected calibration error.
        kept: Share of examples whose uncertainty is no larger than that of 90 % of the unshifted ones.
        unfamiliar: Share of examples that are flagged as unfamiliar; NaN of a method that does not say.
    """

    kind: str
    strength: int
    nll: float
    ece: float
    kept: float
    unfamiliar: float


def shifted(kind: str, images: NDArray[np.uint8], strength: int, *, seed: int = 0) -> NDArray[np.uint8]:
    """Return images with a shift.

    Args:
        kind: One of `SHIFTS`.
        images: `[..., H, W, 3]`.
        strength: 1 to 5.
        seed: Seed of noise.

    Raises:
        ValueError: The images are none, or the strength is not one of `STRENGTHS`.

    Example:
        >>> shifted("brightness", np.zeros((2, 2, 3), np.uint8), 1)[0, 0].tolist()
        [20, 20, 20]
    """
    if images.dtype != np.uint8 or images.ndim < 3 or images.shape[-1] != 3:
        raise ValueError(f"expected uint8 images [..., H, W, 3], found {images.dtype} {images.shape}")
    if strength not in STRENGTHS:
        raise ValueError(f"a strength is one of {STRENGTHS}, found {strength}")
    rng = np.random.default_rng(seed)
    flat = images.reshape(-1, *images.shape[-3:])
    return np.stack([SHIFTS[kind](image, strength - 1, rng) for image in flat]).reshape(images.shape)


def _levels(values: NDArray[np.floating[Any]]) -> Picture:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def _brighter(image: Picture, strength: int, _rng: np.random.Generator) -> Picture:
    return _levels(image.astype(np.float32) + _BRIGHTER[strength])


def _flatter(image: Picture, strength: int, _rng: np.random.Generator) -> Picture:
    mean = image.mean(axis=(0, 1), keepdims=True)
    return _levels(mean + _CONTRAST[strength] * (image - mean))


def _blurred(image: Picture, strength: int, _rng: np.random.Generator) -> Picture:
    deviation = max(0.3, _BLUR[strength] * image.shape[0])
    return np.asarray(cv2.GaussianBlur(image, (0, 0), deviation), np.uint8)


def _noisy(image: Picture, strength: int, rng: np.random.Generator) -> Picture:
    return _levels(image + rng.normal(0.0, _NOISE[strength], image.shape))


def _compressed(image: Picture, strength: int, _rng: np.random.Generator) -> Picture:
    parameters = [cv2.IMWRITE_JPEG_QUALITY, _QUALITY[strength]]
    _, encoded = cv2.imencode(".jpg", np.ascontiguousarray(image[..., ::-1]), parameters)
    return np.asarray(cv2.imdecode(encoded, cv2.IMREAD_COLOR)[..., ::-1], np.uint8)


SHIFTS: Mapping[str, Callable[[Picture, int, np.random.Generator], Picture]] = MappingProxyType(
    {
        "brightness": _brighter,
        "contrast": _flatter,
        "blur": _blurred,
        "noise": _noisy,
        "compression": _compressed,
    }
)
"""Each kind of shift by its name: changes an image `[H, W, 3]` by a strength from 0."""


def mean_over_kinds(scores: Sequence[ShiftedScores], key: str) -> list[float]:
    """Return a score at each strength from 0, averaged over the kinds of shift."""
    strengths = sorted({one.strength for one in scores})
    return [float(np.mean([getattr(one, key) for one in scores if one.strength == at])) for at in strengths]


def shift_sentences(results: Mapping[str, Sequence[ShiftedScores]]) -> list[str]:
    """Return a sentence for each method about images that are shifted most.

    Args:
        results: Scores at each kind and strength, by the method's name.
    """
    sentences = []
    for title, scores in results.items():
        nll, ece = mean_over_kinds(scores, "nll"), mean_over_kinds(scores, "ece")
        sentences.append(
            f"{title}: on the most shifted images NLL is {nll[-1]:.3f} instead of {nll[0]:.3f}, and ECE "
            f"{ece[-1]:.3f} instead of {ece[0]:.3f}."
        )
    return sentences
