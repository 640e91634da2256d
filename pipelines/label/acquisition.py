"""Which images to ask next: those whose labels tell most of the labels of the unlabelled pool.

The quantity is the expected fall of the variance of the functions at the pool's images, which counts the more
the likelier the model is wrong there. A label of x takes from the variance v' of a function at x' what it
takes in a linear model with the noise 1 / h, of the curvature h of the softmax (see `softmax_laplace`), so
that

    gain(x) = h / (1 + h v) Σ_x' e' (φᵀ S φ')²,    e' = 1 - max_c p(c | x')

which is the variance reduction of Schein and Ungar, "Active learning for logistic regression" (2007), in the
posterior of a Gaussian process. With h' in place of e' it is to second order the fall of the information Σ_x'
I(y' ; f') = ½ (C - 1) Σ_x' h' v' that functions and labels share; e' sees the variance v' as well as the
mean, and needed fewer labels (docs/results/labelling.md). The gain is large where the model is in doubt (h),
where it could learn (v) and where many images that it may be wrong about are alike (the sum): an odd image,
however uncertain, tells of itself alone. Without labels h and e' are the same everywhere, and the gain is
that of a design of experiments: typical and spread out.

Several images are chosen one after another, each as if the earlier ones were labelled (S falls by rank one),
and of different groups: so they differ from each other and from what is labelled already.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


def choose_informative(
    basis: FloatArray,
    curvature: FloatArray,
    covariance: FloatArray,
    of_interest: FloatArray,
    *,
    allowed: NDArray[np.bool_],
    group: IntArray,
    count: int,
) -> IntArray:
    """Return rows of largest gain, each as if the earlier ones were labelled, `[<= count]`.

    Args:
        basis: Φ of the pool `[N, M]`.
        curvature: h of each image `[N]`.
        covariance: S `[M, M]`.
        of_interest: e', how much the variance at each image counts `[N]`, 0 or more.
        allowed: Which images may be chosen `[N]`.
        group: Number of the group of each image `[N]`; no second one of a group while there are others.
        count: How many.
    """
    weighted = np.sqrt(of_interest)[:, None] * basis
    interest = weighted.T @ weighted
    seen = basis @ covariance
    variance = np.einsum("nm,nm->n", seen, basis)
    total = np.einsum("nm,nm->n", seen @ interest, seen)
    free, fresh = allowed.copy(), allowed.copy()
    chosen: list[int] = []
    covariance = covariance.copy()
    while len(chosen) < count and free.any():
        gain = curvature * total / (1.0 + curvature * variance)
        among = fresh if fresh.any() else free
        row = int(np.argmax(np.where(among, gain, -np.inf)))
        chosen.append(row)
        free[row] = False
        fresh &= free & (group != group[row])
        # S falls by u uᵀ, u = S φ sqrt(h / (1 + h v)); what it is multiplied with falls by rank one too.
        column = covariance @ basis[row] * np.sqrt(curvature[row] / (1.0 + curvature[row] * variance[row]))
        along = basis @ column
        inner = interest @ column
        total += along**2 * float(column @ inner) - 2.0 * along * (basis @ (covariance @ inner))
        variance -= along**2
        covariance -= np.outer(column, column)
    return np.array(chosen, np.intp)
