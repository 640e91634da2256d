"""Parts of applications whose examples are images with one class each, of one size or of their own."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import keras
from numpy.typing import NDArray

from data_prep.errors import InputError
from data_prep.labelled.image_settings import ImagePrepareSettings
from data_prep.prepared.manifest import LabelledManifest
from data_prep.splits.divide import Splits
from gpmodels.networks.densenet import DenseNet
from gpmodels.networks.sonar_features import sonar_features
from pipelines.bundles.preprocessing import ImagePreprocessing
from pipelines.bundles.serving import levels_in_words
from pipelines.labelled.classes import (
    labelled_inputs,
    lacking_classes,
    likelihood,
    noise_of_size,
)
from pipelines.labelled.data import PreparedImages, open_images
from pipelines.labelled.settings import ImageTrainSettings, LabelledRun
from pipelines.labelled.sources import labelled_sources
from pipelines.runs.application import Inputs, Network, require_levels

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


FittedData = PreparedImages[Any]


def fit_facts(data: FittedData, _splits: Splits) -> dict[str, Any]:
    """Return what `predict` has to know to fit images as `prepare` did."""
    return {"images": _preprocessing(data)}


def require_fit(data: FittedData, model: Path, run: Any) -> None:
    """Raise `InputError` where images were made in another way than those of the training."""
    found = _preprocessing(data)
    require_levels(data.folder, found.levels, model, run.images.levels)
    if found.fit != run.images.fit:
        raise InputError(
            f"{data.folder} was prepared with fit {found.fit}, but {model} was trained on images with fit "
            f"{run.images.fit}. Prepare the data with --fit {run.images.fit}."
        )


def _preprocessing(data: FittedData) -> ImagePreprocessing:
    fit = data.manifest.settings.get("fit", ImagePrepareSettings.model_fields["fit"].default)
    return ImagePreprocessing(fit=fit, levels=data.manifest.levels)


def fitting_in_words(run: Any) -> str:
    """Return what the graph of a bundle does to an image before its network."""
    height, width = run.size
    how = {
        "crop": f"the largest middle part in the proportions of {height} x {width}, resized to that",
        "pad": f"resized to fit into {height} x {width} with its proportions, in the middle of grey borders",
    }
    deep = "" if run.images.levels is None else levels_in_words(run.images.levels)
    grown = "(averaged over areas, or interpolated where it grows)"
    return f"{deep}{how[run.images.fit]} {grown}, then scaling to -1..1."


def oblong_noise(run: Any, _network: keras.Model) -> NDArray[Any]:
    """Return a picture of other proportions than the network's, so that `verify` tries how it is fitted."""
    return noise_of_size((run.size[0] * 3 // 2, run.size[1] * 2))
