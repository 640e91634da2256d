"""Curvature of the log-likelihood of a linear softmax model in its weights, and the posterior it implies.

The logits of a point with inputs φ `[E]` are f = Wᵀ φ, W `[E, K]`. The generalised Gauss-Newton matrix (GGN)
of the negative log-likelihood, which is its Hessian where f is linear in W as here, is

    H = Σ_n w_n Λ_n ⊗ φ_n φ_nᵀ,    Λ = diag(p) - p pᵀ    (two classes: p (1 - p), K = 1)

and the posterior under a prior N(0, I/τ) is N(Ŵ, (H + τI)⁻¹). Weights are ordered with the logit first, then
the input. With more than `MAX_FULL` weights H is approximated by the Kronecker product of G, the weighted
mean of Λ `[K, K]`, with A = Σ w_n φ_n φ_nᵀ `[E, E]`. Everything is NumPy in float64.

Source:
    Daxberger et al. (2021), Laplace Redux, section 2 and appendix B.1; the factors of the product: Ritter,
    Botev and Barber (2018), A scalable Laplace approximation for neural networks, section 3.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.optimize
import scipy.special

FloatArray = npt.NDArray[np.float64]

MAX_FULL = 1500
"""Most weights for which H is kept whole: its eigenvalues take about five seconds then."""

PRIOR_PRECISION_LIMITS = (1e-4, 1e6)
"""The prior precision that the evidence chooses lies within these."""


class Curvature:
    """Collects H over batches of points, and gives the posterior of the weights.

    Args:
        num_inputs: E, length of φ.
        num_logits: K; 1 for two classes.

    Example:
        >>> curvature = Curvature(2, 1)
        >>> curvature.add(np.eye(2), np.zeros((2, 1)), np.ones(2))
        >>> curvature.eigenvalues()
        array([0.25, 0.25])
    """

    def __init__(self, num_inputs: int, num_logits: int) -> None:
        self.num_inputs, self.num_logits = num_inputs, num_logits
        self.is_full = num_inputs * num_logits <= MAX_FULL
        size = (num_logits, num_logits, num_inputs, num_inputs) if self.is_full else (num_inputs,) * 2
        self._inputs = np.zeros(size)
        self._outputs = np.zeros((num_logits, num_logits))
        self._total = 0.0

    def add(self, inputs: FloatArray, logits: FloatArray, weights: FloatArray) -> None:
        """Add points.

        Args:
            inputs: φ, `[B, E]`.
            logits: f, `[B, K]`.
            weights: w, `[B]`.
        """
        used = weights > 0.0
        inputs, logits, weights = inputs[used], logits[used], weights[used]
        if not self.is_full:
            self._inputs += inputs.T @ (weights[:, None] * inputs)
            self._outputs += _summed_output_hessian(logits, weights)
            self._total += weights.sum()
            return
        hessian = weights[:, None, None] * output_hessian(logits)  # w Λ, [B, K, K]
        for row in range(self.num_logits):
            for column in range(row, self.num_logits):
                block = inputs.T @ (hessian[:, row, column, None] * inputs)
                self._inputs[row, column] += block
                if column > row:
                    self._inputs[column, row] += block

    def matrix(self) -> FloatArray:
        """Return H `[K E, K E]`, or the Kronecker product that stands for it."""
        if self.is_full:
            size = self.num_logits * self.num_inputs
            return self._inputs.transpose(0, 2, 1, 3).reshape(size, size)
        return np.kron(self._outputs / max(self._total, 1e-300), self._inputs)

    def eigenvalues(self) -> FloatArray:
        """Return the eigenvalues of H, none of them negative, in no order, `[K E]`."""
        return self._decomposed()[0]

    def _decomposed(self) -> tuple[FloatArray, Any]:
        """Return the eigenvalues, and the eigenvectors: of H, or of both of its factors."""
        if self.is_full:
            values, vectors = scipy.linalg.eigh(self.matrix())
            return np.maximum(values, 0.0), vectors
        of_inputs, input_vectors = scipy.linalg.eigh(self._inputs)
        of_outputs, output_vectors = scipy.linalg.eigh(self._outputs / max(self._total, 1e-300))
        values = np.multiply.outer(np.maximum(of_outputs, 0.0), np.maximum(of_inputs, 0.0))
        return values.ravel(), (output_vectors, input_vectors)

    def posterior(self, weights: FloatArray) -> tuple[FloatArray, float]:
        """Return roots of the logits' posterior covariances, and the prior precision they have.

        A softmax ignores what all logits share, and the data say nothing of it. So Σ_c is the covariance of
        the logit of class c minus the mean logit, times C/(C - 1): independent logits of these variances
        differ from their mean as the posterior's do (exactly, where all classes are alike).

        Args:
            weights: Ŵ, `[E, K]`.

        Returns:
            R `[K, E, E]` with Σ_c = R_c R_cᵀ, and the precision τ of largest evidence.
        """
        values, vectors = self._decomposed()
        precision = evidence_precision(values, float(np.sum(weights**2)))
        num_logits, num_inputs = self.num_logits, self.num_inputs
        scale = (values + precision) ** -0.5
        if self.is_full:
            root = (vectors * scale).reshape(num_logits, num_inputs, -1)  # Σ_ab = R_a R_bᵀ
            centred = _centred(root)
            return np.stack([_square_root(part @ part.T) for part in centred]), precision
        output_vectors, input_vectors = vectors
        # Σ_ij (u_i u_iᵀ) (P w_j)_c² / (λ_i μ_j + τ): one diagonal in the basis of A for each logit
        squares = _centred(output_vectors) ** 2  # [c, j]
        diagonal = squares @ (scale**2).reshape(num_logits, num_inputs)  # [c, i]
        return input_vectors * np.sqrt(diagonal)[:, None, :], precision


def output_hessian(logits: FloatArray) -> FloatArray:
    """Return Λ, the Hessian of -log p(y) in the logits, of each point.

    Args:
        logits: f, `[B, K]`; K = 1 is the one logit of two classes.

    Returns:
        `[B, K, K]`.
    """
    if logits.shape[1] == 1:
        half = 0.5 * logits[:, :, None]
        return np.asarray(0.25 / np.cosh(np.clip(half, -300.0, 300.0)) ** 2)  # σ(f) σ(-f)
    probability = scipy.special.softmax(logits, axis=1)
    return probability[:, :, None] * (np.eye(logits.shape[1]) - probability[:, None, :])


def _summed_output_hessian(logits: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Σ_n w_n Λ_n `[K, K]` without the matrix of each point, which many classes make large."""
    if logits.shape[1] == 1:
        return np.tensordot(weights, output_hessian(logits), axes=1)
    probability = scipy.special.softmax(logits, axis=1)
    return np.diag(weights @ probability) - probability.T @ (weights[:, None] * probability)


