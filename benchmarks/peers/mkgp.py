"""MKGP, multiple kernel learning by Gaussian processes with a spike-and-slab prior on their weights.

    y = Σ_m s_m w_m φ_m(x) + ε,   φ_m ~ GP(0, κ_m),   w_m ~ N(0, 1),   s_m ~ Bernoulli(π),   ε ~ N(0, σ²)

the single-task case of Titsias and Lázaro-Gredilla (2011), with their factors q(w_m, s_m) q(φ_m): weight and
switch of a kernel stay together. Labels are -1 and 1 and count as real targets; the DFGP paper does not say
how it made a classifier of the model.

Departure: the kernels' lengthscales are not learned but those of `benchmarks.peers.multiple_kernels`,
as BEMKL and the averaged kernels have them; the weights are what is compared.

With c = E[s w²]/σ² and eigenvalues λ, eigenvectors V of K_m, q(φ_m) has the covariance V λ/(1 + c λ) Vᵀ, so
that one decomposition of each kernel serves all rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from benchmarks.peers.base import Array, check_count
from benchmarks.peers.multiple_kernels import MultipleKernelClassifier

LEAST_NOISE = 1e-3
"""σ² stays above, in units of the labels' own variance of about 1."""

LEAST_SHARE = 1e-3
"""π stays this far from 0 and 1."""


@dataclass(kw_only=True, repr=False, eq=False)
class MKGPClassifier(MultipleKernelClassifier):
    """Gaussian processes of the views, each switched on or off, added.

    Args:
        views: Columns of each view, as of `gpmodels.DFGPClassifier`.
        max_iterations: Most rounds of updates.
        tolerance: Rounds end when one gains less, in nats per row.
        random_state: Seed of the sample behind the lengthscales.

    Attributes:
        classes_: Labels, sorted.
        switch_probabilities_: q(s_m = 1), `[views]`.
        noise_variance_: σ².
        bounds_: Lower bound on log p(y) after each round, nats.
        n_iter_: Rounds made.

    Source:
        Titsias and Lázaro-Gredilla (2011), Spike and slab variational inference, sections 2 and 3.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(60, 2))
        >>> model = MKGPClassifier(views=[[0], [1]], random_state=0).fit(X, X[:, 0] > 0)
        >>> bool(model.switch_probabilities_[0] > model.switch_probabilities_[1])
        True
    """

    max_iterations: int = 200
    tolerance: float = 1e-6

    def _train(self, kernels: Array, y: Array) -> None:
        check_count("max_iterations", self.max_iterations, least=1)
        self._mean = float(y.mean())
        posterior = SpikeAndSlabPosterior.start(kernels, y - self._mean)
        self.bounds_ = []
        for _ in range(self.max_iterations):
            posterior.update()
            self.bounds_.append(posterior.bound())
            if len(self.bounds_) > 1 and self.bounds_[-1] - self.bounds_[-2] < self.tolerance * len(y):
                break
        self.posterior_ = posterior
        self.switch_probabilities_ = posterior.switch.copy()
        self.noise_variance_ = posterior.noise
        self.n_iter_ = len(self.bounds_)

    def _decide(self, kernels: Array) -> Array:
        """Return P(y < 0) and P(y > 0) under the Gaussian of y's mean and variance."""
        mean, variance = self.posterior_.predict(kernels)
        z = (mean + self._mean) / np.sqrt(variance)
        return special.ndtr(np.stack([-z, z], axis=1))


