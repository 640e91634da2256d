"""Features of prepared clips, cached for each video; interrupted, it goes on where it was."""

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.errors import InputError, Skipped
from data_prep.files.fitting import fit_within
from data_prep.files.images import encode_picture
from data_prep.labelled.dataset import labelled_records
from data_prep.prepared.manifest import MANIFEST_NAME, file_sha256, read_manifest
from data_prep.prepared.preparing import Progress
from data_prep.prepared.workers import Cluster
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
    VideoManifest,
    VideoTrunkFacts,
)
from gpmodels.networks.res3d import Res3D
from pipelines.command.remote import other_file_seen, work_with_tensorflow
from pipelines.runs.precision import Precision, network_arithmetic
from pipelines.scores.pictures import Picture
from pipelines.video.application import PreparedClips, clip_strip
from pipelines.video.trunk import load_video_trunk, save_video_trunk, video_trunk_facts

_LONGEST_SIDE = 480  # pixels of the picture of a video


@dataclass(frozen=True)
class Extraction:
    """What was extracted, and how long it took.

    Attributes:
        manifest: Of the folder of features.
        videos: Extracted now; the others were there already.
        frames: Extracted now.
        reading_seconds: Reading prepared clips; they were decoded by `prepare`. Of all workers together.
        network_seconds: In the network, without its first call, which pays for tracing. Of all workers
            together.
    """

    manifest: FeaturesManifest
    videos: int
    frames: int
    reading_seconds: float
    network_seconds: float


@dataclass(frozen=True)
class ExtractedVideo:
    """What was extracted of one video, and how long it took.

    Attributes:
        cached: Features and picture.
        frames: Of all its clips.
        reading_seconds: Reading its clips.
        network_seconds: In the network.
    """

    cached: VideoFeatures
    frames: int
    reading_seconds: float
    network_seconds: float


class VideoExtractor:
    """Extracts the features of one video after another, here or on a worker of a cluster.

    Args:
        folder: Prepared clips.
        manifest: Their manifest.
        trunk: The network.
        clips_at_once: How many clips of one video the network takes at a time.
    """

    def __init__(self, folder: Path, manifest: VideoManifest, trunk: Res3D, clips_at_once: int) -> None:
        shape = manifest.shape
        spec = tf.TensorSpec([None, *shape], tf.uint8)
        self._predict: Callable[[tf.Tensor], tf.Tensor] = tf.function(
            lambda clips: trunk(clips, training=False), input_signature=[spec], autograph=False
        )
        self._predict(tf.zeros([1, *shape], tf.uint8))
        self._folder, self._manifest, self._clips_at_once = folder, manifest, clips_at_once
        self._clips = clips_of_videos(manifest)

    def __call__(self, video: str) -> ExtractedVideo:
        """Return the features and the picture of a video.

        Args:
            video: Name of the video.
        """
        started = time.perf_counter()
        records = labelled_records(self._folder, self._manifest, self._clips[video])
        images: Picture = np.stack([clip for _, clip, _ in records])
        reading = time.perf_counter() - started
        picture = encode_picture(fit_within(clip_strip(images), _LONGEST_SIDE), ".jpg")
        started = time.perf_counter()
        features = self._features(images)
        network = time.perf_counter() - started
        return ExtractedVideo(
            VideoFeatures(features, picture), images.shape[0] * images.shape[1], reading, network
        )

    def _features(self, clips: Picture) -> NDArray[np.float32]:
        starts = range(0, len(clips), self._clips_at_once)
        parts = [self._predict(tf.constant(clips[at : at + self._clips_at_once])).numpy() for at in starts]
        return np.concatenate(parts)


