"""Training that stops being finite is explained, and experts without points are dropped, after an epoch."""

import math
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpmodels import HybridModel
from gpmodels.hybrid.checks import assert_inputs_finite
from gpmodels.units.numerics import inverse_cholesky
from pipelines.errors import TrainingDiverged
from pipelines.training.divergence import expert_names, require_finite, step_errors
from pipelines.training.stages import BEST, StageSettings, StageState, load_checkpoint, train_stage
from tests.pipelines.tiny_stage import PER_BATCH, X, Y, batches, make_model, stage_data, train_first_epoch

# Divergence -------------------------------------------------------------------------------------------------


def spoil(model: HybridModel, name: str, index: tuple[int, ...]) -> str:
    """Put NaN into a weight; return its path."""
    (weight,) = [weight for weight in model.weights if weight.path.endswith(name)]
    value = np.array(weight.numpy())
    value[index] = np.nan
    weight.assign(value)
    return weight.path


@pytest.fixture(scope="module")
def _diverging(tmp_path_factory: pytest.TempPathFactory) -> tuple[HybridModel, Path]:
    """A model after a good epoch, to be spoilt; its training function stays compiled."""
    model, folder = make_model("hgp"), tmp_path_factory.mktemp("diverging")
    train_first_epoch(model, StageSettings(2, 0.05), folder)
    return model, folder


@pytest.fixture
def diverging(_diverging, monkeypatch) -> tuple[HybridModel, Path]:
    model, folder = _diverging
    load_checkpoint(model, folder / BEST)
    monkeypatch.setattr(model, "compile", lambda **_: None)
    return model, folder


def good_checkpoint_loads(folder: Path) -> None:
    state = StageState.load(folder)
    assert state.epochs_done == 1
    model = make_model("hgp")
    load_checkpoint(model, folder / state.weights)
    assert all(np.isfinite(np.asarray(weight)).all() for weight in model.weights)
    assert np.isfinite(model(X)["probability"]).all()


def continue_training(model: HybridModel, folder: Path, spoilt: Callable[[], object], **data: object) -> str:
    """Train one more epoch with something spoilt after the checkpoint was loaded; return the message."""

    def spoiling_batches(epoch: int) -> tf.data.Dataset:
        spoilt()
        return data.get("batches", batches)(epoch)

    changed = stage_data(**{**data, "batches": spoiling_batches})
    settings = StageSettings(2, 0.05, learning_rate_setting="head_epoch_learning_rate")
    with pytest.raises(TrainingDiverged) as caught:
        train_stage(model, settings, changed, folder=folder, resume=True)
    message = str(caught.value)
    assert message.startswith("Training stopped in epoch 2")
    assert f"kept in {folder}" in message
    assert message.endswith(
        "Start again with --resume and a learning rate below 0.05: --set head_epoch_learning_rate=..."
    )
    good_checkpoint_loads(folder)
    return message


@pytest.mark.slow
def test_nan_in_an_experts_weight_names_the_expert(diverging):
    model, folder = diverging
    message = continue_training(model, folder, lambda: spoil(model, "experts_q_mean", (1, 0)))
    assert "step 1: the loss is nan. The KL divergence of expert_2 in hgp is not finite." in message


@pytest.mark.slow
def test_nan_in_the_network_names_the_weight(diverging):
    model, folder = diverging
    message = continue_training(model, folder, lambda: spoil(model, "normalisation/gamma", (0,)))
    assert "normalisation/gamma is not finite" in message


def bad_images(_: int) -> tf.data.Dataset:
    images = X.copy()
    images[3, 1, 1, 1] = np.nan
    return tf.data.Dataset.from_tensor_slices((images, Y)).batch(PER_BATCH)


@pytest.mark.slow
def test_nan_in_the_images_blames_the_images(diverging):
    """The gradients of a NaN loss must not reach the weights, and no learning rate is blamed."""
    model, folder = diverging
    data, settings = stage_data(batches=bad_images), StageSettings(2, 0.05)
    with pytest.raises(TrainingDiverged, match="in epoch 2: the inputs hold NaN or infinity") as caught:
        train_stage(model, settings, data, folder=folder, resume=True)
    assert "--resume" not in str(caught.value)
    good_checkpoint_loads(folder)


@pytest.mark.slow
def test_label_weights_whose_sum_overflows_leave_the_weights_alone(diverging):
    """All that is finite is said to be, so that the data are looked at."""
    model, folder = diverging
    weights = np.ones(Y.shape, np.float32)
    weights[3] = np.finfo(np.float32).max

    def batches_with(_: int) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((X, Y, weights)).batch(PER_BATCH)

    message = continue_training(model, folder, lambda: None, batches=batches_with)
    assert "step 2: the loss is nan. All weights are finite: the images or labels hold the cause" in message


@pytest.mark.slow
def test_a_failed_factorisation_names_the_unit(diverging):
    model, folder = diverging
    message = continue_training(model, folder, lambda: spoil(model, "experts_inducing_inputs", (0, 1, 1)))
    assert "in epoch 2: the inducing covariance of expert_1 of hgp could not be factorised" in message
    assert "experts_inducing_inputs of expert_1 is not finite." in message
    assert "File" not in message


@pytest.mark.slow
def test_nan_on_the_selection_data_stops_before_the_checkpoint(diverging):
    model, folder = diverging
    bad = tf.data.Dataset.from_tensor_slices((X, Y, np.full(Y.shape, 3e38, np.float32))).batch(PER_BATCH)
    message = continue_training(model, folder, lambda: None, selection=bad)
    assert "selection_loss is nan" in message


