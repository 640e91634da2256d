"""What every head must do, whatever its mathematics: subclass `LayerContract` in its test file."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.testing.test_case import TestCase
from scipy import special

from gpmodels import HybridModel
from gpmodels.heads.base import Head
from gpmodels.heads.gp import GPHead
from tests.gpmodels.isolated_checks import check_replicas, check_resume

OUTPUTS = {
    "probability",
    "label",
    "latent_mean",
    "latent_variance",
    "predictive_entropy",
    "mutual_information",
}
REGRESSION_OUTPUTS = {"mean", "variance", "latent_variance"}
FOR_EACH_CLASS = {"probability", "latent_mean", "latent_variance"}
"""Outputs that have an axis of classes where there are more than two."""

NUM_FEATURES = 4


class LayerContract:
    """Tests of one head.

    Attributes:
        head_class: The head's class.
        settings: Its arguments.
        trainable_values: Number of trainable values the head has for `NUM_FEATURES` features without a linear
            mean.
        outputs: Names of its outputs.
        is_variant: Whether the long checks are left to another head: one of its family, or the one that
            trains it. This one has what trains a model or traces graphs (`traces`) in the slow tests, and
            what takes longer (`once_a_family`) in the exhaustive ones.
        has_long_checks: Whether the slow tests have the checks that take seconds (`long`): true of a plain
            head, and of those that count steps or routes while they train. All others train by the same code
            and have these checks in the exhaustive tests.
        is_own_head: Of a variant, whether it is a class of heads of its own, which is trained and called in
            the fast tests too.
    """

    head_class: ClassVar[type[Head]]
    settings: ClassVar[dict[str, Any]]
    trainable_values: ClassVar[int]
    outputs: ClassVar[set[str]] = OUTPUTS
    is_variant: ClassVar[bool] = False
    is_own_head: ClassVar[bool] = False
    has_long_checks: ClassVar[bool] = False

    @classmethod
    def output_shape(cls, name: str, leading: tuple[int | None, ...]) -> tuple[int | None, ...]:
        classes = cls.settings.get("num_classes", 2)
        return (*leading, classes) if classes > 2 and name in FOR_EACH_CLASS else leading

    @classmethod
    def make_head(cls, **overrides: Any) -> Head:
        return cls.head_class(**(cls.settings | overrides))

    @classmethod
    def without_mean(cls) -> dict[str, str]:
        """The argument by which the latent functions have mean zero, where there is a choice."""
        return {"mean": "none"} if issubclass(cls.head_class, GPHead) else {}

    @classmethod
    def lengthscale_shapes(cls, head: Head) -> list[tuple[int, ...]]:
        """Of each unit: its kernels and the features that they see."""
        num_kernels = cls.settings["num_classes"] if cls.settings.get("class_kernels") == "separate" else 1
        return [(num_kernels, NUM_FEATURES)] * len(head.unit_names)

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls) -> HybridModel:
        """The head on a small network, a few training steps away from where it starts."""
        keras.utils.set_random_seed(3)
        return trained_model(cls.make_head())

    def test_number_of_trainable_values(self):
        assert num_trainable_values(self.make_head(**self.without_mean())) == self.trainable_values

    def test_linear_mean_has_one_vector_for_each_latent_function_and_its_correction(self):
        """W, a and c are trained, b is not."""
        if not (issubclass(self.head_class, GPHead) and self.head_class.supports_mean):
            assert self.make_head().get_config().get("mean", "none") == "none"
            return
        head = self.make_head()
        num_latents = head.likelihood.num_latents
        expected = self.trainable_values + (NUM_FEATURES + 1) * num_latents + 1
        assert num_trainable_values(head) == expected

    @pytest.mark.traces
    def test_training_step_moves_every_weight(self, model):
        before = [weight.numpy() for weight in model.trainable_weights]
        model.train_step(labelled_points(model.head))
        for weight, old in zip(model.trainable_weights, before, strict=True):
            assert np.isfinite(weight.numpy()).all(), weight.path
            assert np.any(weight.numpy() != old), f"{weight.path} did not move"

    @pytest.mark.slow
    @pytest.mark.long
    @pytest.mark.parametrize("first_call", ["fit", "evaluate"])
    def test_model_nobody_has_built_builds_itself(self, first_call):
        head = self.make_head()
        x, y = (values.numpy() for values in labelled_points(head))
        model = HybridModel(keras.layers.Dense(NUM_FEATURES), head, num_data=len(x))
        model.compile(optimizer="adam")
        getattr(model, first_call)(x, y, verbose=0)
        assert model.get_build_config() == {"input_shape": (None, NUM_FEATURES)}
        assert set(model.predict(x, verbose=0)) == self.outputs

    def test_starts_at_the_prior_with_one_divergence_for_each_unit(self):
        head = self.make_head()
        head.build((None, NUM_FEATURES))
        np.testing.assert_array_equal(head.prior_kl(), np.zeros(len(head.unit_names)))
        assert len(set(head.unit_names)) == len(head.unit_names)
        assert [values.shape for values in head.lengthscales()] == self.lengthscale_shapes(head)

    def test_what_is_folded_once_has_the_marginals_of_the_head(self, model):
        if not isinstance(model.head, GPHead):
            pytest.skip("only heads of Gaussian processes, which estimators predict by, have `fold`")
        features = random_features(7)
        folded = model.head.folded_latent(model.head.fold(), features)
        expected = model.head.latent(features)
        np.testing.assert_allclose(folded.mean, expected.mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(folded.variance, expected.variance, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("leading", [(1,), (7,), (2, 5), (2, 3, 4), (0,)], ids=str)
    def test_outputs_have_the_features_leading_shape(self, model, leading):
        outputs = model.head(random_features(*leading))
        assert set(outputs) == self.outputs
        for name, value in outputs.items():
            assert value.shape == self.output_shape(name, leading)
            assert value.dtype == ("int32" if name == "label" else "float32"), name
            assert np.isfinite(value).all(), name

    def test_outputs_are_consistent_with_each_other(self, model):
        outputs = {name: value.numpy() for name, value in model.head(3 * random_features(200)).items()}
        assert np.all(outputs["latent_variance"] >= 0.0)
        if self.outputs == REGRESSION_OUTPUTS:
            assert np.all(outputs["variance"] > outputs["latent_variance"])  # the noise
            assert np.ptp(outputs["mean"]) > 0.0
            return
        probability = outputs["probability"]
        assert np.all((probability >= 0.0) & (probability <= 1.0))
        if self.settings.get("num_classes", 2) == 2:
            np.testing.assert_array_equal(outputs["label"], probability > 0.5)
            np.testing.assert_array_equal(outputs["label"], outputs["latent_mean"] > 0.0)
            probability = np.stack([1 - probability.astype("float64"), probability], axis=-1)
        np.testing.assert_array_equal(outputs["label"], probability.argmax(axis=-1))
        np.testing.assert_allclose(probability.sum(axis=-1), 1.0, atol=1e-5)
        assert np.ptp(probability, axis=0).max() > 1e-3
        assert np.all(outputs["mutual_information"] >= 0.0)
        assert np.all(outputs["mutual_information"] <= outputs["predictive_entropy"] + 1e-6)
        entropy = special.entr(probability.astype("float64")).sum(axis=-1)
        np.testing.assert_allclose(outputs["predictive_entropy"], entropy, atol=1e-5)

    def test_prediction_of_a_point_does_not_depend_on_its_batch(self, model):
        features = random_features(60)
        together = model.head(features)
        for start, stop in ((0, 1), (1, 8), (8, 60)):
            alone = model.head(features[start:stop])
            for name in self.outputs:
                np.testing.assert_allclose(together[name][start:stop], alone[name], rtol=1e-4, atol=1e-5)

    @pytest.mark.traces
    @pytest.mark.once_a_family
    def test_symbolic_call_keeps_unknown_sizes(self):
        outputs = self.make_head()(keras.Input((None, None, NUM_FEATURES)))
        for name, value in outputs.items():
            assert value.shape == self.output_shape(name, (None, None, None))

    def test_unknown_number_of_features_is_an_error(self):
        with pytest.raises(ValueError, match="number of features must be known"):
            self.make_head().build((None, None))

    @pytest.mark.traces
    @pytest.mark.once_a_family
    def test_eager_equals_graph(self, model):
        inputs = random_features(2, 9)
        traced = tf.function(model, input_signature=[tf.TensorSpec([None, None, NUM_FEATURES])])
        assert_same_outputs(traced(inputs), model(inputs))

    def test_folded_for_inference_equals_training_marginals(self, model):
        features = random_features(50)
        ours, folded = model.head.latent(features), model.head.for_inference()(features)
        if getattr(model.head, "expert_variance", "full") == "thesis":
            # The part of the global variance that the experts' includes, a_0ᵀS_0a_0.
            shared = model.head.global_unit.marginal(model.head.global_unit.fold(), features[None])
            ours = dataclasses.replace(ours, global_variance=shared.inducing_variance[0])
        assert type(folded) is type(ours)
        for name in {"mean", "variance", "global_mean", "global_variance"} & set(vars(ours)):
            np.testing.assert_allclose(getattr(folded, name), getattr(ours, name), rtol=1e-5, atol=1e-6)

    def test_config_makes_an_equal_model(self, model):
        copy = HybridModel.from_config(model.get_config())
        assert copy.get_config() == model.get_config()
        assert copy.head.get_config() == model.head.get_config()
        copy.build((None, NUM_FEATURES))
        assert [weight.name for weight in copy.weights] == [weight.name for weight in model.weights]

    def test_config_names_every_setting(self):
        config = self.make_head(name="a_head").get_config()
        assert config["name"] == "a_head"
        arguments = {name for cls in self.head_class.__mro__ for name in keyword_arguments(cls)} - {"dtype"}
        assert arguments <= set(config)
        assert {name: config[name] for name in self.settings} == self.settings

    @pytest.mark.traces
    @pytest.mark.once_a_family
    def test_weights_file_round_trip(self, model, tmp_path):
        model.save_weights(tmp_path / "model.weights.h5")
        copy = HybridModel.from_config(model.get_config())
        copy.build((None, NUM_FEATURES))
        copy.load_weights(tmp_path / "model.weights.h5")
        assert_same_outputs(copy(random_features(9)), model(random_features(9)), exactly=True)

    @pytest.mark.traces
    @pytest.mark.once_a_family
    def test_keras_file_round_trip_with_optimiser(self, model, tmp_path):
        model.save(tmp_path / "model.keras")
        copy = keras.models.load_model(tmp_path / "model.keras")
        assert_same_outputs(copy(random_features(9)), model(random_features(9)), exactly=True)
        assert len(copy.optimizer.variables) > 2
        for ours, theirs in zip(copy.optimizer.variables, model.optimizer.variables, strict=True):
            np.testing.assert_array_equal(ours, theirs)

    @pytest.mark.traces
    def test_exported_model_predicts_alike_for_any_batch(self, model, tmp_path):
        model.export(str(tmp_path / "exported"))
        served = tf.saved_model.load(str(tmp_path / "exported"))
        for size in (1, 33):
            inputs = random_features(size)
            assert_same_outputs(served.serve(inputs), model(inputs))
            assert_same_outputs(served.signatures["serving_default"](inputs), model(inputs))

    @pytest.mark.slow
    @pytest.mark.once_a_family
    def test_half_precision_stays_outside_the_head(self):
        keras.config.set_dtype_policy("mixed_float16")
        try:
            # Serialised without a dtype of its own, as a user would write it.
            model = trained_model(self.make_head(), optimizer=keras.optimizers.Adam(1e-3))
            outputs = model(random_features(9))
            assert model.network.compute_dtype == "float16"
            assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
        finally:
            keras.config.set_dtype_policy("float32")
        assert model.head.compute_dtype == "float32"
        assert {weight.dtype for weight in model.head.trainable_weights} == {"float32"}
        for name, value in outputs.items():
            assert value.dtype == ("int32" if name == "label" else "float32")
            assert np.isfinite(value).all()

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_half_precision_head_is_refused(self, dtype):
        with pytest.raises(ValueError, match="float32 or float64"):
            self.make_head(dtype=dtype)

    @pytest.mark.slow
    @pytest.mark.once_a_family
    def test_double_precision_head(self):
        model = trained_model(self.make_head(dtype="float64"))
        assert {weight.dtype for weight in model.head.trainable_weights} == {"float64"}
        outputs = model(random_features(9))
        assert all(
            value.dtype == ("int32" if name == "label" else "float64") for name, value in outputs.items()
        )

    @pytest.mark.traces
    def test_same_seed_initialises_alike(self):
        heads = [self.make_head(name="head") for _ in range(2)]
        keras.utils.set_random_seed(1)
        for head in heads:
            keras.utils.set_random_seed(1)
            head.build((None, NUM_FEATURES))
            head.initialize(np.asarray(random_features(100)), seed=5)
        for first, second in zip(heads[0].weights, heads[1].weights, strict=True):
            np.testing.assert_array_equal(first, second)

    @pytest.mark.slow
    @pytest.mark.once_a_family
    def test_keras_own_layer_test(self):
        case = TestCase()
        case.setUp()
        try:
            case.run_layer_test(
                self.head_class,
                init_kwargs=self.settings,
                input_shape=(2, 3, NUM_FEATURES),
                expected_output_shape={name: self.output_shape(name, (2, 3)) for name in self.outputs},
                expected_output_dtype={
                    name: "int32" if name == "label" else "float32" for name in self.outputs
                },
                expected_num_losses=0,
                expected_num_seed_generators=0,
                # Keras sums the outputs as a loss, which takes one tensor; `HybridModel` has its own.
                run_training_check=False,
            )
        finally:
            keras.config.enable_traceback_filtering()

    @pytest.mark.slow
    @pytest.mark.long
    def test_resumed_training_repeats_uninterrupted_training_bit_by_bit(self, isolated):
        result = isolated(check_resume, keras.saving.serialize_keras_object(self.make_head()))
        assert result["resumed_equals_uninterrupted"] == dict.fromkeys(
            result["resumed_equals_uninterrupted"], True
        )
        assert result["interrupted_differs"]

    @pytest.mark.slow
    @pytest.mark.long
    def test_two_replicas_step_like_one_device(self, isolated):
        result = isolated(check_replicas, keras.saving.serialize_keras_object(self.make_head()))
        assert result["num_replicas"] == 2
        assert result["moved"] > 1e-4
        assert result["largest_difference"] < 1e-5
        assert result["counts_equal"]


def keyword_arguments(cls: type) -> list[str]:
    """Those that a class of ours takes itself."""
    if not cls.__module__.startswith("gpmodels.") or "__init__" not in vars(cls):
        return []
    parameters = inspect.signature(cls.__init__).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]


def num_trainable_values(head: Head) -> int:
    """Build the head for `NUM_FEATURES` features and count what training moves."""
    head.build((None, NUM_FEATURES))
    return sum(int(np.prod(weight.shape)) for weight in head.trainable_weights)


def random_features(*leading: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(8).normal(size=(*leading, NUM_FEATURES)), "float32")


def labelled_points(head: Head | None = None, size: int = 64) -> tuple[tf.Tensor, tf.Tensor]:
    """Features and labels that the head knows: 0 or 1 unless it is given, classes, or real targets."""
    features = random_features(size)
    product = features[:, 0] * features[:, 1]
    if head is not None and not head.is_classifier:
        return features, product
    steps = range(1, getattr(head, "num_classes", 2))
    return features, sum(tf.cast(product > float(step - 1) / 2.0, "float32") for step in steps)


def trained_model(head: Head, optimizer: Any = None) -> HybridModel:
    """The head on a dense layer, initialised and trained for three steps."""
    x, y = labelled_points(head)
    model = HybridModel(keras.layers.Dense(NUM_FEATURES), head, num_data=len(x))
    model.compile(optimizer=optimizer or keras.optimizers.Adam(0.05))
    model.initialize((x, y))
    for _ in range(3):
        model.train_step((x, y))
    return model


def assert_same_outputs(ours: dict[str, Any], theirs: dict[str, Any], *, exactly: bool = False) -> None:
    assert set(ours) == set(theirs)
    assert set(ours) in (OUTPUTS, REGRESSION_OUTPUTS)
    tolerance = 0.0 if exactly else 1e-5
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], rtol=tolerance, atol=tolerance, err_msg=name)
