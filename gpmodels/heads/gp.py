"""What the Gaussian-process heads share: their likelihood, and how their sparse units are made."""

import abc
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.heads.base import Head, Latent
from gpmodels.likelihoods import mixture
from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.density import DensityLikelihood
from gpmodels.likelihoods.factory import make_likelihood
from gpmodels.likelihoods.multilabel import MultilabelLikelihood
from gpmodels.likelihoods.votes import VotesLikelihood
from gpmodels.units.counts import check_counts
from gpmodels.units.kernels import make_kernel
from gpmodels.units.linear_mean import (
    MEANS,
    START_VARIANCE,
    START_VARIANCE_OF_TARGETS,
    LinearMean,
    MeanMarginal,
)
from gpmodels.units.numerics import precision
from gpmodels.units.sparse import UnitMarginal
from gpmodels.units.weight_posterior import MOST_FEATURES

CLASS_KERNELS = ("shared", "separate")

BestPosterior = Literal["closed_form", "sites", "optimiser"]
"""How a head's best q follows from its inducing inputs and hyper-parameters."""

BY_DENSITY = "density"
"""What the likelihood of a head is called that has a `DensityLikelihood`."""

DEFAULT_MULTI_CLASS = "softmax"
"""Likelihood of more than two classes; docs/results/tables.md has the comparison with robust-max."""


POSTERIOR_LIKELIHOODS = ("bernoulli", "logistic", "softmax", "robust_max")
"""Likelihoods under which the weights of a linear mean can have a posterior: of classes, by one layer."""


def has_mean_posterior(mean: str, likelihood: str) -> bool:
    """Return whether the weights of a head's linear mean can have a posterior.

    Example:
        >>> has_mean_posterior("linear", "softmax"), has_mean_posterior("linear", "gaussian")
        (True, False)
    """
    return mean == "linear" and likelihood in POSTERIOR_LIKELIHOODS


class Points(NamedTuple):
    """All training points of a full-batch fit, as tensors of the head's dtype.

    Attributes:
        x: Features, `[N, D]`.
        y: Class indices or targets, `[N]`.
        weight: How often each point counts, `[N]`.
        expert: Responsible expert, int32 `[N]`; 0 for a head without experts.
        logits: What linear layers that did not see each point say of it, `[N, P]`, in place of the linear
            mean's own; None takes its own.
        logit_variance: v of the linear layer at the points, `[N, P]`, which the logits come with; None where
            the layer is certain.
    """

    x: tf.Tensor
    y: tf.Tensor
    weight: tf.Tensor
    expert: tf.Tensor
    logits: tf.Tensor | None = None
    logit_variance: tf.Tensor | None = None


