"""q(w) of a logistic or softmax layer: a Gaussian at its weights, by its rows and its penalty.

A layer with logits f = Wᵀφ + b and the penalty ½ λ |W|² is the mode of a posterior. Among Gaussians at that
mode the one closest to the posterior (least KL divergence) has the precision

    S⁻¹ = λ I + Σ_n ω_n E_q[Λ_n] ⊗ φ_n φ_nᵀ,    Λ = diag(p) - p pᵀ    (two classes: p (1 - p))

whose curvature is averaged over q itself: S is the fixed point. Laplace's approximation has Λ at the mode,
where rows that the layer tells apart hardly bend the likelihood: on nearly separable rows it takes the
weights for far more uncertain than they are.

For two classes S is exact. b has no penalty; what the layer says at x̄, the mean of φ weighed by the
curvature, is independent of W and has the variance one over the sum of the curvatures. For C classes the sum
over the rows is replaced by the Kronecker product of G = Σ_n ω_n E[Λ_n] with A, the mean of φφᵀ about x̄
weighed by the trace of E[Λ_n]. A softmax ignores what all logits share, so that v is the variance of a logit
less the mean logit, times C/(C - 1), as independent logits have it.

Where a linear layer separates the rows, all of v makes it less sure than held-out rows ask for. So v is
multiplied by a share κ that these choose, 0 among the choices: see `gpmodels.heads.linear_layer`.

Source: Opper and Archambeau, The variational Gaussian approximation revisited, Neural Computation 21, 2009,
(9) and (10), with the mean held; MacKay, The evidence framework applied to classification networks, Neural
Computation 4, 1992, (10); Monahan and Stefanski, Normal scale mixture approximations to F*(z), 1989, for the
logistic function as a mixture of probits; Daxberger et al., Laplace Redux, NeurIPS 2021, for the product.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.special

from gpmodels.units.weight_posterior import WeightCovariance

FloatArray = npt.NDArray[np.floating[Any]]

MOST_ROUNDS = 50
TOLERANCE = 0.01
"""The fixed point is found where the logarithm of v changes by less at every row."""

LEAST_LEFT = 0.05
"""Least part of a row's precision that is left without the row."""

LEAST_CURVATURE = 1e-8
"""Floor of a row's curvature, so that rows that a layer is sure of leave v finite."""

_SHARES = np.array(
    [
        *(0.003246343272134, 0.051517477033972, 0.195077912673858, 0.315569823632818),
        *(0.274149576158423, 0.131076880695470, 0.027912418727972, 0.001449567805354),
    ]
)
_SLOPES = np.array(
    [
        *(1.365340806296348, 1.059523971016916, 0.830791313765644, 0.650732166639391),
        *(0.508135425366489, 0.396313345166341, 0.308904252267995, 0.238212616409306),
    ]
)
"""1/(1 + exp(-z)) is Σ_k shares_k Φ(slopes_k z) to 2e-9."""


def layer_covariance(
    x: FloatArray, weight: FloatArray, logits: FloatArray, penalty: float
) -> WeightCovariance:
    """Return the covariance of q(w) of a layer.

    Args:
        x: Standardised inputs that the layer was fitted to, `[N, D]`.
        weight: ω, how often each row counts, `[N]`.
        logits: f of the layer at the rows, `[N, K]`; K = 1 is the one logit of two classes.
        penalty: λ.

    Example:
        >>> x = np.linspace(-2.0, 2.0, 50)[:, None]
        >>> covariance = layer_covariance(x, np.ones(50), 2.0 * x, 1.0)
        >>> near, far = covariance.of(np.array([[0.0], [10.0]]))[:, 0]
        >>> bool(near < 0.5 < 10.0 < far)
        True
    """
    # Rows of more columns than rows are turned into as many columns as rows, which a penalty does not see.
    axes = None
    if x.shape[1] > x.shape[0]:
        left, singular, right = np.linalg.svd(x, full_matrices=False)
        x, axes = left * singular, right.T
    step = _of_two_classes if logits.shape[1] == 1 else _of_classes
    found = step(x, weight, logits, np.zeros_like(logits), penalty)
    variance = found.of(x)
    for _ in range(MOST_ROUNDS):
        found = step(x, weight, logits, variance, penalty)
        change = np.log(found.of(x) / variance)
        if np.max(np.abs(change)) < TOLERANCE:
            break
        variance = variance * np.exp(0.5 * change)  # a larger v has a larger curvature: whole steps swing
    if axes is None:
        return found
    centre = axes @ found.centre
    return found._replace(centre=centre, scale=np.ones(len(centre)), axes=axes @ found.axes)


