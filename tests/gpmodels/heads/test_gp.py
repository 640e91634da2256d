"""What all Gaussian-process heads share: whether they know that they were placed, and their settings."""

import keras
import numpy as np
import pytest

from gpmodels import HGPHead, HybridModel, LinearHead, RandomFeatureHead, SVDKLHead, SVGPHead


@pytest.mark.parametrize(
    "make_head",
    [
        lambda: SVGPHead(num_inducing=3),
        lambda: SVDKLHead(num_inducing=3),
        lambda: RandomFeatureHead(num_features=4, num_layers=1),
        lambda: HGPHead(num_experts=0, num_inducing=3),
    ],
    ids=["svgp", "svdkl", "random_features", "hgp"],
)
@pytest.mark.parametrize("values", [[0.0, 1.0], [2.0, 2.0]], ids=["binary", "constant"])
def test_a_head_is_placed_by_features_that_ask_for_lengthscales_of_one(make_head, values):
    head = make_head()
    assert not head.is_placed()
    model = HybridModel(keras.layers.Identity(), head, num_data=40)
    model.build((None, 1))
    assert not head.is_placed()
    model.initialize(np.tile(values, 20)[:, None].astype("float32"))
    assert all(np.all(lengthscales == 1.0) for lengthscales in head.lengthscales())
    assert head.is_placed()


@pytest.mark.slow
def test_head_steps_on_binary_features_warn_of_nothing(caplog):
    x = np.tile([0.0, 1.0], 20).astype("float32")
    model = HybridModel(keras.layers.Identity(), SVGPHead(num_inducing=3), num_data=40)
    model.initialize((x[:, None], x), head_steps=1)
    assert "was not placed" not in caplog.text


@pytest.mark.parametrize("head", [SVGPHead, LinearHead])
@pytest.mark.parametrize("num_classes", [1, 2.5, None, True])
def test_a_number_of_classes_is_whole_and_at_least_two(head, num_classes):
    message = f"num_classes must be at least 2, and a whole number, but is {num_classes}"
    with pytest.raises(ValueError, match=message):
        head(num_classes=num_classes)
