"""The SNGP head: random features that approach a kernel, and a Laplace approximation on them."""

import tracemalloc

import keras
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import tensorflow as tf

from gpmodels import HybridModel, SNGPHead
from tests.gpmodels.layer_contract import LayerContract, labelled_points, random_features


class TestSNGPHeadContract(LayerContract):
    head_class = SNGPHead
    settings = {"num_features": 24}  # noqa: RUF012
    trainable_values = 24


class TestSNGPHeadOfThreeClassesContract(LayerContract):
    is_variant = True
    head_class = SNGPHead
    settings = {"num_features": 24, "num_classes": 3}  # noqa: RUF012
    trainable_values = 72


def squared_exponential(x: np.ndarray, z: np.ndarray, lengthscale: float) -> np.ndarray:
    return np.exp(-np.sum((x[:, None] - z[None]) ** 2, axis=-1) / (2.0 * lengthscale**2))


def built(num_features: int, size: int, **settings: object) -> SNGPHead:
    head = SNGPHead(num_features=num_features, dtype="float64", **settings)
    head.build((None, size))
    return head


def test_random_features_approach_the_squared_exponential_kernel():
    x = random_features(40).numpy().astype("float64")
    errors = []
    for num_features in (32, 2048):
        head = built(num_features, x.shape[1])
        head.lengthscale.assign(1.7)
        inputs = head.random_features(tf.constant(x)).numpy()
        errors.append(np.abs(inputs @ inputs.T - squared_exponential(x, x, 1.7)).max())
    assert errors[1] < 0.12 < errors[0]


def test_the_lengthscale_starts_at_the_median_distance():
    x = np.random.default_rng(0).normal(size=(300, 5))
    head = built(8, 5)
    head.initialize(x)
    distances = np.linalg.norm(x[:, None] - x[None], axis=-1)
    assert float(head.lengthscale) == pytest.approx(np.median(distances[distances > 0.0]), rel=0.02)
    head.initialize(np.ones((4, 5)))
    assert float(head.lengthscale) == 1.0


def test_the_lengthscale_of_many_features_takes_little_memory():
    head, x = built(8, 1280), np.random.default_rng(0).normal(size=(50, 1280))
    tracemalloc.start()
    head.initialize(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e8


def laplace_of_a_gp(
    x: np.ndarray, y: np.ndarray, new: np.ndarray, lengthscale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of Laplace's approximation of a GP classifier (Rasmussen and Williams, 3.4)."""
    prior = squared_exponential(x, x, lengthscale)
    f = np.zeros(len(x))
    for _ in range(50):
        p = scipy.special.expit(f)
        w = p * (1.0 - p)
        f = prior @ np.linalg.solve(np.eye(len(x)) + w[:, None] * prior, w * f + y - p)
    p = scipy.special.expit(f)
    cross = squared_exponential(x, new, lengthscale)
    reduced = np.linalg.solve(prior + np.diag(1.0 / (p * (1.0 - p))), cross)
    return cross.T @ (y - p), 1.0 - np.sum(cross * reduced, axis=0)


@pytest.mark.slow
def test_with_many_random_features_it_is_laplaces_approximation_of_a_gp():
    rng = np.random.default_rng(3)
    x, new = rng.normal(size=(25, 2)), rng.normal(size=(30, 2))
    y = (x[:, 0] * x[:, 1] > 0.0).astype(float)
    head = built(2048, 2)
    model = HybridModel(keras.layers.Identity(dtype="float64"), head, num_data=len(x))
    model.build((None, 2))
    points, labels = tf.constant(x), tf.constant(y)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        head.kernel.assign(flat[:, None])
        with tf.GradientTape() as tape:
            terms = head.expected_log_likelihood(head.latent(points), labels)
            loss = head.penalty() - tf.reduce_sum(terms)
        return float(loss), tape.gradient(loss, head.kernel.value).numpy()[:, 0]

    best = scipy.optimize.minimize(objective, np.zeros(2048), jac=True, method="L-BFGS-B")
    head.kernel.assign(best.x[:, None])
    model.fit_to((x, y))
    latent = head.latent(tf.constant(new))
    mean, variance = laplace_of_a_gp(x, y, new, 1.0)
    assert np.abs(latent.mean.numpy()[:, 0] - mean).max() < 0.08
    assert np.abs(latent.variance.numpy()[:, 0] - variance).max() < 0.08
    assert np.ptp(mean) > 0.5
    assert np.ptp(variance) > 0.3


@pytest.mark.parametrize("num_classes", [2, 3])
def test_the_covariance_is_the_papers(num_classes):
    head = SNGPHead(num_features=10, num_classes=num_classes, dtype="float64")
    x, y = (values.numpy().astype("float64") for values in labelled_points(head, 40))
    model = HybridModel(keras.layers.Identity(dtype="float64"), head, num_data=40)
    model.build((None, x.shape[1]))
    head.kernel.assign(np.random.default_rng(1).normal(size=head.kernel.shape))
    counts = np.random.default_rng(2).integers(0, 3, 40).astype(float)
    model.fit_to((x, y, counts))
    inputs = head.random_features(tf.constant(x)).numpy()
    logits = inputs @ head.kernel.numpy()
    p = scipy.special.expit(logits) if num_classes == 2 else scipy.special.softmax(logits, axis=1)
    for number, root in enumerate(head.root.numpy()):
        precision = np.eye(10)
        for row, count, probability in zip(inputs, counts, p[:, number], strict=True):
            precision += count * probability * (1.0 - probability) * np.outer(row, row)
        np.testing.assert_allclose(root @ root.T, np.linalg.inv(precision), atol=1e-10)


def test_before_the_pass_nothing_is_uncertain():
    head = SNGPHead(num_features=16)
    outputs = head(random_features(5))
    np.testing.assert_array_equal(outputs["latent_variance"], 0.0)
    np.testing.assert_allclose(outputs["mutual_information"], 0.0, atol=1e-6)


def test_far_from_all_points_the_prior_is_back():
    head = SNGPHead(num_features=512)
    x, y = (values.numpy() for values in labelled_points(size=500))
    model = HybridModel(keras.layers.Identity(), head, num_data=500)
    model.initialize((x, y))
    model.fit_to((x, y))
    near = model(x)["latent_variance"].numpy()
    far = model(x + 40.0)["latent_variance"].numpy()
    assert near.mean() < 0.3
    assert 0.6 < far.mean() < 1.2
