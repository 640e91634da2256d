"""Any application on images with one class each, with a trunk in the place of its own network.

A frozen trunk's features are computed once; the run's network scales them and takes their principal
components, and the heads learn from these. With `unfreeze_blocks` the trunk is part of the run's network. A
bundle holds the trunk in both cases and takes images.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from rich.console import Console

from data_prep.errors import InputError
from data_prep.prepared.manifest import LabelledManifest
from data_prep.prepared.workers import Cluster
from data_prep.splits.divide import Splits
from gpmodels import HybridModel
from gpmodels.networks.trunks import make_trunk
from gpmodels.networks.view_projection import ViewProjection
from pipelines.command.console import say
from pipelines.labelled.classes import ClassDeployment
from pipelines.labelled.data import LabelledData
from pipelines.runs.application import Application, Network
from pipelines.trunks.features import LoadedTrunk, TrunkFeatures, TrunkImages
from pipelines.trunks.settings import TrunkFacts, is_trunk
from pipelines.trunks.weights import arrays_sha256, load_trunk, save_trunk

LARGE_ENOUGH = 160
"""Side in pixels of an image from which features of a trunk gain little by more."""

TRUNK_FILE = "trunk.safetensors"
"""File of a run with the weights of its frozen trunk."""

_OWN_SETTINGS = ("network", "weights", "unfreeze_blocks", "smallest_side", "components")


def with_trunks(application: Application[Any, Any, Any]) -> Application[Any, Any, Any]:
    """Return an application whose setting `network` may also be a trunk.

    Args:
        application: On images with one class each. Its settings have the fields of
            `pipelines.trunks.settings.TrunkSettings` and `network`, its runs those of `TrunkRun`.
    """
    inputs = application.inputs
    deployment: ClassDeployment[Any, Any] = application.deployment  # type: ignore[assignment]
    return replace(
        application,
        fixed_settings=tuple(dict.fromkeys((*application.fixed_settings, *_OWN_SETTINGS))),
        inputs=replace(
            inputs,
            encode=encoded_by_trunk,
            facts=(*inputs.facts, trunk_facts),
            checks=(*inputs.checks, unvaried_images),
            fitting=(*inputs.fitting, require_trunk),
            kept=(*inputs.kept, keep_trunk),
        ),
        network=_with_trunk_network(application.network),
        deployment=replace(
            deployment,
            deployed=lambda model, folder, run: with_frozen_trunk(
                deployment.deployed(model, folder, run), folder, run
            ),
            inside=lambda run: (
                deployment.inside(run) if run.trunk is None else inside_trunk(deployment.inside(run), run)
            ),
        ),
    )


# Data


def encoded_by_trunk(
    data: LabelledData[Any],
    settings: Any,
    run_folder: Path | None,
    console: Console,
    cluster: Cluster | None = None,
) -> LabelledData[Any]:
    """Return prepared images as the run's trunk sees them; as they are where its network is no trunk.

    Args:
        data: The prepared images.
        settings: Settings of the run.
        run_folder: Folder of a trained run, whose frozen trunk is taken; None begins with the weights that
            the settings name.
        console: Where it is said what is done to the images.
        cluster: Whose workers compute the features; None for this process.

    Raises:
        InputError: The weights are not there, are damaged, or of another network.
    """
    if not is_trunk(settings.network) or (run_folder is not None and settings.unfreeze_blocks):
        return data
    weights = settings.weights if run_folder is None else run_folder / TRUNK_FILE
    loaded = loaded_trunk(settings, weights, data.manifest.size)
    if run_folder is None and min(data.manifest.size) < settings.smallest_side:
        say(console, enlargement(data.manifest, settings.network, settings.smallest_side))
    if settings.unfreeze_blocks:
        return TrunkImages(data.folder, data.manifest, loaded)
    return TrunkFeatures(data.folder, data.manifest, loaded, console, cluster)


def loaded_trunk(settings: Any, weights: str | Path, size: tuple[int, int]) -> LoadedTrunk:
    """Return the trunk that settings name.

    Args:
        settings: With `network`, `unfreeze_blocks`, `smallest_side` and `seed`.
        weights: Where its weights come from.
        size: Height and width of the images that it is given.

    Raises:
        InputError: The weights are not there, are damaged, or of another network.
    """
    options = {"unfreeze_blocks": settings.unfreeze_blocks, "smallest_side": settings.smallest_side}
    try:
        network = load_trunk(settings.network, weights, seed=settings.seed, **options)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"The network {settings.network} cannot be made: {error}") from error
    facts = TrunkFacts(
        name=settings.network,
        sha256=arrays_sha256(network.arrays()),
        size=size,
        smallest_side=settings.smallest_side,
        num_features=network.num_features,
        unfrozen_blocks=settings.unfreeze_blocks,
    )
    return LoadedTrunk(network=network, facts=facts, weights=weights)


def enlargement(manifest: LabelledManifest, network: str, smallest_side: int) -> str:
    """Return what to say of images that a trunk enlarges, and what to do where preparing made them small.

    Args:
        manifest: Manifest of the prepared images.
        network: Name of the trunk.
        smallest_side: Pixels to which it enlarges the shorter side.
    """
    height, width = manifest.size
    said = (
        f"The images of {height} x {width} are smaller than {network} makes use of: it enlarges them so that "
        f"the shorter side has {smallest_side} pixels (smallest_side)."
    )
    original = int(np.median([min(example.height, example.width) for example in manifest.examples]))
    side = min(original, max(LARGE_ENOUGH, smallest_side))
    if side <= min(manifest.size):
        return said
    return (
        f"{said} Preparing made them smaller than they are: their shorter sides have {original} pixels. "
        f"Prepare with --set size=[{side},{side}] to let it see more of them."
    )


def trunk_facts(data: LabelledData[Any], _splits: Splits) -> dict[str, Any]:
    """Return what a run writes down of its trunk."""
    return {"trunk": data.trunk.facts if isinstance(data, TrunkFeatures | TrunkImages) else None}


def unvaried_images(data: LabelledData[Any], _splits: Splits, settings: Any) -> list[str]:
    """Return a warning where images are to be varied whose features are computed once."""
    if not isinstance(data, TrunkFeatures):
        return []
    default = type(settings)().augmentation
    if settings.augmentation is None or settings.augmentation == default:
        return []
    warning = (
        "augmentation: no use for features that are computed once; only with unfreeze_blocks are the images "
        "themselves learned from"
    )
    return [warning]


def require_trunk(data: LabelledData[Any], model: Path, run: Any) -> None:
    """Raise `InputError` where the features are of another trunk than a run was trained on."""
    if isinstance(data, TrunkFeatures) and data.trunk.facts != run.trunk:
        raise InputError(
            f"{model / TRUNK_FILE} is not the trunk that {model} was trained on: expected the weights "
            f"{run.trunk.sha256[:12]}..., found {data.trunk.facts.sha256[:12]}... Put that file back, or "
            "train again."
        )


def keep_trunk(data: LabelledData[Any], run_folder: Path) -> None:
    """Write a frozen trunk into the run: judging it and its bundle need it."""
    if isinstance(data, TrunkFeatures):
        save_trunk(data.trunk.network, run_folder / TRUNK_FILE)


# Network


def _with_trunk_network(own: Network[Any, Any]) -> Network[Any, Any]:
    """Return a network that is `own` for runs without a trunk."""

    def make(settings: Any, run: Any) -> keras.Model:
        return own.make(settings, run) if run.trunk is None else trunk_network(settings, run)

    def name(settings: Any, run: Any) -> str:
        return own.name(settings, run) if run.trunk is None else trunk_name(settings, run)

    def input_shape(run: Any) -> tuple[int | None, ...]:
        is_frozen = run.trunk is not None and not run.trunk.unfrozen_blocks
        return (None, run.trunk.num_features) if is_frozen else own.input_shape(run)

    def require_start(settings: Any, run: Any) -> None:
        if run.trunk is None and own.require_start is not None:
            own.require_start(settings, run)

    def start(network: keras.Model, settings: Any, batches: tf.data.Dataset) -> None:
        if is_trunk(settings.network):
            start_trunk_network(network, settings, batches)
        elif own.start is not None:
            own.start(network, settings, batches)

    def views(settings: Any, run: Any) -> Mapping[str, slice] | None:
        return own.view_columns(settings, run) if run.trunk is None else None

    return replace(
        own,
        make=make,
        name=name,
        input_shape=input_shape,
        require_start=require_start,
        start=start,
        views=views,
    )


def trunk_network(settings: Any, run: Any) -> keras.Model:
    """Return an untrained projection of a trunk's features, after the trunk where that is trained too."""
    facts: TrunkFacts = run.trunk
    projection = ViewProjection([facts.num_features], components=settings.components, name="projection")
    if not facts.unfrozen_blocks:
        return projection
    trunk = make_trunk(facts.name, unfreeze_blocks=facts.unfrozen_blocks, smallest_side=facts.smallest_side)
    return keras.Sequential([trunk, projection])


