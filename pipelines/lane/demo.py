"""`gpimaging demo`: the whole way on rendered scenes, in a few minutes and without a download.

A small network learns lanes of three materials from few scenes. It is judged on lanes of a fourth, guarantees
how much is wrong in what it keeps, and is shown what it has never seen: the judged scenes once more, with an
obstacle on the lane.
"""

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
from pipelines.command.referral import read_limits
from pipelines.command.steps import StepCall
from pipelines.evaluation.evaluate import evaluate as evaluate_run
from pipelines.evaluation.export import export as export_run
from pipelines.lane import commands as lane_commands
from pipelines.lane.application import LANE
from pipelines.lane.prediction import LANE_PREDICTION, LanePrediction
from pipelines.lane.settings import PredictSettings, TrainSettings
from pipelines.runs.settings import EvaluateSettings, ExportSettings
from pipelines.runs.train import train as train_run
from pipelines.scores.definitions import format_share
from pipelines.scores.guarantees import JudgedGuarantee

TRAINING_TEXTURES = ("brick", "grass", "moon")
UNSEEN_TEXTURE = "gravel"
MAX_ERROR = 0.06
"""What is guaranteed: at most this share of the pixels is wrong in the images that are kept."""
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
)


@dataclass(frozen=True)
class Plan:
    """How much a demo renders and how long it trains.

    Attributes:
        size: Height and width of the scenes as the network sees them, pixels.
        num_learnt: Scenes to learn from.
        num_held_out: Scenes that choose the epoch and the threshold of the guarantee: at least 60 are needed
            to guarantee `MAX_ERROR`, 100 to call a pixel unfamiliar.
        num_unseen: Scenes of the unseen material.
        training: Settings of the training, but for the share that is held out, and the seed.
    """

    size: tuple[int, int] = (36, 48)
    num_learnt: int = 200
    num_held_out: int = 160
    num_unseen: int = 40
    training: TrainSettings = SETTINGS

    @property
    def num_training(self) -> int:
        """Scenes with lanes of materials that are trained."""
        return self.num_learnt + self.num_held_out

    def settings(self, seed: int) -> TrainSettings:
        """Return the settings of the training."""
        share = self.num_held_out / self.num_training
        return self.training.model_copy(update={"selection_fraction": share, "seed": seed})


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


def run_demo(out: Path, *, seed: int, overwrite: bool, console: Console, plan: Plan = Plan()) -> None:
    """Train on few rendered scenes, judge on an unseen material, guarantee, and show something never seen.

    Args:
        out: Folder for everything.
        seed: Of scenes and training.
        overwrite: Replace `out` if an earlier demo wrote it.
        console: Where to tell about it.
        plan: How much is rendered and trained.

    Raises:
        InputError: `out` exists and may not be replaced.
    """
    make_room(out, overwrite=overwrite)
    console.rule("1. Rendering scenes from scikit-image's photographs")
    scenes = render(out, plan, seed=seed, console=console)

    console.rule("2. Preparing")
    prepare(scenes, out, plan, console)

    console.rule("3. Training: linear head first, then each head from that checkpoint")
    train_run(
        LANE, plan.settings(seed), data=out / "prepared", out=out / "run", resume=False, console=console
    )

    console.rule(f"4. Judging on scenes with an unseen lane texture ({UNSEEN_TEXTURE})")
    evaluation = evaluate_run(
        LANE,
        EvaluateSettings(max_errors=(MAX_ERROR,), unfamiliar=scenes.obstacles / "images"),
        data=out / "prepared",
        model=out / "run",
        out=out / "evaluation",
        console=console,
    )

    console.rule("5. Exporting")
    bundle, metrics = out / "bundle", out / "evaluation" / "metrics.json"
    export_run(
        LANE,
        ExportSettings(),
        model=out / "run",
        out=bundle,
        metrics=metrics,
        overwrite=False,
        console=console,
    )
    console.print(f"Verified: largest difference to the stored outputs {verify_bundle(bundle).worst:.1e}")

    console.rule("6. Predicting these scenes, and the same with an obstacle on the lane")
    chosen = evaluation.chosen_guarantees
    if chosen is None:
        raise InputError(f"The demo can guarantee nothing: {evaluation.no_guarantee}")
    (guarantee,) = chosen[1].rows
    given = () if guarantee.guarantee.threshold is None else read_limits(MAX_ERROR)
    settings = PredictSettings(max_error=given)
    predictions = out / "predictions"
    free = LANE_PREDICTION(
        settings, inputs=scenes.unseen_images, model=bundle, out=predictions / "unseen", console=console
    )
    obstructed = LANE_PREDICTION(
        settings,
        inputs=[scenes.obstacles / "images"],
        model=bundle,
        out=predictions / "obstacle",
        console=console,
    )

    console.rule("What came of it")
    lines = (guarantee_line(guarantee), flagged_line(free, obstructed))
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


def render(out: Path, plan: Plan, *, seed: int, console: Console) -> Scenes:
    """Render scenes to learn from, scenes of the unseen material, and these with an obstacle.

    Args:
        out: Folder of the demo.
        plan: How many scenes, and their size.
        seed: Of the scenes.
        console: Where to tell about it.
    """
    size = (2 * plan.size[0], 2 * plan.size[1])  # larger than the network sees them, as photographs are
    folder, obstacles = out / "scenes", out / "obstacle_scenes"
    write_scenes(folder, count=plan.num_training, seed=seed, lane_textures=TRAINING_TEXTURES, size=size)

    def write_unseen(folder: Path, obstacles: Sequence[str]) -> list[str]:
        return write_scenes(
            folder,
            count=plan.num_unseen,
            first_index=plan.num_training,
            seed=seed,
            lane_textures=[UNSEEN_TEXTURE],
            obstacles=obstacles,
            size=size,
        )

    unseen = write_unseen(folder, ())
    write_unseen(obstacles, OBSTACLES)
    console.print(
        f"{plan.num_training} scenes with lanes of {', '.join(TRAINING_TEXTURES)}; {plan.num_unseen} of "
        f"{UNSEEN_TEXTURE}, and the same {plan.num_unseen} with an obstacle that no other scene shows"
    )
    return Scenes(folder, tuple(unseen), obstacles)


def prepare(scenes: Scenes, out: Path, plan: Plan, console: Console) -> None:
    """Prepare the scenes in one folder, those of the unseen material to judge by."""
    test_list = out / "unseen.txt"
    test_list.write_text("\n".join(scenes.unseen) + "\n", encoding="utf-8")
    settings = LanePrepareSettings(size=plan.size, test_list=test_list)
    lane_commands.prepare(
        StepCall(settings, console, jobs=1, former=None),
        images=scenes.folder / "images",
        masks=scenes.folder / "masks",
        out=out / "prepared",
    )


def guarantee_line(kept: JudgedGuarantee) -> str:
    """Say what was guaranteed of images like the training's, and whether it held on the unseen material."""
    guaranteed = (
        f"at most {format_share(kept.guarantee.max_error)} of the pixels wrong in the images that are kept"
    )
    if kept.guarantee.threshold is None:
        return f"Not guaranteed: {guaranteed}, for {kept.guarantee.reason}."
    if kept.is_violated is None:
        return f"Guaranteed: {guaranteed}. Of the unseen material none is kept."
    return (
        f"Guaranteed of images like the training's: {guaranteed}. Of the unseen material "
        f"{format_share(kept.judged_kept)} are kept, and {format_share(kept.judged_error)} of their pixels "
        f"are wrong: {'not kept' if kept.is_violated else 'kept'} there, where the guarantee does not reach."
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
