"""What is shown of a training: the bar of Keras' `fit` with the time left, and a line for each epoch."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pipelines.training.stages import EpochHook, EpochReport


class EpochProgress(keras.callbacks.Callback):
    """One bar for all steps of a stage, with epoch, loss and the time left; on a terminal only.

    Args:
        console: Where to draw.
        title: Name of the stage.
        epochs: Number of epochs of the stage.
        steps: Number of steps in an epoch.
    """

    def __init__(self, console: Console, title: str, epochs: int, steps: int) -> None:
        super().__init__()
        self._title, self._epochs, self._steps = title, epochs, steps
        self._done = 0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.4f}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=epochs * steps, loss=float("nan"))

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002 - Keras calls it so
        """Show which epoch it is; a resumed stage starts where it stopped."""
        self._done = epoch * self._steps
        self._bar.start()
        self._bar.update(
            self._task, description=f"{self._title} {epoch + 1}/{self._epochs}", completed=self._done
        )

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Move the bar by one step."""
        loss = float((logs or {}).get("loss", float("nan")))
        self._bar.update(self._task, completed=self._done + batch + 1, loss=loss)

    def close(self) -> None:
        """Take the bar off the screen, also after an interrupted training."""
        self._bar.stop()


def epoch_lines(stage: str, scores: Mapping[str, str], say: Callable[[str], None]) -> EpochHook:
    """Return a hook that says the losses and scores of each epoch in one line; `*` marks the best until then.

    Args:
        stage: Name of the stage.
        scores: Titles of the scores that an application adds, by their names.
        say: What writes a line.
    """
    shown = {
        "loss": "loss",
        "selection_loss": "selection loss",
        "selection_nll": "NLL",
        "selection_accuracy": "accuracy",
        **{f"selection_{key}": title for key, title in scores.items()},
    }

    def hook(report: EpochReport) -> None:
        numbers = report.numbers
        values = ", ".join(f"{title} {numbers[key]:.4f}" for key, title in shown.items() if key in numbers)
        say(f"{stage} epoch {report.epoch}: {values}{' *' if report.is_best else ''}")

    return hook
