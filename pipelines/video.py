"""The video application: what each step of ``gpimaging video`` does.

prepare (in :mod:`data_prep.video`) -> [features ->] train -> evaluate -> export -> predict. Each step takes
settings and folders, writes one folder, and says what it did on a console.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import tensorflow as tf
from rich.console import Console

from data_prep.errors import InputError
from data_prep.labelled_preparing import PrepareResult
from data_prep.splits import manifest_splits
from data_prep.video import prepare_video
from data_prep.video_features import has_features
from data_prep.video_manifest import LearnedVideos, VideoManifest
from data_prep.video_settings import ClipSettings, VideoPrepareSettings
from data_prep.videos import VIDEO_SUFFIXES
from gpmodels.networks.res3d import Res3D
from pipelines import head_evaluation, head_export, head_training
from pipelines.bundle import load_signatures
from pipelines.bundle_metadata import load_metadata
from pipelines.config import CONFIG_NAME, dump_settings
from pipelines.head_application import Prepared
from pipelines.labelled_steps import bundle_preprocessing, predict_sources, say_prepared
from pipelines.machines import train_machines
from pipelines.prediction import find_sources
from pipelines.progress import stage_bars
from pipelines.video_application import VIDEO, PreparedFeatures
from pipelines.video_extraction import Extraction, extract_features
from pipelines.video_prediction import VideoPrediction, VideoPredictor, columns
from pipelines.video_settings import FeaturesSettings, PredictSettings, TrainSettings, VideoRun
from pipelines.video_trunk import load_trunk

evaluate = partial(head_evaluation.evaluate, VIDEO)
export = partial(head_export.export, VIDEO)


def prepare(
    settings: VideoPrepareSettings,
    *,
    videos: Path,
    out: Path,
    jobs: int,
    overwrite: bool,
    console: Console,
) -> PrepareResult[VideoManifest]:
    """Turn videos into prepared clips; see :func:`data_prep.video.prepare_video`.

    Raises:
        InputError: No video can be used, or ``out`` cannot be written.
    """
    with stage_bars(console) as advance:
        result = prepare_video(videos, out, settings, jobs=jobs, overwrite=overwrite, progress=advance)
    manifest = result.manifest
    judged = {example.video: example for example in manifest.examples}
    shape = " x ".join(map(str, manifest.shape[:3]))
    written = f"{manifest.num_examples} clips ({shape}) of {len(judged)} videos"
    say_prepared(result, judged.values(), out, console, written=written, warnings=manifest.notes)
    return result


def features(
    settings: FeaturesSettings,
    *,
    data: Path,
    weights: Path | None,
    model: Path | None,
    out: Path,
    resume: bool,
    console: Console,
) -> Extraction:
    """Cache the features of all prepared clips.

    Args:
        settings: How many clips at a time.
        data: Prepared clips.
        weights: File of weights of torchvision's ``r3d_18``.
        model: Instead, a run whose network is wanted.
        out: Folder of features.
        resume: Go on where an earlier call stopped.
        console: For progress.

    Raises:
        InputError: Neither or both of ``weights`` and ``model`` are given or they do not fit; ``out`` has
            other features, or cannot be written.
    """
    prepared = VIDEO.prepared(data)
    if isinstance(prepared, PreparedFeatures):
        raise InputError(f"{data} has features already. Pass the folder of `gpimaging video prepare`.")
    _require_own_folder(out, (data,) if model is None else (data, model), resume=resume)
    trunk, learned = _chosen_trunk(prepared, weights, model)
    out.mkdir(parents=True, exist_ok=True)
    with stage_bars(console) as advance:
        extraction = extract_features(
            prepared, trunk, out, learned=learned, clips_at_once=settings.clips_at_once, progress=advance
        )
    dump_settings(settings, out / CONFIG_NAME)
    say_extracted(extraction, out, console)
    return extraction


def _require_own_folder(out: Path, others: Sequence[Path], *, resume: bool) -> None:
    """Features go into a folder of their own, and on with them only with ``resume``."""
    if out.resolve() in {other.resolve() for other in others}:
        raise InputError(f"{out} is the folder of --data or --model. Give features a folder of their own.")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not has_features(out):
        raise InputError(f"{out} already exists and has no features to go on with. Choose another --out.")
    if not resume:
        raise InputError(f"{out} already has features. Go on with --resume, or choose another --out.")


def _chosen_trunk(
    data: Prepared[VideoManifest], weights: Path | None, model: Path | None
) -> tuple[Res3D, LearnedVideos]:
    """The network, and what it learned from: of a file of weights nobody knows."""
    if weights is not None and model is None:
        return load_trunk(weights), LearnedVideos()
    if model is not None and weights is None:
        trunk, run = VIDEO.trunk(model)
        if run.clips != data.manifest.clip_settings:
            raise InputError(
                f"{data.folder} has clips cut by {data.manifest.clip_settings!r}, but {model} was trained on "
                f"{run.clips!r}. Prepare the videos with the same settings."
            )
        return trunk, run.learned
    raise InputError(
        "Features need one network: pass either --weights, a file of torchvision's r3d_18, or --model, a run "
        "of `gpimaging video train`."
    )


def train(settings: TrainSettings, *, data: Path, out: Path, resume: bool, console: Console) -> VideoRun:
    """Train the heads, on clips with the network, on cached features alone and with machines to compare.

    Raises:
        InputError: The data cannot be used, or ``out`` holds another run.
        TrainingDiverged: The loss became NaN; the last good checkpoint is kept.
    """
    # TensorFlow 2.21 fails to join the padding of Res3D with its convolutions where there are gradients, and
    # writes an error about it each time.
    tf.config.optimizer.set_experimental_options({"remapping": False})
    run = head_training.train(VIDEO, settings, data=data, out=out, resume=resume, console=console)
    prepared = VIDEO.prepared(data)
    if isinstance(prepared, PreparedFeatures):
        splits = manifest_splits(
            prepared.manifest, fold=settings.fold, selection_fraction=settings.selection_fraction
        )
        train_machines(
            settings.machines,
            prepared.part(splits.train),
            prepared.part(splits.selection),
            prepared.manifest.class_names,
            run=out,
            seed=settings.seed,
            console=console,
        )
    return run


def predict(
    settings: PredictSettings, *, inputs: Sequence[Path], model: Path, out: Path, console: Console
) -> list[VideoPrediction]:
    """Predict videos over time with a bundle; nothing else of the training is needed.

    Raises:
        InputError: The bundle cannot be loaded, or nothing can be predicted.
    """
    signature = load_signatures(model, application=VIDEO.name)["serving_default"]
    metadata = load_metadata(model)
    clips = bundle_preprocessing(metadata, model, ClipSettings)
    predictor = VideoPredictor(
        signature=signature, clips=clips, class_names=metadata.class_names, settings=settings, out=out
    )
    sources = find_sources(inputs, suffixes=VIDEO_SUFFIXES, kind="video")
    names = columns(metadata.class_names)
    lines = predict_sources(VideoPrediction, names, predictor, sources, out, console)
    console.print(predictor.speed(), markup=False)
    return lines


def say_extracted(extraction: Extraction, out: Path, console: Console) -> None:
    """Summary of `features`: how many, and frames per second."""
    manifest = extraction.manifest
    console.print(
        f"{manifest.trunk.num_features} features of {manifest.num_examples} clips in {out}", markup=False
    )
    if extraction.frames:
        console.print(
            f"{extraction.videos} videos extracted now: {frames_per_second(extraction)}", markup=False
        )


def frames_per_second(extraction: Extraction) -> str:
    """Speed of reading and of the network, apart."""
    reading = extraction.frames / max(extraction.reading_seconds, 1e-9)
    network = extraction.frames / max(extraction.network_seconds, 1e-9)
    return f"{network:.0f} frames a second in the network, {reading:.0f} read from the shards"
