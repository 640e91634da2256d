"""AutoGP estimators: starts, blocks of objectives, files, and what they refuse."""

import copy

import numpy as np
import pytest
import tensorflow as tf
from sklearn.datasets import load_diabetes, load_iris

from gpmodels import AutoGPClassifier, AutoGPRegressor, SVGPClassifier
from gpmodels.estimators.autogp.alternation import AlternatingSteps, LeaveOneOutStep
from gpmodels.estimators.autogp.refit import refit_posterior_by_chunks
from gpmodels.estimators.fitting.mini_batch import Rows, log_densities
from gpmodels.estimators.sparse.temperature import FOLDS, temperature_by_folds
from tests.gpmodels.scikit_learn_checks import checks_of_a_family

SMALL = {"num_inducing": 8, "max_iterations": 25, "random_state": 0}


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def two_classes():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    return x, np.where(x[:, 0] + 0.3 * rng.normal(size=120) > 0, "yes", "no")


@pytest.fixture(scope="module")
def fitted(two_classes):
    return AutoGPClassifier(**SMALL).fit(*two_classes)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("objective", ["elbo", "loo", "loo_paper"])
@pytest.mark.parametrize("settings", [{}, {"num_components": 2, "posterior": "diagonal"}], ids=str)
def test_learns_each_objective(iris, objective, settings):
    model = AutoGPClassifier(objective=objective, **SMALL, **settings).fit(*iris)
    assert model.score(*iris) > 0.9
    assert model.n_iter_ == len(model.learning_curve_) <= 25
    probability = model.predict_proba(iris[0])
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol=1e-6)


@pytest.mark.slow
def test_logistic_is_the_likelihood_of_two_classes_and_both_probabilities_are_the_heads(two_classes):
    model = AutoGPClassifier(temperature=1.0, **SMALL).fit(*two_classes)
    assert model.head_settings_["likelihood"] == "logistic"
    outputs = model.predict_distribution(two_classes[0])
    engine = model._trained_engine()
    scaled = (two_classes[0] - model.input_mean_) / model.input_scale_
    expected = engine.head(scaled)["probability"].numpy()
    np.testing.assert_allclose(outputs["probability"][:, 1], expected, rtol=1e-6)
    assert list(model.classes_) == ["no", "yes"]


@pytest.mark.slow
def test_no_step_is_the_svgp_of_the_same_start(iris):
    """A rate of almost nothing leaves what the SVGP's fit to the rows gave."""
    model = AutoGPClassifier(
        objective="elbo",
        num_inducing=8,
        max_iterations=1,
        learning_rate=1e-12,
        early_stopping=False,
        random_state=0,
    ).fit(*iris)
    twin = SVGPClassifier(num_inducing=8, max_iterations=40, mean="none", random_state=0).fit(*iris)
    lengthscales, theirs = (one.weights_[1].ravel() for one in (model, twin))
    np.testing.assert_allclose(lengthscales, theirs, rtol=1e-6)
    # The posterior is solved anew at the end, so that the bound can only be better.
    assert twin.bound(*iris) - 0.01 < model.bound(*iris) < twin.bound(*iris) + 1.0


def tempered_like(probability, temperature):
    """p^(1/T), normalised over the two classes of which this is one."""
    powers = [part ** (1.0 / temperature) for part in (probability, 1.0 - probability)]
    return powers[0] / sum(powers)


@pytest.mark.slow
def test_temperature_is_what_rows_ask_for_that_have_been_left_out(two_classes):
    x, y = two_classes
    settings = {"early_stopping": False, **SMALL}  # no held-out rows that might keep the posterior held
    model = AutoGPClassifier(**settings).fit(*two_classes)
    own = AutoGPClassifier(temperature=1.0, **settings).fit(*two_classes)
    assert own.temperature_ == 1.0
    assert 0.5 < model.temperature_ < 2.0
    assert model.temperature_ != 1.0
    np.testing.assert_allclose(
        model.predict_proba(x), tempered_like(own.predict_proba(x), model.temperature_)
    )
    np.testing.assert_allclose(
        np.exp(model.leave_one_out(x, y)),
        tempered_like(np.exp(own.leave_one_out(x, y)), model.temperature_),
        rtol=1e-5,
    )
    several = AutoGPClassifier(num_components=2, **SMALL).fit(*two_classes)
    assert several.temperature_ == several._held_temperature  # nothing is solved, and nothing left out
    assert AutoGPClassifier(num_components=2, **settings).fit(*two_classes).temperature_ == 1.0


