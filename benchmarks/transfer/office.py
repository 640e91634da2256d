"""Office-Caltech: images of ten classes in three domains, and Hoffman's twenty splits of each pair.

Rows are divided by their L2 norm, columns standardised within each domain, and both projected to 20 principal
components, without centring. The paper's protocol is transductive: scales come from all rows of a domain and
components from training and test rows alike. In the inductive one both come from training rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.io import loadmat
from scipy.linalg import eigh

FloatArray = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]

FOLDER = "office_caltech_surf"
FILES = {"amazon": "amazon_SURF_L10", "caltech": "Caltech10_SURF_L10", "webcam": "webcam_SURF_L10"}

NUM_COMPONENTS = 20


@dataclass(frozen=True)
class Split:
    """Labelled rows to learn from, and rows to judge by.

    Attributes:
        x: Principal components of the training rows of all domains, `[N, 20]`.
        label: Classes, `[N]`.
        sample_domain: 0 to K - 1 for the sources, -1 for the target, `[N]`.
        test_x: Principal components of the judged rows, all of the target, `[n, 20]`.
        test_label: Their classes, `[n]`.
        wide_x: The training rows before the projection, `[N, D]`.
        wide_test_x: The judged rows before the projection, `[n, D]`.
        unlabelled: Whether a method may see judged rows without their labels.
        groups: What stays together when target rows are left out, `[N]`.
        patients: Patient of each row, `[N]`, where there are patients: coarser groups.
    """

    x: FloatArray
    label: Integers
    sample_domain: Integers
    test_x: FloatArray
    test_label: Integers
    wide_x: FloatArray
    wide_test_x: FloatArray
    unlabelled: bool
    groups: Integers | None = None
    patients: Integers | None = None


@dataclass(frozen=True)
class DomainImages:
    """Images of one domain.

    Attributes:
        counts: Visual words, `[n, 800]`.
        label: Classes from 0, `[n]`.
    """

    counts: FloatArray
    label: Integers


def projected(
    blocks: list[tuple[FloatArray, FloatArray]],
    labels: list[Integers],
    test: FloatArray,
    test_label: Integers,
    *,
    is_transductive: bool,
    num_components: int = NUM_COMPONENTS,
    groups: Integers | None = None,
) -> Split:
    """Return a split whose rows are standardised by domain and projected to principal components.

    Args:
        blocks: Training rows, and rows to scale by, of each domain, the target last, `[., D]` each.
        labels: Classes of each domain's training rows.
        test: Judged rows, `[n, D]`.
        test_label: Their classes.
        is_transductive: Whether the principal components are of judged rows too.
        num_components: How many.
        groups: What stays together when target rows are left out, `[N]`.
    """
    scales = [(by.mean(axis=0), _deviation(by)) for _, by in blocks]
    train = np.concatenate([(x - mean) / scale for (x, _), (mean, scale) in zip(blocks, scales, strict=True)])
    mean, scale = scales[-1]
    judged = (test - mean) / scale
    seen = np.concatenate([train, judged]) if is_transductive else train
    components = _components(seen, num_components)
    sizes = [len(x) for x, _ in blocks]
    return Split(
        x=train @ components,
        label=np.concatenate(labels),
        sample_domain=np.repeat([*range(len(blocks) - 1), -1], sizes),
        test_x=judged @ components,
        test_label=test_label,
        wide_x=train,
        wide_test_x=judged,
        unlabelled=is_transductive,
        groups=groups,
    )


@lru_cache(maxsize=40)
def load_split(data: Path, pair: str, number: int, protocol: str, *, all_sources: bool = False) -> Split:
    """Return a split of a pair.

    Args:
        data: Folder of the data sets.
        pair: Like `"webcam-amazon"`, source first.
        number: Of the split, from 0.
        protocol: `"transductive"` or `"inductive"`.
        all_sources: Whether the domain that is in neither place is a second source.
    """
    source, target = pair.split("-")
    sources = [source]
    if all_sources:
        sources += [name for name in FILES if name not in pair]
    rows = _rows(data, pair, number)
    is_transductive = protocol == "transductive"
    blocks, labels = [], []
    for name in [*sources, target]:
        images = load_domain(data, name)
        if name == target:
            chosen = rows["target"]
        else:
            chosen = rows["source"] if name == source else _rows(data, f"{name}-{target}", number)["source"]
        normed = images.counts / np.linalg.norm(images.counts, axis=1, keepdims=True)
        blocks.append((normed[chosen], normed if is_transductive else normed[chosen]))
        labels.append(images.label[chosen])
    images = load_domain(data, target)
    test = images.counts[rows["test"]]
    return projected(
        blocks,
        labels,
        test / np.linalg.norm(test, axis=1, keepdims=True),
        images.label[rows["test"]],
        is_transductive=is_transductive,
    )


@lru_cache
def load_domain(data: Path, name: str) -> DomainImages:
    """Return the images of a domain.

    Raises:
        SystemExit: The file is not there.
    """
    path = data / FOLDER / f"{FILES[name]}.mat"
    if not path.exists():
        raise SystemExit(f"{path} is not there; expected the SURF features of Office-Caltech10.")
    content = loadmat(path)
    return DomainImages(content["fts"].astype(np.float64), content["labels"].ravel().astype(np.intp) - 1)


@lru_cache(maxsize=256)
def _rows(data: Path, pair: str, number: int) -> dict[str, Integers]:
    content = loadmat(
        data / FOLDER / "splits_hoffman" / f"SameCategory_{pair}_20RandomTrials_10Categories.mat"
    )

    def of(part: str, domain: str) -> Integers:
        cells: Any = content[part][domain][0, 0]
        return np.asarray(cells[0, number]).ravel().astype(np.intp) - 1

    return {"source": of("train", "source"), "target": of("train", "target"), "test": of("test", "target")}


def _components(x: FloatArray, count: int) -> FloatArray:
    """Return the first principal directions of rows, `[D, count]`, by the smaller of two products."""
    centred = x - x.mean(axis=0)
    if len(x) < x.shape[1]:
        return np.linalg.svd(centred, full_matrices=False)[2][:count].T
    width = x.shape[1]
    top = eigh(centred.T @ centred, subset_by_index=(max(0, width - count), width - 1))[1]
    return np.ascontiguousarray(top[:, ::-1])


def _deviation(x: FloatArray) -> FloatArray:
    deviation = x.std(axis=0)
    return np.where(deviation > 0.0, deviation, 1.0)
