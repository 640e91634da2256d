"""Features of prepared clips, cached for each video; interrupted, it goes on where it was."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.errors import InputError
from data_prep.files.fitting import fit_within
from data_prep.files.images import encode_picture
from data_prep.labelled.dataset import labelled_records
from data_prep.prepared.manifest import MANIFEST_NAME, file_sha256
from data_prep.prepared.preparing import Progress
from data_prep.video.features import (
    TRUNK_NAME,
    VideoFeatures,
    features_file,
    is_cached,
    write_features_manifest,
    write_video_features,
)
from data_prep.video.manifest import (
    FeaturesManifest,
    LearnedVideos,
    TrunkFacts,
    VideoManifest,
)
from gpmodels.networks.res3d import Res3D
from pipelines.scores.pictures import Picture
from pipelines.video.application import PreparedClips, clip_strip
from pipelines.video.trunk import load_trunk, save_trunk, trunk_facts

_LONGEST_SIDE = 480  # pixels of the picture of a video


@dataclass(frozen=True)
class Extraction:
    """What was extracted, and how long it took.

    Attributes:
        manifest: Of the folder of features.
        videos: Extracted now; the others were there already.
        frames: Extracted now.
        reading_seconds: Reading prepared clips; they were decoded by `prepare`.
        network_seconds: In the network, without its first call, which pays for tracing.
    """

    manifest: FeaturesManifest
    videos: int
    frames: int
    reading_seconds: float
    network_seconds: float


def extract_features(
    data: PreparedClips,
    trunk: Res3D,
    out: Path,
    *,
    learned: LearnedVideos,
    clips_at_once: int,
    progress: Progress | None = None,
) -> Extraction:
    """Run a network over all clips of a prepared folder.

    Args:
        data: Prepared clips.
        trunk: The network.
        out: Folder of features, existing; what is there of the same network and clips is kept.
        learned: Videos that the network learned from.
        clips_at_once: How many clips the network takes at a time.
        progress: Called after each video.

    Raises:
        InputError: `out` has features of another network or of other clips, or cannot be written.
    """
    facts = trunk_facts(trunk, data.manifest.clip_settings)
    prepared_sha256 = file_sha256(data.folder / MANIFEST_NAME)
    known = f"{facts.sha256} {prepared_sha256} {learned.model_dump_json()}"
    identity = hashlib.sha256(known.encode()).hexdigest()
    _keep_trunk(trunk, facts, data.manifest, out)
    network = _Network(trunk, clips_at_once, data.manifest.shape)
    of_videos = groupby(data.manifest.examples, key=lambda example: example.video)
    names = [(video, [example.name for example in examples]) for video, examples in of_videos]
    files = {video: features_file(number) for number, (video, _) in enumerate(names)}
    extracted, frames, reading = 0, 0, 0.0
    for done, (video, clips) in enumerate(names, 1):
        path = out / files[video]
        if not is_cached(path, clips, identity):
            started = time.perf_counter()
            images = np.stack([clip for _, clip, _ in labelled_records(data.folder, data.manifest, clips)])
            reading += time.perf_counter() - started
            picture = encode_picture(fit_within(clip_strip(images), _LONGEST_SIDE), ".jpg")
            cached = VideoFeatures(network(images), picture)
            write_video_features(path, clips, cached, identity)
            extracted, frames = extracted + 1, frames + images.shape[0] * images.shape[1]
        if progress is not None:
            progress("Extracting features", done, len(names))
    manifest = write_features_manifest(
        out, data.manifest, files, trunk=facts, learned=learned, prepared_sha256=prepared_sha256
    )
    return Extraction(manifest, extracted, frames, reading, network.seconds)


def _keep_trunk(trunk: Res3D, facts: TrunkFacts, manifest: VideoManifest, out: Path) -> None:
    """Write the network beside its features, or check the one that is there."""
    path = out / TRUNK_NAME
    if not path.exists():
        save_trunk(trunk, path)
    elif trunk_facts(load_trunk(path), manifest.clip_settings) != facts:
        raise InputError(
            f"{out} has features of another network or of other clips than those given now. Expected the "
            "same ones, to go on with. Choose another --out, or remove this folder."
        )


class _Network:
    """A network that counts its seconds."""

    def __init__(self, trunk: Res3D, clips_at_once: int, shape: tuple[int, ...]) -> None:
        spec = tf.TensorSpec([None, *shape], tf.uint8)
        self._predict: Callable[[tf.Tensor], tf.Tensor] = tf.function(
            lambda clips: trunk(clips, training=False), input_signature=[spec], autograph=False
        )
        self._predict(tf.zeros([1, *shape], tf.uint8))
        self._clips_at_once = clips_at_once
        self.seconds = 0.0

    def __call__(self, clips: Picture) -> NDArray[np.float32]:
        started = time.perf_counter()
        starts = range(0, len(clips), self._clips_at_once)
        parts = [self._predict(tf.constant(clips[at : at + self._clips_at_once])).numpy() for at in starts]
        self.seconds += time.perf_counter() - started
        return np.concatenate(parts)
