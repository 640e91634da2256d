"""Examples of prepared folders: handmade features, clips, and cached features of clips."""

import json
import threading

import cv2
import keras
import numpy as np
import pytest
import tifffile
from rich.console import Console

from data_prep.errors import InputError
from data_prep.histopathology.manifest import HistopathologyManifest
from data_prep.histopathology.prepare import prepare_histopathology
from data_prep.histopathology.settings import HistopathologyPrepareSettings
from data_prep.labelled.views import read_views
from data_prep.prepared.manifest import load_manifest
from data_prep.video.features import (
    TRUNK_NAME,
    VideoFeatures,
    features_file,
    write_features_manifest,
    write_video_features,
)
from data_prep.video.manifest import LearnedVideos, VideoManifest, VideoTrunkFacts
from data_prep.video.prepare import prepare_video
from data_prep.video.settings import VideoPrepareSettings
from pipelines.command import remote
from pipelines.explore import reading
from pipelines.explore.reading import read_examples
from pipelines.explore.settings import ExploreSettings
from pipelines.trunks import application, features
from tests.data_prep.dicom_files import write_dicom
from tests.data_prep.tissue_files import write_table, write_tissue
from tests.data_prep.video_files import write_video

QUIET = Console(quiet=True)


def read(folder, **settings):
    return read_examples(folder, ExploreSettings(**settings), jobs=1, console=QUIET)


@pytest.fixture(scope="module")
def tissue(tmp_path_factory):
    """Twelve patches of two images with 657 handmade features."""
    folder = tmp_path_factory.mktemp("tissue")
    write_tissue(folder / "images", ["a.png", "b.png"])
    labels = write_table(folder / "labels.csv", "file,label,patient", "a.png,benign,1", "b.png,malignant,2")
    settings = HistopathologyPrepareSettings(patch_size=40, size=(8, 8))
    prepare_histopathology(folder / "images", folder / "prepared", settings, labels=labels)
    return folder / "prepared"


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """Clips of two videos each of two classes."""
    folder = tmp_path_factory.mktemp("videos")
    for name in ("Walk/v_Walk_g01_c01", "Walk/v_Walk_g02_c01", "Run/v_Run_g01_c01", "Run/v_Run_g02_c01"):
        write_video(folder / "videos" / f"{name}.avi", 25)
    settings = VideoPrepareSettings(frames=4, size=(8, 8), resize=(8, 10))
    prepare_video(folder / "videos", folder / "prepared", settings)
    return folder / "prepared"


def test_handmade_features_are_standardised_one_by_one(tissue):
    found = read(tissue)
    assert found.features.scale == "columns"
    assert found.features.words.startswith("657 handmade features (intensity 78")
    manifest = load_manifest(tissue, HistopathologyManifest)
    views = read_views(tissue, manifest)
    expected = np.concatenate([views[name] for name in manifest.views], axis=1)
    np.testing.assert_array_equal(found.features.values, expected)
    assert set(found.groups) == {"1", "2"}
    assert [picture.shape for picture in found.pictures] == [(8, 8, 3)] * 12


def test_patches_may_be_compared_by_their_pixels_as_well(tissue):
    found = read(tissue, features="grey", size=(4, 4))
    assert found.features.values.shape == (12, 16)
    assert found.features.scale == "common"
    assert 0 <= found.features.values.min() < found.features.values.max() <= 1


def test_clips_are_compared_by_all_of_their_frames(clips):
    found = read(clips, size=(4, 6))
    manifest = load_manifest(clips, VideoManifest)
    assert found.files == tuple(example.name for example in manifest.examples)
    assert found.features.values.shape == (len(found.files), 4 * 4 * 6)
    assert found.features.words == "grey levels of 4 frames of 4 x 6 pixels"
    assert found.groups is not None
    assert found.pictures[0].shape == (8, 8, 3)
    with pytest.raises(InputError, match="prepared for video, which has no handmade features"):
        read(clips, features="views")


@pytest.mark.slow
def test_the_middle_frame_is_what_a_network_sees(clips):
    found = read(clips, features="efficientnet_lite0", weights="none", smallest_side=32)
    assert found.features.words == "1280 features of efficientnet_lite0 of the middle frame"
    assert found.features.values.shape == (len(found.files), 1280)


class ThreeMeans(keras.layers.Layer):
    """The smallest trunk there is: the mean of each channel."""

    num_features = 3

    def __call__(self, images):
        return keras.ops.mean(images, axis=[1, 2])

    def arrays(self) -> dict[str, np.ndarray]:
        return {}


@pytest.fixture
def pictures(tmp_path):
    """Forty pictures, more than a batch, of which one is damaged."""
    (tmp_path / "pictures").mkdir()
    rng = np.random.default_rng(0)
    for number in range(40):
        cv2.imwrite(str(tmp_path / "pictures" / f"{number}.png"), rng.integers(0, 256, (9, 9, 3), np.uint8))
    (tmp_path / "pictures" / "3.png").write_bytes(b"no image")
    return tmp_path / "pictures"


@pytest.mark.parametrize(
    ("side", "installed", "settings", "words"),
    [
        (70, True, {}, "3 features of efficientnet_lite0"),
        (70, False, {}, "grey levels of 32 x 32 pixels"),
        (60, True, {}, "grey levels of 32 x 32 pixels"),
        (70, True, {"size": (8, 8)}, "grey levels of 8 x 8 pixels"),
        (70, True, {"features": "grey"}, "grey levels of 32 x 32 pixels"),
    ],
)
def test_a_network_that_is_installed_looks_at_images_that_are_large_enough(
    side, installed, settings, words, tmp_path, monkeypatch
):
    rng = np.random.default_rng(0)
    for number in range(12):
        levels = rng.integers(0, 256, (side, side + 9), np.uint8)
        cv2.imwrite(str(tmp_path / f"{number}.png"), levels)
    (tmp_path / "0.png").write_bytes(b"no image")
    monkeypatch.setattr(application, "load_trunk", lambda *_, **__: ThreeMeans())
    monkeypatch.setattr(reading, "packaged_file", lambda: tmp_path if installed else None)
    found = read(tmp_path, **settings)
    assert found.features.words == words
    assert [(one.height, one.width) for one in found.qualities] == [(side, side + 9)] * 11
    assert found.poor == {}


