"""The linear mean: a NumPy twin, its limits, and heads with it against heads without it."""

import dataclasses
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import (
    AutoGPHead,
    DeepGPHead,
    DFGPHead,
    HGPHead,
    HybridModel,
    LinearHead,
    RandomFeatureHead,
    SVDKLHead,
    SVGPHead,
    VMGPHead,
)
from gpmodels.heads.base import Latent
from gpmodels.heads.gp import GPHead, Points
from gpmodels.units.linear_mean import START_VARIANCE, START_VARIANCE_OF_TARGETS, LinearMean
from tests.gpmodels.random_units import mean_twin, randomize_mean, units_of, without_mean

FEATURES = 3

HEADS: dict[str, tuple[type[GPHead], dict[str, Any]]] = {
    "svgp": (SVGPHead, {"num_inducing": 4}),
    "hgp": (HGPHead, {"num_experts": 2, "num_inducing": 4}),
    "hgp of the thesis": (HGPHead, {"num_experts": 2, "num_inducing": 4, "expert_variance": "thesis"}),
    "hgp without experts": (HGPHead, {"num_experts": 0, "num_inducing": 4}),
    "hgp, soft": (HGPHead, {"num_experts": 2, "num_inducing": 4, "e_step": "soft"}),
    "vmgp": (VMGPHead, {"num_experts": 2, "num_inducing": 4}),
    "vmgp, soft": (VMGPHead, {"num_experts": 2, "num_inducing": 4, "e_step": "soft"}),
    "autogp": (AutoGPHead, {"num_inducing": 4}),
    "autogp of two components": (AutoGPHead, {"num_inducing": 4, "num_components": 2}),
    "dfgp": (DFGPHead, {"num_inducing": 4, "num_hidden": 2}),
    "deep_gp": (DeepGPHead, {"num_inducing": 4}),
    "deep_gp of one layer": (DeepGPHead, {"num_inducing": 4, "num_layers": 1}),
    "random_features": (RandomFeatureHead, {"num_features": 4}),
}
SLOW = {"hgp of the thesis", "hgp without experts", "hgp, soft", "vmgp, soft", "autogp of two components"}
SLOW |= {"deep_gp of one layer", "random_features"}
"""Variants of the others."""
every_head = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in HEADS]
)


def every_head_and(*likelihoods: dict[str, Any]) -> pytest.MarkDecorator:
    """Every head for two classes, slow the main ones for other likelihoods, exhaustive their variants."""
    pairs = [pytest.param(name, {}, marks=pytest.mark.slow if name in SLOW else ()) for name in HEADS]
    for likelihood in likelihoods:
        for name in HEADS:
            marks = (pytest.mark.slow, *((pytest.mark.exhaustive,) if name in SLOW else ()))
            pairs.append(pytest.param(name, likelihood, marks=marks))
    return pytest.mark.parametrize(("name", "likelihood"), pairs, ids=str)


def points(size: int = 12) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(size, FEATURES))


def labels_for(head: GPHead, size: int = 12) -> tf.Tensor:
    rng = np.random.default_rng(2)
    values = rng.integers(0, head.num_classes, size) if head.is_classifier else rng.normal(size=size)
    return tf.constant(values, tf.float64)


def make(name: str, **settings: Any) -> Any:
    """A placed head in float64 whose weights, those of its linear mean included, are all drawn."""
    head_class, own = HEADS[name]
    head = head_class(**({"dtype": "float64"} | own | settings))
    head.build((None, FEATURES))
    head.initialize(points(40))
    rng = np.random.default_rng(3)
    for weight in head.trainable_weights:
        weight.assign(weight.numpy() + 0.3 * rng.normal(size=weight.shape))
    if head.linear_mean is not None:
        randomize_mean(head.linear_mean, rng)
    return head


def fields(latent: Latent) -> dict[str, np.ndarray]:
    found = {field.name: getattr(latent, field.name) for field in dataclasses.fields(latent)}
    return {name: value.numpy() for name, value in found.items() if value is not None}


