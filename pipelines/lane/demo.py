"""`gpimaging demo`: the whole way on rendered scenes, in a few minutes and without a download.

A small network learns lanes of three materials from few scenes. It is judged on lanes of a fourth, promises
how much is wrong in what it keeps, and is shown what it has never seen: the judged scenes once more, with an
obstacle on the lane.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from data_prep.errors import InputError
from data_prep.lane.scene_materials import OBSTACLES
from data_prep.lane.scenes import write_scenes
from data_prep.lane.settings import LanePrepareSettings
from pipelines.bundles.saved_model import verify_bundle
from pipelines.lane import steps as lane
from pipelines.lane.predict import predict as lane_predict
from pipelines.lane.prediction import LanePrediction
from pipelines.lane.settings import PredictSettings, TrainSettings
from pipelines.runs.settings import EvaluateSettings, ExportSettings
from pipelines.scores.promises import PromiseKept
from pipelines.scores.tables import format_share

SIZE = (36, 48)
TRAINING_TEXTURES = ("brick", "grass", "moon")
UNSEEN_TEXTURE = "gravel"
NUM_LEARNT, NUM_HELD_OUT, NUM_UNSEEN = 200, 160, 40
NUM_TRAINING = NUM_LEARNT + NUM_HELD_OUT
MAX_ERROR = 0.06
"""What is promised: at most this share of the pixels is wrong in the images that are kept."""
MUCH_UNFAMILIAR = 0.02
"""Of scenes like the training's one pixel in a hundred is unfamiliar on average; this is twice that."""
MARKER = "DEMO.txt"
"""A file that tells a demo's folder from anybody else's."""

SETTINGS = TrainSettings(
    network="C3K3",
    pretraining_epochs=12,
    head_epochs=1,
    batch_size=4,
    num_experts=4,
    num_inducing=30,
    head_steps=300,
    patience=0,
    # At least 60 are needed to promise MAX_ERROR, 100 to call a pixel unfamiliar.
    selection_fraction=NUM_HELD_OUT / NUM_TRAINING,
)


@dataclass(frozen=True)
class Scenes:
    """The rendered scenes of a demo.

    Attributes:
        folder: Scenes to learn from and scenes of the unseen material, as `images` and `masks`.
        unseen: Names of the latter.
        obstacles: The latter once more, with an obstacle on the lane, as `images` and `masks`.
    """

    folder: Path
    unseen: tuple[str, ...]
    obstacles: Path

    @property
    def unseen_images(self) -> list[Path]:
        """Files of the scenes of the unseen material."""
        return [self.folder / "images" / f"{name}.jpg" for name in self.unseen]


def run_demo(out: Path, *, seed: int, overwrite: bool, console: Console) -> None:
    """Train on few rendered scenes, judge on an unseen material, promise, and show something never seen.

    Args:
        out: Folder for everything.
        seed: Of scenes and training.
        overwrite: Replace `out` if an earlier demo wrote it.
        console: Where to tell about it.

    Raises:
        InputError: `out` exists and may not be replaced.
    """
    make_room(out, overwrite=overwrite)
    console.rule("1. Rendering scenes from scikit-image's photographs")
    scenes = render(out, seed=seed, console=console)

    console.rule("2. Preparing")
    prepare(scenes, out, console)

    console.rule("3. Training: linear head first, then each head from that checkpoint")
    training = SETTINGS.model_copy(update={"seed": seed})
    lane.train(training, data=out / "prepared", out=out / "run", resume=False, console=console)

    console.rule(f"4. Judging on scenes with an unseen lane texture ({UNSEEN_TEXTURE})")
    evaluation = lane.evaluate(
        EvaluateSettings(max_errors=(MAX_ERROR,), unfamiliar=scenes.obstacles / "images"),
        data=out / "prepared",
        model=out / "run",
        out=out / "evaluation",
        console=console,
    )

    console.rule("5. Exporting")
    bundle, metrics = out / "bundle", out / "evaluation" / "metrics.json"
    lane.export(
        ExportSettings(), model=out / "run", out=bundle, metrics=metrics, overwrite=False, console=console
    )
    console.print(f"Verified: largest difference to the stored outputs {verify_bundle(bundle).worst:.1e}")

    console.rule("6. Predicting these scenes, and the same with an obstacle on the lane")
    (promise,) = list(evaluation.promises.values())[-1].rows
    settings = PredictSettings(max_error=None if promise.promise.threshold is None else MAX_ERROR)
    predictions = out / "predictions"
    free = lane_predict(
        settings, inputs=scenes.unseen_images, model=bundle, out=predictions / "unseen", console=console
    )
    obstructed = lane_predict(
        settings,
        inputs=[scenes.obstacles / "images"],
        model=bundle,
        out=predictions / "obstacle",
        console=console,
    )

    console.rule("What came of it")
    lines = (promise_line(promise), flagged_line(free, obstructed))
    console.print(*lines, sep="\n", highlight=False, soft_wrap=True)
    pictures = (predictions / name / "overlays" for name in ("unseen", "obstacle"))
    console.print("Look at:", out / "evaluation" / "report.html", *pictures, sep="\n  ", soft_wrap=True)
    console.print("Try next:", *next_commands(out), sep="\n  ", highlight=False, soft_wrap=True)


