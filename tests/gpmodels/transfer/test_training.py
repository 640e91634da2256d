"""Training of transfer models as a whole: the start, the exact limit, and that signal survives."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from gpmodels.transfer.rows import DomainRows, TransferRows, class_codes
from gpmodels.transfer.training import _compiled, train_transfer
from tests.gpmodels.transfer.problems import domain_rows, random_rows


def ten_classes(seed, noise=1.2, num_test=20):
    """Return rows of ten classes, 8 of each in the source and 3 in the target, and target rows to test."""
    rng = np.random.default_rng(seed)
    num_classes, columns = 10, 20
    centres = rng.normal(size=(num_classes, columns))
    moved = centres + 0.5 * rng.normal(size=centres.shape) + rng.normal(size=columns)

    def drawn(means, count):
        labels = np.repeat(np.arange(num_classes), count)
        return means[labels] + noise * rng.normal(size=(len(labels), columns)), labels

    (xs, ys), (xt, yt), (x, y) = drawn(centres, 8), drawn(moved, 3), drawn(moved, num_test)
    centre, scale = x.mean(axis=0), x.std(axis=0)
    xs, xt, x = (xs - xs.mean(axis=0)) / xs.std(axis=0), (xt - centre) / scale, (x - centre) / scale
    rows = TransferRows((domain_rows(xs, class_codes(ys, 10)),), domain_rows(xt, class_codes(yt, 10)))
    return rows, x, y


def accuracy(model, x, y):
    return float(np.mean(np.argmax(model.log_probability(x), axis=1) == y))


@pytest.fixture
def eagerly():
    """Compile nothing: a few steps on few rows take less time than the graph."""
    _compiled.cache_clear()
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)
    _compiled.cache_clear()


@pytest.fixture(scope="module")
def problem():
    return ten_classes(0)


@pytest.mark.slow
def test_training_keeps_what_the_start_knows(problem):
    """The bound has a maximum where nothing is predicted; with codes and a prior mean training avoids it."""
    rows, x, y = problem
    start = train_transfer(rows, max_iterations=0)
    trained = train_transfer(rows, max_iterations=40)
    assert trained.bound > start.bound + 50.0
    assert np.all(np.diff(trained.curve) >= -1e-6)
    assert accuracy(trained, x, y) >= accuracy(start, x, y) - 0.01
    left_out = trained.class_log_probability(*trained.leave_one_out())
    accuracy_left_out = np.mean(np.argmax(left_out, axis=1) == np.argmax(rows.target.codes, axis=1))
    assert min(accuracy(trained, x, y), accuracy_left_out) >= 0.3  # three times chance


def test_transfer_helps_where_the_domains_are_alike(problem):
    rows, x, y = problem
    alone = train_transfer(rows.without_sources(), max_iterations=0)
    assert accuracy(train_transfer(rows, max_iterations=0), x, y) > accuracy(alone, x, y)


@pytest.mark.slow
def test_one_class_against_the_rest_without_prior_mean_loses_what_the_start_knows(problem):
    """Its best bound predicts the base rate: nothing is wrong with the optimiser."""
    rows, x, y = problem
    settings = {"likelihood": "noisy_probit", "output_prior": "zero", "num_inducing": 10}
    start, trained = (train_transfer(rows, max_iterations=count, **settings) for count in (0, 60))
    assert trained.bound > start.bound
    assert accuracy(start, x, y) >= 0.6
    assert accuracy(trained, x, y) <= 0.2
    with pytest.raises(NotImplementedError, match="likelihood='gaussian'"):
        trained.leave_one_out()


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_sources", "settings"),
    [
        (0, {}),
        (1, {"form": "mean_field"}),
        (1, {"kind": "symmetric"}),
        (1, {"likelihood": "noisy_probit"}),
        (2, {"latent_noise": 0.1}),
    ],
    ids=str,
)
@pytest.mark.usefixtures("eagerly")
def test_odd_rows_give_finite_results(num_sources, settings):
    """Duplicates, a constant column, and classes of one row."""
    rng = np.random.default_rng(2)
    rows = random_rows(rng, (6, 5, 3)[2 - num_sources :], columns=3)
    domains = []
    for domain in rows.domains:
        x = domain.x.copy()
        x[:, 1] = 0.0
        x[1] = x[0]
        domains.append(domain_rows(x, domain.codes))
    model = train_transfer(TransferRows(tuple(domains[:-1]), domains[-1]), max_iterations=2, **settings)
    assert np.isfinite(model.curve).all()
    assert model.bound >= model.curve[0]
    log_probability = model.log_probability(rng.normal(size=(5, 3)))
    np.testing.assert_allclose(np.exp(log_probability).sum(axis=1), 1.0, atol=1e-9)
    assert 0.0 <= model.transfer_weight <= 1.0
    assert (model.transfer_weight == 0.0) == (num_sources == 0)


@pytest.mark.usefixtures("eagerly")
def test_columns_without_any_difference_give_equal_probabilities():
    rows = random_rows(np.random.default_rng(3), (6, 3))
    flat = [domain_rows(np.zeros_like(domain.x), domain.codes) for domain in rows.domains]
    model = train_transfer(TransferRows((flat[0],), flat[1]), max_iterations=3)
    np.testing.assert_allclose(np.exp(model.log_probability(np.zeros([1, 2]))), 1 / 3, atol=1e-6)
    assert model.transfer_weight == 0.5


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_rows_in_single_precision_are_computed_in_double():
    rows = random_rows(np.random.default_rng(4), (6, 5))
    single = [
        DomainRows(*(part.astype(np.float32) for part in (d.x, d.codes, d.weight)), d.lengthscale)
        for d in rows.domains
    ]
    results = []
    for dtype in (np.float32, np.float64):
        domains = [
            DomainRows(*(part.astype(dtype) for part in (d.x, d.codes, d.weight)), d.lengthscale)
            for d in single
        ]
        results.append(train_transfer(TransferRows((domains[0],), domains[1]), max_iterations=3))
    assert results[0].bound == pytest.approx(results[1].bound, abs=1e-9)
    assert results[0].scores(single[1].x)[0].dtype == np.float64


@pytest.mark.slow
def test_real_targets_are_predicted():
    rng = np.random.default_rng(5)
    domains = []
    for size, shift in ((40, 0.3), (6, 0.0)):
        x = rng.uniform(-2, 2, size=(size, 1))
        domains.append(domain_rows(x, np.sin(2 * x + shift) + 0.05 * rng.normal(size=x.shape)))
    rows = TransferRows((domains[0],), domains[1], is_classifier=False)
    x = np.linspace(-2, 2, 50)[:, None]
    error = {}
    for name, part in (("transfer", rows), ("alone", rows.without_sources())):
        model = train_transfer(part, max_iterations=60)
        mean, variance = model.scores(x)
        assert variance.min() > 0.0
        error[name] = np.sqrt(np.mean((mean - np.sin(2 * x)) ** 2))
    assert error["transfer"] < 0.7 * error["alone"]
    with pytest.raises(ValueError, match="real targets"):
        model.log_probability(x)
    with pytest.raises(ValueError, match="needs classes"):
        train_transfer(rows, likelihood="noisy_probit")


def test_class_probabilities_are_those_of_the_codes_densities():
    rows = random_rows(np.random.default_rng(6), (6, 5))
    model = train_transfer(rows, max_iterations=0)
    mean, variance = model.scores(rows.target.x)
    codes = class_codes(np.arange(3), 3)
    deviation = np.sqrt(variance + model.noise_variance)
    density = np.stack([scipy.stats.norm(mean, deviation).logpdf(code).sum(axis=1) for code in codes], axis=1)
    expected = density - scipy.special.logsumexp(density, axis=1, keepdims=True)
    np.testing.assert_allclose(model.log_probability(rows.target.x), expected, atol=1e-10)


@pytest.mark.slow
def test_the_weight_of_transfer_is_the_sources_share_of_the_variance():
    rows = random_rows(np.random.default_rng(7), (8, 6))
    weights = [train_transfer(rows, max_iterations=0, mixing=share).transfer_weight for share in (0, 0.5, 1)]
    assert weights[0] == 0.0
    assert 0.05 < weights[1] < 0.95
    assert weights[2] == 1.0


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_training_is_repeatable_and_says_how_it_goes():
    rows = random_rows(np.random.default_rng(8), (12, 9))
    seen = []
    settings = {"num_inducing": 4, "max_iterations": 3}
    first = train_transfer(
        rows, **settings, seed=3, callback=lambda count, value: seen.append((count, value))
    )
    assert seen == list(enumerate(first.curve))[1:]
    assert len(first.curve) == 4
    assert first.curve[-1] == pytest.approx(first.bound, rel=1e-9)
    again, other = (train_transfer(rows, **settings, seed=seed) for seed in (3, 4))
    assert first.bound == again.bound
    assert first.bound != other.bound


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_mixing_weights_start_at_their_prior_and_are_learned_or_stay():
    rows = random_rows(np.random.default_rng(9), (6, 5, 7))
    start = train_transfer(rows, max_iterations=0)
    np.testing.assert_allclose(start.mixing, 3.0)  # half of 7 rows
    np.testing.assert_allclose(train_transfer(rows, max_iterations=0, prior=(1, 2, 3)).mixing, [1, 2, 3])
    assert np.abs(train_transfer(rows, max_iterations=1).mixing - 3.0).max() > 1e-3
    fixed = train_transfer(rows, max_iterations=1, mixing=(0.2, 0.3, 0.5))
    np.testing.assert_array_equal(fixed.mixing, [0.2, 0.3, 0.5])
    assert train_transfer(rows, max_iterations=0, kind="symmetric").mixing.size == 0
