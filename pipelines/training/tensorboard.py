"""TensorBoard for every application: scalars of each epoch, experts and lengthscales, and a few images.

Tags use the symbols of the thesis and of the code: `kl/global`, `kl/expert_3`, `occupancy/expert_3`,
`lengthscales/expert_3`. Tags of what is measured twice end in `/training` or `/selection`.
"""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import tensorflow as tf

from data_prep.prepared.tensorflow_errors import system_errors
from gpmodels import HybridModel
from gpmodels.heads.base import write_unit_summaries
from pipelines.scores.pictures import Picture
from pipelines.training.stages import EpochReport

Panels = Callable[[HybridModel], dict[str, Picture]]
"""Function from the model at an epoch's end to pictures, `{tag: uint8 [H, W, 3]}`."""

_SELECTION = "selection_"


class TensorBoardHook:
    """Writes an epoch's numbers and pictures; a `pipelines.training.stages.EpochHook`.

    Args:
        folder: The run's TensorBoard folder, one for each stage.
        num_data: Number N of training points, or of the observations that they are worth, which turns the
            loss per point into the bound.
        panels: Function that draws the pictures; None for no pictures.

    Example:
        >>> hook = TensorBoardHook(tmp_path, num_data=100)  # doctest: +SKIP
    """

    def __init__(self, folder: Path, *, num_data: float, panels: Panels | None = None) -> None:
        self._folder = folder
        self._num_data = num_data
        self._panels = panels

    @cached_property
    def _writer(self) -> Any:
        """Return the writer, made with the first epoch: a complete stage gets no empty event file."""
        return tf.summary.create_file_writer(str(self._folder))

    def __call__(self, report: EpochReport) -> None:
        """Write the tags of an epoch and flush them to disk.

        Raises:
            OSError: They cannot be written.
        """
        pictures = {} if self._panels is None else self._panels(report.model)
        with system_errors():
            with self._writer.as_default(step=report.epoch):
                self._write_numbers(report.numbers)
                write_unit_summaries(report.model.head)
                for tag, picture in pictures.items():
                    tf.summary.image(tag, picture[None])
            self._writer.flush()

    def _write_numbers(self, numbers: dict[str, float]) -> None:
        tf.summary.scalar("learning_rate", numbers["learning_rate"])
        tf.summary.scalar("bound/training", -numbers["loss"] * self._num_data)
        for name, value in numbers.items():
            part = "selection" if name.startswith(_SELECTION) else "training"
            quantity = name.removeprefix(_SELECTION)
            if quantity == "loss":
                tf.summary.scalar(f"bound_per_point/{part}", -value)
            elif quantity != "learning_rate":
                tf.summary.scalar(f"{quantity}/{part}", value)
