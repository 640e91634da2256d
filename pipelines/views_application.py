"""What the shared steps have to know of examples that are described by views of features.

All heads but one see the principal components of all views together; ``dfgp_mkl`` sees those of each view,
and has a unit of its first layer for each. Both projections are weights of one network that is not trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from rich.console import Console

from data_prep.errors import InputError
from data_prep.splits import Splits, manifest_splits
from data_prep.view_features import read_views
from data_prep.view_manifest import ViewsManifest
from gpmodels import HybridModel
from gpmodels.networks.view_projection import ViewProjection
from pipelines.bundle_metadata import SignatureDescription, view_signatures
from pipelines.head_application import JudgedExample, Prepared
from pipelines.head_settings import HeadName
from pipelines.head_training import PRETRAINING
from pipelines.labelled_application import LabelledApplication
from pipelines.machines import (
    cross_validation_parts,
    machine_predictors,
    train_machines,
)
from pipelines.overlays import Picture
from pipelines.predictors import Predictor
from pipelines.prepared_matrix import PreparedMatrix
from pipelines.runs import head_folder
from pipelines.serving import Server, ViewServer
from pipelines.training import BEST, load_checkpoint
from pipelines.view_preprocessing import PREPROCESSING, ViewPreprocessing
from pipelines.views_settings import ViewsRun, ViewsTrainSettings

SettingsKind = TypeVar("SettingsKind", bound=ViewsTrainSettings)
RunKind = TypeVar("RunKind", bound=ViewsRun)
ManifestKind = TypeVar("ManifestKind", bound=ViewsManifest)


@dataclass(frozen=True)
class PreparedViews(PreparedMatrix[ManifestKind]):
    """A prepared folder with the views of its examples."""

    @cached_property
    def features(self) -> NDArray[np.float32]:
        """``[examples, D]``, all views after each other, in the order of the manifest."""
        views = read_views(self.folder, self.manifest)
        return np.concatenate([views[name] for name in self.manifest.views], axis=1)


class ViewsApplication(LabelledApplication[SettingsKind, RunKind, ManifestKind]):
    """Base class of the applications that know their examples by views of features."""

    fixed_settings: tuple[str, ...] = ("components", "steps_per_epoch", "class_balance")

    # Data

    def prepared(self, folder: Path) -> PreparedViews[ManifestKind]:
        """A prepared folder with its features."""
        prepared = super().prepared(folder)
        return PreparedViews(prepared.folder, prepared.manifest)

    def dataset(self, data: Prepared[ManifestKind], names: Sequence[str], **options: Any) -> tf.data.Dataset:
        """Batches of features and labels."""
        return with_views(data).dataset(names, **options)

    def inputs(
        self, data: Prepared[ManifestKind], names: Sequence[str]
    ) -> Iterator[tuple[str, NDArray[Any], int]]:
        """Features and labels."""
        return with_views(data).inputs(names)

    def run_facts(self, data: Prepared[ManifestKind], splits: Splits) -> dict[str, Any]:
        """How the features were computed."""
        manifest = data.manifest
        features = ViewPreprocessing(
            extractor=manifest.extractor, views=manifest.views, settings=self.extraction_settings(manifest)
        )
        return {**super().run_facts(data, splits), "features": features}

    def extraction_settings(self, manifest: ManifestKind) -> dict[str, Any]:
        """What `predict` has to know to describe an example as `prepare` did, as JSON has it."""
        raise NotImplementedError

    def check_training(
        self,
        data: Prepared[ManifestKind],
        splits: Splits,
        settings: SettingsKind,
        *,
        begins: bool,
    ) -> list[str]:
        """Refuse classes that are too small for support vector machines."""
        if settings.machines:
            cross_validation_parts(with_views(data).part(splits.train), data.manifest.class_names)
        return super().check_training(data, splits, settings, begins=begins)

    def require_fitting(self, data: Prepared[ManifestKind], model: Path, run: RunKind) -> None:
        """Check that the features are computed alike.

        Raises:
            InputError: They are not.
        """
        super().require_fitting(data, model, run)
        found = ViewPreprocessing(
            extractor=data.manifest.extractor,
            views=data.manifest.views,
            settings=self.extraction_settings(data.manifest),
        )
        if found != run.features:
            raise InputError(
                f"{data.folder} has features of {found!r}, but {model} was trained on {run.features!r}. "
                "Prepare the data with the same settings and the same version of gpimaging."
            )

    def judged_at_once(self, data: Prepared[ManifestKind]) -> int:  # noqa: ARG002 - the base class has it
        """Features are small."""
        return 4096

    # Models

    def make_network(self, settings: SettingsKind, run: RunKind) -> ViewProjection:
        """Components of all views together."""
        return ViewProjection(views_of(run), components=settings.components, name="projection")

    def head_network(self, name: HeadName, settings: SettingsKind, run: RunKind) -> keras.Model:
        """Components of each view for the head that weighs them."""
        if name != "dfgp_mkl":
            return self.make_network(settings, run)
        return self._apart(settings, run)

    def views(self, settings: SettingsKind, run: RunKind) -> dict[str, slice]:
        """Components of each view."""
        return dict(zip(described(run).views, self._apart(settings, run).view_columns, strict=True))

    def _apart(self, settings: SettingsKind, run: RunKind) -> ViewProjection:
        return ViewProjection(views_of(run), components=settings.components, by_view=True, name="projection")

    def start_network(
        self,
        network: keras.Model,
        settings: SettingsKind,  # noqa: ARG002 - the base class has it
        batches: tf.data.Dataset,
    ) -> None:
        """Fit the projection on the training examples."""
        network.adapt(np.concatenate([features.numpy() for features, *_ in batches]))

    def input_shape(self, run: RunKind) -> tuple[int | None, ...]:
        """Of all views together."""
        return (None, sum(views_of(run)))

    def projection(self, run_folder: Path, settings: SettingsKind, run: RunKind) -> ViewProjection:
        """The network that all heads of a run share, with what it learned of the training examples.

        Raises:
            InputError: It has not been trained that far, or is damaged.
        """
        model = self.make_model("linear", settings, run)
        load_checkpoint(model, head_folder(run_folder, PRETRAINING) / BEST)
        return model.network

    def train_machines(
        self, settings: SettingsKind, data: Path, run_folder: Path, run: RunKind, console: Console
    ) -> None:
        """Train the support vector machines that a run is to be compared with, on what its heads see.

        Raises:
            InputError: The training examples of a class are of one group, or a file cannot be written.
        """
        if not settings.machines:
            return
        prepared = self.prepared(data)
        splits = manifest_splits(
            prepared.manifest, fold=settings.fold, selection_fraction=settings.selection_fraction
        )
        projection = self.projection(run_folder, settings, run)
        train_machines(
            settings.machines,
            prepared.part(splits.train).through(projection),
            prepared.part(splits.selection).through(projection),
            prepared.manifest.class_names,
            run=run_folder,
            seed=settings.seed,
            console=console,
        )

    def predictors(self, run_folder: Path, settings: SettingsKind, run: RunKind) -> list[Predictor]:
        """Support vector machines first, where the run has them."""
        network = self.projection(run_folder, settings, run) if settings.machines else None
        machines = machine_predictors(settings.machines, run_folder, network)
        return [*machines, *super().predictors(run_folder, settings, run)]

    def picture(self, data: Prepared[ManifestKind], example: JudgedExample) -> Picture:
        """The image that the features are of."""
        (_, image, _), *_ = super().inputs(data, [example.name])
        return np.asarray(image, np.uint8)

    # Bundle

    def server(self, model: HybridModel, run: RunKind) -> Server:
        """One prediction for each example."""
        return ViewServer(model.inference_function(), described(run).views, model.inference_holders)

    def signatures(self, run: RunKind, *, single_latent: bool) -> dict[str, SignatureDescription]:
        """One input for each view."""
        return view_signatures(run.class_names, described(run).views, single_latent=single_latent)

    def inside(self, run: RunKind) -> str:  # noqa: ARG002 - the base class has it
        """What is done to features."""
        return "scaling of the views and projection on principal components."

    def network_name(self, settings: SettingsKind, run: RunKind) -> str:  # noqa: ARG002 - the base class has it
        """The projection."""
        return f"{settings.components} principal components, not trained with the heads"

    def preprocessing_settings(self, run: RunKind) -> dict[str, Any]:  # noqa: ARG002 - the base class has it
        """None here: they are in a file of their own."""
        return {}

    def bundle_files(self, run: RunKind) -> dict[str, str]:
        """How the features are computed."""
        return {PREPROCESSING: described(run).model_dump_json(indent=1) + "\n"}

    def sample(
        self,
        run: RunKind,  # noqa: ARG002 - others need it
        network: keras.Model,
    ) -> NDArray[np.float32]:
        """Features that are among those of the training examples."""
        return np.asarray(network.typical_features(), np.float32)


def with_views(data: Prepared[ManifestKind]) -> PreparedViews[ManifestKind]:
    """The prepared folder as one with features, which :meth:`ViewsApplication.prepared` returns."""
    if not isinstance(data, PreparedViews):
        raise TypeError(f"Expected a PreparedViews, got a {type(data).__name__}.")
    return data


def described(run: ViewsRun) -> ViewPreprocessing:
    """How the features of a run on features are computed."""
    if run.features is None:
        raise ValueError("The run has no features: it was trained on images.")
    return run.features


def views_of(run: ViewsRun) -> tuple[int, ...]:
    """Number of features of each view."""
    return tuple(described(run).views.values())