def start_trunk_network(network: keras.Model, settings: Any, batches: tf.data.Dataset) -> None:
    """Give a trunk its weights, and fit the projection on the features of the training examples."""
    if isinstance(network, ViewProjection):
        network.adapt(np.concatenate([features.numpy() for features, *_ in batches]))
        return
    trunk, projection = network.layers
    trunk.assign_arrays(load_trunk(settings.network, settings.weights, seed=settings.seed).arrays())
    features = tf.function(trunk, reduce_retracing=True, autograph=False)
    projection.adapt(np.concatenate([features(images).numpy() for images, *_ in batches]))


def trunk_name(settings: Any, run: Any) -> str:
    """Return what a bundle says of the network."""
    facts: TrunkFacts = run.trunk
    blocks = facts.unfrozen_blocks
    trained = f"its last {blocks} blocks trained with the heads" if blocks else "not trained with the heads"
    begun = {"imagenet": "ImageNet weights", "none": "random weights"}.get(
        str(settings.weights), "weights of a file"
    )
    return (
        f"{facts.name}, {begun}, {trained}; {settings.components} principal components of its "
        f"{facts.num_features} features"
    )


# Bundle


def with_frozen_trunk(model: HybridModel, run_folder: Path, run: Any) -> HybridModel:
    """Return the model that takes images: heads on features get the trunk before them that these come from.

    Raises:
        InputError: The trunk is damaged, or not the one that the features come from.
    """
    facts: TrunkFacts | None = run.trunk
    if facts is None or facts.unfrozen_blocks:
        return model
    path = run_folder / TRUNK_FILE
    trunk = load_trunk(facts.name, path, smallest_side=facts.smallest_side)
    found = arrays_sha256(trunk.arrays())
    if found != facts.sha256:
        raise InputError(
            f"{path} is not the trunk that the run's features come from: expected the weights "
            f"{facts.sha256[:12]}..., found {found[:12]}... Put that file back, or train again."
        )
    return model.with_trunk(trunk)


def inside_trunk(own: str, run: Any) -> str:
    """Return what the graph of a bundle does to an image before its heads, in words.

    Args:
        own: What it does before a network of the application's own, in words.
        run: Description of the run.
    """
    words = own.replace("scaling to -1..1", f"the scaling of {run.trunk.name}")
    if min(run.size) >= run.trunk.smallest_side:
        return words
    return f"{words} Then enlarging until the shorter side has {run.trunk.smallest_side} pixels."
