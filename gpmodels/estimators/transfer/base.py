"""What the transfer estimators share: their rows by domain, the fit, and what they say of it."""

import abc
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from gpmodels.estimators.fitting.engine import FloatArray
from gpmodels.estimators.fitting.grouped import checked_groups
from gpmodels.estimators.fitting.monitoring import FitMonitor
from gpmodels.estimators.fitting.persistence import SavedEstimator
from gpmodels.estimators.fitting.rows import checked_rows
from gpmodels.estimators.transfer.domains import (
    SCALINGS,
    TARGET,
    Domains,
    Scales,
    checked_domains,
    domains_of,
    scales_of,
)
from gpmodels.estimators.transfer.files import restored_transfer, stored_transfer
from gpmodels.transfer.exact import ExactTransfer, fit_exact
from gpmodels.transfer.judged import JudgedTransfer
from gpmodels.transfer.nodes import MixingGrid, fixed_mixing, prior_concentration, prior_nodes
from gpmodels.transfer.parameters import FORMS
from gpmodels.transfer.rows import DomainRows, TransferRows, mean_distance
from gpmodels.transfer.score_scale import SourceComparison, compare_with_sources
from gpmodels.transfer.second_layer import TwoLayerTransfer
from gpmodels.transfer.training import train_transfer

CLASS_NOISE = 0.1
"""σ² of the codes of classes."""

