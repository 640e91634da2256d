"""The parts of the sonar application: snapshots, the network and what a bundle is for."""

from pathlib import Path
from typing import Any

import numpy as np

from data_prep.errors import InputError
from data_prep.sonar.images import read_sonar
from data_prep.sonar.manifest import SonarManifest
from data_prep.sonar.settings import SonarPrepareSettings
from data_prep.splits.divide import Splits
from pipelines.labelled.classes import ClassDeployment, ClassJudge
from pipelines.labelled.data import PreparedImages
from pipelines.labelled.group_judge import image_or_group_judge
from pipelines.labelled.images import FIXED_GP_SETTINGS, FIXED_SETTINGS, IMAGE_NETWORK, image_inputs
from pipelines.runs.application import Application, require_levels
from pipelines.sonar.settings import APPLICATION, SnapshotPreprocessing, SonarRun, TrainSettings
from pipelines.sonar.windows import snapshot_of
from pipelines.trunks.application import with_trunks

SonarData = PreparedImages[SonarManifest]


def snapshot_facts(data: SonarData, splits: Splits) -> dict[str, Any]:
    """Return what `predict` has to know to cut and normalise snapshots as `prepare` did."""
    settings = SonarPrepareSettings.model_validate(data.manifest.settings)
    train = set(splits.train)
    sizes = [(e.height, e.width) for e in data.manifest.examples if e.name in train]
    height, width = np.round(np.median(sizes, axis=0)).astype(int).tolist()
    backgrounds = (settings.background_name, settings.clutter_name)
    snapshots = SnapshotPreprocessing(
        normalisation=settings.normalisation,
        levels=data.manifest.levels,
        window=(height, width),
        background_classes=tuple(name for name in backgrounds if name in data.manifest.class_names),
        mask_names=settings.mask_names,
        smallest_area=settings.smallest_area,
    )
    return {"snapshots": snapshots}


def require_normalisation(data: SonarData, model: Path, run: SonarRun) -> None:
    """Raise `InputError` where levels are not those of the training, or speckle is normalised otherwise."""
    require_levels(data.folder, data.manifest.levels, model, run.snapshots.levels)
    found = SonarPrepareSettings.model_validate(data.manifest.settings).normalisation
    if found != run.snapshots.normalisation:
        raise InputError(
            f"{data.folder} has snapshots normalised by {found}, but {model} was trained on "
            f"{run.snapshots.normalisation}. Prepare the data with the same normalisation."
        )


_ON_SNAPSHOTS: Application[SonarData, TrainSettings, SonarRun] = Application(
    name=APPLICATION,
    title="Objects in sonar images",
    settings=TrainSettings,
    run=SonarRun,
    fixed_settings=FIXED_SETTINGS,
    fixed_gp_settings=FIXED_GP_SETTINGS,
    inputs=image_inputs(SonarManifest, snapshot_facts, require_normalisation),
    network=IMAGE_NETWORK,
    judge=ClassJudge(),
    judge_for=image_or_group_judge,
    deployment=ClassDeployment(
        application="sonar",
        kind="snapshots",
        intended_use=(
            "Telling objects on the sea floor from each other and from clutter in snapshots of sonar images "
            "like those it was trained on, with an uncertainty that says which ones an analyst should look "
            "at."
        ),
        limitations=(
            "It knows the classes it was trained on and no others: an unknown object is given one of them, "
            "if with more uncertainty. Another sonar, range or sea floor is another kind of data. Judge it "
            "on your own labelled snapshots with `gpimaging sonar evaluate` before relying on it."
        ),
        preprocessing=(
            "cutting snapshots of about the training's size, and normalising their speckle as "
            "preprocessing_settings says; `gpimaging sonar predict` does both."
        ),
        settings=lambda run: run.snapshots.model_dump(mode="json"),
    ),
    read_image=lambda path, run: snapshot_of(
        read_sonar(path, run.snapshots.levels), run.size, run.snapshots.normalisation
    ),
)

SONAR: Application[SonarData, TrainSettings, SonarRun] = with_trunks(_ON_SNAPSHOTS)
"""Mine-like objects and others in sonar snapshots (thesis chapter 6)."""