@pytest.mark.slow
def test_separable_classes_and_a_probit_are_no_trouble():
    """Leaving out differentiates the sites, hence log Φ twice, far in its tail too."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    y = x[:, 0] > 0
    model = AutoGPClassifier(likelihood="bernoulli", num_inducing=10, max_iterations=120, random_state=0)
    probability = model.fit(x[:60], y[:60]).predict_proba(x[60:])
    assert -np.log(probability[np.arange(20), y[60:].astype(int)]).mean() < 0.35


class Log:
    """Stands for engine and step: notes what is called."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def call(*_):
            self.calls.append(name)
            return 0.0

        return call


def alternating(block, *, is_papers=False):
    steps = object.__new__(AlternatingSteps)
    steps._engine, steps._leave_one_out, steps._block, steps._holds = Log(), Log(), block, False
    steps._is_papers = is_papers
    return steps


def test_only_the_papers_term_is_said_not_to_exist_where_it_is_infinite():
    for is_papers in (False, True):
        steps = alternating(1, is_papers=is_papers)
        steps._leave_one_out.take = lambda *_: np.inf
        if is_papers:
            with pytest.raises(ValueError, match="objective='loo_paper' does not exist here"):
                steps.take(1, (), None, None)
        else:
            assert steps.take(1, (), None, None) == np.inf  # which ends any fit, with the advice for all


def test_blocks_alternate_and_hold_q_of_u_between():
    steps = alternating(2)
    kinds = []
    for number in range(6):
        before = len(steps._engine.calls)
        steps.take(number, (), None, None)
        kinds.append("elbo" if len(steps._engine.calls) > before else "loo")
    assert kinds == ["elbo", "elbo", "loo", "loo", "elbo", "elbo"]
    assert steps._leave_one_out.calls == ["hold", "take", "take", "release"]
    steps.settle()  # nothing is held now
    assert steps._leave_one_out.calls[-1] == "release"
    assert len(steps._leave_one_out.calls) == 4


@pytest.mark.slow
def test_early_stopping_waits_for_a_cycle_of_blocks(iris):
    """Ten looks fit into a cycle, in whose other half the held-out rows may gain."""
    settings = {"num_inducing": 8, "max_iterations": 400, "block_epochs": 50, "random_state": 0}
    model = AutoGPClassifier(objective="loo", **settings).fit(*iris)
    looks = [point.iteration for point in model.learning_curve_ if point.validation == point.validation]
    values = [point.validation for point in model.learning_curve_ if point.validation == point.validation]
    last_gain = looks[int(np.argmax(values))]
    assert model.n_iter_ == 400 or model.n_iter_ - last_gain >= 100 + 60


def test_settling_in_a_block_of_leaving_out_keeps_holding():
    steps = alternating(1)
    for number in (0, 1):
        steps.take(number, (), None, None)
    steps.settle()
    steps.take(2, (), None, None)
    assert steps._leave_one_out.calls == ["hold", "take", "release", "release"]


@pytest.mark.parametrize("model", [AutoGPClassifier(), AutoGPRegressor()])
def test_a_fifth_of_the_rows_is_held_out_if_nothing_is_said(model):
    """Leaving out overfits few rows; a tenth of five hundred chose a model that had."""
    assert model.validation_fraction == 0.2


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"early_stopping": False},
        pytest.param({"early_stopping": False, "posterior": "diagonal"}, marks=pytest.mark.exhaustive),
        {"objective": "elbo", "optimizer": "lbfgs"},
    ],
)
def test_the_temperature_of_a_solved_posterior_is_by_folds(iris, monkeypatch, settings):
    """Every fold's posterior is solved without its rows, with whole groups, and does not stay."""
    x, y = iris
    groups = np.arange(len(y)) // 3
    settings = {"effective_observations": "all", **settings}  # not counted by fits that leave groups out
    solved, seen, fold_of = [], [], temperature_by_folds

    def refit(engine, rows):
        solved.append(len(rows))
        return refit_posterior_by_chunks(engine, rows)

    def folds(engine, x, label, weight, groups, leave_out, *, seed, logits):
        seen.append((engine.head.get_weights(), len(label), len(np.unique(groups))))
        solved.clear()
        return fold_of(engine, x, label, weight, groups, leave_out, seed=seed, logits=logits)

    monkeypatch.setattr("gpmodels.estimators.autogp.estimators.temperature_by_folds", folds)
    monkeypatch.setattr("gpmodels.estimators.autogp.estimators.refit_posterior_by_chunks", refit)
    model = AutoGPClassifier(**SMALL, **settings).fit(x, y, groups=groups)
    ((weights, rows, num_groups),) = seen
    assert rows == 150  # groups tell the flower apart that iris has twice
    assert num_groups == 50
    assert len(solved) == FOLDS
    assert sum(rows - left for left in solved) == rows
    assert model.temperature_ != 1.0
    for kept, before in zip(model.weights_, weights, strict=True):
        np.testing.assert_array_equal(kept, before)
    own = AutoGPClassifier(temperature=1.0, **SMALL, **settings).fit(x, y, groups=groups)
    assert own.temperature_ == 1.0
    assert len(seen) == 1


