"""A lane run small enough for tests: 10 scenes of 16 x 24 pixels, C1K3, two experts of five points."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
from rich.console import Console
from tensorflow.python.framework.config import disable_op_determinism

from data_prep.lane.prepare import prepare_lane
from data_prep.lane.scenes import write_scenes
from data_prep.lane.settings import LanePrepareSettings
from pipelines.evaluation.export import export as export_run
from pipelines.lane.application import LANE
from pipelines.lane.settings import TrainSettings
from pipelines.runs.job import Job, trained_job
from pipelines.runs.settings import ExportSettings
from pipelines.runs.train import train as train_run

SIZE = (16, 24)

SETTINGS = TrainSettings(
    network="C1K3",
    heads=("linear", "hgp"),
    pretraining_epochs=1,
    head_epochs=2,
    batch_size=3,
    num_experts=2,
    num_inducing=5,
    head_steps=3,
    panel_images=1,
    selection_fraction=0.25,
)


def quiet() -> Console:
    """A console whose text nobody sees; `console.file.getvalue()` gives it."""
    return Console(file=io.StringIO(), width=200)


@contextmanager
def determinism_ends() -> Iterator[None]:
    """Training switches TensorFlow to deterministic operations for the whole process; switch back."""
    try:
        yield
    finally:
        disable_op_determinism()


def prepare(folder: Path, *, count: int = 10, seed: int = 0, size: tuple[int, int] = SIZE) -> Path:
    """Scenes in `folder/scenes` (twice the size, two rows ignored), prepared in `folder/prepared`."""
    scenes, prepared = folder / "scenes", folder / "prepared"
    write_scenes(scenes, count=count, seed=seed, lane_textures=["brick"], size=(2 * size[0], 2 * size[1]))
    for path in (scenes / "masks").iterdir():
        mask = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        mask[:4] = 77
        cv2.imwrite(str(path), mask)
    settings = LanePrepareSettings(size=size, test_fraction=0.2, ignore_values=(77,), lane_values=(255,))
    prepare_lane(scenes / "images", scenes / "masks", prepared, settings)
    return prepared


def train(data: Path, out: Path, settings: TrainSettings = SETTINGS, *, resume: bool = False) -> Path:
    with determinism_ends():
        train_run(LANE, settings, data=data, out=out, resume=resume, console=quiet())
    return out


def job(run: Path) -> Job:
    """Return the job on a lane run."""
    return trained_job(LANE, run, quiet())


def export(
    run: Path, out: Path, *, metrics: Path | None = None, head: str | None = "hgp", **settings: object
) -> Path:
    """Export a head of a run; None takes the one that the run chose."""
    export_run(
        LANE,
        ExportSettings(head=head, **settings),
        model=run,
        out=out,
        metrics=metrics,
        overwrite=False,
        console=quiet(),
    )
    return out
