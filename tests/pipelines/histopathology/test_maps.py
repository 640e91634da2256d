"""Maps of predictions lie where the patches lie, in pictures and in GeoJSON."""

import json

import numpy as np
from PIL import Image

from pipelines.bundles.sources import Source
from pipelines.histopathology.maps import PredictedPatch, geojson, write_maps

PATCHES = [
    PredictedPatch(0, 0, 40, 60, np.array([0.9, 0.1], np.float32), 0.33, 0.01),
    PredictedPatch(40, 60, 40, 60, np.array([0.25, 0.75], np.float32), 0.56, 0.02),
]
NAMES = ("benign", "malignant")


def test_geojson_has_a_tile_for_each_patch():
    first, second = json.loads(geojson(PATCHES, NAMES))["features"]
    assert second["geometry"] == {
        "type": "Polygon",
        "coordinates": [[[60, 40], [120, 40], [120, 80], [60, 80], [60, 40]]],
    }
    assert first["properties"]["classification"]["name"] == "benign"
    assert second["properties"]["classification"]["name"] == "malignant"
    assert second["properties"]["measurements"]["probability of malignant"] == 0.75
    assert second["properties"]["measurements"]["predictive entropy (nats)"] == 0.56


def test_a_map_colours_patches_and_leaves_background(tmp_path):
    path = tmp_path / "grey $tissue$.png"  # no mathematics for Matplotlib
    Image.fromarray(np.full((80, 120, 3), 128, np.uint8)).save(path)
    write_maps(tmp_path, Source(path, "tissue"), PATCHES, NAMES, longest_side=400)
    with Image.open(tmp_path / "maps" / "tissue.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    # Three panels side by side; in the two maps, half of the image is tinted.
    coloured = (pixels.max(axis=-1) - pixels.min(axis=-1)) > 12
    thirds = np.array_split(coloured[: 3 * len(coloured) // 4], 3, axis=1)
    assert thirds[0].mean() < 0.01
    assert thirds[1].mean() > 0.05
    assert thirds[2].mean() > 0.05
