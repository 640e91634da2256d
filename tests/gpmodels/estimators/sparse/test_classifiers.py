"""Classifiers: labels of any type, class weights, probabilities, accuracy on known sets."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.model_selection import cross_val_score, train_test_split

from gpmodels import HGPClassifier, SVGPClassifier, SVGPRegressor, VMGPClassifier
from tests.gpmodels.estimators.small import SMALL


def data(num_classes=2, size=60):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size, 2))
    return x, np.digitize(x[:, 0], np.quantile(x[:, 0], np.arange(1, num_classes) / num_classes))


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        np.array(["no", "yes"]),
        np.array([False, True]),
        np.array([1.0, 2.0]),
        np.array([-1, 1]),
        np.array([3, 200], np.uint8),
        np.array(["b", "a"], object),
        np.array(["low", "middle", "high"]),
    ],
    ids=str,
)
def test_labels_of_any_type(names):
    x, y = data(len(names))
    labels = names[y]
    estimator = SVGPClassifier(**SMALL).fit(x, labels)
    np.testing.assert_array_equal(estimator.classes_, np.unique(names))
    predicted = estimator.predict(x)
    assert predicted.dtype == labels.dtype
    assert np.mean(predicted == labels) > 0.8
    probability = estimator.predict_proba(x)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-9)
    np.testing.assert_array_equal(estimator.classes_[probability.argmax(axis=1)], predicted)
    assert np.isfinite(estimator.bound(x, labels))


def test_labels_that_are_not_classes():
    x, y = data()
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        SVGPClassifier(**SMALL).fit(x, y + 0.5 * x[:, 0])
    with pytest.raises(ValueError, match=r"needs rows of at least two classes.*one class: \[1\]"):
        SVGPClassifier(**SMALL).fit(x, np.ones(60, int))
    with pytest.raises(ValueError, match=r"one class: \[0\]"):
        SVGPClassifier(**SMALL).fit(x, y, sample_weight=(y == 0).astype(float))
    with pytest.raises(ValueError, match=r"Labels \[7\] were not seen in fit, which had \[0, 1\]"):
        SVGPClassifier(**SMALL).fit(x, y).bound(x, np.full(60, 7))


@pytest.mark.slow
def test_functions_of_several_rows_are_drawn_together():
    x, y = data()
    model = SVGPClassifier(**SMALL).fit(x, y)
    rows = np.array([[0.5, 0.0], [0.52, 0.0], [-1.5, 1.0]])
    found, outputs = model.sample_functions(rows, 20_000), model.predict_distribution(rows)
    variance = outputs["latent_variance"]
    np.testing.assert_allclose(found.mean(axis=1), outputs["latent_mean"], atol=0.05 * variance.max() ** 0.5)
    np.testing.assert_allclose(found.var(axis=1), variance, rtol=0.05)
    assert np.corrcoef(found)[0, 1] > 0.99 > np.corrcoef(found)[0, 2] + 0.2
    np.testing.assert_array_equal(model.sample_functions(rows, 2), model.sample_functions(rows, 2))


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_draws_are_counted_by_positive_whole_numbers(count):
    message = f"n_samples must be at least 1, and a whole number, but is {count!r}"
    with pytest.raises(ValueError, match=message):
        SVGPClassifier().sample_functions(np.zeros([2, 2]), count)
    with pytest.raises(ValueError, match=message):
        SVGPRegressor().sample_y(np.zeros([2, 2]), count)


@pytest.mark.slow
def test_a_class_without_weight_keeps_its_column():
    x, y = data(3)
    estimator = SVGPClassifier(**SMALL).fit(x, y, sample_weight=(y != 1).astype(float))
    assert estimator.classes_.tolist() == [0, 1, 2]
    assert estimator.predict_proba(x).shape == (60, 3)
    assert 1 not in estimator.predict(x[y != 1])


@pytest.mark.slow
def test_class_weights_are_weights_of_rows():
    x, y = data()
    x += 1.5 * np.random.default_rng(1).normal(size=x.shape)  # classes that overlap, so that weights decide
    keep = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:6]])
    x, y = x[keep], y[keep]
    plain = SVGPClassifier(**SMALL).fit(x, y)
    by_name = SVGPClassifier(class_weight={0: 1.0, 1: 5.0}, **SMALL).fit(x, y)
    by_row = SVGPClassifier(**SMALL).fit(x, y, sample_weight=np.where(y == 1, 5.0, 1.0))
    balanced = SVGPClassifier(class_weight="balanced", **SMALL).fit(x, y)
    np.testing.assert_allclose(by_name.predict_proba(x), by_row.predict_proba(x), rtol=1e-9)
    counts = np.bincount(y)
    as_rows = SVGPClassifier(**SMALL).fit(x, y, sample_weight=len(y) / (2 * counts[y]))
    np.testing.assert_allclose(balanced.predict_proba(x), as_rows.predict_proba(x), rtol=1e-9)
    # Thirty rows of class 0 against six.
    mean = [estimator.predict_proba(x)[:, 1].mean() for estimator in (plain, balanced, by_name)]
    assert mean[0] < min(mean[1:])
    both = SVGPClassifier(class_weight={0: 1.0, 1: 5.0}, **SMALL)
    both.fit(x, y, sample_weight=np.where(y == 1, 1.0, 5.0))
    five_times = SVGPClassifier(**SMALL).fit(x, y, sample_weight=np.full(len(y), 5.0))
    np.testing.assert_allclose(both.predict_proba(x), five_times.predict_proba(x), rtol=1e-9)


@pytest.mark.slow
def test_both_tails_keep_their_digits():
    """Far into a class the other one's probability is small but not 0."""
    x = np.linspace(-1, 1, 200)[:, None]
    settings = {"num_inducing": 6, "max_iterations": 60, "random_state": 0}
    estimator = SVGPClassifier(**settings, temperature=1.0).fit(x, (x[:, 0] > 0).astype(int))
    probability = estimator.predict_proba(x)
    assert np.all(probability > 0.0)
    assert probability.min(axis=0) == pytest.approx(probability.min(axis=0)[::-1], rel=0.5)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["softmax", "robust_max"])
