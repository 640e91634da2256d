"""What the shared steps have to know of sonar snapshots: network, preprocessing and what a bundle is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np

from data_prep.errors import InputError
from data_prep.sonar_manifest import SonarManifest
from data_prep.sonar_settings import SonarPrepareSettings
from data_prep.splits import Splits
from gpmodels.networks.densenet import densenet
from gpmodels.networks.sonar_features import sonar_features
from pipelines.head_application import Prepared
from pipelines.labelled_application import LabelledApplication
from pipelines.sonar_settings import SnapshotPreprocessing, SonarRun, TrainSettings


class SonarApplication(LabelledApplication[TrainSettings, SonarRun, SonarManifest]):
    """Mine-like objects and others in sonar snapshots (thesis chapter 6)."""

    name = "sonar"
    title = "Objects in sonar images"
    kind = "snapshots"
    settings_class = TrainSettings
    run_class = SonarRun
    manifest_class = SonarManifest
    preprocessing = (
        "cutting snapshots of about the training's size, and normalising their speckle as "
        "preprocessing_settings says; `gpimaging sonar predict` does both."
    )
    intended_use = (
        "Telling objects on the sea floor from each other and from clutter in snapshots of sonar images like "
        "those it was trained on, with an uncertainty that says which ones an analyst should look at."
    )
    limitations = (
        "It knows the classes it was trained on and no others: an unknown object is given one of them, if "
        "with more uncertainty. Another sonar, range or sea floor is another kind of data. Judge it on your "
        "own labelled snapshots with `gpimaging sonar evaluate` before relying on it."
    )

    def run_facts(self, data: Prepared[SonarManifest], splits: Splits) -> dict[str, Any]:
        """What `predict` has to know besides, to cut and normalise as `prepare` did."""
        settings = SonarPrepareSettings.model_validate(data.manifest.settings)
        train = set(splits.train)
        sizes = [(e.height, e.width) for e in data.manifest.examples if e.name in train]
        height, width = np.round(np.median(sizes, axis=0)).astype(int).tolist()
        backgrounds = (settings.background_name, settings.clutter_name)
        snapshots = SnapshotPreprocessing(
            normalisation=settings.normalisation,
            window=(height, width),
            background_classes=tuple(name for name in backgrounds if name in data.manifest.class_names),
        )
        return {**super().run_facts(data, splits), "snapshots": snapshots}

    def require_fitting(self, data: Prepared[SonarManifest], model: Path, run: SonarRun) -> None:
        """Check that the speckle is normalised alike.

        Raises:
            InputError: It is not, or the data differ in size or classes.
        """
        super().require_fitting(data, model, run)
        found = SonarPrepareSettings.model_validate(data.manifest.settings).normalisation
        if found != run.snapshots.normalisation:
            raise InputError(
                f"{data.folder} has snapshots normalised by {found}, but {model} was trained on "
                f"{run.snapshots.normalisation}. Prepare the data with the same normalisation."
            )

    def make_network(self, settings: TrainSettings, run: SonarRun) -> keras.Model:
        """The feature extractor that the settings name."""
        if settings.network == "DenseNet-40":
            return densenet(batch_norm_momentum=run.batch_norm_momentum)
        return sonar_features(settings.network, batch_norm_momentum=run.batch_norm_momentum)

    def network_name(self, settings: TrainSettings, run: SonarRun) -> str:  # noqa: ARG002 - the base class has it
        """As in the settings."""
        return settings.network

    def preprocessing_settings(self, run: SonarRun) -> dict[str, Any]:
        """What `predict` follows."""
        return run.snapshots.model_dump(mode="json")


SONAR = SonarApplication()
