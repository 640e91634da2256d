"""Which size snapshots should have: nearest neighbours on their pixels, as in thesis 6.3.2."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.metrics import pairwise_distances_chunked

from data_prep.errors import InputError
from data_prep.pairing import Skipped
from data_prep.preparing import Progress, require_good, run_in_rounds, without_skipped
from data_prep.sonar_levels import normalise_speckle, resize_levels
from data_prep.sonar_plan import plan_snapshots
from data_prep.sonar_settings import SonarPrepareSettings
from data_prep.sonar_snapshots import SnapshotRequest, cut_snapshots

SIZES = (6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96)
"""Sides in pixels that are tried by default."""


@dataclass(frozen=True)
class SizeScore:
    """How well nearest neighbours tell the classes apart at a size.

    Attributes:
        size: side of the snapshots in pixels.
        accuracy: share of the snapshots whose nearest neighbour in another group is of their class.
        balanced_accuracy: mean of this share over the classes.
    """

    size: int
    accuracy: float
    balanced_accuracy: float


@dataclass(frozen=True)
class _Sizes:
    """One snapshot at all sizes: uint8 [size, size] for each."""

    source: str
    label: int
    images: tuple[npt.NDArray[np.uint8], ...]


def search_size(
    images: Path,
    settings: SonarPrepareSettings | None = None,
    *,
    annotations: Path | None = None,
    sizes: Sequence[int] = SIZES,
    jobs: int = 1,
    progress: Progress | None = None,
) -> list[SizeScore]:
    """Score snapshot sizes without training a network.

    Each snapshot is given the class of its nearest neighbour among those of all other groups, by the distance
    of their pixels: less their mean, divided by their length. Snapshots are cut and normalised as
    `data_prep.sonar.prepare_sonar` does, only square and at other sizes. All of them are in memory at all
    sizes: with the default ones, 21 KB a snapshot.

    Args:
        images: as in `prepare_sonar`.
        settings: of `prepare`; it should group near-duplicates.
        annotations: as in `prepare_sonar`.
        sizes: sides in pixels.
        jobs: number of processes.
        progress: called after each file.

    Returns:
        the scores, in the order of the sizes.

    Raises:
        InputError: as `prepare_sonar`, or the snapshots are one group.

    Example:
        >>> max(search_size(Path("snapshots")), key=lambda score: score.accuracy).size  # doctest: +SKIP
        32
    """
    settings = settings or SonarPrepareSettings()
    settings = settings.model_copy(update={"size": (max(settings.size),) * 2})  # square windows
    plan = plan_snapshots(images, annotations, settings, jobs=jobs, progress=progress)
    skipped = list(plan.skipped)
    results = run_in_rounds(
        "Resizing snapshots",
        resize_snapshots,
        plan.sources,
        (settings, plan.class_names, tuple(sizes)),
        jobs=jobs,
        progress=progress,
    )
    snapshots = [one for some in without_skipped((result for _, result in results), skipped) for one in some]
    require_good(snapshots, "image", images, skipped)
    labels = np.array([one.label for one in snapshots])
    groups = np.unique([plan.groups[one.source] for one in snapshots], return_inverse=True)[1]
    if groups.max() == 0:
        raise InputError(f"{images}: all snapshots are one group. Expected two groups at least. Change them.")
    scores = []
    for number, size in enumerate(sizes):
        vectors = _unit_vectors(np.stack([one.images[number] for one in snapshots]))
        correct = labels[nearest_in_other_groups(vectors, groups)] == labels
        recalls = [correct[labels == label].mean() for label in np.unique(labels)]
        scores.append(SizeScore(size, float(correct.mean()), float(np.mean(recalls))))
    return scores


def resize_snapshots(
    request: SnapshotRequest,
    settings: SonarPrepareSettings,
    class_names: Sequence[str],
    sizes: Sequence[int],
) -> list[_Sizes] | Skipped:
    """Cut the snapshots of one image and bring each to all sizes, or say why the image cannot be used."""
    snapshots = cut_snapshots(request, settings)
    if isinstance(snapshots, Skipped):
        return snapshots
    return [
        _Sizes(
            source=request.surveyed.source.name,
            label=class_names.index(snapshot.class_name),
            images=tuple(
                normalise_speckle(resize_levels(snapshot.levels, (size, size)), settings.normalisation)
                for size in sizes
            ),
        )
        for snapshot in snapshots
    ]


def nearest_in_other_groups(
    vectors: npt.NDArray[np.float32], groups: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Nearest neighbour of each vector among those of other groups.

    Args:
        vectors: [N, D].
        groups: [N], two different ones at least.

    Returns:
        [N], the neighbours' numbers.
    """

    def nearest(distances: npt.NDArray[np.float32], start: int) -> npt.NDArray[np.int64]:
        same = groups[start : start + len(distances), np.newaxis] == groups
        return np.where(same, np.inf, distances).argmin(axis=1)

    return np.concatenate(list(pairwise_distances_chunked(vectors, reduce_func=nearest)))


def _unit_vectors(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """All pixels of each image as one vector [N, D], less their mean, of length 1."""
    vectors = images.reshape(len(images), -1).astype(np.float32)
    vectors -= vectors.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
