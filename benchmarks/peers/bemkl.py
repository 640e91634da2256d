"""BEMKL, Bayesian efficient multiple kernel learning of two classes (Gönen, 2012).

    λ_i ~ Gamma   a_i ~ N(0, 1/λ_i)                       one weight for each training row
    g_mi ~ N(aᵀk_mi, σ_g²)                                the intermediate outputs, one for each kernel m
    γ, ω_m ~ Gamma   b ~ N(0, 1/γ)   e_m ~ N(0, 1/ω_m)    bias and kernel weights
    f_i ~ N(eᵀg_i + b, 1)   y_i f_i > margin              the discriminant, kept out of the margin

All conditionals are conjugate; the posterior is the product of the factors' mean-field updates, each repeated
in turn. The factors of (b, e) are joint.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from benchmarks.peers.base import Array, check_count
from benchmarks.peers.mean_field import gamma_mean, truncated_mean
from benchmarks.peers.multiple_kernels import MultipleKernelClassifier


@dataclass(kw_only=True, repr=False, eq=False)
class BEMKLClassifier(MultipleKernelClassifier):
    """Bayesian multiple kernel learning with a weight for each view.

    Args:
        views: Columns of each view, as of `gpmodels.DFGPClassifier`.
        margin: Half the width of the region that the discriminant keeps out of.
        intermediate_deviation: σ_g.
        max_iterations: Rounds of updates.
        random_state: Seed of the sample behind the lengthscales.

    Attributes:
        classes_: Labels, sorted.
        kernel_weights_: E[e_m], `[views]`.
        n_iter_: Rounds made.

    Source:
        Gönen (2012), Bayesian efficient multiple kernel learning, section 3.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(60, 2))
        >>> model = BEMKLClassifier(views=[[0], [1]], random_state=0).fit(X, X[:, 0] > 0)
        >>> bool(model.score(X, X[:, 0] > 0) > 0.9)
        True
    """

    margin: float = 1.0
    intermediate_deviation: float = 0.1
    max_iterations: int = 200

    def _train(self, kernels: Array, y: Array) -> None:
        check_count("max_iterations", self.max_iterations, least=1)
        if not self.margin >= 0.0:
            raise ValueError(f"margin must not be negative, but is {self.margin!r}.")
        if not self.intermediate_deviation > 0.0:
            raise ValueError(
                f"intermediate_deviation must be positive, but is {self.intermediate_deviation!r}."
            )
        num_kernels, size, _ = kernels.shape
        precision = 1.0 / self.intermediate_deviation**2
        gram = np.einsum("mij,mkj->ik", kernels, kernels)  # Σ_m K_m K_mᵀ
        a_mean, a_covariance = np.zeros(size), np.eye(size)
        be_mean, be_covariance = np.r_[0.0, np.ones(num_kernels)], np.eye(num_kernels + 1)
        f = y * (1.0 + self.margin)
        g = np.tile(f / num_kernels, (num_kernels, 1))
        for _ in range(self.max_iterations):
            # q(λ), then q(a): (diag E[λ] + Σ K Kᵀ/σ_g²)⁻¹
            expected = gamma_mean(a_mean**2 + np.diag(a_covariance))
            a_covariance = np.linalg.inv(np.diag(expected) + precision * gram)
            a_mean = precision * a_covariance @ np.einsum("mij,mj->i", kernels, g)
            # q(g): all rows have one covariance
            b, e = be_mean[0], be_mean[1:]
            e_squares = np.outer(e, e) + be_covariance[1:, 1:]
            g_covariance = np.linalg.inv(precision * np.eye(num_kernels) + e_squares)
            shift = (b * e + be_covariance[1:, 0])[:, None]
            g = g_covariance @ (precision * np.einsum("mij,i->mj", kernels, a_mean) + np.outer(e, f) - shift)
            # q(γ), q(ω), then q(b, e)
            expected = gamma_mean(be_mean**2 + np.diag(be_covariance))
            design = np.vstack([np.ones(size), g])
            second = design @ design.T
            second[1:, 1:] += size * g_covariance
            be_covariance = np.linalg.inv(np.diag(expected) + second)
            be_mean = be_covariance @ design @ f
            # q(f): normal beyond the margin
            f = truncated_mean(be_mean @ design, y, self.margin)
        self._a, self._be = (a_mean, a_covariance), (be_mean, be_covariance)
        self.kernel_weights_ = be_mean[1:]
        self.n_iter_ = self.max_iterations

    def _decide(self, kernels: Array) -> Array:
        """Return Φ beyond the margin on either side, over the sum of both, `[n, 2]`.

        The uncertainty of g itself is left out of f's variance, as in the paper.
        """
        be_mean, be_covariance = self._be
        g = kernels @ self._a[0]
        design = np.vstack([np.ones(g.shape[1]), g])
        mean = be_mean @ design
        deviation = np.sqrt(1.0 + np.einsum("kn,kl,ln->n", design, be_covariance, design))
        log_sides = special.log_ndtr(
            np.stack([-mean - self.margin, mean - self.margin], axis=1) / deviation[:, None]
        )
        return special.softmax(log_sides, axis=1)
