"""Slow NumPy twins of the formulas, written from the thesis with loops; they share nothing with gpmodels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import integrate, special, stats

PROFILES: dict[str, Callable[[float], float]] = {
    "squared_exponential": lambda r: math.exp(-(r**2) / 2),
    "matern12": lambda r: math.exp(-r),
    "matern32": lambda r: (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r),
    "matern52": lambda r: (1 + math.sqrt(5) * r + 5 * r**2 / 3) * math.exp(-math.sqrt(5) * r),
}


@dataclass(frozen=True)
class Unit:
    """A sparse GP with `u = L v`, `v ~ N(m, L_S L_Sᵀ)`, `L Lᵀ = κ(U, U) + jitter I`."""

    kernel: str
    inducing: np.ndarray  # [M, D]
    lengthscales: np.ndarray  # [D]
    variance: float
    q_mean: np.ndarray  # [M]
    q_sqrt: np.ndarray  # [M, M]
    jitter: float

    def covariance(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """κ(a_i, b_j), one pair at a time."""
        result = np.empty((len(a), len(b)))
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                r = math.sqrt(
                    sum(((p - q) / scale) ** 2 for p, q, scale in zip(x, y, self.lengthscales, strict=True))
                )
                result[i, j] = self.variance * PROFILES[self.kernel](r)
        return result

    @property
    def inducing_covariance(self) -> np.ndarray:
        return self.covariance(self.inducing, self.inducing) + self.jitter * np.eye(len(self.inducing))

    def weights(self, x: np.ndarray) -> np.ndarray:
        """a = K⁻¹ k(U, x), `[M]`."""
        return np.linalg.solve(self.inducing_covariance, self.covariance(self.inducing, x[None])[:, 0])

    def posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean m and covariance S of the inducing values themselves, not whitened."""
        chol = np.linalg.cholesky(self.inducing_covariance)
        root = chol @ self.q_sqrt
        return chol @ self.q_mean, root @ root.T

    def kl(self) -> float:
        """KL(N(m, S) ‖ N(0, K)) of the inducing values."""
        mean, covariance = self.posterior()
        prior = self.inducing_covariance
        trace = np.trace(np.linalg.solve(prior, covariance))
        log_dets = np.linalg.slogdet(prior)[1] - np.linalg.slogdet(covariance)[1]
        return 0.5 * (trace + mean @ np.linalg.solve(prior, mean) - len(mean) + log_dets)


def global_marginal(unit: Unit, x: np.ndarray) -> tuple[float, float]:
    """Thesis (4.18): a_0ᵀm_0 and κ_0(x, x) + a_0ᵀ(S_0 - K_00)a_0."""
    a = unit.weights(x)
    mean, covariance = unit.posterior()
    return a @ mean, unit.variance + a @ (covariance - unit.inducing_covariance) @ a


def expert_marginal(
    shared: Unit, expert: Unit, x: np.ndarray, *, expert_variance: str
) -> tuple[float, float]:
    """Thesis (4.19); "full" adds κ_0(x, x) - k_0ᵀK_00⁻¹k_0."""
    local_mean, local_variance = global_marginal(expert, x)
    a = shared.weights(x)
    mean, covariance = shared.posterior()
    variance = local_variance + a @ covariance @ a
    if expert_variance == "full":
        variance += shared.variance - a @ shared.inducing_covariance @ a
    return local_mean + a @ mean, variance


def gate_log_densities(inducing: Sequence[np.ndarray], x: np.ndarray) -> list[float]:
    """log N(x | c_k, V) of thesis (4.6), V pooled with T(M - 1) in the denominator."""
    num_experts, num_inducing, num_features = len(inducing), len(inducing[0]), len(x)
    centres = [points.mean(axis=0) for points in inducing]
    pooled = np.zeros(num_features)
    for d in range(num_features):
        for points, centre in zip(inducing, centres, strict=True):
            for point in points:
                pooled[d] += (point[d] - centre[d]) ** 2 / (num_experts * (num_inducing - 1))
    return [float(stats.multivariate_normal(centre, np.diag(pooled)).logpdf(x)) for centre in centres]


def responsible_expert(inducing: Sequence[np.ndarray], x: np.ndarray) -> int:
    """Thesis (4.30): argmax_k N(x | c_k, V)."""
    return int(np.argmax(gate_log_densities(inducing, x)))


