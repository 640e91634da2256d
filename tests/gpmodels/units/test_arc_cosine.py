"""Arc-cosine kernels against GPflow, against random features of wide networks, and by finite differences."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import AutoGPHead, DeepGPHead, DFGPHead, HGPHead, RandomFeatureHead, SVDKLHead, SVGPHead
from gpmodels.units.kernels import make_kernel

NAMES = ("arc_cosine0", "arc_cosine1", "arc_cosine2")


def with_bias(x, bias):
    return np.concatenate([x, np.full([len(x), 1], bias)], axis=1)


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_depth_one_equals_gpflow(degree):
    rng = np.random.default_rng(degree)
    x, u = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
    lengthscales, bias = np.array([0.5, 1.0, 2.0]), 0.3
    theirs = gpflow.kernels.ArcCosine(
        order=degree, variance=1.0, weight_variances=1 / lengthscales**2, bias_variance=bias**2
    )
    kernel = make_kernel(f"arc_cosine{degree}")
    ours_x, ours_u = (tf.constant(with_bias(part / lengthscales, bias)) for part in (x, u))
    np.testing.assert_allclose(kernel.cross(ours_x, ours_u), theirs(x, u), rtol=1e-10)
    np.testing.assert_allclose(kernel.gram(ours_u), theirs(u), rtol=1e-6)  # theirs loses digits at φ = 0
    np.testing.assert_allclose(kernel.diagonal(ours_x), theirs(x, full_cov=False), rtol=1e-10)


@pytest.mark.parametrize(("degree", "depth"), [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3), (2, 1), (2, 2)])
def test_equals_the_covariance_of_a_random_network(degree, depth):
    rng = np.random.default_rng(10 * degree + depth)
    x = rng.normal(size=(4, 3))
    kernel, width = x @ x.T, 1_000_000 if degree == 2 else 60_000
    for _ in range(depth):
        # κ = 2 E[step(g) g^d step(g') g'^d], the values g Gaussian with the kernel of the last layer.
        root = np.linalg.cholesky(kernel + 1e-10 * np.eye(4))
        samples = root @ rng.normal(size=(4, width))
        features = (samples > 0) * samples**degree
        kernel = 2.0 * features @ features.T / width
    ours = make_kernel(f"arc_cosine{degree}", depth).gram(tf.constant(x)).numpy()
    scale = np.sqrt(np.outer(np.diag(ours), np.diag(ours)))
    np.testing.assert_allclose(kernel / scale, ours / scale, atol=0.03)


@pytest.mark.parametrize(("name", "depth"), [("arc_cosine1", 1), ("arc_cosine1", 3), ("arc_cosine2", 2)])
def test_gradient_by_finite_differences_also_at_equal_inputs(name, depth):
    kernel = make_kernel(name, depth)
    rng = np.random.default_rng(0)
    u = rng.normal(size=(3, 2))
    x = np.concatenate([u[:1], rng.normal(size=(2, 2))])  # the first point lies on an inducing input
    weight = rng.normal(size=(3, 3))

    def value(at):
        return tf.reduce_sum(weight * kernel.cross(at, tf.constant(u)))

    points = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(points)
        total = value(points)
    gradient = tape.gradient(total, points).numpy()
    step = 1e-5
    for index in np.ndindex(x.shape):
        shifted = np.zeros_like(x)
        shifted[index] = step
        slope = float(value(tf.constant(x + shifted)) - value(tf.constant(x - shifted))) / (2 * step)
        # At equal inputs the third derivative jumps, so that differences are good to the step alone.
        assert gradient[index] == pytest.approx(slope, rel=1e-3, abs=1e-3)


def test_gradient_of_degree_zero_is_finite_and_right_apart_from_equal_inputs():
    kernel = make_kernel("arc_cosine0")
    u = tf.constant([[1.0, 0.0], [1.0, 1.0]], tf.float64)
    x = tf.constant([[1.0, 0.0]], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = kernel.cross(x, u)[0]
        second = value[1]
    # κ = (π - φ)/π with φ = 45° - angle of x, whose slope along the second axis is 1 at (1, 0)
    np.testing.assert_allclose(tape.gradient(second, x)[0], [0.0, 1.0 / np.pi], atol=1e-12)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(kernel.cross(x, u))
    assert np.isfinite(tape.gradient(total, x)).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_diagonal_of_the_gram_matrix_is_exact(name):
    x = tf.constant(np.random.default_rng(0).normal(size=(20, 5)))
    kernel = make_kernel(name, depth=2)
    np.testing.assert_array_equal(tf.linalg.diag_part(kernel.gram(x)), kernel.diagonal(x))


def twin_latent(head, x):
    """Return mean and variance of an SVGP head with the kernel's formula and plain NumPy algebra."""
    units = head.global_unit
    bias = float(units.bias.numpy()[0, 0])
    scaled = [
        with_bias(part / units.lengthscales.numpy()[0, 0], bias)
        for part in (x, units.inducing_inputs.numpy()[0])
    ]

    def kernel(a, b):
        squares = [np.sum(part**2, axis=1) for part in (a, b)]
        k, first, second = a @ b.T, squares[0], squares[1]
        for _ in range(head.kernel_depth):
            lengths = np.sqrt(np.outer(first, second))
            angle = np.arccos(np.clip(k / lengths, -1.0, 1.0))
            k = lengths * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi
        return float(units.variance.numpy()[0, 0]) * k

    k_uu, k_ux = kernel(scaled[1], scaled[1]), kernel(scaled[1], scaled[0])
    factor = np.linalg.cholesky(k_uu + units.jitter * np.eye(len(k_uu)))
    b = np.linalg.solve(factor, k_ux)
    mean = b.T @ units.q_mean.numpy()[0, 0]
    spread = units.q_sqrt.numpy()[0, 0].T @ b
    diagonal = np.array([kernel(row[None], row[None])[0, 0] for row in scaled[0]])
    return mean, diagonal - np.sum(b**2, axis=0) + np.sum(spread**2, axis=0)


