"""Likelihoods of counts against SciPy's distributions, quadrature and sampling."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate, special, stats

from gpmodels import HybridModel, LinearHead, SVGPHead
from gpmodels.likelihoods.counts import (
    CountLikelihood,
    NegativeBinomialLikelihood,
    PoissonLikelihood,
    log_count_probability,
)

RATE, DISPERSION = 7.0, np.array([0.5, 0.02])
UNIT = np.array([1, 0, 0, 1, 0])
RNG = np.random.default_rng(0)
MEAN, VARIANCE = RNG.normal(size=(5, 1)), np.exp(RNG.normal(size=(5, 1)))
LABEL = np.array([0, 3, 50, 900, 12])
ARGUMENTS = tf.constant(MEAN), tf.constant(VARIANCE), tf.constant(LABEL), tf.constant(UNIT, tf.int32)
NAMES = ("poisson", "negative_binomial")


def make(name: str) -> CountLikelihood:
    likelihood = PoissonLikelihood() if name == "poisson" else NegativeBinomialLikelihood(2)
    likelihood.start_from(np.array([RATE - 3.0, RATE + 3.0]))
    if isinstance(likelihood, NegativeBinomialLikelihood):
        likelihood.dispersion.assign(DISPERSION)
    return likelihood


def distribution(name: str, f: np.ndarray, n: int):
    mean = RATE * np.exp(f)
    if name == "poisson":
        return stats.poisson(mean)
    s = 1.0 / DISPERSION[UNIT[n]]
    return stats.nbinom(s, s / (s + mean))


def expectation(function, n: int) -> float:
    """E[function(f)] under the marginal of a point, by a fine sum."""
    z = np.linspace(-12.0, 12.0, 200_001)
    f = MEAN[n, 0] + np.sqrt(VARIANCE[n, 0]) * z
    return float(integrate.trapezoid(function(f) * stats.norm.pdf(z), z))


@pytest.mark.parametrize("name", NAMES)
def test_expectations_and_densities_equal_quadrature(name):
    likelihood = make(name)
    bound = likelihood.expected_log_likelihood(*ARGUMENTS)
    density = likelihood.log_predictive_density(*ARGUMENTS)
    for n in range(5):
        log_p = expectation(lambda f, n=n: distribution(name, f, n).logpmf(LABEL[n]), n)
        assert float(bound[n]) == pytest.approx(log_p, rel=1e-7)
        p = expectation(lambda f, n=n: distribution(name, f, n).pmf(LABEL[n]), n)
        assert float(density[n]) == pytest.approx(np.log(p), rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_moments_equal_sampling_and_the_nodes(name):
    outputs = make(name).predictions(*ARGUMENTS[:2], ARGUMENTS[3])
    rng = np.random.default_rng(1)
    f = MEAN[:, 0] + np.sqrt(VARIANCE[:, 0]) * rng.normal(size=(400_000, 5))
    for n in range(5):
        mean = expectation(lambda f, n=n: distribution(name, f, n).mean(), n)
        second = expectation(
            lambda f, n=n: distribution(name, f, n).var() + distribution(name, f, n).mean() ** 2, n
        )
        assert float(outputs["mean"][n]) == pytest.approx(mean, rel=1e-8)
        assert float(outputs["variance"][n]) == pytest.approx(second - mean**2, rel=1e-8)
        draws = distribution(name, f[:, n], n).rvs(random_state=rng)
        assert draws.mean() == pytest.approx(mean, rel=0.03)
    np.testing.assert_array_equal(outputs["latent_mean"], MEAN[:, 0])


@pytest.mark.parametrize("name", NAMES)
def test_predicted_probabilities_sum_to_one(name):
    likelihood = make(name)
    count = 4000
    marginal = (
        tf.fill([count, 1], tf.constant(0.3, tf.float64)),
        tf.fill([count, 1], tf.constant(0.4, tf.float64)),
    )
    density = likelihood.log_predictive_density(*marginal, tf.range(count), tf.zeros([count], tf.int32))
    assert float(tf.reduce_sum(tf.exp(density))) == pytest.approx(1.0, abs=1e-6)


def test_a_small_dispersion_is_poissons():
    likelihood = NegativeBinomialLikelihood(1, "float32")
    likelihood.dispersion.assign([2e-5])
    poisson = PoissonLikelihood("float32")
    single = [tf.cast(part, tf.float32) for part in ARGUMENTS[:2]]
    unit, label = tf.zeros([5], tf.int32), tf.constant([0, 1, 2, 9, 30])
    own, theirs = (
        likelihood.expected_log_likelihood(*single, label, unit) for likelihood in (likelihood, poisson)
    )
    np.testing.assert_allclose(own, theirs, rtol=2e-3)


def test_the_rate_is_that_of_the_labels_even_if_all_are_zero():
    likelihood = PoissonLikelihood("float32")
    likelihood.start_from(np.array([1.0, 4.0]))
    assert float(likelihood.rate.numpy()) == 2.5
    np.testing.assert_allclose(likelihood.latent_targets(np.array([2.0])), [0.0], atol=1e-7)
    likelihood.start_from(np.zeros(9))
    assert float(likelihood.rate.numpy()) == pytest.approx(0.1)
    assert not likelihood.trainable_variables


def test_labels_are_counts():
    labels = tf.constant([0.0, 12.0, -1.0, 0.5, np.nan, np.inf])
    expected = [True, True, False, False, False, False]
    np.testing.assert_array_equal(PoissonLikelihood().valid_labels(labels), expected)


def test_no_unit_is_refused():
    with pytest.raises(ValueError, match="num_units must be at least 1, but is 0"):
        NegativeBinomialLikelihood(0)


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "make_head",
    [lambda name: LinearHead(likelihood=name), lambda name: SVGPHead(num_inducing=8, likelihood=name)],
    ids=["linear", "svgp"],
)
def test_heads_learn_counts_in_their_own_unit(name, make_head, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (400, 2)).astype("float32")
    rate = 200.0 * np.exp(x[:, 0] - 0.5 * x[:, 1])
    y = rng.poisson(rate).astype("float32")
    model = HybridModel(keras.Sequential([keras.layers.Identity()]), make_head(name), num_data=400)
    model.compile(keras.optimizers.Adam(0.1))
    history = model.fit(x, y, batch_size=400, epochs=60, verbose=0).history
    outputs = model.predict(x, verbose=0)
    assert np.corrcoef(outputs["mean"], rate)[0, 1] > 0.99
    assert np.median(np.abs(outputs["mean"] / rate - 1.0)) < 0.05
    assert model.scale_of_targets() == 1.0
    best = -stats.poisson.logpmf(y, rate).mean()
    assert history["nll"][-1] < best + 0.5
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(x, verbose=0)["variance"], outputs["variance"])


def test_fractions_are_refused_in_training():
    model = HybridModel(
        keras.Sequential([keras.layers.Identity()]), LinearHead(likelihood="poisson"), num_data=4
    )
    model.compile("adam")
    with pytest.raises(Exception, match=r"(?i)labels? must be a count: 0, 1, 2"):
        model.fit(np.ones([4, 1], "float32"), np.array([1.0, 2.0, 0.5, 0.0], "float32"), verbose=0)


def test_gammas_of_large_numbers_keep_their_digits():
    """lgamma(y + s) - lgamma(s) in 32 bits would be off by a tenth at s = 10⁵."""
    likelihood = NegativeBinomialLikelihood(1, "float32")
    likelihood.dispersion.assign([2e-5])
    s = 1.0 / float(likelihood.dispersion[0])
    f = tf.zeros([1, 1, 1])
    own = float(likelihood.log_density(tf.constant([[3.0]]), f, tf.zeros([1, 1], tf.int32))[0, 0])
    expected = (
        special.gammaln(3 + s)
        - special.gammaln(s)
        - np.log(6.0)
        + s * np.log(s / (1 + s))
        - 3 * np.log(1 + s)
    )
    assert own == pytest.approx(expected, abs=1e-4)


def test_a_mean_and_a_variance_are_a_negative_binomial():
    mean, variance, y = np.array([3.0, 50.0, 4.0]), np.array([9.0, 60.0, 2.0]), np.array([0.0, 61.0, 4.0])
    ratio = np.maximum(variance / mean, 1.0 + 1e-4)
    expected = stats.nbinom(mean / (ratio - 1.0), 1.0 / ratio).logpmf(y)
    np.testing.assert_allclose(
        log_count_probability(*map(tf.constant, (mean, variance, y))), expected, rtol=1e-6
    )


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_counts_have_probabilities_of_sum_one_at_every_temperature(temperature):
    head = LinearHead(likelihood="poisson")
    head.build((None, 2))
    head.set_temperature(temperature)
    latent = head.latent(tf.fill([200, 2], 0.5))
    density = head.tempered_log_density(latent, tf.range(200.0))
    assert float(tf.reduce_sum(tf.exp(density))) == pytest.approx(1.0, abs=1e-4)
