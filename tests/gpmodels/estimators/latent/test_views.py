"""A Bayesian GPLVM of several views: what they share, one predicted from another, files, and refusals."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.datasets import load_wine
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split

from gpmodels import BayesianGPLVM

SETTINGS = {"num_dimensions": 5, "num_inducing": 20, "random_state": 0}
VIEWS = [slice(0, 8), slice(8, 15)]


def planted(num_rows, seed):
    """Two views, 8 and 7 columns, waves along two shared dimensions and one of each view's own."""
    rng, of_views = np.random.default_rng(seed), np.random.default_rng(99)
    latent = rng.uniform(-1.5, 1.5, (num_rows, 4))
    columns = []
    for dimensions, count in (([0, 1, 2], 8), ([0, 1, 3], 7)):
        slopes, phases = of_views.normal(size=(3, count)), of_views.uniform(0.0, 2 * np.pi, count)
        columns.append(np.sin(0.9 * latent[:, dimensions] @ slopes + phases))
    x = np.hstack(columns)
    return x + 0.05 * rng.standard_normal(x.shape)


@pytest.fixture(scope="module")
def model():
    return BayesianGPLVM(**SETTINGS, views=VIEWS, max_iterations=300).fit(planted(120, 1))


@pytest.fixture(scope="module")
def small():
    return BayesianGPLVM(**SETTINGS, views=VIEWS, max_iterations=4).fit(planted(30, 0))


@pytest.mark.slow
def test_one_view_is_the_model_without_views():
    x = planted(30, 0)
    x[3, 2] = np.nan
    without = BayesianGPLVM(**SETTINGS, max_iterations=10).fit(x)
    one = BayesianGPLVM(**SETTINGS, max_iterations=10, views=[range(15)]).fit(x)
    for name, array in without.weights_.items():
        np.testing.assert_array_equal(one.weights_[name], array)
    np.testing.assert_array_equal(one.complete(x), without.complete(x))
    assert one.summary() == without.summary()
    np.testing.assert_array_equal(one.view_relevance_, [one.relevance_])


@pytest.mark.slow
def test_shared_and_private_dimensions_are_found(model):
    users = model.dimension_views()
    assert users[:2] == [(0, 1), (0, 1)]
    assert sorted(users[2:]) == [(), (0,), (1,)]
    assert model.view_relevance_.sum(axis=1) == pytest.approx([1.0, 1.0])
    np.testing.assert_allclose(model.view_relevance_.mean(axis=0), model.relevance_)
    assert model.dimension_views(threshold=2.0) == [()] * 5
    summary = model.summary()
    assert "in view 0" in summary
    assert "0, 1" in summary


@pytest.mark.slow
def test_one_view_predicts_the_other(model):
    """Better than its mean and a ridge regression, with intervals that hold."""
    train, test = planted(120, 1), planted(200, 2)
    half = np.where(np.arange(15) < 8, test, np.nan)
    filled, deviation = model.complete(half, return_std=True)

    def error(predicted):
        return np.sqrt(np.mean((predicted - test[:, 8:]) ** 2))

    np.testing.assert_array_equal(filled[:, :8], test[:, :8])
    ridge = RidgeCV(np.logspace(-3, 3, 13)).fit(train[:, :8], train[:, 8:]).predict(test[:, :8])
    assert error(filled[:, 8:]) < 0.9 * error(ridge)
    assert error(ridge) < 0.8 * error(train[:, 8:].mean(axis=0))
    assert 0.88 < np.mean(np.abs(filled - test)[:, 8:] < 1.96 * deviation[:, 8:]) < 0.99


@pytest.mark.slow
def test_positions_come_from_any_views(model):
    """A dimension of the second view alone stays open where that view is missing, shared ones do not."""
    test = planted(40, 2)
    half = np.where(np.arange(15) < 8, test, np.nan)
    position, deviation = model.transform(test, return_std=True)
    of_half, wider = model.transform(half, return_std=True)
    private = model.dimension_views().index((1,))
    assert np.median(wider[:, private]) > 0.7
    assert np.median(deviation[:, private]) < 0.4
    assert np.median(wider[:, :2]) < 0.2
    assert np.corrcoef(position[:, 0], of_half[:, 0])[0, 1] > 0.95
    assert np.median(model.score_samples(test)) > np.median(model.score_samples(test[::-1] + 1.0)) + 5.0


@pytest.mark.slow
def test_rows_without_a_view_help_in_training():
    x = planted(60, 0)
    x[:20, :8] = np.nan
    x[40:, 8:] = np.nan
    fitted = BayesianGPLVM(**SETTINGS, views=VIEWS, max_iterations=100).fit(x)
    whole = planted(60, 0)
    filled = fitted.complete(x)[:20, :8]
    assert np.mean((filled - whole[:20, :8]) ** 2) < 0.7 * np.var(whole[:20, :8])


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"kernel": "rbf+linear"}, {"kernel": "linear"}, {"posterior": "map"}])
def test_every_kernel_and_posterior_takes_views(settings, tmp_path):
    x = planted(40, 0)
    fitted = BayesianGPLVM(**SETTINGS, **settings, views=VIEWS, max_iterations=30).fit(x)
    half = np.where(np.arange(15) < 8, x, np.nan)
    filled = fitted.complete(half)
    assert np.mean((filled - x)[:, 8:] ** 2) < 0.8 * np.var(x[:, 8:])
    fitted.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(BayesianGPLVM.load(tmp_path / "model.npz").complete(half), filled)