def left_out_variance(
    covariance: WeightCovariance, x: FloatArray, weight: FloatArray, logits: FloatArray
) -> FloatArray:
    """Return v at the rows of the layer without each row's own part of the precision, `[N, K]`.

    Args:
        covariance: Of the layer.
        x: Its rows, `[N, D]`.
        weight: ω, `[N]`.
        logits: f of the layer at the rows, `[N, K]`.
    """
    variance = covariance.of(x)
    curvature = weight[:, None] * np.diagonal(mean_curvature(logits, variance), axis1=1, axis2=2)
    without = variance / np.maximum(1.0 - curvature * variance, LEAST_LEFT)
    prior = np.sum(((x - covariance.centre) / covariance.scale) ** 2, axis=1)[:, None] * covariance.rest
    return np.asarray(np.minimum(without, np.maximum(prior + covariance.offset, variance)))


def mean_curvature(logits: FloatArray, variance: FloatArray) -> FloatArray:
    """Return E[Λ] where the logits are N(f, v), `[N, K, K]`.

    That of one logit is exact. Of more, ∂E[p_c]/∂f_c' with E[p] at f/√(1 + π v/8), made symmetric.

    Args:
        logits: f, `[N, K]`.
        variance: v, `[N, K]`.

    Example:
        >>> mean_curvature(np.zeros([1, 1]), np.zeros([1, 1])).round(6)
        array([[[0.25]]])
    """
    if logits.shape[1] == 1:
        spread = np.sqrt(1.0 + variance * _SLOPES**2)  # [N, k]
        density = np.exp(-0.5 * (logits * _SLOPES / spread) ** 2) / np.sqrt(2.0 * np.pi)
        return np.asarray(np.sum(_SHARES * _SLOPES / spread * density, axis=1)[:, None, None])
    spread = np.sqrt(1.0 + np.pi / 8.0 * variance)
    p = scipy.special.softmax(logits / spread, axis=1)
    curvature = p[:, :, None] * (np.eye(logits.shape[1]) - p[:, None, :])
    return np.asarray(curvature / np.sqrt(spread[:, :, None] * spread[:, None, :]))


def _of_two_classes(
    x: FloatArray, weight: FloatArray, logits: FloatArray, variance: FloatArray, penalty: float
) -> WeightCovariance:
    """Return the covariance by the curvature that N(f, v) has on average."""
    curvature = np.maximum(weight * mean_curvature(logits, variance)[:, 0, 0], LEAST_CURVATURE)
    total = curvature.sum()
    centre = curvature @ x / total
    centred = x - centre
    values, axes = scipy.linalg.eigh((centred * curvature[:, None]).T @ centred)
    of_axes = 1.0 / (np.maximum(values, 0.0) + penalty)
    return WeightCovariance(
        centre, np.ones(len(centre)), axes, of_axes[None], np.array([1.0 / penalty]), np.array([1.0 / total])
    )


def _of_classes(
    x: FloatArray, weight: FloatArray, logits: FloatArray, variance: FloatArray, penalty: float
) -> WeightCovariance:
    """Return the covariance by the Kronecker product of the curvature that N(f, diag(v)) has on average."""
    classes = logits.shape[1]
    curvature = mean_curvature(logits, variance)
    between = np.tensordot(weight, curvature, axes=1)  # G
    rows = np.maximum(weight * np.trace(curvature, axis1=1, axis2=2), LEAST_CURVATURE)
    centre = rows @ x / rows.sum()
    centred = x - centre
    inner, axes = scipy.linalg.eigh((centred * rows[:, None]).T @ centred / rows.sum())  # of A
    outer, turned = scipy.linalg.eigh(between)
    share = (turned - turned.mean(axis=0)) ** 2 * classes / (classes - 1.0)  # of each logit less the mean
    outer = np.maximum(outer, LEAST_CURVATURE)
    of_axes = share @ (1.0 / (np.multiply.outer(outer, np.maximum(inner, 0.0)) + penalty))
    known = np.arange(classes) > 0  # the eigenvalue of what all logits share is the least
    offset = share[:, known] @ (1.0 / outer[known])
    return WeightCovariance(
        centre, np.ones(len(centre)), axes, of_axes, np.full(classes, 1.0 / penalty), offset
    )
