"""Tests of files for other runtimes: they answer as heads do, of every family that can be computed there."""

import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_prep.errors import InputError
from gpmodels import HybridModel
from gpmodels.registry import HeadTask, families
from pipelines.bundles.portable import PORTABLE_TOLERANCE, PORTABLES, portable_network
from pipelines.bundles.runtimes import LITERT, LiteRTSignature

POINTS = np.random.default_rng(0).normal(size=(160, 6)).astype(np.float32)
SPEC = tf.TensorSpec([1, 6], tf.float32)
IN_DOUBLE_PRECISION = {"dfgp", "dfgp_mkl"}
WITH_A_SOURCE = {"atl_dgp"}
FAMILIES = sorted(families().keys() - IN_DOUBLE_PRECISION - WITH_A_SOURCE)


def model_of(name: str, num_classes: int) -> Any:
    family = families()[name]
    labels = np.digitize(POINTS[:, 0], [0.0] if num_classes == 2 else [-0.4, 0.4]).astype(np.float32)
    keras.utils.set_random_seed(0)
    views = (slice(0, 2), slice(2, 4)) if family.needs_views else None
    settings = None if family.settings is None else family.settings()
    head = family.make(settings, HeadTask(num_classes=num_classes, views=views))
    model = HybridModel(keras.layers.Dense(4), head, num_data=len(POINTS))
    model.initialize((POINTS, labels), **({"head_steps": 2} if family.is_gaussian_process else {}))
    if family.is_completed or family.fitted_on:
        model.fit_to((POINTS, labels))
    return model.inference_function()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "num_classes"),
    [
        pytest.param(name, count, marks=[pytest.mark.exhaustive] if count == 3 and name != "hgp" else [])
        for name in FAMILIES
        for count in (2, 3)
    ],
)
def test_a_head_answers_alike(name: str, num_classes: int) -> None:
    predict = model_of(name, num_classes)
    network = portable_network(predict, SPEC, name)
    found = LiteRTSignature(Path(LITERT), network, threads=2)(POINTS[:20])
    for key, value in predict(tf.constant(POINTS[:20])).items():
        np.testing.assert_allclose(found[key], value, PORTABLE_TOLERANCE, PORTABLE_TOLERANCE, err_msg=key)
    for portable in PORTABLES.values():
        content = portable.convert(network)
        for point in POINTS[:20, None]:
            expected = {key: value.numpy() for key, value in predict(tf.constant(point)).items()}
            outputs = portable.outputs(content, point)
            assert outputs.keys() == expected.keys()
            for key, value in expected.items():
                tolerance = PORTABLE_TOLERANCE
                np.testing.assert_allclose(outputs[key], value, tolerance, tolerance, err_msg=key)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(IN_DOUBLE_PRECISION))
def test_a_head_in_double_precision_is_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(InputError, match=f"The {name} head cannot be written for LiteRT, .* another head"):
        portable_network(model_of(name, 2), SPEC, name)


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"onnxruntime.*pip install 'gpimaging\[onnx\]'"):
        PORTABLES["onnx"].outputs(b"", POINTS[:1])


def test_the_logger_of_the_converter_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    logger, levels = logging.getLogger("tf2onnx"), []

    def from_tflite(*_: object, **__: object) -> None:
        levels.append(logger.level)
        raise ValueError("stopped")

    converter = SimpleNamespace(convert=SimpleNamespace(from_tflite=from_tflite))
    for name, module in {"onnx": SimpleNamespace(), "tf2onnx": converter}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "tf2onnx.convert", converter.convert)
    monkeypatch.setattr(logger, "level", logging.INFO)
    with pytest.raises(ValueError, match="stopped"):
        PORTABLES["onnx"].convert(b"")
    assert [*levels, logger.level] == [logging.CRITICAL, logging.INFO]


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(ValueError, match="parsing failed"):
        PORTABLES["onnx"].outputs(b"no network", POINTS[:1])
