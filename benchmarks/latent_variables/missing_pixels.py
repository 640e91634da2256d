"""Missing pixels: what each method expects of them, and how sure it is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.impute import KNNImputer

from benchmarks.cell_runner import Cell
from benchmarks.latent_variables.plan import DIGITS

FloatArray = npt.NDArray[np.float64]

TRAINING, TEST = 1000, 965
NEIGHBOURS = (1, 2, 3, 5, 8, 12, 20)
COMPONENTS = (5, 10, 20, 40, 80)
LEAST_DEVIATION = 0.02
"""Of a pixel for methods without a model of noise; grey lies between 0 and 1."""

DIMENSIONS, INDUCING = 20, 100
SILHOUETTE = (24, 16)
TEST_PEOPLE = 3
"""Every third person is judged."""


def digits(data: Path, part: str) -> npt.NDArray[np.float32]:
    """Return MNIST as means of 2 x 2 pixels, grey from 0 to 1, `[N, 196]`."""
    with np.load(data / "mnist" / "mnist.npz") as file:
        images = file[part]
    small = images.reshape(len(images), 14, 2, 14, 2).mean(axis=(2, 4), dtype=np.float32)
    return (small / 255.0).reshape(len(images), -1)


def silhouettes(data: Path) -> tuple[FloatArray, npt.NDArray[np.intp]]:
    """Return every second silhouette, cut to its figure, `[N, 384]`, and the person."""
    folder = data / "weizmann_silhouettes"
    frames, people = [], []
    for clip in pd.read_csv(folder / "clips.csv").itertuples():
        capture = cv2.VideoCapture(str(folder / clip.file))
        number = 0
        while True:
            good, frame = capture.read()
            if not good:
                break
            number += 1
            mask = frame[:, :, 0] > 127
            if number % 2 or mask.sum() < 50:
                continue
            rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
            cut = mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].astype(np.float32)
            frames.append(cv2.resize(cut, SILHOUETTE[::-1], interpolation=cv2.INTER_AREA).reshape(-1))
            people.append(clip.group)
        capture.release()
    return np.array(frames, np.float64), np.array(people)


def load(data: Path, setting: str, seed: int) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
    """Return training rows, test rows, and which pixels of the test rows are missing."""
    pictures, hole = setting.rsplit(", ", 1)
    rng = np.random.default_rng(seed)
    if pictures == DIGITS:
        train, test = digits(data, "x_train"), digits(data, "x_test")
        height = 14
    else:
        frames, person = silhouettes(data)
        judged = person % TEST_PEOPLE == 0
        train, test, height = frames[~judged], frames[judged], SILHOUETTE[0]
    train = train[rng.permutation(len(train))[:TRAINING]].astype(np.float64)
    test = test[rng.permutation(len(test))[:TEST]].astype(np.float64)
    if hole == "lower half":
        missing = np.zeros((len(test), height, test.shape[1] // height), bool)
        missing[:, height // 2 :] = True
        return train, test, missing.reshape(test.shape)
    return train, test, rng.random(test.shape) < 0.5


def compute(cell: Cell, data: Path) -> dict[str, Any]:
    """Fill the missing pixels of the test rows by one method and judge them."""
    train, test, missing = load(data, cell.setting, cell.seed)
    holed = np.where(missing, np.nan, test)
    started = time.process_time()
    record: dict[str, Any]
    if cell.method == "mean":
        deviation = np.maximum(train.std(axis=0), LEAST_DEVIATION)
        record = judged(test, missing, train.mean(axis=0), deviation)
    elif cell.method == "knn":
        record = _best(test, missing, [(k, *_neighbours(train, holed, missing, k)) for k in NEIGHBOURS])
    elif cell.method == "ppca":
        record = _best(test, missing, [(q, *probabilistic_pca(train, holed, q)) for q in COMPONENTS])
    else:
        record = _own(train, test, holed, missing, cell.seed)
    return record | {"seconds": time.process_time() - started}


def judged(
    test: FloatArray, missing: npt.NDArray[np.bool_], mean: FloatArray, deviation: FloatArray
) -> dict[str, Any]:
    """Return root mean squared error, NLL and share within 95 % intervals of the missing pixels."""
    mean, deviation = (
        np.broadcast_to(mean, test.shape)[missing],
        np.broadcast_to(deviation, test.shape)[missing],
    )
    error = test[missing] - mean
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "nll": float(np.mean(0.5 * np.log(2 * np.pi * deviation**2) + 0.5 * (error / deviation) ** 2)),
        "covered": float(np.mean(np.abs(error) < 1.96 * deviation)),
    }


def _best(
    test: FloatArray, missing: npt.NDArray[np.bool_], tried: list[tuple[int, FloatArray, FloatArray]]
) -> dict[str, Any]:
    """Return the scores of the size that is best on the test rows, each score at its own best."""
    found = [judged(test, missing, mean, deviation) | {"size": size} for size, mean, deviation in tried]
    by_error = min(found, key=lambda scores: scores["rmse"])
    by_nll = min(found, key=lambda scores: scores["nll"])
    return by_error | {"nll": by_nll["nll"], "size_nll": by_nll["size"]}


def _neighbours(
    train: FloatArray, holed: FloatArray, missing: npt.NDArray[np.bool_], count: int
) -> tuple[FloatArray, FloatArray]:
    """Return what k neighbours say, and deviations of each pixel from training rows holed in the same way."""
    imputer = KNNImputer(n_neighbors=count).fit(train)
    half = len(train) // 2
    masks = missing[np.arange(len(train) - half) % len(missing)]
    rest = np.where(masks, np.nan, train[half:])
    filled = KNNImputer(n_neighbors=count).fit(train[:half]).transform(rest)
    errors = np.where(masks, filled - train[half:], np.nan)
    counts = np.maximum((~np.isnan(errors)).sum(axis=0), 1)
    deviation = np.sqrt(np.nansum(errors**2, axis=0) / counts)
    return imputer.transform(holed), np.maximum(deviation, LEAST_DEVIATION)


def probabilistic_pca(train: FloatArray, holed: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return conditional means and deviations of probabilistic PCA (Tipping and Bishop, 1999)."""
    mean = train.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(train, rowvar=False, bias=True))
    values, vectors = values[::-1], vectors[:, ::-1]
    noise = max(float(values[count:].mean()), 1e-6)
    loadings = vectors[:, :count] * np.sqrt(np.maximum(values[:count] - noise, 0.0))
    means, deviations = np.empty_like(holed), np.empty_like(holed)
    for row, values_of in enumerate(holed):
        seen = ~np.isnan(values_of)
        inner = loadings[seen].T @ loadings[seen] + noise * np.eye(count)
        score = np.linalg.solve(inner, loadings[seen].T @ (values_of[seen] - mean[seen]))
        spread = noise * np.linalg.inv(inner)
        means[row] = mean + loadings @ score
        deviations[row] = np.sqrt(np.einsum("dq,qp,dp->d", loadings, spread, loadings) + noise)
    return means, deviations


def _own(
    train: FloatArray, test: FloatArray, holed: FloatArray, missing: npt.NDArray[np.bool_], seed: int
) -> dict[str, Any]:
    from gpmodels import BayesianGPLVM  # noqa: PLC0415 - imports TensorFlow

    model = BayesianGPLVM(num_dimensions=DIMENSIONS, num_inducing=INDUCING, random_state=seed).fit(train)
    mean, deviation = model.complete(holed, return_std=True)
    used = int(np.sum(model.relevance_ > 1e-4))
    return judged(test, missing, mean, np.maximum(deviation, 1e-9)) | {
        "iterations": model.n_iter_,
        "size": used,
    }
