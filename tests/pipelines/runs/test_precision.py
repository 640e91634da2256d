"""A network in bfloat16: heads, weights and outputs are float32, and features are near those of float32."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipelines.lane.application import LANE
from pipelines.lane.settings import LaneRun, TrainSettings
from pipelines.runs.models import make_model
from pipelines.runs.precision import network_arithmetic

RUN = LaneRun(
    application="lane", size=(32, 32), num_data=2000, batch_norm_momentum=0.9, counts={}, manifest_sha256=""
)


def test_the_former_arithmetic_comes_back_whatever_happens() -> None:
    before = keras.config.dtype_policy()
    with network_arithmetic("bfloat16"):
        assert keras.layers.Dense(1).compute_dtype == "bfloat16"
    with pytest.raises(ValueError, match="-1"), network_arithmetic("bfloat16"):
        keras.layers.Dense(-1)
    assert keras.config.dtype_policy() == before


@pytest.mark.slow
@pytest.mark.parametrize("network", ["C2K3", "segnet_basic", "efficientnet_lite0"])
def test_features_are_nearly_alike_and_all_else_is_float32(network: str) -> None:
    image = np.random.default_rng(0).uniform(0, 255, (1, 32, 32, 3)).astype("float32")
    models = {}
    for precision in ("float32", "bfloat16"):
        settings = TrainSettings(
            network=network, network_precision=precision, num_experts=2, num_inducing=5, heads=("hgp",)
        )
        models[precision] = make_model("hgp", LANE, settings, RUN)
    exact, fast = models["float32"], models["bfloat16"]
    exact.initialize(image, max_points=500)
    fast.set_weights(exact.get_weights())
    assert {weight.dtype for weight in fast.weights} <= {"float32", "int32", "uint32", "bool"}
    ours, theirs = (model.network(tf.constant(image), training=False) for model in (fast, exact))
    assert ours.dtype == tf.bfloat16
    # Untrained, and of noise; rounding also decides which of two like pixels is the largest of its square.
    difference = tf.norm(tf.cast(ours, tf.float32) - theirs) / tf.norm(theirs)
    assert 0.0 < difference < 0.25
    assert fast(image)["probability"].dtype == tf.float32


@pytest.mark.slow
def test_steps_in_bfloat16_lower_the_loss() -> None:
    keras.utils.set_random_seed(0)
    settings = TrainSettings(network="C1K3", network_precision="bfloat16", heads=("linear",))
    model = make_model("linear", LANE, settings, RUN)
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 255, (2, 32, 32, 3)).astype("float32")
    y = (x[..., 0] > 127).astype("float32")
    model.compile(optimizer=keras.optimizers.Adam(0.02))
    losses = model.fit(x, y, epochs=8, batch_size=2, verbose=0).history["loss"]
    assert losses[-1] < 0.8 * losses[0]
