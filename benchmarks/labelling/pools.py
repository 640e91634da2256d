"""The pools that simulated annotators label: features of the frozen trunk, classes and groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from data_prep.files.atomic import atomic_file

POOLS = ("BUSI", "side-scan", "debris", "tissue", "MNIST", "elpv")
"""Names of the pools."""

LARGEST = 1800
"""Images of a pool at most: a random part of a larger one, whole groups."""


@dataclass(frozen=True)
class Pool:
    """Images of known classes.

    Attributes:
        features: Features of the trunk `[N, D]`.
        label: Class of each image `[N]`.
        group: Number of the group of each image `[N]`: patient, near-duplicates, frames in a row.
    """

    features: NDArray[np.float32]
    label: NDArray[np.int64]
    group: NDArray[np.int64]


def pool(name: str, data: Path, cache: Path) -> Pool:
    """Return a pool, whose features a file keeps.

    Args:
        name: Name of the pool, one of `POOLS`.
        data: Folder of the data sets.
        cache: Folder of the files.
    """
    file = cache / f"{name}.safetensors"
    if not file.exists():
        # What computes features imports TensorFlow, which takes seconds and is needed once.
        found = resolve_name("benchmarks.labelling.encoding:make_pool")(name, data, cache)
        kept = _part(found.group)
        content = {
            "features": found.features[kept],
            "label": found.label[kept],
            "group": np.unique(found.group[kept], return_inverse=True)[1].astype(np.int64),
        }
        with atomic_file(file) as temporary:
            temporary.write_bytes(save({key: np.ascontiguousarray(rows) for key, rows in content.items()}))
    return Pool(**load(file.read_bytes()))


def _part(group: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return rows of whole groups, in a random order of groups, at most `LARGEST` of them."""
    order = np.random.default_rng(0).permutation(np.unique(group))
    sizes = np.array([np.sum(group == number) for number in order])
    return np.flatnonzero(np.isin(group, order[np.cumsum(sizes) <= LARGEST]))
