"""PIC against the dense N x N covariance, and its limits: the exact GP and FITC."""

import numpy as np
import pytest

from benchmarks.peers.fitc import fitc_posterior
from benchmarks.peers.lbfgs import LBFGS
from benchmarks.peers.pic import PICModel, PICRegressor

from .dense import DenseSparseGP, finite_differences, problem
from .test_fitc import model_of as fitc_model_of


def model_of(gp: DenseSparseGP, x: np.ndarray, y: np.ndarray, block: np.ndarray) -> PICModel:
    model = PICModel(x, y, block, gp.inducing, gp.lengthscales)
    model.variance.assign(gp.variance)
    model.noise_variance.assign(gp.noise)
    return model


def blocks_around(x: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Blocks of unequal sizes, such that each point is nearest to the mean of its block after two rounds."""
    for _ in range(20):
        block = np.linalg.norm(x[:, None] - centres, axis=-1).argmin(axis=1)
        centres = np.stack([x[block == j].mean(axis=0) for j in np.unique(block)])
    return block


@pytest.mark.parametrize("seed", range(4))
def test_evidence_and_predictions_equal_those_of_the_dense_covariance(seed):
    x, y, gp = problem(seed)
    block = blocks_around(x, x[:3])
    assert len(set(np.bincount(block))) > 1
    new = np.random.default_rng(seed + 100).uniform(-3.0, 3.0, (12, 2))
    centres = np.stack([x[block == j].mean(axis=0) for j in range(3)])
    block_of_new = np.linalg.norm(new[:, None] - centres, axis=-1).argmin(axis=1)
    assert len(set(block_of_new)) > 1

    model = model_of(gp, x, y, block)
    assert model.log_evidence().numpy() == pytest.approx(gp.log_evidence(x, y, block))
    expected = [gp.predict(x, y, block, *pair) for pair in zip(new[:, None], block_of_new, strict=True)]
    np.testing.assert_allclose(
        np.stack(model.posterior().predict(new), axis=1), expected, rtol=1e-6, atol=1e-8
    )


def test_one_block_gives_the_exact_gp_whatever_the_inducing_inputs():
    x, y, gp = problem(5)
    new = np.linspace(-3.0, 3.0, 20).reshape(10, 2)
    log_evidence, expected = gp.exact(x, y, new)
    model = model_of(gp, x, y, np.zeros(len(x), int))
    assert model.log_evidence().numpy() == pytest.approx(log_evidence)
    np.testing.assert_allclose(
        np.stack(model.posterior().predict(new), axis=1), expected, rtol=1e-6, atol=1e-8
    )


def test_inducing_inputs_at_all_points_give_the_evidence_of_the_exact_gp():
    x, y, gp = problem(6)
    gp = DenseSparseGP(x, 0.5 * gp.lengthscales, gp.variance, gp.noise)
    log_evidence, expected = gp.exact(x, y, x[:5])
    model = model_of(gp, x, y, blocks_around(x, x[:4]))
    assert model.log_evidence().numpy() == pytest.approx(log_evidence, abs=1e-3)
    np.testing.assert_allclose(np.stack(model.posterior().predict(x[:5]), axis=1), expected, atol=1e-4)


@pytest.mark.slow
def test_a_block_for_each_point_gives_fitc():
    x, y, gp = problem(7)
    model, fitc = model_of(gp, x, y, np.arange(len(x))), fitc_model_of(gp, x, y)
    assert model.log_evidence().numpy() == pytest.approx(fitc.maximum_log_likelihood_objective().numpy())
    posterior = model.posterior()
    for ours, theirs in zip(posterior.shared.predict(x), fitc_posterior(fitc).predict(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7)


def test_order_of_points_and_names_of_blocks_do_not_matter():
    x, y, gp = problem(8)
    block = blocks_around(x, x[:3])
    order = np.random.default_rng(8).permutation(len(x))
    renamed = np.array([7, 2, 4])[block]
    model, shuffled = model_of(gp, x, y, block), model_of(gp, x[order], y[order], renamed[order])
    assert model.log_evidence().numpy() == pytest.approx(shuffled.log_evidence().numpy(), rel=1e-12)
    for one, other in zip(model.posterior().predict(x), shuffled.posterior().predict(x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


@pytest.mark.slow
def test_gradient_equals_finite_differences():
    x, y, gp = problem(9, num_inducing=3)
    model = model_of(gp, x, y, blocks_around(x, x[:3]))
    optimiser = LBFGS(lambda: -model.log_evidence(), model.trainable_variables)
    start = optimiser.position
    assert len(start) == 3 * 2 + 2 + 1 + 1
    _, gradient = optimiser.value_and_gradient(start)
    expected = finite_differences(lambda position: optimiser.value_and_gradient(position)[0], start)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


def test_graph_does_not_grow_with_the_number_of_blocks():
    x, y, gp = problem(10)

    def size(block: np.ndarray) -> int:
        optimiser = LBFGS(
            model_of(gp, x, y, block).log_evidence, model_of(gp, x, y, block).trainable_variables
        )
        graph = optimiser._compute.get_concrete_function().graph
        return len(graph.as_graph_def().node)

    assert size(np.arange(len(x)) % 2) == size(np.arange(len(x)))


@pytest.mark.parametrize(("asked", "num_points", "expected"), [("auto", 450, 2), ("auto", 90, 1), (7, 5, 5)])
def test_number_of_blocks(asked, num_points, expected):
    assert PICRegressor(num_blocks=asked)._choose_num_blocks(num_points, 10) == expected


def test_automatic_blocks_are_no_smaller_than_the_inducing_points_are_many():
    assert PICRegressor()._choose_num_blocks(3000, 500) == 6


@pytest.mark.slow
def test_there_are_no_empty_blocks():
    few = np.repeat([[0.0], [1.0], [2.0]], 4, axis=0)
    assert PICRegressor(3, 7, max_iterations=1, random_state=0).fit(few, few[:, 0]).n_blocks_ == 3