def assert_same_but_for_the_mean(ours: Latent, theirs: Latent, mean: np.ndarray, atol: float = 1e-12) -> None:
    """Every mean is shifted, and nothing else."""
    assert type(ours) is type(theirs)
    own, other = fields(ours), fields(theirs)
    assert set(own) == set(other)
    for name, value in own.items():
        if name in ("mean", "global_mean"):
            np.testing.assert_allclose(value, other[name] + mean, rtol=1e-10, atol=atol, err_msg=name)
        else:
            np.testing.assert_array_equal(value, other[name], err_msg=name)


# The mean itself


@pytest.mark.parametrize("num_latents", [1, 3])
def test_it_is_the_twin(num_latents):
    mean = LinearMean(num_features=FEATURES, num_latents=num_latents, dtype="float64")
    randomize_mean(mean, np.random.default_rng(0))
    x = points()
    expected = mean_twin(mean, x)
    assert expected.shape == (12, num_latents)
    np.testing.assert_allclose(mean(tf.constant(x)), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(mean.for_inference()(tf.constant(x)).mean, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(mean.of_logits(mean.logits(tf.constant(x))), expected, rtol=1e-12, atol=1e-14)


def test_it_starts_as_a_dense_layer_that_is_not_corrected():
    first, again, other = (
        LinearMean(num_features=50, num_latents=4, seed=seed, dtype="float64") for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.kernel.numpy(), again.kernel.numpy())
    assert np.all(first.kernel.numpy() != other.kernel.numpy())
    assert 0.8 < np.abs(first.kernel.numpy()).max() / np.sqrt(6.0 / 54.0) <= 1.0
    x = points(5) @ np.random.default_rng(0).normal(size=(FEATURES, 50))
    np.testing.assert_allclose(first(tf.constant(x)), x @ first.kernel.numpy(), rtol=1e-12)
    assert {variable.name for variable in first.trainable_variables} == {
        "mean_kernel:0",
        "mean_scale:0",
        "mean_offset:0",
    }


@pytest.mark.parametrize("num_classes", [2, 3])
def test_it_takes_over_a_linear_head_and_its_temperature(num_classes):
    linear = LinearHead(num_classes=num_classes, dtype="float64")
    linear.build((None, FEATURES))
    linear.bias.assign(np.random.default_rng(0).normal(size=linear.bias.shape))
    linear.set_temperature(2.0)
    x = tf.constant(points())
    mean = LinearMean(
        num_features=FEATURES, num_latents=1 if num_classes == 2 else num_classes, dtype="float64"
    )
    randomize_mean(mean, np.random.default_rng(1))
    mean.start_from(linear.kernel.numpy(), linear.bias.numpy(), scale=0.5)
    np.testing.assert_allclose(mean(x), linear.latent(x).mean, rtol=1e-12)
    np.testing.assert_array_equal(mean.offset, np.zeros(mean.offset.shape))


# Limits


def vanish(head: Any) -> None:
    """Take the variance from the experts, which have no argument of their own for it."""
    for units in units_of(head):
        units.variance.assign(np.full(units.variance.shape, 1e-12))


LINEAR_LIMIT = ("svgp", "hgp", "hgp of the thesis", "vmgp", "autogp", "deep_gp", "random_features")


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("name", LINEAR_LIMIT)
@pytest.mark.parametrize("num_classes", [2, 3])
def test_without_a_gp_it_is_the_linear_head(name, num_classes):
    """q at the prior and next to no variance: probabilities, classes and losses are the linear head's."""
    head_class, own = HEADS[name]
    size = {} if name == "vmgp" else {"kernel_variance": 1e-12}
    likelihood = "logistic" if num_classes == 2 else "softmax"
    settings = own | size | {"num_classes": num_classes, "likelihood": likelihood, "dtype": "float64"}
    head = head_class(**settings)
    linear = LinearHead(num_classes=num_classes, dtype="float64")
    for one in (head, linear):
        one.build((None, FEATURES))
        one.initialize(points(40))
    vanish(head)
    linear.bias.assign(np.random.default_rng(0).normal(size=linear.bias.shape))
    head.linear_mean.start_from(linear.kernel.numpy(), linear.bias.numpy())
    x, y = tf.constant(points()), labels_for(head)
    ours, theirs = head(x), linear(x)
    np.testing.assert_allclose(ours["probability"], theirs["probability"], atol=1e-8)
    np.testing.assert_array_equal(ours["label"], theirs["label"])
    np.testing.assert_allclose(ours["latent_mean"], theirs["latent_mean"], atol=1e-8)
    np.testing.assert_allclose(ours["mutual_information"], 0.0, atol=1e-7)
    np.testing.assert_allclose(head.prior_kl()[-1], 0.0, atol=1e-12)  # inner layers start off the prior
    times = 2 if name.startswith("hgp") else 1  # f_0 has a likelihood of its own
    terms = times * linear.expected_log_likelihood(linear.latent(x), y)
    np.testing.assert_allclose(head.expected_log_likelihood(head.latent(x), y), terms, atol=1e-7)


def test_a_softmax_of_two_classes_takes_over_one_logit():
    """Two latent functions, half of the logit either way, tell them apart as it does."""
    head = SVGPHead(likelihood="softmax", kernel_variance=1e-12, num_inducing=4, dtype="float64")
    linear = LinearHead(dtype="float64")
    for one in (head, linear):
        one.build((None, FEATURES))
    linear.bias.assign(0.7)
    head.linear_mean.start_from(linear.kernel.numpy(), linear.bias.numpy())
    x = tf.constant(points())
    np.testing.assert_allclose(head(x)["probability"][:, 1], linear(x)["probability"], atol=1e-8)


@pytest.mark.parametrize("shape", [(FEATURES, 2), (FEATURES,), (FEATURES + 1, 3)])
def test_a_layer_of_another_shape_is_refused(shape):
    mean = LinearMean(num_features=FEATURES, num_latents=3)
    with pytest.raises(ValueError, match="shape"):
        mean.start_from(np.zeros(shape), np.zeros(3))


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("name", LINEAR_LIMIT)
def test_without_a_gp_regression_is_linear(name):
    head_class, own = HEADS[name]
    size = {} if name == "vmgp" else {"kernel_variance": 1e-12}
    head = head_class(**own, **size, likelihood="gaussian", dtype="float64")
    head.build((None, FEATURES))
    head.initialize(points(40))
    vanish(head)
    randomize_mean(head.linear_mean, np.random.default_rng(0))
    x = points()
    outputs = head(tf.constant(x))
    np.testing.assert_allclose(outputs["mean"], mean_twin(head.linear_mean, x)[:, 0], atol=1e-8)
    noise = outputs["variance"] - outputs["latent_variance"]
    np.testing.assert_allclose(outputs["latent_variance"], 0.0, atol=1e-6)
    np.testing.assert_allclose(noise, head.likelihood.noise_variance.numpy()[0], rtol=1e-6)


@pytest.mark.sweep("slow")
@every_head_and({"num_classes": 3}, {"likelihood": "gaussian"})
def test_without_slope_and_offset_it_is_the_head_without_a_mean_to_the_bit(name, likelihood):
    head = make(name, **likelihood)
    head.linear_mean.scale.assign(0.0)
    head.linear_mean.offset.assign(np.zeros(head.linear_mean.offset.shape))
    twin = without_mean(head)
    assert twin.linear_mean is None
    x, y = tf.constant(points()), labels_for(head)
    nothing = np.zeros([12, head.likelihood.num_latents])
    for ours, theirs in (
        (head.latent(x), twin.latent(x)),
        (head.training_latent(x), twin.training_latent(x)),
        (head.folded_latent(head.fold(), x), twin.folded_latent(twin.fold(), x)),
        (head.for_inference()(x), twin.for_inference()(x)),
    ):
        assert_same_but_for_the_mean(ours, theirs, nothing, atol=0.0)
        for key, value in fields(ours).items():
            np.testing.assert_array_equal(value, fields(theirs)[key], err_msg=key)
    for key, value in head(x).items():
        np.testing.assert_array_equal(value, twin(x)[key], err_msg=key)
    np.testing.assert_array_equal(head.prior_kl(), twin.prior_kl())
    np.testing.assert_array_equal(head.penalty(), twin.penalty())
    terms = [one.training_terms(one.training_latent(x), x, y) for one in (head, twin)]
    np.testing.assert_array_equal(*terms)


# The latent functions


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("likelihood", [{}, {"num_classes": 3}], ids=str)
@every_head
def test_it_shifts_every_mean_by_the_twins_and_nothing_else(name, likelihood):
    head = make(name, **likelihood)
    twin, x = without_mean(head), tf.constant(points())
    mean = mean_twin(head.linear_mean, points())
    assert np.abs(mean).min(axis=0).max() > 1e-3
    assert_same_but_for_the_mean(head.latent(x), twin.latent(x), mean)
    assert_same_but_for_the_mean(head.training_latent(x), twin.training_latent(x), mean)
    assert_same_but_for_the_mean(head.folded_latent(head.fold(), x), twin.folded_latent(twin.fold(), x), mean)
    assert_same_but_for_the_mean(head.for_inference()(x), twin.for_inference()(x), mean)
    np.testing.assert_array_equal(head.prior_kl(), twin.prior_kl())


@pytest.mark.sweep("slow")
@every_head
def test_folded_for_inference_it_is_constant(name):
    head, x = make(name), tf.constant(points())
    folded = head.for_inference()
    before = folded(x).mean.numpy()
    randomize_mean(head.linear_mean, np.random.default_rng(9))
    assert np.abs(head.latent(x).mean - before).min() > 0.0
    np.testing.assert_array_equal(folded(x).mean, before)


@pytest.mark.sweep("slow")
@every_head
def test_regression_is_that_of_what_the_mean_leaves(name):
    """log N(y | m + g, σ²) = log N(y - m | g, σ²): training, also by responsibilities, and prediction."""
    head = make(name, likelihood="gaussian")
    twin, x, y = without_mean(head), tf.constant(points()), labels_for(head)
    rest = y - mean_twin(head.linear_mean, points())[:, 0]
    ours = head.training_terms(head.training_latent(x), x, y)
    theirs = twin.training_terms(twin.training_latent(x), x, rest)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    ours = head.log_predictive_density(head.latent(x), y)
    theirs = twin.log_predictive_density(twin.latent(x), rest)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_logits_of_the_points_stand_for_the_layers_own():
    head = make("hgp", num_classes=3)
    x = tf.constant(points())
    expert = head.assign(x)
    own = Points(x, labels_for(head), tf.ones(12, tf.float64), expert)
    logits = np.random.default_rng(5).normal(size=(12, 3))
    given = own._replace(logits=tf.constant(logits))
    scale, offset = head.linear_mean.scale.numpy(), head.linear_mean.offset.numpy()
    np.testing.assert_allclose(head.mean_at(own).mean, mean_twin(head.linear_mean, points()), rtol=1e-12)
    np.testing.assert_allclose(head.mean_at(given).mean, scale * logits + offset, rtol=1e-12)
    same = own._replace(logits=head.linear_mean.logits(x))
    for key, value in fields(head.latent_at(own)).items():
        np.testing.assert_array_equal(value, fields(head.latent(x))[key])
        np.testing.assert_allclose(fields(head.latent_at(same))[key], value, rtol=1e-12)
    assert_same_but_for_the_mean(head.latent_at(given), without_mean(head).latent(x), scale * logits + offset)


# What is saved


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "svgp",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("hgp", "vmgp", "autogp of two components", "dfgp", "deep_gp")
        ),
    ],
)
def test_saved_and_exported_it_predicts_alike(name, tmp_path):
    head = make(name, num_classes=3, dtype="float32")
    model = HybridModel(keras.layers.Identity(), head, num_data=10)
    model.build((None, FEATURES))
    x = tf.constant(points(), tf.float32)
    expected = model(x)
    assert np.abs(expected["latent_mean"]).max() > 0.5
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.head.mean == "linear"
    for ours, theirs in zip(loaded.head.weights, head.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    model.export(str(tmp_path / "exported"))
    served = tf.saved_model.load(str(tmp_path / "exported"))
    for key, value in expected.items():
        np.testing.assert_array_equal(loaded(x)[key], value, err_msg=key)
        np.testing.assert_allclose(served.serve(x)[key], value, rtol=1e-4, atol=1e-5, err_msg=key)


@every_head
def test_a_head_that_was_saved_before_there_were_means_has_none(name):
    """Its weights are then those of the file, and its kernels start where it says."""
    head_class, own = HEADS[name]
    config = head_class(**own).get_config()
    assert config.pop("mean") == "linear"
    head = head_class.from_config(config)
    assert head.mean == "none"
    head.build((None, FEATURES))
    assert head.linear_mean is None
    assert not [weight.name for weight in head.weights if weight.name.startswith("linear")]
    again = head_class.from_config({**config, "mean": "linear"})
    again.build((None, FEATURES))
    assert len(again.weights) == len(head.weights) + 4


# What is chosen


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("name", ["svgp", "hgp", "hgp without experts", "vmgp", "autogp", "deep_gp"])
def test_a_kernel_starts_small_beside_it_unless_it_is_told(name):
    head_class, own = HEADS[name]

    def start(**settings: Any) -> float:
        head = head_class(**own, **settings)
        head.build((None, FEATURES))
        units = {"autogp": "unit", "vmgp": "experts"}.get(name, "global_unit")
        last = head.stack[-1].units if name == "deep_gp" else getattr(head, units)
        return float(np.unique(last.variance.numpy()).item())

    assert start() == pytest.approx(START_VARIANCE)
    assert start(likelihood="gaussian") == pytest.approx(START_VARIANCE_OF_TARGETS)
    assert start(mean="none") == pytest.approx(1.0)
    if name != "vmgp":
        assert start(kernel_variance=3.0) == start(kernel_variance=3.0, mean="none") == pytest.approx(3.0)


def test_experts_of_an_hgp_start_small_beside_it_too():
    for mean, expected in (("linear", START_VARIANCE), ("none", 1.0)):
        head = HGPHead(num_experts=2, num_inducing=4, kernel_variance=5.0, mean=mean)
        head.build((None, FEATURES))
        np.testing.assert_allclose(head.experts.variance, expected, rtol=1e-6)


@every_head
def test_another_word_is_refused(name):
    head_class, own = HEADS[name]
    message = rf"mean of {head_class.__name__} must be one of \('linear', 'none'\), but is 'constant'"
    with pytest.raises(ValueError, match=message):
        head_class(**own, mean="constant")


@pytest.mark.parametrize("word", ["linear", "constant"])
def test_a_head_that_mixes_its_functions_has_none(word):
    with pytest.raises(ValueError, match=rf"SVDKLHead must be one of \('none',\), but is '{word}'"):
        SVDKLHead(mean=word)
    for head in (SVDKLHead(num_inducing=3), SVDKLHead(num_inducing=3, mean="none")):
        head.build((None, FEATURES))
        assert head.mean == head.get_config()["mean"] == "none"
        assert head.linear_mean is None


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("name", ["svgp", "hgp", "dfgp", "deep_gp"])
def test_two_new_heads_differ_in_what_is_drawn_and_are_not_placed_by_it(name):
    head_class, own = HEADS[name]
    heads = [head_class(**own) for _ in range(2)]
    for head in heads:
        head.build((None, FEATURES))
    first, second = (head.linear_mean.kernel.numpy() for head in heads)
    assert np.any(first != second)
    assert not heads[0].is_placed()
    heads[0].linear_mean.offset.assign(np.ones(heads[0].linear_mean.offset.shape))
    assert heads[0].is_placed()
