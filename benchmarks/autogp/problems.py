"""The data sets, as rows and labels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
from sklearn.model_selection import train_test_split

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

SIDE = 32
BLOCK = 20
"""Snapshots of consecutive numbers that stay together: they are views of one object."""


class Problem(NamedTuple):
    """Rows to train on and rows to judge by."""

    x: FloatArray
    y: IntArray
    test_x: FloatArray
    test_y: IntArray


def load(setting: str, data: Path, seed: int) -> Problem:
    """Return a problem by its name and number of training rows, as `"MNIST 200"`.

    Args:
        setting: Name and number.
        data: Folder of the data sets.
        seed: Of the rows that are drawn, of every class as many as its share.
    """
    name, _, number = setting.rpartition(" ")
    whole = {"MNIST": digits, "ctg": ctg, "pendigits": pen_digits, "debris": debris}[name](data, seed)
    if int(number) >= len(whole.y):
        return whole
    rows, _ = train_test_split(
        np.arange(len(whole.y)), train_size=int(number), stratify=whole.y, random_state=seed
    )
    return whole._replace(x=whole.x[rows], y=whole.y[rows])


def digits(data: Path, _: int) -> Problem:
    """Return MNIST's own parts, grey levels from 0 to 1."""
    archive = np.load(data / "mnist" / "mnist.npz")
    x, test_x = (archive[name].reshape(-1, 784) / 255.0 for name in ("x_train", "x_test"))
    return Problem(x, archive["y_train"].astype(np.intp), test_x, archive["y_test"].astype(np.intp))


def ctg(data: Path, seed: int) -> Problem:
    """Return cardiotocograms, normal or not, half of them to judge by."""
    archive = np.load(data / "tabular" / "ctg.npz")
    x, test_x, y, test_y = train_test_split(
        archive["X"], archive["y"].astype(np.intp), test_size=0.5, stratify=archive["y"], random_state=seed
    )
    return Problem(x, y, test_x, test_y)


def pen_digits(data: Path, _: int) -> Problem:
    """Return pen strokes of digits, whose test part is by other writers."""
    archive = np.load(data / "tabular" / "pendigits.npz")
    return Problem(
        archive["X_train"],
        archive["digit_train"].astype(np.intp),
        archive["X_test"],
        archive["digit_test"].astype(np.intp),
    )


def debris(data: Path, seed: int) -> Problem:
    """Return sonar snapshots of debris, 32 x 32 pixels, whole blocks of names to judge by."""
    folder = data / "marine_debris_fls" / "watertank_cropped"
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    rows, labels, blocks = [], [], []
    for label, name in enumerate(names):
        for path in sorted((folder / name).iterdir()):
            grey = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
            number = re.search(r"(\d+)\.\w+$", path.name)
            if grey is None or number is None:
                continue
            small = cv2.resize(grey, (SIDE, SIDE), interpolation=cv2.INTER_AREA) / 255.0
            rows.append(small.reshape(-1))
            labels.append(label)
            blocks.append(1000 * label + int(number[1]) // BLOCK)
    x, y, block = np.array(rows), np.array(labels, np.intp), np.array(blocks)
    rng = np.random.default_rng(seed)
    is_test = np.zeros(len(y), bool)
    for label in range(len(names)):
        own = rng.permutation(np.unique(block[y == label]))
        is_test |= np.isin(block, own[: len(own) // 2])
    return Problem(x[~is_test], y[~is_test], x[is_test], y[is_test])
