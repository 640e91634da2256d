"""Which heads are compared on frozen features, and how the features of pixels are read."""

from types import SimpleNamespace

import numpy as np
import tensorflow as tf

from benchmarks.frozen_heads import features_of, numbers_of_experts
from gpmodels import HGPHead, SVGPHead


def test_an_hgp_of_each_number_of_experts_stands_beside_an_svgp():
    heads = {name: make() for name, (make, _) in numbers_of_experts([3, 6]).items()}
    assert list(heads) == ["SVGP", "HGP, T = 3", "HGP, T = 6"]
    assert isinstance(heads["SVGP"], SVGPHead)
    assert isinstance(heads["HGP, T = 6"], HGPHead)
    assert heads["HGP, T = 6"].num_experts == 6


def test_labelled_pixels_have_as_many_features_as_the_network_gives():
    image = np.arange(24.0).reshape(1, 2, 3, 4)
    label = np.array([[[0, 1, 0], [1, 0, 1]]])
    weight = np.array([[[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]])
    model = SimpleNamespace(network=lambda image, **_: tf.constant(image))
    batch = (tf.constant(image), tf.constant(label), tf.constant(weight))
    features, labels, numbers = features_of(model, [batch])
    assert features.shape == (4, 4)
    assert sorted(features[:, 0]) == [0.0, 4.0, 16.0, 20.0]
    assert [label.ravel()[int(first) // 4] for first in features[:, 0]] == list(labels)
    assert not numbers.any()
