"""The SVDKL head: its limit is the SVGP head, and its latent functions are correlated."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from gpmodels import HybridModel, SVDKLHead, SVGPHead
from tests.gpmodels.layer_contract import NUM_FEATURES, LayerContract

PER_GP = 5 + 1 + 1 + 5 + 5 * 6 // 2  # U, ℓ, σ², m and L_S of one column


class SVDKLContract(LayerContract):
    head_class = SVDKLHead


class TestSVDKLHeadContract(SVDKLContract):
    settings = {"num_inducing": 5}  # noqa: RUF012 - as the base class has it
    trainable_values = NUM_FEATURES * (PER_GP + 1)

    @classmethod
    def lengthscale_shapes(cls, head):
        return [(1, 1)] * len(head.unit_names)


class TestSVDKLClassesContract(SVDKLContract):
    is_variant = True
    settings = {"num_inducing": 5, "num_classes": 3, "num_gps": 2}  # noqa: RUF012 - as the base class has it
    trainable_values = 2 * (PER_GP + 5 + 1) + 3 * 2

    @classmethod
    def lengthscale_shapes(cls, head):
        return [(1, 2)] * len(head.unit_names)


def random_head(seed=0, **settings):
    rng = np.random.default_rng(seed)
    head = SVDKLHead(num_inducing=4, dtype="float64", **settings)
    head.build((None, 3))
    units = head.units
    head.initialize(rng.normal(size=(50, 3)))
    units.variance.assign(rng.uniform(0.5, 2.0, units.variance.shape))
    units.q_mean.assign(rng.normal(size=units.q_mean.shape))
    units.q_sqrt.assign(np.tril(0.3 * rng.normal(size=units.q_sqrt.shape)) + 0.5 * np.eye(4))
    head.likelihood.mixing.assign(rng.normal(size=head.likelihood.mixing.shape))
    return head


def test_identity_mixing_of_gps_on_all_features_is_the_svgp_head_with_separate_kernels():
    head = random_head(groups=[range(3)] * 3, num_classes=3)
    head.likelihood.mixing.assign(np.eye(3))
    inducing = head.units.inducing_inputs.numpy()
    inducing[:] = inducing[0]
    head.units.inducing_inputs.assign(inducing)
    twin = SVGPHead(num_inducing=4, num_classes=3, class_kernels="separate", mean="none", dtype="float64")
    twin.build((None, 3))
    unit = twin.global_unit
    unit.inducing_inputs.assign(inducing[:1])
    unit.lengthscales.assign(head.units.lengthscales.numpy()[None, :, 0])
    unit.variance.assign(head.units.variance.numpy()[None, :, 0])
    unit.q_mean.assign(head.units.q_mean.numpy()[None, :, 0])
    unit.q_sqrt.assign(head.units.q_sqrt.numpy()[None, :, 0])
    rng = np.random.default_rng(1)
    x, y = tf.constant(rng.normal(size=(9, 3))), tf.constant(rng.integers(0, 3, 9).astype("float64"))
    ours, theirs = head.latent(x), twin.latent(x)
    np.testing.assert_allclose(
        head.expected_log_likelihood(ours, y), twin.expected_log_likelihood(theirs, y), rtol=1e-10
    )
    np.testing.assert_allclose(
        head.log_predictive_density(ours, y), twin.log_predictive_density(theirs, y), rtol=1e-10
    )
    np.testing.assert_allclose(tf.reduce_sum(head.prior_kl()), tf.reduce_sum(twin.prior_kl()), rtol=1e-12)
    outputs, expected = head.predictions(ours), twin.predictions(theirs)
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_latent_moments_and_probability_against_sampling(num_classes):
    head = random_head(2, num_classes=num_classes)
    x = tf.constant(np.random.default_rng(3).normal(size=(4, 3)))
    latent = head.latent(x)
    outputs = {name: value.numpy() for name, value in head.predictions(latent).items()}
    mean, variance = latent.mean.numpy(), latent.variance.numpy()
    size = 400_000
    g = mean + np.sqrt(variance) * np.random.default_rng(4).normal(size=(size, *mean.shape))
    f = g @ head.likelihood.mixing.numpy().T  # [size, B] or [size, B, C]
    error = 4 * f.std(axis=0) / np.sqrt(size)
    assert (np.abs(outputs["latent_mean"] - f.mean(axis=0)) < error + 1e-12).all()
    np.testing.assert_allclose(outputs["latent_variance"], f.var(axis=0), rtol=0.02)
    if num_classes == 3:
        sampled = np.mean(tf.nn.softmax(f, axis=-1).numpy(), axis=0)
        np.testing.assert_allclose(outputs["probability"], sampled, atol=0.006)
        # Independent functions of the same variances are another model, wrong by far more than the nodes.
        independent = f.mean(axis=0) + f.std(axis=0) * np.random.default_rng(5).normal(size=f.shape)
        wrong = np.mean(tf.nn.softmax(independent, axis=-1).numpy(), axis=0)
        assert np.abs(wrong - sampled).max() > 0.02


def test_one_gp_is_all_that_a_row_of_the_mixing_names():
    head = random_head(num_classes=2)
    head.likelihood.mixing.assign([1.0, 0.0, 0.0])
    x = tf.constant(np.random.default_rng(0).normal(size=(5, 3)))
    np.testing.assert_allclose(head.predictions(head.latent(x))["latent_mean"], head.latent(x).mean[:, 0])


@pytest.mark.parametrize("groups", [None, [[0, 2], [1]], [slice(0, 3), [0]]])
def test_folded_predicts_the_same_and_groups_see_their_columns_alone(groups):
    head = random_head(groups=groups, num_classes=3)
    x = np.random.default_rng(0).normal(size=(6, 3))
    latent = head.latent(tf.constant(x))
    folded = head.for_inference()(tf.constant(x))
    np.testing.assert_allclose(folded.mean, latent.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(folded.variance, latent.variance, rtol=1e-6, atol=1e-10)
    for j, columns in enumerate(head.columns_of_gp):
        moved = x + 10.0
        moved[:, list(columns)] = x[:, list(columns)]
        np.testing.assert_allclose(head.latent(tf.constant(moved)).mean[:, j], latent.mean[:, j], atol=1e-12)


def losses_of(scale):
    """Losses of a small network whose features are multiplied by a number."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 5)).astype("float32")
    y = (x[:, 0] * x[:, 1] > 0).astype("float32")
    network = keras.Sequential([keras.layers.Dense(4, activation="tanh"), keras.layers.Rescaling(scale)])
    model = HybridModel(network, SVDKLHead(num_inducing=8), num_data=64)
    model.head.build((None, 4))
    model.head.initialize(network(x).numpy())
    model.compile(optimizer=keras.optimizers.Adam(0.02))
    return model.fit(x, y, batch_size=64, epochs=12, verbose=0, shuffle=False).history["loss"]


