"""Parts of applications whose examples are images of one size, with one class each."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import keras

from data_prep.prepared.manifest import LabelledManifest
from data_prep.splits.divide import Splits
from gpmodels.networks.densenet import DenseNet
from gpmodels.networks.sonar_features import sonar_features
from pipelines.labelled.classes import (
    labelled_inputs,
    lacking_classes,
    likelihood,
)
from pipelines.labelled.data import PreparedImages, open_images
from pipelines.labelled.settings import ImageTrainSettings, LabelledRun
from pipelines.labelled.sources import labelled_sources
from pipelines.runs.application import Inputs, Network

ManifestKind = TypeVar("ManifestKind", bound=LabelledManifest)
SettingsKind = TypeVar("SettingsKind", bound=ImageTrainSettings)
RunKind = TypeVar("RunKind", bound=LabelledRun)

FIXED_SETTINGS = ("network", "augmentation", "steps_per_epoch", "class_balance")
"""Settings on which everything depends that is trained on images of one size."""

FIXED_GP_SETTINGS = ("likelihood",)
"""Settings on which only the GP heads depend."""


def image_network(settings: ImageTrainSettings, run: LabelledRun) -> keras.Model:
    """Return the untrained feature extractor that the settings name."""
    if settings.network == "DenseNet-40":
        return DenseNet(batch_norm_momentum=run.batch_norm_momentum)
    return sonar_features(settings.network, batch_norm_momentum=run.batch_norm_momentum)


IMAGE_NETWORK: Network[Any, LabelledRun] = Network(
    make=image_network, name=lambda settings, _run: settings.network, likelihood=likelihood
)
"""The network of all applications on images of one size."""


def image_inputs(
    manifest: type[ManifestKind],
    facts: Callable[[PreparedImages[ManifestKind], Splits], dict[str, Any]],
    fitting: Callable[[PreparedImages[ManifestKind], Path, RunKind], None],
) -> Inputs[PreparedImages[ManifestKind], SettingsKind, RunKind]:
    """Return what the models of an application on images of one size learn from.

    Args:
        manifest: Class of the application's manifest.
        facts: Returns what a run writes down of how its images were made.
        fitting: Raises `InputError` where images were made in another way than those of a run.
    """
    return labelled_inputs(
        sources=labelled_sources,
        open=partial(open_images, manifest=manifest),
        facts=(facts,),
        checks=(lacking_classes,),
        fitting=(fitting,),
    )
