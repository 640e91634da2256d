"""What the shared steps have to know of patches of tissue: features or towers, and what is judged.

The heads predict patches. An image, or a patient, is judged by the mean probability of its patches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import cv2
import keras
import numpy as np
from numpy.typing import NDArray

from data_prep.histopathology_labels import CENSORED, EVENT
from data_prep.histopathology_manifest import HistopathologyExample, HistopathologyManifest
from data_prep.labelled import labelled_records
from data_prep.splits import Splits
from gpmodels.networks.stain_towers import VIEWS, StainTowers
from pipelines.head_application import JudgedExample, Prepared
from pipelines.histopathology_settings import HistopathologyRun, TrainSettings
from pipelines.overlays import Picture
from pipelines.pooled_application import PooledApplication
from pipelines.views_application import ViewsApplication

Features = Literal["handmade", "cnn"]
Judged = Literal["patch", "image", "patient"]

_TILE = 48
"""Side in pixels of a patch in the picture of an image."""
_MOST_TILES = 400


@dataclass(frozen=True)
class TissueApplication(PooledApplication[TrainSettings, HistopathologyRun, HistopathologyManifest]):
    """Base class for features and for towers.

    Attributes:
        by: What is judged.
    """

    by: Judged = "image"

    name = "histopathology"
    title = "Tumours in tissue"
    point = "patch"
    kind = "patches"
    settings_class = TrainSettings
    run_class = HistopathologyRun
    manifest_class = HistopathologyManifest
    preprocessing = (
        "cutting an image into patches without background, as preprocessing_settings or preprocessing.json "
        "says; `gpimaging histopathology predict` does it."
    )
    intended_use = (
        "Telling classes of stained tissue in images like those it was trained on, with a map and an "
        "uncertainty that says where a pathologist should look. Not a diagnosis."
    )
    limitations = (
        "It knows the classes it was trained on and no others. Another stain, scanner, magnification or "
        "organ is another kind of data. Judge it on your own labelled images with `gpimaging histopathology "
        "evaluate` before relying on it."
    )

    @property
    def judged(self) -> str:  # type: ignore[override] # the base class has a fixed name
        """In the plural."""
        return {"patch": "patches", "image": "images", "patient": "patients"}[self.by]

    def pool(self, example: HistopathologyExample) -> str:
        """The patch itself, its image or its patient."""
        return {"patch": example.name, "image": example.source, "patient": example.patient}[self.by]

    def run_facts(self, data: Prepared[HistopathologyManifest], splits: Splits) -> dict[str, Any]:
        """How images are cut."""
        return {**super().run_facts(data, splits), "patches": data.manifest.patches}

    def check_training(
        self,
        data: Prepared[HistopathologyManifest],
        splits: Splits,
        settings: TrainSettings,
        *,
        begins: bool,
    ) -> list[str]:
        """Warn where the classes only say who died."""
        warnings = super().check_training(data, splits, settings, begins=begins)
        if data.manifest.class_names == (CENSORED, EVENT):
            warnings.append(
                "the table has survival times and no label, so the heads learn which patients had an event, "
                "however long they were observed. For times use `gpimaging histopathology survival`."
            )
        return warnings

    def picture(self, data: Prepared[HistopathologyManifest], example: JudgedExample) -> Picture:
        """The patches of an image where they lie; of a patient, of the first of the images."""
        of_pool = [entry for entry in data.manifest.examples if self.pool(entry) == example.name]
        shown = [entry for entry in of_pool if entry.source == of_pool[0].source][:_MOST_TILES]
        images = {
            name: image
            for name, image, _ in labelled_records(data.folder, data.manifest, [e.name for e in shown])
        }
        return mosaic([(entry, images[entry.name]) for entry in shown])


class TissueFeatures(
    TissueApplication, ViewsApplication[TrainSettings, HistopathologyRun, HistopathologyManifest]
):
    """Patches described by handmade features."""

    fixed_settings = ("features", *ViewsApplication.fixed_settings)

    def extraction_settings(self, manifest: HistopathologyManifest) -> dict[str, Any]:
        """How images are cut into patches."""
        return manifest.patches.model_dump(mode="json")


class TissueTowers(TissueApplication):
    """Patches seen by a small convolutional network for each view."""

    fixed_settings = ("features", "augmentation", "steps_per_epoch", "class_balance")

    def run_facts(self, data: Prepared[HistopathologyManifest], splits: Splits) -> dict[str, Any]:
        """There are no features."""
        return {**super().run_facts(data, splits), "features": None}

    def make_network(self, settings: TrainSettings, run: HistopathologyRun) -> keras.Model:  # noqa: ARG002 - the base class has it
        """One tower for each view."""
        return StainTowers(batch_norm_momentum=run.batch_norm_momentum)

    def views(self, settings: TrainSettings, run: HistopathologyRun) -> dict[str, slice]:  # noqa: ARG002 - the base class has it
        """Features of each tower."""
        return dict(zip(VIEWS, StainTowers().view_columns, strict=True))

    def network_name(self, settings: TrainSettings, run: HistopathologyRun) -> str:  # noqa: ARG002 - the base class has it
        """Of the towers."""
        return "a convolutional tower for each of haematoxylin, eosin and texture"

    def preprocessing_settings(self, run: HistopathologyRun) -> dict[str, Any]:
        """How images are cut into patches."""
        return run.patches.model_dump(mode="json")


def mosaic(patches: Sequence[tuple[HistopathologyExample, NDArray[np.uint8]]]) -> Picture:
    """Patches of an image at their places, small; background is white.

    Args:
        patches: Each with its picture.
    """
    rows, columns = (sorted({getattr(entry, side) for entry, _ in patches}) for side in ("row", "column"))
    picture = np.full((_TILE * len(rows), _TILE * len(columns), 3), 255, np.uint8)
    for entry, image in patches:
        top, left = _TILE * rows.index(entry.row), _TILE * columns.index(entry.column)
        tile = cv2.resize(image, (_TILE, _TILE), interpolation=cv2.INTER_AREA)
        picture[top : top + _TILE, left : left + _TILE] = tile
    return picture


def tissue_application(features: Features, by: Judged = "image") -> TissueFeatures | TissueTowers:
    """The application for handmade features, or for towers.

    Args:
        features: ``"handmade"`` or ``"cnn"``.
        by: What is judged.
    """
    return TissueFeatures(by) if features == "handmade" else TissueTowers(by)
