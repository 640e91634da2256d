"""The parts of the pedestrian-lane application: every pixel of a photograph is lane or background."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.errors import InputError
from data_prep.files.depth import read_at_levels
from data_prep.files.resizing import resize_image
from data_prep.lane.dataset import lane_dataset, lane_images, lane_records
from data_prep.lane.manifest import LaneManifest
from data_prep.lane.masks import IGNORED
from data_prep.lane.scenes import render_scene
from data_prep.prepared.manifest import load_manifest
from data_prep.splits.divide import Splits
from gpmodels import HybridModel
from gpmodels.hybrid.sampling import samples
from gpmodels.networks.encoder_decoder import encoder_decoder, units_and_kernel_size
from gpmodels.networks.segnet import BASIC_UNITS, SEGNET_UNITS, SegNet, SegNetBasic
from gpmodels.networks.trunk_decoder import TrunkDecoder
from gpmodels.networks.trunks import LITE
from pipelines.bundles.metadata import FAMILIARITY, map_signatures
from pipelines.bundles.serving import MapServer, levels_in_words
from pipelines.labelled.classes import (
    ClassDeployment,
    ClassJudge,
    image_preprocessing,
    plain_batches,
    training_batches,
)
from pipelines.lane.pictures import LaneImage, LanePanels, lane_gallery, select_gallery
from pipelines.lane.settings import APPLICATION, LanePreprocessing, LaneRun, TrainSettings
from pipelines.runs.application import (
    Application,
    Inputs,
    JudgedExample,
    Network,
    Prepared,
    one_pass,
    require_levels,
    require_size,
)
from pipelines.runs.predictors import Predictor
from pipelines.runs.training_digests import input_digests
from pipelines.scores.pictures import Outputs, Picture
from pipelines.scores.report import Gallery
from pipelines.scores.results import MethodResult, score_values, segmentation_result
from pipelines.scores.segmentation import (
    SEGMENTATION_SCORES,
    SegmentationRecord,
    segmentation_record,
    segmentation_statistics,
)
from pipelines.scores.uncertainty import MUTUAL_INFORMATION, PREDICTIVE_ENTROPY
from pipelines.trunks.weights import load_trunk

_VGG16 = "keras:VGG16"

UNCERTAINTIES = (PREDICTIVE_ENTROPY, MUTUAL_INFORMATION)


@dataclass(frozen=True)
class LaneData(Prepared[LaneManifest]):
    """A prepared folder of photographs and masks."""

    def dataset(self, names: Sequence[str], **options: Any) -> tf.data.Dataset:
        """Return batches of image, label and weight of every pixel; options as `lane_dataset`."""
        return lane_dataset(self.folder, self.manifest, names, **options)


# What is learned from


def pixel_facts(data: LaneData, splits: Splits) -> dict[str, Any]:
    """Return what a run knows of its pixels: N is the number of labelled training pixels."""
    train = set(splits.train)
    pixels = sum(e.labelled_pixels for e in data.manifest.examples if e.name in train)
    return {"num_data": pixels, "levels": data.manifest.levels}


# Network


def lane_network(settings: TrainSettings, run: LaneRun) -> keras.Model:
    """Return an untrained network that gives each pixel features."""
    options = {
        "batch_norm_momentum": run.batch_norm_momentum,
        "dropout": settings.network_dropout,
        "num_samples": settings.network_samples,
        "seed": settings.seed,
    }
    if settings.network == LITE:
        return TrunkDecoder(settings.unfreeze_blocks, **options)
    if settings.network == "segnet":
        return SegNet(settings.width, **options)
    if settings.network == "segnet_basic":
        return SegNetBasic(**options)
    return encoder_decoder(settings.network, **options)


def num_poolings(network: str) -> int:
    """Return how many 2 x 2 poolings a network has; 0 of a pretrained trunk, which takes any size."""
    if network == LITE:
        return 0
    others = {"segnet": SEGNET_UNITS, "segnet_basic": BASIC_UNITS}
    return others[network] if network in others else units_and_kernel_size(network)[0]


def network_name(settings: TrainSettings, _run: LaneRun) -> str:
    """Return what a bundle says the network is."""
    width = "" if settings.width == 1.0 else f" with {settings.width:.0%} of its channels"
    drops = (
        f", dropout {settings.network_dropout:g}, {settings.network_samples} samples"
        if settings.network_dropout
        else ""
    )
    return f"{settings.network}{width}{drops}"


def encoder_weights(settings: TrainSettings) -> dict[str, NDArray[Any]] | None:
    """Return the weights that the encoder begins with, by name; None of a network that begins at random.

    Raises:
        InputError: They are missing, damaged or of another network.
    """
    if settings.network == LITE:
        return load_trunk(LITE, settings.weights, seed=settings.seed).arrays()
    if settings.network == "segnet" and isinstance(settings.weights, Path):
        return load_trunk(_VGG16, settings.weights).arrays()
    return None


def require_start(settings: TrainSettings, run: LaneRun) -> None:
    """Raise `InputError` where images are too small, or weights to begin with are missing or do not fit."""
    factor = 2 ** num_poolings(settings.network)
    if min(run.size) < factor:
        raise InputError(
            f"network: {settings.network} reduces images {factor} times, and those of the prepared folder "
            f"have {run.size[0]} x {run.size[1]} pixels. Expected at least {factor} x {factor}: prepare them "
            f"with a larger --size, or train a network with fewer units, such as --set "
            f"network=C{min(run.size).bit_length() - 1}K3."
        )
    encoder_weights(settings)


def start_encoder(network: keras.Model, settings: TrainSettings, _batches: tf.data.Dataset) -> None:
    """Give the encoder of a trunk its weights, or that of SegNet those of VGG16."""
    arrays = encoder_weights(settings)
    if arrays is None:
        return
    if settings.network == LITE:
        network.encoder.assign_arrays(arrays)
    else:
        kernels_and_biases = list(arrays.values())
        network.start_from_vgg16(kernels_and_biases[::2], kernels_and_biases[1::2])


# What is judged


def lane_record(example: JudgedExample, outputs: Outputs) -> SegmentationRecord:
    """Return what the scores need to know of one image."""
    mask, original_mask = example.truth
    uncertainty = {key: outputs[key] for key in UNCERTAINTIES}
    return segmentation_record(example.name, mask, outputs["probability"], uncertainty, original_mask)


def lane_referral(example: JudgedExample, outputs: Outputs) -> tuple[float, float] | None:
    """Return the mean entropy of an image, and the share of its labelled pixels that is wrong."""
    mask, _ = example.truth
    labelled = mask != IGNORED
    if not labelled.any():
        return None
    wrong = (outputs["probability"] > 0.5) != (mask == 1)
    return float(outputs[PREDICTIVE_ENTROPY].mean()), float(wrong[labelled].mean())


@dataclass(frozen=True, kw_only=True)
class LaneJudge(ClassJudge[Any]):
    """Judges maps of the lane, pixel by pixel; the truth is the mask at the network's size and at its own."""

    record: Callable[[JudgedExample, Outputs], Any] = lane_record
    referral: Callable[[JudgedExample, Outputs], tuple[float, float] | None] = lane_referral
    refers_classes: bool = False
    result: Callable[..., MethodResult] = segmentation_result
    epoch_scores: Mapping[str, str] = field(default_factory=lambda: {"f_measure": "F-measure", "ece": "ECE"})

    def examples(self, data: LaneData, names: Sequence[str]) -> Iterator[JudgedExample]:
        """Yield images with their masks."""
        for name, image, mask, original_mask in lane_records(data.folder, data.manifest, names):
            yield JudgedExample(name, image, (mask, original_mask))

    def learned(self, data: LaneData, names: Sequence[str]) -> Iterator[str]:
        """Yield what tells each of the images from others; masks are not decoded."""
        for _, image in lane_images(data.folder, data.manifest, names):
            yield from input_digests([image])

    def selection_scores(self, model: HybridModel, data: LaneData, names: Sequence[str]) -> dict[str, float]:
        """Return F-measure and ECE of the selection images."""
        predict = model.predict_on_batch
        if samples(model.network):  # one pass has to do to follow the training by
            predict = tf.function(lambda images: model.head(model.network(images, training=False)))
        records = []
        for name, image, mask, _ in lane_records(data.folder, data.manifest, names):
            probability = np.asarray(predict(image[None].astype(np.float32))["probability"])[0]
            records.append(segmentation_record(name, mask, probability, {}, mask))
        wanted = [score for score in SEGMENTATION_SCORES if score.key in self.epoch_scores]
        return score_values(wanted, segmentation_statistics(records))

    def panels(self, data: LaneData, names: Sequence[str], count: int) -> LanePanels:
        """Return what draws input, truth, probability and uncertainty side by side."""
        return LanePanels(data.folder, data.manifest, names, count)

    def gallery(
        self,
        result: MethodResult,
        predictor: Predictor,
        data: LaneData,
        count: int,
        *,
        unfamiliar: Sequence[str],
    ) -> Gallery:
        """Return the best, worst, most uncertain and unfamiliar images."""
        selection = replace(select_gallery(result, count), unfamiliar=tuple(unfamiliar))
        images = {}
        for name, image, mask, _ in lane_records(data.folder, data.manifest, selection.names):
            maps = predictor.outputs(image)
            images[name] = LaneImage(
                name,
                image,
                mask,
                maps["probability"],
                maps[PREDICTIVE_ENTROPY],
                maps.get(FAMILIARITY),
            )
        return lane_gallery(selection, images)


