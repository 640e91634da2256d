"""The Bayesian GPLVM as an estimator: maps, missing values, odd rows, files, and what it refuses."""

import copy
import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from gpmodels import BayesianGPLVM, HGPClassifier
from gpmodels.estimators.latent import plots
from gpmodels.estimators.latent.checks import checked_latent_rows
from gpmodels.gplvm.inference import Starts, infer
from gpmodels.gplvm.rows import row_bounds, row_terms

SETTINGS = {"num_dimensions": 3, "num_inducing": 20, "random_state": 0}


def ring(num_rows=120, seed=0):
    """Rows on a closed curve in six columns, with a little noise."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0.0, 2.0 * np.pi, num_rows)
    curve = [
        np.cos(angle),
        np.sin(angle),
        np.cos(2 * angle),
        np.sin(2 * angle),
        np.sin(3 * angle),
        0.0 * angle,
    ]
    return 10.0 + 2.0 * np.column_stack(curve) + 0.05 * rng.standard_normal((num_rows, 6)), angle


def holed(x, share=0.2, seed=1):
    holes = np.random.default_rng(seed).random(x.shape) < share
    holes[:, 1] = False
    return np.where(holes, np.nan, x), holes


@pytest.fixture(scope="module")
def rows():
    return ring()[0]


@pytest.fixture(scope="module")
def model(rows):
    return BayesianGPLVM(**SETTINGS, max_iterations=300).fit(rows)


@pytest.fixture(scope="module")
def with_holes(rows):
    return BayesianGPLVM(**SETTINGS, max_iterations=300).fit(holed(rows)[0])


@pytest.mark.slow
def test_training_rows_are_transformed_to_the_embedding(model, rows):
    """The embedding is what `transform` returns, and no row is worse there than where training left it."""
    mean, deviation = model.transform(rows, return_std=True)
    np.testing.assert_array_equal(mean, model.embedding_)
    np.testing.assert_array_equal(deviation, model.embedding_std_)
    held, weights = model._model(), model.weights_
    standardised = model.scaling_.standardised(rows)
    terms = row_terms(held, standardised)
    trained = terms.constant + row_bounds(
        held.kernel,
        tf.constant(weights["start_mean"]),
        tf.math.log(tf.constant(weights["start_variance"])),
        held.inducing,
        terms.linear,
        terms.quadratic[terms.pattern],
        terms.precision,
    )
    found = infer(
        held, Starts(weights["start_mean"], weights["start_variance"], model._expected()), standardised
    )
    assert (found.alone.max(axis=1) > trained.numpy() - 1e-6).all()
    assert model.embedding_.shape == (120, 3)
    assert (deviation > 0).all()


@pytest.mark.slow
def test_training_rows_with_holes_too(with_holes, rows):
    np.testing.assert_array_equal(with_holes.transform(holed(rows)[0]), with_holes.embedding_)


@pytest.mark.slow
def test_neighbours_on_the_curve_are_neighbours_on_the_map(model):
    _, angle = ring()
    order = np.argsort(angle)
    steps = np.linalg.norm(np.diff(model.embedding_[order], axis=0), axis=1)
    pairs = np.random.default_rng(0).permutation(120)
    apart = np.linalg.norm(model.embedding_ - model.embedding_[pairs], axis=1)
    assert np.median(steps) < 0.15 * np.median(apart)


def test_dimensions_come_in_the_order_of_their_relevance(model):
    assert model.relevance_.sum() == pytest.approx(1.0)
    assert (np.diff(model.relevance_) <= 0).all()


@pytest.mark.slow
def test_a_dimension_that_is_not_needed_switches_itself_off():
    rng = np.random.default_rng(0)
    line = rng.uniform(-1, 1, 100)
    x = np.column_stack([line, np.sin(2 * line), line**2, -line]) + 0.02 * rng.standard_normal((100, 4))
    model = BayesianGPLVM(num_dimensions=3, num_inducing=15, max_iterations=400, random_state=0).fit(x)
    assert model.relevance_[0] > 0.95


@pytest.mark.slow
def test_where_nothing_was_learned_no_dimension_is_relevant():
    x = np.random.default_rng(0).standard_normal((40, 12))
    with pytest.warns(ConvergenceWarning, match="All rows ended at the same position"):
        model = BayesianGPLVM(num_dimensions=3, num_inducing=8, max_iterations=80, random_state=0).fit(x)
    assert model.relevance_.tolist() == [0.0, 0.0, 0.0]
    assert "0.0%" in model.summary()


@pytest.mark.slow
def test_noisy_columns_do_not_end_as_noise_alone():
    """From lengthscales of 1 all of wine becomes noise, rows at one position; the second start mends it."""
    x = load_wine().data
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    model = BayesianGPLVM(num_dimensions=4, scale="columns", max_iterations=100, random_state=0).fit(x)
    assert model.embedding_.std(axis=0).max() > 0.5
    assert model.learning_curve_[-1].bound_per_point > -15.0


def test_rows_come_back_from_their_positions(model, rows):
    mean, deviation = model.inverse_transform(model.transform(rows), return_std=True)
    assert np.sqrt(np.mean((mean - rows) ** 2)) < 0.1
    assert 0.03 < np.median(deviation) < 0.15
    assert np.mean(np.abs(mean - rows) < 1.96 * deviation) > 0.85


def test_missing_values_are_filled_and_the_others_kept(model):
    x, _ = ring(seed=5)
    x_holed, holes = holed(x)
    filled, deviation = model.complete(x_holed, return_std=True)
    np.testing.assert_array_equal(filled[~holes], x[~holes])
    assert (deviation[~holes] == 0).all()
    assert (deviation[holes] > 0).all()
    error = np.abs(filled - x)[holes]
    assert np.median(error) < 0.1
    assert np.mean(error < 1.96 * deviation[holes]) > 0.85


@pytest.mark.slow
def test_missing_values_in_training_are_filled(with_holes, rows):
    x_holed, holes = holed(rows)
    filled = with_holes.complete(x_holed)
    assert np.median(np.abs(filled - rows)[holes]) < 0.15
    assert not np.isnan(filled).any()


@pytest.mark.slow
def test_nan_nowhere_is_the_complete_fit(rows):
    """One value less changes the bound a little; equal seeds give equal maps."""
    complete = BayesianGPLVM(**SETTINGS, max_iterations=10).fit(rows)
    nearly = rows.copy()
    nearly[0, 0] = np.nan
    other = BayesianGPLVM(**SETTINGS, max_iterations=10).fit(nearly)
    again = BayesianGPLVM(**SETTINGS, max_iterations=10).fit(rows)
    np.testing.assert_array_equal(complete.embedding_, again.embedding_)
    assert len(complete.weights_["inducing_covariance"]) == 1
    assert len(other.weights_["inducing_covariance"]) == 2
    gap = complete.learning_curve_[-1].bound_per_point - other.learning_curve_[-1].bound_per_point
    assert abs(gap) < 0.1


def test_ambiguous_rows_are_mixtures(model):
    """Of a row with its first cosine alone two angles are likely, up and down: the deviation reaches both."""
    x = np.full((15, 6), np.nan)
    x[:, 0] = 10.0 + 2.0 * np.cos(np.linspace(0.5, 2.5, 15))
    _, deviation = model.complete(x, return_std=True)
    truth = 2.0 * np.sin(np.linspace(0.5, 2.5, 15))
    assert np.mean(deviation[:, 1] > 0.5 * truth) > 0.2
    _, spread = model.transform(x, return_std=True)
    assert spread.max() > 3.0 * np.median(model.embedding_std_)


def test_odd_rows_score_lowest(model):
    x, _ = ring(seed=7)
    odd = x[:6].copy()
    odd[:, 0] = 10.0 - 1.5 * (odd[:, 0] - 10.0)  # off the curve
    scores = model.score_samples(np.vstack([x, odd]))
    assert np.median(scores[-6:]) < np.quantile(scores[:-6], 0.02)


@pytest.mark.slow
def test_scores_are_in_the_units_of_the_data(rows):
    settings = {**SETTINGS, "max_iterations": 30}
    one = BayesianGPLVM(**settings).fit(rows)
    ten = BayesianGPLVM(**settings).fit(10.0 * rows)
    x, _ = holed(rows)
    seen = (~np.isnan(x)).sum(axis=1)
    np.testing.assert_allclose(
        ten.score_samples(10.0 * x), one.score_samples(x) - seen * np.log(10.0), atol=1e-5
    )
    np.testing.assert_allclose(ten.complete(10.0 * x), 10.0 * one.complete(x), rtol=1e-6)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("posterior", ["gaussian", "map"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "rbf+linear"])
def test_every_kernel_and_posterior(kernel, posterior, rows, tmp_path):
    x, holes = holed(rows)
    fitted = BayesianGPLVM(**SETTINGS, kernel=kernel, posterior=posterior, max_iterations=60).fit(x)
    curve = [point.bound_per_point for point in fitted.learning_curve_]
    assert curve[-1] > curve[0]
    filled, deviation = fitted.complete(x, return_std=True)
    if "rbf" in kernel:  # columns of the ring are not correlated: no linear map fills one from the others
        baseline = np.broadcast_to(np.nanvar(x, axis=0), x.shape)[holes].mean()
        assert np.mean((filled - rows)[holes] ** 2) < 0.6 * baseline
    assert (deviation[holes] > 0).all()
    assert (fitted.embedding_std_ > 0).all() == (posterior == "gaussian")
    np.testing.assert_array_equal(fitted.transform(x), fitted.embedding_)
    fitted.save(tmp_path / "model.npz")
    again = BayesianGPLVM.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.transform(x), fitted.embedding_)
    np.testing.assert_array_equal(again.complete(x), filled)
    assert kernel in fitted.summary()


@pytest.mark.slow
def test_a_linear_kernel_needs_no_inducing_inputs(rows):
    few, many = (
        BayesianGPLVM(
            num_dimensions=2, num_inducing=m, kernel="linear", max_iterations=30, random_state=0
        ).fit(rows)
        for m in (5, 50)
    )
    assert few.weights_["inducing_inputs"].shape == (2, 2)
    np.testing.assert_allclose(few.embedding_, many.embedding_, atol=1e-6)


@pytest.mark.slow
def test_mini_batches_fill_missing_values_too():
    x, _ = ring(600)
    x_holed, holes = holed(x)
    model = BayesianGPLVM(**SETTINGS, optimizer="adam", batch_size=100, max_iterations=150).fit(x_holed)
    filled, deviation = model.complete(x_holed, return_std=True)
    error = np.abs(filled - x)[holes]
    assert np.median(error) < 0.15
    assert np.mean(error < 1.96 * deviation[holes]) > 0.85
    assert len(model.embedding_) == 600
    assert model.n_iter_ == 150
    np.testing.assert_array_equal(model.transform(x_holed), model.embedding_)


@pytest.mark.slow
def test_mini_batches_learn_a_column_that_few_rows_have():
    """Rows that lack a column say nothing of its function: neither that it is small nor that it is sure."""
    rng = np.random.default_rng(0)
    t = rng.uniform(-1.0, 1.0, 300)
    x = np.column_stack([np.sin(2 * t), np.cos(2 * t), t, np.sin(3 * t + 1)])
    x += 0.05 * rng.standard_normal(x.shape)
    holes = np.zeros(x.shape, bool)
    holes[:, 3] = rng.random(300) < 0.8
    settings = {"num_dimensions": 2, "num_inducing": 12, "batch_size": 100, "max_iterations": 80}
    model = BayesianGPLVM(**settings, optimizer="adam", random_state=0).fit(np.where(holes, np.nan, x))
    filled, deviation = model.complete(np.where(holes, np.nan, x), return_std=True)
    expected = model.inverse_transform(model.embedding_)
    slopes = [np.polyfit(x[:, d], expected[:, d], 1)[0] for d in range(4)]
    np.testing.assert_allclose(slopes, 1.0, atol=0.1)
    assert np.mean((np.abs(filled - x) < 1.96 * deviation)[holes]) > 0.85


@pytest.mark.slow
def test_many_rows_are_taken_by_mini_batches(monkeypatch, rows):
    from gpmodels.estimators.latent import estimator  # noqa: PLC0415

    monkeypatch.setattr(estimator, "FULL_BATCH_ROWS", 100)
    model = BayesianGPLVM(**SETTINGS, max_iterations=4, batch_size=50).fit(rows)
    assert model.weights_["start_mean"].shape == (120, 3)
    assert len(model.learning_curve_) == 4


@pytest.mark.slow
def test_progress_is_reported(rows, tmp_path, capsys):
    seen = []

    def callback(estimator, iteration):
        seen.append((iteration, estimator.transform(rows[:3]).shape))

    settings = {**SETTINGS, "max_iterations": 20}
    model = BayesianGPLVM(**settings, verbose=1, log_dir=str(tmp_path)).fit(rows, callback=callback)
    assert seen == [(10, (3, 3)), (20, (3, 3))]
    assert "bound per point" in capsys.readouterr().err
    tags = set()
    for path in tmp_path.iterdir():
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            tags |= {value.tag for value in event.summary.value}
    assert {"bound_per_point/training", "noise_variance", "relevance/1"} <= tags
    assert [point.iteration for point in model.learning_curve_] == list(range(1, 21))


def test_parameters_changed_after_a_fit_change_nothing_that_was_learned(model, rows):
    changed = copy.deepcopy(model).set_params(posterior="map")
    np.testing.assert_array_equal(changed.transform(rows[:5]), model.transform(rows[:5]))
    np.testing.assert_array_equal(changed.score_samples(rows[:5]), model.score_samples(rows[:5]))
    assert changed.summary() == model.summary()


@pytest.mark.slow
def test_names_of_columns_are_kept(rows):
    frame = pd.DataFrame(rows, columns=list("abcdef"))
    model = BayesianGPLVM(**SETTINGS, max_iterations=3).fit(frame)
    assert model.get_feature_names_out().tolist() == [f"bayesiangplvm{q}" for q in range(3)]
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame[list("bacdef")])


@pytest.mark.slow
def test_it_works_in_a_pipeline_and_clones(rows):
    pipeline = make_pipeline(FunctionTransformer(), BayesianGPLVM(**SETTINGS, max_iterations=5))
    assert pipeline.fit_transform(rows).shape == (120, 3)
    assert clone(pipeline[-1]).num_inducing == 20


@pytest.mark.slow
def test_constant_columns_work(rows):
    x = np.column_stack([rows, np.full(120, 7.0)])
    for scale in ("common", "columns", None):
        model = BayesianGPLVM(**SETTINGS, scale=scale, max_iterations=20).fit(x)
        holed_row = x[:1].copy()
        holed_row[0, 6] = np.nan
        filled, deviation = model.complete(holed_row, return_std=True)
        assert abs(filled[0, 6] - 7.0) < 0.5
        assert np.isfinite(deviation).all()
    with pytest.warns(UserWarning, match="All 10 rows are the same"):
        constant = BayesianGPLVM(num_dimensions=1, max_iterations=5).fit(np.full((10, 3), 2.0))
    np.testing.assert_allclose(constant.complete(np.array([[2.0, np.nan, 2.0]])), 2.0, atol=0.1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_dimensions": 7}, "num_dimensions is 7, but X has n_samples = 120 and n_features = 6"),
        ({"num_dimensions": 0}, "num_dimensions must be a positive integer, but is 0"),
        ({"num_inducing": "many"}, "num_inducing must be a positive integer or 'auto', but is 'many'"),
        ({"posterior": "full"}, "posterior must be one of ('gaussian', 'map'), but is 'full'"),
        ({"kernel": "matern32"}, "kernel must be one of ('rbf', 'linear', 'rbf+linear'), but is 'matern32'"),
        ({"scale": "rows"}, "scale must be one of ('common', 'columns', None), but is 'rows'"),
        ({"optimizer": "sgd"}, "optimizer must be one of"),
        ({"max_iterations": 2.5}, "max_iterations must be a positive integer or None, but is 2.5"),
        ({"tolerance": -1.0}, "tolerance must be a finite number from 0, but is -1.0"),
    ],
)
def test_parameters_out_of_range_are_refused(settings, message, rows):
    with pytest.raises(ValueError, match=re.escape(message)):
        BayesianGPLVM(**{"num_dimensions": 2, **settings}).fit(rows)


def test_bad_rows_are_named(model, rows):
    x = rows.copy()
    x[7] = np.nan
    with pytest.raises(
        ValueError, match=r"1 rows without any value, all are NaN: 7; expected .* Drop these rows"
    ):
        BayesianGPLVM(**SETTINGS).fit(x)
    with pytest.raises(ValueError, match=r"all are NaN: 7"):
        model.transform(x)
    x = rows.copy()
    x[:, [1, 4]] = np.nan
    with pytest.raises(
        ValueError, match=r"2 columns without any value, all are NaN: column 1, column 4; expected"
    ):
        BayesianGPLVM(**SETTINGS).fit(x)
    assert np.isfinite(model.transform(x)).all()  # a column may be missing in new rows
    frame = pd.DataFrame(x, columns=list("abcdef"))
    with pytest.raises(ValueError, match=r"column 1 \('b'\)"):
        BayesianGPLVM(**SETTINGS).fit(frame)
    with pytest.warns(UserWarning, match="All 9 rows are the same, so that positions mean nothing"):
        checked_latent_rows(BayesianGPLVM(), np.tile([1.0, np.nan], (9, 1))[:, :1], reset=True)
    x = rows.copy()
    x[3, 2] = np.inf
    for refused in (BayesianGPLVM(**SETTINGS).fit, model.transform, model.complete, model.score_samples):
        with pytest.raises(
            ValueError, match=r"infinity at 1 places, first in row 3, column 2; expected finite"
        ):
            refused(x)
    with pytest.raises(ValueError, match="X has 5 features, but BayesianGPLVM is expecting 6 features"):
        model.transform(rows[:, :5])
    with pytest.raises(ValueError, match=r"Z has shape \[2, 2\], but positions must be \[N, 3\]"):
        model.inverse_transform(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="Z holds NaN or infinity"):
        model.inverse_transform(np.full((2, 3), np.nan))


def test_values_too_far_to_compute_with_are_refused(model, rows):
    x = rows[:2].copy()
    x[1, :2] = 1e200, np.nan
    for refused in (model.transform, model.complete, model.score_samples):
        with pytest.raises(
            ValueError, match=r"X holds 1e\+200 in row 1, column 0, which is too far .* standard deviations"
        ):
            refused(x)
    with pytest.raises(ValueError, match=r"X holds 1e\+200 in row 2, column 0"):
        BayesianGPLVM(num_dimensions=1).fit(np.vstack([rows[:1], x]))
    x[1, 0] = 1e90
    assert np.isfinite(model.complete(x)).all()
    assert np.isfinite(model.score_samples(x)).all()


@pytest.mark.slow
def test_nothing_is_known_before_a_fit_and_after_a_failed_one(rows):
    model = BayesianGPLVM(**SETTINGS, max_iterations=2)
    with pytest.raises(NotFittedError):
        model.transform(rows)
    model.fit(rows)
    x = rows.copy()
    x[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.fit(x[:, :5])
    with pytest.raises(NotFittedError):
        model.transform(rows)


def test_a_file_keeps_everything(model, rows, tmp_path):
    path = tmp_path / "model.npz"
    model.save(path)
    again = BayesianGPLVM.load(path)
    x, _ = holed(rows)
    np.testing.assert_array_equal(again.score_samples(x), model.score_samples(x))
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    np.testing.assert_array_equal(again.relevance_, model.relevance_)
    assert again.summary() == model.summary()
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(np.array(again.learning_curve_), np.array(model.learning_curve_))


def broken(path, target, change):
    with np.load(path) as file:
        arrays = dict(file)
    change(arrays)
    np.savez(target, **arrays)
    return target


def described(change):
    def apply(arrays):
        description = json.loads(str(arrays["description"]))
        change(description)
        arrays["description"] = np.array(json.dumps(description))

    return apply


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("weight_inducing_mean"), "was altered"),
        (lambda a: a.update(weight_kernel_lengthscales=np.ones(4)), "was altered"),
        (lambda a: a.update(weight_noise_variance=np.array(-1.0)), "was altered"),
        (lambda a: a.update(weight_start_variance=0 * a["weight_start_mean"]), "was altered"),
        (lambda a: a.update(weight_column_group=np.full(6, 9)), "was altered"),
        (lambda a: a.update(column_deviation=np.zeros(6)), "was altered"),
        (lambda a: a.update(embedding=np.full((120, 3), np.nan)), "was altered"),
        (described(lambda d: d.update(format_version=9)), "has format version 9, but this release reads 1"),
        (described(lambda d: d["parameters"].update(colour="red")), "was altered"),
        (described(lambda d: d.update(iterations=0)), "was altered"),
    ],
)
def test_damaged_files_are_refused(change, message, model, tmp_path):
    model.save(tmp_path / "model.npz")
    path = broken(tmp_path / "model.npz", tmp_path / "broken.npz", change)
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        BayesianGPLVM.load(path)
    assert "broken.npz" in str(error.value)


def test_other_files_are_refused(model, tmp_path):
    path = tmp_path / "model.npz"
    model.save(path)
    with pytest.raises(ValueError, match="is of BayesianGPLVM, not of HGPClassifier"):
        HGPClassifier.load(path)
    (tmp_path / "half.npz").write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ValueError, match=r"half\.npz: is not a complete file"):
        BayesianGPLVM.load(tmp_path / "half.npz")
    with pytest.raises(FileNotFoundError):
        BayesianGPLVM.load(tmp_path / "none.npz")


def test_the_summary_says_what_was_learned(model):
    summary = model.summary()
    assert "BayesianGPLVM: rbf kernel, 20 inducing inputs" in summary
    assert "120 rows, 6 columns" in summary
    assert f"{model.relevance_[0]:.1%}" in summary


def test_pictures(model):
    label = np.arange(120) % 3
    ax = plots.plot_map(model, label=label)
    assert len(ax.collections) >= 3
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1", "2"]
    ax = plots.plot_map(model, dimensions=(2, 0))
    assert "dimension 2" in ax.get_xlabel()
    ax = plots.plot_dimension_relevance(model)
    assert len(ax.patches) == 3
    with pytest.raises(ValueError, match=r"dimensions must be two of 0 to 2, but are \(0, 3\)"):
        plots.plot_map(model, dimensions=(0, 3))
    with pytest.raises(ValueError, match="label has shape"):
        plots.plot_map(model, label=label[:5])
    plt.close("all")