@pytest.mark.slow
def test_of_many_rows_the_temperature_is_by_rows_left_out(iris, monkeypatch):
    monkeypatch.setattr("gpmodels.estimators.autogp.estimators.ROWS_LEARNED_AGAIN", 100)
    monkeypatch.delattr("gpmodels.estimators.autogp.estimators.temperature_by_folds")
    assert AutoGPClassifier(early_stopping=False, **SMALL).fit(*iris).temperature_ != 1.0


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize(("gain", "kept"), [(0.1, 0), (2.0, 25)])
def test_a_fit_leaves_the_svgp_for_a_clear_gain_alone(iris, monkeypatch, gain, kept):
    looks = iter([0.0, gain / 2, gain * 0.9, gain])  # the start, and after 10, 20 and 25 steps
    fits(monkeypatch, judge=lambda _, rows: np.full(len(rows), next(looks)))
    assert AutoGPClassifier(**SMALL).fit(*iris).kept_iteration_ == kept


@pytest.mark.slow
def test_a_held_posterior_has_the_temperature_of_the_held_out_rows(iris, monkeypatch):
    def keep(engine, *_):
        engine.head.posterior.q_mean.assign(0.0 * engine.head.posterior.q_mean)  # worse than what was held

    monkeypatch.setattr("gpmodels.estimators.autogp.estimators.refit_posterior_by_chunks", keep)
    monkeypatch.setattr("gpmodels.estimators.autogp.estimators.is_clear_gain", lambda *_: True)
    model = AutoGPClassifier(objective="loo", **SMALL).fit(*iris)
    assert not model.posterior_is_solved_
    assert model.temperature_ == model._held_temperature != 1.0


def fits(monkeypatch, *, judge=None):
    """Record the fits: rows, whether some are held out, the schedule, where it ends, what is kept."""
    found, learn = [], AutoGPClassifier._learn

    def recorded(self, engine, training, held_out, monitor, total, rng, stop_after=None):
        kept = learn(self, engine, training, held_out, monitor, total, rng, stop_after=stop_after)
        found.append((len(training), held_out is not None, total, stop_after, kept))
        return kept

    monkeypatch.setattr(AutoGPClassifier, "_learn", recorded)
    if judge is not None:
        monkeypatch.setattr(AutoGPClassifier, "_judge", lambda _: judge)
    return found


@pytest.mark.slow
def test_few_rows_are_all_learned_from_for_as_long_as_those_held_out_chose(iris, monkeypatch):
    looks = iter([0.0, 1.0, 3.0, 2.0])  # the start, and after 10, 20 and 25 steps
    found = fits(monkeypatch, judge=lambda _, rows: np.full(len(rows), next(looks)))
    model = AutoGPClassifier(batch_size=64, block_epochs=1, **SMALL).fit(*iris)
    assert model.kept_iteration_ == 20
    rows = 149  # iris has one flower twice
    longer = 149 / 120
    assert found == [(120, True, 25, None, 20), (rows, False, round(25 * longer), round(20 * longer), 25)]


@pytest.mark.slow
def test_inducing_inputs_are_at_the_rows_that_are_learned_from(monkeypatch):
    placed = []

    def recorded(_self, engine, training, *_, **__):
        rows = (training.x - training.mean) / training.scale
        inducing = engine.head.unit.inducing_inputs.numpy()[0]
        distances = np.linalg.norm(inducing[:, None] - rows, axis=-1)
        placed.append((len(rows), np.sum(distances.min(axis=1) < 1e-6)))
        return 0

    monkeypatch.setattr(AutoGPClassifier, "_learn", recorded)
    rng = np.random.default_rng(0)
    AutoGPClassifier(num_inducing=16, random_state=0).fit(rng.normal(size=(20, 3)), np.arange(20) % 2)
    (num_learned, at_learned), (num_rows, at_rows) = placed
    assert (num_learned, at_learned) == (16, 16)  # as many centres as rows are the rows
    assert num_rows == 20
    assert at_rows < 16  # of more rows some centres are means


