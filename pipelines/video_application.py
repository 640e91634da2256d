"""What the shared steps have to know of videos: clips or their features, network, what is judged, bundle.

The heads predict clips. A video is judged as one: the probabilities of its clips are averaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from scipy import ndimage

from data_prep.atomic import atomic_file
from data_prep.errors import InputError
from data_prep.manifest import load_manifest
from data_prep.splits import Splits
from data_prep.video_features import (
    TRUNK_NAME,
    is_features_folder,
    read_features,
    read_picture,
)
from data_prep.video_manifest import FeaturesManifest, LearnedVideos, VideoManifest
from gpmodels import HybridModel
from gpmodels.networks.feature_scaling import FeatureScaling
from gpmodels.networks.res3d import Res3D, res3d
from pipelines.bundle_metadata import SignatureDescription, clip_signatures
from pipelines.head_application import JudgedExample, Prepared
from pipelines.head_training import PRETRAINING
from pipelines.machines import cross_validation_parts, machine_predictors
from pipelines.overlays import Picture, side_by_side
from pipelines.pooled_application import PooledApplication, pools_of
from pipelines.predictors import Predictor
from pipelines.prepared_matrix import PreparedMatrix
from pipelines.runs import head_folder
from pipelines.serving import ClipServer
from pipelines.training import BEST, load_checkpoint
from pipelines.video_settings import TrainSettings, VideoRun
from pipelines.video_trunk import load_trunk, require_weights, start_from, trunk_facts

_OF_CLIPS = ("width", "weights", "augmentation")
_OF_FEATURES = ("machines",)
_SHOWN_FRAMES = 3
_FEATURES_SAMPLE = 100_000


@dataclass(frozen=True)
class PreparedFeatures(PreparedMatrix[VideoManifest]):
    """Cached features of all clips; a few hundred megabytes for the largest collections."""

    manifest: FeaturesManifest

    @cached_property
    def features(self) -> NDArray[np.float32]:
        """``[clips, features]`` in the order of the manifest."""
        return read_features(self.folder, self.manifest)


class VideoApplication(PooledApplication[TrainSettings, VideoRun, VideoManifest]):
    """Actions in videos (thesis 4.4.3.1), from clips or from the cached features of a fixed network."""

    name = "video"
    title = "Actions in videos"
    point = "clip"
    kind = "clips"
    judged = "videos"
    predicted_at_once = 8
    settings_class = TrainSettings
    run_class = VideoRun
    manifest_class = VideoManifest
    fixed_settings = ("width", "weights", "augmentation", "steps_per_epoch", "class_balance")
    preprocessing = (
        "cutting clips out of a video, frames resized and cropped, as preprocessing_settings says; "
        "`gpimaging video predict` does it."
    )
    intended_use = (
        "Telling what happens in videos like those it was trained on, over time, with an uncertainty that "
        "says which parts a person should look at."
    )
    limitations = (
        "It knows the classes it was trained on and no others: another action is given one of them, if with "
        "more uncertainty. Another camera, scene or speed is another kind of data. Judge it on your own "
        "labelled videos with `gpimaging video evaluate` before relying on it."
    )

    # Data

    def prepared(self, folder: Path) -> Prepared[VideoManifest]:
        """Prepared clips, or the features that were extracted from them."""
        if is_features_folder(folder):
            return PreparedFeatures(folder, load_manifest(folder, FeaturesManifest))
        return super().prepared(folder)

    def dataset(self, data: Prepared[VideoManifest], names: Sequence[str], **options: Any) -> tf.data.Dataset:
        """Batches of clips or of features, and labels."""
        if not isinstance(data, PreparedFeatures):
            return super().dataset(data, names, **options)
        return data.dataset(names, **options)

    def run_facts(self, data: Prepared[VideoManifest], splits: Splits) -> dict[str, Any]:
        """How clips are cut, where features come from, and what the network learns from."""
        if isinstance(data, PreparedFeatures):
            trunk, learned = data.manifest.trunk, data.manifest.learned
        else:
            trunk = None
            learned = LearnedVideos(train=pools_of(splits.train), selection=pools_of(splits.selection))
        facts = {"clips": data.manifest.clip_settings, "trunk": trunk, "learned": learned}
        return {**super().run_facts(data, splits), **facts}

    def check_training(
        self, data: Prepared[VideoManifest], splits: Splits, settings: TrainSettings, *, begins: bool
    ) -> list[str]:
        """What the steps after the first would stop at; what is ignored.

        Raises:
            InputError: The network of the features learned from what would be judged, a file of weights does
                not fit, or a class is too small for support vector machines.
        """
        warnings = super().check_training(data, splits, settings, begins=begins)
        if isinstance(data, PreparedFeatures):
            warnings += learned_warnings(data, splits)
            if settings.machines:
                cross_validation_parts(data.part(splits.train), data.manifest.class_names)
            return [*warnings, *ignored(settings, "features", _OF_CLIPS)]
        if begins and settings.weights is not None:
            require_weights(settings.weights, settings.width)
        return [*warnings, *ignored(settings, "clips", _OF_FEATURES)]

    def require_fitting(self, data: Prepared[VideoManifest], model: Path, run: VideoRun) -> None:
        """Check that clips are cut alike, or features are of the same network.

        Raises:
            InputError: They are not.
        """
        super().require_fitting(data, model, run)
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

    def keep_with_run(self, data: Prepared[VideoManifest], run_folder: Path) -> None:
        """Also the network that the features come from: a bundle needs it."""
        super().keep_with_run(data, run_folder)
        if isinstance(data, PreparedFeatures):
            with atomic_file(run_folder / TRUNK_NAME) as temporary:
                temporary.write_bytes((data.folder / TRUNK_NAME).read_bytes())

    def judged_at_once(self, data: Prepared[VideoManifest]) -> int:
        """Of features, which are small, many."""
        return 4096 if isinstance(data, PreparedFeatures) else self.predicted_at_once

    # Models

    def make_network(self, settings: TrainSettings, run: VideoRun) -> keras.Model:
        """Res3D, or of features nothing but their scale."""
        if run.trunk is not None:
            return FeatureScaling(name="scaling")
        return res3d(settings.width, batch_norm_momentum=run.batch_norm_momentum)

    def start_network(self, network: keras.Model, settings: TrainSettings, batches: tf.data.Dataset) -> None:
        """The scale of the training features, or weights of a file."""
        if isinstance(network, FeatureScaling):
            rows = batches.unbatch().take(_FEATURES_SAMPLE).batch(_FEATURES_SAMPLE)
            network.adapt(next(iter(rows))[0].numpy())
        elif settings.weights is not None:
            start_from(network, settings.weights)

    def input_shape(self, run: VideoRun) -> tuple[int | None, ...]:
        """Of clips or of features."""
        return (None, *run.clip_shape) if run.trunk is None else (None, run.trunk.num_features)

    def predictors(self, run_folder: Path, settings: TrainSettings, run: VideoRun) -> list[Predictor]:
        """Support vector machines first, where the run has them."""
        machines = machine_predictors(settings.machines, run_folder)
        return [*machines, *super().predictors(run_folder, settings, run)]

    def trunk(self, run_folder: Path) -> tuple[Res3D, VideoRun]:
        """The network of a run that all of its heads began with, and the run.

        Raises:
            InputError: The run has not been trained that far, or is damaged.
        """
        run, settings = self.trained_run(run_folder), self.run_settings(run_folder)
        if run.trunk is not None:
            return kept_trunk(run_folder, run), run
        model = self.make_model("linear", settings, run)
        load_checkpoint(model, head_folder(run_folder, PRETRAINING) / BEST)
        return model.network, run

    # What is judged

    def inputs(
        self, data: Prepared[VideoManifest], names: Sequence[str]
    ) -> Iterator[tuple[str, NDArray[Any], int]]:
        """Clips, or their features, and labels."""
        if not isinstance(data, PreparedFeatures):
            return super().inputs(data, names)
        return data.inputs(names)

    def picture(self, data: Prepared[VideoManifest], example: JudgedExample) -> Picture:
        """Some frames of the middle clip side by side."""
        if not isinstance(data, PreparedFeatures):
            return clip_strip(example.image)
        first = next(entry for entry in data.manifest.examples if entry.video == example.name)
        encoded = np.frombuffer(read_picture(data.folder, first), np.uint8)
        return np.asarray(cv2.imdecode(encoded, cv2.IMREAD_COLOR)[..., ::-1], np.uint8)

    # Bundle

    def deployed_model(self, run_folder: Path, model: HybridModel) -> HybridModel:
        """A run on features gets the network before it that they come from."""
        if not isinstance(model.network, FeatureScaling):
            return model
        trunk = kept_trunk(run_folder, self.trained_run(run_folder))
        whole = keras.Sequential([trunk, model.network])
        return HybridModel(whole, model.head, num_data=model.num_data)

    def server(self, model: HybridModel, run: VideoRun) -> ClipServer:
        """One prediction for each clip."""
        return ClipServer(model.inference_function(), run.clip_shape, model.inference_holders)

    def inside(self, run: VideoRun) -> str:  # noqa: ARG002 - the base class has it
        """What Res3D does itself."""
        return "scaling by the channel means and deviations of torchvision's r3d_18."

    def signatures(self, run: VideoRun, *, single_latent: bool) -> dict[str, SignatureDescription]:
        """Of clips."""
        return clip_signatures(run.class_names, run.clip_shape, single_latent=single_latent)

    def network_name(self, settings: TrainSettings, run: VideoRun) -> str:
        """With its width."""
        if run.trunk is None:
            return f"Res3D, width {settings.width}"
        return f"Res3D, width {run.trunk.width}, not trained with the heads"

    def preprocessing_settings(self, run: VideoRun) -> dict[str, Any]:
        """How clips are cut."""
        return run.clips.model_dump(mode="json")

    def sample(self, run: VideoRun, network: keras.Model) -> NDArray[np.uint8]:  # noqa: ARG002 - others need it
        """Smooth noise that drifts."""
        frames, height, width, _ = run.clip_shape
        noise = np.random.default_rng(0).normal(size=(height, width + 2 * frames))
        noise = ndimage.gaussian_filter(noise, 2.0)
        levels = np.round(255 * (noise - noise.min()) / max(np.ptp(noise), 1e-9)).astype(np.uint8)
        drifting = np.stack([levels[:, 2 * frame : 2 * frame + width] for frame in range(frames)])
        return np.repeat(drifting[..., None], 3, axis=-1)


def kept_trunk(run_folder: Path, run: VideoRun) -> Res3D:
    """The network that a run on features keeps.

    Raises:
        InputError: It is damaged, or not the one that the features come from.
    """
    path = run_folder / TRUNK_NAME
    trunk = load_trunk(path)
    if trunk_facts(trunk, run.clips) != run.trunk:
        raise InputError(
            f"{path} is not the network that the run's features come from. Put that one back, or train again."
        )
    return trunk


def learned_warnings(data: PreparedFeatures, splits: Splits) -> list[str]:
    """Hold a split of features against the one that their network was trained with.

    Raises:
        InputError: The network learned from videos of the test part.
    """
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
    """Say which settings were changed although nothing heeds them for this kind of data."""
    defaults = TrainSettings()
    changed = [name for name in names if getattr(settings, name) != getattr(defaults, name)]
    return [f"{', '.join(changed)}: no use for training on {kind}"] if changed else []


def clip_strip(clips: Picture) -> Picture:
    """First, middle and last frame of the middle one of clips ``[K, F, H, W, 3]``, side by side."""
    clip = clips[len(clips) // 2]
    places = np.linspace(0, len(clip) - 1, min(_SHOWN_FRAMES, len(clip)), dtype=int)
    return side_by_side([clip[place] for place in places])


VIDEO = VideoApplication()
"""The application; it has no state."""
