"""Unusual inputs that are right: no check may refuse them, warn of them, or change the result."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from gpmodels import HybridModel, SVGPClassifier, SVGPHead, SVGPRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
SIDE = (X[:, 0] + 0.3 * X[:, 1] > 0.0).astype(int)
TARGET = np.sin(X[:, 0]) + 0.5 * X[:, 1]


def classifier() -> SVGPClassifier:
    return SVGPClassifier(num_inducing=8, max_iterations=20, temperature=1.0, random_state=0)


def regressor() -> SVGPRegressor:
    return SVGPRegressor(num_inducing=12, max_iterations=30, random_state=0)


@pytest.fixture(scope="module")
def usual() -> np.ndarray:
    return classifier().fit(X, SIDE).predict_proba(X)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        pytest.param(X.tolist(), SIDE.tolist(), id="lists"),
        pytest.param(np.asfortranarray(X), SIDE, id="columns first"),
        pytest.param(X, SIDE.astype(bool), id="booleans"),
        pytest.param(X, SIDE.astype(float), id="class numbers as floats"),
        pytest.param(X, np.where(SIDE, "yes", "no"), id="texts"),
        pytest.param(X, np.where(SIDE, 7, 3), id="numbers with gaps"),
        pytest.param(X, np.where(SIDE, 0, -5), id="negative numbers"),
        pytest.param(X, np.where(SIDE, "ja", "nein").astype(object), id="objects", marks=pytest.mark.slow),
    ],
)
def test_classes_are_what_the_user_calls_them(usual, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = classifier().fit(x, y)
    probability = fitted.predict_proba(x)
    if fitted.classes_[0] == "ja":  # the order of the classes is that of their names
        probability = probability[:, ::-1]
    np.testing.assert_allclose(probability, usual, atol=1e-5)
    assert set(fitted.predict(X[:5])) <= set(np.asarray(y).tolist())


def test_weights_of_any_unit_and_rows_of_no_weight(usual):
    x, y = np.concatenate([X, X + 100.0]), np.concatenate([SIDE, 1 - SIDE])
    weight = np.concatenate([np.ones(60), np.zeros(60)])
    np.testing.assert_allclose(
        classifier().fit(x, y, sample_weight=weight).predict_proba(X), usual, atol=0.05
    )


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_unit_of_targets_and_columns_does_not_matter(unit):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = regressor().fit(unit * X, 40.0 * unit + unit * TARGET)
    assert fitted.score(unit * X, 40.0 * unit + unit * TARGET) > 0.9


@pytest.mark.slow
def test_a_constant_column_beside_others_and_a_single_row_to_predict(usual):
    with_constant = np.column_stack([X, np.full(60, 3.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = classifier().fit(with_constant, SIDE)
    np.testing.assert_allclose(fitted.predict_proba(with_constant), usual, atol=1e-3)
    np.testing.assert_allclose(
        fitted.predict_proba(with_constant[:1]), fitted.predict_proba(with_constant)[:1], atol=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["column", "dataset", "ones"])
def test_labels_and_weights_of_keras_in_their_usual_shapes(kind, caplog):
    x, y = X.astype("float32"), SIDE.astype("float32")
    model = HybridModel(keras.layers.Dense(4), SVGPHead(num_inducing=5), num_data=60)
    model.compile(keras.optimizers.Adam(0.01))
    data = {
        "column": (x, y[:, None]),
        "dataset": (tf.data.Dataset.from_tensor_slices((x, y)).batch(20),),
        "ones": (x, y),
    }[kind]
    more = {"ones": {"sample_weight": np.ones(60)}, "dataset": {"shuffle": False}}.get(kind, {})
    history = model.fit(*data, epochs=2, verbose=0, **more)
    assert np.isfinite(history.history["loss"]).all()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "CMYK", "1"])
def test_colour_modes_of_images(tmp_path: Path, mode: str):
    suffix = ".JPG" if mode == "CMYK" else ".png"
    for number in range(6):
        folder = tmp_path / "Bilder 1" / ("Äpfel", "été & Birnen")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        levels = RNG.integers(0, 255, (20 + number, 24, 3), dtype=np.uint8)
        Image.fromarray(levels).convert(mode).save(folder / f"{number} (1){suffix}")
    result = prepare_classify(
        tmp_path / "Bilder 1", tmp_path / "out", ClassifyPrepareSettings(size=(16, 16), duplicate_distance=-1)
    )
    assert result.manifest.num_examples == 6
    assert result.skipped == ()
