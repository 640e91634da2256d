"""Tissue of two organs: patches of breast and colon, benign or malignant, described by handmade features.

Groups (cores of breast, patients of colon) never lie on both sides: those that labelled target patches are
drawn from are not judged. Columns are standardised within each organ and all rows projected to 50 principal
components, as in the paper, which needs images of the target but no labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.transfer.office import FloatArray, Integers, Split, projected

NUM_SOURCE_PATCHES = 200
NUM_COMPONENTS = 50
MOST_DRAWS = 2000
"""Divisions of groups that are tried for one with enough labels on one side and both classes on the other."""


@dataclass(frozen=True)
class Tissue:
    """Patches of one organ.

    Attributes:
        x: Features, `[N, D]`.
        label: 1 for malignant, `[N]`.
        image: Number of each patch's image, `[N]`.
        group: Number of each patch's patient or core, `[N]`.
    """

    x: FloatArray
    label: Integers
    image: Integers
    group: Integers


@dataclass(frozen=True)
class TissueSplit:
    """One draw.

    Attributes:
        split: What methods get.
        judged_image: Number of the image of each judged patch, `[n]`.
        num_groups: Groups that labelled patches are of, and that are judged.
    """

    split: Split
    judged_image: Integers
    num_groups: tuple[int, int]


@lru_cache
def load_tissue(data: Path, out: Path, organ: str) -> Tissue:
    """Return the patches of an organ, whose features are computed once and kept in OUT/prepared.

    Args:
        data: Folder of the data sets.
        out: Folder of the benchmark.
        organ: `"breast"` or `"colon"`.
    """
    from benchmarks.histopathology import prepared_once  # noqa: PLC0415 - imports TensorFlow
    from data_prep.histopathology.manifest import HistopathologyManifest  # noqa: PLC0415 - likewise
    from pipelines.labelled.data import open_views  # noqa: PLC0415 - likewise

    views = open_views(prepared_once(data, out, organ, "handmade"), HistopathologyManifest)
    examples = views.manifest.examples

    def numbers(names: list[str]) -> Integers:
        return np.unique(names, return_inverse=True)[1].astype(np.intp)

    return Tissue(
        x=views.features.astype(np.float64),
        label=np.array([example.label for example in examples], dtype=np.intp),
        image=numbers([example.source for example in examples]),
        group=numbers([example.group for example in examples]),
    )


def draw(source: Tissue, target: Tissue, kind: str, count: int, seed: int) -> TissueSplit:
    """Return a draw of source patches, labelled target patches and judged target patches.

    Args:
        source: Organ with many labels.
        target: Organ with few.
        kind: `"patches"`, or `"images"` for all patches of an image.
        count: Labelled patches or images of each class.
        seed: Of the draw; draws of one seed divide the target's groups alike, whatever kind and count are.
    """
    is_labelled = _labelled_side(target, seed)
    rng = np.random.default_rng([seed, count])
    chosen = np.concatenate([_chosen(target, is_labelled, kind, count, label, rng) for label in (0, 1)])
    half = NUM_SOURCE_PATCHES // 2
    taken = np.concatenate(
        [rng.choice(np.flatnonzero(source.label == label), half, replace=False) for label in (0, 1)]
    )
    judged = np.flatnonzero(~is_labelled)

    def with_source(of_target: Integers) -> Integers:
        """Return groups of all rows; a row of the source is one for itself."""
        return np.concatenate([np.arange(len(taken)), len(taken) + of_target])

    split = projected(
        [(source.x[taken], source.x), (target.x[chosen], target.x)],
        [source.label[taken], target.label[chosen]],
        target.x[judged],
        target.label[judged],
        is_transductive=True,
        num_components=NUM_COMPONENTS,
        # left out together: a patch says too much about others of its image
        groups=with_source(target.image[chosen]),
    )
    split = replace(split, patients=with_source(target.group[chosen]))
    groups = len(np.unique(target.group[chosen])), len(np.unique(target.group[judged]))
    return TissueSplit(split, target.image[judged], groups)


def _labelled_side(target: Tissue, seed: int) -> npt.NDArray[np.bool_]:
    """Return whether each patch is of the groups that labelled ones are drawn from, about half of them.

    Raises:
        ValueError: No division has the most images that are asked for on one side and both classes on the
            other.
    """
    rng = np.random.default_rng(seed)
    groups = np.unique(target.group)
    for _ in range(MOST_DRAWS):
        size = len(groups) // 2 + int(rng.integers(0, 2))
        side = np.isin(target.group, rng.choice(groups, size, replace=False))
        enough = all(
            len(np.unique(target.image[side & (target.label == label)])) >= MOST_IMAGES
            and len(np.unique(target.image[~side & (target.label == label)])) >= FEWEST_JUDGED
            for label in (0, 1)
        )
        if enough:
            return side
    raise ValueError(
        f"{MOST_DRAWS} divisions of {len(groups)} groups were tried, but none had {MOST_IMAGES} images of "
        f"each class to label and {FEWEST_JUDGED} to judge. Ask for fewer images."
    )


MOST_IMAGES, FEWEST_JUDGED = 10, 5
"""Images of each class on the labelled side, for the largest count, and on the judged side."""


def _chosen(
    target: Tissue,
    is_labelled: npt.NDArray[np.bool_],
    kind: str,
    count: int,
    label: int,
    rng: np.random.Generator,
) -> Integers:
    own = np.flatnonzero(is_labelled & (target.label == label))
    if kind == "patches":
        return rng.choice(own, count, replace=False)
    images = rng.choice(np.unique(target.image[own]), count, replace=False)
    return own[np.isin(target.image[own], images)]


def image_mean(probability: FloatArray, image: Integers) -> tuple[FloatArray, Integers]:
    """Return the mean probability of each image's patches, and the first patch of each image."""
    _, first, index = np.unique(image, return_index=True, return_inverse=True)
    sums = np.bincount(index, probability)
    return sums / np.bincount(index), first


def tissue_measures(split: TissueSplit, probability: FloatArray) -> dict[str, float]:
    """Return AUCs of patches and of images in per cent, and accuracy, NLL and ECE of patches."""
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415 - beside its only use

    from benchmarks.transfer.methods import measures  # noqa: PLC0415 - tests of draws need no methods

    label = split.split.test_label
    of_images, first = image_mean(probability[:, 1], split.judged_image)
    scores: dict[str, Any] = measures(label, probability)
    return {
        "auc": 100.0 * float(roc_auc_score(label, probability[:, 1])),
        "image_auc": 100.0 * float(roc_auc_score(label[first], of_images)),
        **scores,
    }
