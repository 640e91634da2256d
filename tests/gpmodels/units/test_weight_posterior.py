"""The posterior of a linear layer's weights: what it adds to the variance of a latent function."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels.units.weight_posterior import WeightCovariance, WeightPosterior

FEATURES, DIRECTIONS = 5, 3


def make_covariance(num_latents: int = 2, seed: int = 0) -> WeightCovariance:
    """A covariance with fewer directions than features, which are not standardised."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(FEATURES, FEATURES)))[0][:, :DIRECTIONS]
    return WeightCovariance(
        centre=rng.normal(size=FEATURES),
        scale=rng.uniform(0.5, 2.0, FEATURES),
        axes=axes,
        variance=rng.uniform(0.1, 0.5, (num_latents, DIRECTIONS)),
        rest=rng.uniform(1.0, 2.0, num_latents),
        offset=rng.uniform(0.1, 0.2, num_latents),
    )


def dense_twin(covariance: WeightCovariance, x: np.ndarray) -> np.ndarray:
    """v by the whole covariance of w, `[N, P]`."""
    found = np.empty((len(x), len(covariance.offset)))
    axes = covariance.axes
    for p, (variance, rest, offset) in enumerate(
        zip(covariance.variance, covariance.rest, covariance.offset, strict=True)
    ):
        dense = axes @ np.diag(variance - rest) @ axes.T + rest * np.eye(FEATURES)
        for n, point in enumerate(x):
            feature = (point - covariance.centre) / covariance.scale
            found[n, p] = feature @ dense @ feature + offset
    return found


def test_rows_vary_together_as_by_the_whole_covariance():
    covariance, x = make_covariance(), points()
    between = covariance.between(x)
    np.testing.assert_allclose(np.diagonal(between, axis1=1, axis2=2).T, dense_twin(covariance, x))
    # Mirrored at the centre, a row has the opposite function, but for the offset.
    turned = np.stack([2 * covariance.centre - x[1], x[0]])
    away = covariance.between(turned)[:, 0, 1] - covariance.offset
    np.testing.assert_allclose(away, covariance.offset - between[:, 1, 0])


def points(number: int = 7) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(number, FEATURES))


def posterior_of(covariance: WeightCovariance) -> WeightPosterior:
    posterior = WeightPosterior(num_features=FEATURES, num_latents=len(covariance.offset), dtype="float64")
    posterior.assign(covariance)
    return posterior


def test_it_is_the_twin():
    covariance, x = make_covariance(), points()
    expected = dense_twin(covariance, x)
    assert expected.min() > 0.1
    np.testing.assert_allclose(covariance.of(x), expected, rtol=1e-10)
    posterior = posterior_of(covariance)
    np.testing.assert_allclose(posterior(tf.constant(x)), expected, rtol=1e-10)
    folded = posterior.for_inference()
    assert folded is not None
    np.testing.assert_allclose(folded(tf.constant(x)), expected, rtol=1e-10)


def test_a_layer_without_a_covariance_is_certain():
    posterior = WeightPosterior(num_features=FEATURES, num_latents=2, dtype="float64")
    np.testing.assert_array_equal(posterior(tf.constant(points())), np.zeros((7, 2)))
    assert posterior.for_inference() is None
    assert not posterior.trainable_variables


def test_units_of_the_features_change_nothing():
    covariance, x = make_covariance(), points()
    centre, scale = np.full(FEATURES, 3.0), np.linspace(0.1, 10.0, FEATURES)
    in_other_units = covariance.in_units_of(centre, scale)
    np.testing.assert_allclose(in_other_units.of(x * scale + centre), covariance.of(x), rtol=1e-9)


def test_logits_that_are_multiplied_vary_by_the_square():
    covariance, x = make_covariance(), points()
    np.testing.assert_allclose(covariance.times(3.0).of(x), 9.0 * covariance.of(x), rtol=1e-12)


def test_two_functions_differ_as_much_as_the_one_logit_does():
    one, x = make_covariance(num_latents=1), points()
    both = one.for_latents(2).of(x)
    np.testing.assert_allclose(both.sum(axis=1), one.of(x)[:, 0], rtol=1e-12)
    np.testing.assert_array_equal(both[:, 0], both[:, 1])
    assert one.for_latents(1) is one


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_tiny_variance_is_not_lost_beside_a_wide_prior(dtype):
    """Along a known direction v is what the rows say, however wide the prior is elsewhere."""
    axes = np.linalg.qr(np.random.default_rng(2).normal(size=(FEATURES, FEATURES)))[0]
    covariance = WeightCovariance(
        np.zeros(FEATURES),
        np.ones(FEATURES),
        axes,
        np.full((1, FEATURES), 1e-3),
        np.array([1e3]),
        np.zeros(1),
    )
    posterior = WeightPosterior(num_features=FEATURES, num_latents=1, dtype=dtype)
    posterior.assign(covariance)
    x = points()
    expected = 1e-3 * np.sum(x**2, axis=1, keepdims=True)
    np.testing.assert_allclose(posterior(tf.constant(x, dtype)), expected, rtol=1e-3)
