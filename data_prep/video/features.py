"""Cached features of video clips: one `.npz` file for each video, and a manifest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError
from data_prep.files.arrays import read_arrays
from data_prep.files.atomic import atomic_file, write_text
from data_prep.prepared.manifest import MANIFEST_NAME, file_sha256
from data_prep.video.manifest import (
    FeaturesExample,
    FeaturesManifest,
    LearnedVideos,
    VideoManifest,
    VideoTrunkFacts,
)

TRUNK_NAME = "trunk.safetensors"

_ENTRIES = {"identity", "clips", "features", "picture"}


@dataclass(frozen=True)
class VideoFeatures:
    """What is cached of one video.

    Attributes:
        features: float32 [clips, features].
        picture: A JPEG or PNG file to know the video by.
    """

    features: npt.NDArray[np.float32]
    picture: bytes


def features_file(number: int) -> str:
    """Return the name of the file of features of a video, by the video's number in the order of names."""
    return f"video-{number:06d}.npz"


def write_video_features(path: Path, clips: Sequence[str], cached: VideoFeatures, identity: str) -> None:
    """Write the file of features of a video.

    Args:
        path: The file.
        clips: Names of the video's clips.
        cached: Features of the clips, and the picture.
        identity: Identity of network and clips: what the features depend on.

    Raises:
        InputError: The file cannot be written.
    """
    with atomic_file(path) as temporary:
        np.savez(
            temporary,
            identity=np.array(identity),
            clips=np.array(list(clips)),
            features=cached.features,
            picture=np.frombuffer(cached.picture, np.uint8),
        )


def is_cached(path: Path, clips: Sequence[str], identity: str) -> bool:
    """Whether the file of features of a video is there, with the features that are wanted.

    Args:
        path: File of the video's features.
        clips: Names of the video's clips.
        identity: Identity of network and clips.

    Raises:
        InputError: The file is there, but was written from another network or other clips, or is damaged.
    """
    if not path.exists():
        return False
    stored = _read(path)
    if str(stored["identity"]) != identity or stored["clips"].tolist() != list(clips):
        raise InputError(
            f"{path}: has features of another network or of other clips than those given now. Expected the "
            "same ones, to go on with. Choose another output folder, or remove this one."
        )
    return True


def read_features(folder: Path, manifest: FeaturesManifest) -> npt.NDArray[np.float32]:
    """Read the features of all clips, float32 [clips, features] in the order of the manifest's examples.

    Args:
        folder: Folder of features.
        manifest: Manifest of the folder.

    Raises:
        InputError: A file does not hold what the manifest says.
    """
    features = np.empty((len(manifest.examples), manifest.trunk.num_features), np.float32)
    start = 0
    for name, examples in groupby(manifest.examples, key=lambda example: example.shard):
        rows = [example.offset for example in examples]
        stored = _read(folder / name)["features"]
        if stored.ndim != 2 or stored.shape[1] != features.shape[1] or max(rows) >= len(stored):
            raise InputError(
                f"{folder / name}: has features of shape {stored.shape}; expected {features.shape[1]} of "
                f"each of {max(rows) + 1} clips. Extract the features again."
            )
        features[start : start + len(rows)] = stored[rows]
        start += len(rows)
    return features


def read_picture(folder: Path, example: FeaturesExample) -> bytes:
    """Return the picture of a clip's video, as the bytes of a JPEG or PNG file.

    Args:
        folder: Folder of features.
        example: Entry of the clip in the manifest.

    Raises:
        InputError: The file is damaged.
    """
    return _read(folder / example.shard)["picture"].tobytes()


def has_features(folder: Path) -> bool:
    """Whether a folder has features, all or some, and is not a run, which keeps the network too."""
    return (folder / TRUNK_NAME).is_file() and not (folder / "run.json").exists()


def is_features_folder(folder: Path) -> bool:
    """Whether a prepared folder has features and not clips.

    Raises:
        InputError: The extraction of the features was interrupted.
    """
    if not has_features(folder):
        return False
    if not (folder / MANIFEST_NAME).is_file():
        raise InputError(
            f"{folder}: its extraction is incomplete. Go on with `gpimaging video features --resume` and the "
            "data and network that it was begun with."
        )
    return True


def write_features_manifest(
    folder: Path,
    clips: VideoManifest,
    files: Mapping[str, str],
    *,
    trunk: VideoTrunkFacts,
    learned: LearnedVideos,
    prepared_sha256: str,
) -> FeaturesManifest:
    """Complete a folder of features: with its manifest it can be used.

    Args:
        folder: Folder that has the file of every video, and the network.
        clips: Manifest of the clips.
        files: The file of each video, by the video's name.
        trunk: Facts of the network.
        learned: Videos that the network learned from.
        prepared_sha256: SHA-256 of the manifest of the clips.

    Returns:
        The manifest that was written.

    Raises:
        InputError: The file cannot be written.
    """
    rows: dict[str, int] = {}
    examples = []
    for example in clips.examples:
        row = rows.get(example.video, 0)
        rows[example.video] = row + 1
        position = {"shard": files[example.video], "offset": row, "length": 1}
        examples.append(FeaturesExample.model_validate({**example.model_dump(), **position}))
    names = [TRUNK_NAME, *files.values()]
    fields = {name: getattr(clips, name) for name in VideoManifest.model_fields}
    fields |= {"examples": tuple(examples), "sha256": {name: file_sha256(folder / name) for name in names}}
    manifest = FeaturesManifest(**fields, trunk=trunk, learned=learned, prepared_sha256=prepared_sha256)
    write_text(folder / MANIFEST_NAME, manifest.model_dump_json(indent=1) + "\n")
    return manifest


def _read(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        arrays = read_arrays(path)
        if _ENTRIES - set(arrays):
            raise ValueError(f"expected the arrays {', '.join(sorted(_ENTRIES))}")
    except ValueError as error:
        raise InputError(
            f"{path}: cannot be read ({error}). Expected the cached features of a video. Remove the file and "
            "extract the features again with --resume."
        ) from error
    return arrays
