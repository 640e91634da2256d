"""Real targets in their own unit: a head learns standardised ones, and nobody sees it."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from gpmodels import ATLDGPRegressor, HGPHead, HybridModel, LinearHead, SVGPHead, SVGPRegressor
from gpmodels.hybrid.targets import lone_targets, target_moments

MEAN, SCALE = 400.0, 25.0


def data() -> tuple[np.ndarray, np.ndarray]:
    """Inputs and standardised targets."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2)).astype("float32")
    y = x[:, 0] - 0.5 * x[:, 1] + 0.1 * rng.normal(size=80)
    return x, ((y - y.mean()) / y.std()).astype("float32")


def model_of(head, y: np.ndarray) -> HybridModel:
    keras.utils.set_random_seed(0)
    model = HybridModel(keras.layers.Identity(), head, num_data=80)
    model.compile(keras.optimizers.SGD(0.05))
    model.initialize((data()[0], y))
    return model


HEADS = {
    "linear": lambda: LinearHead(likelihood="gaussian"),
    "svgp": lambda: SVGPHead(num_inducing=6, likelihood="gaussian"),
}


@pytest.mark.parametrize("head", HEADS)
def test_another_unit_changes_nothing_but_the_unit(head):
    x, y = data()
    own = MEAN + SCALE * y
    plain, shifted = model_of(HEADS[head](), y), model_of(HEADS[head](), own)
    assert (float(plain.target_mean), float(plain.target_scale)) == (0.0, 1.0)
    assert float(shifted.target_mean) == pytest.approx(MEAN, rel=1e-5)
    assert float(shifted.target_scale) == pytest.approx(SCALE, rel=1e-5)
    numbers = []
    for model, targets in ((plain, y), (shifted, own)):
        for _ in range(3):
            logs = model.train_step((tf.constant(x), tf.constant(targets)))
        numbers.append({name: float(value) for name, value in logs.items()})
    outputs, ours = plain(x), shifted(x)
    np.testing.assert_allclose(ours["mean"], MEAN + SCALE * outputs["mean"], rtol=1e-4)
    for name in ("variance", "latent_variance"):
        np.testing.assert_allclose(ours[name], SCALE**2 * outputs[name], rtol=1e-3)
    assert numbers[1]["loss"] == pytest.approx(numbers[0]["loss"], rel=1e-3)
    assert numbers[1]["rmse"] == pytest.approx(SCALE * numbers[0]["rmse"], rel=1e-3)
    assert numbers[1]["nll"] == pytest.approx(numbers[0]["nll"] + np.log(SCALE), rel=1e-3)


