"""`gpimaging demo`: the whole way on rendered scenes, in a few minutes and without a download."""

from __future__ import annotations

import shutil
from pathlib import Path

from rich.console import Console

from data_prep.errors import InputError
from data_prep.lane.scenes import write_scenes
from data_prep.lane.settings import LanePrepareSettings
from pipelines.bundles.saved_model import verify_bundle
from pipelines.lane import steps as lane
from pipelines.lane.settings import PredictSettings, TrainSettings
from pipelines.runs.settings import EvaluateSettings, ExportSettings

SIZE = (48, 64)
TRAINING_TEXTURES = ("brick", "grass", "moon")
UNSEEN_TEXTURE = "gravel"
NUM_TRAINING, NUM_TEST = 240, 40
MARKER = "DEMO.txt"
"""A file that tells a demo's folder from anybody else's."""

SETTINGS = TrainSettings(
    network="C3K3",
    pretraining_epochs=10,
    head_epochs=3,
    batch_size=6,
    num_experts=4,
    num_inducing=30,
    head_steps=300,
    patience=0,
)


def run_demo(out: Path, *, seed: int, overwrite: bool, console: Console) -> None:
    """Render scenes, train a small configuration, judge it on an unseen lane texture, export and predict.

    Args:
        out: Folder for everything.
        seed: Of scenes and training.
        overwrite: Replace `out` if an earlier demo wrote it.
        console: Where to tell about it.

    Raises:
        InputError: `out` exists and may not be replaced.
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
    scenes, unseen = out / "scenes", out / "unseen_scenes"
    console.rule("1. Rendering scenes from scikit-image's photographs")
    write_scenes(scenes, count=NUM_TRAINING, seed=seed, lane_textures=TRAINING_TEXTURES, size=_twice(SIZE))
    write_scenes(unseen, count=NUM_TEST, seed=seed + 1, lane_textures=[UNSEEN_TEXTURE], size=_twice(SIZE))
    console.print(
        f"{NUM_TRAINING} scenes with lanes of {', '.join(TRAINING_TEXTURES)}, {NUM_TEST} of {UNSEEN_TEXTURE}"
    )

    console.rule("2. Preparing")
    for source, name, test_fraction in ((scenes, "prepared", 0.0), (unseen, "prepared_unseen", 1.0)):
        settings = LanePrepareSettings(size=SIZE, test_fraction=test_fraction)
        images, masks = source / "images", source / "masks"
        lane.prepare(
            settings, images=images, masks=masks, out=out / name, jobs=1, overwrite=False, console=console
        )

    console.rule("3. Training: linear head first, then each head from that checkpoint")
    training = SETTINGS.model_copy(update={"seed": seed})
    lane.train(training, data=out / "prepared", out=out / "run", resume=False, console=console)

    console.rule(f"4. Judging on unseen scenes with an unseen lane texture ({UNSEEN_TEXTURE})")
    judged = out / "evaluation"
    lane.evaluate(
        EvaluateSettings(), data=out / "prepared_unseen", model=out / "run", out=judged, console=console
    )

    console.rule("5. Exporting and predicting")
    bundle = out / "bundle"
    metrics = judged / "metrics.json"
    lane.export(
        ExportSettings(), model=out / "run", out=bundle, metrics=metrics, overwrite=False, console=console
    )
    console.print(f"Verified: largest difference to the stored outputs {verify_bundle(bundle).worst:.1e}")
    inputs = [unseen / "images"]
    lane.predict(
        PredictSettings(refer_above=0.15),
        inputs=inputs,
        model=bundle,
        out=out / "predictions",
        console=console,
    )
    shutil.rmtree(scenes)

    console.rule("Done. Look at")
    console.print(f"  {judged / 'report.html'}\n  {out / 'predictions' / 'overlays'}")
    console.print("Try next:", *next_commands(out), sep="\n  ", highlight=False, soft_wrap=True)


def next_commands(out: Path) -> list[str]:
    """Commands to copy."""
    return [
        f"tensorboard --logdir {out / 'run' / 'tensorboard'}",
        f"gpimaging lane predict --model {out / 'bundle'} --input YOUR_PHOTOS --out predictions",
        "gpimaging lane prepare --images IMAGES --masks MASKS --out prepared",
        "gpimaging lane train --data prepared --out run",
        "gpimaging lane evaluate --data prepared --model run --out evaluation",
    ]


def _twice(size: tuple[int, int]) -> tuple[int, int]:
    """Scenes are rendered larger than the network sees them, as photographs are."""
    return 2 * size[0], 2 * size[1]