@pytest.mark.parametrize("class_kernels", ["shared", "separate"])
def test_outputs_of_three_classes(likelihood, class_kernels):
    x, y = data(3)
    settings = {"likelihood": likelihood, "class_kernels": class_kernels, "num_experts": 2}
    outputs = HGPClassifier(**SMALL, **settings).fit(x, y).predict_distribution(x)
    assert {name: value.shape for name, value in outputs.items()} == {
        "probability": (60, 3),
        "label": (60,),
        "latent_mean": (60, 3),
        "latent_variance": (60, 3),
        "predictive_entropy": (60,),
        "mutual_information": (60,),
        "expert": (60,),
    }
    assert np.mean(outputs["label"] == y) > 0.7


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("cls", [HGPClassifier, SVGPClassifier, VMGPClassifier])
def test_accuracy_on_breast_cancer(cls):
    train, test, y_train, y_test = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
    experts = {} if cls is SVGPClassifier else {"num_experts": 2}
    estimator = cls(num_inducing=20, max_iterations=30, random_state=0, **experts).fit(train, y_train)
    assert estimator.score(test, y_test) > 0.93


@pytest.mark.slow
def test_accuracy_on_wine():
    train, test, y_train, y_test = train_test_split(*load_wine(return_X_y=True), random_state=0)
    estimator = HGPClassifier(num_experts=2, num_inducing=15, max_iterations=30, random_state=0)
    assert estimator.fit(train, y_train).score(test, y_test) > 0.93


@pytest.mark.slow
def test_the_page_of_estimators_says_what_its_first_program_scores(capsys):
    page = (Path(__file__).parents[4] / "docs" / "estimators.md").read_text(encoding="utf-8")
    program = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    (said,) = re.findall(r"It scores (0\.\d+)", page)
    exec(program, {})  # noqa: S102 - the page's own
    assert float(capsys.readouterr().out.split()[0]) == pytest.approx(
        float(said), abs=0.008
    )  # one row of 143


@pytest.mark.slow
def test_default_settings_on_breast_cancer():
    scores = cross_val_score(HGPClassifier(random_state=0), *load_breast_cancer(return_X_y=True), cv=3)
    assert scores.mean() > 0.95
