"""The parts of the application for images of any subject: how they are fitted, and what a bundle is for."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from data_prep.classify.manifest import ClassifyManifest
from data_prep.files.depth import read_at_levels
from data_prep.files.fitting import fit_image
from data_prep.prepared.manifest import application_of
from gpmodels import HybridModel
from pipelines.bundles.fitting import fit_images
from pipelines.bundles.serving import ClassServer, Server
from pipelines.classify.multilabel import several_labels
from pipelines.classify.settings import APPLICATION, SEVERAL_LABELS, VOTES_GIVEN, ClassifyRun, TrainSettings
from pipelines.classify.votes import of_votes
from pipelines.command.folders import RUN
from pipelines.labelled.classes import ClassDeployment, ClassJudge
from pipelines.labelled.data import PreparedImages
from pipelines.labelled.group_judge import image_or_group_judge
from pipelines.labelled.images import (
    FIXED_GP_SETTINGS,
    FIXED_SETTINGS,
    IMAGE_NETWORK,
    fit_facts,
    fitting_in_words,
    image_inputs,
    oblong_noise,
    require_fit,
)
from pipelines.runs.application import Application
from pipelines.runs.description import load_run
from pipelines.trunks.application import with_trunks

ClassifyData = PreparedImages[ClassifyManifest]


def fitting_server(model: HybridModel, run: ClassifyRun) -> Server:
    """Return the graph that predicts one class for each image, whatever its proportions."""
    resize = partial(fit_images, fit=run.images.fit)
    return ClassServer(model.inference_function(), run.size, resize, levels=run.images.levels)


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
    judge_for=image_or_group_judge,
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

MULTILABEL: Application[Any, TrainSettings, ClassifyRun] = with_trunks(several_labels(_ON_IMAGES))
"""Images of any subject, several yes/no labels each."""


VOTES: Application[Any, TrainSettings, ClassifyRun] = with_trunks(of_votes(_ON_IMAGES))
"""Images of any subject, votes for the class of each."""


def one_class_or_several_labels(folder: Path) -> Application[Any, TrainSettings, ClassifyRun]:
    """Return the application that a prepared folder, or that of a run, is of.

    Raises:
        InputError: The folder is neither.
    """
    others = {SEVERAL_LABELS: MULTILABEL, VOTES_GIVEN: VOTES}
    if (folder / RUN).exists():
        run = load_run(folder, ClassifyRun)
        return MULTILABEL if run.several_labels else VOTES if run.votes else CLASSIFY
    return others.get(application_of(folder), CLASSIFY)


CLASSIFY: Application[ClassifyData, TrainSettings, ClassifyRun] = replace(
    with_trunks(_ON_IMAGES), for_folder=one_class_or_several_labels
)
"""Images of any subject, one class each; see `one_class_or_several_labels`."""
