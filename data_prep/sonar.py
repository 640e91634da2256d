"""Prepare sonar data: class folders, or full images with annotations, become shards and a manifest."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from data_prep.atomic import atomic_folder
from data_prep.labelled_manifest import LabelledExample
from data_prep.labelled_splits import LabelledName, assign_labelled, one_sided_classes
from data_prep.manifest import write_manifest
from data_prep.pairing import Skipped
from data_prep.preparing import (
    Progress,
    check_destination,
    checksums,
    require_good,
    run_in_rounds,
    without_skipped,
    write_skipped,
)
from data_prep.sonar_levels import prepare_snapshots
from data_prep.sonar_manifest import SonarManifest
from data_prep.sonar_plan import SnapshotPlan, plan_snapshots
from data_prep.sonar_settings import SonarPrepareSettings
from data_prep.sonar_snapshots import SnapshotRequest, cut_snapshots
from data_prep.sonar_sources import source_name
from data_prep.splits import Assignment, read_name_list

if TYPE_CHECKING:
    from data_prep.shards import Position


@dataclass(frozen=True)
class PrepareResult:
    """What `prepare_sonar` did.

    Attributes:
        manifest: of the folder that was written.
        skipped: files and boxes that were left out, each with the reason; also in skipped.csv.
        one_sided: a warning for each class of which a side of the split has no example.
    """

    manifest: SonarManifest
    skipped: tuple[Skipped, ...]
    one_sided: tuple[str, ...]


@dataclass(frozen=True)
class _Facts:
    """What the manifest says of a snapshot; `source` is where it was cut."""

    name: str
    source: str
    label: int
    height: int
    width: int


@dataclass(frozen=True)
class _PreparedSnapshot:
    facts: _Facts
    image: npt.NDArray[np.uint8]


def prepare_sonar(
    images: Path,
    out: Path,
    settings: SonarPrepareSettings | None = None,
    *,
    annotations: Path | None = None,
    jobs: int = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PrepareResult:
    """Turn sonar images into a prepared folder of labelled snapshots.

    The folder has TFRecord shards, `manifest.json` and `skipped.csv`; `data_prep.labelled` reads it. The
    result does not depend on `jobs`. What cannot be used is left out and reported; the rest is prepared.

    Args:
        images: without annotations, a folder with a subfolder of snapshots for each class; with annotations,
            a folder of full images (PNG, JPEG, WebP, BMP, TIFF, XTF).
        out: folder to write; it appears when complete.
        settings: size, normalisation, backgrounds, groups, splits.
        annotations: CSV file with the columns image, x, y, w, h, class, or folder of Pascal VOC files, YOLO
            files or masks; see `data_prep.sonar_sources.find_annotated_images`.
        jobs: number of processes.
        overwrite: replace `out` if it was written by an earlier run.
        progress: called after each file.

    Returns:
        the manifest and what was left out.

    Raises:
        InputError: no image can be used, there are fewer than two classes, the splits cannot be made, or
            `out` exists or cannot be written.

    Example:
        >>> result = prepare_sonar(Path("snapshots"), Path("out"))  # doctest: +SKIP
        >>> result.manifest.class_names, result.manifest.num_examples  # doctest: +SKIP
        (('background', 'mine', 'other'), 397)
    """
    settings = settings or SonarPrepareSettings()
    check_destination(out, (images, *([annotations] if annotations else [])), overwrite=overwrite)
    in_folders = int(annotations is None)
    train, test = _read_list(settings.train_list, in_folders), _read_list(settings.test_list, in_folders)
    plan = plan_snapshots(images, annotations, settings, jobs=jobs, progress=progress)
    skipped = list(plan.skipped)
    with atomic_folder(out, overwrite=overwrite) as folder:
        results = run_in_rounds(
            "Cutting snapshots",
            prepare_source,
            plan.requests,
            (settings, plan.class_names),
            jobs=jobs,
            progress=progress,
        )
        good = without_skipped((result for _, result in results), skipped)
        stored = _write((snapshot for some in good for snapshot in some), folder, settings)
        require_good(stored, "image", images, skipped)
        labelled = [
            LabelledName(facts.name, facts.source, plan.groups[facts.source], facts.label)
            for facts, _ in stored
        ]
        assigned = assign_labelled(labelled, settings, train, test)
        write_skipped(folder, skipped)
        manifest = _manifest(stored, assigned, plan, settings, len(skipped), folder)
        write_manifest(folder, manifest)
    return PrepareResult(manifest, tuple(skipped), one_sided_classes(manifest))


def prepare_source(
    request: SnapshotRequest, settings: SonarPrepareSettings, class_names: Sequence[str]
) -> list[_PreparedSnapshot] | Skipped:
    """Cut, resize and normalise the snapshots of one image, or say why it cannot be used."""
    snapshots = cut_snapshots(request, settings)
    if isinstance(snapshots, Skipped):
        return snapshots
    if not snapshots:  # an image without an object, and without room for a place of the background
        return []
    pieces = [snapshot.levels for snapshot in snapshots]
    images = prepare_snapshots(pieces, settings.size, settings.normalisation)
    return [
        _PreparedSnapshot(
            _Facts(
                name=snapshot.name,
                source=request.surveyed.source.name,
                label=class_names.index(snapshot.class_name),
                height=snapshot.levels.shape[0],
                width=snapshot.levels.shape[1],
            ),
            image,
        )
        for snapshot, image in zip(snapshots, images, strict=True)
    ]


def _read_list(path: Path | None, folders: int) -> tuple[str, ...] | None:
    if path is None:
        return None
    return tuple(source_name(name, folders=folders) for name in read_name_list(path, folders=folders))


def _write(
    snapshots: Iterator[_PreparedSnapshot], folder: Path, settings: SonarPrepareSettings
) -> list[tuple[_Facts, "Position"]]:
    # Workers do without TensorFlow.
    from data_prep.labelled import record_features  # noqa: PLC0415
    from data_prep.shards import write_shards  # noqa: PLC0415

    records = ((s.facts, record_features(s.facts.name, s.image, s.facts.label)) for s in snapshots)
    return write_shards(folder, records, examples_per_shard=settings.examples_per_shard)


def _manifest(
    stored: Sequence[tuple[_Facts, "Position"]],
    assigned: dict[str, Assignment],
    plan: SnapshotPlan,
    settings: SonarPrepareSettings,
    num_skipped: int,
    folder: Path,
) -> SonarManifest:
    examples = tuple(
        LabelledExample(
            name=facts.name,
            label=facts.label,
            height=facts.height,
            width=facts.width,
            **asdict(position),
            **asdict(assigned[facts.name]),
        )
        for facts, position in sorted(stored, key=lambda entry: entry[0].name)
        if facts.name in assigned
    )
    return SonarManifest(
        class_names=plan.class_names,
        size=settings.size,
        num_folds=settings.folds,
        settings=settings.model_dump(mode="json"),
        num_examples=len(examples),
        num_skipped=num_skipped,
        examples=examples,
        sha256=checksums(folder, (position.shard for _, position in stored)),
    )
