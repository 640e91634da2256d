"""A prepared folder, or a folder of images, as examples to be looked at."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from data_prep.cells.manifest import CellsManifest
from data_prep.classify.manifest import ClassifyManifest
from data_prep.errors import InputError
from data_prep.explore.folders import THUMBNAIL_SIDE, find_image_files, read_fitted_images
from data_prep.explore.quality import Quality, measure_quality
from data_prep.files.depth import find_levels
from data_prep.files.fitting import fit_image, fit_within
from data_prep.files.images import stored_size
from data_prep.files.split_folders import split_note
from data_prep.histopathology.manifest import HistopathologyManifest
from data_prep.labelled.dataset import labelled_records, require_stored_shape
from data_prep.labelled.view_manifest import ViewsManifest
from data_prep.labelled.views import read_views
from data_prep.prepared.manifest import MANIFEST_NAME, LabelledManifest, load_manifest, read_manifest
from data_prep.prepared.workers import Cluster, Workers
from data_prep.sonar.manifest import SonarManifest
from data_prep.video.features import is_features_folder, read_features, read_picture
from data_prep.video.manifest import FeaturesManifest, VideoManifest
from pipelines.command.console import stage_bars
from pipelines.explore.examples import (
    PIXEL_SIZE,
    Examples,
    Features,
    drawing_note,
    drawn_rows,
    pixel_features,
    require_enough,
)
from pipelines.explore.settings import OWN_FEATURES, ExploreSettings
from pipelines.labelled.data import PreparedImages
from pipelines.scores.pictures import Picture
from pipelines.trunks.application import LARGE_ENOUGH, encoded_by_trunk, loaded_trunk
from pipelines.trunks.features import TrunkFeatures, features_of_images
from pipelines.trunks.weights import RANDOM, packaged_file

_MANIFESTS: dict[str, type[LabelledManifest]] = {
    "histopathology": HistopathologyManifest,
    "sonar": SonarManifest,
    "cells": CellsManifest,
    "video": VideoManifest,
    "classify": ClassifyManifest,
}


@dataclass(frozen=True)
class _Trunk:
    """A frozen trunk as the settings of a run name it."""

    network: str
    weights: str | Path
    smallest_side: int
    seed: int
    unfreeze_blocks: int = 0


NETWORK = "efficientnet_lite0"
"""The network that `auto` takes where it is installed: it sees more in photographs than pixels say."""

_LEAST_SIDE, _LOOKED_AT = 64, 20
"""Shorter side of images that have enough for a network to see, and how many files are measured for it."""


def read_examples(folder: Path, settings: ExploreSettings, *, jobs: Workers, console: Console) -> Examples:
    """Read what is to be looked at.

    Args:
        folder: Prepared folder, or folder of images with a subfolder for each class or without.
        settings: Of the step.
        jobs: Number of processes, or a cluster.
        console: Where progress is shown.

    Raises:
        InputError: The folder cannot be used, or has no features of the kind that the settings name.
    """
    if (folder / MANIFEST_NAME).is_file() or is_features_folder(folder):
        return _prepared_examples(folder, settings, jobs, console)
    return _folder_examples(folder, settings, jobs, console)


# A folder of images


def _folder_examples(folder: Path, settings: ExploreSettings, jobs: Workers, console: Console) -> Examples:
    if settings.features == "views":
        raise InputError(
            f"{folder}: a folder of images has no handmade features. Choose another --features, or give a "
            f"folder that `gpimaging histopathology prepare` or `cells prepare` wrote, with its "
            f"{MANIFEST_NAME}."
        )
    files, skipped = find_image_files(folder)
    settings, choice = _chosen(settings, _typical_side([file.path for file in files]))
    through_network = settings.features not in OWN_FEATURES
    size = (LARGE_ENOUGH, LARGE_ENOUGH) if through_network else settings.size or PIXEL_SIZE
    chosen = [files[row] for row in drawn_rows(len(files), settings)]
    found = find_levels([file.path for file in chosen], "auto")
    with stage_bars(console) as advance:
        images = read_fitted_images(
            chosen,
            folder,
            size,
            settings.fit,
            skipped,
            levels=found.range,
            jobs=jobs,
            progress=advance,
        )
    require_enough(len(images), str(folder))
    stacked = np.stack([one.image for one in images])
    classes = tuple(one.file.class_name or "" for one in images)
    return Examples(
        files=tuple(one.file.name for one in images),
        classes=classes if any(classes) else None,
        groups=None,
        pictures=[one.thumbnail for one in images],
        qualities=[one.quality for one in images],
        features=_network_features(stacked, settings, _cluster(settings, jobs))
        if through_network
        else pixel_features(stacked, settings.features, size),
        skipped=skipped,
        notes=(*choice, *split_note(folder), *found.notes, *drawing_note(len(files), settings)),
    )


# A prepared folder


def _prepared_examples(folder: Path, settings: ExploreSettings, jobs: Workers, console: Console) -> Examples:
    manifest = load_manifest(folder, _manifest_kind(folder))
    if not isinstance(manifest, FeaturesManifest):
        require_stored_shape(folder, manifest)
    rows = drawn_rows(len(manifest.examples), settings)
    require_enough(len(rows), str(folder))
    examples = [manifest.examples[row] for row in rows]
    names = [example.name for example in examples]
    groups = tuple(example.group for example in examples)
    choice: tuple[str, ...] = ()
    if not isinstance(manifest, FeaturesManifest | ViewsManifest):
        settings, choice = _chosen(settings, min(manifest.size))
    pictures, qualities = _pictures(folder, manifest, names)
    return Examples(
        files=tuple(names),
        classes=tuple(manifest.class_names[example.label] for example in examples),
        groups=groups if len(set(groups)) < len(groups) else None,
        pictures=pictures,
        qualities=qualities,
        features=_features(folder, manifest, rows, settings, _cluster(settings, jobs), console),
        notes=(*choice, *drawing_note(len(manifest.examples), settings)),
    )


def _manifest_kind(folder: Path) -> type[LabelledManifest]:
    """Return the class of a folder's manifest, by the application that wrote it."""
    if is_features_folder(folder):
        return FeaturesManifest
    try:
        application = json.loads(read_manifest(folder)).get("application")
    except (ValueError, AttributeError):
        application = None
    if not isinstance(application, str) or application not in _MANIFESTS:
        raise InputError(
            f"{folder / MANIFEST_NAME}: prepared for the application {application!r}; expected one of "
            f"{', '.join(sorted(_MANIFESTS))}, whose examples have one class each. Of other data, give a "
            "folder of small images."
        )
    return _MANIFESTS[application]


