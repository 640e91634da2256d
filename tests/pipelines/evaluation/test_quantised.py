"""Tests of what `export --quantise` needs and says."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from data_prep.errors import InputError
from pipelines.bundles.portable import portable_network
from pipelines.bundles.serving import ClassServer, Server
from pipelines.evaluation.export import QuantisationImages, quantisation_images
from pipelines.runs.settings import ExportSettings

JOB: Any = SimpleNamespace()
"""Stands for a job of which nothing is read before the refusal."""

INPUTS = [np.full((1, 2), value, np.float32) for value in (-1.0, 0.5, 3.0)]


def probabilities(scale: float) -> Any:
    return lambda inputs: {"probability": tf.nn.softmax(scale * inputs * tf.constant([[0.0, 1.0]]))}


def test_both_nlls_are_those_of_the_labels() -> None:
    network = portable_network(probabilities(2.0), tf.TensorSpec([1, 2], tf.float32), "test")
    images = QuantisationImages([], INPUTS, [0, 1, 0])
    sign = np.array([-1.0, 1.0, -1.0]) * [-1.0, 0.5, 3.0]
    nll = {scale: np.logaddexp(0.0, -scale * sign).mean() for scale in (1.0, 2.0)}
    wanted = f"int8: NLL of the 3 held-out images {nll[2.0]:.4f} instead of {nll[1.0]:.4f}."
    assert images.loss(probabilities(1.0), network).sentence == wanted


def test_images_are_asked_for() -> None:
    with pytest.raises(InputError, match="Give their prepared folder by --data"):
        quantisation_images(JOB, Server(), None)


def test_what_is_no_class_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="for images with one class each"):
        quantisation_images(JOB, Server(), tmp_path)


def test_images_of_another_training_are_refused(tmp_path: Path) -> None:
    inputs = SimpleNamespace(open=lambda _folder: SimpleNamespace(sha256="other"))
    job: Any = SimpleNamespace(
        application=SimpleNamespace(inputs=inputs), run=SimpleNamespace(manifest_sha256="own"), folder="run"
    )
    server = ClassServer(lambda images: {"probability": tf.reduce_mean(images, axis=[1, 2])}, (4, 4))
    with pytest.raises(InputError, match="is not the folder that run was trained on"):
        quantisation_images(job, server, tmp_path)


def test_int8_is_for_litert() -> None:
    with pytest.raises(ValueError, match="give --format litert as well"):
        ExportSettings(quantise="int8", format="onnx")