@pytest.mark.parametrize(
    ("rows", "max_iterations", "expected"),
    [(30, None, {"max_iterations": 1000}), (30, 5, {"max_iterations": 40}), (2600, None, {})],
)
def test_few_rows_start_from_an_svgp_that_is_fitted_as_one(monkeypatch, rows, max_iterations, expected):
    def started(*_, tolerance=None, **settings):
        assert settings == expected
        assert (tolerance == 1e-5) is (rows == 30)
        raise RuntimeError("started")

    monkeypatch.setattr("gpmodels.estimators.autogp.estimators.warm_start", started)
    x = np.random.default_rng(0).normal(size=(rows, 3))
    model = AutoGPClassifier(num_inducing=4, max_iterations=max_iterations, random_state=0)
    with pytest.raises(RuntimeError, match="started"):
        model.fit(x, x[:, 0] > 0.0)


@pytest.mark.slow
def test_blocks_are_as_many_epochs_in_both_fits(iris, monkeypatch):
    blocks = []
    steps = AutoGPClassifier._training_steps

    def recorded(self, engine, steps_per_epoch, total):
        made = steps(self, engine, steps_per_epoch, total)
        blocks.append((steps_per_epoch, made.cycle))
        return made

    monkeypatch.setattr(AutoGPClassifier, "_training_steps", recorded)
    AutoGPClassifier(batch_size=64, block_epochs=4, **SMALL).fit(*iris)
    assert blocks == [(120 / 64, 2 * 8), (149 / 64, 2 * 9)]


@pytest.mark.slow
def test_of_many_rows_those_held_out_are_not_learned_from(iris, monkeypatch):
    found = fits(monkeypatch)
    monkeypatch.setattr("gpmodels.estimators.autogp.estimators.ROWS_LEARNED_AGAIN", 100)
    AutoGPClassifier(**SMALL).fit(*iris)
    assert [held for _, held, *_ in found] == [True]


@pytest.mark.slow
def test_without_rows_held_out_there_is_one_fit(iris, monkeypatch):
    found = fits(monkeypatch)
    model = AutoGPClassifier(early_stopping=False, **SMALL).fit(*iris)
    assert [(held, kept) for _, held, *_, kept in found] == [(False, 25)]
    assert model.posterior_is_solved_


@pytest.mark.slow
def test_all_rows_at_once_and_again(two_classes):
    """L-BFGS holds nothing out; the posterior of a fit before says nothing of it."""
    model = AutoGPClassifier(objective="elbo", optimizer="lbfgs", **SMALL)
    first = model.fit(*two_classes).temperature_
    model.posterior_is_solved_, model._held_temperature = False, 3.0
    assert model.fit(*two_classes).temperature_ == first != 3.0


