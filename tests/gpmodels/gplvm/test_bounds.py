"""The collapsed bound against GPflow, its limits, and what must not change it."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from gpmodels.gplvm import kernels
from gpmodels.gplvm.bounds import JITTER, best_inducing_posterior, latent_collapsed_bound, latent_kl
from gpmodels.gplvm.data import seen_rows
from gpmodels.gplvm.kernels import LatentKernel
from gpmodels.gplvm.mini_batch import explicit_bound
from gpmodels.gplvm.rows import HeldModel, row_bounds, row_terms
from gpmodels.gplvm.training import LatentObjective, Parameters, latent_start_parameters, maximise

N, D, Q, M = 14, 5, 2, 6
NOISE = 0.3


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    return {
        "y": rng.normal(size=(N, D)),
        "mean": rng.normal(size=(N, Q)),
        "variance": rng.uniform(0.1, 0.8, (N, Q)),
        "inducing": rng.normal(size=(M, Q)),
        "lengthscales": rng.uniform(0.5, 2.0, Q),
        "weights": rng.uniform(0.2, 1.0, Q),
    }


def kernel_of(name, problem):
    rbf = {"variance": tf.constant(1.3, tf.float64), "lengthscales": tf.constant(problem["lengthscales"])}
    linear = {"weights": tf.constant(problem["weights"])}
    return LatentKernel(**(rbf if "rbf" in name else {}), **(linear if "linear" in name else {}))


def gpflow_kernel(name, problem):
    parts = []
    if "rbf" in name:
        parts.append(gpflow.kernels.SquaredExponential(1.3, problem["lengthscales"]))
    if "linear" in name:
        parts.append(gpflow.kernels.Linear(problem["weights"]))
    return parts[0] if len(parts) == 1 else gpflow.kernels.Sum(parts)


def bound(name, problem, *, y=None, variance="given", prior=True, order=None):
    rows = seen_rows(problem["y"] if y is None else y)
    order = slice(None) if order is None else order
    return float(
        latent_collapsed_bound(
            kernel_of(name, problem),
            tf.constant(problem["mean"][order]),
            tf.constant(problem["variance"][order]) if variance is not None else None,
            tf.constant(problem["inducing"]),
            tf.constant(NOISE, tf.float64),
            rows,
            prior=prior,
        )
    )


def sgpr(name, problem, y, rows=slice(None)):
    with gpflow.config.as_context(gpflow.config.Config(jitter=JITTER)):
        model = gpflow.models.SGPR(
            (problem["mean"][rows], y[rows]),
            gpflow_kernel(name, problem),
            problem["inducing"],
            noise_variance=NOISE,
        )
        return float(model.elbo())


@pytest.mark.parametrize("name", kernels.KERNELS)
def test_the_bound_is_that_of_gpflow(name, problem):
    with gpflow.config.as_context(gpflow.config.Config(jitter=JITTER)):
        model = gpflow.models.BayesianGPLVM(
            problem["y"],
            problem["mean"],
            problem["variance"],
            gpflow_kernel(name, problem),
            inducing_variable=problem["inducing"],
        )
        model.likelihood.variance.assign(NOISE)
        expected = float(model.elbo())
    assert bound(name, problem) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("name", kernels.KERNELS)
def test_blocks_of_rows_change_neither_bound_nor_gradient(name, problem, monkeypatch):
    def evaluated():
        mean, variance = tf.constant(problem["mean"]), tf.constant(problem["variance"])
        inducing, rows = tf.constant(problem["inducing"]), seen_rows(holed(problem["y"]))
        with tf.GradientTape() as tape:
            tape.watch([mean, variance, inducing])
            noise = tf.constant(NOISE, tf.float64)
            value = latent_collapsed_bound(kernel_of(name, problem), mean, variance, inducing, noise, rows)
        return value.numpy(), *(part.numpy() for part in tape.gradient(value, [mean, variance, inducing]))

    whole = evaluated()
    blocks = []
    original = kernels._exp_gradient
    monkeypatch.setattr(kernels, "BLOCK_VALUES", 5 * M * (M + 1) // 2)
    monkeypatch.setattr(kernels, "LEAST_BLOCK", 5)
    monkeypatch.setattr(kernels, "_exp_gradient", lambda *args: blocks.append(1) or original(*args))
    for whole_part, part in zip(whole, evaluated(), strict=True):
        np.testing.assert_allclose(part, whole_part, atol=1e-9)
    assert name == "linear" or len(blocks) > 1


def holed(y, seed=1):
    holes = np.random.default_rng(seed).random(y.shape) < 0.3
    holes[0], holes[:, 0] = False, False  # no row and no column is empty
    return np.where(holes, np.nan, y)


@pytest.mark.parametrize("name", kernels.KERNELS)
def test_the_gradient_is_that_of_finite_differences_with_missing_values(name, problem):
    rows = seen_rows(holed(problem["y"]))
    shapes = Parameters(
        mean=problem["mean"],
        log_variances=np.log(problem["variance"]),
        inducing=problem["inducing"],
        log_lengthscales=np.log(problem["lengthscales"]) if "rbf" in name else None,
        log_kernel_variance=np.array(0.2) if "rbf" in name else None,
        log_weights=np.log(problem["weights"]) if "linear" in name else None,
        log_noise=np.array(np.log(NOISE)),
    )

    def value(flat):
        return shapes.from_flat(tf.constant(flat)).bound(rows)

    flat = tf.constant(shapes.flat())
    with tf.GradientTape() as tape:
        tape.watch(flat)
        result = shapes.from_flat(flat).bound(rows)
    gradient = tape.gradient(result, flat).numpy()
    direction = np.random.default_rng(3).normal(size=len(gradient))
    step = 1e-5 * direction
    finite = float(value(flat + step) - value(flat - step)) / 2e-5
    assert gradient @ direction == pytest.approx(finite, rel=1e-6)


@pytest.mark.parametrize("name", kernels.KERNELS)
def test_without_variance_the_bound_is_that_of_sparse_regressions(name, problem):
    expected = sgpr(name, problem, problem["y"])
    assert bound(name, problem, variance=None, prior=False) == pytest.approx(expected, abs=1e-8)
    small = {**problem, "variance": np.full((N, Q), 1e-12)}
    divergence = float(latent_kl(tf.constant(small["mean"]), tf.constant(small["variance"])))
    assert bound(name, small) + divergence == pytest.approx(expected, abs=1e-4)


def test_a_point_counts_the_density_of_its_prior(problem):
    apart = bound("rbf", problem, variance=None) - bound("rbf", problem, variance=None, prior=False)
    density = -0.5 * np.sum(problem["mean"] ** 2) - 0.5 * N * Q * np.log(2 * np.pi)
    assert apart == pytest.approx(density)


@pytest.mark.parametrize("name", kernels.KERNELS)
def test_each_column_uses_the_rows_that_have_it(name, problem):
    y = holed(problem["y"])
    expected = sum(sgpr(name, problem, y[:, [d]], ~np.isnan(y[:, d])) for d in range(D))
    assert bound(name, problem, y=y, variance=None, prior=False) == pytest.approx(expected, abs=1e-8)


def test_a_column_that_nobody_has_changes_nothing(problem):
    wider = np.column_stack([problem["y"], np.full(N, np.nan)])
    assert bound("rbf", problem, y=wider) == pytest.approx(bound("rbf", problem), abs=1e-9)


def test_the_order_of_rows_and_of_columns_changes_nothing(problem):
    y, rng = holed(problem["y"]), np.random.default_rng(2)
    expected = bound("rbf", problem, y=y)
    rows = rng.permutation(N)
    assert bound("rbf", problem, y=y[rows], order=rows) == pytest.approx(expected, abs=1e-9)
    assert bound("rbf", problem, y=y[:, rng.permutation(D)]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", kernels.KERNELS)
def test_at_the_best_q_the_explicit_bound_is_the_collapsed_one(name, problem):
    noise = tf.constant(NOISE, tf.float64)
    model = best_inducing_posterior(
        kernel_of(name, problem),
        tf.constant(problem["mean"]),
        tf.constant(problem["variance"]),
        tf.constant(problem["inducing"]),
        noise,
        seen_rows(problem["y"]),
    )
    parameters = Parameters(
        mean=tf.constant(problem["mean"]),
        log_variances=tf.math.log(tf.constant(problem["variance"])),
        inducing=tf.constant(problem["inducing"]),
        log_lengthscales=tf.math.log(tf.constant(problem["lengthscales"])) if "rbf" in name else None,
        log_kernel_variance=tf.math.log(tf.constant(1.3, tf.float64)) if "rbf" in name else None,
        log_weights=tf.math.log(tf.constant(problem["weights"])) if "linear" in name else None,
        log_noise=tf.math.log(noise),
    )

    def explicit(posterior):
        y, everything = tf.constant(problem["y"]), tf.ones([1, D], tf.float64)
        return float(explicit_bound(parameters, posterior, np.zeros(D, np.intp), y, everything, weight=1.0))

    collapsed = bound(name, problem)
    assert explicit(model) == pytest.approx(collapsed, abs=1e-7)
    assert explicit(model._replace(mean=model.mean + 0.01)) < collapsed - 1e-5
    assert explicit(model._replace(covariance=1.1 * model.covariance)) < collapsed - 1e-5


def test_bounds_of_rows_sum_to_the_collapsed_bound_with_missing_values(problem):
    y, name = holed(problem["y"]), "rbf+linear"
    rows = seen_rows(y)
    tensors = [tf.constant(problem[key]) for key in ("mean", "variance", "inducing")]
    noise = tf.constant(NOISE, tf.float64)
    posterior = best_inducing_posterior(kernel_of(name, problem), *tensors, noise, rows)
    model = HeldModel(
        kernel_of(name, problem), problem["inducing"], NOISE, posterior, rows.group, is_point=False
    )
    terms = row_terms(model, y)
    values = terms.constant + row_bounds(
        model.kernel,
        tensors[0],
        tf.math.log(tensors[1]),
        tensors[2],
        terms.linear,
        terms.quadratic[terms.pattern],
        terms.precision,
    )
    # Σ_d KL(q(v_d)), the covariance being that of the column's group
    mean, covariance = posterior.mean.numpy(), posterior.covariance.numpy()[rows.group]
    divergence = 0.5 * sum(
        np.trace(s) - np.linalg.slogdet(s)[1] - M + mean[:, d] @ mean[:, d] for d, s in enumerate(covariance)
    )
    assert float(tf.reduce_sum(values)) - divergence == pytest.approx(bound(name, problem, y=y), abs=1e-7)


@pytest.mark.slow
def test_points_under_a_linear_kernel_find_probabilistic_pca():
    """X = U (Λ - σ²)^½ up to rotation, σ² the mean of the other eigenvalues of Y Yᵀ/D: dual PPCA."""
    rng = np.random.default_rng(0)
    num_rows, num_columns = 12, 40
    signal = rng.normal(size=(num_rows, 2)) @ rng.normal(size=(2, num_columns))
    y = signal + 0.3 * rng.normal(size=(num_rows, num_columns))
    values, vectors = np.linalg.eigh(y @ y.T / num_columns)
    noise = values[:-2].mean()
    optimum = vectors[:, -2:] * np.sqrt(values[-2:] - noise)
    covariance = optimum @ optimum.T + noise * np.eye(num_rows)
    best = (
        -0.5
        * num_columns
        * (
            num_rows * np.log(2 * np.pi)
            + np.linalg.slogdet(covariance)[1]
            + np.trace(np.linalg.solve(covariance, y @ y.T / num_columns))
        )
    )
    start = Parameters(
        mean=rng.normal(size=(num_rows, 2)),
        log_variances=None,
        inducing=None,
        log_lengthscales=None,
        log_kernel_variance=None,
        log_weights=np.zeros(2),
        log_noise=np.array(0.0),
    )
    found = maximise(
        start, seen_rows(y), max_iterations=500, tolerance=0.0, iteration_done=lambda *_: None, prior=False
    )
    products = (found.mean * np.exp(found.log_weights)) @ found.mean.T
    assert np.exp(found.log_noise) == pytest.approx(noise, rel=1e-3)
    np.testing.assert_allclose(products, optimum @ optimum.T, atol=1e-2)
    value = found.bound(seen_rows(y), prior=False)
    assert float(value) == pytest.approx(best, abs=1e-2)


def test_the_data_are_no_constant_of_the_graph():
    """A graph may hold no more than 2 GiB."""
    y = holed(np.random.default_rng(0).normal(size=(1000, 20)))
    start = latent_start_parameters(
        y, num_dimensions=1, num_inducing=3, kernel="rbf", is_point=False, rng=np.random.default_rng(0)
    )
    graph = LatentObjective(start, seen_rows(y))._compiled.get_concrete_function().graph
    assert graph.as_graph_def().ByteSize() < 0.9 * y.nbytes
