"""FITC and PIC by their N x N covariances, written from the thesis; they share nothing with gpmodels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

JITTER = 1e-6


@dataclass(frozen=True)
class DenseSparseGP:
    """The prior of thesis (3.2) and (3.3): exact covariance inside a block, Q between blocks."""

    inducing: np.ndarray  # [M, D]
    lengthscales: np.ndarray  # [D]
    variance: float
    noise: float
    jitter: float = JITTER

    def kernel(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        result = np.empty((len(a), len(b)))
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                squared = sum(
                    ((p - q) / scale) ** 2 for p, q, scale in zip(x, y, self.lengthscales, strict=True)
                )
                result[i, j] = self.variance * math.exp(-squared / 2)
        return result

    def prior(self, x: np.ndarray, block: np.ndarray) -> np.ndarray:
        """Covariance of f(x) if `block` says which points are treated together."""
        k_uu = self.kernel(self.inducing, self.inducing) + self.jitter * np.eye(len(self.inducing))
        k_ux = self.kernel(self.inducing, x)
        q, exact = k_ux.T @ np.linalg.solve(k_uu, k_ux), self.kernel(x, x)
        return np.where(block[:, None] == block[None, :], exact, q)

    def log_evidence(self, x: np.ndarray, y: np.ndarray, block: np.ndarray) -> float:
        covariance = self.prior(x, block) + self.noise * np.eye(len(x))
        return float(stats.multivariate_normal(np.zeros(len(x)), covariance).logpdf(y))

    def predict(
        self, x: np.ndarray, y: np.ndarray, block: np.ndarray, new: np.ndarray, block_of_new: int
    ) -> tuple[float, float]:
        """Mean and variance of the noisy target at one new point, by conditioning the joint prior."""
        joint = self.prior(np.vstack([x, new]), np.append(block, block_of_new))
        joint += self.noise * np.eye(len(joint))
        weights = np.linalg.solve(joint[:-1, :-1], joint[:-1, -1])
        return float(weights @ y), float(joint[-1, -1] - weights @ joint[:-1, -1])

    def exact(self, x: np.ndarray, y: np.ndarray, new: np.ndarray) -> tuple[float, list[tuple[float, float]]]:
        """log evidence and predictions of the GP without approximation."""
        together = np.zeros(len(x), int)
        predictions = [self.predict(x, y, together, point[None], 0) for point in new]
        return self.log_evidence(x, y, together), predictions


def problem(seed: int, *, num_points: int = 25, num_inducing: int = 5, num_features: int = 2):
    """Random inputs, targets and a sparse GP with arbitrary parameters."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2.0, 2.0, (num_points, num_features))
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=num_points)
    gp = DenseSparseGP(
        inducing=rng.uniform(-2.0, 2.0, (num_inducing, num_features)),
        lengthscales=rng.uniform(0.5, 2.0, num_features),
        variance=rng.uniform(0.5, 2.0),
        noise=rng.uniform(0.05, 0.5),
    )
    return x, y, gp


def wave(seed: int, num_points: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """One input with a gap, a wave whose amplitude varies, and noise of standard deviation 0.2."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 6.0, num_points)
    x = np.where((x > 1.5) & (x < 2.0), x + 2.0, x)
    return x[:, None], np.sin(3 * x) * np.exp(-0.2 * x) + 0.2 * rng.normal(size=num_points)


def finite_differences(function, position: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Gradient by central differences."""
    gradient = np.empty(len(position))
    for i in range(len(position)):
        shift = np.zeros(len(position))
        shift[i] = step
        gradient[i] = (function(position + shift) - function(position - shift)) / (2 * step)
    return gradient