@dataclass
class SpikeAndSlabPosterior:
    """The factors of q and the point estimates of π and σ², with their updates.

    Attributes:
        y: Targets, `[N]`.
        eigenvalues: λ of each kernel, `[m, N]`.
        eigenvectors: V of each, `[m, N, N]`.
        weight_mean: E[w_m | s_m = 1], `[m]`.
        weight_variance: Its variance, `[m]`.
        switch: q(s_m = 1), `[m]`.
        function_mean: E[φ_m] in its eigenvectors, `[m, N]`.
        function_variance: Its variances there, `[m, N]`.
        share: π.
        noise: σ².
    """

    y: Array
    eigenvalues: Array
    eigenvectors: Array
    weight_mean: Array
    weight_variance: Array
    switch: Array
    function_mean: Array
    function_variance: Array
    share: float
    noise: float

    @classmethod
    def start(cls, kernels: Array, y: Array) -> SpikeAndSlabPosterior:
        """Return a start: weights 1, open switches, functions at 0; kernels `[m, N, N]`, targets `[N]`."""
        eigenvalues, eigenvectors = np.linalg.eigh(kernels)
        count, size = eigenvalues.shape
        return cls(
            y=y,
            eigenvalues=np.maximum(eigenvalues, 1e-10),
            eigenvectors=eigenvectors,
            weight_mean=np.ones(count),
            weight_variance=np.full(count, 1e-3),
            switch=np.full(count, 0.9),
            function_mean=np.zeros((count, size)),
            function_variance=np.maximum(eigenvalues, 1e-10),
            share=0.5,
            noise=0.5,
        )

    @property
    def _first(self) -> Array:
        """E[s w]."""
        return self.switch * self.weight_mean

    @property
    def _second(self) -> Array:
        """E[s w²]."""
        return self.switch * (self.weight_mean**2 + self.weight_variance)

    def _means(self) -> Array:
        """Return E[φ_m] at the training rows, `[m, N]`."""
        return np.einsum("mij,mj->mi", self.eigenvectors, self.function_mean)

    def update(self) -> None:
        """Make one round of updates: of each kernel the function, then weight and switch; then π and σ²."""
        for m in range(len(self.switch)):
            means = self._means()
            others = self.y - self._first @ means + self._first[m] * means[m]
            self._update_function(m, others)
            self._update_weight(m, others)
        self.share = float(np.clip(self.switch.mean(), LEAST_SHARE, 1.0 - LEAST_SHARE))
        self.noise = max(self._expected_squares() / len(self.y), LEAST_NOISE)

    def _update_function(self, m: int, others: Array) -> None:
        values = self.eigenvalues[m]
        shrunk = values / (1.0 + values * self._second[m] / self.noise)
        self.function_variance[m] = shrunk
        self.function_mean[m] = shrunk * (self.eigenvectors[m].T @ others) * self._first[m] / self.noise

    def _update_weight(self, m: int, others: Array) -> None:
        squares = np.sum(self.function_mean[m] ** 2) + self.function_variance[m].sum()
        variance = 1.0 / (1.0 + squares / self.noise)
        mean = variance * (self.function_mean[m] @ (self.eigenvectors[m].T @ others)) / self.noise
        self.weight_mean[m], self.weight_variance[m] = mean, variance
        odds = math.log(self.share / (1.0 - self.share)) + 0.5 * math.log(variance) + 0.5 * mean**2 / variance
        self.switch[m] = special.expit(odds)

    def _expected_squares(self) -> float:
        """Return E|y - Σ s w φ|²."""
        residual = self.y - self._first @ self._means()
        own = (self.function_mean**2).sum(axis=1)
        extra = self._second * (own + self.function_variance.sum(axis=1)) - self._first**2 * own
        return float(residual @ residual + extra.sum())

    def bound(self) -> float:
        """Return the lower bound on log p(y), nats."""
        size = len(self.y)
        fit = -0.5 * size * math.log(2.0 * math.pi * self.noise) - 0.5 * self._expected_squares() / self.noise
        ratio = self.function_variance / self.eigenvalues
        functions = 0.5 * np.sum(ratio + self.function_mean**2 / self.eigenvalues - 1.0 - np.log(ratio))
        v = self.weight_variance
        weights = 0.5 * self.switch @ (v + self.weight_mean**2 - 1.0 - np.log(v))
        switches = special.rel_entr(self.switch, self.share) + special.rel_entr(
            1.0 - self.switch, 1.0 - self.share
        )
        return float(fit - functions - weights - switches.sum())

    def predict(self, kernels: Array) -> tuple[Array, Array]:
        """Return mean and variance of the noisy target from kernels with the training rows `[m, n, N]`."""
        projected = np.einsum("mnj,mjk->mnk", kernels, self.eigenvectors)
        means = np.einsum("mnk,mk->mn", projected, self.function_mean / self.eigenvalues)
        explained = (1.0 - self.function_variance / self.eigenvalues) / self.eigenvalues
        variances = np.maximum(1.0 - np.einsum("mnk,mk->mn", projected**2, explained), 0.0)
        variance = self._second @ (variances + means**2) - self._first**2 @ means**2
        return self._first @ means, variance + self.noise
