"""TensorBoard for every application: scalars of each epoch, experts and lengthscales, and a few images.

Tags use the symbols of the thesis and of the code: ``kl/global``, ``kl/expert_3``, ``occupancy/expert_3``,
``lengthscales/expert_3``; what is measured twice ends in ``/training`` or ``/selection``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import tensorflow as tf

from data_prep.tensorflow_errors import system_errors
from gpmodels import HybridModel
from gpmodels.unit_summaries import write_unit_summaries
from pipelines.overlays import Picture
from pipelines.training import EpochReport

Panels = Callable[[HybridModel], dict[str, Picture]]
"""Pictures to show, ``{tag: uint8 [H, W, 3]}``, drawn from the model at an epoch's end."""

_SELECTION = "selection_"


class TensorBoardHook:
    """Writes an epoch's numbers and pictures; an :data:`pipelines.training.EpochHook`.

    Args:
        folder: The run's TensorBoard folder, one for each stage.
        num_data: N; turns the loss per point into the bound.
        panels: Draws the pictures; None for none.

    Example:
        >>> hook = TensorBoardHook(tmp_path, num_data=100)  # doctest: +SKIP
    """

    def __init__(self, folder: Path, *, num_data: int, panels: Panels | None = None) -> None:
        self._folder = folder
        self._num_data = num_data
        self._panels = panels

    @cached_property
    def _writer(self) -> Any:
        """Made with the first epoch: a stage that is already complete gets no empty event file."""
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
