"""Networks for lanes other than the thesis' own, from prepared images to bundles that sample."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_prep.errors import InputError
from pipelines.bundles.saved_model import load_signatures
from pipelines.lane.application import lane_network, num_poolings, start_encoder
from pipelines.runs.models import load_model
from tests.integration.test_sonar import run
from tests.pipelines import tiny_lane

pytestmark = pytest.mark.slow


def changed(**settings: object):
    return tiny_lane.SETTINGS.model_copy(update=settings)


@pytest.mark.parametrize("network", [pytest.param("segnet", marks=pytest.mark.exhaustive), "segnet_basic"])
def test_a_network_with_dropout_goes_the_whole_way(network, tmp_path):
    width = 1 / 16 if network == "segnet" else 1.0
    settings = changed(
        network=network,
        width=width,
        network_dropout=0.5,
        network_samples=3,
        heads=("linear", "hgp"),
        augmentation=None,
    )
    size = (32, 40) if network == "segnet" else tiny_lane.SIZE
    model = tiny_lane.train(tiny_lane.prepare(tmp_path, size=size), tmp_path / "run", settings)
    bundle = tiny_lane.export(model, tmp_path / "bundle")
    assert "is good" in run("verify", bundle)
    said = json.loads((bundle / "metadata.json").read_text())["training_data"]["network"]
    assert said.startswith(network)
    assert said.endswith("dropout 0.5, 3 samples")
    trained = load_model(tiny_lane.job(model), "hgp")
    temperature = tiny_lane.job(model).run.temperature_of("hgp")
    trained.set_temperature(temperature)
    assert trained.network.num_samples == 3
    height, width = tiny_lane.job(model).run.size
    image = np.random.default_rng(0).integers(0, 256, (1, height, width, 3)).astype(np.uint8)
    served = load_signatures(bundle)["serving_default"](images=tf.constant(image))
    again = load_signatures(bundle)["serving_default"](images=tf.constant(image))
    np.testing.assert_array_equal(served["probability"], again["probability"])
    expected = trained(tf.constant(image, tf.float32))
    np.testing.assert_allclose(served["probability"], expected["probability"], atol=2e-3)
    assert float(tf.reduce_mean(served["mutual_information"])) > 0


def test_segnet_begins_with_a_file_of_vgg16(tmp_path):
    keras.utils.set_random_seed(0)
    vgg = keras.applications.VGG16(weights=None, include_top=False)
    vgg.save_weights(tmp_path / "vgg16.weights.h5")
    settings = changed(
        network="segnet", weights=tmp_path / "vgg16.weights.h5", heads=("linear",), pretraining_epochs=0
    )
    network = lane_network(settings, SimpleNamespace(batch_norm_momentum=0.9))
    network.build((None, None, None, 3))
    start_encoder(network, settings, None)
    last = vgg.get_layer("block5_conv3").get_weights()[0]
    np.testing.assert_array_equal(network.encoder[-1].steps[-3].kernel, last)


def test_a_file_that_holds_no_vgg16_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "other.weights.h5").write_bytes(b"nothing")
    settings = changed(network="segnet", weights=tmp_path / "other.weights.h5", heads=("linear",))
    with pytest.raises(InputError, match="Expected the weights of keras:VGG16"):
        tiny_lane.train(tiny_lane.prepare(tmp_path, size=(32, 40)), tmp_path / "run", settings)
    assert not (tmp_path / "run").exists()


def test_images_smaller_than_the_deepest_pooling_are_refused_before_anything_is_written(tmp_path):
    prepared = tiny_lane.prepare(tmp_path)
    with pytest.raises(InputError, match=r"segnet reduces images 32 times.*16 x 24.*--size"):
        tiny_lane.train(prepared, tmp_path / "run", changed(network="segnet", heads=("linear",)))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("name", "count"), [("C4K5", 4), ("segnet", 5), ("segnet_basic", 4)])
def test_the_number_of_poolings_is_that_of_the_network(name, count):
    network = lane_network(changed(network=name), SimpleNamespace(batch_norm_momentum=0.9))
    assert num_poolings(name) == len(network.encoder) == count
