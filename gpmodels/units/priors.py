"""A prior that holds the lengthscales of a kernel together, and releases each one that the data ask for.

One lengthscale for each of D features (automatic relevance determination) is fitted by the bound; with few
rows the bound is raised by lengthscales that explain the rows' accidents. One common lengthscale cannot do
that, but loses where few features matter. Between the two stands a hierarchical prior on their logarithms,

    log(ℓ_d / t_d) ~ N(c, s²),    c with a flat prior,

t_d the typical lengthscale of feature d, which takes its scale away. Maximised over c it subtracts

    Σ_d (log(ℓ_d / t_d) - c)² / (2 s²),    c = the mean of log(ℓ_d / t_d)

from the bound: s to 0 is one common lengthscale, s to infinity leaves all of them free. The penalty does not
grow with the number of rows, so that with many of them the data decide. It is never negative: what is left of
a bound is still one.

Source: the partial pooling of a hierarchical normal model (Gelman et al., Bayesian Data Analysis, third
edition, 2013, section 5.4), applied to log ℓ. Hvarfner, Hellsten and Nardi (Vanilla Bayesian optimization
performs great in high dimensions, 2024, section 5) pull each lengthscale to √D instead of to the others.
"""

import tensorflow as tf
from check_shapes import check_shapes


@check_shapes("lengthscales: [K, J, D]", "typical: [K, D]", "return: [K]")
def lengthscale_penalty(lengthscales: tf.Tensor, typical: tf.Tensor, spread: float) -> tf.Tensor:
    """Return `Σ_jd (log(ℓ_jd / t_d) - c_j)² / (2 s²)` of each unit, nats.

    It is minus the log of the prior density but for a constant, maximised over c.

    Args:
        lengthscales: ℓ, positive.
        typical: t, a typical lengthscale of each feature, positive; a common factor changes nothing.
        spread: s, standard deviation of log(ℓ_d / t_d) about their mean.

    Example:
        >>> lengthscale_penalty(tf.constant([[[1.0, 1.0]]]), tf.ones([1, 2]), 0.3).numpy().tolist()
        [0.0]
    """
    logarithms = tf.math.log(lengthscales) - tf.math.log(typical)[:, None]
    deviations = logarithms - tf.reduce_mean(logarithms, axis=-1, keepdims=True)
    return 0.5 * tf.reduce_sum(tf.square(deviations / spread), axis=[1, 2])
