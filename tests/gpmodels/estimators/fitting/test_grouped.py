"""Rows of groups: what is counted, what is found, and that repeated rows teach nothing new."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold

from gpmodels import DFGPRegressor, HGPClassifier, SVGPClassifier, SVGPRegressor
from gpmodels.estimators.fitting.grouped import counted_observations, shuffled
from gpmodels.statistics.effective_sample import effective_observations

SMALL = {"num_inducing": 8, "max_iterations": 15, "random_state": 0}


def targets(size, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, 2))
    return x, np.sin(1.5 * x[:, 0]) + 0.4 * rng.normal(size=size)


def labels(size, seed=0):
    x, y = targets(size, seed)
    return x, (y > 0.0).astype(int)


def assert_same(first, second, x):
    for name, value in first.predict_distribution(x).items():
        np.testing.assert_array_equal(second.predict_distribution(x)[name], value, err_msg=name)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("setting", ["auto", 60, 60.0])
def test_all_rows_in_full_are_what_all_says(setting):
    x, y = labels(60)
    every = SVGPClassifier(**SMALL, effective_observations="all").fit(x, y)
    assert every.effective_observations_ == 60.0
    other = SVGPClassifier(**SMALL, effective_observations=setting).fit(x, y)
    assert other.effective_observations_ == 60.0
    assert_same(every, other, x)


@pytest.mark.slow
def test_groups_of_one_row_each_count_in_full():
    x, y = targets(40)
    alone = SVGPRegressor(**SMALL).fit(x, y)
    grouped = SVGPRegressor(**SMALL).fit(x, y, groups=[f"patient {i}" for i in range(40)])
    assert grouped.effective_observations_ == 40.0
    assert_same(alone, grouped, x)


@pytest.mark.slow
def test_counting_fewer_is_the_weight_of_each_row():
    x, y = labels(60)
    counted = SVGPClassifier(**SMALL, effective_observations=15).fit(x, y)
    weighted = SVGPClassifier(**SMALL).fit(x, y, np.full(60, 0.25))
    assert counted.effective_observations_ == 15.0
    np.testing.assert_allclose(counted.predict_proba(x), weighted.predict_proba(x), rtol=1e-9)
    in_full = SVGPClassifier(**SMALL).fit(x, y)
    assert np.abs(counted.predict_proba(x) - in_full.predict_proba(x)).max() > 0.01


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "made"),
    [(SVGPRegressor, targets), pytest.param(SVGPClassifier, labels, marks=pytest.mark.slow)],
)
def test_repeated_rows_teach_nothing_new(cls, made):
    """Each row five times, a group each: they count as 60 and teach about what 60 rows teach."""
    x, y = made(60)
    original = np.repeat(np.arange(60), 5)
    settings = {"num_inducing": 20, "max_iterations": 60, "random_state": 0}
    wanted = cls(**settings).fit(x, y)
    found = cls(**settings).fit(x[original], y[original], groups=original)
    assert found.effective_observations_ == pytest.approx(60.0, rel=0.02)
    deceived = cls(**settings).fit(x[original], y[original])

    def gap(model):
        ours, theirs = (m.predict_distribution(x)["latent_variance"] for m in (model, wanted))
        return np.mean(np.abs(np.log(ours / theirs)))

    assert gap(found) < 0.25
    assert gap(deceived) > 2.0 * gap(found)
    assert gap(deceived) > 0.5


@pytest.mark.slow
def test_a_shift_of_each_group_is_found():
    """Targets with a shift of each group of variance 1 beside noise of variance 1/4: ρ = 0.8."""
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(30), 8)
    x = rng.normal(size=(240, 2))
    y = np.sin(x[:, 0]) + rng.normal(size=30)[groups] + 0.5 * rng.normal(size=240)
    model = SVGPRegressor(**SMALL).fit(x, y, groups=groups)
    expected = 240 / (1.0 + 7.0 * 0.8)
    assert model.effective_observations_ == pytest.approx(expected, rel=0.25)
    again = SVGPRegressor(**SMALL).fit(x, y, groups=groups)
    assert again.effective_observations_ == model.effective_observations_
    # Not of residuals that the model was fitted to, and "all" counts all whatever the groups.
    everything = SVGPRegressor(**SMALL, effective_observations="all").fit(x, y, groups=groups)
    assert everything.effective_observations_ == 240.0


@pytest.mark.slow
def test_weights_and_class_weights_keep_their_meaning():
    x, y = labels(60)
    weight = np.where(np.arange(60) < 50, 2.0, 0.0)
    groups = np.arange(60) // 2
    model = SVGPClassifier(**SMALL, class_weight={0: 1.0, 1: 3.0}).fit(x, y, weight, groups)
    counted = float(np.sum(weight * np.where(y == 1, 3.0, 1.0)))
    assert 0.5 * counted - 1e-9 <= model.effective_observations_ <= counted + 1e-9


@pytest.mark.slow
def test_a_dfgp_counts_them_too():
    x, y = targets(40)
    settings = {"num_hidden": 2, "num_inducing": 5, "max_iterations": 5, "random_state": 0}
    model = DFGPRegressor(**settings, effective_observations=10).fit(x, y)
    assert model.effective_observations_ == 10.0


def test_held_out_rows_of_mini_batches_are_of_whole_groups():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 25, 50)
    for _ in range(20):
        order, size = shuffled(50, groups, 5, rng)
        assert sorted(order) == list(range(50))
        assert 5 <= size <= 7
        assert not set(groups[order[:size]]) & set(groups[order[size:]])
    order, size = shuffled(6, np.array([0, 0, 0, 0, 0, 1]), 5, rng)
    assert size in (1, 5)  # one of two groups, whichever comes first
    _, size = shuffled(50, np.repeat([0, 1, 2], [16, 20, 14]), 5, rng)
    assert size == 14  # each is too large: the smallest
    order, size = shuffled(6, np.array([0, 0, 1, 1, 2, 2]), 5, rng)
    assert size == 4  # one of three groups is left


def test_a_group_of_most_rows_is_not_held_out():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(11), [5000] + 10 * [300])
    held = []
    for _ in range(20):
        order, size = shuffled(8000, groups, 800, rng)
        assert 800 <= size <= 1200
        held += np.unique(groups[order[:size]]).tolist()
    assert 0 not in held
    assert set(held) == set(range(1, 11))


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan])
def test_a_row_without_the_name_of_its_group_is_refused(missing):
    x, y = labels(20)
    names = [f"patient {i % 5}" for i in range(20)]
    names[7] = missing
    for groups in (names, np.array(names, dtype=object)):
        with pytest.raises(ValueError, match=f"row 7, counted from 0, has {missing}"):
            SVGPClassifier(**SMALL).fit(x, y, groups=groups)
    with pytest.raises(ValueError, match="row 3, counted from 0, has nan"):
        SVGPClassifier(**SMALL).fit(x, y, groups=np.where(np.arange(20) == 3, np.nan, 1.0))


def test_the_fits_that_count_know_their_groups_and_have_no_temperature(monkeypatch):
    x, y = labels(40)
    fits = []

    def fit(self, *_, groups=None):
        fits.append((self.temperature, groups))
        self.classes_ = np.array([0, 1])
        return self

    monkeypatch.setattr(SVGPClassifier, "fit", fit)
    monkeypatch.setattr(SVGPClassifier, "predict_proba", lambda _, x: np.full([len(x), 2], 0.5))
    groups = np.arange(40) // 4
    counted_observations(SVGPClassifier(**SMALL), x, y, np.ones(40), groups)
    assert [temperature for temperature, _ in fits] == [1.0] * 3
    assert sorted(np.concatenate([np.unique(g) for _, g in fits])) == sorted(2 * list(range(10)))


@pytest.mark.slow
def test_mini_batches_take_groups():
    x, y = labels(200)
    settings = {**SMALL, "optimizer": "adam", "batch_size": 32}
    model = HGPClassifier(**settings).fit(x, y, groups=np.arange(200) // 4)
    assert 50.0 <= model.effective_observations_ <= 200.0


@pytest.mark.parametrize("setting", ["some", 0, -3.0, float("nan"), True, None])
def test_what_is_no_setting_is_refused(setting):
    x, y = labels(20)
    with pytest.raises(ValueError, match='must be "auto", "all" or a positive number'):
        SVGPClassifier(**SMALL, effective_observations=setting).fit(x, y)


def test_more_observations_than_rows_are_refused():
    x, y = labels(20)
    with pytest.raises(ValueError, match="the rows count as 20"):
        SVGPClassifier(**SMALL, effective_observations=21).fit(x, y)


def test_groups_that_cannot_be_compared_are_refused():
    x, y = labels(20)
    with pytest.raises(ValueError, match="all rows of positive weight are of one"):
        SVGPClassifier(**SMALL).fit(x, y, groups=np.zeros(20))
    with pytest.raises(ValueError, match="is in too few groups"):
        SVGPClassifier(**SMALL).fit(x, y, groups=y)
    for groups in (np.arange(19), "patient"):
        with pytest.raises(ValueError, match="groups must hold the group of each of the 20 rows"):
            SVGPClassifier(**SMALL).fit(x, y, groups=groups)


@pytest.mark.slow
def test_the_number_survives_a_file(tmp_path):
    x, y = targets(40)
    model = SVGPRegressor(**SMALL, effective_observations=20).fit(x, y)
    model.save(tmp_path / "model.npz")
    again = SVGPRegressor.load(tmp_path / "model.npz")
    assert again.effective_observations_ == 20.0
    assert again.get_params()["effective_observations"] == 20


@pytest.mark.slow
def test_the_number_is_that_of_held_out_residuals():
    """By a cross-validation written out: the same folds, another way to the number."""
    x, y = targets(60)
    groups = np.arange(60) // 6
    y = y + np.random.default_rng(1).normal(size=10)[groups]
    model = SVGPRegressor(**SMALL).fit(x, y, groups=groups)
    residuals = np.zeros(60)
    for train, test in GroupKFold(3).split(x, y, groups):
        part = SVGPRegressor(**SMALL, effective_observations="all")
        part.fit(x[train], y[train], groups=groups[train])
        residuals[test] = y[test] - part.predict(x[test])
    assert model.effective_observations_ == pytest.approx(effective_observations(groups, residuals), rel=1e-6)
