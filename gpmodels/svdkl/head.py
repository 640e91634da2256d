"""Stochastic variational deep kernel learning: additive Gaussian processes on a network's features."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.heads.base import Latent, UnitDescription
from gpmodels.heads.gp import GPHead
from gpmodels.likelihoods.softmax import SoftmaxLikelihood
from gpmodels.svdkl.likelihood import MixedLikelihood, MixedSoftmaxLikelihood
from gpmodels.units.counts import check_counts
from gpmodels.units.folded import compact, compact_marginal
from gpmodels.units.placement import place_global
from gpmodels.units.sparse import SparseUnits
from gpmodels.units.views import Views, normalised_views, padded_columns, view_blocks

MOST_DEFAULT_GPS = 32
"""GPs of a head that is given neither `groups` nor `num_gps`; the nodes of a softmax grow with them."""

LIKELIHOODS = (None, "bernoulli", "logistic", "softmax", "gaussian")


@keras.saving.register_keras_serializable("gpimaging")
class SVDKLHead(GPHead):
    """Gaussian processes on single features or groups of them, mixed linearly: f = A g, as a Keras layer.

    Each g_j is a sparse GP of a few features, and A `[C, J]` is learned with everything else. Conditionals
    are exact: 20 inducing points in one dimension cost no more than the grid of the paper, whose
    interpolation leaves out what the grid's values do not decide and is too sure between and beyond them.

    A network with `SVGPHead` is deep kernel learning too, with one GP of all features. Either can overfit a
    few hundred images, worse than a plain network: compare with a linear head and a temperature.

    Args:
        groups: Columns of each GP: column indices or a slice for each; a column may be in several.
        num_gps: J, GPs on as many groups of consecutive columns; None takes one for each feature, at most 32.
        num_inducing: M of each GP.
        kernel_variance: σ² of each GP at the start.
        seed: Of A at the start.
        **kwargs: `kernel`, `kernel_depth`, `num_classes`, `likelihood` (probit, logistic, softmax or
            Gaussian) and `dtype` of `GPHead`; the rest of `keras.layers.Layer`.

    Raises:
        ValueError: A setting is out of range; the message names it.

    Source:
        Wilson, Hu, Salakhutdinov and Xing (2016), Stochastic variational deep kernel learning. Departures in
        docs/theory.md, "Stochastic variational deep kernel learning".

    Example:
        >>> SVDKLHead(num_inducing=5, num_classes=3)(tf.zeros([2, 7, 4]))["probability"].shape
        TensorShape([2, 7, 3])
    """

    supports_mean = False  # the latent functions are those before the mixing A

    def __init__(
        self,
        *,
        groups: Sequence[Sequence[int] | slice] | None = None,
        num_gps: int | None = None,
        num_inducing: int = 20,
        kernel_variance: float = 1.0,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_counts(num_inducing=num_inducing, num_gps=1 if num_gps is None else num_gps)
        self.groups = None if groups is None else normalised_views(groups, "group")
        if self.groups is not None and num_gps not in (None, len(self.groups)):
            raise ValueError(
                f"num_gps is {num_gps}, but there are {len(self.groups)} groups, and each has one GP. Leave "
                "num_gps out."
            )
        if self.likelihood_name not in LIKELIHOODS:
            raise ValueError(
                f"The likelihood of an SVDKL head must be one of {LIKELIHOODS[1:]}, but is "
                f"{self.likelihood_name!r}: its latent functions are correlated."
            )
        if self.class_kernels != "shared":
            raise ValueError(
                "class_kernels must be 'shared', since each GP has a kernel of its own already, but is "
                f"{self.class_kernels!r}."
            )
        self.num_gps = num_gps
        if not 0.0 < kernel_variance < math.inf:
            raise ValueError(f"kernel_variance must be positive and finite, but is {kernel_variance}.")
        self.num_inducing = num_inducing
        self.kernel_variance = kernel_variance
        self.seed = seed

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features `[..., input_shape[-1]]`.

        Raises:
            ValueError: The number of features is not known, or a group or `num_gps` goes beyond it.
        """
        num_features = self._num_features(input_shape)
        self.columns_of_gp = self._columns_of_gps(num_features)
        self._columns = padded_columns(self.columns_of_gp, num_features)
        self._width = self._columns.shape[1]
        num_gps = len(self.columns_of_gp)
        self.units = SparseUnits(
            num_units=num_gps,
            num_inducing=self.num_inducing,
            num_features=self._width,
            kernel=self.kernel_name,
            kernel_depth=self.kernel_depth,
            kernel_variance=self.kernel_variance,
            dtype=self.variable_dtype,
            role=f"GPs of {self.name}",
        )
        within = np.arange(self._width) < np.array([len(c) for c in self.columns_of_gp])[:, None, None]
        self.units.inducing_inputs.assign(self.units.inducing_inputs.numpy() * within)
        self.likelihood = self._mixed_likelihood(num_gps)
        self.adopt(self.units, "gps")
        super().build(input_shape)

    def _columns_of_gps(self, num_features: int) -> Views:
        """Return the columns of each GP."""
        if self.groups is not None:
            largest = max(map(max, self.groups))
            if largest >= num_features:
                raise ValueError(
                    f"A group of {self.name} names column {largest}, but there are {num_features} features, "
                    "counted from 0. Leave it out."
                )
            return self.groups
        num_gps = min(num_features, MOST_DEFAULT_GPS) if self.num_gps is None else self.num_gps
        if num_gps > num_features:
            raise ValueError(
                f"num_gps is {num_gps}, but there are only {num_features} features to share out. Lower it, "
                "or name the columns of each GP with groups."
            )
        parts = np.array_split(np.arange(num_features), num_gps)
        return tuple(tuple(int(column) for column in part) for part in parts)

    def _mixed_likelihood(self, num_gps: int) -> MixedSoftmaxLikelihood | MixedLikelihood:
        """Return the likelihood of g, with A drawn so that f has the variance of one GP."""
        rng = np.random.default_rng(self.seed)
        if isinstance(self.likelihood, SoftmaxLikelihood):
            square = num_gps == self.num_classes
            drawn = rng.standard_normal([self.num_classes, num_gps]) / np.sqrt(num_gps)
            mixing = np.eye(num_gps) if square else drawn
            return MixedSoftmaxLikelihood(self.num_classes, mixing, self.variable_dtype)
        sign = rng.choice([-1.0, 1.0], num_gps)
        return MixedLikelihood(self.likelihood, sign / np.sqrt(num_gps), self.variable_dtype)

    @property
    def unit_names(self) -> tuple[str, ...]:
        """`"gp_1"` to `"gp_J"`; those of a built head."""
        return tuple(f"gp_{number}" for number in range(1, len(self.columns_of_gp) + 1))

    @property
    def posterior_units(self) -> tuple[SparseUnits, ...]:
        """The GPs."""
        return (self.units,)

    def describe(self) -> tuple[UnitDescription, ...]:
        """Return a description of each GP."""
        return tuple(
            UnitDescription(name, self.num_inducing, variance)
            for name, variance in zip(self.unit_names, self.units.variance.numpy(), strict=True)
        )

    def lengthscales(self) -> list[npt.NDArray[np.floating[Any]]]:
        """Return ℓ of each GP, `[1, columns of its group]`."""
        values = self.units.lengthscales.numpy()
        return [value[:, : len(columns)] for value, columns in zip(values, self.columns_of_gp, strict=True)]

    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Place each GP at k-means centres of its own columns of `features [N, D]`."""
        rng = np.random.default_rng(seed)
        inducing = np.zeros(self.units.inducing_inputs.shape)
        lengthscales = np.ones([len(self.columns_of_gp), self._width])
        for j, columns in enumerate(self.columns_of_gp):
            own = features[:, list(columns)]
            centres, scales = place_global(own, self.num_inducing, rng)
            inducing[j, :, : len(columns)], lengthscales[j, : len(columns)] = centres[0], scales[0]
        self.units.place(inducing, lengthscales)

    def folded_residual(self, folded: Any, features: tf.Tensor) -> Latent:  # noqa: ARG002 - it folds nothing
        """Return the marginals of the GPs g, not of f = A g, at features `[B, D]`: `[B, J]`."""
        marginal = self.units.marginal(self.units.fold(), view_blocks(features, self._columns))
        return Latent(self._by_point(marginal.mean), self._by_point(self.total_variance(marginal)))

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """Return `latent` with the GPs folded once."""
        units = compact(self.units)

        def latent(features: tf.Tensor) -> Latent:
            mean, variance = compact_marginal(units, view_blocks(features, self._columns), self.units.kernel)
            return Latent(self._by_point(mean), tf.maximum(self._by_point(variance), self.variance_floor))

        return latent

    def _by_point(self, values: tf.Tensor) -> tf.Tensor:
        """Return values `[J, B, 1]` as `[B, J]`."""
        return tf.transpose(values[..., 0])

    def prior_kl(self) -> tf.Tensor:
        """Return KL(q(v_j) ‖ p(v_j)) of each GP, nats, `[J]`."""
        return self.units.prior_kl()