@pytest.mark.parametrize("suffix", [".tif", ".dcm"])
def test_images_whose_levels_are_not_whole_are_looked_at(suffix, tmp_path):
    levels = np.random.default_rng(0).integers(0, 4096, (6, 9, 11)).astype(np.uint16)
    for number, image in enumerate(levels):
        if suffix == ".tif":
            tifffile.imwrite(tmp_path / f"{number}.tif", image.astype(np.float32) / 4095)
        else:
            write_dicom(tmp_path / f"{number}.dcm", image, WindowCenter=2048, WindowWidth=4096)
    found = read(tmp_path, size=(9, 11), features="grey")
    assert not found.skipped
    for picture, image in zip(found.pictures, levels, strict=True):
        np.testing.assert_allclose(picture[..., 0], image / 4095 * 255, atol=1.5)
    assert ("DICOM file's window" if suffix == ".dcm" else "0 to 255 (setting levels)") in found.notes[0]


def test_where_the_network_cannot_be_loaded_pixels_are_compared_unless_it_was_asked_for(
    tmp_path, monkeypatch
):
    for number in range(6):
        cv2.imwrite(str(tmp_path / f"{number}.png"), np.full((70, 70, 3), 30 * number, np.uint8))

    def load(*_, **__):
        raise InputError("damaged weights")

    monkeypatch.setattr(application, "load_trunk", load)
    monkeypatch.setattr(reading, "packaged_file", lambda: tmp_path)
    found = read(tmp_path)
    assert found.features.words == "grey levels of 32 x 32 pixels"
    assert found.notes[0] == "Pixels are compared, since efficientnet_lite0 cannot be loaded: damaged weights"
    with pytest.raises(InputError, match="damaged weights"):
        read(tmp_path, features="efficientnet_lite0")


@pytest.mark.parametrize("kind", ["tissue", "clips", "pictures"])
@pytest.mark.parametrize("weights", ["imagenet", "none"])
def test_a_cluster_computes_the_features_of_a_network_that_one_process_computes(
    kind, weights, request, cluster, tmp_path, monkeypatch
):
    """Of patches, which are kept, of middle frames and of files."""
    asked = []

    def load(*_, **__):
        asked.append(threading.current_thread())
        return ThreeMeans()

    for module in (application, features):
        monkeypatch.setattr(module, "load_trunk", load)
    settings = ExploreSettings(features="efficientnet_lite0", weights=weights)
    found = []
    for jobs in (1, cluster):
        monkeypatch.setenv("GPIMAGING_CACHE", str(tmp_path / f"cache {len(found)}"))
        remote.made.cache_clear()
        asked.clear()
        found.append(read_examples(request.getfixturevalue(kind), settings, jobs=jobs, console=QUIET))
    one, other = found
    assert one.files == other.files
    assert one.features.words == other.features.words
    assert one.features.values.tobytes() == other.features.values.tobytes()
    assert len(np.unique(one.features.values)) > 3
    assert {str(skipped) for skipped in one.skipped} == {str(skipped) for skipped in other.skipped}
    by_worker = [thread for thread in asked if thread is not threading.current_thread()]
    assert bool(by_worker) == (weights == "imagenet")  # random weights would be others


def test_cached_features_of_clips_have_the_pictures_of_their_videos(clips, tmp_path):
    manifest = load_manifest(clips, VideoManifest)
    (tmp_path / TRUNK_NAME).write_bytes(b"weights")
    videos = sorted({example.video for example in manifest.examples})
    files = {video: features_file(number) for number, video in enumerate(videos)}
    for number, (video, file) in enumerate(files.items()):
        names = [example.name for example in manifest.examples if example.video == video]
        picture = cv2.imencode(".png", np.full((6, 9, 3), 10 * number, np.uint8))[1].tobytes()
        values = np.full((len(names), 5), number, np.float32)
        write_video_features(tmp_path / file, names, VideoFeatures(values, picture), "network")
    facts = VideoTrunkFacts(width=1, num_features=5, sha256="0" * 64)
    learned = LearnedVideos()
    write_features_manifest(tmp_path, manifest, files, trunk=facts, learned=learned, prepared_sha256="f" * 64)
    found = read(tmp_path)
    assert found.features.words == "5 features of the network that was given"
    assert found.features.values[-1].tolist() == [len(videos) - 1] * 5
    assert found.pictures[-1].shape == (6, 9, 3)
    assert (found.pictures[-1] == 10 * (len(videos) - 1)).all()
    with pytest.raises(InputError, match="has the features of clips and no images, so grey cannot"):
        read(tmp_path, features="grey")


def test_a_damaged_folder_is_refused(tissue, tmp_path):
    manifest = json.loads((tissue / "manifest.json").read_text(encoding="utf-8"))
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(InputError, match=r"cannot be read .* but manifest\.json lists it"):
        read(tmp_path)
    (tmp_path / "manifest.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="prepared for the application None"):
        read(tmp_path)
    for path in tissue.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "manifest.json").write_text(json.dumps(manifest | {"size": [16, 16]}), encoding="utf-8")
    with pytest.raises(
        InputError, match=r"manifest\.json: says that examples have the shape \[16, 16, 3\], but"
    ):
        read(tmp_path)