def gaussian_expectation(function: Callable[[float], float], mean: float, variance: float) -> float:
    """E[function(f)] for f ~ N(mean, variance) by adaptive quadrature."""
    scale = math.sqrt(variance)

    def integrand(t: float) -> float:
        return function(mean + scale * t) * math.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)

    # The functions bend within a few units of f = 0; break the range there.
    bend = [(f - mean) / scale for f in (-8.0, -2.0, 0.0, 2.0, 8.0)]
    ends = [-12.0, *sorted(t for t in bend if abs(t) < 12.0), 12.0]
    return sum(integrate.quad(integrand, *piece, epsabs=1e-13)[0] for piece in itertools.pairwise(ends))


def expected_log_likelihood(mean: float, variance: float, label: int) -> float:
    """E[log Φ(s f)], s = 2 y - 1 (thesis 4.36)."""
    sign = 2 * label - 1
    return gaussian_expectation(lambda f: special.log_ndtr(sign * f), mean, variance)


def gaussian_term(mean: float, variance: float, target: float, noise: float) -> float:
    """E[log N(y | f, noise)], thesis (3.31), (3.32): the log density at the mean less variance/(2 noise)."""
    return float(stats.norm(mean, math.sqrt(noise)).logpdf(target)) - variance / (2 * noise)


def largest_probability(means: Sequence[float], variances: Sequence[float], label: int) -> float:
    """Thesis (4.17): ∫ N(f | μ_c, σ_c²) Π_{j≠c} Φ((f - μ_j)/σ_j) df by adaptive quadrature."""
    scales = [math.sqrt(variance) for variance in variances]
    others = [j for j in range(len(means)) if j != label]

    def integrand(f: float) -> float:
        product = stats.norm.pdf(f, means[label], scales[label])
        for j in others:
            product *= special.ndtr((f - means[j]) / scales[j])
        return float(product)

    low, high = (means[label] + sign * 12 * scales[label] for sign in (-1, 1))
    bends = [means[j] + t * scales[j] for j in others for t in (-4, 0, 4)]
    ends = [low, *sorted(f for f in bends if low < f < high), high]
    return sum(integrate.quad(integrand, *piece, epsabs=1e-13)[0] for piece in itertools.pairwise(ends))


def robust_max_term(
    means: Sequence[float], variances: Sequence[float], label: int, epsilon: float = 1e-3
) -> float:
    """E[log p(y | f)] of robust-max: P_y log(1 - ε) + (1 - P_y) log(ε/(C - 1))."""
    hit = largest_probability(means, variances, label)
    return hit * math.log1p(-epsilon) + (1 - hit) * math.log(epsilon / (len(means) - 1))


def softmax_term(means: Sequence[float], variances: Sequence[float], label: int, order: int = 11) -> float:
    """E[log softmax(f)_y] by Gauss-Hermite quadrature in every dimension."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    weights = weights / weights.sum()
    total = 0.0
    for index in itertools.product(range(order), repeat=len(means)):
        f = [mean + math.sqrt(v) * nodes[i] for mean, v, i in zip(means, variances, index, strict=True)]
        weight = math.prod(weights[i] for i in index)
        total += weight * (f[label] - float(special.logsumexp(f)))
    return total


def entropy(probability: float) -> float:
    """Of a Bernoulli variable, in nats."""
    return float(stats.bernoulli(probability).entropy())


def log_evidence(labels: np.ndarray, covariance: np.ndarray) -> float:
    """log ∫ Π_n Φ(s_n f_n) N(f | 0, covariance) df: the probability that f + noise has the labels' signs."""
    signs = 2.0 * labels - 1.0
    flipped = signs[:, None] * (covariance + np.eye(len(labels))) * signs[None, :]
    distribution = stats.multivariate_normal(np.zeros(len(labels)), flipped, seed=0, abseps=1e-7, releps=1e-7)
    return float(np.log(distribution.cdf(np.zeros(len(labels)))))


def flat_posterior(unit: Unit) -> Unit:
    """The unit with q at its prior."""
    size = len(unit.q_mean)
    return replace(unit, q_mean=np.zeros(size), q_sqrt=np.eye(size))
