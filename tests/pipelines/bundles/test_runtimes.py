"""Tests of what runs the network of a bundle."""

from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from pydantic import BaseModel

from data_prep.errors import InputError
from pipelines.bundles import runtimes
from pipelines.bundles.portable import portable_network
from pipelines.bundles.runtime_settings import RuntimeSettings
from pipelines.bundles.runtimes import INT8, LITERT, LiteRTSignature, litert_file
from pipelines.classify.settings import PredictSettings
from pipelines.command.referral import FamiliaritySettings

IMAGES = np.random.default_rng(0).integers(0, 256, (9, 4, 5, 3), np.uint8)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is installed and what the bundle has; a test may change it."""
    state: dict[str, Any] = {"package": ModuleSpec("ai_edge_litert", None), "files": {LITERT: "", INT8: ""}}
    monkeypatch.setattr(runtimes, "find_spec", lambda _: state["package"])
    monkeypatch.setattr(runtimes, "load_metadata", lambda _: SimpleNamespace(sha256=state["files"]))
    return state


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (RuntimeSettings(), LITERT),
        (RuntimeSettings(runtime="int8"), INT8),
        (RuntimeSettings(runtime="tensorflow"), None),
        (FamiliaritySettings(), None),
    ],
)
def test_the_settings_choose_the_file(settings: BaseModel, name: str | None) -> None:
    assert litert_file(Path("bundle"), settings) == (None if name is None else Path("bundle") / name)


@pytest.mark.parametrize(("key", "value"), [("package", None), ("files", {})])
def test_tensorflow_is_taken_where_litert_cannot_be(
    installed: dict[str, Any], key: str, value: object
) -> None:
    installed[key] = value
    assert litert_file(Path("bundle"), RuntimeSettings()) is None
    remedy = r"pip install 'gpimaging\[litert\]'" if key == "package" else "--quantise int8"
    with pytest.raises(InputError, match=remedy):
        litert_file(Path("bundle"), RuntimeSettings(runtime="int8"))


def test_what_is_guaranteed_is_not_of_int8() -> None:
    with pytest.raises(ValueError, match="max_error and coverage cannot be kept by int8"):
        PredictSettings(runtime="int8", max_error=0.1, coverage=0.9)


def test_several_threads_predict_alike(tmp_path: Path) -> None:
    def mean(images: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"mean": tf.reduce_mean(images, axis=[1, 2, 3])}

    file = tmp_path / LITERT
    file.write_bytes(portable_network(mean, tf.TensorSpec([1, 4, 5, 3], tf.float32), "test"))
    predict = LiteRTSignature(file, threads=1)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda image: predict(images=image[None])["mean"], IMAGES))
    np.testing.assert_allclose(np.concatenate(found), IMAGES.mean(axis=(1, 2, 3)), rtol=1e-5)
    np.testing.assert_array_equal(predict(images=IMAGES)["mean"], np.concatenate(found))


def test_what_is_no_network_is_named(tmp_path: Path) -> None:
    (tmp_path / LITERT).write_bytes(b"no network")
    with pytest.raises(InputError, match=rf"{LITERT} cannot be run .* Export the bundle again"):
        LiteRTSignature(tmp_path / LITERT, threads=1)
