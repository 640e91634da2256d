"""The basis of the learner's Gaussian processes: features of the trunk, and a kernel of them of low rank.

The kernel is that of our heads, a linear mean and a squared exponential,

    k(x, x') = b² + l² zᵀz' + s² exp(-‖z - z'‖² / (2 (r d)²))

of z, the principal components of the standardised features of the whole pool, labelled or not, divided by
their length: how strongly a trunk answers to an image says little of its class, and images of large features
would be asked for first. d is the median distance of two images, so that l, s and r are numbers of order 1
for any trunk. The linear part has as many basis functions as components; the other is Nyström's approximation
from landmarks that k-means++ spreads over the pool (Williams and Seeger, "Using the Nyström method to speed
up kernel machines", 2001).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from sklearn.cluster import kmeans_plusplus

FloatArray = NDArray[np.float64]

COMPONENTS = 96
LANDMARKS = 128
_LOOKED_AT = 2000
"""Images that landmarks and the median distance are taken from; more of them say nothing new."""
_JITTER = 1e-6
BIAS = 1.0


class KernelScales(NamedTuple):
    """Hyperparameters of the kernel.

    Attributes:
        linear: l, standard deviation of the linear part.
        smooth: s, standard deviation of the squared exponential.
        length: r, its length in median distances.
    """

    linear: float
    smooth: float
    length: float


class PoolBasis:
    """Principal components of a pool, and basis functions of them.

    Args:
        features: Features of the pool `[N, D]`.
        seed: Seed of the landmarks.

    Attributes:
        components: z of each image `[N, P]`, of length 1.

    Raises:
        ValueError: There is no image, or a feature is not finite.
    """

    def __init__(self, features: ArrayLike, seed: int = 0) -> None:
        rows = np.asarray(features, np.float32)
        if rows.ndim != 2 or not len(rows) or not np.isfinite(rows).all():
            raise ValueError(
                "features must be finite numbers [images, features] of one image or more, but found "
                f"{np.sum(~np.isfinite(rows))} values that are not finite in the shape {list(rows.shape)}."
            )
        found = _principal_components(rows)
        self.components = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
        rng = np.random.default_rng(seed)
        some = self.components[rng.permutation(len(rows))[:_LOOKED_AT]]
        distances = _squared_distances(some[:300], some[:300])
        self._distance = max(float(np.sqrt(np.median(distances))), 1e-6)
        count = min(LANDMARKS, len(some))
        self._landmarks, _ = kmeans_plusplus(some, count, random_state=seed)
        self._squared = _squared_distances(self.components, self._landmarks)
        self._smooth: dict[float, FloatArray] = {}

    def __call__(self, scales: KernelScales) -> FloatArray:
        """Return Φ of the whole pool `[N, M]`."""
        count = len(self.components)
        linear = scales.linear * self.components
        return np.hstack(
            [np.full((count, 1), BIAS), linear, scales.smooth * self._smooth_part(scales.length)]
        )

    def similarity(self, row: int, others: NDArray[np.intp]) -> FloatArray:
        """Return the cosine similarity of an image to others `[len(others)]`."""
        return self.components[others] @ self.components[row]

    def _smooth_part(self, length: float) -> FloatArray:
        """Return basis functions of the squared exponential of variance 1 `[N, landmarks]`."""
        if length not in self._smooth:
            scale = -0.5 / (length * self._distance) ** 2
            inner = np.exp(scale * _squared_distances(self._landmarks, self._landmarks))
            inner[np.diag_indices_from(inner)] += _JITTER
            root = scipy.linalg.cholesky(inner, lower=True)
            cross = np.exp(scale * self._squared)
            self._smooth[length] = scipy.linalg.solve_triangular(root, cross.T, lower=True).T
        return self._smooth[length]


def _principal_components(rows: NDArray[np.float32]) -> FloatArray:
    """Return the leading principal components of standardised features `[N, P]`."""
    spread = rows.std(axis=0)
    standard = (rows - rows.mean(axis=0)) / np.where(spread > 1e-6, spread, 1.0)
    count = min(COMPONENTS, *rows.shape)
    if len(rows) <= rows.shape[1]:
        size = len(rows)
        values, vectors = scipy.linalg.eigh(
            (standard @ standard.T).astype(np.float64), subset_by_index=(size - count, size - 1)
        )
        found = vectors * np.sqrt(np.maximum(values, 0.0))
    else:
        size = rows.shape[1]
        _, vectors = scipy.linalg.eigh(
            (standard.T @ standard).astype(np.float64), subset_by_index=(size - count, size - 1)
        )
        found = standard @ vectors
    return np.ascontiguousarray(found[:, ::-1], np.float64)


def _squared_distances(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return squared distances `[len(left), len(right)]`."""
    products = left @ right.T
    return np.maximum(np.sum(left**2, 1)[:, None] + np.sum(right**2, 1)[None] - 2.0 * products, 0.0)
