"""What a lane bundle says of itself."""

from __future__ import annotations

import numpy as np

from data_prep.scenes import render_scene
from pipelines.bundle_metadata import Metadata, current_versions, image_signatures
from pipelines.lane_settings import HeadName, LaneRun, TrainSettings
from pipelines.overlays import Picture

_HEADS = {
    "linear": "linear",
    "svgp": "sparse variational Gaussian process",
    "hgp": "hierarchical Gaussian process",
}


def lane_metadata(name: str, head: HeadName, settings: TrainSettings, run: LaneRun) -> Metadata:
    """Description of a bundle.

    Args:
        name: Of the bundle.
        head: Which head it holds.
        settings: Of the training run.
        run: What the run knows of its data.
    """
    height, width = run.size
    return Metadata(
        name=name,
        application="lane",
        head=_HEADS[head],
        class_names=("background", "lane"),
        network_size=run.size,
        preprocessing=(
            f"Inside the graph: area-averaging resize to {height} x {width}, rounding to whole grey levels, "
            "scaling to -1..1. To be done before: applying EXIF orientation, decoding TIFF and palette BMP."
        ),
        signatures=image_signatures(run.size),
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
            "Finding the surface a pedestrian can walk on in photographs like those it was trained on, with "
            "an uncertainty for every pixel that says where not to trust it."
        ),
        limitations=(
            "No safety device. Probabilities are calibrated only for images like the training images; on "
            "others the uncertainty rises, but a confident mistake remains possible. Judge it on your own "
            "labelled images with `gpimaging lane evaluate` before relying on it."
        ),
    )


def sample_image(size: tuple[int, int]) -> Picture:
    """A rendered scene, larger than the network's size, on which a bundle is verified."""
    larger = (size[0] * 3 // 2, size[1] * 3 // 2)
    return render_scene(np.random.default_rng(0), lane_texture="brick", size=larger).image
