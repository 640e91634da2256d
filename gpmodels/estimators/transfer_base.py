"""What the transfer estimators share: their rows by domain, the fit, and what they say of it."""

from __future__ import annotations

import abc
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from gpmodels.estimators.domains import (
    SCALINGS,
    TARGET,
    Domains,
    Scales,
    checked_domains,
    domains_of,
    scales_of,
)
from gpmodels.estimators.engine import FloatArray
from gpmodels.estimators.grouped import checked_groups
from gpmodels.estimators.transfer_files import load_transfer, save_transfer
from gpmodels.transfer.exact import ExactTransfer, fit_exact
from gpmodels.transfer.nodes import MixingNodes, fixed_mixing, prior_concentration, prior_nodes
from gpmodels.transfer.rows import DomainRows, TransferRows, mean_distance

CLASS_NOISE = 0.1
"""σ² of the codes of classes."""

TARGET_NOISES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""σ² of standardised real targets that leaving out chooses from."""

LENGTHSCALE_FACTORS = (0.5, 1.0, 2.0)
"""Multiples of the mean distance that it chooses from, for real targets."""

HARM = 0.02
"""Nats per target row by which leaving out must be better without the sources before a warning."""


CHUNK = 4096
"""Rows predicted at once."""


class LeaveOneOut(NamedTuple):
    """Mean negative log density of target rows that were left out, nats.

    Attributes:
        with_sources: With the rows of the sources.
        without_sources: With the other rows of the target alone.
    """

    with_sources: float
    without_sources: float


class LabelledRows(NamedTuple):
    """Checked rows.

    Attributes:
        x: `[N, D]`.
        domain: Place of each row's domain, `TARGET` for the target's, `[N]`.
        labelled: Whether each row has a label, `[N]`.
        weight: `[N]`, above 0.
        groups: Group of each row, `[N]`, or None.
    """

    x: FloatArray
    domain: npt.NDArray[np.intp]
    labelled: npt.NDArray[np.bool_]
    weight: FloatArray
    groups: npt.NDArray[np.intp] | None

    def subset(self, used: npt.NDArray[np.bool_]) -> LabelledRows:
        """Return some of the rows."""
        groups = None if self.groups is None else self.groups[used]
        return LabelledRows(self.x[used], self.domain[used], self.labelled[used], self.weight[used], groups)

    def part(self, domain: int) -> npt.NDArray[np.intp]:
        """Return the labelled rows of a domain."""
        return np.flatnonzero((self.domain == domain) & self.labelled)


@dataclass(kw_only=True, repr=False, eq=False)
class TransferEstimator(BaseEstimator, abc.ABC):
    """What the transfer estimators share."""

    _is_classifier: ClassVar[bool]

    mixing: Any = "learned"
    noise_variance: float | str = "auto"
    scaling: str | None = "domain"
    random_state: Any = None
    log_dir: str | None = None

    def __sklearn_is_fitted__(self) -> bool:
        """Whether something is learned: a fit that failed leaves other attributes that end in `_` behind."""
        return hasattr(self, "model_")

    def _checked(self, x: FloatArray, sample_domain: Any, sample_weight: Any, groups: Any) -> LabelledRows:
        """Return the rows of a fit with their domains, all of them labelled, and record the domains."""
        self._check_settings()
        numbers = checked_domains(sample_domain, len(x))
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        self.domains_: Domains = domains_of(numbers)
        domain = self.domains_.index(numbers)
        return LabelledRows(x, domain, np.ones(len(x), bool), weight, checked_groups(groups, len(x)))

    def _fit_rows(self, rows: LabelledRows, codes: FloatArray) -> Self:
        """Fit to codes `[N, C]`, of which only those of labelled rows are looked at."""
        used = rows.weight > 0
        rows, codes = rows.subset(used), codes[used]
        if not len(rows.part(TARGET)):
            raise ValueError(
                "There is no labelled row of the target with a positive weight. Label some, or fit on the "
                "sources as the target."
            )
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        order = [*range(len(self.domains_.sources)), TARGET]
        for number, k in zip(self.domains_.sources, order, strict=False):
            if not len(rows.part(k)):
                raise ValueError(
                    f"Source {number} has no labelled row. Leave it out of the fit, or label rows."
                )
        self.scales_: Scales = scales_of(
            [(rows.x[rows.domain == k], rows.weight[rows.domain == k]) for k in order], self.scaling
        )
        parts = []
        for k in order:
            chosen = rows.part(k)
            x = self.scales_.scaled(rows.x[chosen], k)
            parts.append(DomainRows(x, codes[chosen], rows.weight[chosen], mean_distance(x)))
        transfer = TransferRows(tuple(parts[:-1]), parts[-1], self._is_classifier)
        groups = None if rows.groups is None else rows.groups[rows.part(TARGET)]
        seed = int(rng.integers(2**31 - 1))
        alone = self._fitted(transfer.without_sources(), groups, seed)
        self.model_: ExactTransfer = alone if not parts[:-1] else self._fitted(transfer, groups, seed)
        self._set_found(self.model_.transfer_weights(transfer.target.x)[:-1], alone.nll)
        self._say_harm()
        self._log()
        return self

    def _set_found(self, transfer_weight: FloatArray, without_sources: float) -> None:
        """Set what a user asks of the model: the shares of the sources, and what they gave."""
        self.leave_one_out_ = LeaveOneOut(self.model_.nll, without_sources)
        self.mixing_ = self.model_.mixing[:-1]
        self.mixing_std_ = self.model_.mixing_deviation[:-1]
        self.transfer_weight_ = transfer_weight

    def _fitted(self, rows: TransferRows, groups: npt.NDArray[np.intp] | None, seed: int) -> ExactTransfer:
        """Return the exact limit, with the noise and lengthscales by which left-out rows are likeliest."""
        nodes = self._nodes(rows)
        if self.noise_variance != "auto":
            return fit_exact(rows, nodes, noise=float(self.noise_variance), groups=groups, seed=seed)
        if self._is_classifier:
            return fit_exact(rows, nodes, noise=CLASS_NOISE, groups=groups, seed=seed)
        fits = (
            fit_exact(rows, nodes, noise=noise, lengthscale_factor=factor, groups=groups, seed=seed)
            for noise in TARGET_NOISES
            for factor in LENGTHSCALE_FACTORS
        )
        return min(fits, key=lambda fit: fit.nll)

    def _nodes(self, rows: TransferRows) -> MixingNodes:
        if not rows.num_sources or isinstance(self.mixing, str):
            return prior_nodes(rows.num_sources, prior_concentration(len(rows.target)))
        shares = [self.mixing] if isinstance(self.mixing, Real) else list(self.mixing)
        if len(shares) != rows.num_sources:
            raise ValueError(
                f"mixing has {len(shares)} shares, but there are {rows.num_sources} sources. Give one share "
                'for each source, or "learned".'
            )
        return fixed_mixing([*map(float, shares), 1.0 - float(sum(shares))])

    def _check_settings(self) -> None:
        if isinstance(self.mixing, str):
            if self.mixing != "learned":
                raise ValueError(f'mixing must be "learned" or shares of sources, but is {self.mixing!r}.')
        elif not _are_shares(self.mixing):
            raise ValueError(
                'mixing must be "learned", or shares of the sources in [0, 1] whose sum is at most 1, but is '
                f"{self.mixing!r}."
            )
        noise = self.noise_variance
        is_number = isinstance(noise, Real) and not isinstance(noise, bool)
        if noise != "auto" and not (is_number and 0.0 < float(noise) < np.inf):
            raise ValueError(f'noise_variance must be "auto" or a positive number, but is {noise!r}.')
        if self.scaling not in SCALINGS:
            raise ValueError(f"scaling must be one of {SCALINGS}, but is {self.scaling!r}.")

    def _say_harm(self) -> None:
        """Warn where the target's rows are predicted better without the sources."""
        with_sources, without = self.leave_one_out_
        if self.domains_.sources and with_sources > without + HARM:
            warnings.warn(
                f"The sources do not help: left-out rows of the target have an NLL of {with_sources:.3f} "
                f"with them and {without:.3f} without. Fit on the rows of the target alone.",
                UserWarning,
                stacklevel=4,
            )

    def _log(self) -> None:
        """Write what was found for TensorBoard, if there is a folder for it."""
        if self.log_dir is None:
            return
        import tensorflow as tf  # noqa: PLC0415 - nothing else here needs it

        with tf.summary.create_file_writer(self.log_dir).as_default(step=0):
            tf.summary.scalar("nll/left_out", self.leave_one_out_.with_sources)
            tf.summary.scalar("nll/left_out_without_sources", self.leave_one_out_.without_sources)
            for number, share in zip(self.domains_.sources, self.mixing_, strict=True):
                tf.summary.scalar(f"mixing/source_{number}", float(share))

    def _moments(self, X: Any, sample_domain: Any) -> tuple[FloatArray, FloatArray, npt.NDArray[np.intp]]:
        """Return mean and variance of the functions at rows of any domain, `[N, C]`, and domains `[N]`."""
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, dtype=np.float64)
        if sample_domain is None:
            domain = np.full(len(x), TARGET, np.intp)
        else:
            domain = self.domains_.index(checked_domains(sample_domain, len(x)))
        mean = np.empty([len(x), self.model_.target_weights.shape[2]])
        variance = np.zeros_like(mean)
        for start in range(0, len(x), CHUNK):
            block = slice(start, start + CHUNK)
            for k in np.unique(domain[block]):
                chosen = np.arange(len(x))[block][domain[block] == k]
                rows = self.scales_.scaled(x[chosen], int(k))
                if k == TARGET:
                    mean[chosen], variance[chosen] = self.model_.mean(rows), self.model_.variance(rows)
                else:
                    mean[chosen] = self.model_.source_mean(rows, int(k))
                    variance[chosen] = np.nan
        return mean, variance, domain

    def summary(self) -> str:
        """Return in words what the sources gave: their share of the mixture, and what leaving out says."""
        check_is_fitted(self)
        with_sources, without = self.leave_one_out_
        rows = len(self.model_.left_out.mean)
        lines = [f"{type(self).__name__}: {rows} labelled rows of the target, {self.n_features_in_} columns"]
        found = zip(self.domains_.sources, self.mixing_, self.mixing_std_, self.transfer_weight_, strict=True)
        for number, share, deviation, weight in found:
            lines.append(
                f"source {number} gives {share:.0%} ± {deviation:.0%} of the mixture, and {weight:.0%} of "
                "what the predictions vary with"
            )
        if self.domains_.sources:
            them = "it" if len(self.domains_.sources) == 1 else "them"
            lines.append(f"leave-one-out NLL {with_sources:.3f} with {them}, {without:.3f} without")
            if with_sources > without + HARM:
                lines.append("The sources do not help: fit on the rows of the target alone.")
        else:
            lines.append(f"leave-one-out NLL {with_sources:.3f}; there is no source")
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file, complete or not at all.

        Args:
            path: The file, by custom `*.npz`; an existing one is replaced.

        Raises:
            sklearn.exceptions.NotFittedError: The estimator is not fitted.
            ValueError: A label or a parameter cannot be stored.
        """
        save_transfer(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator of this class from a file of `save`; reading runs no code of the file's.

        Args:
            path: The file.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: The file is of another kind or class, damaged, or inconsistent; the message says how.
        """
        return load_transfer(cls, path)


def _are_shares(mixing: Any) -> bool:
    """Whether a setting is one share, or a list of them, in [0, 1] with a sum of at most 1."""
    shares = [mixing] if isinstance(mixing, Real) else mixing
    if not isinstance(shares, Sequence | np.ndarray) or not len(shares):
        return False
    if any(isinstance(one, bool) or not isinstance(one, Real) for one in shares):
        return False
    values = np.array(shares, np.float64)
    return bool((values >= 0.0).all() and values.sum() <= 1.0 + 1e-12)
