"""The steps after `prepare` that all applications have alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from rich.console import Console

from data_prep.prepared.workers import Cluster
from pipelines.command.strategies import StrategyName
from pipelines.runs.application import Application, DataKind, RunKind, SettingsKind
from pipelines.runs.evaluate import evaluate
from pipelines.runs.export import export
from pipelines.runs.settings import EvaluateSettings, ExportSettings
from pipelines.runs.train import train
from pipelines.scores.results import Evaluation


@dataclass(frozen=True)
class RunSteps(Generic[DataKind, SettingsKind, RunKind]):
    """The steps of an application: its `steps.py` names these methods, so that they are called as functions.

    Attributes:
        application: Application of the runs.
        before_training: Called before each training.
    """

    application: Application[DataKind, SettingsKind, RunKind]
    before_training: Callable[[], None] = lambda: None

    def train(
        self,
        settings: SettingsKind,
        *,
        data: Path,
        out: Path,
        resume: bool,
        console: Console,
        former: SettingsKind | None = None,
        strategy: StrategyName = StrategyName.NONE,
        cluster: Cluster | None = None,
    ) -> RunKind:
        """Train the network with each head, and what it is compared with; see `pipelines.runs.train.train`.

        Raises:
            ClusterLost: The cluster no longer answers.
            InputError: The data cannot be used, or `out` holds another run.
            TrainingDiverged: The loss became NaN; the last good checkpoint is kept.
            ProcessLost: Another process of a training on several machines did not come, or ended.
        """
        self.before_training()
        return train(
            self.application,
            settings,
            data=data,
            out=out,
            resume=resume,
            console=console,
            former=former,
            strategy=strategy,
            cluster=cluster,
        )

    def evaluate(
        self,
        settings: EvaluateSettings,
        *,
        data: Path,
        model: Path,
        out: Path,
        console: Console,
        cluster: Cluster | None = None,
    ) -> Evaluation:
        """Judge every head of a run; see `pipelines.runs.evaluate.evaluate`.

        Raises:
            ClusterLost: The cluster no longer answers.
            InputError: The run or the data cannot be used, or `out` holds another evaluation.
        """
        return evaluate(
            self.application, settings, data=data, model=model, out=out, console=console, cluster=cluster
        )

    def export(
        self,
        settings: ExportSettings,
        *,
        model: Path,
        out: Path,
        metrics: Path | None,
        overwrite: bool,
        console: Console,
    ) -> None:
        """Write a run's head as a bundle; see `pipelines.runs.export.export`.

        Raises:
            InputError: The run cannot be used, or `out` exists.
        """
        application = self.application
        export(
            application, settings, model=model, out=out, metrics=metrics, overwrite=overwrite, console=console
        )
