"""Maps of features: how often the nearest neighbour of another group has the same class."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.spatial.distance import cdist

from benchmarks.cell_runner import Cell
from data_prep.histopathology.features import describe_patch
from data_prep.labelled.texture import intensity_histogram, lbp_histogram

FloatArray = npt.NDArray[np.float64]

PATCH = 200
SONAR_SIDE = 96


def tissue(data: Path) -> tuple[FloatArray, npt.NDArray[Any], npt.NDArray[Any]]:
    """Return features of the patches of breast tissue, benign or malignant, and the core they are of."""
    folder = data / "ucsb_breast_histology"
    features, labels, groups = [], [], []
    for image in pd.read_csv(folder / "labels.csv").itertuples():
        pixels = cv2.cvtColor(cv2.imread(str(folder / "images" / image.file)), cv2.COLOR_BGR2RGB)
        for top in range(0, pixels.shape[0] - PATCH + 1, PATCH):
            for left in range(0, pixels.shape[1] - PATCH + 1, PATCH):
                patch = np.ascontiguousarray(pixels[top : top + PATCH, left : left + PATCH])
                features.append(np.concatenate(list(describe_patch(patch).values())))
                labels.append(image.y)
                groups.append(image.tma_core)
    return np.array(features, np.float64), np.array(labels), np.array(groups)


def sonar(data: Path) -> tuple[FloatArray, npt.NDArray[Any], npt.NDArray[Any]]:
    """Return features of the centres of side-scan images, their class, and the group of near-duplicates."""
    folder = data / "sonar_sidescan_classes"
    features, labels, groups = [], [], []
    for image in pd.read_csv(folder / "near_duplicate_groups.csv").itertuples():
        path = folder / image[1] / image.file
        if not path.exists():  # the table names some images that the folder does not hold
            continue
        grey = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        side = min(grey.shape)
        top, left = (grey.shape[0] - side) // 2, (grey.shape[1] - side) // 2
        square = cv2.resize(grey[top : top + side, left : left + side], (SONAR_SIDE, SONAR_SIDE))
        square = cv2.equalizeHist(square)
        cells = [
            square[i : i + 32, j : j + 32] for i in range(0, SONAR_SIDE, 32) for j in range(0, SONAR_SIDE, 32)
        ]
        parts = [lbp_histogram(np.ascontiguousarray(square))]
        parts += [intensity_histogram(np.ascontiguousarray(cell), bins=8) for cell in cells]
        features.append(np.concatenate(parts))
        labels.append(image[1])
        groups.append(image.group)
    return np.array(features, np.float64), np.array(labels), np.array(groups)


def accuracy_across_groups(position: FloatArray, label: npt.NDArray[Any], group: npt.NDArray[Any]) -> float:
    """Return how often the nearest row of another group has a row's class."""
    distance = cdist(position, position)
    distance[group[:, None] == group] = np.inf
    return float(np.mean(label[distance.argmin(axis=1)] == label))


def compute(cell: Cell, data: Path) -> dict[str, Any]:
    """Make one map of the standardised features and judge it."""
    x, label, group = tissue(data) if cell.setting == "tissue" else sonar(data)
    deviation = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    started = time.process_time()
    if cell.method == "pca":
        left, values, _ = np.linalg.svd(x, full_matrices=False)
        position = left * values
    elif cell.method == "umap":
        import umap  # noqa: PLC0415 - a peer

        position = umap.UMAP(n_components=2, random_state=cell.seed).fit_transform(x)
    else:
        from gpmodels import BayesianGPLVM  # noqa: PLC0415 - imports TensorFlow

        posterior = "map" if cell.method == "gplvm-map" else "gaussian"
        model = BayesianGPLVM(num_dimensions=10, posterior=posterior, random_state=cell.seed)
        position = model.fit_transform(x)
    return {
        "accuracy": accuracy_across_groups(position[:, :2], label, group),
        "all_features": accuracy_across_groups(x, label, group),
        "rows": len(x),
        "seconds": time.process_time() - started,
    }
