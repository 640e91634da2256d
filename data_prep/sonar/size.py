"""Which size snapshots should have: nearest neighbours on their pixels, as in thesis 6.3.2."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.metrics import pairwise_distances_chunked

from data_prep.errors import InputError, Skipped
from data_prep.labelled.preparing import LabelledPlan
from data_prep.prepared.preparing import Progress, require_good, run_in_rounds, without_skipped
from data_prep.prepared.workers import Workers
from data_prep.sonar.levels import normalise_speckle, resize_levels
from data_prep.sonar.plan import plan_snapshots
from data_prep.sonar.settings import SonarPrepareSettings
from data_prep.sonar.snapshots import SnapshotRequest, cut_snapshots
from data_prep.splits.labelled import LabelledName, assign_labelled

SIZES = (8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96)
"""Sides in pixels that are tried by default; the networks pool three times and need 8."""


@dataclass(frozen=True)
class SizeScore:
    """How well nearest neighbours separate the classes at a size.

    Attributes:
        size: Side of the snapshots in pixels.
        accuracy: Share of the snapshots whose nearest neighbour in another group is of their class.
        balanced_accuracy: Mean of this share over the classes.
        standard_error: Standard error of the accuracy, as if the snapshots were independent.
        number: Number of snapshots.
    """

    size: int
    accuracy: float
    balanced_accuracy: float
    standard_error: float
    number: int


@dataclass(frozen=True)
class _Sizes:
    """One snapshot at all sizes: uint8 [size, size] for each."""

    name: str
    side: int
    source: str
    label: int
    images: tuple[npt.NDArray[np.uint8], ...]


def search_size(
    images: Path,
    settings: SonarPrepareSettings | None = None,
    *,
    annotations: Path | None = None,
    sizes: Sequence[int] = SIZES,
    jobs: Workers = 1,
    progress: Progress | None = None,
) -> list[SizeScore]:
    """Score snapshot sizes without training a network, on the snapshots that `prepare` would train on.

    Those it would test on are left out: a size is a setting, and settings are not chosen on what is judged.
    (With folds all are taken; each is tested on once.) Each snapshot is given the class of its nearest
    neighbour among those of all other groups, by the distance of their pixels, minus their mean and divided
    by their length. Snapshots are cut and normalised as `data_prep.sonar.prepare.prepare_sonar` does, only
    square and at other sizes; sizes above the median side of what the snapshots show would only be
    interpolated and are not tried. All of them are in memory at all sizes: with the default ones, 21 KB a
    snapshot.

    Args:
        images: Folder of images, as in `prepare_sonar`.
        settings: Settings of `prepare`; they should group near-duplicates.
        annotations: Annotations of full images, as in `prepare_sonar`.
        sizes: Sides in pixels.
        jobs: Number of processes, or a cluster.
        progress: Function that is called after each file.

    Returns:
        The scores, in the order of the sizes that are tried.

    Raises:
        InputError: The images cannot be prepared, as in `prepare_sonar`, or the snapshots are one group.

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
        file_of=lambda request: request.surveyed.source.image,
    )
    snapshots = [one for some in without_skipped((result for _, result in results), skipped) for one in some]
    require_good(snapshots, "image", images, skipped)
    snapshots = _training(snapshots, plan, settings)
    largest = max(float(np.median([one.side for one in snapshots])), min(sizes))
    labels = np.array([one.label for one in snapshots])
    groups = np.unique([plan.groups[one.source] for one in snapshots], return_inverse=True)[1]
    if len(set(groups)) < 2:
        raise InputError(
            f"{images}: all training snapshots are one group. Expected two groups at least. Change them."
        )
    scores = []
    for number, size in enumerate(sizes):
        if size > largest:
            continue
        vectors = _unit_vectors(np.stack([one.images[number] for one in snapshots]))
        correct = labels[nearest_in_other_groups(vectors, groups)] == labels
        recalls = [correct[labels == label].mean() for label in np.unique(labels)]
        scores.append(
            SizeScore(
                size, float(correct.mean()), float(np.mean(recalls)), _standard_error(correct), len(labels)
            )
        )
    return scores


def _standard_error(correct: npt.NDArray[np.bool_]) -> float:
    """Return the standard error of a share, never 0.

    Two successes and two failures are added (Agresti and Coull 1998).
    """
    number = len(correct) + 4
    share = (correct.sum() + 2) / number
    return float(np.sqrt(share * (1 - share) / number))


def best_size(scores: Sequence[SizeScore]) -> int:
    """Return the largest side whose accuracy is within one standard error of the best.

    The largest, since a network makes use of detail that nearest neighbours on pixels cannot.

    Args:
        scores: Scores of all sizes that were tried.

    Example:
        >>> best_size([SizeScore(16, 0.9, 0.9, 0.03, 90), SizeScore(32, 0.88, 0.8, 0.03, 90)])
        32
    """
    best = max(scores, key=lambda score: score.accuracy)
    near = (score.size for score in scores if score.accuracy >= best.accuracy - best.standard_error)
    return max(near)


def resize_snapshots(
    request: SnapshotRequest,
    settings: SonarPrepareSettings,
    class_names: Sequence[str],
    sizes: Sequence[int],
) -> list[_Sizes] | Skipped:
    """Cut the snapshots of one image and bring each to all sizes, or say why the image cannot be used.

    Args:
        request: What to cut out of the image.
        settings: Settings of `prepare`.
        class_names: Names of the classes, in the order of the labels.
        sizes: Sides in pixels.
    """
    snapshots = cut_snapshots(request, settings)
    if isinstance(snapshots, Skipped):
        return snapshots
    return [
        _Sizes(
            name=snapshot.name,
            side=max(snapshot.levels.shape[:2]),
            source=request.surveyed.source.name,
            label=class_names.index(snapshot.class_name),
            images=tuple(
                normalise_speckle(resize_levels(snapshot.levels, (size, size)), settings.normalisation)
                for size in sizes
            ),
        )
        for snapshot in snapshots
    ]


def _training(
    snapshots: Sequence[_Sizes], plan: LabelledPlan[SnapshotRequest], settings: SonarPrepareSettings
) -> list[_Sizes]:
    """Return the snapshots that `prepare` with these settings does not test on."""
    names = [LabelledName(one.name, one.source, plan.groups[one.source], one.label) for one in snapshots]
    assigned = assign_labelled(names, settings, plan.train, plan.test)
    return [one for one in snapshots if one.name in assigned and assigned[one.name].split != "test"]


def nearest_in_other_groups(
    vectors: npt.NDArray[np.float32], groups: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the nearest neighbour of each vector among those of other groups.

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
    """Return all pixels of each image minus their mean, as one vector of length 1, [N, D]."""
    vectors = images.reshape(len(images), -1).astype(np.float32)
    vectors -= vectors.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
