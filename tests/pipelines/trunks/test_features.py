"""Features of a frozen trunk: computed once, kept by what they depend on, computed again where damaged."""

import io
from pathlib import Path

import cv2
import keras
import numpy as np
import pytest
from rich.console import Console

from data_prep.errors import InputError
from data_prep.labelled.dataset import labelled_records
from data_prep.sonar.manifest import SonarManifest
from data_prep.sonar.prepare import prepare_sonar
from data_prep.sonar.settings import SonarPrepareSettings
from pipelines.tasks.data import open_images
from pipelines.trunks import features as module
from pipelines.trunks.features import LoadedTrunk, TrunkFeatures
from pipelines.trunks.settings import TrunkFacts


class ThreeMeans(keras.layers.Layer):
    """The smallest trunk there is: the mean of each channel, and how many images it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def __call__(self, images):
        self.seen += 1  # once for each graph that is traced
        return keras.ops.mean(images, axis=[1, 2])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    folder, rng = tmp_path_factory.mktemp("snapshots"), np.random.default_rng(0)
    for name in ("ball", "bar"):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(9):
            levels = rng.integers(0, 255, (12, 12), dtype=np.uint8)
            cv2.imwrite(str(folder / "images" / name / f"{number}.png"), levels)
    settings = SonarPrepareSettings(size=(8, 8))
    prepare_sonar(folder / "images", folder / "prepared", settings, annotations=None, jobs=1)
    return folder / "prepared"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GPIMAGING_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "EXAMPLES_A_FILE", 7)
    monkeypatch.setattr(module, "IMAGES_AT_ONCE", 4)


def seen_by_a_trunk(prepared: Path, sha256: str = "a" * 64) -> tuple[TrunkFeatures, io.StringIO]:
    images, said = open_images(prepared, SonarManifest), io.StringIO()
    facts = TrunkFacts(
        name="means", sha256=sha256, size=(8, 8), smallest_side=32, num_features=3, unfrozen_blocks=0
    )
    trunk = LoadedTrunk(network=ThreeMeans(), facts=facts)
    return TrunkFeatures(prepared, images.manifest, trunk, Console(file=said, width=200)), said


def expected(data: TrunkFeatures) -> np.ndarray:
    records = labelled_records(data.folder, data.manifest, [one.name for one in data.manifest.examples])
    by_name = {name: image.astype(np.float32).mean(axis=(0, 1)) for name, image, _ in records}
    return np.stack([by_name[one.name] for one in data.manifest.examples])


def test_features_are_computed_once_and_found_again(prepared, tmp_path):
    data, said = seen_by_a_trunk(prepared)
    np.testing.assert_allclose(data.features, expected(data), rtol=1e-5)
    assert "Computing the features of 18 images of 8 x 8 with means, once" in said.getvalue()
    again, said = seen_by_a_trunk(prepared)
    np.testing.assert_array_equal(again.features, data.features)
    assert again.trunk.network.seen == 0
    assert said.getvalue() == ""
    (folder,) = (tmp_path / "cache" / "features").iterdir()
    assert len(list(folder.iterdir())) == 3


def test_another_trunk_has_features_of_its_own(prepared, tmp_path):
    for sha256 in ("a" * 64, "b" * 64):
        data, said = seen_by_a_trunk(prepared, sha256)
        assert len(data.features) == 18
        assert "18 images" in said.getvalue()
    assert len(list((tmp_path / "cache" / "features").iterdir())) == 2


def test_features_of_an_earlier_way_to_compute_them_are_not_taken(prepared, monkeypatch):
    assert len(seen_by_a_trunk(prepared)[0].features) == 18
    monkeypatch.setattr(module, "FEATURES_VERSION", -1)
    data, said = seen_by_a_trunk(prepared)
    assert len(data.features) == 18
    assert "18 images" in said.getvalue()


def test_a_cache_that_cannot_be_written_is_named(prepared, tmp_path, monkeypatch):
    data, _ = seen_by_a_trunk(prepared)
    folder = tmp_path / "cache" / "features" / module._key(data)
    folder.parent.mkdir(parents=True)
    folder.write_text("a file")
    with pytest.raises(InputError, match="GPIMAGING_CACHE"):
        _ = data.features
    folder.unlink()
    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(InputError, match=r"no space.*GPIMAGING_CACHE"):
        _ = data.features


def refuse(*_: object) -> None:
    raise OSError(28, "no space")


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_only_what_is_damaged_or_missing_is_computed_again(prepared, tmp_path, damage):
    whole, _ = seen_by_a_trunk(prepared)
    first = whole.features
    (folder,) = (tmp_path / "cache" / "features").iterdir()
    path = folder / "00001.safetensors"
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-20] if damage == "cut" else content[:-60] + b"\x40" + content[-59:])
    data, said = seen_by_a_trunk(prepared)
    np.testing.assert_array_equal(data.features, first)
    assert "features of 7 images" in said.getvalue()
    assert path.read_bytes() == content


def test_an_example_is_shown_and_told_apart_by_its_image(prepared):
    data, _ = seen_by_a_trunk(prepared)
    names = [one.name for one in data.manifest.examples][3:9]
    images = {name: image for name, image, _ in labelled_records(data.folder, data.manifest, names)}
    for (name, values, _), source in zip(data.inputs(names), data.sources(names), strict=True):
        np.testing.assert_array_equal(source, images[name])
        np.testing.assert_allclose(values, images[name].astype(np.float32).mean(axis=(0, 1)), rtol=1e-5)
