"""The parts of the histopathology application: features or towers, and what is judged.

The heads predict patches. An image, or a patient, is judged by the mean probability of its patches.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import cv2
import keras
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.resizing import resize_image
from data_prep.histopathology.labels import CENSORED, EVENT
from data_prep.histopathology.manifest import HistopathologyExample, HistopathologyManifest
from data_prep.histopathology.patches import cut_patches
from data_prep.labelled.dataset import labelled_records
from data_prep.splits.divide import Splits
from gpmodels.networks.stain_towers import VIEWS, StainTowers
from gpmodels.registry import head_family
from pipelines.histopathology.settings import (
    APPLICATION,
    EvaluateSettings,
    HistopathologyRun,
    TrainSettings,
)
from pipelines.labelled.classes import (
    ClassDeployment,
    ClassJudge,
    labelled_inputs,
    lacking_classes,
    likelihood,
)
from pipelines.labelled.data import LabelledData, open_images, open_views
from pipelines.labelled.pools import Pools
from pipelines.labelled.rivals import SupportVectorMachines, separable_classes
from pipelines.labelled.sources import labelled_sources
from pipelines.labelled.views import (
    DEPLOYED_VIEWS,
    VIEWS_NETWORK,
    ViewFacts,
)
from pipelines.runs.application import Application, JudgedExample, Network
from pipelines.scores.pictures import Picture
from pipelines.trunks.application import with_trunks

Features = Literal["handmade", "cnn"]
Judged = Literal["patch", "image", "patient"]
TissueData = LabelledData[HistopathologyManifest]
TissueApplication = Application[Any, TrainSettings, HistopathologyRun]

POOL_OF: dict[Judged, Callable[[HistopathologyExample], str]] = {
    "patch": lambda example: example.name,
    "image": lambda example: example.source,
    "patient": lambda example: example.patient,
}
"""What a patch is judged with: itself, its image or its patient."""

_PLURAL: dict[Judged, str] = {"patch": "patches", "image": "images", "patient": "patients"}

_TILE = 48
"""Side in pixels of a patch in the picture of an image."""
_MOST_TILES = 400


# What is learned from


def patch_facts(data: TissueData, _splits: Splits) -> dict[str, Any]:
    """Return how images are cut into patches."""
    return {"patches": data.manifest.patches}


def no_feature_facts(_data: TissueData, _splits: Splits) -> dict[str, Any]:
    """Return that a run has no features: towers learn from the patches themselves."""
    return {"features": None}


def survival_alone(data: TissueData, _splits: Splits, _settings: TrainSettings) -> Sequence[str]:
    """Return a warning where the classes only say who died."""
    if data.manifest.class_names != (CENSORED, EVENT):
        return ()
    warning = (
        "the table has survival times and no label, so the heads learn which patients had an event, "
        "however long they were observed. For times use `gpimaging histopathology survival`."
    )
    return (warning,)


def tissue_patches(path: Path, run: HistopathologyRun) -> NDArray[np.uint8]:
    """Return the patches `[K, H, W, 3]` of an image, cut as those of the training; K may be 0."""
    patches = [resize_image(patch.image, run.patches.size) for patch in cut_patches(path, run.patches)]
    return np.stack(patches) if patches else np.zeros((0, *run.patches.size, 3), np.uint8)


# Network


def towers(_settings: TrainSettings, run: HistopathologyRun) -> keras.Model:
    """Return an untrained network with one tower for each view."""
    return StainTowers(batch_norm_momentum=run.batch_norm_momentum)


def tower_columns(_settings: TrainSettings, _run: HistopathologyRun) -> dict[str, slice]:
    """Return the columns of the features of each tower, by its name."""
    return dict(zip(VIEWS, StainTowers().view_columns, strict=True))


def towers_name(_settings: TrainSettings, _run: HistopathologyRun) -> str:
    """Return what a bundle says of the towers."""
    return "a convolutional tower for each of haematoxylin, eosin and texture"


# What is judged


def tissue_judge(by: Judged) -> ClassJudge[Any]:
    """Return what judges patches, images or patients."""
    pools = Pools(POOL_OF[by])

    def picture(data: TissueData, example: JudgedExample) -> Picture:
        """Return the patches of an image where they lie; of a patient, of the first of the images."""
        of_pool = [entry for entry in data.manifest.examples if pools.name_of(entry) == example.name]
        shown = [entry for entry in of_pool if entry.source == of_pool[0].source][:_MOST_TILES]
        records = labelled_records(data.folder, data.manifest, [entry.name for entry in shown])
        images = {name: image for name, image, _ in records}
        return mosaic([(entry, images[entry.name]) for entry in shown])

    return ClassJudge(judged=_PLURAL[by], picture=picture, pools=pools)


def mosaic(patches: Sequence[tuple[HistopathologyExample, NDArray[np.uint8]]]) -> Picture:
    """Return the patches of an image at their places, small; background is white.

    Args:
        patches: Patches, each with its picture.
    """
    rows, columns = (sorted({getattr(entry, side) for entry, _ in patches}) for side in ("row", "column"))
    picture = np.full((_TILE * len(rows), _TILE * len(columns), 3), 255, np.uint8)
    for entry, image in patches:
        top, left = _TILE * rows.index(entry.row), _TILE * columns.index(entry.column)
        tile = cv2.resize(image, (_TILE, _TILE), interpolation=cv2.INTER_AREA)
        picture[top : top + _TILE, left : left + _TILE] = tile
    return picture


# The applications


def patch_settings(run: HistopathologyRun) -> dict[str, Any]:
    """Return how images are cut into patches, as JSON has it."""
    return run.patches.model_dump(mode="json")


_FEATURES = ViewFacts(lambda manifest: manifest.patches.model_dump(mode="json"))

_TOWERS_DEPLOYMENT: ClassDeployment[TrainSettings, HistopathologyRun] = ClassDeployment(
    application="histopathology",
    kind="patches",
    intended_use=(
        "Telling classes of stained tissue in images like those it was trained on, with a map and an "
        "uncertainty that says where a pathologist should look. Not a diagnosis."
    ),
    limitations=(
        "It knows the classes it was trained on and no others. Another stain, scanner, magnification or "
        "organ is another kind of data. Judge it on your own labelled images with `gpimaging histopathology "
        "evaluate` before relying on it."
    ),
    preprocessing=(
        "cutting an image into patches without background, as preprocessing_settings or preprocessing.json "
        "says; `gpimaging histopathology predict` does it."
    ),
    settings=patch_settings,
)

_TOWERS: TissueApplication = Application(
    name=APPLICATION,
    title="Tumours in tissue",
    settings=TrainSettings,
    run=HistopathologyRun,
    fixed_settings=("features", "augmentation", "steps_per_epoch", "class_balance"),
    fixed_gp_settings=("likelihood",),
    inputs=labelled_inputs(
        sources=labelled_sources,
        open=partial(open_images, manifest=HistopathologyManifest),
        facts=(
            patch_facts,
            no_feature_facts,
        ),
        checks=(lacking_classes, survival_alone),
    ),
    network=Network(make=towers, name=towers_name, views=tower_columns, likelihood=likelihood),
    judge=tissue_judge("image"),
    read_image=tissue_patches,
    deployment=_TOWERS_DEPLOYMENT,
    pooled={_PLURAL[by]: POOL_OF[by] for by in ("image", "patient")},
)

TISSUE_TOWERS: TissueApplication = with_trunks(_TOWERS)
"""Patches seen by a small convolutional network for each view, or by a trunk."""

TISSUE_FEATURES: TissueApplication = replace(
    _TOWERS,
    read_image=None,
    fixed_settings=("features", "components", "steps_per_epoch", "class_balance"),
    inputs=labelled_inputs(
        sources=labelled_sources,
        open=partial(open_views, manifest=HistopathologyManifest),
        facts=(
            patch_facts,
            _FEATURES.of_run,
        ),
        checks=(separable_classes, lacking_classes, survival_alone),
        fitting=(_FEATURES.require_same,),
    ),
    network=VIEWS_NETWORK,
    deployment=replace(
        _TOWERS_DEPLOYMENT,
        **DEPLOYED_VIEWS,
    ),
    rivals=(SupportVectorMachines(),),
)
"""Patches described by handmade features."""


def tissue_application(features: Features, by: Judged = "image") -> TissueApplication:
    """Return the application for handmade features, or for towers.

    Args:
        features: `"handmade"` or `"cnn"`.
        by: What is judged.
    """
    application = TISSUE_FEATURES if features == "handmade" else TISSUE_TOWERS
    return replace(application, judge=tissue_judge(by))


def tissue_variant(settings: TrainSettings, console: Console) -> tuple[TissueApplication, TrainSettings]:
    """Return the application for handmade features, towers or a trunk, whose features come in one piece.

    The default heads that weigh views are left out for a trunk.
    """
    if settings.network is None:
        return replace(tissue_application(settings.features), judge_for=chosen_judge), settings
    towers_or_trunk = replace(TISSUE_TOWERS, judge_for=chosen_judge)
    if settings.heads != TrainSettings().heads:
        return towers_or_trunk, settings
    left = [name for name in settings.heads if head_family(name).needs_views]
    console.print(f"{', '.join(left)} is left out: the features of a trunk come in one piece")
    heads = tuple(name for name in settings.heads if name not in left)
    return towers_or_trunk, settings.model_copy(update={"heads": heads})


def chosen_judge(settings: EvaluateSettings | None, data: TissueData) -> ClassJudge[Any]:
    """Return the judge of patches, images or patients.

    Without `by` images are judged, or patches where an image has several classes.

    Raises:
        InputError: Images or patients are to be judged that have patches of several classes.
    """
    asked = None if settings is None else settings.by
    by = asked or ("image" if is_of_one_class(data.manifest, "image") else "patch")
    if not is_of_one_class(data.manifest, by):
        raise InputError(
            f"{data.folder}: by={by}, but here one {by} may have patches of several classes, and so none to "
            "be judged by. Judge smaller parts, such as --set by=patch."
        )
    return tissue_judge(by)


def is_of_one_class(manifest: HistopathologyManifest, by: Judged) -> bool:
    """Whether every patch, image or patient has patches of one class only, to be judged by.

    This is false of images whose labels come from masks, and of patients with images of several classes.

    Args:
        manifest: Manifest of the prepared folder.
        by: What is judged.
    """
    pool = POOL_OF[by]
    pools = {pool(example) for example in manifest.examples}
    return len({(pool(example), example.label) for example in manifest.examples}) == len(pools)


HISTOPATHOLOGY: TissueApplication = replace(TISSUE_TOWERS, variant=tissue_variant)
"""What the command works with: its settings choose how patches are seen, and what is judged."""
