"""The cache of features: what is stored comes back, nothing stale or damaged is used."""

from pathlib import Path

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.prepared.manifest import load_manifest
from data_prep.video.features import (
    TRUNK_NAME,
    VideoFeatures,
    features_file,
    has_features,
    is_cached,
    is_features_folder,
    read_features,
    read_picture,
    write_features_manifest,
    write_video_features,
)
from data_prep.video.manifest import (
    FeaturesManifest,
    LearnedVideos,
    VideoExample,
    VideoManifest,
    VideoTrunkFacts,
)
from data_prep.video.settings import VideoPrepareSettings

CLIPS = {"a/x": 2, "a/y": 1, "b/z": 3}
TRUNK = VideoTrunkFacts(width=4, num_features=5, sha256="0" * 64)


def clips_manifest() -> VideoManifest:
    examples = tuple(
        VideoExample(
            name=f"{video}/clip_{number:04d}",
            shard="s",
            offset=0,
            length=1,
            height=8,
            width=8,
            group=video,
            split="train",
            label=int(video.startswith("b")),
            video=video,
            start_seconds=0.0,
            end_seconds=1.0,
        )
        for video, count in CLIPS.items()
        for number in range(1, count + 1)
    )
    return VideoManifest(
        class_names=("a", "b"),
        size=(8, 8),
        frames=2,
        settings=VideoPrepareSettings(frames=2, size=(8, 8), resize=(8, 8)).model_dump(mode="json"),
        num_examples=len(examples),
        num_skipped=0,
        examples=examples,
        sha256={"s": ""},
    )


def clip_names(video: str) -> list[str]:
    return [f"{video}/clip_{number:04d}" for number in range(1, CLIPS[video] + 1)]


def stored(video: str) -> np.ndarray:
    return np.full((CLIPS[video], 5), list(CLIPS).index(video), np.float32) + np.arange(5, dtype=np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / TRUNK_NAME).write_bytes(b"weights")
    files = {video: features_file(number) for number, video in enumerate(CLIPS)}
    for video, file in files.items():
        cached = VideoFeatures(stored(video), f"picture of {video}".encode())
        write_video_features(tmp_path / file, clip_names(video), cached, "network and clips")
    write_features_manifest(
        tmp_path, clips_manifest(), files, trunk=TRUNK, learned=LearnedVideos(), prepared_sha256="f" * 64
    )
    return tmp_path


def test_features_come_back_in_the_order_of_the_clips(folder):
    manifest = load_manifest(folder, FeaturesManifest)
    assert is_features_folder(folder)
    assert [e.name for e in manifest.examples] == [e.name for e in clips_manifest().examples]
    assert (manifest.shape, manifest.trunk) == ((5,), TRUNK)
    np.testing.assert_array_equal(
        read_features(folder, manifest), np.concatenate([stored(video) for video in CLIPS])
    )
    assert read_picture(folder, manifest.examples[-1]) == b"picture of b/z"


def test_what_another_network_or_other_clips_left_is_refused(folder):
    path = folder / features_file(0)
    assert is_cached(path, clip_names("a/x"), "network and clips")
    assert not is_cached(folder / features_file(9), clip_names("a/x"), "network and clips")
    for clips, identity in ((clip_names("a/x"), "another network"), (clip_names("b/z"), "network and clips")):
        with pytest.raises(InputError, match="another network or of other clips"):
            is_cached(path, clips, identity)


def test_features_are_told_from_clips_runs_and_what_is_not_complete(folder):
    (folder / "run.json").touch()
    assert not is_features_folder(folder)  # a run keeps the network too
    assert not has_features(folder)
    (folder / "run.json").unlink()
    (folder / "manifest.json").unlink()
    with pytest.raises(InputError, match="Go on with `gpimaging video features --resume`"):
        is_features_folder(folder)
    assert has_features(folder)
    (folder / TRUNK_NAME).unlink()
    assert not is_features_folder(folder)


def test_damaged_files_are_named(folder):
    path = folder / features_file(1)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=r"does not match manifest\.json"):
        load_manifest(folder, FeaturesManifest)
    with pytest.raises(InputError, match=rf"{path.name}: cannot be read"):
        is_cached(path, clip_names("a/y"), "network and clips")


def test_a_file_of_an_unknown_compression_is_named(folder):
    path = folder / features_file(1)
    content = bytearray(path.read_bytes())
    start = -1
    while (start := content.find(b"PK\x01\x02", start + 1)) >= 0:
        content[start + 10] = 99
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{path.name}: cannot be read .*compression"):
        is_cached(path, clip_names("a/y"), "network and clips")
