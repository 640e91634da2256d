"""A job: everything that one command works on, opened once."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Self

import tensorflow as tf
from rich.console import Console

from data_prep.errors import InputError
from data_prep.splits.divide import Splits, manifest_splits
from gpmodels.likelihoods.names import MULTILABEL, TARGET_LIKELIHOODS
from pipelines.command.config import CONFIG_NAME, load_settings
from pipelines.command.console import say
from pipelines.runs.application import Application, DataKind, RunKind, SettingsKind
from pipelines.runs.description import load_run


@dataclass(frozen=True, kw_only=True)
class Job(Generic[DataKind, SettingsKind, RunKind]):
    """A run and, where a command needs them, its data: read, checked, hashed and divided once.

    Attributes:
        application: Application of the run.
        settings: Settings the run is trained with.
        run: Description of the run.
        folder: Folder of the run.
        console: Where the command says what it does.
        opened: Prepared folder and its splits; None for a command that needs no data.
    """

    application: Application[DataKind, SettingsKind, RunKind]
    settings: SettingsKind
    run: RunKind
    folder: Path
    console: Console
    opened: tuple[DataKind, Splits] | None = None

    @property
    def data(self) -> DataKind:
        """The prepared folder."""
        return self._opened[0]

    @property
    def splits(self) -> Splits:
        """Which examples train, select the best epoch, and are judged."""
        return self._opened[1]

    @property
    def _opened(self) -> tuple[DataKind, Splits]:
        if self.opened is None:
            raise ValueError(f"The job on {self.folder} has opened no data.")
        return self.opened

    @property
    def has_real_targets(self) -> bool:
        """Whether the truths are numbers and not classes."""
        return self.application.network.likelihood_of(self.settings) in TARGET_LIKELIHOODS

    @property
    def has_several_labels(self) -> bool:
        """Whether each example has several yes/no labels instead of one class."""
        return self.application.network.likelihood_of(self.settings) == MULTILABEL

    @property
    def nll_title(self) -> str:
        """What a training calls its NLL: heads learn standardised numbers, reports are in the unit.

        Counts are not standardised. Of several labels it is the sum over those that are known; reports have
        the mean.
        """
        if self.has_several_labels:
            return "NLL of all labels"
        is_standardised = self.application.network.likelihood_of(self.settings) == "gaussian"
        return "standardised NLL" if is_standardised else "NLL"

    def on(self, data: DataKind, *, fold: int, selects: bool = True) -> Self:
        """Return the job with a prepared folder, divided for a fold.

        Args:
            data: The prepared folder.
            fold: The fold that is left out of the training.
            selects: Whether a selection part is taken out of the training examples. A folder prepared only to
                be judged may have too few of these for one, and needs none.

        Raises:
            InputError: There is no such fold, or too few training examples to take a selection part from.
        """
        fraction = self.settings.selection_fraction if selects else 0.0
        return replace(
            self, opened=(data, manifest_splits(data.manifest, fold=fold, selection_fraction=fraction))
        )

    def weighed_batches(self, *, shuffled: bool) -> tf.data.Dataset:
        """Return batches of all training examples without augmentation, with their training weights."""
        batches, weigh = self._plain_batches("train", shuffled=shuffled), self.application.inputs.weigh
        if weigh is None or not self.run.weighs_every_fit:
            return batches
        return weigh(batches, self.data, self.splits.train, self.settings)

    def batches(self, part: str) -> tf.data.Dataset:
        """Return batches of all examples of a part, e.g. `"train"`, without augmentation, in their order."""
        return self._plain_batches(part, shuffled=False)

    def shuffled_batches(self, part: str) -> tf.data.Dataset:
        """Return batches of all examples of a part without augmentation, in one random order."""
        return self._plain_batches(part, shuffled=True)

    def _plain_batches(self, part: str, *, shuffled: bool) -> tf.data.Dataset:
        names = getattr(self.splits, part)
        return self.application.inputs.plain_batches(self.data, names, self.settings, shuffled)

    def groups(self, part: str) -> list[str]:
        """Return the group of each example of a part, in its order."""
        return [example.group for example in self.data.manifest.select(getattr(self.splits, part))]

    def say(self, text: str) -> None:
        """Write a line of plain text on the console."""
        say(self.console, text)


def trained_job(
    application: Application[DataKind, SettingsKind, RunKind], folder: Path, console: Console
) -> Job[DataKind, SettingsKind, RunKind]:
    """Return the job on a run that has at least one trained head.

    Args:
        application: Application of the run.
        folder: Folder of the run.
        console: Where the command says what it does.

    Raises:
        InputError: The folder is no run of the application, or none of its heads is trained yet.
    """
    if application.for_folder is not None:
        application = application.for_folder(folder)
    run = load_run(folder, application.run)
    if not run.heads:
        raise InputError(f"{folder} has no trained head yet. Continue its training with --resume.")
    application, settings = application.variant_for(
        load_settings(application.settings, config=folder / CONFIG_NAME), console
    )
    return Job(application=application, settings=settings, run=run, folder=folder, console=console)
