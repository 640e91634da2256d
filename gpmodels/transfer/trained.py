"""A trained transfer model: plain arrays, and what can be asked of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from gpmodels.likelihoods.probit import log_normal_cdf
from gpmodels.transfer.bounds import target_outputs
from gpmodels.transfer.hidden import mixing_moments, project
from gpmodels.transfer.leave_one_out import leave_one_out
from gpmodels.transfer.outputs import OutputPosterior
from gpmodels.transfer.parameters import ModelKind, TransferParameters
from gpmodels.transfer.rows import FloatArray, TransferRows

BATCH_ROWS = 4096
"""Rows that are predicted at once."""

NO_VARIANCE = 1e-20
"""A variance of output functions that is but the rounding of equal values."""


@dataclass(frozen=True)
class TrainedTransfer:
    """What training of a transfer model leaves.

    Attributes:
        kind: Which model and which form of the bound.
        parameters: Its parameters, float64 arrays.
        outputs: q(u) of each domain, the best for the parameters; the target last.
        rows: The rows that it was trained with, for leave-one-out and `transfer_weight`.
        prior: a⁰ of the mixing weights, `[K + 1]`.
        bound: The bound on the log evidence at the end, nats.
        curve: The bound at the start and after each iteration, nats.
    """

    kind: ModelKind
    parameters: TransferParameters
    outputs: tuple[OutputPosterior, ...]
    rows: TransferRows
    prior: FloatArray
    bound: float
    curve: FloatArray

    @property
    def mixing(self) -> FloatArray:
        """a of q(π) = Dir(a), or π where it was fixed, `[K + 1]`: the sources, then the target's own part.

        A symmetric model has no mixing weights, and this has no entries.
        """
        if self.kind.is_symmetric:
            return np.zeros(0)
        if self.parameters.log_concentration is None:
            return np.array(self.parameters.mixing)
        return np.exp(self.parameters.log_concentration)

    @property
    def noise_variance(self) -> float:
        """1/β of the target."""
        return float(np.exp(self.parameters.target.log_noise))

    def scores(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the target's output functions, without the noise 1/β.

        Args:
            x: Scaled inputs of the target, `[N, D]`.

        Returns:
            Means and variances, `[N, C]` each.
        """
        parameters = self._tensors()
        outputs = OutputPosterior(*map(tf.constant, self.outputs[-1]))
        parts = [
            target_outputs(parameters, self.kind, outputs, tf.constant(part, tf.float64))
            for part in _batches(x)
        ]
        mean, variance = (
            np.concatenate([part.numpy() for part in side]) for side in zip(*parts, strict=True)
        )
        return mean, variance

    def log_probability(self, x: FloatArray) -> FloatArray:
        """Return log p(class) of target inputs, nats, `[N, C]`.

        Args:
            x: Scaled inputs of the target, `[N, D]`.

        Raises:
            ValueError: The model was trained with real targets.
        """
        return self.class_log_probability(*self.scores(x))

    def class_log_probability(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return log p(class) for given moments of the output functions, as of `leave_one_out`.

        With Gaussian codes a class is as probable as its code under the predictive densities; with noisy
        probit as Φ(μ/√(1 + 1/β + v)) is large among all classes.

        Args:
            mean: μ, `[N, C]`.
            variance: v, `[N, C]`.

        Raises:
            ValueError: The model was trained with real targets.
        """
        if not self.rows.is_classifier:
            raise ValueError(
                "There are no class probabilities: the model was trained with real targets. Use scores()."
            )
        if self.kind.likelihood == "noisy_probit":
            z = tf.constant(mean / np.sqrt(1.0 + self.noise_variance + variance))
            return tf.nn.log_softmax(log_normal_cdf(z)).numpy()
        # log N(1 - 1/C | μ, v) - log N(-1/C | μ, v) is all in which a class's own code differs
        num_classes = mean.shape[1]
        evidence = (mean - (0.5 - 1.0 / num_classes)) / (variance + self.noise_variance)
        return tf.nn.log_softmax(tf.constant(evidence)).numpy()

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of the output functions at each target row, without its own label.

        Kernels, noises, q(π) and the means of the output weights stay as trained.

        Returns:
            Means and variances, `[N_t, C]` each.

        Raises:
            NotImplementedError: The likelihood is noisy probit.
        """
        weights = [output.mean for output in self.outputs]
        return leave_one_out(self.parameters, self.kind, weights, self.rows)

    @property
    def transfer_weight(self) -> float:
        """The sources' share in what the target's output functions vary with over its rows, from 0 to 1.

        The value of unit r of domain j counts `Σ_c (∂μ_c/∂b_jr)² Var_n[b̄_jr]`, as in
        `gpmodels.dfgp.head.DFGPHead.view_weights`; where nothing varies all domains count the same.
        """
        parameters = self._tensors()
        x = tf.constant(self.rows.target.x, tf.float64)
        weights = np.sum(np.square(self.outputs[-1].mean), axis=0)  # [R*]
        num_domains, num_hidden = len(parameters.domains), parameters.target.num_hidden
        if self.kind.is_symmetric:
            slopes = weights.reshape(num_domains, num_hidden)
        else:
            slopes = np.square(mixing_moments(parameters).mean.numpy())[:, None] * weights
        variances = [project(domain, x).mean.numpy().var(axis=0) for domain in parameters.domains]
        parts = np.sum(slopes * np.stack(variances), axis=1)
        total = float(parts.sum())
        return float(parts[:-1].sum()) / total if total > NO_VARIANCE else 1.0 - 1.0 / num_domains

    def _tensors(self) -> TransferParameters:
        return with_parts(self.parameters, tf.constant)


def with_parts(parameters: TransferParameters, change: Callable[[Any], Any]) -> TransferParameters:
    """Return parameters each part of which is changed by a function."""
    domains = tuple(
        domain._replace(
            **{name: change(value) for name, value in domain._asdict().items() if value is not None}
        )
        for domain in parameters.domains
    )
    shared = {
        name: change(value)
        for name, value in parameters._asdict().items()
        if value is not None and name != "domains"
    }
    return parameters._replace(domains=domains, **shared)


def _batches(x: FloatArray) -> list[FloatArray]:
    return [x[start : start + BATCH_ROWS] for start in range(0, max(len(x), 1), BATCH_ROWS)]
