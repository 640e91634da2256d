"""What every likelihood p(y | f) answers, given Gaussian marginals of the P latent functions of a point."""

import abc
from typing import Any, NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes


class TermsAtMean(NamedTuple):
    """Terms of a likelihood with Gaussian noise whose bound is `t(μ) - β v/2`, at some means.

    Attributes:
        value: t(μ), nats, `[B, P]`.
        slope: t'(μ), `[B, P]`.
        curvature: t''(μ), within -β and 0, `[B, P]`.
        noise_precision: β, `[P]`.
    """

    value: tf.Tensor
    slope: tf.Tensor
    curvature: tf.Tensor
    noise_precision: tf.Tensor


class Likelihood(gpflow.Module, abc.ABC):
    """Base class of the likelihoods; `make_likelihood` makes one from its name.

    The latent functions of a point are independent under q: f_p ~ N(mean_p, variance_p). Every point also
    comes with the GP unit that answers for it (0 is the global unit, k ≥ 1 expert k), because a likelihood
    may have parameters of its own for each unit.

    Attributes:
        num_latents: P, latent functions of a point.
        is_classifier: Whether labels are classes, 0 to C - 1, rather than real targets.
        standardises_targets: Whether targets are learned at mean 0 and variance 1; counts are not.
        label_requirement: What a valid label is, to complete "a label must be ...".
        label_shape: Shape of a point's label: () of one, (L,) of several yes/no labels.
    """

    num_latents: int
    is_classifier: bool
    label_requirement: str
    label_shape: tuple[int, ...] = ()
    standardises_targets: bool = False

    def start_from(self, labels: npt.NDArray[np.floating[Any]]) -> None:
        """Start what follows from the labels of a sample `[N]`, all valid; nothing in most likelihoods."""

    @abc.abstractmethod
    @check_shapes("mean: [B, P]", "variance: [B, P]", "label: [B]", "unit: [B]", "return: [B]")
    def expected_log_likelihood(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return E_q[log p(y | f)] of each point, the data's terms of the bound, in nats.

        Args:
            mean: μ of the latent functions, `[B, P]`.
            variance: Their σ², positive, `[B, P]`.
            label: y, of any dtype, `[B]`.
            unit: GP unit of each point, int32 `[B]`.

        Returns:
            `[B]`, differentiable; finite where the marginals are finite and the label is valid.
        """

    @abc.abstractmethod
    @check_shapes("mean: [B, P]", "variance: [B, P]", "label: [B]", "unit: [B]", "return: [B]")
    def log_predictive_density(
        self, mean: tf.Tensor, variance: tf.Tensor, label: tf.Tensor, unit: tf.Tensor
    ) -> tf.Tensor:
        """Return log E_q[p(y | f)] of each point in nats; arguments as for `expected_log_likelihood`."""

    @check_shapes("mean: [B, P]", "variance: [B, P]", "label: [B]", "unit: [B]", "return: [B]")
    def log_expected_inverse(
        self,
        mean: tf.Tensor,  # noqa: ARG002 - the likelihoods with a closed form need the arguments
        variance: tf.Tensor,  # noqa: ARG002 - as above
        label: tf.Tensor,  # noqa: ARG002 - as above
        unit: tf.Tensor,  # noqa: ARG002 - as above
    ) -> tf.Tensor:
        """Return log E_q[1/p(y | f)] of each point in nats; arguments as for `expected_log_likelihood`.

        Raises:
            ValueError: It is infinite, or has no closed form, as for a probit.
        """
        raise ValueError(
            f"E[1/p(y | f)] under the {type(self).__name__} is infinite or has no closed form, so that "
            "objective='loo_paper' does not exist. Choose objective='loo', which holds for every likelihood."
        )

    @abc.abstractmethod
    @check_shapes("mean: [B, P]", "variance: [B, P]", "unit: [B]")
    def predictions(self, mean: tf.Tensor, variance: tf.Tensor, unit: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the named outputs for each point; arguments as for `expected_log_likelihood`.

        Returns:
            Classification: `probability`, `label` (int32), `latent_mean`, `latent_variance`,
            `predictive_entropy` and `mutual_information` in nats. Regression: `mean`, `variance` (of
            the noisy target) and `latent_variance`, with `latent_mean` where f is not the mean of y. Each
            `[B]`, but those of a likelihood of C latent functions have `probability`, `latent_mean` and
            `latent_variance` as `[B, C]`.
        """

    @abc.abstractmethod
    @check_shapes("label: [batch...]", "return: [batch...]")
    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each label, of any dtype, is one that this likelihood knows; see `label_requirement`."""
