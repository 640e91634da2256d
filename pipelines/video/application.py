"""The parts of the video application: clips or their features, the network, what is judged, the bundle.

The heads predict clips. A video is judged as one: the probabilities of its clips are averaged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import cv2
import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from rich.console import Console
from scipy import ndimage

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file
from data_prep.labelled.dataset import require_stored_shape
from data_prep.prepared.manifest import load_manifest
from data_prep.splits.divide import Splits
from data_prep.video.features import TRUNK_NAME, is_features_folder, read_features, read_picture
from data_prep.video.manifest import FeaturesManifest, LearnedVideos, VideoManifest
from gpmodels import HybridModel
from gpmodels.networks.feature_scaling import FeatureScaling
from gpmodels.networks.res3d import Res3D
from pipelines.bundles.metadata import SignatureDescription, clip_signatures
from pipelines.bundles.serving import ClipServer
from pipelines.labelled.classes import (
    ClassDeployment,
    ClassJudge,
    labelled_inputs,
    lacking_classes,
    likelihood,
)
from pipelines.labelled.data import LabelledData, PreparedImages, PreparedMatrix
from pipelines.labelled.pools import Pools, pool_of, pools_of
from pipelines.labelled.rivals import SupportVectorMachines, separable_classes
from pipelines.runs.application import Application, JudgedExample, Network
from pipelines.runs.description import PRETRAINING
from pipelines.runs.job import trained_job
from pipelines.runs.models import load_model
from pipelines.scores.pictures import Picture, side_by_side
from pipelines.video.settings import APPLICATION, TrainSettings, VideoRun
from pipelines.video.trunk import load_video_trunk, require_weights, start_from, video_trunk_facts

_OF_CLIPS = ("width", "weights", "augmentation")
_OF_FEATURES = ("svms",)
_SHOWN_FRAMES = 3
_FEATURES_SAMPLE = 100_000
_CLIPS_AT_ONCE = 8

VideoData = LabelledData[VideoManifest]


# Data


@dataclass(frozen=True)
class PreparedClips(PreparedImages[VideoManifest]):
    """Prepared clips of videos."""

    judged_at_once: ClassVar[int] = _CLIPS_AT_ONCE


@dataclass(frozen=True)
class PreparedFeatures(PreparedMatrix[VideoManifest]):
    """Cached features of all clips; a few hundred megabytes for the largest collections."""

    manifest: FeaturesManifest

    @cached_property
    def features(self) -> NDArray[np.float32]:
        """Features `[clips, D]` in the order of the manifest."""
        return read_features(self.folder, self.manifest)


def open_videos(folder: Path) -> PreparedClips | PreparedFeatures:
    """Return prepared clips, or the features that were extracted from them, checked.

    Raises:
        InputError: The folder cannot be used.
    """
    if is_features_folder(folder):
        return PreparedFeatures(folder, load_manifest(folder, FeaturesManifest))
    manifest = load_manifest(folder, VideoManifest)
    require_stored_shape(folder, manifest)
    return PreparedClips(folder, manifest)


def video_facts(data: VideoData, splits: Splits) -> dict[str, Any]:
    """Return how clips are cut, where features come from, and what the network learns from."""
    if isinstance(data, PreparedFeatures):
        trunk, learned = data.manifest.trunk, data.manifest.learned
    else:
        trunk = None
        learned = LearnedVideos(train=pools_of(splits.train), selection=pools_of(splits.selection))
    return {"clips": data.manifest.clip_settings, "trunk": trunk, "learned": learned}


def unheeded_settings(data: VideoData, _splits: Splits, settings: TrainSettings) -> list[str]:
    """Return a warning of settings that were changed although nothing heeds them for this kind of data."""
    if isinstance(data, PreparedFeatures):
        return ignored(settings, "features", _OF_CLIPS)
    return ignored(settings, "clips", _OF_FEATURES)


def require_kind(data: VideoData, model: Path, run: VideoRun) -> None:
    """Check that clips are cut as those of a run, or features are of the same network.

    Raises:
        InputError: They are not.
    """
    if data.manifest.clip_settings != run.clips:
        raise InputError(
            f"{data.folder} has clips cut by {data.manifest.clip_settings!r}, but {model} was trained on "
            f"{run.clips!r}. Prepare the videos with the same settings."
        )
    trunk = data.manifest.trunk if isinstance(data, PreparedFeatures) else None
    if trunk != run.trunk:
        expected = "prepared clips" if run.trunk is None else "features of the network it was trained on"
        found = "clips" if trunk is None else "features of another network"
        raise InputError(
            f"{data.folder} has {found if run.trunk else 'features'}, but {model} needs {expected}. "
            "Pass the folder of `gpimaging video prepare` for a run on clips, and that of `gpimaging "
            "video features` for a run on features."
        )


def keep_video_trunk(data: VideoData, run_folder: Path) -> None:
    """Copy the network that the features come from into the run: a bundle needs it."""
    if isinstance(data, PreparedFeatures):
        with atomic_file(run_folder / TRUNK_NAME) as temporary:
            temporary.write_bytes((data.folder / TRUNK_NAME).read_bytes())


# Network


def video_network(settings: TrainSettings, run: VideoRun) -> keras.Model:
    """Return an untrained Res3D, or for features nothing but their scale."""
    if run.trunk is not None:
        return FeatureScaling(name="scaling")
    return Res3D(settings.width, batch_norm_momentum=run.batch_norm_momentum)


def require_video_weights(settings: TrainSettings, run: VideoRun) -> None:
    """Raise `InputError` where a file of weights to begin with does not fit; features need no such file."""
    if settings.weights is not None and run.trunk is None:
        require_weights(settings.weights, settings.width)


def start_network(network: keras.Model, settings: TrainSettings, batches: tf.data.Dataset) -> None:
    """Give a network the scale of the training features, or the weights of a file."""
    if isinstance(network, FeatureScaling):
        rows = batches.unbatch().take(_FEATURES_SAMPLE).batch(_FEATURES_SAMPLE)
        network.adapt(next(iter(rows))[0].numpy())
    elif settings.weights is not None:
        start_from(network, settings.weights)


def video_shape(run: VideoRun) -> tuple[int | None, ...]:
    """Return the shape of batches of clips or of features."""
    return (None, *run.clip_shape) if run.trunk is None else (None, run.trunk.num_features)


def video_network_name(settings: TrainSettings, run: VideoRun) -> str:
    """Return what a bundle says of the network."""
    if run.trunk is None:
        return f"Res3D, width {settings.width}"
    return f"Res3D, width {run.trunk.width}, not trained with the heads"


def run_trunk(run_folder: Path, console: Console) -> tuple[Res3D, VideoRun]:
    """Return the network of a run that all of its heads began with, and the run.

    Raises:
        InputError: The run has not been trained that far, or is damaged.
    """
    job = trained_job(VIDEO, run_folder, console)
    if job.run.trunk is not None:
        return kept_trunk(run_folder, job.run), job.run
    return load_model(job, PRETRAINING).network, job.run


# What is judged


def video_of(example: Any) -> str:
    """Return the name of a clip's video."""
    return pool_of(example.name)