def test_nll_is_the_density_of_the_prediction_in_the_unit_of_the_targets():
    x, y = data()
    own = MEAN + SCALE * y
    model = model_of(HEADS["svgp"](), own)
    outputs = model(x)
    density = stats.norm.logpdf(own, outputs["mean"], np.sqrt(outputs["variance"]))
    nll = float(model.test_step((tf.constant(x), tf.constant(own)))["nll"])
    assert nll == pytest.approx(-density.mean(), rel=1e-4)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_nll_is_that_of_the_distribution_at_its_temperature(head):
    x, y = data()
    y = (MEAN + SCALE * y).astype("float32")
    model = model_of(HEADS[head](), y)
    model.set_temperature(1.7)
    outputs = model.predict(x, verbose=0)
    expected = -stats.norm.logpdf(y, outputs["mean"], np.sqrt(outputs["variance"])).mean()
    logs = model.evaluate(x, y, return_dict=True, verbose=0)
    assert logs["nll"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("num_classes", [2, 3])
def test_nll_of_classes_is_that_of_their_probabilities_at_the_temperature(num_classes):
    x, y = data()
    labels = np.digitize(y, [0.0, 0.8][: num_classes - 1]).astype("float32")
    model = HybridModel(
        keras.layers.Identity(), SVGPHead(num_classes=num_classes, num_inducing=6), num_data=80
    )
    model.compile()
    model.initialize((x, labels), head_steps=20)
    model.set_temperature(0.4)
    probability = model.predict(x, verbose=0)["probability"]
    if num_classes == 2:
        probability = np.stack([1.0 - probability, probability], axis=1)
    expected = -np.log(probability[np.arange(80), labels.astype(int)]).mean()
    logs = model.evaluate(x, labels, return_dict=True, verbose=0)
    assert logs["nll"] == pytest.approx(expected, rel=1e-3)


def test_models_that_saw_no_targets_keep_the_unit_of_the_head():
    x, _ = data()
    model = HybridModel(keras.layers.Identity(), HEADS["svgp"](), num_data=80)
    model.initialize(x)
    for name, values in model.head(x).items():
        np.testing.assert_array_equal(model(x)[name], values)


def test_weights_count_and_targets_all_alike_keep_the_scale():
    assert target_moments(np.array([1.0, 5.0, 900.0]), np.array([3.0, 1.0, 0.0])) == (2.0, np.sqrt(3.0))
    assert target_moments(np.full(4, 7.3), np.ones(4)) == (pytest.approx(7.3), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_the_unit_is_kept_in_files_and_exports(head, tmp_path):
    x, y = data()
    model = model_of(HEADS[head](), MEAN + SCALE * y)
    expected = model(x)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    model.export(str(tmp_path / "saved"))
    exported = tf.saved_model.load(str(tmp_path / "saved"))
    served = exported.serve(tf.constant(x))
    for name, values in expected.items():
        np.testing.assert_allclose(loaded(x)[name], values, rtol=1e-6)
        np.testing.assert_allclose(served[name], values, rtol=1e-4)
    assert loaded._is_started()  # so that fit does not measure the targets anew
    trunk = keras.Sequential([keras.Input((2,)), keras.layers.Identity()])
    behind = model.with_trunk(trunk).inference_function()(tf.constant(x))
    np.testing.assert_allclose(behind["mean"], expected["mean"], rtol=1e-4)


def test_a_file_of_before_has_neither_mean_nor_scale():
    model = model_of(HEADS["linear"](), data()[1])
    model.load_own_variables({})
    assert (float(model.target_mean), float(model.target_scale)) == (0.0, 1.0)
    assert model._is_started()


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_weights_of_a_model_bring_the_unit_of_its_targets(head):
    x, y = data()
    model = model_of(HEADS[head](), MEAN + SCALE * y)
    copy = HybridModel.from_config(model.get_config())
    copy.build((None, 2))
    copy.set_weights(model.get_weights())
    copy.compile(optimizer=keras.optimizers.SGD(0.0))
    copy.fit(x, MEAN + 2.0 * SCALE * y, epochs=1, verbose=0)
    for name, values in model(x).items():
        np.testing.assert_allclose(copy(x)[name], values, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [1.0, 0.01])
def test_a_step_has_the_slope_of_a_squared_error_whatever_the_noise(noise):
    x, y = data()
    model = model_of(HEADS["linear"](), y)
    model.compile(keras.optimizers.SGD(0.1))
    model.head.likelihood.noise_variance.assign([noise])
    kernel, bias = model.head.kernel.numpy(), float(model.head.bias.numpy())
    residual = x @ kernel + bias - y
    loss = float(model.test_on_batch(x, y, return_dict=True)["loss"])
    stepped = model.train_on_batch(x, y, return_dict=True)
    np.testing.assert_allclose(model.head.bias, bias - 0.1 * np.mean(2.0 * residual), rtol=1e-4)
    expected = kernel - 0.1 * np.mean(2.0 * residual[:, None] * x, axis=0)
    np.testing.assert_allclose(model.head.kernel, expected, rtol=1e-4)
    assert float(stepped["loss"]) == pytest.approx(loss, rel=1e-5)  # what is logged is the bound
    assert loss == pytest.approx(-stats.norm.logpdf(residual, scale=np.sqrt(noise)).mean(), rel=1e-4)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
@pytest.mark.parametrize("global_weight", [0.5, 1.0])
def test_a_step_has_one_label_s_slope_however_often_a_head_counts_it(likelihood, global_weight):
    """The functions are almost their mean, so that 1 + w likelihoods have 1 + w times the slope of one."""
    x, y = data()
    y = y if likelihood == "gaussian" else (y > 0.0).astype("float32")
    steps = []
    experts = HGPHead(num_experts=1, num_inducing=6, likelihood=likelihood, global_weight=global_weight)
    for head in (SVGPHead(num_inducing=6, likelihood=likelihood), experts):
        model = model_of(head, y)
        head.linear_mean.kernel.assign(tf.ones_like(head.linear_mean.kernel))
        before = head.linear_mean.kernel.numpy()
        model.train_on_batch(x, y)
        steps.append(head.linear_mean.kernel.numpy() - before)
    assert np.abs(steps[0]).max() > 1e-3
    np.testing.assert_allclose(steps[1], steps[0], rtol=0.1)


@pytest.mark.parametrize(
    ("mean", "scale", "fault"),
    [
        (1.7e9, 1.0, "which 32 bits cannot tell apart. Subtract a constant"),
        (0.0, 1e20, "whose square 32 bits cannot hold"),
        (0.0, 1e-20, "whose square 32 bits cannot hold"),
    ],
)
def test_targets_that_32_bits_cannot_hold_are_refused(mean, scale, fault):
    with pytest.raises(ValueError, match=fault):
        target_moments(mean + scale * np.arange(6.0), np.ones(6))


@pytest.mark.slow
def test_a_target_far_from_all_others_is_said(caplog):
    """Beside it, standardised, the others are one value to the model."""
    x = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    y = x[:, 0].copy()
    y[3] = 1e6
    HybridModel(
        keras.layers.Identity(), SVGPHead(num_inducing=4, likelihood="gaussian"), num_data=40
    ).initialize((x, y))
    assert "A few targets, such as 1e+06, are so far from the others" in caplog.text
    with pytest.warns(UserWarning, match=r"such as 1e\+06, are so far from the others"):
        SVGPRegressor(max_iterations=1).fit(x, y)
    with pytest.warns(UserWarning, match=r"such as 1e\+06, are so far from the others"):
        ATLDGPRegressor(max_iterations=1).fit(x, y)


@pytest.mark.parametrize(
    "targets",
    [
        pytest.param(np.exp(3.0 * np.random.default_rng(0).normal(size=200)), id="log-normal"),
        pytest.param(np.append(np.zeros(199), 1.0), id="one that is not zero"),
        pytest.param(np.array([0.0, 1e-3, 1e3]), id="few"),
        pytest.param(np.append(np.random.default_rng(0).normal(size=199), 30.0), id="thirty deviations"),
    ],
)
def test_targets_of_unusual_shape_are_right(targets):
    assert lone_targets(targets) is None
