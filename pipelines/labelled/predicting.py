"""Predicting files of one class each with a bundle: what `predict` of several applications has alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from rich.console import Console

from data_prep.prepared.workers import Cluster
from pipelines.bundles.prediction import Line, open_bundle, predict_sources
from pipelines.bundles.prediction_run import open_run
from pipelines.bundles.referral import with_promise
from pipelines.bundles.remote import on_cluster
from pipelines.bundles.sources import Source
from pipelines.command.referral import ReferralSettings

Predictor = TypeVar("Predictor", bound=Callable[..., Any])


@dataclass(frozen=True)
class BundlePrediction(Generic[Predictor, Line]):
    """How an application predicts with a bundle.

    Attributes:
        application: Name of the application, which the bundle must be of.
        judged: What is referred to a person, in the plural.
        line_class: Class of the lines of its table.
        make: Makes what predicts from signature, metadata, bundle, settings and `out`; importable by workers.
    """

    application: str
    judged: str
    line_class: type[Line]
    make: Callable[..., Predictor]

    def __call__(
        self,
        settings: ReferralSettings,
        *,
        sources: Sequence[Source],
        model: Path,
        out: Path,
        console: Console,
        cluster: Cluster | None,
    ) -> tuple[Predictor, list[Line]]:
        """Predict all sources; return what predicted, and the lines of the table.

        With a cluster its workers predict, and write the files of each source; the same call goes on where
        it was stopped.

        Args:
            settings: Settings of the step.
            sources: What to predict.
            model: Folder of the bundle.
            out: Folder to write.
            console: Where progress is shown.
            cluster: The cluster, None for this process.

        Raises:
            ClusterLost: The cluster no longer answers.
            InputError: The bundle cannot be loaded, or nothing can be predicted.
        """
        signature, metadata = open_bundle(model, self.application)
        settings = with_promise(settings, metadata.promise, bundle=model, judged=self.judged, console=console)
        predictor = self.make(signature, metadata, model, settings, out)
        run = open_run(out, application=self.application, bundle=model, settings=settings, sources=sources)
        lines = predict_sources(
            self.line_class,
            predictor,
            sources,
            out,
            console,
            class_names=metadata.class_names,
            least_familiarity=metadata.least_familiarity,
            run=run,
            remote=on_cluster(
                cluster, run, make=self.make, line_class=self.line_class, bundle=model, settings=settings
            ),
        )
        return predictor, lines
