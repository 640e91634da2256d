"""Tests of what runs the network of a bundle."""

import hashlib
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import tensorflow as tf
from pydantic import BaseModel

from data_prep.errors import InputError
from pipelines.bundles import runtimes
from pipelines.bundles.metadata import TensorDescription
from pipelines.bundles.portable import portable_network
from pipelines.bundles.runtime_settings import RuntimeSettings
from pipelines.bundles.runtimes import INT8, LITERT, LiteRTSignature, litert_file, load_litert
from pipelines.classify.settings import PredictSettings
from pipelines.command.referral import FamiliaritySettings

IMAGES = np.random.default_rng(0).integers(0, 256, (9, 4, 5, 3), np.uint8)


OF_LITERT = "ai_edge_litert.interpreter"


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The files that the bundle has; a test may change them."""
    files = {LITERT: "", INT8: ""}
    monkeypatch.setattr(runtimes, "load_metadata", lambda _: SimpleNamespace(sha256=files))
    return files


@pytest.fixture(scope="module")
def network() -> bytes:
    """A file for LiteRT that returns the mean of an image."""

    def mean(images: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"mean": tf.reduce_mean(images, axis=[1, 2, 3])}

    return portable_network(mean, tf.TensorSpec([1, 4, 5, 3], tf.float32), "test")


@pytest.mark.usefixtures("files")
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


def test_tensorflow_is_taken_where_there_is_no_file(files: dict[str, str]) -> None:
    files.clear()
    assert litert_file(Path("bundle"), RuntimeSettings()) is None
    with pytest.raises(InputError, match="--quantise int8"):
        litert_file(Path("bundle"), RuntimeSettings(runtime="int8"))


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("module", [None, ModuleType("broken")])
def test_tensorflow_is_taken_where_litert_cannot_be_imported(
    module: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, OF_LITERT, module)
    assert litert_file(Path("bundle"), RuntimeSettings()) is None
    with pytest.raises(InputError, match=r"cannot be imported .*pip install 'gpimaging\[litert\]'"):
        litert_file(Path("bundle"), RuntimeSettings(runtime="int8"))


@pytest.mark.parametrize("given", [{"max_error": 0.1, "coverage": 0.9}, {"refer": 0.1}, {"refer_above": 0.5}])
def test_thresholds_of_float32_are_not_of_int8(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{' and '.join(given)} cannot be kept by int8"):
        PredictSettings(runtime="int8", **given)


def test_several_threads_predict_alike(network: bytes) -> None:
    predict = LiteRTSignature(Path(LITERT), network, threads=1)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda image: predict(images=image[None])["mean"], IMAGES))
    np.testing.assert_allclose(np.concatenate(found), IMAGES.mean(axis=(1, 2, 3)), rtol=1e-5)
    np.testing.assert_array_equal(predict(images=IMAGES)["mean"], np.concatenate(found))


def test_what_is_no_network_is_named() -> None:
    with pytest.raises(InputError, match=rf"{LITERT} cannot be run .* Export the bundle again"):
        LiteRTSignature(Path(LITERT), b"no network", threads=1)


@pytest.mark.parametrize(
    "step",
    [
        "side_effect",
        "return_value.allocate_tensors.side_effect",
        "return_value.get_signature_runner.return_value.side_effect",
    ],
)
def test_errors_of_litert_are_said(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter = MagicMock(**{step: RuntimeError("node 3 failed")})
    monkeypatch.setitem(sys.modules, OF_LITERT, SimpleNamespace(Interpreter=interpreter))
    with pytest.raises(InputError, match=rf"{LITERT} cannot be run \(node 3 failed\)"):
        LiteRTSignature(Path(LITERT), b"", threads=1)(IMAGES)


def described(network: bytes, name: str, dtype: str, shape: tuple[int | None, ...], height: int) -> Any:
    """Metadata of a bundle whose network returns one output."""
    output = TensorDescription(shape=shape, dtype=dtype, range=(None, None), unit="", meaning="")
    return SimpleNamespace(
        network_size=(height, 5),
        signatures={"serving_default": SimpleNamespace(outputs={name: output})},
        sha256={LITERT: hashlib.sha256(network).hexdigest()},
    )


@pytest.mark.parametrize(
    ("verb", "other"),
    [
        ("takes", ("mean", "float32", (None,), 6)),
        ("returns", ("sd", "float32", (None,), 4)),
        ("returns", ("mean", "int32", (None,), 4)),
        ("returns", ("mean", "float32", (None, 3), 4)),
    ],
)
def test_another_network_is_refused(
    network: bytes, verb: str, other: tuple[str, str, tuple[int | None, ...], int], tmp_path: Path
) -> None:
    (tmp_path / LITERT).write_bytes(network)
    with pytest.raises(InputError, match=f"{LITERT} {verb} .*Export the bundle again"):
        load_litert(tmp_path / LITERT, described(network, *other), threads=1)


def test_the_last_file_stays_in_memory_until_it_changes(network: bytes, tmp_path: Path) -> None:
    file, metadata = tmp_path / LITERT, described(network, "mean", "float32", (None,), 4)
    file.write_bytes(network)
    first = load_litert(file, metadata, threads=1)
    assert load_litert(file, metadata, threads=1) is first
    file.write_bytes(network + b"0")
    with pytest.raises(InputError, match="does not match its checksum"):
        load_litert(file, metadata, threads=2)
