"""What deep heads must do besides the contract of all heads."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.gpmodels.layer_contract import LayerContract, random_features


def operation_kinds(graph: tf.Graph) -> set[str]:
    """Kinds of all operations of a graph, those of the functions that it calls included."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for call in definition.library.function for node in call.node_def)]
    return {node.op for node in nodes}


class LayeredContract(LayerContract):
    """Tests of one deep head."""

    @classmethod
    def lengthscale_shapes(cls, head):
        widths = [4, *head.inner_widths]
        return [(1, width) for width in widths]

    def test_outputs_are_consistent_with_each_other(self, model):
        """As of all heads, but that the mean of f does not decide between classes: the probability does."""
        if not model.head.is_classifier:
            super().test_outputs_are_consistent_with_each_other(model)
            return
        outputs = {name: value.numpy() for name, value in model.head(3 * random_features(200)).items()}
        probability = outputs["probability"]
        if probability.ndim == 1:
            np.testing.assert_array_equal(outputs["label"], probability > 0.5)
        else:
            np.testing.assert_array_equal(outputs["label"], probability.argmax(axis=-1))
        assert np.ptp(probability, axis=0).max() > 1e-3
        assert np.all(outputs["mutual_information"] >= 0.0)
        assert np.all(outputs["mutual_information"] <= outputs["predictive_entropy"] + 1e-6)

    @pytest.mark.skip("Each replica draws noise for its own points, so that two step unlike one.")
    def test_two_replicas_step_like_one_device(self):
        pass

    def test_equal_calls_give_equal_outputs(self, model):
        x = random_features(20)
        for name, value in model.head(x).items():
            np.testing.assert_array_equal(model.head(x)[name], value)

    def test_training_draws_anew_in_each_step_and_the_same_in_an_equal_step(self, model):
        head, x = model.head, random_features(20)
        first, again = head.training_latent(x), head.training_latent(x)
        np.testing.assert_array_equal(again.mean, first.mean)
        step = int(head.steps)
        head.count_step()
        assert np.any(head.training_latent(x).mean != first.mean)
        head.steps.assign(step)
        np.testing.assert_array_equal(head.training_latent(x).mean, first.mean)

    @pytest.mark.slow
    @pytest.mark.once_a_family
    def test_exported_graph_draws_nothing(self, model, tmp_path):
        latent = model.head.for_inference()
        module = tf.Module()
        module.model = model  # the likelihood's noise stays a variable
        module.serve = tf.function(
            lambda x: model.head.predict_with(latent, x), input_signature=[tf.TensorSpec([None, 4])]
        )
        tf.saved_model.save(module, str(tmp_path / "bundle"))
        served = tf.saved_model.load(str(tmp_path / "bundle"))
        kinds = operation_kinds(served.serve.concrete_functions[0].graph)
        assert {"MatMul", "BatchMatMulV2"} & kinds
        assert not any("Random" in kind or "Cholesky" in kind for kind in kinds)
        x = random_features(9)
        for name, value in model.head(x).items():
            np.testing.assert_allclose(served.serve(x)[name], value, rtol=2e-4, atol=2e-5, err_msg=name)
