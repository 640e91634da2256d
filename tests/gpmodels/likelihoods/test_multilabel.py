"""The likelihood of several yes/no labels, some of which nobody knows."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead, HybridModel, LinearHead, RidgeLinearHead, SVGPHead
from gpmodels.autogp.head import AutoGPHead
from gpmodels.heads.cross_folds import cross_folds
from gpmodels.heads.linear_layer import LinearRows, fit_linear_layer
from gpmodels.hybrid.checks import check_points
from gpmodels.likelihoods.logistic import LogisticLikelihood
from gpmodels.likelihoods.multilabel import MultilabelLikelihood, log_probability_of_labels

RNG = np.random.default_rng(0)
MEAN, VARIANCE = RNG.normal(size=(5, 3)), np.exp(RNG.normal(size=(5, 3)))
LABEL = RNG.integers(0, 2, (5, 3)).astype(np.float64)
LABEL[0, 1] = LABEL[2] = np.nan  # one label of the first point, and all of the third
UNIT = tf.zeros([5], tf.int32)


def twin(power: str) -> np.ndarray:
    """E[log σ(±f)], or log E[σ(±f)], of every known label by a fine sum over f, summed over the labels."""
    z = np.linspace(-9.0, 9.0, 4001)
    weight = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    f = MEAN[..., None] + np.sqrt(VARIANCE)[..., None] * z
    of_label = 1.0 / (1.0 + np.exp(-np.where(LABEL == 1.0, 1.0, -1.0)[..., None] * f))
    terms = np.log(of_label) @ weight if power == "bound" else np.log(of_label @ weight)
    return np.nansum(np.where(np.isnan(LABEL), np.nan, terms), axis=1)


def test_known_labels_are_summed_and_unknown_ones_left_out():
    likelihood = MultilabelLikelihood(3)
    bound = likelihood.expected_log_likelihood(*map(tf.constant, (MEAN, VARIANCE, LABEL)), UNIT)
    density = likelihood.log_predictive_density(*map(tf.constant, (MEAN, VARIANCE, LABEL)), UNIT)
    np.testing.assert_allclose(bound, twin("bound"), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(density, twin("density"), rtol=1e-5, atol=1e-9)
    assert bound[2] == density[2] == 0.0


def test_an_unknown_label_has_no_gradient():
    mean, variance = tf.constant(MEAN), tf.constant(VARIANCE)
    with tf.GradientTape() as tape:
        tape.watch([mean, variance])
        value = MultilabelLikelihood(3).expected_log_likelihood(mean, variance, tf.constant(LABEL), UNIT)
    for gradient in tape.gradient(value, [mean, variance]):
        assert np.isfinite(gradient).all()
        np.testing.assert_array_equal(np.asarray(gradient) == 0.0, np.isnan(LABEL))


def test_one_label_is_the_logistic_likelihood():
    one, each = MultilabelLikelihood(1), LogisticLikelihood()
    marginal, label = (tf.constant(MEAN[:, :1]), tf.constant(VARIANCE[:, :1])), np.array([1, 0, 1, 1, 0.0])
    for method in ("expected_log_likelihood", "log_predictive_density", "log_expected_inverse"):
        np.testing.assert_allclose(
            getattr(one, method)(*marginal, tf.constant(label[:, None]), UNIT),
            getattr(each, method)(*marginal, tf.constant(label), UNIT),
        )
    for name, value in each.predictions(*marginal, UNIT).items():
        np.testing.assert_array_equal(one.predictions(*marginal, UNIT)[name][:, 0], value)


def test_a_label_is_0_1_or_unknown():
    labels = tf.constant([[0.0, 1.0], [np.nan, np.nan], [0.5, 1.0], [2.0, 0.0]])
    assert MultilabelLikelihood(2).valid_labels(labels).numpy().tolist() == [True, True, False, False]


def test_log_odds_give_the_density_of_the_linear_head():
    logit = tf.constant(MEAN)
    expected = np.nansum(-np.log1p(np.exp(np.where(LABEL == 1.0, -1, 1) * MEAN)) + 0.0 * LABEL, axis=1)
    np.testing.assert_allclose(log_probability_of_labels(logit, tf.constant(LABEL)), expected, rtol=1e-10)


def examples(count: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Points of two features, and two labels of them, a third of which is unknown."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(count, 2)).astype("float32")
    y = (x + 0.3 * rng.normal(size=x.shape) > 0.0).astype("float32")
    y[rng.random(y.shape) < 0.33] = np.nan
    return x, y


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize(
    "head",
    [
        LinearHead,
        lambda **task: SVGPHead(num_inducing=8, **task),
        lambda **task: AutoGPHead(num_inducing=8, **task),
        lambda **task: HGPHead(num_experts=2, num_inducing=8, **task),
    ],
    ids=["linear", "svgp", "autogp", "hgp"],
)
def test_heads_learn_labels_each_by_itself(head, tmp_path, caplog):
    x, y = examples()
    model = HybridModel(
        keras.layers.Identity(), head(num_classes=2, likelihood="multilabel"), num_data=len(x)
    )
    model.compile(keras.optimizers.Adam(0.05))
    with caplog.at_level("WARNING"):
        history = model.fit(x, y, epochs=25, verbose=0, sample_weight=np.ones(len(x))).history
    assert not caplog.records  # N is the number of points, not of labels
    assert history["accuracy"][-1] > 0.85
    found = model.predict(x, verbose=0)["probability"]
    assert found.shape == (120, 2)
    assert ((found > 0.5) == (x > 0.0)).mean() > 0.85
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again.predict(x, verbose=0)["probability"], found, atol=1e-5)


def test_labels_of_another_number_are_refused():
    head = LinearHead(num_classes=3, likelihood="multilabel")
    check_points((8, 2), (8, 3), (8,), head)
    with pytest.raises(
        ValueError, match=r"Labels have shape \(8, 2\), but must have shape \(8, 3\): 0, 1, or"
    ):
        check_points((8, 2), (8, 2), None, head)
    with pytest.raises(ValueError, match="give one for each example, and NaN for unknown labels"):
        check_points((8, 2), (8, 3), (8, 3), head)


def test_the_ridge_layer_of_each_label_sees_its_known_rows_alone():
    x, y = examples()
    rows = LinearRows(x.astype(np.float64), y.astype(np.float64), np.ones(len(x)))
    fold = cross_folds(rows.x, np.zeros(len(x)), None, np.random.default_rng(0), is_class=False)
    layer = fit_linear_layer(rows, fold, "multilabel", 2)
    known = np.isfinite(y[:, 1])
    alone = fit_linear_layer(
        LinearRows(*(part[known] for part in (rows.x, rows.y[:, 1], rows.weight))), fold[known], "logistic"
    )
    np.testing.assert_allclose(layer.kernel[:, 1:], alone.kernel)
    np.testing.assert_allclose(layer.logits[known, 1:], alone.logits)
    assert np.isfinite(layer.logits).all()


def test_the_regularised_head_is_fitted_in_one_pass():
    x, y = examples()
    head = RidgeLinearHead(num_classes=2, likelihood="multilabel")
    model = HybridModel(keras.layers.Identity(), head, num_data=len(x))
    model.build((None, 2))
    model.fit_to((x, y))
    assert np.argmax(np.abs(head.kernel), axis=0).tolist() == [0, 1]


def test_of_a_label_that_no_row_knows_nothing_is_learned():
    x = np.random.default_rng(0).normal(size=(20, 3))
    y = np.stack([x[:, 0] > 0, np.full(20, np.nan)], axis=1)
    layer = fit_linear_layer(LinearRows(x, y, np.ones(20)), np.arange(20) % 5, "multilabel", 2)
    assert np.abs(layer.kernel[:, 0]).max() > 0.0
    for part in (layer.kernel, layer.bias[None], layer.logits):
        np.testing.assert_array_equal(part[:, 1], 0.0)
