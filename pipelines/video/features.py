"""Caching the features of all prepared clips: what `gpimaging video features` does."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from data_prep.errors import InputError
from data_prep.prepared.workers import Cluster
from data_prep.video.features import has_features
from data_prep.video.manifest import LearnedVideos
from gpmodels.networks.res3d import Res3D
from pipelines.command.config import CONFIG_NAME, dump_settings
from pipelines.command.console import say, stage_bars
from pipelines.video.application import PreparedClips, PreparedFeatures, open_videos, run_trunk
from pipelines.video.extraction import Extraction, extract_features
from pipelines.video.settings import FeaturesSettings
from pipelines.video.trunk import load_video_trunk


def cache_features(
    settings: FeaturesSettings,
    *,
    data: Path,
    weights: Path | None,
    model: Path | None,
    out: Path,
    resume: bool,
    console: Console,
    cluster: Cluster | None = None,
) -> Extraction:
    """Cache the features of all prepared clips.

    Args:
        settings: How many clips at a time.
        data: Prepared clips.
        weights: File of weights of torchvision's `r3d_18`.
        model: Instead, a run whose network is wanted.
        out: Folder of features.
        resume: Go on where an earlier call stopped.
        console: For progress.
        cluster: Whose workers run the network; None for this process.

    Raises:
        ClusterLost: The cluster no longer answers; what is extracted is kept.
        InputError: Neither or both of `weights` and `model` are given or they do not fit; `out` has
            other features, or cannot be written.
    """
    prepared = open_videos(data)
    if isinstance(prepared, PreparedFeatures):
        raise InputError(f"{data} has features already. Pass the folder of `gpimaging video prepare`.")
    _require_own_folder(out, (data,) if model is None else (data, model), resume=resume)
    trunk, learned = _chosen_trunk(prepared, weights, model, console)
    out.mkdir(parents=True, exist_ok=True)
    dump_settings(settings, out / CONFIG_NAME)
    with stage_bars(console) as advance:
        extraction = extract_features(
            prepared,
            trunk,
            out,
            learned=learned,
            clips_at_once=settings.clips_at_once,
            progress=advance,
            cluster=cluster,
        )
    print_extracted(extraction, out, console)
    return extraction


def _require_own_folder(out: Path, others: Sequence[Path], *, resume: bool) -> None:
    """Features go into a folder of their own, and on with them only with `resume`."""
    if out.resolve() in {other.resolve() for other in others}:
        raise InputError(f"{out} is the folder of --data or --model. Give features a folder of their own.")
    is_new = not out.exists() or (out.is_dir() and {path.name for path in out.iterdir()} <= {CONFIG_NAME})
    if is_new:  # the settings come first, and alone they are no features
        return
    if not has_features(out):
        raise InputError(f"{out} already exists and has no features to go on with. Choose another --out.")
    if not resume:
        raise InputError(f"{out} already has features. Go on with --resume, or choose another --out.")


def _chosen_trunk(
    data: PreparedClips, weights: Path | None, model: Path | None, console: Console
) -> tuple[Res3D, LearnedVideos]:
    """Return the network, and what it learned from: of a file of weights nobody knows."""
    if weights is not None and model is None:
        return load_video_trunk(weights), LearnedVideos()
    if model is not None and weights is None:
        trunk, run = run_trunk(model, console)
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


def print_extracted(extraction: Extraction, out: Path, console: Console) -> None:
    """Summary of `features`: how many, and frames per second."""
    manifest = extraction.manifest
    say(console, f"{manifest.trunk.num_features} features of {manifest.num_examples} clips in {out}")
    if extraction.frames:
        reading = extraction.frames / max(extraction.reading_seconds, 1e-9)
        network = extraction.frames / max(extraction.network_seconds, 1e-9)
        say(
            console,
            f"{extraction.videos} videos extracted now: {network:.0f} frames a second in the network, "
            f"{reading:.0f} read from the shards",
        )
