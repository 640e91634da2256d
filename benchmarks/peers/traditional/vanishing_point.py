"""The vanishing point of a lane by locally adaptive soft voting."""

from functools import lru_cache
from typing import Final

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from benchmarks.peers.traditional.orientations import OrientationField
from benchmarks.peers.traditional.result import Point

_CONFIDENT: Final = 0.3  # pixels below it do not vote
_RADIUS: Final = 0.35  # of the half-disc of voters below a candidate, in diagonals of the image
_CANDIDATE_ROWS: Final = 0.9  # share of the rows, from the top, that hold candidates
_NUM_BINS: Final = 72  # directions of voters are rounded to 2.5°


def vanishing_point(field: OrientationField) -> Point:
    """Return row and column of the vanishing point, pixels of the field.

    Candidates are the pixels of the upper nine tenths of the image. Where nothing votes, as in an image of
    one colour, the middle of a row at two fifths of the height is returned.

    Args:
        field: Direction and confidence of lines, [h, w] each.

    Source:
        Kong, Audibert and Ponce (2009), Vanishing point detection for road detection, section 3.

    Example:
        >>> flat = np.zeros((50, 81), np.float32)
        >>> vanishing_point(OrientationField(flat, flat))
        (20.0, 40.0)
    """
    votes = soft_votes(field)
    height, width = votes.shape
    candidates = votes[: max(1, round(_CANDIDATE_ROWS * height))]
    if candidates.max() <= 0:
        return 0.4 * height, (width - 1) / 2
    row, column = np.unravel_index(int(candidates.argmax()), candidates.shape)
    return float(row), float(column)


def soft_votes(field: OrientationField) -> NDArray[np.float32]:
    """Return how many votes every pixel receives as a vanishing point, float32 [h, w].

    A confident pixel P votes for V if P lies below V, not farther than 0.35 diagonals of the image; d is
    their distance in diagonals and γ the angle in degrees between the line PV and the direction at P:

        vote(P, V) = 1 / (1 + (γ d)²)   if γ ≤ 5 / (1 + 2d),   else 0.

    The vote depends on V - P and the direction alone, so all votes are one sum of correlations over the
    directions, computed by Fourier transforms. Votes are weighted by the confidence, and directions rounded
    to 2.5°, which are choices of ours.

    Args:
        field: Direction and confidence of lines, [h, w] each.

    Source:
        Kong, Audibert and Ponce (2009), Vanishing point detection for road detection, equation for the
        locally adaptive soft votes.
    """
    height, width = field.angle.shape
    weight = np.where(field.confidence > _CONFIDENT, field.confidence, 0)
    bins = np.round(field.angle * (_NUM_BINS / 180)).astype(int) % _NUM_BINS
    kernels, shape = _vote_spectra(height, width)
    total = np.zeros(kernels.shape[1:], np.complex64)
    for index in range(_NUM_BINS):
        voters = np.where(bins == index, weight, 0).astype(np.float32)
        total += scipy.fft.rfft2(voters, s=shape, workers=1) * kernels[index]
    votes = scipy.fft.irfft2(total, s=shape, workers=1)[:height, :width]
    # Rounding of the transforms leaves traces where nothing votes.
    return np.where(votes > 1e-3, votes, 0).astype(np.float32)


@lru_cache(maxsize=2)
def _vote_spectra(height: int, width: int) -> tuple[NDArray[np.complex64], tuple[int, int]]:
    """Return conjugate transforms of the votes by offset from V to P, [72, ...], and the padded size."""
    diagonal = float(np.hypot(height, width))
    radius = int(_RADIUS * diagonal)
    down, across = np.mgrid[1 : radius + 1, -radius : radius + 1].astype(np.float32)
    distance = np.hypot(down, across) / diagonal
    line = np.rad2deg(np.arctan2(down, across))  # in (0, 180)
    shape = (
        scipy.fft.next_fast_len(height + radius + 1, real=True),
        scipy.fft.next_fast_len(width + 2 * radius + 1, real=True),
    )
    kernels = []
    for index in range(_NUM_BINS):
        deviation = np.abs(line - index * 180 / _NUM_BINS)
        deviation = np.minimum(deviation, 180 - deviation)
        agrees = (deviation <= 5 / (1 + 2 * distance)) & (distance <= _RADIUS)
        kernel = np.zeros(shape, np.float32)
        kernel[1 : radius + 1, : 2 * radius + 1] = np.where(agrees, 1 / (1 + (deviation * distance) ** 2), 0)
        kernel = np.roll(kernel, -radius, axis=1)  # offsets to the left wrap round
        kernels.append(np.conj(scipy.fft.rfft2(kernel, workers=1)).astype(np.complex64))
    return np.stack(kernels), shape
