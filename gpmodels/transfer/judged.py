"""A trained transfer model with what leaving out target rows says of it, as the exact limit has it."""

from dataclasses import dataclass

import numpy as np

from gpmodels.transfer.mixing import dirichlet_moments
from gpmodels.transfer.rows import FloatArray, LeftOut, TransferRows
from gpmodels.transfer.score_scale import fit_score_scale, left_out_log_densities
from gpmodels.transfer.trained import TrainedTransfer


@dataclass(frozen=True)
class JudgedTransfer:
    """A trained model, and the scale of scores by which its left-out target rows are likeliest.

    Attributes:
        trained: The model.
        left_out: What it says of each target row without that row's label.
        score_scale: What scores are multiplied by before a softmax; 1 of real targets.
        nll: Mean negative log density of left-out target rows, nats.
    """

    trained: TrainedTransfer
    left_out: LeftOut
    score_scale: float
    nll: float

    @classmethod
    def of(cls, trained: TrainedTransfer) -> "JudgedTransfer":
        """Return the model with its left-out rows judged; hyper-parameters have seen all of them."""
        mean, variance = trained.leave_one_out()
        left_out = LeftOut(mean, variance.mean(axis=1) + trained.noise_variance)
        target = trained.rows.target
        scale = fit_score_scale(left_out, target.codes, target.weight) if trained.rows.is_classifier else 1.0
        each = left_out_log_densities(left_out, target, scale, is_classifier=trained.rows.is_classifier)
        return cls(trained, left_out, scale, -float(np.average(each, weights=target.weight)))

    def left_out_densities(self, rows: TransferRows) -> FloatArray:
        """Return log p of each target row of the fit by the others, nats, `[N_t]`."""
        return left_out_log_densities(
            self.left_out, rows.target, self.score_scale, is_classifier=rows.is_classifier
        )

    @property
    def noise(self) -> float:
        """1/β of the target."""
        return self.trained.noise_variance

    @property
    def num_outputs(self) -> int:
        """C."""
        return self.left_out.mean.shape[1]

    @property
    def mixing(self) -> FloatArray:
        """Mean of each source's share under q(π), then of the target's, `[K + 1]`; empty if symmetric."""
        concentration = self.trained.mixing
        if self.trained.parameters.log_concentration is None:
            return concentration
        return np.asarray(dirichlet_moments(concentration).mean)

    @property
    def mixing_deviation(self) -> FloatArray:
        """Standard deviation of each share under q(π), `[K + 1]`."""
        if self.trained.parameters.log_concentration is None:
            return np.zeros_like(self.trained.mixing)
        share, total = self.mixing, float(np.sum(self.trained.mixing))
        return np.sqrt(share * (1.0 - share) / (total + 1.0))

    def moments(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the target's functions at its rows `[N, D]`, `[N, C]` each."""
        return self.trained.scores(x)