def video_picture(data: VideoData, example: JudgedExample) -> Picture:
    """Return some frames of the middle clip side by side."""
    if not isinstance(data, PreparedFeatures):
        return clip_strip(example.image)
    first = next(entry for entry in data.manifest.examples if entry.video == example.name)
    encoded = np.frombuffer(read_picture(data.folder, first), np.uint8)
    return np.asarray(cv2.imdecode(encoded, cv2.IMREAD_COLOR)[..., ::-1], np.uint8)


# Bundle


def with_trunk(model: HybridModel, run_folder: Path, run: VideoRun) -> HybridModel:
    """Return the model that takes clips: a run on features gets the network before it that they come from.

    Raises:
        InputError: The network is damaged, or not the one that the features come from.
    """
    if run.trunk is None:
        return model
    return model.with_trunk(kept_trunk(run_folder, run))


def clip_server(model: HybridModel, run: VideoRun) -> ClipServer:
    """Return the graph that predicts one class for each clip."""
    return ClipServer(model.inference_function(), run.clip_shape)


def signatures_of_clips(run: VideoRun, single_latent: bool) -> dict[str, SignatureDescription]:
    """Return the signatures of a bundle that takes clips."""
    return clip_signatures(run.class_names, run.clip_shape, single_latent=single_latent)


def inside_res3d(_run: VideoRun) -> str:
    """Return what Res3D does to clips itself, in words."""
    return "scaling by the channel means and deviations of torchvision's r3d_18."


def drifting_noise(run: VideoRun, _network: keras.Model) -> NDArray[np.uint8]:
    """Return a clip of smooth noise that drifts."""
    frames, height, width, _ = run.clip_shape
    noise = np.random.default_rng(0).normal(size=(height, width + 2 * frames))
    noise = ndimage.gaussian_filter(noise, 2.0)
    levels = np.round(255 * (noise - noise.min()) / max(np.ptp(noise), 1e-9)).astype(np.uint8)
    drifting = np.stack([levels[:, 2 * frame : 2 * frame + width] for frame in range(frames)])
    return np.repeat(drifting[..., None], 3, axis=-1)