def test_svgp_head_equals_its_numpy_twin():
    rng = np.random.default_rng(3)
    head = SVGPHead(num_inducing=6, kernel="arc_cosine1", kernel_depth=2, mean="none", dtype="float64")
    x = rng.normal(size=(9, 3)) + 2.0  # off the origin: the kernel must not be centred
    head.build((None, 3))
    head.initialize(x)
    head.global_unit.bias.assign([[0.7]])
    head.global_unit.q_mean.assign(rng.normal(size=(1, 1, 6)))
    head.global_unit.q_sqrt.assign(np.tril(rng.normal(size=(1, 1, 6, 6))))
    latent = head.latent(tf.constant(x))
    mean, variance = twin_latent(head, x)
    np.testing.assert_allclose(latent.mean[:, 0], mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(latent.variance[:, 0], variance, rtol=1e-5, atol=1e-6)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("make", [SVGPHead, HGPHead, DFGPHead])
@pytest.mark.parametrize(
    ("name", "depth", "dtype"), [("arc_cosine0", 2, "float64"), ("arc_cosine1", 3, "float32")]
)
def test_every_head_predicts_the_same_folded_and_is_finite_at_a_black_image(make, name, depth, dtype):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    x[0] = 0.0
    sizes = {"num_experts": 2} if make is HGPHead else {}
    head = make(num_inducing=5, kernel=name, kernel_depth=depth, dtype=dtype, **sizes)
    head.build((None, 3))
    head.initialize(x)
    points = tf.constant(x, dtype)
    label = tf.constant(x[:, 0] > 0, tf.float32)
    with tf.GradientTape() as tape:
        latent = head.latent(points)
        loss = head.penalty() - tf.reduce_sum(head.training_terms(latent, points, label))
    gradients = tape.gradient(loss, [weight.value for weight in head.trainable_weights])
    assert all(np.isfinite(gradient).all() for gradient in gradients if gradient is not None)
    folded = head.for_inference()(points)
    tolerance = 1e-4 if dtype == "float32" else 1e-6
    np.testing.assert_allclose(folded.mean, latent.mean, atol=tolerance)
    np.testing.assert_allclose(folded.variance, latent.variance, atol=50 * tolerance)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("kernel", NAMES)
@pytest.mark.parametrize("make", [AutoGPHead, DeepGPHead, SVDKLHead, RandomFeatureHead])
def test_a_black_image_has_a_finite_prediction_and_finite_gradients(make, kernel):
    x = np.random.default_rng(0).normal(size=(30, 3))
    x[0] = 0.0
    size = {"num_features" if make is RandomFeatureHead else "num_inducing": 5}
    head = make(kernel=kernel, dtype="float64", **size)
    head.build((None, 3))
    head.initialize(x)
    with tf.GradientTape() as tape:
        latent = head.latent(tf.constant(x))
        loss = head.penalty() - tf.reduce_sum(head.training_terms(latent, tf.constant(x), tf.ones(30)))
    gradients = tape.gradient(loss, [weight.value for weight in head.trainable_weights])
    assert sum(gradient is not None for gradient in gradients) >= 3
    assert all(np.isfinite(gradient).all() for gradient in gradients if gradient is not None)
    assert np.isfinite(head.predictions(latent)["probability"]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": "arc_cosine2", "kernel_depth": 3}, "limited to kernel_depth 2, but it is 3"),
        ({"kernel": "arc_cosine0", "dtype": "float32"}, "needs dtype='float64', but it is 'float32'"),
        ({"kernel": "matern32", "kernel_depth": 2}, "for the arc-cosine kernels alone, but is 2"),
        (
            {"kernel": "arc_cosine1", "kernel_depth": 0},
            "kernel_depth must be at least 1, and a whole number, but is 0",
        ),
        ({"kernel": "arc_cosine1", "kernel_depth": None}, "kernel_depth must be at least 1"),
        ({"kernel": "arc_cosine3"}, "'arc_cosine3' is not known; choose one of arc_cosine0"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        SVGPHead(**arguments)