def make_room(out: Path, *, overwrite: bool) -> None:
    """Make an empty folder that is marked as a demo's.

    Raises:
        InputError: It exists and may not be replaced.
    """
    if out.exists():
        if not overwrite:
            raise InputError(f"{out} exists already. Pass --overwrite to replace it, or give another --out.")
        if not (out / MARKER).is_file():
            raise InputError(f"{out} was not written by a demo, so it is not replaced. Give another --out.")
        shutil.rmtree(out)
    out.mkdir(parents=True)
    (out / MARKER).write_text(
        "Written by gpimaging demo; --overwrite replaces this folder.\n", encoding="utf-8"
    )


def render(out: Path, *, seed: int, console: Console) -> Scenes:
    """Render scenes to learn from, scenes of the unseen material, and these with an obstacle.

    Args:
        out: Folder of the demo.
        seed: Of the scenes.
        console: Where to tell about it.
    """
    size = (2 * SIZE[0], 2 * SIZE[1])  # larger than the network sees them, as photographs are
    folder, obstacles = out / "scenes", out / "obstacle_scenes"
    write_scenes(folder, count=NUM_TRAINING, seed=seed, lane_textures=TRAINING_TEXTURES, size=size)

    def write_unseen(folder: Path, obstacles: Sequence[str]) -> list[str]:
        return write_scenes(
            folder,
            count=NUM_UNSEEN,
            first_index=NUM_TRAINING,
            seed=seed,
            lane_textures=[UNSEEN_TEXTURE],
            obstacles=obstacles,
            size=size,
        )

    unseen = write_unseen(folder, ())
    write_unseen(obstacles, OBSTACLES)
    console.print(
        f"{NUM_TRAINING} scenes with lanes of {', '.join(TRAINING_TEXTURES)}; {NUM_UNSEEN} of "
        f"{UNSEEN_TEXTURE}, and the same {NUM_UNSEEN} with an obstacle that no other scene shows"
    )
    return Scenes(folder, tuple(unseen), obstacles)


def prepare(scenes: Scenes, out: Path, console: Console) -> None:
    """Prepare the scenes in one folder, those of the unseen material to judge by."""
    test_list = out / "unseen.txt"
    test_list.write_text("\n".join(scenes.unseen) + "\n", encoding="utf-8")
    lane.prepare(
        LanePrepareSettings(size=SIZE, test_list=test_list),
        images=scenes.folder / "images",
        masks=scenes.folder / "masks",
        out=out / "prepared",
        jobs=1,
        overwrite=False,
        console=console,
    )


def promise_line(kept: PromiseKept) -> str:
    """Say what was promised of images like the training's, and whether it was kept on the unseen material."""
    promised = (
        f"at most {format_share(kept.promise.max_error)} of the pixels wrong in the images that are kept"
    )
    if kept.promise.threshold is None:
        return f"Not promised: {promised}, for {kept.promise.reason}."
    if kept.is_violated is None:
        return f"Promised: {promised}. Of the unseen material none is kept."
    return (
        f"Promised of images like the training's: {promised}. Of the unseen material "
        f"{format_share(kept.judged_kept)} are kept, and {format_share(kept.judged_error)} of their pixels "
        f"are wrong: {'not kept' if kept.is_violated else 'kept'} there, where the promise does not reach."
    )


def flagged_line(free: Sequence[LanePrediction], obstructed: Sequence[LanePrediction]) -> str:
    """Say how much of the scenes is flagged as unfamiliar, without and with an obstacle.

    Args:
        free: Predictions of scenes without it.
        obstructed: Predictions of the same scenes with it.
    """

    def shares(lines: Sequence[LanePrediction]) -> NDArray[np.float64]:
        return np.array([line.unfamiliar_fraction for line in lines], np.float64)

    without, with_it = shares(free), shares(obstructed)
    return (
        f"Flagged as unfamiliar: {format_share(without.mean())} of the pixels without an obstacle, "
        f"{format_share(with_it.mean())} with one. More than {format_share(MUCH_UNFAMILIAR)} are flagged in "
        f"{np.sum(without > MUCH_UNFAMILIAR)} of {without.size} scenes without, "
        f"{np.sum(with_it > MUCH_UNFAMILIAR)} of {with_it.size} with an obstacle."
    )


def next_commands(out: Path) -> list[str]:
    """Commands to copy."""
    return [
        f"tensorboard --logdir {out / 'run' / 'tensorboard'}",
        f"gpimaging lane predict --model {out / 'bundle'} --input YOUR_PHOTOS --out predictions",
        "gpimaging lane prepare --images IMAGES --masks MASKS --out prepared",
        "gpimaging lane train --data prepared --out run",
        "gpimaging lane evaluate --data prepared --model run --out evaluation",
    ]