class GPHead(Head):
    """Base class of the Gaussian-process heads.

    Args:
        kernel: See `gpmodels.units.kernels.make_kernel`.
        kernel_depth: Layers of an arc-cosine kernel; 1 for the other kernels.
        num_classes: C; 2 takes one latent function, more take one for each class.
        likelihood: `"bernoulli"` (probit) or `"logistic"` for two classes, `"robust_max"` or `"softmax"` for
            more, `"gaussian"` for regression, `"poisson"` or `"negative_binomial"` for counts, `"multilabel"`
            for `num_classes` yes/no labels of each point, `"votes"` for shares of votes for each class, or a
            `DensityLikelihood`; None takes `"bernoulli"` or `"softmax"` by the number of classes.
        class_kernels: For more than two classes, `"shared"`: the latent functions of a unit share one
            kernel, which is faster; `"separate"`: one for each class, as the thesis has it.
        mean: `"linear"`: the GP corrects a linear layer on the same features, which is learned with it, see
            `gpmodels.units.linear_mean`. `"none"`: the latent functions have mean zero, as in the thesis.
            None takes `"linear"` where the head supports it.
        mean_posterior: Of how many features at most the weights of the linear mean have a posterior, see
            `gpmodels.units.weight_posterior`; True is its `MOST_FEATURES`, False none. It is for classes,
            and `linear_mean.start_from` gives it, which estimators and runs on fixed features call;
            `HybridModel.fit` does not, so that they stay certain.
        dtype: `"float32"` or `"float64"`.
        **kwargs: Passed to `keras.layers.Layer`.

    Raises:
        ValueError: A setting is out of range; the message names it.
    """

    supports_mean: ClassVar[bool] = True
    linear_mean: LinearMean | None = None

    def __init__(
        self,
        *,
        kernel: str = "squared_exponential",
        kernel_depth: int = 1,
        num_classes: int = 2,
        likelihood: str | DensityLikelihood | dict[str, Any] | None = None,
        class_kernels: str = "shared",
        mean: str | None = None,
        mean_posterior: int = False,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, **kwargs)
        # A wrong name or depth is an error here, not when the head is built.
        make_kernel(kernel, kernel_depth, self.variable_dtype)
        check_counts(least=2, num_classes=num_classes)
        if likelihood is None:
            likelihood = "bernoulli" if num_classes == 2 else DEFAULT_MULTI_CLASS
        if class_kernels not in CLASS_KERNELS:
            raise ValueError(f"class_kernels must be one of {CLASS_KERNELS}, but is {class_kernels!r}.")
        mean = ("linear" if self.supports_mean else "none") if mean is None else mean
        if mean not in MEANS or (mean == "linear" and not self.supports_mean):
            allowed = MEANS if self.supports_mean else MEANS[1:]
            raise ValueError(f"The mean of {type(self).__name__} must be one of {allowed}, but is {mean!r}.")
        if isinstance(likelihood, dict):  # of a file
            likelihood = DensityLikelihood.from_config(likelihood)
        if isinstance(likelihood, DensityLikelihood):
            num_classes = likelihood.num_classes or num_classes
        name = likelihood if isinstance(likelihood, str) else BY_DENSITY
        if mean_posterior and not has_mean_posterior(mean, name):
            raise ValueError(
                f"mean_posterior needs mean='linear' and a likelihood of {POSTERIOR_LIKELIHOODS}, but "
                f"mean is {mean!r} and likelihood {name!r}. Leave it out."
            )
        self.mean, self.mean_posterior = mean, mean_posterior
        self.kernel_name = kernel
        self.kernel_depth = kernel_depth
        self.num_classes = num_classes
        self.likelihood_name = name
        self.class_kernels = class_kernels
        self.variance_floor = precision(self.variable_dtype).variance_floor
        self.likelihood: Likelihood = (
            likelihood
            if isinstance(likelihood, DensityLikelihood)
            else make_likelihood(
                likelihood,
                num_classes=num_classes,
                num_units=self.num_likelihood_units(),
                dtype=self.variable_dtype,
            )
        )
        self.is_classifier = self.likelihood.is_classifier
        self.standardises_targets = self.likelihood.standardises_targets
        self.label_requirement = self.likelihood.label_requirement
        self.label_shape = self.likelihood.label_shape

    @property
    def of_labels(self) -> MultilabelLikelihood | VotesLikelihood:
        """The likelihood, where labels have a shape."""
        return cast("MultilabelLikelihood | VotesLikelihood", self.likelihood)

    def num_likelihood_units(self) -> int:
        """Return how many GP units have a noise variance of their own under a Gaussian likelihood."""
        return 1

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal head, by names of a `DensityLikelihood`'s functions."""
        own = self.likelihood
        by_name = {"likelihood": own.get_config()} if isinstance(own, DensityLikelihood) else {}
        return {**super().get_config(), **by_name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Return the head that `get_config` describes; one without a word of its mean has none."""
        return super().from_config({"mean": "none", **config})

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features `[..., input_shape[-1]]`."""
        self.adopt(self.likelihood, "likelihood")
        if self.mean == "linear":
            num_features = self._num_features(input_shape)
            most = MOST_FEATURES if self.mean_posterior is True else self.mean_posterior
            self.linear_mean = LinearMean(
                num_features=num_features,
                num_latents=self.likelihood.num_latents,
                is_uncertain=num_features <= most,
                dtype=self.variable_dtype,
            )
            self.adopt(self.linear_mean, "linear")
        super().build(input_shape)

    def start_variance(self, kernel_variance: float | None) -> float:
        """Return σ² of a unit at the start: the one asked for, or little beside a linear mean, else 1."""
        if kernel_variance is not None:
            return kernel_variance
        if self.mean == "none":
            return 1.0
        return START_VARIANCE_OF_TARGETS if self.standardises_targets else START_VARIANCE

    # f = m + g: families give the marginals of g, the residual, to which the linear mean is added.

    @abc.abstractmethod
    def folded_residual(self, folded: Any, features: tf.Tensor) -> Latent:
        """Return the marginals of g at features `[B, D]`.

        Args:
            folded: What `fold` returned for the present weights.
            features: The features.
        """

    def residual(self, features: tf.Tensor) -> Latent:
        """Return the marginals of g at features `[B, D]`."""
        return self.folded_residual(self.fold(), features)

    def routed_residual(self, features: tf.Tensor, expert: tf.Tensor) -> Latent:  # noqa: ARG002 - of heads with experts
        """Return `residual` with each point answered by the expert given, `[B]`."""
        return self.residual(features)

    def training_residual(self, features: tf.Tensor) -> Latent:
        """Return the marginals of g that a training step uses; a head that samples has others here."""
        return self.residual(features)

    def latent(self, features: tf.Tensor) -> Latent:
        """Return the marginals of f at features `[B, D]`."""
        return self.with_mean(self.residual(features), features)

    def folded_latent(self, folded: Any, features: tf.Tensor) -> Latent:
        """Return `latent` at features `[B, D]`.

        Args:
            folded: What `fold` returned for the present weights.
            features: The features.
        """
        return self.with_mean(self.folded_residual(folded, features), features)

    def routed_latent(self, features: tf.Tensor, expert: tf.Tensor) -> Latent:
        """Return `latent` with each point answered by the expert given, `[B]`."""
        return self.with_mean(self.routed_residual(features, expert), features)

    def training_latent(self, features: tf.Tensor) -> Latent:
        """Return the marginals of f that a training step uses."""
        return self.with_mean(self.training_residual(features), features)

    def latent_at(self, points: Points) -> Latent:
        """Return the marginals of f at training points, by their experts and their own `logits`."""
        return self.shifted(self.routed_residual(points.x, points.expert), self.mean_at(points))

    def shifted(self, residual: Latent, mean: MeanMarginal | None) -> Latent:
        """Return the marginals of f = m + g from those of g and of m `[B, P]`; None leaves g as it is."""
        if mean is None:
            return residual
        variance = residual.variance if mean.variance is None else residual.variance + mean.variance
        return replace(residual, mean=residual.mean + mean.mean, variance=variance)

    def with_mean(self, residual: Latent, features: tf.Tensor) -> Latent:
        """Return the marginals of f from those of g at features `[B, D]`."""
        return self.shifted(
            residual, None if self.linear_mean is None else self.linear_mean.marginal(features)
        )

    def mean_at(self, points: Points) -> MeanMarginal | None:
        """Return m at training points, by their own `logits` if they have some; None without m."""
        if self.linear_mean is None:
            return None
        if points.logits is None:
            return self.linear_mean.marginal(points.x)
        return self.linear_mean.marginal_of(points.logits, points.logit_variance)

    def _with_constant_mean(self, residual: Callable[[tf.Tensor], Latent]) -> Callable[[tf.Tensor], Latent]:
        """Return a folded `residual` with the linear mean added as constants, if there is one."""
        if self.linear_mean is None:
            return residual
        mean = self.linear_mean.for_inference()
        return lambda features: self.shifted(residual(features), mean(features))

    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Place the units by a sample of feature vectors `[N, D]`; each subclass places its own."""

    def initialize_from_labels(
        self,
        features: npt.NDArray[np.floating[Any]],
        labels: npt.NDArray[np.floating[Any]],
        *,
        seed: int = 0,
    ) -> None:
        """Start what the likelihood takes from labels `[N]`, as counts their mean; see `Head`."""
        super().initialize_from_labels(features, labels, seed=seed)
        self.likelihood.start_from(labels)

    def is_placed(self) -> bool:
        """Whether `initialize` or training has moved the head from where it is made."""
        if not self.built:
            return False
        if any(np.any(values != 1.0) for values in self.lengthscales()):
            return True
        # Features can ask for lengthscales of 1, as new ones are: two values that are equally frequent do.
        new = type(self).from_config(self.get_config())
        new.build_from_config(self.get_build_config())
        drawn = None if self.linear_mean is None else self.linear_mean.kernel.unconstrained_variable
        return any(
            own.value is not drawn and np.any(own.numpy() != made.numpy())
            for own, made in zip(self.weights, new.weights, strict=True)
        )

    def total_variance(self, marginal: UnitMarginal) -> tf.Tensor:
        """Return the sum of both parts of a unit's variance; rounding can take it a little below 0."""
        return tf.maximum(marginal.conditional_variance + marginal.inducing_variance, self.variance_floor)

    def responsible_unit(self, latent: Latent) -> tf.Tensor:
        """Return the index of the unit whose noise applies to each point, int32 `[B]`."""
        return self.unit_of_expert(self.responsible_expert(latent))

    def unit_of_expert(self, expert: tf.Tensor) -> tf.Tensor:
        """Return the index of the unit whose noise applies where `expert [B]` answers, int32 `[B]`."""
        return expert

    def expected_log_likelihood(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """Return E[log p(y | f)] of each point, nats, `[B]`."""
        marginals = (latent.mean, latent.variance, latent.log_weight)
        return mixture.expected_log_likelihood(
            self.likelihood, *marginals, label, self.responsible_unit(latent)
        )

    def log_predictive_density(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """Return log E[p(y | f)] of each point, nats, `[B]`."""
        marginals = (latent.mean, latent.variance, latent.log_weight)
        return mixture.log_predictive_density(
            self.likelihood, *marginals, label, self.responsible_unit(latent)
        )

    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each of the labels `[B]` is one that the likelihood knows, bool `[B]`."""
        return self.likelihood.valid_labels(label)

    def predictions(self, latent: Latent) -> dict[str, tf.Tensor]:
        """Return probabilities and entropies of each point, or mean and variance of its target."""
        marginals = (latent.mean, latent.variance, latent.log_weight)
        return mixture.predictions(self.likelihood, *marginals, self.responsible_unit(latent))

    def class_log_probabilities(
        self, latent: Latent, outputs: Mapping[str, tf.Tensor] | None = None
    ) -> tf.Tensor:
        """Return log p_c of each point, `[B, C]`; of two classes both with all their digits.

        Args:
            latent: Marginals at the points.
            outputs: `predictions` of them, where they are known.

        Raises:
            TypeError: The head is none of a classifier.
        """
        if not self.is_classifier:
            raise TypeError(f"{self.name} has a likelihood of real targets, which have no classes.")
        if self.num_classes == 2:
            mean = latent.mean[..., 0]
            zeros = tf.zeros_like(mean if latent.log_weight is None else mean[0])
            labels = (zeros, tf.ones_like(zeros))
            return tf.stack([self.log_predictive_density(latent, label) for label in labels], axis=-1)
        probability = (outputs or self.predictions(latent))["probability"]
        return tf.math.log(tf.maximum(probability, np.finfo(probability.dtype.as_numpy_dtype).tiny))

    # What a prediction computes of the weights alone is computed once for many calls, where a head can.

    def fold(self) -> Any:
        """Return nested tensors that follow from the weights alone, for `folded_residual`; none by default.

        `folded_residual` takes them.
        """
        return ()

    # How the estimators fit a head to all rows at once. Without a closed form L-BFGS moves q like all else.

    @property
    def best_posterior_by(self) -> BestPosterior:
        """How the best q for everything else given is found: not at all, `"optimiser"`, in most heads.

        `"closed_form"` and `"sites"` need `posterior_units` and the methods of the same name, see
        `gpmodels.heads.conjugate_head.ConjugateHead`.
        """
        return "optimiser"

    @property
    def posterior_units(self) -> tuple[Any, ...]:
        """Units whose `q_mean` and `q_sqrt` the closed form or the sites give, rather than an optimiser."""
        return ()

    def collapsed_bound(self, points: Points, warm_up: tf.Tensor) -> tf.Tensor:
        """Return max_q of the objective at all points, nats, a scalar, where q has a closed form.

        Args:
            points: All training points.
            warm_up: What the part of the penalty counts that a warm-up weighs, see `warm_up_weights`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no closed form of q.")

    def set_best_posterior(self, points: Points) -> None:
        """Set q to the best at all points, where it has a closed form."""
        raise NotImplementedError(f"{type(self).__name__} has no closed form of q.")

    def leaving_out(self, points: Points) -> Callable[[Points], Latent]:
        """Return a function from some of all training points to their marginals without their own labels.

        Args:
            points: All training points.

        Raises:
            NotImplementedError: The head's posterior is not one of sites.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot leave points out of its posterior.")

    @property
    def warm_up_weights(self) -> tuple[float, ...]:
        """What a part of the penalty counts in the first rounds of a fit, before it counts in full."""
        return ()

    def left_out(self, warm_up: float) -> float:  # noqa: ARG002 - others need it
        """Return what a warm-up of that weight leaves out of the objective, nats."""
        return 0.0