def evidence_precision(eigenvalues: FloatArray, squared_norm: float) -> float:
    """Return the prior precision τ with the largest evidence of Laplace's approximation.

    log p(D | τ) = ½ Σ log(τ/(λ_i + τ)) - ½ τ ‖Ŵ‖² + const is largest where τ ‖Ŵ‖² = Σ λ_i/(λ_i + τ). The left
    side rises in τ and the right side falls: there is one such τ, cut to `PRIOR_PRECISION_LIMITS`.

    Args:
        eigenvalues: λ of H.
        squared_norm: ‖Ŵ‖².

    Source:
        MacKay (1992), A practical Bayesian framework for backpropagation networks, eq. (22) to (24).

    Example:
        >>> round(evidence_precision(np.array([3.0]), 0.75), 6)
        1.0
    """

    def surplus(log_precision: float) -> float:
        precision = np.exp(log_precision)
        return precision * squared_norm - float(np.sum(eigenvalues / (eigenvalues + precision)))

    low, high = np.log(PRIOR_PRECISION_LIMITS)
    if surplus(low) >= 0.0:
        return PRIOR_PRECISION_LIMITS[0]
    if surplus(high) <= 0.0:
        return PRIOR_PRECISION_LIMITS[1]
    return float(np.exp(scipy.optimize.brentq(surplus, low, high, xtol=1e-10)))


def _centred(values: FloatArray) -> FloatArray:
    """Return what each logit exceeds the mean logit by, times √(C/(C - 1)); one logit stays as it is."""
    count = len(values)
    return values if count == 1 else (values - values.mean(axis=0)) * np.sqrt(count / (count - 1.0))


def _square_root(matrix: FloatArray) -> FloatArray:
    """Return R with R Rᵀ = matrix, which is positive semi-definite but for rounding."""
    values, vectors = scipy.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