@pytest.mark.slow
def test_a_view_of_noise_uses_no_dimension():
    rng = np.random.default_rng(0)
    x = np.hstack([planted(80, 0)[:, :8], rng.standard_normal((80, 6))])
    fitted = BayesianGPLVM(**SETTINGS, views=[range(8), range(8, 14)], max_iterations=150).fit(x)
    assert not any(1 in users for users in fitted.dimension_views())
    assert fitted.view_relevance_[1].tolist() == [0.0] * 5
    np.testing.assert_allclose(fitted.relevance_, fitted.view_relevance_[0])
    noise = fitted.noise_deviation_
    np.testing.assert_allclose(noise[8:] / x[:, 8:].std(), 1.0, atol=0.1)
    assert (noise[:8] < 0.2).all()


@pytest.mark.slow
def test_a_file_keeps_the_views(small, tmp_path):
    x = planted(12, 1)
    x[:6, 8:] = np.nan
    small.save(tmp_path / "model.npz")
    loaded = BayesianGPLVM.load(tmp_path / "model.npz")
    for before, after in zip(
        small.complete(x, return_std=True), loaded.complete(x, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(after, before)
    np.testing.assert_array_equal(loaded.score_samples(x), small.score_samples(x))
    np.testing.assert_array_equal(loaded.noise_deviation_, small.noise_deviation_)
    assert loaded.dimension_views() == small.dimension_views()
    assert loaded.summary() == small.summary()


@pytest.mark.slow
def test_progress_tells_each_views_noise(tmp_path):
    BayesianGPLVM(**SETTINGS, views=VIEWS, max_iterations=10, log_dir=str(tmp_path)).fit(planted(30, 0))
    events = [
        event for path in tmp_path.iterdir() for event in tf.compat.v1.train.summary_iterator(str(path))
    ]
    assert {"noise_variance/0", "noise_variance/1"} <= {
        v.tag for event in events for v in event.summary.value
    }


@pytest.mark.slow
def test_labels_as_a_view_are_predicted():
    x, label = load_wine(return_X_y=True)
    train, test, y, truth = train_test_split(x, label, random_state=0)
    codes = np.eye(3)[y]
    codes[::2] = np.nan  # half of the rows have no label
    views = [slice(0, 13), slice(13, 16)]
    fitted = BayesianGPLVM(
        num_dimensions=4, views=views, scale="columns", max_iterations=150, random_state=0
    ).fit(np.hstack([train, codes]))
    filled = fitted.complete(np.hstack([test, np.full((len(test), 3), np.nan)]))[:, 13:]
    np.testing.assert_allclose(filled.sum(axis=1), 1.0, atol=1e-6)
    assert np.mean(filled.argmax(axis=1) == truth) > 0.9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"views": [slice(0, 8)]}, "column 8 is in 0 of them. Add it to a view"),
        ({"views": [slice(0, 8), slice(7, 15)]}, "column 7 is in 2 of them. Leave it in one alone"),
        (
            {"views": [slice(0, 8), slice(8, 16)]},
            "views name column 15, but the 15 columns of X are numbered 0 to 14",
        ),
        ({"views": []}, "at least one view"),
        ({"views": [8, 7]}, "must be a sequence of column indices or a slice, but is 8"),
        (
            {"views": VIEWS, "optimizer": "adam"},
            "mini-batches, which cannot be done with several views, and there are 2",
        ),
    ],
)
def test_views_that_are_no_parts_of_the_columns_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        BayesianGPLVM(**SETTINGS, **settings).fit(planted(30, 0))


def test_a_view_that_never_varies_is_refused():
    x = planted(30, 0)
    x[:, 8:] = 1.0
    x[3, 8:] = np.nan
    with pytest.raises(ValueError, match="View 1 never varies: each of its columns has one value"):
        BayesianGPLVM(**SETTINGS, views=VIEWS).fit(x)


@pytest.mark.slow
def test_deviations_of_what_a_view_shares_and_of_what_it_has_for_itself_are_both_true():
    """Columns of a shared dimension are told by the other view, the others hardly."""

    def draw(num_rows, seed):
        rng = np.random.default_rng(seed)
        shared, own, others = rng.normal(size=(3, num_rows, 1))
        x = np.hstack([shared, own, 0.5 * shared + 0.1, shared, others, np.tanh(shared)])
        return x + 0.05 * rng.standard_normal(x.shape)

    model = BayesianGPLVM(
        num_dimensions=3, views=[slice(0, 3), slice(3, 6)], random_state=0, max_iterations=150
    )
    model.fit(draw(80, 0))
    test = draw(200, 1)
    half = np.where(np.arange(6) < 3, test, np.nan)
    filled, deviation = model.complete(half, return_std=True)
    z = np.sqrt(np.mean(((filled - test) / np.where(deviation > 0, deviation, np.inf)) ** 2, axis=0))
    assert (z[3:] > 0.5).all(), z  # not far too wide
    assert (z[3:] < 1.6).all(), z  # nor too narrow
