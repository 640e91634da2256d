"""The parts of the application for images of any subject: how they are fitted, and what a bundle is for."""

from functools import partial
from pathlib import Path
from typing import Any

import keras
from numpy.typing import NDArray

from data_prep.classify.manifest import ClassifyManifest
from data_prep.classify.settings import ClassifyPrepareSettings
from data_prep.errors import InputError
from data_prep.files.depth import read_at_levels
from data_prep.files.fitting import fit_image
from data_prep.splits.divide import Splits
from gpmodels import HybridModel
from pipelines.bundles.fitting import fit_images
from pipelines.bundles.serving import ClassServer, Server, levels_in_words
from pipelines.classify.settings import APPLICATION, ClassifyRun, ImagePreprocessing, TrainSettings
from pipelines.labelled.classes import ClassDeployment, ClassJudge, noise_of_size
from pipelines.labelled.data import PreparedImages
from pipelines.labelled.images import FIXED_GP_SETTINGS, FIXED_SETTINGS, IMAGE_NETWORK, image_inputs
from pipelines.runs.application import Application, require_levels
from pipelines.trunks.application import with_trunks

ClassifyData = PreparedImages[ClassifyManifest]


def fit_facts(data: ClassifyData, _splits: Splits) -> dict[str, Any]:
    """Return what `predict` has to know to fit images as `prepare` did."""
    return {"images": _preprocessing(data)}


def require_fit(data: ClassifyData, model: Path, run: ClassifyRun) -> None:
    """Raise `InputError` where images were made in another way than those of the training."""
    found = _preprocessing(data)
    require_levels(data.folder, found.levels, model, run.images.levels)
    if found.fit != run.images.fit:
        raise InputError(
            f"{data.folder} was prepared with fit {found.fit}, but {model} was trained on images with fit "
            f"{run.images.fit}. Prepare the data with --fit {run.images.fit}."
        )


def _preprocessing(data: ClassifyData) -> ImagePreprocessing:
    fit = ClassifyPrepareSettings.model_validate(data.manifest.settings).fit
    return ImagePreprocessing(fit=fit, levels=data.manifest.levels)


def fitting_server(model: HybridModel, run: ClassifyRun) -> Server:
    """Return the graph that predicts one class for each image, whatever its proportions."""
    resize = partial(fit_images, fit=run.images.fit)
    return ClassServer(
        model.inference_function(), run.size, model.inference_holders, resize, levels=run.images.levels
    )


def fitting_in_words(run: ClassifyRun) -> str:
    """Return what the graph of a bundle does to an image before its network."""
    height, width = run.size
    how = {
        "crop": f"the largest middle part in the proportions of {height} x {width}, resized to that",
        "pad": f"resized to fit into {height} x {width} with its proportions, in the middle of grey borders",
    }
    deep = "" if run.images.levels is None else levels_in_words(run.images.levels)
    grown = "(averaged over areas, or interpolated where it grows)"
    return f"{deep}{how[run.images.fit]} {grown}, then scaling to -1..1."


def oblong_noise(run: ClassifyRun, _network: keras.Model) -> NDArray[Any]:
    """Return a picture of other proportions than the network's, so that `verify` tries how it is fitted."""
    return noise_of_size((run.size[0] * 3 // 2, run.size[1] * 2))


_ON_IMAGES: Application[ClassifyData, TrainSettings, ClassifyRun] = Application(
    name=APPLICATION,
    title="Images by class",
    settings=TrainSettings,
    run=ClassifyRun,
    fixed_settings=FIXED_SETTINGS,
    fixed_gp_settings=FIXED_GP_SETTINGS,
    inputs=image_inputs(ClassifyManifest, fit_facts, require_fit),
    network=IMAGE_NETWORK,
    judge=ClassJudge(),
    deployment=ClassDeployment(
        application="classify",
        kind="images",
        intended_use=(
            "Telling the classes it was trained on from each other in images like those of the training, "
            "with an uncertainty that says which images a person should look at."
        ),
        limitations=(
            "It knows the classes it was trained on and no others: an image of anything else is given one "
            "of them, if with more uncertainty. Another camera, place or light is another kind of data. "
            "Judge it on your own labelled images from there with `gpimaging classify evaluate` before "
            "relying on it."
        ),
        preprocessing="turning images upright by their EXIF orientation; `gpimaging classify predict` does.",
        settings=lambda run: run.images.model_dump(mode="json"),
        inside=fitting_in_words,
        server=fitting_server,
        sample=oblong_noise,
    ),
    read_image=lambda path, run: fit_image(read_at_levels(path, run.images.levels), run.size, run.images.fit),
)

CLASSIFY: Application[ClassifyData, TrainSettings, ClassifyRun] = with_trunks(_ON_IMAGES)
"""Images of any subject, one class each."""
