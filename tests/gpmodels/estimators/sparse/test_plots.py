"""Pictures show what the estimator predicts, on the axes given, and refuse data that they cannot show."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

import gpmodels
from gpmodels import HGPClassifier, HGPRegressor, SVGPRegressor
from gpmodels.estimators.sparse.plots import (
    expert_means,
    plot_classification,
    plot_learning_curve,
    plot_regression,
    plot_relevance,
)
from tests.gpmodels.estimators.small import SMALL


@pytest.fixture
def ax():
    """Axes that pyplot knows nothing of."""
    return Figure().add_subplot()


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


def line_data():
    x = np.linspace(100.0, 200.0, 60)[:, None]
    return x, 30.0 * np.sin(x[:, 0] / 10.0)


@pytest.fixture(scope="module")
def regressor():
    return HGPRegressor(num_experts=2, **SMALL).fit(*line_data())


def plane_data(num_classes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 2))
    return x, np.array(["ash", "elm", "oak"])[np.digitize(x[:, 0], [-0.4, 0.4][: num_classes - 1])]


@pytest.fixture(scope="module", params=[2, 3])
def classifier(request):
    x, y = plane_data(request.param)
    return HGPClassifier(num_experts=2, **SMALL).fit(x, y), x, y


def labelled(ax):
    return dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))


@pytest.mark.slow
def test_regression_draws_mean_and_data_on_the_axes_given(regressor, ax):
    x, y = line_data()
    before = plt.get_fignums()
    assert plot_regression(regressor, x, y, ax) is ax
    assert plt.get_fignums() == before
    drawn = labelled(ax)
    grid, mean = drawn["mean"].get_data()
    np.testing.assert_allclose(mean, regressor.predict(grid[:, None]))
    np.testing.assert_array_equal(drawn["data"].get_data(), [x[:, 0], y])
    assert {"expert 1", "expert 2", "± 2 sd of the target", "± 2 sd of its mean"} <= set(drawn)


@pytest.mark.slow
def test_an_expert_s_curve_is_the_prediction_where_it_is_responsible(regressor):
    x, _ = line_data()
    outputs = regressor.predict_distribution(x)
    means = expert_means(regressor, x)
    assert set(means) == {0, 1} == set(outputs["expert"])
    for k, mean in means.items():
        own = outputs["expert"] == k
        np.testing.assert_allclose(mean[own], outputs["mean"][own], rtol=1e-9)


@pytest.mark.slow
def test_a_model_without_experts_has_no_experts_in_its_picture(ax):
    x, y = line_data()
    model = SVGPRegressor(**SMALL).fit(x, y)
    plot_regression(model, x, y, ax)
    assert not [label for label in labelled(ax) if label.startswith("expert")]


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
def test_classification_draws_each_class_and_names_the_surface(classifier, ax):
    model, x, y = classifier
    plot_classification(model, x, y, ax)
    drawn = labelled(ax)
    assert set(drawn) == set(model.classes_)
    for label, points in drawn.items():
        np.testing.assert_array_equal(np.stack(points.get_data(), axis=1), x[y == label])
    (bar,) = [each for each in ax.figure.axes if each is not ax]
    assert bar.get_ylabel() == ("probability of elm" if len(model.classes_) == 2 else "entropy (nats)")
    ax.figure.canvas.draw()


@pytest.mark.slow
def test_learning_curve_shows_the_bound_and_the_held_out_density_where_there_is_one(regressor, ax):
    plot_learning_curve(regressor, ax, over="iterations")
    assert set(labelled(ax)) == {"bound per row"}
    time, bound = labelled(ax)["bound per row"].get_data()
    assert time.tolist() == list(range(1, regressor.n_iter_ + 1))
    assert bound.tolist() == [point.bound_per_point for point in regressor.learning_curve_]
    x, y = line_data()
    adam = SVGPRegressor(optimizer="adam", **SMALL).fit(x, y)
    assert set(labelled(plot_learning_curve(adam))) == {"bound per row", "held-out log density"}
    with pytest.raises(ValueError, match="but is 'hours'"):
        plot_learning_curve(adam, over="hours")


@pytest.mark.slow
def test_relevance_has_a_bar_for_each_unit_and_feature(classifier, ax):
    model, _, _ = classifier
    plot_relevance(model, ax)
    assert len(ax.patches) == 3 * 2
    assert {tick.get_text() for tick in ax.get_yticklabels()} == {"x0", "x1"}


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "with_inducing"), [("AutoGP", True), ("DeepGP", False), ("DFGP", False)])
def test_every_family_has_pictures_with_inducing_inputs_where_these_lie_among_the_data(kind, with_inducing):
    first, second = Figure().add_subplot(), Figure().add_subplot()
    x, y = line_data()
    plot_regression(getattr(gpmodels, f"{kind}Regressor")(**SMALL).fit(x, y), x, y, first)
    plot_classification(
        getattr(gpmodels, f"{kind}Classifier")(**SMALL).fit(*plane_data(2)), *plane_data(2), second
    )
    assert first.get_xlabel() == second.get_xlabel() == "x0"
    assert any(line.get_marker() == "|" for line in first.lines) == with_inducing
    assert any(line.get_marker() == "+" for line in second.lines) == with_inducing


@pytest.mark.slow
def test_pictures_refuse_what_they_cannot_show(regressor, classifier):
    x, y = line_data()
    model, plane, labels = classifier
    with pytest.raises(ValueError, match="for regressors, but the estimator is a HGPClassifier"):
        plot_regression(model, plane, labels)
    with pytest.raises(ValueError, match="for classifiers, but the estimator is a HGPRegressor"):
        plot_classification(regressor, x, y)
    with pytest.raises(
        ValueError, match=r"X must be \[N, 1\] and y \[N\], but they are \[60, 1\] and \[59\]"
    ):
        plot_regression(regressor, x, y[:-1])
    wide = SVGPRegressor(**SMALL).fit(plane, plane[:, 0])
    with pytest.raises(ValueError, match="for 1 feature, but the estimator was fitted to 2"):
        plot_regression(wide, plane, plane[:, 0])
    assert plt.get_fignums() == []


@pytest.mark.slow
def test_importing_gpmodels_does_not_import_the_pictures():
    program = "import sys, gpmodels; sys.exit('gpmodels.estimators.sparse.plots' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
