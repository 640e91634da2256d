"""The deep feed-forward GP head (Kandemir and Hamprecht): sparse GPs on the features, a GP on their values.

    b_nr ~ GP_r(x_n),  r = 1..ν          hidden layer, one view of the features for each unit if asked for
    f_n ~ GP(b_n)                        output layer, one function for each of more than two classes
    y_n = f_n + ε,  ε ~ N(0, 1/β)        the target, or p(t_n = 1) = Φ(y_n)

With the moments μ_n, v_n of f_n (`gpmodels.dfgp.units`) the objective is (docs/theory.md)

    regression      Σ_n [log N(y_n | μ_n, 1/β) - β v_n/2] - KL(q(u)) - Σ_r KL(q(a_r))
    classification  Σ_n [log Φ(s_n μ_n/√(1 + 1/β)) - β v_n/2] - KL(q(u)) - Σ_r KL(q(a_r))

a lower bound of log p(y). Departures from the paper: q(a_r) is Gaussian by default, where the paper's spike
has an infinite divergence and what its code optimises is MAP (`hidden_posterior="point"`); the paper's
printed bounds drop constants, so that they exceed the evidence, and multiply by t_n what belongs to every n.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.dfgp.placement import (
    fit_hidden_means,
    label_targets,
    place_hidden,
    place_outputs,
    random_targets,
)
from gpmodels.dfgp.posterior import assign_best_posterior, deep_collapsed_bound
from gpmodels.dfgp.units import (
    HIDDEN_LENGTHSCALES,
    HIDDEN_POSTERIORS,
    FoldedOutputs,
    HiddenMarginal,
    HiddenUnits,
    OutputUnits,
)
from gpmodels.heads.base import Latent
from gpmodels.heads.gp import BestPosterior, GPHead, Points
from gpmodels.units.counts import check_counts
from gpmodels.units.psi_statistics import closed_form
from gpmodels.units.views import normalised_views

DFGP_LIKELIHOODS = ("noisy_probit", "gaussian")

WARM_UP_WEIGHTS = (0.3, 0.65)
"""What the KL of the hidden units counts in the rounds before it counts in full. With few data the bound
has a local maximum where all hidden units are as the prior has them and nothing is predicted; a fit with the
whole KL from the start often ends there, one that warms up (Sønderby et al., 2016) at higher values of the
same bound."""


@keras.saving.register_keras_serializable("gpimaging")
class DFGPHead(GPHead):
    """Deep feed-forward Gaussian process as a Keras layer, for classes or real targets.

    Args:
        num_hidden: ν, hidden units; None takes one for each view, or without views a quarter of the features,
            see `default_num_hidden`.
        num_inducing: M of the output layer, of each of its functions.
        num_hidden_inducing: M of each hidden unit, by default as many.
        views: Columns of the features that each hidden unit sees, for multiple-kernel learning: a sequence of
            column indices or a slice for each. None shows all columns to all units.
        kernel: Kernel of the hidden units, see `gpmodels.units.kernels.make_kernel`.
        output_kernel: `"ard"`, `"rbf"` (one lengthscale), `"full"` (a matrix J = R Rᵀ) or `"linear"`,
            with which the model is DFGP-WP, a Wishart process prior on the covariance of f.
        hidden_posterior: `"gaussian"`, or `"point"` for the paper's, see
            `gpmodels.dfgp.units.HiddenUnits`.
        hidden_lengthscales: `"learned"`, one for each column that a unit sees; or `"median"`, where they
            stay at the median distance at which `initialize` places them, as is usual in
            multiple-kernel learning. That may help where rows are few and `hidden_kl_weight` is small.
        hidden_kl_weight: What Σ_r KL(q(a_r)) counts in the objective, in (0, 1]. With 1 that is a bound on
            the evidence. Where rows are few the KL outweighs what they say, and few hidden units take part:
            less, 0.1 say, tempers it. The objective is then no bound; choose the value on data held out.
        likelihood: `"noisy_probit"` for classes (more than two: one against the rest), `"gaussian"`;
            None takes the first.
        **kwargs: `kernel_depth`, `num_classes`, `class_kernels` (of the output layer), `mean`, `dtype` of
            `GPHead`; the rest of `keras.layers.Layer`.

    Raises:
        ValueError: A setting is out of range; the message names it.

    Source:
        Paper, sections 3, 4.1 and appendix.

    Example:
        >>> head = DFGPHead(views=[[0, 1], slice(2, 5)], num_inducing=5)
        >>> head(tf.zeros([2, 7, 5]))["probability"].shape
        TensorShape([2, 7])
        >>> DFGPHead(num_hidden=2, num_classes=3)(tf.zeros([2, 4]))["probability"].shape
        TensorShape([2, 3])
    """

    def __init__(  # noqa: PLR0913 - so many things make the head
        self,
        *,
        num_hidden: int | None = None,
        num_inducing: int = 20,
        num_hidden_inducing: int | None = None,
        views: Sequence[Sequence[int] | slice] | None = None,
        output_kernel: str = "ard",
        hidden_posterior: str = "gaussian",
        hidden_lengthscales: str = "learned",
        hidden_kl_weight: float = 1.0,
        likelihood: str | None = None,
        **kwargs: Any,
    ) -> None:
        likelihood = "noisy_probit" if likelihood is None else likelihood
        if likelihood not in DFGP_LIKELIHOODS:
            raise ValueError(f"likelihood must be one of {DFGP_LIKELIHOODS}, but is {likelihood!r}.")
        super().__init__(likelihood=likelihood, **kwargs)
        self.num_hidden_inducing = num_inducing if num_hidden_inducing is None else num_hidden_inducing
        check_counts(
            num_hidden=1 if num_hidden is None else num_hidden,
            num_inducing=num_inducing,
            num_hidden_inducing=self.num_hidden_inducing,
        )
        for setting, text, allowed in (
            ("hidden_posterior", hidden_posterior, HIDDEN_POSTERIORS),
            ("hidden_lengthscales", hidden_lengthscales, HIDDEN_LENGTHSCALES),
        ):
            if text not in allowed:
                raise ValueError(f"{setting} must be one of {allowed}, but is {text!r}.")
        if not 0.0 < hidden_kl_weight <= 1.0:
            raise ValueError(f"hidden_kl_weight must be above 0 and at most 1, but is {hidden_kl_weight}.")
        # An unknown kernel is an error here, not when the head is built.
        closed_form(output_kernel)
        self.views = None if views is None else normalised_views(views)
        if self.views is not None and num_hidden not in (None, len(self.views)):
            raise ValueError(
                f"num_hidden is {num_hidden}, but there are {len(self.views)} views, and each hidden unit "
                "has one. Leave num_hidden out; to give a view two units, name it twice."
            )
        self.num_hidden = num_hidden
        self.num_inducing = num_inducing
        self.output_kernel = output_kernel
        self.hidden_posterior = hidden_posterior
        self.hidden_lengthscales = hidden_lengthscales
        self.hidden_kl_weight = hidden_kl_weight

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features `[..., input_shape[-1]]`.

        Raises:
            ValueError: The number of features is not known, or a view has columns beyond it.
        """
        num_features = self._num_features(input_shape)
        if self.views is not None and max(map(max, self.views)) >= num_features:
            raise ValueError(
                f"A view of {self.name} has column {max(map(max, self.views))}, but there are {num_features} "
                "features, counted from 0."
            )
        if self.views is not None:
            num_hidden = len(self.views)
        else:
            num_hidden = default_num_hidden(num_features) if self.num_hidden is None else self.num_hidden
        self.hidden = HiddenUnits(
            num_features=num_features,
            num_hidden=num_hidden,
            num_inducing=self.num_hidden_inducing,
            views=self.views,
            kernel=self.kernel_name,
            kernel_depth=self.kernel_depth,
            posterior=self.hidden_posterior,
            lengthscales=self.hidden_lengthscales,
            dtype=self.variable_dtype,
            role=f"hidden units of {self.name}",
        )
        self.outputs = OutputUnits(
            num_outputs=self.likelihood.num_latents,
            num_inducing=self.num_inducing,
            num_hidden=num_hidden,
            kernel=self.output_kernel,
            shared_kernel=self.class_kernels == "shared",
            dtype=self.variable_dtype,
            role=f"output unit of {self.name}",
        )
        self.adopt(self.hidden, "hidden")
        self.adopt(self.outputs, "output")
        super().build(input_shape)

    @property
    def unit_names(self) -> tuple[str, ...]:
        """`"hidden_1"` to `"hidden_ν"`, and `"output"`, or `"output_1"` to `"output_C"`."""
        hidden = [f"hidden_{r}" for r in range(1, self.hidden.num_hidden + 1)]
        outputs = self.outputs.num_outputs
        return (*hidden, *(["output"] if outputs == 1 else [f"output_{c}" for c in range(1, outputs + 1)]))

    def lengthscales(self) -> list[npt.NDArray[np.floating[Any]]]:
        """Return ℓ of each unit `[1, D_r]`, of its view's columns or, for an output, of the hidden units."""
        outputs = self.outputs.kernel.lengthscales()
        rows = np.repeat(outputs, self.outputs.num_outputs // len(outputs), axis=0)
        return [*self.hidden.lengthscales(), *rows[:, None]]

    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Place both layers by a sample of features `[N, D]`, hidden means in random directions."""
        super().initialize(features, seed=seed)
        rng = np.random.default_rng(seed)
        place_hidden(self.hidden, features, rng)
        self._place_outputs(features, random_targets(self.hidden.num_hidden, features, rng), rng)

    def initialize_from_labels(
        self,
        features: npt.NDArray[np.floating[Any]],
        labels: npt.NDArray[np.floating[Any]],
        *,
        seed: int = 0,
    ) -> None:
        """Make the hidden means follow the labels `[N]`, and q(u) be the best there is."""
        num_classes = self.num_classes if self.is_classifier else None
        targets = label_targets(labels, self.hidden.num_hidden, num_classes)
        self._place_outputs(features, targets, np.random.default_rng([seed, 1]))
        x = tf.constant(features, self.variable_dtype)
        y = tf.constant(labels, self.variable_dtype)
        mean = None if self.linear_mean is None else self.linear_mean(x)
        assign_best_posterior(self, x, y, tf.ones_like(y), mean)

    def _place_outputs(
        self,
        features: npt.NDArray[np.floating[Any]],
        targets: npt.NDArray[np.floating[Any]],
        rng: np.random.Generator,
    ) -> None:
        fit_hidden_means(self.hidden, features, targets)
        means = self.hidden_marginal(tf.constant(features, self.variable_dtype)).mean
        place_outputs(self.outputs, means.numpy().astype(np.float64), rng)

    def hidden_marginal(self, features: tf.Tensor) -> HiddenMarginal:
        """Return the marginals of the hidden units' values at features `[B, D]`."""
        return self.hidden.marginal(self.hidden.units.fold(), features)

    def fold(self) -> Any:
        """Return the hidden units and the output functions, folded."""
        return self.hidden.fold(), self.outputs.fold()

    def residual(self, features: tf.Tensor) -> Latent:
        """Return mean and variance of the output functions; what is folded has no gradient."""
        return self._latent(self.outputs.fold(), self.hidden_marginal(features))

    def folded_residual(self, folded: Any, features: tf.Tensor) -> Latent:
        """Return mean and variance of the output functions by the layers that `fold` returned."""
        hidden, outputs = folded
        return self._latent(outputs, self.hidden.folded_marginal(hidden, features))

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """Return `latent` with both layers folded once."""
        hidden, outputs = self.fold()
        return self._with_constant_mean(
            lambda features: self._latent(outputs, self.hidden.folded_marginal(hidden, features))
        )

    def _latent(self, outputs: FoldedOutputs, hidden: HiddenMarginal) -> Latent:
        mean, variance = (
            tf.cast(part, self.compute_dtype) for part in self.outputs.marginal(outputs, hidden)
        )
        variance = tf.maximum(variance, self.variance_floor)
        return Latent(mean, variance)

    def prior_kl(self) -> tf.Tensor:
        """Return KL of each hidden unit (-log density of a point posterior) and output function, nats."""
        return tf.concat([self.hidden.prior_kl(), self.outputs.prior_kl()], axis=0)

    def penalty(self) -> tf.Tensor:
        """Return the sum of `prior_kl`, that of the hidden units by `hidden_kl_weight`."""
        hidden = tf.reduce_sum(self.hidden.prior_kl())
        return self.hidden_kl_weight * hidden + tf.reduce_sum(self.outputs.prior_kl())

    @property
    def best_posterior_by(self) -> BestPosterior:
        """How the best q(u) is found: in closed form, see `gpmodels.dfgp.posterior`."""
        return "closed_form"

    @property
    def posterior_units(self) -> tuple[OutputUnits]:
        """The output functions; q of the hidden units is left to the optimiser."""
        return (self.outputs,)

    def collapsed_bound(self, points: Points, warm_up: tf.Tensor) -> tf.Tensor:
        """Return the objective at the best q(u), nats, a scalar; `warm_up` weighs the hidden units' KL."""
        hidden_kl_weight = warm_up * self.hidden_kl_weight
        bound = deep_collapsed_bound(self, *points[:3], hidden_kl_weight, self._mean_at(points))
        return tf.cast(bound, points.x.dtype)

    def set_best_posterior(self, points: Points) -> None:
        """Set q(u) to the best at all points."""
        assign_best_posterior(self, *points[:3], self._mean_at(points))

    def _mean_at(self, points: Points) -> tf.Tensor | None:
        """Return m at training points, `[N, P]`, which has no variance here."""
        mean = self.mean_at(points)
        return None if mean is None else mean.mean

    @property
    def warm_up_weights(self) -> tuple[float, ...]:
        """What the KL of the hidden units counts in the rounds before it counts in full."""
        return WARM_UP_WEIGHTS

    def left_out(self, warm_up: float) -> float:
        """Return what a warm-up of that weight leaves out of the objective, nats."""
        left_out = self.hidden_kl_weight * (1.0 - warm_up)
        return left_out * float(tf.reduce_sum(self.hidden.prior_kl())) if left_out else 0.0

    def view_weights(self, features: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
        """Return the share of each hidden unit, so of each view, in what the output functions vary with.

        Unit r's weight is its share of `Σ_p E_n[(∂μ_np/∂b_nr)²] Var_n[b_nr]`: the variance that its hidden
        means bring into the means μ_p of the output functions, to first order (derivative-based sensitivity,
        Sobol and Kucherenko, 2009). It does not depend on the scale of b_r; with a linear output kernel it is
        the share in the variance exactly, if the hidden means are uncorrelated.

        Args:
            features: Points, `[N, D]`.

        Returns:
            Weights of sum 1, `[ν]`; equal ones where nothing varies.
        """
        hidden = self.hidden_marginal(tf.constant(features, self.variable_dtype))
        folded = self.outputs.fold()
        squares = np.zeros(self.hidden.num_hidden)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(hidden.mean)
            means = tf.unstack(self.outputs.marginal(folded, hidden)[0], axis=1)
        for mean in means:
            squares += np.mean(tape.gradient(mean, hidden.mean).numpy().astype(np.float64) ** 2, axis=0)
        parts = squares * hidden.mean.numpy().astype(np.float64).var(axis=0)
        even = np.full(len(parts), 1.0 / len(parts))
        return parts / parts.sum() if parts.sum() > 0.0 else even


def default_num_hidden(num_features: int) -> int:
    """Return ν where it is not given: a quarter of the features as in the paper, from 4 to 32, at most D.

    Example:
        >>> default_num_hidden(50), default_num_hidden(8), default_num_hidden(2)
        (12, 4, 2)
    """
    return min(max(num_features // 4, 4), 32, num_features)
