"""Parts of applications whose examples are described by views of features.

All heads but one see the principal components of all views together; `dfgp_mkl` sees those of each view, and
has a unit of its first layer for each. Both projections are weights of one network that is not trained.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.errors import InputError
from data_prep.labelled.dataset import labelled_records
from data_prep.labelled.view_manifest import ViewsManifest
from data_prep.splits.divide import Splits
from gpmodels import HybridModel
from gpmodels.networks.view_projection import ViewProjection
from pipelines.bundles.metadata import SignatureDescription, view_signatures
from pipelines.bundles.preprocessing import PREPROCESSING, ViewPreprocessing
from pipelines.bundles.serving import Server, ViewServer
from pipelines.labelled.classes import likelihood
from pipelines.labelled.data import PreparedViews
from pipelines.labelled.settings import ViewsRun, ViewsTrainSettings
from pipelines.runs.application import JudgedExample, Network
from pipelines.scores.pictures import Picture

# Data


@dataclass(frozen=True)
class ViewFacts:
    """What a run knows of how its features were computed, and whether other features were computed alike.

    Attributes:
        extraction: Returns what `predict` has to know to describe an example as `prepare` did, as JSON has
            it.
    """

    extraction: Callable[[Any], dict[str, Any]]

    def preprocessing(self, manifest: ViewsManifest) -> ViewPreprocessing:
        """Return how the features of a prepared folder were computed."""
        return ViewPreprocessing(
            extractor=manifest.extractor, views=manifest.views, settings=self.extraction(manifest)
        )

    def of_run(self, data: PreparedViews[Any], _splits: Splits) -> dict[str, Any]:
        """Return what a run writes down of its features."""
        return {"features": self.preprocessing(data.manifest)}

    def require_same(self, data: PreparedViews[Any], model: Path, run: ViewsRun) -> None:
        """Raise `InputError` where the features of the data are not computed as those of a run."""
        found = self.preprocessing(data.manifest)
        if found != run.features:
            raise InputError(
                f"{data.folder} has features of {found!r}, but {model} was trained on {run.features!r}. "
                "Prepare the data with the same settings and the same version of gpimaging."
            )


def described_image(data: PreparedViews[Any], example: JudgedExample) -> Picture:
    """Return the image that the features of an example describe."""
    ((_, image, _),) = labelled_records(data.folder, data.manifest, [example.name])
    return np.asarray(image, np.uint8)


# Network


def joint_projection(settings: ViewsTrainSettings, run: ViewsRun) -> ViewProjection:
    """Return the projection on components of all views together."""
    return ViewProjection(views_of(run), components=settings.components, name="projection")


def projection_by_view(settings: ViewsTrainSettings, run: ViewsRun) -> ViewProjection:
    """Return the projection on components of each view."""
    return ViewProjection(views_of(run), components=settings.components, by_view=True, name="projection")


def component_columns(settings: ViewsTrainSettings, run: ViewsRun) -> dict[str, slice]:
    """Return the columns of each view's components, by the name of the view."""
    return dict(
        zip(view_preprocessing(run).views, projection_by_view(settings, run).view_columns, strict=True)
    )


def fit_projection(network: keras.Model, _settings: ViewsTrainSettings, batches: tf.data.Dataset) -> None:
    """Fit the projection on the training examples."""
    network.adapt(np.concatenate([features.numpy() for features, *_ in batches]))


def features_shape(run: ViewsRun) -> tuple[int | None, ...]:
    """Return the shape of batches of all views side by side."""
    return (None, sum(views_of(run)))


def projection_name(settings: ViewsTrainSettings, _run: ViewsRun) -> str:
    """Return what a bundle says of the projection."""
    return f"{settings.components} principal components, not trained with the heads"


VIEWS_NETWORK: Network[ViewsTrainSettings, ViewsRun] = Network(
    make=joint_projection,
    name=projection_name,
    input_shape=features_shape,
    start=fit_projection,
    views=component_columns,
    by_view=projection_by_view,
    likelihood=likelihood,
)
"""The network of all applications on views: one projection, not trained."""


# Bundle


def views_server(model: HybridModel, run: ViewsRun) -> Server:
    """Return the graph that predicts one class for each example from its views."""
    return ViewServer(model.inference_function(), view_preprocessing(run).views)


def views_signatures(run: ViewsRun, single_latent: bool) -> dict[str, SignatureDescription]:
    """Return the signatures of a bundle that takes views."""
    return view_signatures(run.class_names, view_preprocessing(run).views, single_latent=single_latent)


def inside_views(_run: ViewsRun) -> str:
    """Return what the graph of a bundle does to features, in words."""
    return "scaling of the views and projection on principal components."


def no_settings(_run: ViewsRun) -> dict[str, Any]:
    """Return no preprocessing settings: those of views are in a file of their own, see `views_files`."""
    return {}


def views_files(run: ViewsRun) -> dict[str, str]:
    """Return the file that says how the features are computed."""
    return {PREPROCESSING: view_preprocessing(run).model_dump_json(indent=1) + "\n"}


def typical_features(_run: ViewsRun, network: keras.Model) -> NDArray[np.float32]:
    """Return features that are among those of the training examples."""
    return np.asarray(network.typical_features(), np.float32)


DEPLOYED_VIEWS: dict[str, Any] = {
    "settings": no_settings,
    "inside": inside_views,
    "signatures": views_signatures,
    "server": views_server,
    "sample": typical_features,
    "files": views_files,
}
"""Parts of the `ClassDeployment` of all applications on views."""


def view_preprocessing(run: ViewsRun) -> ViewPreprocessing:
    """Return how the features of a run on features are computed."""
    if run.features is None:
        raise ValueError("The run has no features: it was trained on images.")
    return run.features


def views_of(run: ViewsRun) -> tuple[int, ...]:
    """Return the number of features of each view."""
    return tuple(view_preprocessing(run).views.values())
