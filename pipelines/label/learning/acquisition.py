"""Which images to ask next: those whose labels tell most of the labels of the unlabelled pool.

The quantity is the expected fall of what is not known of the pool's labels, Σ_x' I(y' ; f'), where a label of
x is learned. To second order in the posterior of the functions I(y' ; f') = ½ (C - 1) h' v', of the curvature
h' of the softmax and the variance v' of a function (see `softmax_laplace`), and the label of x takes from v'
what it takes in a linear model with the noise 1 / h, so that up to the factor ½ (C - 1)

    gain(x) = h / (1 + h v) Σ_x' h' (φᵀ S φ')²

which is the variance reduction of Schein and Ungar, "Active learning for logistic regression" (2007), in the
posterior of a Gaussian process. It is large where the model is in doubt (h), where it could learn (v) and
where many images that are in doubt are alike (the sum): an odd image, however uncertain, tells of itself
alone. Without labels h is the same everywhere, and the gain is that of a design of experiments: typical and
spread out.

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
        of_interest: h', how much the variance at each image counts `[N]`, 0 or more.
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
