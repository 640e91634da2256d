"""Parts of applications whose images have their own proportions: how they get the network's size."""

from pathlib import Path
from typing import Any

import keras
from numpy.typing import NDArray

from data_prep.errors import InputError
from data_prep.labelled.image_settings import ImagePrepareSettings
from data_prep.splits.divide import Splits
from pipelines.bundles.preprocessing import ImagePreprocessing
from pipelines.bundles.serving import levels_in_words
from pipelines.labelled.classes import noise_of_size
from pipelines.labelled.data import PreparedImages
from pipelines.runs.application import require_levels

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