def kept_trunk(run_folder: Path, run: VideoRun) -> Res3D:
    """Return the network that a run on features keeps.

    Raises:
        InputError: It is damaged, or not the one that the features come from.
    """
    path = run_folder / TRUNK_NAME
    trunk = load_video_trunk(path)
    if video_trunk_facts(trunk, run.clips) != run.trunk:
        raise InputError(
            f"{path} is not the network that the run's features come from. Put that one back, or train again."
        )
    return trunk


def learned_warnings(data: VideoData, splits: Splits, _settings: TrainSettings) -> list[str]:
    """Compare a split of features with the one that their network was trained with, and return warnings.

    Raises:
        InputError: The network learned from videos of the test part.
    """
    if not isinstance(data, PreparedFeatures):
        return []
    learned = data.manifest.learned
    seen = {*learned.train, *learned.selection}.intersection(pools_of(splits.test))
    if seen:
        raise InputError(
            f"{data.folder} has features of a network that learned from {len(seen)} of the videos to judge "
            f"by ({', '.join(sorted(seen)[:3])}): the scores would flatter. Train with the fold and the "
            "split that the network was trained with, or extract features with another network."
        )
    fitted = set(learned.train).intersection(pools_of(splits.selection))
    warning = (
        f"{len(fitted)} of the selection videos trained the network of the features: temperatures and best "
        "epochs chosen by them are too sure. Use the selection_fraction that the network was trained with."
    )
    return [warning] if fitted else []


def ignored(settings: TrainSettings, kind: str, names: Sequence[str]) -> list[str]:
    """Return which settings were changed although nothing heeds them for this kind of data."""
    defaults = TrainSettings()
    changed = [name for name in names if getattr(settings, name) != getattr(defaults, name)]
    return [f"{', '.join(changed)}: no use for training on {kind}"] if changed else []


def clip_strip(clips: Picture) -> Picture:
    """Return first, middle and last frame of the middle one of clips `[K, F, H, W, 3]`, side by side."""
    clip = clips[len(clips) // 2]
    places = np.linspace(0, len(clip) - 1, min(_SHOWN_FRAMES, len(clip)), dtype=int)
    return side_by_side([clip[place] for place in places])


def without_remapping() -> None:
    """Keep TensorFlow 2.21 from joining padding and convolutions: in gradients of Res3D that is an error."""
    tf.config.optimizer.set_experimental_options({"remapping": False})


VIDEO: Application[Any, TrainSettings, VideoRun] = Application(
    name=APPLICATION,
    title="Actions in videos",
    settings=TrainSettings,
    run=VideoRun,
    fixed_settings=("width", "weights", "augmentation", "steps_per_epoch", "class_balance"),
    fixed_gp_settings=("likelihood",),
    inputs=labelled_inputs(
        open=open_videos,
        facts=(video_facts,),
        checks=(lacking_classes, learned_warnings, separable_classes, unheeded_settings),
        fitting=(require_kind,),
        kept=(keep_video_trunk,),
    ),
    network=Network(
        make=video_network,
        name=video_network_name,
        input_shape=video_shape,
        require_start=require_video_weights,
        start=start_network,
        likelihood=likelihood,
    ),
    judge=ClassJudge(
        judged="videos",
        picture=video_picture,
        pools=Pools(video_of, predicted_at_once=_CLIPS_AT_ONCE),
    ),
    deployment=ClassDeployment(
        application="video",
        kind="clips",
        intended_use=(
            "Telling what happens in videos like those it was trained on, over time, with an uncertainty "
            "that says which parts a person should look at."
        ),
        limitations=(
            "It knows the classes it was trained on and no others: another action is given one of them, if "
            "with more uncertainty. Another camera, scene or speed is another kind of data. Judge it on your "
            "own labelled videos with `gpimaging video evaluate` before relying on it."
        ),
        preprocessing=(
            "cutting clips out of a video, frames resized and cropped, as preprocessing_settings says; "
            "`gpimaging video predict` does it."
        ),
        settings=lambda run: run.clips.model_dump(mode="json"),
        inside=inside_res3d,
        signatures=signatures_of_clips,
        server=clip_server,
        sample=drifting_noise,
        deployed=with_trunk,
    ),
    rivals=(SupportVectorMachines(projected=False),),
    pooled={"videos": video_of},
    before_training=without_remapping,
)
"""Actions in videos (thesis 4.4.3.1), from clips or from the cached features of a fixed network."""