# What is deployed


def map_server(model: HybridModel, run: LaneRun) -> MapServer:
    """Return the graph that predicts maps at the size of the images."""
    return MapServer(model.inference_function(), run.size, levels=run.levels)


def inside_maps(run: LaneRun) -> str:
    """Return what the graph does to an image before the network, in words."""
    return ("" if run.levels is None else levels_in_words(run.levels)) + image_preprocessing(run)


def rendered_scene(run: LaneRun, _network: keras.Model) -> Picture:
    """Return a rendered scene, larger than the network's size."""
    larger = (run.size[0] * 3 // 2, run.size[1] * 3 // 2)
    return render_scene(np.random.default_rng(0), lane_texture="brick", size=larger).image


def lane_preprocessing(run: LaneRun) -> dict[str, Any]:
    """Return how images became those of the training."""
    return LanePreprocessing(levels=run.levels).model_dump(exclude_defaults=True)


LANE: Application[LaneData, TrainSettings, LaneRun] = Application(
    name=APPLICATION,
    title="Pedestrian lanes",
    settings=TrainSettings,
    run=LaneRun,
    fixed_settings=(
        "network",
        "width",
        "network_dropout",
        "network_samples",
        "weights",
        "unfreeze_blocks",
        "augmentation",
        "steps_per_epoch",
    ),
    fixed_gp_settings=("points_per_image",),
    inputs=Inputs(
        open=lambda folder: LaneData(folder, load_manifest(folder, LaneManifest)),
        training_batches=training_batches,
        plain_batches=plain_batches,
        steps_per_epoch=lambda settings, count: settings.steps_per_epoch or one_pass(settings, count),
        facts=(pixel_facts,),
        fitting=(
            require_size,
            lambda data, model, run: require_levels(data.folder, data.manifest.levels, model, run.levels),
        ),
    ),
    network=Network(
        make=lane_network,
        require_start=require_start,
        start=start_encoder,
        name=network_name,
        points_per_example=lambda settings: settings.points_per_image,
    ),
    judge=LaneJudge(),
    deployment=ClassDeployment[Any, Any](
        application=APPLICATION,
        kind="images",
        intended_use=(
            "Finding the surface a pedestrian can walk on in photographs like those it was trained on, "
            "with an uncertainty for every pixel that says where not to trust it."
        ),
        limitations=(
            "No safety device. Probabilities are calibrated only for images like the training images; "
            "on others the uncertainty rises, but a confident mistake remains possible. Judge it on your "
            "own labelled images with `gpimaging lane evaluate` before relying on it."
        ),
        preprocessing="applying EXIF orientation, decoding TIFF and palette BMP.",
        settings=lane_preprocessing,
        inside=inside_maps,
        signatures=lambda run, _: map_signatures(run.size),
        counted=lambda run: {"pixels": run.num_data},
        server=map_server,
        sample=rendered_scene,
    ),
    read_image=lambda path, run: resize_image(read_at_levels(path, run.levels), run.size),
)
"""Pedestrian lanes: every pixel of a photograph is lane or background."""