@pytest.mark.slow
def test_a_network_with_features_times_100_trains_alike():
    """Lengthscales start at the features' distances and move by factors; only U moves by steps."""
    usual, large = losses_of(1.0), losses_of(100.0)
    assert large[0] == pytest.approx(usual[0], rel=1e-3)
    assert usual[-1] < 0.97 * usual[0]
    assert usual[0] - large[-1] > 0.7 * (usual[0] - usual[-1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_gps": 0}, "num_gps must be at least 1, and a whole number, but is 0"),
        ({"num_gps": 1.5}, "num_gps must be at least 1, and a whole number, but is 1.5"),
        ({"groups": [[0], []]}, "Each group must hold different column indices"),
        ({"groups": [slice(0, None)]}, "A group given as a slice needs an end"),
        ({"groups": [slice(0, "3")]}, "A group given as a slice needs an end, whole numbers from 0"),
        ({"groups": [slice(0, 3, 0)]}, "a step from 1, but is"),
        ({"kernel_variance": 0.0}, "kernel_variance must be positive and finite, but is 0.0"),
        ({"kernel_variance": float("inf")}, "kernel_variance must be positive and finite, but is inf"),
        ({"num_inducing": 0}, "num_inducing must be at least 1, and a whole number, but is 0"),
        ({"num_gps": 5}, "num_gps is 5, but there are only 3 features"),
        ({"groups": [[0], [3]]}, "names column 3, but there are 3 features"),
        ({"groups": []}, "groups must name the columns of at least one group"),
        ({"groups": [[0], [1]], "num_gps": 3}, "num_gps is 3, but there are 2 groups"),
        ({"likelihood": "robust_max", "num_classes": 3}, "must be one of .*, but is 'robust_max'"),
        ({"class_kernels": "separate"}, "must be 'shared'"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        SVDKLHead(**arguments).build((None, 3))


def test_each_gp_starts_with_the_kernel_variance():
    head = SVDKLHead(num_inducing=3, num_gps=2, kernel_variance=4.0)
    head.build((None, 3))
    np.testing.assert_allclose([unit.kernel_variance for unit in head.describe()], 4.0, rtol=1e-6)
    prior = SVDKLHead(num_inducing=3, num_gps=2)(tf.zeros([1, 3]))["latent_variance"]
    np.testing.assert_allclose(head(tf.zeros([1, 3]))["latent_variance"], 4.0 * prior, rtol=1e-5)


def test_many_classes_are_predicted():
    """From 64 classes on a softmax takes rows in blocks, in which no variable may be used."""
    head = random_head(num_classes=64, num_gps=3)
    x = tf.constant(np.random.default_rng(1).normal(size=(5, 3)))
    probability = head.predictions(head.latent(x))["probability"].numpy()
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-9)
    label = tf.constant([0, 1, 2, 3, 63])
    density = head.log_predictive_density(head.latent(x), label)
    np.testing.assert_allclose(density, np.log(probability[np.arange(5), label]), rtol=1e-9)


def test_slopes_by_the_means_of_g_are_those_of_the_bound():
    likelihood = random_head(num_classes=4, num_gps=2).likelihood
    rng = np.random.default_rng(0)
    mean, variance = tf.constant(rng.normal(size=(5, 2))), tf.constant(rng.uniform(0.1, 2.0, (5, 2)))
    label, unit = tf.constant([0, 1, 2, 3, 0]), tf.zeros([5], tf.int32)
    with tf.GradientTape() as outer:
        outer.watch(mean)
        with tf.GradientTape() as inner:
            inner.watch(mean)
            expected = likelihood.expected_log_likelihood(mean, variance, label, unit)
        slope = inner.gradient(expected, mean)
    gradient, curvature = likelihood.mean_derivatives(mean, variance, label)
    np.testing.assert_allclose(gradient, slope, atol=1e-10)
    np.testing.assert_allclose(curvature, -outer.batch_jacobian(slope, mean), atol=1e-10)


def test_expected_inverse_probability_against_sampling():
    likelihood = random_head(num_classes=3, num_gps=2).likelihood
    mean, variance = np.array([[0.3, -0.5]]), np.array([[0.2, 0.4]])
    g = mean + np.sqrt(variance) * np.random.default_rng(0).normal(size=(400_000, 2))
    inverse = 1.0 / scipy.special.softmax(g @ likelihood.mixing.numpy().T, axis=1)
    for label in range(3):
        found = likelihood.log_expected_inverse(
            tf.constant(mean), tf.constant(variance), tf.constant([label]), tf.constant([0])
        )
        assert float(found[0]) == pytest.approx(np.log(inverse[:, label].mean()), abs=0.02)
