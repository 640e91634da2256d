"""The hierarchical GP head for real targets: thesis (3.28) to (3.32) by loops, with noise for each unit."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HGPHead, HybridModel
from tests.gpmodels.head_twin import (
    expert_marginals,
    global_term,
    objective,
    objective_by_loops,
    points,
    routes,
    targets,
)
from tests.gpmodels.layer_contract import NUM_FEATURES, REGRESSION_OUTPUTS, LayerContract
from tests.gpmodels.random_units import random_head


class TestRegressionContract(LayerContract):
    is_variant = True
    head_class = HGPHead
    settings = {  # noqa: RUF012
        "num_experts": 2,
        "num_inducing": 5,
        "num_expert_inducing": 4,
        "likelihood": "gaussian",
        "expert_variance": "thesis",
    }
    trainable_values = 3 + sum(
        units * (size * NUM_FEATURES + NUM_FEATURES + 1 + size + size * (size + 1) // 2)
        for units, size in ((1, 5), (2, 4))
    )
    outputs = REGRESSION_OUTPUTS


def regression_head(num_experts: int = 3, **settings) -> HGPHead:
    return random_head(num_experts, likelihood="gaussian", **settings)


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("expert_variance", ["full", "thesis"])
@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_objective_equals_the_sum_of_the_thesis(weight, expert_variance):
    head = regression_head(global_weight=weight, expert_variance=expert_variance)
    x, y = points(30), targets(30)
    assert len(set(routes(head, x))) > 1
    assert float(objective(head, x, y)) == pytest.approx(objective_by_loops(head, x, y), rel=1e-6)


def test_outputs_are_the_expert_with_its_own_noise():
    head = regression_head()
    x = points(20)
    outputs = head(x)
    noise = head.likelihood.noise_variance.numpy()
    assert len(set(noise)) == 4
    for n, k in enumerate(routes(head, x)):
        ((mean, variance),) = expert_marginals(head, x[n], k)
        assert float(outputs["mean"][n]) == pytest.approx(mean, abs=1e-7)
        assert float(outputs["latent_variance"][n]) == pytest.approx(variance, abs=1e-7)
        assert float(outputs["variance"][n]) == pytest.approx(variance + noise[k + 1], abs=1e-7)


def test_noise_of_the_global_unit_matters_to_its_own_term_alone():
    head = regression_head()
    x, y = points(10), targets(10)
    before, density = float(objective(head, x, y)), predictive_density(head, x, y)
    terms = sum(global_term(head, *point) for point in zip(x, y, strict=True))
    noise = head.likelihood.noise_variance
    noise.assign(noise.numpy() * [3.0, 1.0, 1.0, 1.0])
    changed = sum(global_term(head, *point) for point in zip(x, y, strict=True))
    assert abs(changed - terms) > 0.1
    assert float(objective(head, x, y)) - before == pytest.approx(changed - terms, rel=1e-6)
    np.testing.assert_array_equal(predictive_density(head, x, y), density)


def predictive_density(head: HGPHead, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return head.log_predictive_density(head.latent(tf.constant(x)), tf.constant(y)).numpy()


def test_number_of_classes_makes_no_difference():
    assert HGPHead(likelihood="gaussian", num_classes=5).likelihood.num_latents == 1


def fitted_model() -> tuple[HybridModel, np.ndarray, np.ndarray]:
    """A model of y = sin(3 x_0) trained for a while."""
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).uniform(-2.0, 2.0, size=(256, 2)).astype("float32")
    y = (np.sin(3 * x[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=256)).astype("float32")
    head = HGPHead(num_experts=3, num_inducing=10, likelihood="gaussian")
    model = HybridModel(keras.layers.Identity(), head, num_data=256)
    model.compile(optimizer=keras.optimizers.Adam(0.05), metrics=["mean_absolute_error"])
    model.initialize((x, y))
    model.fit(x, y, batch_size=64, epochs=20, verbose=0)
    return model, x, y


@pytest.mark.slow
def test_fit_learns_a_function_and_reports_its_error():
    model, x, y = fitted_model()
    numbers = model.evaluate(x, y, verbose=0, return_dict=True)
    assert set(numbers) == {"loss", "expected_log_likelihood", "nll", "rmse", "mean_absolute_error"}
    predicted = model.predict(x, verbose=0)
    assert set(predicted) == REGRESSION_OUTPUTS
    residual = y - predicted["mean"]
    assert numbers["rmse"] == pytest.approx(float(np.sqrt(np.mean(residual**2))), rel=1e-4)
    assert numbers["mean_absolute_error"] == pytest.approx(float(np.mean(np.abs(residual))), rel=1e-4)
    nll = 0.5 * np.log(2 * np.pi * predicted["variance"]) + 0.5 * residual**2 / predicted["variance"]
    assert numbers["nll"] == pytest.approx(float(nll.mean()), rel=1e-4)
    assert numbers["rmse"] < 0.3
    assert np.std(y) > 0.6


@pytest.mark.slow
def test_export_after_a_drop_keeps_each_experts_noise(tmp_path):
    """The noise is per unit, and a drop renumbers the experts that the export holds."""
    head = regression_head(3, dtype="float32")
    head.likelihood.noise_variance.assign([5.0, 1.0, 2.0, 3.0])
    model = HybridModel(keras.layers.Identity(), head, num_data=10)
    model.build((None, 2))
    head.drop_experts(np.array([0]))
    x = points(50).astype("float32")
    expected = {name: value.numpy() for name, value in model(x).items()}
    noise = expected["variance"] - expected["latent_variance"]
    assert {round(float(value), 3) for value in noise} == {2.0, 3.0}
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    model.export(str(tmp_path / "exported"))
    served = tf.saved_model.load(str(tmp_path / "exported"))
    for outputs in (loaded(x), served.serve(tf.constant(x))):
        for name, value in expected.items():
            np.testing.assert_allclose(outputs[name], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_targets_that_are_not_finite_are_an_error(bad):
    model = HybridModel(keras.layers.Identity(), HGPHead(num_experts=2, likelihood="gaussian"), num_data=10)
    model.compile()
    model.build((None, 2))
    x, y = points(10).astype("float32"), targets(10).astype("float32")
    y[3] = bad
    with pytest.raises(tf.errors.InvalidArgumentError, match="Labels must be a finite number, but found"):
        model.train_step((tf.constant(x), tf.constant(y)))
