"""What the shared steps have to know of pedestrian lanes: data, network, scores, pictures and bundle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from data_prep.lane_dataset import lane_dataset, lane_records
from data_prep.lane_manifest import LaneManifest
from data_prep.scenes import render_scene
from data_prep.splits import Splits
from gpmodels import HybridModel
from gpmodels.networks.encoder_decoder import encoder_decoder
from pipelines.bundle_metadata import Metadata, current_versions, map_signatures
from pipelines.evaluation import MethodResult, score_values, segmentation_result, select_gallery
from pipelines.head_application import HeadApplication, JudgedExample, Prepared
from pipelines.head_settings import HeadName
from pipelines.heads import DESCRIPTIONS
from pipelines.lane_gallery import LaneImage, lane_gallery
from pipelines.lane_panels import LanePanels
from pipelines.lane_settings import LaneRun, TrainSettings
from pipelines.overlays import Picture
from pipelines.predictors import Outputs, Predictor
from pipelines.report import Gallery
from pipelines.segmentation_scores import (
    SEGMENTATION_SCORES,
    SegmentationRecord,
    segmentation_record,
    segmentation_statistics,
)
from pipelines.serving import MapServer
from pipelines.uncertainty_scores import MUTUAL_INFORMATION, PREDICTIVE_ENTROPY

UNCERTAINTIES = (PREDICTIVE_ENTROPY, MUTUAL_INFORMATION)


class LaneApplication(HeadApplication[TrainSettings, LaneRun, LaneManifest]):
    """Pedestrian lanes: every pixel of a photograph is lane or background."""

    name = "lane"
    title = "Pedestrian lanes"
    point = "pixel"
    settings_class = TrainSettings
    run_class = LaneRun
    manifest_class = LaneManifest
    fixed_settings = ("network", "augmentation")
    fixed_gp_settings = ("points_per_image",)
    epoch_scores = {"f_measure": "F-measure", "ece": "ECE"}  # noqa: RUF012 - never changed

    def training_batches(
        self, data: Prepared[LaneManifest], names: Sequence[str], settings: TrainSettings, epoch: int
    ) -> tf.data.Dataset:
        """Image, label and weight of every training pixel, in batches."""
        return lane_dataset(
            data.folder,
            data.manifest,
            names,
            batch_size=settings.batch_size,
            seed=settings.seed,
            epoch=epoch,
            shuffle=True,
            augmentation=settings.augmentation,
        )

    def plain_batches(
        self, data: Prepared[LaneManifest], names: Sequence[str], settings: TrainSettings, *, shuffle: bool
    ) -> tf.data.Dataset:
        """One pass over the images as they are."""
        return lane_dataset(
            data.folder,
            data.manifest,
            names,
            batch_size=settings.batch_size,
            seed=settings.seed,
            shuffle=shuffle,
        )

    def run_facts(self, data: Prepared[LaneManifest], splits: Splits) -> dict[str, Any]:
        """N is the number of labelled training pixels."""
        train = set(splits.train)
        return {"num_data": sum(e.labelled_pixels for e in data.manifest.examples if e.name in train)}

    def make_network(self, settings: TrainSettings, run: LaneRun) -> keras.Model:
        """An encoder-decoder."""
        return encoder_decoder(settings.network, batch_norm_momentum=run.batch_norm_momentum)

    def points_per_example(self, settings: TrainSettings) -> int | None:
        """Random pixels of each image, where the settings ask for that."""
        return settings.points_per_image

    def selection_scores(
        self, model: HybridModel, data: Prepared[LaneManifest], names: Sequence[str]
    ) -> dict[str, float]:
        """F-measure and ECE of the selection images."""
        records = []
        for name, image, mask, _ in lane_records(data.folder, data.manifest, names):
            probability = model.predict_on_batch(image[None].astype(np.float32))["probability"][0]
            records.append(segmentation_record(name, mask, probability, {}, mask))
        wanted = [score for score in SEGMENTATION_SCORES if score.key in self.epoch_scores]
        return score_values(wanted, segmentation_statistics(records))

    def panels(
        self, data: Prepared[LaneManifest], names: Sequence[str], settings: TrainSettings
    ) -> LanePanels:
        """Input, truth, probability and uncertainty side by side."""
        return LanePanels(data.folder, data.manifest, names, settings.panel_images)

    def examples(self, data: Prepared[LaneManifest], names: Sequence[str]) -> Iterator[JudgedExample]:
        """Images; the truth is the mask at the network's size and at its own."""
        for name, image, mask, original_mask in lane_records(data.folder, data.manifest, names):
            yield JudgedExample(name, image, (mask, original_mask))

    def record(self, example: JudgedExample, outputs: Outputs) -> SegmentationRecord:
        """What the scores need to know of one image."""
        mask, original_mask = example.truth
        uncertainty = {key: outputs[key] for key in UNCERTAINTIES}
        return segmentation_record(example.name, mask, outputs["probability"], uncertainty, original_mask)

    def result(self, title: str, records: Sequence[SegmentationRecord], **costs: Any) -> MethodResult:
        """Segmentation scores."""
        return segmentation_result(title, records, **costs)

    def gallery(
        self, result: MethodResult, predictor: Predictor, data: Prepared[LaneManifest], count: int
    ) -> Gallery:
        """The best, worst and most uncertain images."""
        selection = select_gallery(result, count)
        images = {}
        for name, image, mask, _ in lane_records(data.folder, data.manifest, selection.names):
            maps = predictor.outputs(image)
            images[name] = LaneImage(name, image, mask, maps["probability"], maps[PREDICTIVE_ENTROPY])
        return lane_gallery(selection, images)

    def server(self, model: HybridModel, run: LaneRun) -> MapServer:
        """Maps at the size of the images."""
        return MapServer(model.inference_function(), run.size, model.inference_holders)

    def metadata(self, name: str, head: HeadName, settings: TrainSettings, run: LaneRun) -> Metadata:
        """Description of a lane bundle."""
        height, width = run.size
        return Metadata(
            name=name,
            application=self.name,
            head=DESCRIPTIONS[head],
            class_names=("background", "lane"),
            network_size=run.size,
            preprocessing=(
                f"Inside the graph: area-averaging resize to {height} x {width}, rounding to whole grey "
                "levels, scaling to -1..1. To be done before: applying EXIF orientation, decoding TIFF and "
                "palette BMP."
            ),
            signatures=map_signatures(run.size),
            versions=current_versions(),
            training_data={
                "images": run.counts["train"],
                "images to choose the best epoch": run.counts["selection"],
                "pixels": run.num_data,
                "network": settings.network,
                "seed": settings.seed,
                "manifest_sha256": run.manifest_sha256,
            },
            intended_use=(
                "Finding the surface a pedestrian can walk on in photographs like those it was trained on, "
                "with an uncertainty for every pixel that says where not to trust it."
            ),
            limitations=(
                "No safety device. Probabilities are calibrated only for images like the training images; "
                "on others the uncertainty rises, but a confident mistake remains possible. Judge it on your "
                "own labelled images with `gpimaging lane evaluate` before relying on it."
            ),
        )

    def sample(self, run: LaneRun, network: keras.Model) -> Picture:  # noqa: ARG002 - others need it
        """A rendered scene, larger than the network's size."""
        larger = (run.size[0] * 3 // 2, run.size[1] * 3 // 2)
        return render_scene(np.random.default_rng(0), lane_texture="brick", size=larger).image


LANE = LaneApplication()