@pytest.mark.slow
def test_a_fit_in_a_callback_changes_nothing(two_classes):
    """Estimators of one configuration share what is compiled, with the variables of its steps."""
    x, y = two_classes
    settings = {"block_epochs": 5, **SMALL}

    def fit_another(*_):
        AutoGPClassifier(**settings).fit(x[::-1] ** 2, y)

    alone = AutoGPClassifier(**settings).fit(x, y)
    watched = AutoGPClassifier(**settings).fit(x, y, callback=fit_another)
    for one, other in zip(alone.weights_, watched.weights_, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_steps_are_traced_once_a_configuration(two_classes, monkeypatch):
    traces = []
    take = LeaveOneOutStep._take
    monkeypatch.setattr(LeaveOneOutStep, "_take", lambda *a: traces.append(1) or take(*a))
    for seed in (0, 1):
        AutoGPClassifier(num_inducing=7, max_iterations=25, block_epochs=2, random_state=seed).fit(
            *two_classes
        )
    assert traces == [1]


@pytest.mark.slow
def test_held_out_rows_judge_at_the_temperature_that_they_ask_for(fitted, two_classes):
    """Means and roots twice as large are surer than they should be, which a temperature undoes."""
    x, y = two_classes
    codes = (y == "yes").astype(float)
    rows = Rows(x, codes, np.ones(len(x)), fitted.input_mean_, fitted.input_scale_)
    engine = fitted._trained_engine()
    posterior = engine.head.posterior
    with engine.unchanged():
        before, plain = fitted._judge()(engine, rows).mean(), log_densities(engine, rows).mean()
        posterior.q_mean.assign(10.0 * posterior.q_mean)
        after, surer = fitted._judge()(engine, rows).mean(), log_densities(engine, rows).mean()
        fixed = copy.deepcopy(fitted).set_params(temperature=1.0)
        assert fixed._judge()(engine, rows).mean() == pytest.approx(surer)
    assert surer < plain - 0.3
    assert abs(after - before) < 0.15


@pytest.mark.slow
def test_leaving_out_speaks_of_the_best_posterior_whatever_the_fit_kept(two_classes):
    model = AutoGPClassifier(mean="none", **SMALL).fit(*two_classes)  # q alone decides
    expected = model.leave_one_out(*two_classes)
    before = model.predict_proba(two_classes[0])
    engine = model._trained_engine()
    engine.head.posterior.q_mean.assign(-engine.head.posterior.q_mean)
    model.weights_ = engine.head.get_weights()
    assert np.abs(model.predict_proba(two_classes[0]) - before).mean() > 0.2
    np.testing.assert_allclose(model.leave_one_out(*two_classes), expected, atol=2e-3)
    np.testing.assert_allclose(model.leave_one_out(*two_classes, 2.0), expected, atol=2e-3)


@pytest.mark.slow
def test_leaving_out_improves_its_own_objective(iris):
    """Steps with q(u) held raise the density of left-out rows; the q that is solved at the end is another."""
    x, y = iris
    model = AutoGPClassifier(objective="elbo", **SMALL).fit(x, y)
    engine = model._trained_engine()
    with engine.unchanged():
        scaled = tf.constant((x - model.input_mean_) / model.input_scale_, engine.dtype)
        labels = tf.constant(y, engine.dtype)
        step = LeaveOneOutStep(engine, is_papers=False)
        step.hold()
        rate = tf.constant(0.01, engine.dtype)
        losses = [float(step.take((scaled, labels, tf.ones_like(labels)), rate)) for _ in range(20)]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.slow
def test_regression_predicts_and_leaves_out_in_the_units_of_the_targets():
    x, y = load_diabetes(return_X_y=True)
    model = AutoGPRegressor(**SMALL).fit(x, y)
    assert model.score(x, y) > 0.3
    density = model.leave_one_out(x, y)
    mean, deviation = model.predict(x, return_std=True)
    seen = -0.5 * np.log(2 * np.pi * deviation**2) - 0.5 * ((y - mean) / deviation) ** 2
    assert density.shape == y.shape
    assert np.mean(density) == pytest.approx(np.mean(seen), abs=0.1)
    assert np.mean(density) < np.mean(seen)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("posterior", ["full", "diagonal"])
@pytest.mark.parametrize("kind", [AutoGPClassifier, AutoGPRegressor])
def test_file_and_copy_predict_the_same(kind, posterior, iris, tmp_path):
    settings = {"num_components": 2, "posterior": posterior, "kernel": "arc_cosine1", "kernel_depth": 2}
    model = kind(**settings, **SMALL).fit(*iris)
    model.save(tmp_path / "model.npz")
    for other in (kind.load(tmp_path / "model.npz"), copy.deepcopy(model)):
        np.testing.assert_allclose(other.predict(iris[0]), model.predict(iris[0]))
        assert other.kernel_depth == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "map"}, "objective must be one of .*, but is 'map'"),
        ({"num_components": 0}, "num_components must be a positive integer, but is 0"),
        ({"block_epochs": 1.5}, "block_epochs must be a positive integer, but is 1.5"),
        ({"optimizer": "lbfgs"}, "alternates two objectives on mini-batches"),
        ({"likelihood": "poisson"}, "likelihood must be one of .*, but is 'poisson'"),
        ({"objective": "loo_paper", "likelihood": "bernoulli"}, "Choose objective='loo'"),
        ({"kernel": "arc_cosine2", "kernel_depth": 4}, "limited to kernel_depth 2"),
    ],
)
def test_refuses_and_a_failed_refit_leaves_no_old_model(fitted, two_classes, arguments, message):
    model = copy.deepcopy(fitted).set_params(**arguments)
    with pytest.raises(ValueError, match=message):
        model.fit(*two_classes)
    assert not hasattr(model, "weights_")


@pytest.mark.slow
@checks_of_a_family(
    AutoGPClassifier(num_inducing=8, max_iterations=5),
    variants=[AutoGPRegressor(num_inducing=8, max_iterations=5)],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
