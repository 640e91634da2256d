"""The direction in which lines run at every pixel of an image, from a bank of Gabor filters.

Directions are angles in degrees from the axis of columns towards the axis of rows, in [0, 180): a line along
a row has 0, one down the image 90, one from the upper left to the lower right lies between.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import scipy.fft
from numpy.typing import NDArray

NUM_ORIENTATIONS: Final = 36
"""Orientations of the Gabor filters, 5° apart."""

_WAVELENGTHS: Final = (4.0, 5.7, 8.0, 11.3, 16.0)  # pixels of the working image, one a scale
_OCTAVES: Final = 2.2  # the constant c of the filters: bandwidth of 1.7 octaves, about
_PADDING: Final = 16  # pixels, mirrored, so that filters do not see the image's frame
_FLAT_ENERGY: Final = 1e-3  # added to the strongest energy (grey levels squared): noise on flat areas is none


@dataclass(frozen=True)
class OrientationField:
    """The dominant direction of lines at every pixel.

    Attributes:
        angle: float32 [h, w], degrees in [0, 180).
        confidence: float32 [h, w], from 0 (any direction would do) to 1.
    """

    angle: NDArray[np.float32]
    confidence: NDArray[np.float32]


def gabor_orientations(grey: NDArray[np.float32]) -> OrientationField:
    """Return the direction and confidence from Gabor filters of 36 orientations and 5 scales.

    The energy of an orientation is |image * ψ|², averaged over the scales; the direction is that of the
    strongest energy, r_1 ≥ ... ≥ r_36, and the confidence is 1 - mean(r_5, ..., r_15) / r_1, scaled over the
    image to [0, 1]. A parabola through the strongest energy and its two neighbours places the direction
    between the filters, which is an addition of ours: the paper keeps steps of 5°.

    Args:
        grey: float32 [h, w], grey levels from 0 to 255.

    Source:
        Kong, Audibert and Ponce (2009), Vanishing point detection for road detection, section 2.

    Example:
        >>> stripes = np.tile(np.sin(np.arange(64, dtype=np.float32)), (64, 1)) * 100
        >>> round(float(gabor_orientations(stripes).angle[32, 32]))
        90
    """
    energy = _gabor_energy(grey)  # [36, h, w]
    strongest = energy.argmax(axis=0)
    ordered = np.sort(energy, axis=0)[::-1]
    confidence = 1 - ordered[4:15].mean(axis=0) / (ordered[0] + _FLAT_ENERGY)
    confidence = np.where(ordered[0] > _FLAT_ENERGY, confidence, 0)
    steps = strongest + _peak_offset(energy, strongest)
    angle = np.mod(steps * (180 / NUM_ORIENTATIONS), 180)
    return OrientationField(angle.astype(np.float32), _stretched(confidence))


def _gabor_energy(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the energy of every orientation, averaged over the scales, float32 [36, h, w]."""
    padded = np.pad(grey - grey.mean(), _PADDING, mode="symmetric")
    height, width = (scipy.fft.next_fast_len(side) for side in padded.shape)
    spectrum = scipy.fft.fft2(padded.astype(np.float32), s=(height, width), workers=1)
    rows = slice(_PADDING, _PADDING + grey.shape[0])
    columns = slice(_PADDING, _PADDING + grey.shape[1])
    energy = np.zeros((NUM_ORIENTATIONS, *grey.shape), np.float32)
    for filters in _gabor_spectra(height, width):  # one scale after the other: [36, height, width]
        response = scipy.fft.ifft2(filters * spectrum, overwrite_x=True, workers=1)[:, rows, columns]
        energy += response.real**2 + response.imag**2
    return energy / len(_WAVELENGTHS)


@lru_cache(maxsize=2)
def _gabor_spectra(height: int, width: int) -> tuple[NDArray[np.float32], ...]:
    """Return the Fourier transforms of the filters, real, float32 [36, height, width] for each scale.

    The filter of wave number ω and direction φ is, with a along the wave and b across it,

        ψ(x, y) = ω / (√(2π) c) exp(-ω² (4a² + b²) / (8c²)) (exp(iaω) - exp(-c²/2)),

    whose transform is, with frequencies u along and v across the wave,

        exp(-½ c²/ω² ((u - ω)² + 4v²)) - exp(-½ c² - ½ c²/ω² (u² + 4v²))

    times a gain in proportion to 1/ω, which is 1 here for the shortest wave.
    """
    u = np.float32(2 * np.pi) * scipy.fft.fftfreq(width).astype(np.float32)
    v = np.float32(2 * np.pi) * scipy.fft.fftfreq(height).astype(np.float32)
    # The wave of a line at θ runs at right angles to the line.
    wave = np.deg2rad(np.arange(NUM_ORIENTATIONS) * 180 / NUM_ORIENTATIONS + 90).astype(np.float32)
    cosine, sine = np.cos(wave)[:, None, None], np.sin(wave)[:, None, None]
    along = cosine * u + sine * v[:, None]  # [36, height, width]
    across = cosine * v[:, None] - sine * u
    spectra = []
    for wavelength in _WAVELENGTHS:
        omega = 2 * np.pi / wavelength
        spread = 0.5 * (_OCTAVES / omega) ** 2
        wave_packet = np.exp(-spread * ((along - omega) ** 2 + 4 * across**2))
        no_mean = np.exp(-0.5 * _OCTAVES**2 - spread * (along**2 + 4 * across**2))
        gain = wavelength / min(_WAVELENGTHS)
        spectra.append((gain * (wave_packet - no_mean)).astype(np.float32))
    return tuple(spectra)


def _peak_offset(energy: NDArray[np.float32], strongest: NDArray[np.intp]) -> NDArray[np.float32]:
    """Return how far the top of a parabola lies from the strongest of its steps, [-0.5, 0.5], [h, w]."""

    def at(step: int) -> NDArray[np.float32]:
        index = (strongest + step) % NUM_ORIENTATIONS
        return np.take_along_axis(energy, index[None], axis=0)[0]

    before, peak, after = at(-1), at(0), at(1)
    curvature = 2 * peak - before - after
    offset = np.divide(after - before, 2 * curvature, out=np.zeros_like(peak), where=curvature > 1e-6)
    return np.clip(offset, -0.5, 0.5)


def _stretched(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return values scaled from their range to [0, 1]; zeros if they are all equal."""
    lowest, highest = float(values.min()), float(values.max())
    if highest - lowest < 1e-6:
        return np.zeros(values.shape, np.float32)
    return ((values - lowest) / (highest - lowest)).astype(np.float32)
