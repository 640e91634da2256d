"""Maps of an image are those that the bundle itself returns, to the bit, in less memory."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.bundles.metadata import load_metadata
from pipelines.bundles.runtimes import Signature
from pipelines.bundles.saved_model import load_signatures
from pipelines.bundles.serving import MapServer
from pipelines.bundles.unreadable import UnreadableSourceError, run_signature
from pipelines.lane import maps as lane_maps
from pipelines.lane.maps import MAPS, image_maps, network_size, sixteen_bit
from tests.kept.conftest import kept  # noqa: F401 - a fixture

SIZES = ((1, 1), (1, 30), (47, 21), (24, 32), (240, 320), (33, 500))


def assert_maps_are_those_of(signature: Signature, own: tuple[int, int]) -> None:
    for size in SIZES:
        image = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
        expected = run_signature(signature, image, "a.png")
        found = image_maps(signature, own, image, "a.png")
        assert set(found) == {name for name in MAPS if name in expected}
        for name, values in found.items():
            assert values.dtype == np.float32
            np.testing.assert_array_equal(values, expected[name])


def test_maps_are_those_of_a_graph_as_it_is_exported():
    def predict(images: tf.Tensor) -> dict[str, tf.Tensor]:
        p = images[..., 0] / 255.0
        return {"probability": p, "predictive_entropy": tf.sin(p), "latent_mean": images[..., 1]}

    server = MapServer(predict, (24, 32))  # its function does not keep it
    assert_maps_are_those_of(server.serving_default, (24, 32))


def test_maps_are_those_of_a_bundle_of_before(kept):  # noqa: F811 - the fixture
    folder = kept("lane") / "bundle"
    own = network_size(load_metadata(folder))
    assert own is not None
    assert_maps_are_those_of(load_signatures(folder)["serving_default"], own)


def test_the_bundle_predicts_no_more_than_the_network_takes():
    sizes = []

    def signature(images):
        sizes.append(tuple(images.shape))
        return {"probability": tf.cast(images[..., 0], tf.float32) / 255.0, "label": images[..., 0]}

    image = np.full((90, 60, 3), 51, np.uint8)
    found = image_maps(signature, (9, 12), image, "a.png")
    assert sizes == [(1, 9, 12, 3)]
    assert list(found) == ["probability"]
    np.testing.assert_array_equal(found["probability"], np.full((90, 60), np.float32(0.2)))
    assert image_maps(signature, None, image, "a.png")["probability"].shape == (90, 60)
    assert sizes[1:] == [(1, 90, 60, 3)]
    with pytest.raises(KeyError, match="label"):
        found["label"]


def test_an_image_that_needs_too_much_memory_is_named(monkeypatch):
    def no_memory(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM")

    def signature(images):
        return {"probability": tf.cast(images[..., 0], tf.float32)}

    image = np.zeros((4, 6, 3), np.uint8)
    found = image_maps(signature, (2, 3), image, "a.png")
    monkeypatch.setattr(lane_maps, "enlarged_map", no_memory)
    with pytest.raises(UnreadableSourceError, match=r"a\.png: 6 x 4 pixels need more memory"):
        found["probability"]
    monkeypatch.setattr(lane_maps, "to_network_size", no_memory)
    with pytest.raises(UnreadableSourceError, match=r"a\.png: 6 x 4 pixels need more memory"):
        image_maps(signature, (2, 3), image, "a.png")


def test_sixteen_bits_of_a_map_of_many_stripes():
    values = np.random.default_rng(0).uniform(-0.1, 1.1, (1500, 1400)).astype(np.float32)
    expected = np.round(np.clip(values / np.log(2.0).item(), 0.0, 1.0) * 65535).astype(np.uint16)
    np.testing.assert_array_equal(sixteen_bit(values, np.log(2.0).item()), expected)
