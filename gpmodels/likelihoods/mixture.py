"""Expectations under a mixture of Gaussian latent marginals, for every likelihood, in this one place.

At each point q(f) = Σ_s w_s N(f | μ_s, σ_s²): the components of a posterior, or samples of a layer below with
equal weights. A likelihood knows one Gaussian; with its answers for each component

    E[log p(y | f)] = Σ_s w_s E_s[log p(y | f)]            log p(y) = log Σ_s w_s p_s(y)
    p(y = c) = Σ_s w_s p_s(c)                              mutual information H[p] - Σ_s w_s E_s[H[p(y | f)]]
    E[f] = Σ_s w_s μ_s                                     var[f] = Σ_s w_s (σ_s² + (μ_s - E[f])²)

where H is the entropy; the last line is the law of total variance and serves a noisy target too. The mutual
information counts it as uncertainty of the model that the components disagree, as in an ensemble
(docs/theory.md, "Uncertainty").

Without the axis S (`log_weight` None) the likelihood's own operations run, and no others.
"""

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.categorical import categorical_entropy
from gpmodels.likelihoods.probit import bernoulli_entropy

_GAUSSIAN = (
    "mean: [B, P] if log_weight is None",
    "mean: [S, B, P] if log_weight is not None",
    "variance: [B, P] if log_weight is None",
    "variance: [S, B, P] if log_weight is not None",
    "log_weight: [S, B] if log_weight is not None",
)


@check_shapes(*_GAUSSIAN, "label: [B, labels...]", "unit: [B]", "return: [B]")
def expected_log_likelihood(
    likelihood: Likelihood,
    mean: tf.Tensor,
    variance: tf.Tensor,
    log_weight: tf.Tensor | None,
    label: tf.Tensor,
    unit: tf.Tensor,
) -> tf.Tensor:
    """Return E[log p(y | f)] = Σ_s w_s E_s[log p(y | f)] of each point, nats, `[B]`.

    Args:
        likelihood: The likelihood p(y | f).
        mean: μ, `[B, P]` of one Gaussian or `[S, B, P]` of a mixture.
        variance: σ², of the same shape.
        log_weight: log w, normalised over S, `[S, B]`; None for one Gaussian.
        label: y, `[B]`.
        unit: GP unit of each point, int32 `[B]`.
    """
    if log_weight is None:
        return likelihood.expected_log_likelihood(mean, variance, label, unit)
    terms = likelihood.expected_log_likelihood(*_points(mean, variance), *_repeated(log_weight, label, unit))
    return _mean(log_weight, terms)  # [S * B] -> [B]


@check_shapes(*_GAUSSIAN, "label: [B, labels...]", "unit: [B]", "return: [B]")
def log_predictive_density(
    likelihood: Likelihood,
    mean: tf.Tensor,
    variance: tf.Tensor,
    log_weight: tf.Tensor | None,
    label: tf.Tensor,
    unit: tf.Tensor,
) -> tf.Tensor:
    """Return log p(y) = log Σ_s w_s p_s(y) of each point, nats, `[B]`; arguments as above."""
    if log_weight is None:
        return likelihood.log_predictive_density(mean, variance, label, unit)
    terms = likelihood.log_predictive_density(*_points(mean, variance), *_repeated(log_weight, label, unit))
    return tf.reduce_logsumexp(log_weight + tf.reshape(terms, tf.shape(log_weight)), axis=0)


@check_shapes(*_GAUSSIAN, "label: [B, labels...]", "unit: [B]", "return: [B]")
def log_expected_inverse(
    likelihood: Likelihood,
    mean: tf.Tensor,
    variance: tf.Tensor,
    log_weight: tf.Tensor | None,
    label: tf.Tensor,
    unit: tf.Tensor,
) -> tf.Tensor:
    """Return log E[1/p(y | f)] = log Σ_s w_s E_s[1/p(y | f)], nats, `[B]`; arguments as above."""
    if log_weight is None:
        return likelihood.log_expected_inverse(mean, variance, label, unit)
    terms = likelihood.log_expected_inverse(*_points(mean, variance), *_repeated(log_weight, label, unit))
    return tf.reduce_logsumexp(log_weight + tf.reshape(terms, tf.shape(log_weight)), axis=0)


