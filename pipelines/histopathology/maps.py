"""Predictions for patches, drawn over their image and as GeoJSON for QuPath."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from data_prep.files.atomic import atomic_file
from data_prep.histopathology.slides import open_slide
from pipelines.bundles.prediction_lines import printable
from pipelines.bundles.sources import Source
from pipelines.scores.pictures import CLASS_COLOURS, PROBABILITY_COLOURS, UNCERTAINTY_COLOURS, Picture

_TINT = 0.55
_PANEL_INCHES = 5.0


@dataclass(frozen=True)
class PredictedPatch:
    """Where a patch lies in its image, in pixels, and what is predicted for it.

    Attributes:
        row: Upper edge, pixels.
        column: Left edge, pixels.
        height: Height, pixels.
        width: Width, pixels.
        probability: Probabilities of the classes `[C]`.
        predictive_entropy: Predictive entropy, nats.
        mutual_information: Mutual information, nats.
        familiarity: Familiarity; None of a bundle that does not say.
    """

    row: int
    column: int
    height: int
    width: int
    probability: NDArray[np.float32]
    predictive_entropy: float
    mutual_information: float
    familiarity: float | None = None

    @property
    def label(self) -> int:
        """Return the most probable class."""
        return int(self.probability.argmax())


def write_maps(
    out: Path,
    source: Source,
    predicted: Sequence[PredictedPatch],
    class_names: Sequence[str],
    *,
    longest_side: int,
) -> None:
    """Write `maps/<stem>.png`: the image, the probability of a class and the entropy, side by side.

    With two classes there is a map of the second one, with more a map of each.

    Args:
        out: Output folder.
        source: The image.
        predicted: Patches of the image.
        class_names: Names of the classes in the order of the labels.
        longest_side: Longest side of the image in pixels; a larger one is shrunk.

    Raises:
        InputError: The image cannot be read again, or the file cannot be written.
    """
    image, scale = _small_image(source.path, longest_side)
    shown = range(1, 2) if len(class_names) == 2 else range(len(class_names))
    maps = [
        (f"probability of {class_names[label]}", [e.probability[label] for e in predicted], 1.0)
        for label in shown
    ]
    largest = float(np.log(len(class_names)))
    maps.append(("entropy (nats)", [entry.predictive_entropy for entry in predicted], largest))
    height, width = image.shape[:2]
    panel = (_PANEL_INCHES * min(1.0, width / height), _PANEL_INCHES * min(1.0, height / width))
    figure = Figure(figsize=((len(maps) + 1) * (panel[0] + 0.6), panel[1] + 0.9), layout="constrained")
    axes = figure.subplots(1, len(maps) + 1)
    axes[0].imshow(image)
    axes[0].set_title(printable(source.path.name), parse_math=False)
    for axis, (title, values, limit) in zip(axes[1:], maps, strict=True):
        axis.imshow(cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB))
        colours = UNCERTAINTY_COLOURS if axis is axes[-1] else PROBABILITY_COLOURS
        boxes = PatchCollection(
            [_rectangle(entry, scale) for entry in predicted], cmap=colours, alpha=_TINT, linewidth=0
        )
        boxes.set_array(np.asarray(values))
        boxes.set_clim(0.0, limit)
        axis.add_collection(boxes)
        axis.set_title(title, parse_math=False)
        figure.colorbar(boxes, ax=axis, orientation="horizontal", shrink=0.8)
    for axis in axes:
        axis.set_axis_off()
    path = out / "maps" / f"{source.stem}.png"
    with atomic_file(path) as temporary:
        temporary.parent.mkdir(exist_ok=True)
        figure.savefig(temporary, format="png", dpi=longest_side / _PANEL_INCHES / len(axes))


def _small_image(path: Path, longest_side: int) -> tuple[Picture, float]:
    """Return the image, shrunk if need be, and its scale."""
    with open_slide(path) as slide:
        height, width = slide.size
        scale = min(1.0, longest_side / max(height, width))
        size = (max(1, round(height * scale)), max(1, round(width * scale)))
        return slide.read(0, 0, slide.size, size), scale


def _rectangle(entry: PredictedPatch, scale: float) -> Rectangle:
    corner = (entry.column * scale - 0.5, entry.row * scale - 0.5)
    return Rectangle(corner, entry.width * scale, entry.height * scale)


def geojson(predicted: Sequence[PredictedPatch], class_names: Sequence[str]) -> str:
    """Return patches as GeoJSON that QuPath opens over the image: tiles with a class and measurements.

    Args:
        predicted: Patches of an image.
        class_names: Names of the classes in the order of the labels.
    """
    features = [_feature(entry, class_names) for entry in predicted]
    return json.dumps({"type": "FeatureCollection", "features": features}, indent=1) + "\n"


def _feature(entry: PredictedPatch, class_names: Sequence[str]) -> dict[str, Any]:
    left, top = entry.column, entry.row
    right, bottom = left + entry.width, top + entry.height
    ring = [[left, top], [right, top], [right, bottom], [left, bottom], [left, top]]
    measurements = {
        f"probability of {name}": round(float(value), 6)
        for name, value in zip(class_names, entry.probability, strict=True)
    }
    measurements |= {
        "predictive entropy (nats)": round(entry.predictive_entropy, 6),
        "mutual information (nats)": round(entry.mutual_information, 6),
    }
    colour = list(CLASS_COLOURS[entry.label % len(CLASS_COLOURS)])
    return {
        "type": "Feature",
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "properties": {
            "objectType": "tile",
            "classification": {"name": class_names[entry.label], "color": colour},
            "measurements": measurements,
        },
    }
