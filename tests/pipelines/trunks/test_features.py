"""Features of a frozen trunk: computed once, kept by what they depend on, computed again where damaged."""

import io
from dataclasses import replace
from pathlib import Path

import cv2
import keras
import numpy as np
import pytest
from rich.console import Console

from data_prep.errors import InputError
from data_prep.labelled.dataset import labelled_records
from data_prep.prepared.workers import Cluster, ended_its_workers
from data_prep.sonar.manifest import SonarManifest
from data_prep.sonar.prepare import prepare_sonar
from data_prep.sonar.settings import SonarPrepareSettings, SpeckleNormalisation
from pipelines.command.config import CONFIG_NAME, dump_settings
from pipelines.command.steps import StepCall
from pipelines.labelled.data import open_images
from pipelines.sonar.application import SONAR
from pipelines.sonar.commands import COMMANDS
from pipelines.sonar.settings import EvaluateSettings, SnapshotPreprocessing, SonarRun, TrainSettings
from pipelines.trunks import features as module
from pipelines.trunks.features import LoadedTrunk, TrunkFeatures, TrunkPassFactory
from pipelines.trunks.settings import TrunkFacts, evaluate_off_cluster, train_off_cluster
from pipelines.trunks.weights import arrays_sha256


class ThreeMeans(keras.layers.Layer):
    """The smallest trunk there is: the mean of each channel, and how many images it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def __call__(self, images):
        self.seen += 1  # once for each graph that is traced
        return keras.ops.mean(images, axis=[1, 2])

    def arrays(self) -> dict[str, np.ndarray]:
        return {}


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


def seen_by_a_trunk(
    prepared: Path, sha256: str = "a" * 64, cluster: Cluster | None = None
) -> tuple[TrunkFeatures, io.StringIO]:
    images, said = open_images(prepared, SonarManifest), io.StringIO()
    facts = TrunkFacts(
        name="means", sha256=sha256, size=(8, 8), smallest_side=32, num_features=3, unfrozen_blocks=0
    )
    trunk = LoadedTrunk(network=ThreeMeans(), facts=facts, weights="imagenet")
    return TrunkFeatures(prepared, images.manifest, trunk, Console(file=said, width=200), cluster), said


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


def cached(tmp_path: Path) -> dict[str, bytes]:
    (folder,) = (tmp_path / "cache" / "features").iterdir()
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_cluster_computes_what_one_process_computes(prepared, cluster, tmp_path, monkeypatch):
    sha256 = arrays_sha256({})
    one, _ = seen_by_a_trunk(prepared, sha256)
    assert len(one.features) == 18
    files = cached(tmp_path)
    (folder,) = (tmp_path / "cache" / "features").iterdir()
    (folder / "00001.safetensors").unlink()
    (folder / "00002.safetensors").unlink()
    opened = []
    monkeypatch.setattr(
        module, "load_trunk", lambda *asked, **options: opened.append((asked, options)) or ThreeMeans()
    )
    data, said = seen_by_a_trunk(prepared, sha256, cluster)
    np.testing.assert_array_equal(data.features, one.features)
    assert cached(tmp_path) == files
    assert "Computing the features of 11 images" in said.getvalue()
    assert data.trunk.network.seen == 0
    assert opened[0] == (("means", "imagenet"), {"smallest_side": 32})


def test_a_worker_refuses_other_images_and_other_weights(prepared, monkeypatch):
    monkeypatch.setattr(module, "load_trunk", lambda *_, **__: ThreeMeans())
    data, _ = seen_by_a_trunk(prepared)
    factory = TrunkPassFactory(
        folder=prepared, kind=SonarManifest, prepared_sha256=data.sha256, trunk=data.trunk.factory
    )
    with pytest.raises(
        InputError, match="means: a worker finds other weights than the command: expected aaa"
    ):
        factory.open()
    with pytest.raises(InputError, match=r"manifest\.json: a worker sees something else"):
        replace(factory, prepared_sha256="0" * 64).open()


def test_images_that_end_every_worker_are_named_and_others_are_kept(prepared, tmp_path, monkeypatch):
    def deadly(_cluster, _make, parts, file_of):
        yield np.zeros((7, 3), np.float32)
        yield ended_its_workers(file_of(parts[1]))

    monkeypatch.setattr(module, "work_with_tensorflow", deadly)
    data, _ = seen_by_a_trunk(prepared, cluster=Cluster("tcp://host:8786", None))
    with pytest.raises(InputError, match=r"every worker .* give the command again, `train` with --resume"):
        _ = data.features
    assert list(cached(tmp_path)) == ["00000.safetensors"]


def test_a_cluster_sees_images_in_memory_as_one_process_does(prepared, cluster, monkeypatch):
    rng = np.random.default_rng(1)
    images = [rng.integers(0, 256, (8, 8, 3), np.uint8), rng.integers(0, 256, (9, 8, 8, 3), np.uint8)]
    sha256 = arrays_sha256({})
    one, _ = seen_by_a_trunk(prepared, sha256)
    monkeypatch.setattr(module, "load_trunk", lambda *_, **__: ThreeMeans())
    data, _ = seen_by_a_trunk(prepared, sha256, cluster)
    for found, wanted, image in zip(data.encode_all(images), one.encode_all(images), images, strict=True):
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_allclose(found, image.astype(np.float32).mean(axis=(-3, -2)), rtol=1e-5)
    assert (one.trunk.network.seen, data.trunk.network.seen) == (1, 0)


def test_images_in_memory_that_end_every_worker_are_said_to_need_memory(prepared, monkeypatch):
    def deadly(_cluster, _make, batches, file_of, ahead):
        assert ahead < len(batches)
        yield ended_its_workers(file_of(batches[0]))

    monkeypatch.setattr(module, "work_with_tensorflow", deadly)
    data, _ = seen_by_a_trunk(prepared, cluster=Cluster("tcp://host:8786", None))
    expected = r"^means: every worker that was given 4 images of 8 x 8 ended .* or leave --cluster out\.$"
    with pytest.raises(InputError, match=expected):
        data.encode(np.zeros((18, 8, 8, 3), np.uint8))


def test_only_the_training_of_a_frozen_trunk_has_use_for_a_cluster() -> None:
    trunk = TrainSettings(network="efficientnet_lite0")
    assert train_off_cluster({}, trunk) is None
    assert train_off_cluster({}, trunk.model_copy(update={"unfreeze_blocks": 2})) == (
        "train --set unfreeze_blocks=2"
    )
    random = trunk.model_copy(update={"weights": "none"})
    assert train_off_cluster({}, random) == "train --set weights=none"
    assert "without --set network=" in train_off_cluster({}, TrainSettings())


def test_only_the_evaluation_of_a_frozen_trunk_has_use_for_a_cluster(prepared, tmp_path) -> None:
    facts = seen_by_a_trunk(prepared)[0].trunk.facts

    def asked(trunk: TrunkFacts | None) -> str | None:
        described_run(trunk).save(tmp_path)
        return evaluate_off_cluster(SonarRun, {"model": tmp_path}, EvaluateSettings())

    assert asked(facts) is None
    for trunk in (None, facts.model_copy(update={"unfrozen_blocks": 2})):
        assert asked(trunk) == "evaluate of a run without a frozen trunk"
    with pytest.raises(InputError, match="is no training run"):
        evaluate_off_cluster(SonarRun, {"model": prepared}, EvaluateSettings())


def described_run(trunk: TrunkFacts | None) -> SonarRun:
    return SonarRun(
        application="sonar",
        size=(8, 8),
        num_data=18,
        batch_norm_momentum=0.9,
        heads=("linear",),
        counts={},
        manifest_sha256="a" * 64,
        class_names=("ball", "bar"),
        snapshots=SnapshotPreprocessing(
            normalisation=SpeckleNormalisation(), window=(8, 8), background_classes=()
        ),
        trunk=trunk,
    )


@pytest.mark.parametrize("step", ["train", "evaluate"])
def test_the_cluster_of_a_command_reaches_what_sees_the_images(step, prepared, tmp_path, monkeypatch) -> None:
    seen = []

    def encode(_data, _settings, _run_folder, _console, cluster):
        seen.append(cluster)
        raise InputError("no further")

    described_run(None).save(tmp_path)
    dump_settings(TrainSettings(), tmp_path / CONFIG_NAME)
    watched = replace(SONAR, inputs=replace(SONAR.inputs, encode=encode))
    monkeypatch.setattr("pipelines.sonar.application.SONAR", watched)
    assert COMMANDS[step].on_cluster
    cluster = Cluster("tcp://host:8786", None)
    call = StepCall(COMMANDS[step].settings(), Console(quiet=True), None, None, cluster)
    model = {"model": tmp_path} if step == "evaluate" else {}
    with pytest.raises(InputError, match="no further"):
        COMMANDS[step].function(call, data=prepared, out=tmp_path / "out", **model)
    assert seen == [cluster]


def test_an_example_is_shown_and_told_apart_by_its_image(prepared):
    data, _ = seen_by_a_trunk(prepared)
    names = [one.name for one in data.manifest.examples][3:9]
    images = {name: image for name, image, _ in labelled_records(data.folder, data.manifest, names)}
    for (name, values, _), source in zip(data.inputs(names), data.sources(names), strict=True):
        np.testing.assert_array_equal(source, images[name])
        np.testing.assert_allclose(values, images[name].astype(np.float32).mean(axis=(0, 1)), rtol=1e-5)