@check_shapes(*_GAUSSIAN, "unit: [B]")
def predictions(
    likelihood: Likelihood,
    mean: tf.Tensor,
    variance: tf.Tensor,
    log_weight: tf.Tensor | None,
    unit: tf.Tensor,
) -> dict[str, tf.Tensor]:
    """Return the named outputs of `Likelihood.predictions` for the mixture; arguments as above.

    Source:
        Mutual information of an ensemble: Depeweg et al. (2018), Decomposition of uncertainty in Bayesian
        deep learning.
    """
    if log_weight is None:
        return likelihood.predictions(mean, variance, unit)
    parts = likelihood.predictions(*_points(mean, variance), *_repeated(log_weight, unit))
    if not likelihood.is_classifier:
        target_mean, target_variance = _moments(log_weight, parts["mean"], parts["variance"])
        of_latent = parts.get("latent_mean", parts["mean"]), parts["latent_variance"]
        latent_mean, latent_variance = _moments(log_weight, *of_latent)
        mixed = {"mean": target_mean, "variance": target_variance, "latent_variance": latent_variance}
        return {**mixed, "latent_mean": latent_mean} if "latent_mean" in parts else mixed
    probability = _mean(log_weight, parts["probability"])  # [B] of class 1, [B, L] of labels, or [B, C]
    if probability.shape.rank == parts["label"].shape.rank:
        label, entropy = tf.cast(probability > 0.5, tf.int32), bernoulli_entropy(probability)
    else:
        label = tf.argmax(probability, axis=-1, output_type=tf.int32)
        entropy = categorical_entropy(probability)
    # What a component's entropy exceeds its information by is its E[H[p(y | f)]].
    noise = _mean(log_weight, parts["predictive_entropy"] - parts["mutual_information"])
    latent_mean, latent_variance = _moments(log_weight, parts["latent_mean"], parts["latent_variance"])
    return {
        "probability": probability,
        "label": label,
        "latent_mean": latent_mean,
        "latent_variance": latent_variance,
        "predictive_entropy": entropy,
        "mutual_information": tf.nn.relu(entropy - noise),  # never negative, but for rounding
    }


def _points(mean: tf.Tensor, variance: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the components' marginals `[S, B, P]` as those of S * B points."""
    shape = [-1, mean.shape[-1]]
    return tf.reshape(mean, shape), tf.reshape(variance, shape)


def _repeated(log_weight: tf.Tensor, *values: tf.Tensor) -> list[tf.Tensor]:
    """Return what each point has `[B]`, or `[B, L]`, once for each component, `[S * B]`."""
    samples = tf.shape(log_weight)[0]
    return [tf.tile(value, [samples, *[1] * (value.shape.rank - 1)]) for value in values]


def _split(log_weight: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return weights and values of S * B points with the axis S in front, of shapes that broadcast."""
    shape = tf.concat([tf.shape(log_weight), values.shape[1:]], axis=0)
    weight = tf.exp(log_weight)  # [S, B], or [S, B, 1] beside values of each class
    return (weight if values.shape.rank == 1 else weight[..., None]), tf.reshape(values, shape)


def _mean(log_weight: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Return Σ_s w_s a_s of values a of S * B points, `[B]` or `[B, C]`."""
    weight, parts = _split(log_weight, values)
    return tf.reduce_sum(weight * parts, axis=0)


def _moments(log_weight: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return mean and variance of the mixture from those of S * B points, by the law of total variance."""
    weight, means = _split(log_weight, mean)
    mixed = tf.reduce_sum(weight * means, axis=0)
    _, variances = _split(log_weight, variance)
    return mixed, tf.reduce_sum(weight * (variances + tf.square(means - mixed)), axis=0)
