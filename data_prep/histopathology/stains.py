"""Colours of stained tissue brought to a reference, by Macenko et al. (2009) or by Reinhard et al. (2001).

Pure functions of pixels. The fits return a function, for all patches of an image must be changed
alike. Worker processes use them: no TensorFlow here.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from skimage.color import lab2rgb, rgb2lab

Pixels = npt.NDArray[np.uint8]
"""Pixels, [..., 3], red, green, blue."""

Normalise = Callable[[Pixels], Pixels]
"""Function from pixels to normalised pixels of the same shape."""

REFERENCE_STAINS = np.array([[0.5626, 0.7201, 0.4062], [0.2159, 0.8012, 0.5581]])
"""Haematoxylin and eosin as directions of optical density, as in Macenko's own program."""

REFERENCE_STRENGTHS = np.array([1.9705, 1.0308])
"""99th percentiles of the two stains in the reference, as in Macenko's own program.

There they are of densities against a white of 240 and of all pixels of an image; here white is 256 and the
percentiles of an image are of its tissue, so images become darker or brighter than by that program.
"""

REFERENCE_LAB = np.array([[64.0, 32.0, -27.0], [17.0, 11.0, 12.0]])
"""Mean and standard deviation of L, a and b in tissue: what stained sections of breast and colon have."""

_SMALLEST_DENSITY = 0.15  # below, a pixel is taken for glass (Macenko et al., section 2)
_ANGLE_PERCENTILES = (1, 99)
_STRENGTH_PERCENTILE = 99
_SMALLEST_SAMPLE = 100  # pixels of tissue; with fewer nothing is fitted, and nothing changes


def optical_density(rgb: Pixels) -> npt.NDArray[np.float64]:
    """Return how much light is absorbed: -log of the transmitted share.

    Stains add up in it (Beer and Lambert). Levels are taken one higher, so that black is finite and white
    is 0.

    Args:
        rgb: uint8 [..., 3], red, green, blue.

    Returns:
        float64 [..., 3].
    """
    return -np.log((rgb.astype(np.float64) + 1) / 256)


def from_density(density: npt.NDArray[np.float64]) -> Pixels:
    """Return the pixels of an optical density; the inverse of `optical_density`.

    Args:
        density: float64 [..., 3].

    Returns:
        uint8 [..., 3], red, green, blue.
    """
    return np.clip(np.rint(256 * np.exp(-density) - 1), 0, 255).astype(np.uint8)


def find_stains(density: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Find the directions of the two stains (Macenko et al., section 2).

    In the plane of the two main directions of density, they are the extreme angles (percentiles 1 and 99).

    Args:
        density: [N, 3], optical density of pixels of tissue.

    Returns:
        [2, 3], unit vectors: haematoxylin, which absorbs more red, and eosin.

    Example:
        >>> pure = np.repeat(np.concatenate([REFERENCE_STAINS, 2 * REFERENCE_STAINS]), 100, axis=0)
        >>> np.allclose(find_stains(pure), REFERENCE_STAINS, atol=1e-3)
        True
    """
    _, directions = np.linalg.eigh(np.cov(density.T))
    plane = directions[:, [2, 1]]
    plane = plane * np.where(density.mean(axis=0) @ plane < 0, -1, 1)  # towards the data, for angles about 0
    projected = density @ plane
    angles = np.arctan2(projected[:, 1], projected[:, 0])
    extreme = np.percentile(angles, _ANGLE_PERCENTILES)
    stains = np.stack([np.cos(extreme), np.sin(extreme)], axis=1) @ plane.T
    return stains[np.argsort(-stains[:, 0])]


def fit_macenko(
    sample: Pixels,
    stains: npt.NDArray[np.float64] = REFERENCE_STAINS,
    strengths: npt.NDArray[np.float64] = REFERENCE_STRENGTHS,
) -> Normalise:
    """Fit the stains of an image, to be given the colours and strengths of a reference.

    Args:
        sample: uint8 [..., 3], pixels of the image.
        stains: [2, 3], stains of the reference.
        strengths: [2], 99th percentiles of the stains in the reference.

    Returns:
        A function from pixels of this image to normalised ones. What the two stains do not explain is lost.
    """
    found = fitted_stains(sample)
    if found is None:
        return np.copy
    own, own_strengths = found
    unmix = np.linalg.pinv(own)
    mix = (strengths / own_strengths)[:, np.newaxis] * stains
    return lambda rgb: from_density(optical_density(rgb) @ unmix @ mix)


def fitted_stains(sample: Pixels) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
    """Return directions [2, 3] and strengths [2] of the stains in pixels; None where too few are tissue.

    Args:
        sample: uint8 [..., 3], pixels of an image.
    """
    density = optical_density(sample.reshape(-1, 3))
    tissue = density[(density >= _SMALLEST_DENSITY).all(axis=1)]
    if len(tissue) < _SMALLEST_SAMPLE:
        return None
    stains = find_stains(tissue)
    amounts = tissue @ np.linalg.pinv(stains)
    strengths = np.percentile(amounts, _STRENGTH_PERCENTILE, axis=0)
    # Two stains that are hardly different, or one that is missing, would be blown up.
    return (stains, strengths) if strengths.min() > 0 and abs(stains[0] @ stains[1]) < 1 - 1e-6 else None


def fit_reinhard(sample: Pixels, reference: npt.NDArray[np.float64] = REFERENCE_LAB) -> Normalise:
    """Fit means and standard deviations of an image in CIE Lab, to be given those of a reference.

    The paper has another opponent colour space, lαβ; CIE Lab is the one in common use.

    Args:
        sample: uint8 [..., 3], pixels of tissue of the image.
        reference: [2, 3], mean and standard deviation of L, a and b.

    Returns:
        A function from pixels of this image to normalised ones.
    """
    if sample.size < 3 * _SMALLEST_SAMPLE:
        return np.copy
    own = lab_statistics(sample)
    scale = reference[1] / np.maximum(own[1], 1e-3)

    def normalise(rgb: Pixels) -> Pixels:
        lab = (rgb2lab(rgb) - own[0]) * scale + reference[0]
        return np.rint(255 * lab2rgb(np.clip(lab, (0, -127, -127), (100, 127, 127)))).astype(np.uint8)

    return normalise


def lab_statistics(sample: Pixels) -> npt.NDArray[np.float64]:
    """Return mean and standard deviation of pixels in CIE Lab, [2, 3].

    Args:
        sample: uint8 [..., 3], pixels of an image.
    """
    lab = rgb2lab(sample.reshape(-1, 1, 3))[:, 0]
    return np.stack([lab.mean(axis=0), lab.std(axis=0)])