@dataclass(frozen=True, kw_only=True)
class VideoExtractorFactory:
    """How a worker makes what extracts features; it opens the network and the manifest once.

    Attributes:
        data: Prepared clips, which all workers see.
        prepared_sha256: Of their manifest, so that a worker never reads others.
        trunk: File of the network, which all workers see.
        facts: Of the network and of how clips are cut.
        precision: Arithmetic of the network.
        clips_at_once: How many clips of one video the network takes at a time.
    """

    data: Path
    prepared_sha256: str
    trunk: Path
    facts: VideoTrunkFacts
    precision: Precision
    clips_at_once: int

    def open(self) -> VideoExtractor:
        """Return what extracts the features of a video.

        Raises:
            InputError: The worker sees other files than the command.
        """
        content = read_manifest(self.data)
        if hashlib.sha256(content).hexdigest() != self.prepared_sha256:
            raise other_file_seen(self.data / MANIFEST_NAME)
        manifest = VideoManifest.model_validate_json(content)
        with network_arithmetic(self.precision):
            trunk = load_video_trunk(self.trunk)
        if video_trunk_facts(trunk, manifest.clip_settings) != self.facts:
            raise other_file_seen(self.trunk)
        return VideoExtractor(self.data, manifest, trunk, self.clips_at_once)


def extract_features(
    data: PreparedClips,
    trunk: Res3D,
    out: Path,
    *,
    learned: LearnedVideos,
    clips_at_once: int,
    progress: Progress | None = None,
    cluster: Cluster | None = None,
) -> Extraction:
    """Run a network over all clips of a prepared folder.

    Args:
        data: Prepared clips.
        trunk: The network.
        out: Folder of features, existing; what is there of the same network and clips is kept.
        learned: Videos that the network learned from.
        clips_at_once: How many clips of one video the network takes at a time.
        progress: Called after each video.
        cluster: Whose workers run the network, a video at a time; None for this process.

    Raises:
        ClusterLost: The cluster no longer answers; what is extracted is kept.
        InputError: `out` has features of another network or of other clips, or cannot be written; or a video
            ended every worker that took it.
    """
    facts = video_trunk_facts(trunk, data.manifest.clip_settings)
    prepared_sha256 = file_sha256(data.folder / MANIFEST_NAME)
    known = f"{facts.sha256} {prepared_sha256} {learned.model_dump_json()}"
    identity = hashlib.sha256(known.encode()).hexdigest()
    _keep_trunk(trunk, facts, data.manifest, out)
    clips = clips_of_videos(data.manifest)
    files = {video: features_file(number) for number, video in enumerate(clips)}
    missing = [video for video in clips if not is_cached(out / files[video], clips[video], identity)]
    extracted: Iterator[ExtractedVideo | Skipped]
    if cluster is None:
        extracted = map(VideoExtractor(data.folder, data.manifest, trunk, clips_at_once), missing)
    else:
        factory = VideoExtractorFactory(
            data=data.folder,
            prepared_sha256=prepared_sha256,
            trunk=out / TRUNK_NAME,
            facts=facts,
            precision="bfloat16" if trunk.compute_dtype == "bfloat16" else "float32",
            clips_at_once=clips_at_once,
        )
        extracted = work_with_tensorflow(cluster, factory.open, missing, Path)
    frames, reading, network = 0, 0.0, 0.0
    for done, (video, result) in enumerate(
        zip(missing, extracted, strict=True), len(clips) - len(missing) + 1
    ):
        if isinstance(result, Skipped):
            raise InputError(f"{result.reason} What is extracted is kept: go on with --resume.")
        write_video_features(out / files[video], clips[video], result.cached, identity)
        frames += result.frames
        reading += result.reading_seconds
        network += result.network_seconds
        if progress is not None:
            progress("Extracting features", done, len(clips))
    manifest = write_features_manifest(
        out, data.manifest, files, trunk=facts, learned=learned, prepared_sha256=prepared_sha256
    )
    return Extraction(manifest, len(missing), frames, reading, network)


def clips_of_videos(manifest: VideoManifest) -> dict[str, list[str]]:
    """Return the names of the clips of each video, in the order of the manifest."""
    of_videos = groupby(manifest.examples, key=lambda example: example.video)
    return {video: [example.name for example in examples] for video, examples in of_videos}


def _keep_trunk(trunk: Res3D, facts: VideoTrunkFacts, manifest: VideoManifest, out: Path) -> None:
    """Write the network beside its features, or check the one that is there."""
    path = out / TRUNK_NAME
    if not path.exists():
        save_video_trunk(trunk, path)
    elif video_trunk_facts(load_video_trunk(path), manifest.clip_settings) != facts:
        raise InputError(
            f"{out} has features of another network or of other clips than those given now. Expected the "
            "same ones, to go on with. Choose another --out, or remove this folder."
        )
