"""Where inducing points, gates and lengthscales start: k-means on a sample of the features.

Thesis algorithm 4 only says "initialise"; k-means is the choice here. Features are standardised for the
clustering alone, so that a feature with a large range does not decide it by itself.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

NEGLIGIBLE_DISTANCE = 1e-3
"""Standardised features nearer than this are copies; so small a lengthscale would leave float32's range."""


def cluster_centres(
    points: npt.NDArray[np.floating[Any]], count: int, rng: np.random.Generator
) -> npt.NDArray[np.floating[Any]]:
    """Return `count` distinct k-means centres of `points [N, D]`, `[count, D]`.

    Fewer distinct points than centres are made up by slightly shifted copies, since coincident inducing
    inputs would make their covariance singular.
    """
    distinct = np.unique(points, axis=0)
    if len(distinct) > count:
        seed = int(rng.integers(2**31 - 1))
        return _fitted(KMeans(count, n_init=1, max_iter=50, random_state=seed), points).cluster_centers_
    spread = distinct.std(axis=0).mean() or 1.0
    copies = distinct[rng.integers(len(distinct), size=count - len(distinct))]
    return np.concatenate([distinct, copies + 0.05 * spread * rng.standard_normal(copies.shape)])


def split_into_regions(
    points: npt.NDArray[np.floating[Any]], num_regions: int, rng: np.random.Generator
) -> npt.NDArray[np.floating[Any]]:
    """Return the region of each point, `[N]` integers below `num_regions`, by k-means.

    With fewer distinct points than regions, the last regions stay empty.
    """
    seed = int(rng.integers(2**31 - 1))
    num_regions = min(num_regions, len(np.unique(points, axis=0)))
    return _fitted(KMeans(num_regions, n_init=3, max_iter=100, random_state=seed), points).labels_


def _fitted(clustering: KMeans, points: npt.NDArray[np.floating[Any]]) -> KMeans:
    """Fit on one thread: with several, the order of sums and so the last digits differ from call to call."""
    with threadpool_limits(1, "openmp"):
        return clustering.fit(points)


def median_distance(points: npt.NDArray[np.floating[Any]], rng: np.random.Generator) -> float:
    """Return the median distance of distinct pairs of `points [N, D]` (at most 1000), 1 if most coincide.

    Features of the points should vary by about one, as standardised ones do: what is nearer than
    `NEGLIGIBLE_DISTANCE` coincides, since copies of an image differ by rounding.
    """
    sample = points[rng.permutation(len(points))[:1000]]
    norms = (sample**2).sum(axis=1)
    squared = np.maximum(norms[:, None] + norms - 2.0 * sample @ sample.T, 0.0)
    distances = np.sqrt(squared[np.triu_indices(len(sample), k=1)])
    median = float(np.median(distances)) if distances.size else 0.0
    return median if median > NEGLIGIBLE_DISTANCE else 1.0


def place_global(
    features: npt.NDArray[np.floating[Any]], num_inducing: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.floating[Any]]]:
    """Return the inducing inputs `[1, M, D]` and lengthscales `[1, D]` of the global unit.

    Args:
        features: Sample of feature vectors, `[N, D]`.
        num_inducing: M.
        rng: Source of randomness.

    Example:
        >>> place_global(np.eye(3), 2, np.random.default_rng(0))[0].shape
        (1, 2, 3)
    """
    scale = column_scales(features)
    scaled = features / scale
    centres = cluster_centres(scaled, num_inducing, rng)
    return (centres * scale)[None], (median_distance(scaled, rng) * scale)[None]


def place_experts(
    features: npt.NDArray[np.floating[Any]], num_experts: int, num_inducing: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.floating[Any]]]:
    """Return the inducing inputs `[T, M, D]` and lengthscales `[T, D]` of the experts, one region each."""
    scale = column_scales(features)
    scaled = features / scale
    region = split_into_regions(scaled, num_experts, rng)
    members = [scaled[region == k] for k in range(num_experts)]
    # An empty region (fewer distinct points than experts) starts from everything, to be dropped if unused.
    members = [points if len(points) else scaled for points in members]
    inducing = np.stack([cluster_centres(points, num_inducing, rng) for points in members])
    lengthscales = np.stack([median_distance(points, rng) * scale for points in members])
    return inducing * scale, lengthscales


def column_scales(features: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.floating[Any]]:
    """Return each feature's standard deviation; constant ones get the largest, or 1 if all are constant.

    Example:
        >>> column_scales(np.array([[1.0, 5.0], [3.0, 5.0]])).tolist()
        [1.0, 1.0]
    """
    deviation = features.std(axis=0)
    largest = deviation.max() if deviation.max() > 0.0 else 1.0
    return np.where(deviation > 1e-3 * largest, deviation, largest)