TARGET_NOISES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""σ² of standardised real targets that leaving out chooses from."""

LENGTHSCALE_FACTORS = (0.5, 1.0, 2.0)
"""Multiples of the mean distance that it chooses from, for real targets."""

CHUNK = 4096
"""Rows predicted at once."""


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

    def subset(self, used: npt.NDArray[np.bool_]) -> "LabelledRows":
        """Return some of the rows."""
        groups = None if self.groups is None else self.groups[used]
        return LabelledRows(self.x[used], self.domain[used], self.labelled[used], self.weight[used], groups)

    def part(self, domain: int) -> npt.NDArray[np.intp]:
        """Return the labelled rows of a domain."""
        return np.flatnonzero((self.domain == domain) & self.labelled)


@dataclass(kw_only=True, repr=False, eq=False)
class TransferEstimator(SavedEstimator, abc.ABC):
    """What the transfer estimators share."""

    _is_classifier: ClassVar[bool]

    _kind: ClassVar[str] = "asymmetric"
    _learned: ClassVar[str] = "model_"

    _stored = stored_transfer
    _restored: ClassVar[Any] = classmethod(restored_transfer)

    mixing: Any = "learned"
    max_iterations: int = 0
    latent_posterior: str = "integrated"
    noise_variance: float | str = "auto"
    scaling: str | None = "domain"
    random_state: Any = None
    verbose: int = 0
    log_dir: str | None = None

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
        if self.max_iterations and groups is not None:
            raise ValueError(
                "groups are left out by the exact limit alone, and max_iterations asks for training. Leave "
                "groups out, or set max_iterations=0."
            )
        alone = self._fitted(transfer.without_sources(), groups, seed)
        exact = alone if not parts[:-1] else self._fitted(transfer, groups, seed)
        self.model_: ExactTransfer | JudgedTransfer = self._best(exact, transfer, groups, seed)
        densities = [fit.left_out_densities(transfer) for fit in (self.model_, alone)]
        found = compare_with_sources(densities[0], densities[1], transfer.target.weight, groups)
        self._set_found(self._transfer_weights(transfer), found.in_units(self._unit))
        self._warn_of_harm()
        self._log()
        return self

    @property
    def _alternative(self) -> str:
        """What replaces the exact limit where left-out rows gain by it; empty where nothing may."""
        return "the trained model" if self.max_iterations else ""

    @property
    def _why_exact(self) -> str:
        """Why nothing replaced it, where something might have."""
        return "training did not help"

    @property
    def _unit(self) -> float:
        """What the target's values are divided by before they are fitted; 1 of classes."""
        return 1.0

    def _set_found(self, transfer_weight: FloatArray, comparison: SourceComparison) -> None:
        """Set what a user asks of the model: the shares of the sources, and what they gave.

        Args:
            transfer_weight: Each source's share in what the target's functions vary with, `[K]`.
            comparison: What leaving out says, of target values in their own unit.
        """
        self.leave_one_out_ = comparison
        self.is_trained_ = isinstance(self.model_, JudgedTransfer | TwoLayerTransfer)
        self.mixing_ = self.model_.mixing[:-1]
        self.mixing_std_ = self.model_.mixing_deviation[:-1]
        self.transfer_weight_ = transfer_weight

    def _transfer_weights(self, rows: TransferRows) -> FloatArray:
        """Return each source's share in what the target's functions vary with, `[K]`."""
        if isinstance(self.model_, ExactTransfer):
            return self.model_.transfer_weights(rows.target.x)[:-1]
        # Training tells what all sources give together; each has as much of it as of the mixture.
        shares = self.model_.mixing[:-1] if self._kind == "asymmetric" else np.ones(rows.num_sources)
        return self.model_.trained.transfer_weight * shares / max(float(shares.sum()), 1e-300)

    def _best(
        self,
        exact: ExactTransfer,
        rows: TransferRows,
        groups: npt.NDArray[np.intp] | None,  # noqa: ARG002 - for second layers; training knows none
        seed: int,
    ) -> ExactTransfer | JudgedTransfer:
        """Return the exact limit, or what replaces it where left-out target rows gain by that."""
        if not self.max_iterations:
            return exact
        trained = self._trained(rows, seed)
        return trained if trained.nll < exact.nll else exact

    def _trained(self, rows: TransferRows, seed: int) -> JudgedTransfer:
        """Return the model trained on its bound, by at most `max_iterations` of L-BFGS."""
        monitor = FitMonitor(
            None,
            num_data=float(sum(map(len, rows.domains))),
            total=self.max_iterations,
            verbose=self.verbose,
            log_dir=self.log_dir,
            publish=lambda: None,
            callback=None,
        )
        mixes = self._kind == "asymmetric" and rows.num_sources > 0
        with monitor:
            trained = train_transfer(
                rows,
                form=self.latent_posterior,
                kind=self._kind,
                mixing=self._fixed_shares(rows.num_sources) if mixes else None,
                prior=float(prior_concentration(len(rows.target))) if mixes else None,
                max_iterations=self.max_iterations,
                seed=seed,
                callback=lambda _, bound: monitor.report(bound / sum(map(len, rows.domains))),
            )
        self.learning_curve_ = monitor.curve
        return JudgedTransfer.of(trained)

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

    def _nodes(self, rows: TransferRows) -> MixingGrid:
        shares = self._fixed_shares(rows.num_sources) if rows.num_sources else None
        if shares is None:
            return prior_nodes(rows.num_sources, prior_concentration(len(rows.target)))
        return fixed_mixing(shares)

    def _fixed_shares(self, num_sources: int) -> tuple[float, ...] | None:
        """Return π of the sources, then of the target itself, where they are given; None to learn them."""
        if isinstance(self.mixing, str):
            return None
        shares = [self.mixing] if isinstance(self.mixing, Real) else list(self.mixing)
        if len(shares) != num_sources:
            raise ValueError(
                f"mixing has {len(shares)} shares, but there are {num_sources} sources. Give one share for "
                'each source, or "learned".'
            )
        return (*map(float, shares), 1.0 - float(sum(shares)))

    def _check_settings(self) -> None:
        if isinstance(self.mixing, str):
            if self.mixing != "learned":
                raise ValueError(f'mixing must be "learned" or shares of sources, but is {self.mixing!r}.')
        elif not _are_shares(self.mixing):
            raise ValueError(
                'mixing must be "learned", or shares of the sources in [0, 1] whose sum is at most 1, but is '
                f"{self.mixing!r}."
            )
        count = self.max_iterations
        if isinstance(count, bool) or not isinstance(count, Integral) or int(count) < 0:
            raise ValueError(f"max_iterations must be a whole number from 0, but is {count!r}.")
        if self.latent_posterior not in FORMS:
            raise ValueError(f"latent_posterior must be one of {FORMS}, but is {self.latent_posterior!r}.")
        noise = self.noise_variance
        is_number = isinstance(noise, Real) and not isinstance(noise, bool)
        if noise != "auto" and not (is_number and 0.0 < float(noise) < np.inf):
            raise ValueError(f'noise_variance must be "auto" or a positive number, but is {noise!r}.')
        if self.scaling not in SCALINGS:
            raise ValueError(f"scaling must be one of {SCALINGS}, but is {self.scaling!r}.")

    def _warn_of_harm(self) -> None:
        """Warn where the target's rows are predicted better without the sources."""
        with_sources, without, _ = self.leave_one_out_
        if self.domains_.sources and self.leave_one_out_.do_harm:
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
        x = checked_rows(self, X, reset=False, dtype=np.float64)
        if sample_domain is None:
            domain = np.full(len(x), TARGET, np.intp)
        else:
            domain = self.domains_.index(checked_domains(sample_domain, len(x)))
        mean = np.empty([len(x), self.model_.num_outputs])
        variance = np.zeros_like(mean)
        for start in range(0, len(x), CHUNK):
            block = slice(start, start + CHUNK)
            for k in np.unique(domain[block]):
                chosen = np.arange(len(x))[block][domain[block] == k]
                rows = self.scales_.scaled(x[chosen], int(k))
                if k == TARGET:
                    mean[chosen], variance[chosen] = self.model_.moments(rows)
                elif not isinstance(self.model_, ExactTransfer):
                    raise ValueError(
                        "The trained model predicts rows of the target alone, but sample_domain names a "
                        "source. ATL-DGP with max_iterations=0 predicts a source's rows too."
                    )
                else:
                    mean[chosen] = self.model_.source_mean(rows, int(k))
                    variance[chosen] = np.nan
        return mean, variance, domain

    def summary(self) -> str:
        """Return in words what the sources gave: their share of the mixture, and what leaving out says."""
        check_is_fitted(self)
        with_sources, without, error = self.leave_one_out_
        rows = len(self.model_.left_out.mean)
        lines = [f"{type(self).__name__}: {rows} labelled rows of the target, {self.n_features_in_} columns"]
        if self._kind == "symmetric":
            weights = zip(self.domains_.sources, self.transfer_weight_, strict=True)
            lines += [f"source {n} gives {w:.0%} of what the predictions vary with" for n, w in weights]
        sources = self.domains_.sources if self._kind == "asymmetric" else ()
        found = zip(sources, self.mixing_, self.mixing_std_, self.transfer_weight_, strict=False)
        for number, share, deviation, weight in found:
            lines.append(
                f"source {number} gives {share:.0%} ± {deviation:.0%} of the mixture, and {weight:.0%} of "
                "what the predictions vary with"
            )
        if self._alternative and self._kind == "asymmetric":
            kept = self._alternative if self.is_trained_ else f"the exact limit, since {self._why_exact}"
            lines.append(f"chosen by left-out rows: {kept}")
        if self.domains_.sources:
            them = "it" if len(self.domains_.sources) == 1 else "them"
            difference = f"difference {with_sources - without:+.3f} ± {error:.3f}"
            lines.append(
                f"leave-one-out NLL {with_sources:.3f} with {them}, {without:.3f} without ({difference})"
            )
            if self.leave_one_out_.do_harm:
                lines.append("The sources do not help: fit on the rows of the target alone.")
        else:
            lines.append(f"leave-one-out NLL {with_sources:.3f}; there is no source")
        return "\n".join(lines)


def _are_shares(mixing: Any) -> bool:
    """Whether a setting is one share, or a list of them, in [0, 1] with a sum of at most 1."""
    shares = [mixing] if isinstance(mixing, Real) else mixing
    if not isinstance(shares, Sequence | np.ndarray) or not len(shares):
        return False
    if any(isinstance(one, bool) or not isinstance(one, Real) for one in shares):
        return False
    values = np.array(shares, np.float64)
    return bool((values >= 0.0).all() and values.sum() <= 1.0 + 1e-12)