@pytest.mark.slow
def test_nan_that_the_loss_does_not_see_stops_too(diverging):
    """The encoder-decoder turns NaN into 0: the loss stays finite, the weight does not."""
    model, folder = diverging
    after_the_loss = partial(spoil, model, "convolution/kernel", (0, 0, 0, 0))

    class AtTheEnd(keras.callbacks.Callback):
        def on_train_end(self, logs: object = None) -> None:  # noqa: ARG002 - Keras calls it so
            after_the_loss()

    with pytest.raises(TrainingDiverged, match=r"epoch 2: .*convolution/kernel is not finite\."):
        train_stage(
            model, StageSettings(2, 0.05), stage_data(), folder=folder, resume=True, callbacks=[AtTheEnd()]
        )
    good_checkpoint_loads(folder)


def test_a_moving_average_is_blamed_only_if_no_trained_weight_is_at_fault():
    model = make_model()
    require_finite(model, {"loss": 1.0}, "here", "")
    spoil(model, "normalisation/moving_mean", (0,))
    with pytest.raises(TrainingDiverged, match=r"moving_mean is not finite\. .* look at the images\."):
        require_finite(model, {}, "here", "")
    spoil(model, "linear/bias", ())
    with pytest.raises(TrainingDiverged, match=r"linear/bias is not finite\. Do this\."):
        require_finite(model, {}, "here", "Do this.")
    with pytest.raises(TrainingDiverged, match=r"stopped here: loss is inf\. "):
        require_finite(make_model(), {"loss": math.inf}, "here", "")


@pytest.mark.slow
def test_undefined_scores_are_left_out(diverging):
    model, folder = diverging
    copy = folder.parent / "scores" / folder.name
    shutil.copytree(folder, copy)
    data = stage_data(scores=lambda _: {"f_measure": 0.5, "ece": math.nan})
    state = train_stage(model, StageSettings(2, 0.05), data, folder=copy, resume=True)
    assert state.history[-1]["selection_f_measure"] == 0.5
    assert "selection_ece" not in state.history[-1]
    assert StageState.load(copy) == state


def test_a_factorisation_that_fails_with_finite_weights_is_explained():
    model = make_model("hgp")
    indefinite = -1e6 * tf.eye(3, batch_shape=[2])
    with pytest.raises(TrainingDiverged) as caught, step_errors(model, "here", "Do this."):
        inverse_cholesky(indefinite, jitter=1e-5, unit="experts of hgp")
    assert str(caught.value) == (
        "Training stopped here: the inducing covariance of expert_1, expert_2 of hgp could not be "
        "factorised, even with 10 added to its diagonal. Do this."
    )


def test_other_errors_of_tensorflow_are_not_taken_for_divergence():
    error = tf.errors.InvalidArgumentError(None, None, "Labels must be 0 or 1")
    with pytest.raises(tf.errors.InvalidArgumentError), step_errors(make_model(), "", ""):
        raise error


def test_an_error_that_only_reads_like_bad_inputs_is_left_as_it_is():
    with pytest.raises(ValueError, match=r"^My own layer"), step_errors(make_model(), "", ""):
        raise ValueError("My own layer: The inputs hold NaN or infinity")


def test_bad_inputs_of_a_step_in_a_graph_of_its_own_are_explained():
    """As replicas do it: no function of Keras stands between."""
    step = tf.function(lambda inputs: assert_inputs_finite(inputs, tf.constant(False)))
    with (
        pytest.raises(TrainingDiverged, match=r"^Training stopped here: the inputs hold NaN or infinity"),
        step_errors(make_model(), "here", ""),
    ):
        step(tf.constant([[math.nan]]))


# Experts ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_experts_without_a_point_are_dropped_after_the_epoch(diverging, caplog):
    model, folder = diverging
    copy = folder.parent / "dropped" / folder.name
    shutil.copytree(folder, copy)

    def far_away() -> None:
        (inducing,) = [w for w in model.weights if w.path.endswith("experts_inducing_inputs")]
        value = np.array(inducing)
        value[0] += 1e4
        inducing.assign(value)

    def spoiling_batches(epoch: int) -> tf.data.Dataset:
        far_away()
        return batches(epoch)

    seen = []
    caplog.set_level("INFO")
    state = train_stage(
        model,
        StageSettings(2, 0.05),
        stage_data(batches=spoiling_batches),
        folder=copy,
        resume=True,
        hooks=[lambda report: seen.append(report.model.head.active_experts.tolist())],
    )
    assert seen == [[1]]
    assert "Dropped expert_1: no training point chooses it" in caplog.text
    other = make_model("hgp")
    load_checkpoint(other, copy / state.weights)
    assert other.head.active_experts.tolist() == [1]


@pytest.mark.slow
def test_an_expert_that_only_the_epochs_sample_left_out_stays(diverging):
    """Augmentation and sampling leave experts without a point that the data as it is would use."""
    model, folder = diverging
    copy = folder.parent / "kept" / folder.name
    shutil.copytree(folder, copy)
    assert model.head.active_experts.tolist() == [0, 1]
    few = tf.data.Dataset.from_tensor_slices((X[:1, :1, :1], Y[:1, :1, :1])).batch(1)
    train_stage(model, StageSettings(2, 1e-6), stage_data(batches=lambda _: few), folder=copy, resume=True)
    assert 0.0 in model.head.expert_occupancy().values()
    assert model.head.active_experts.tolist() == [0, 1]


def test_names_of_experts_count_from_one():
    assert expert_names([0, 2]) == "expert_1, expert_3"