def _pictures(
    folder: Path, manifest: LabelledManifest, names: Sequence[str]
) -> tuple[list[Picture], list[Quality] | None]:
    """Return a picture of each example, and measures of it; None for pictures that stand for a video.

    The picture is the example's image, the middle frame of its clip, or that of its video.
    """
    if isinstance(manifest, FeaturesManifest):
        rows = manifest.rows(names)
        return [_thumbnail(_decoded(read_picture(folder, manifest.examples[row]))) for row in rows], None
    pictures, qualities = [], []
    for image in _images(folder, manifest, names):  # one in memory at a time
        shown = _middle(image)
        pictures.append(_thumbnail(shown))
        qualities.append(measure_quality(shown))
    return pictures, qualities


def _images(folder: Path, manifest: LabelledManifest, names: Sequence[str]) -> Iterator[NDArray[np.uint8]]:
    """Yield the images, or the clips, of examples in the order of names, which is that of the manifest."""
    return (image for _, image, _ in labelled_records(folder, manifest, names))


def _thumbnail(image: Picture) -> Picture:
    return fit_within(image, THUMBNAIL_SIDE)


def _middle(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return image[len(image) // 2].copy() if image.ndim == 4 else image  # not a view that holds the clip


def _decoded(content: bytes) -> NDArray[np.uint8]:
    read = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    if read is None:
        raise InputError("The picture of a video in a folder of features is damaged. Extract them again.")
    return np.ascontiguousarray(read[..., ::-1])


def _features(
    folder: Path,
    manifest: LabelledManifest,
    rows: Sequence[int],
    settings: ExploreSettings,
    cluster: Cluster | None,
    console: Console,
) -> Features:
    wanted = settings.features
    if isinstance(manifest, FeaturesManifest):
        if wanted not in {"auto", "views"}:
            raise InputError(
                f"{folder}: has the features of clips and no images, so {wanted} cannot be looked at. Leave "
                "--features out, or give the folder of the clips."
            )
        values = read_features(folder, manifest)[rows].astype(np.float64)
        return Features(values, "columns", f"{values.shape[1]} features of the network that was given")
    if isinstance(manifest, ViewsManifest) and wanted in {"auto", "views"}:
        views = read_views(folder, manifest)
        values = np.concatenate([views[name] for name in manifest.views], axis=1)[rows].astype(np.float64)
        listed = ", ".join(f"{name} {number}" for name, number in manifest.views.items())
        return Features(values, "columns", f"{values.shape[1]} handmade features ({listed})")
    if wanted == "views":
        raise InputError(
            f"{folder}: prepared for {manifest.application}, which has no handmade features. Choose another "
            "--features: grey, colour or a network."
        )
    names = [manifest.examples[row].name for row in rows]
    if wanted in OWN_FEATURES:
        size = settings.size or PIXEL_SIZE
        shrunk = [_fitted(image, size, settings) for image in _images(folder, manifest, names)]
        return pixel_features(np.stack(shrunk), wanted, size)
    if isinstance(manifest, VideoManifest) or len(rows) < len(manifest.examples):
        frames = np.stack([_middle(image) for image in _images(folder, manifest, names)])
        features = _network_features(frames, settings, cluster)
        of_what = " of the middle frame" if isinstance(manifest, VideoManifest) else ""
        return Features(features.values, features.scale, f"{features.words}{of_what}")
    data = encoded_by_trunk(PreparedImages(folder, manifest), _trunk(settings), None, console, cluster)
    if not isinstance(data, TrunkFeatures):
        raise TypeError(f"{wanted} gives no features")
    values = data.features[rows].astype(np.float64)
    return Features(values, "common", f"{values.shape[1]} features of {wanted}")


def _fitted(image: NDArray[np.uint8], size: tuple[int, int], settings: ExploreSettings) -> Any:
    if image.ndim == 4:
        return np.stack([fit_image(frame, size, settings.fit) for frame in image])
    return fit_image(image, size, settings.fit)


def _chosen(settings: ExploreSettings, side: int) -> tuple[ExploreSettings, tuple[str, ...]]:
    """Return the settings with a network in place of `auto`, where images of this side suit it, and notes.

    Nobody asked for the network, so that pixels are compared, and a note says why, where it cannot be loaded.
    """
    is_open = settings.features == "auto" and settings.size is None and settings.weights == "imagenet"
    if not is_open or side < _LEAST_SIDE or packaged_file() is None:
        return settings, ()
    chosen = settings.model_copy(update={"features": NETWORK})
    try:
        loaded_trunk(_trunk(chosen), chosen.weights, (LARGE_ENOUGH, LARGE_ENOUGH))
    except InputError as error:
        return settings, (f"Pixels are compared, since {NETWORK} cannot be loaded: {error}",)
    return chosen, ()


def _typical_side(paths: Sequence[Path]) -> int:
    """Return the median of the shorter sides of some of the images, 0 where none of them can be read."""
    sides = []
    for path in paths[:: max(len(paths) // _LOOKED_AT, 1)]:
        try:
            sides.append(min(stored_size(path)))
        except InputError:  # it is listed when all are read
            continue
    return int(np.median(sides)) if sides else 0


def _trunk(settings: ExploreSettings) -> _Trunk:
    return _Trunk(settings.features, settings.weights, settings.smallest_side, settings.seed)


def _cluster(settings: ExploreSettings, jobs: Workers) -> Cluster | None:
    """Return whose workers compute features of a network; None for this process, which draws random weights.

    Random weights are drawn from what other threads draw from too, so that a worker would draw others.
    """
    return jobs if isinstance(jobs, Cluster) and settings.weights != RANDOM else None


def _network_features(
    images: NDArray[np.uint8], settings: ExploreSettings, cluster: Cluster | None
) -> Features:
    """Return the features that a network has of images `[N, H, W, 3]`.

    Raises:
        ClusterLost: The cluster no longer answers.
        InputError: Its weights are not there, are damaged, or of another network.
    """
    _, height, width, _ = images.shape
    trunk = loaded_trunk(_trunk(settings), settings.weights, (height, width))
    values = features_of_images(trunk, images, cluster).astype(np.float64)
    return Features(values, "common", f"{values.shape[1]} features of {trunk.facts.name}")
