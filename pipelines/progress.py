"""Progress with the time left, for Keras' ``fit``."""

from __future__ import annotations

from typing import Any

import keras
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class EpochProgress(keras.callbacks.Callback):
    """One bar for each epoch with steps, loss and the time left, then one line with the epoch's numbers.

    Args:
        console: Where to draw; bars appear on a terminal only, the lines everywhere.
        title: Name of the stage.
        epochs: Epochs of the stage.
        steps: Steps of an epoch.
    """

    def __init__(self, console: Console, title: str, epochs: int, steps: int) -> None:
        super().__init__()
        self._console, self._title, self._epochs, self._steps = console, title, epochs, steps
        self._progress: Progress | None = None

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.4f}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._progress.start()
        description = f"{self._title} {epoch + 1}/{self._epochs}"
        self._task = self._progress.add_task(description, total=self._steps, loss=float("nan"))

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._progress is not None:
            self._progress.update(self._task, completed=batch + 1, loss=float((logs or {}).get("loss", float("nan"))))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.close()

    def close(self) -> None:
        """Take the bar off the screen; also when training was interrupted."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
