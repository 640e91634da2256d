"""Prepare sonar data: class folders, or full images with annotations, become shards and a manifest."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from data_prep.errors import Skipped
from data_prep.files.image_settings import KeptLevels
from data_prep.labelled.examples import ExampleFacts, PreparedExample
from data_prep.labelled.preparing import PrepareResult, prepare_labelled
from data_prep.prepared.manifest import check_destination
from data_prep.prepared.preparing import Progress
from data_prep.prepared.workers import Workers
from data_prep.sonar.levels import prepare_snapshots
from data_prep.sonar.manifest import SonarManifest
from data_prep.sonar.plan import plan_snapshots
from data_prep.sonar.settings import SonarPrepareSettings
from data_prep.sonar.snapshots import SnapshotRequest, cut_snapshots


def prepare_sonar(
    images: Path,
    out: Path,
    settings: SonarPrepareSettings | None = None,
    *,
    annotations: Path | None = None,
    jobs: Workers = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PrepareResult[SonarManifest]:
    """Turn sonar images into a prepared folder of labelled snapshots.

    The folder has TFRecord shards, `manifest.json` and `skipped.csv`; `data_prep.labelled.dataset` reads it.
    The result does not depend on `jobs`. What cannot be used is left out and reported; the rest is prepared.

    Args:
        images: Without annotations, a folder with a subfolder of snapshots for each class; with annotations,
            a folder of full images (PNG, JPEG, WebP, BMP, TIFF, DICOM, XTF).
        out: Folder to write; it appears when complete.
        settings: Settings of size, normalisation, backgrounds, groups and splits.
        annotations: CSV file with the columns image, x, y, w, h, class, or folder of Pascal VOC files, YOLO
            files or masks; see `data_prep.sonar.sources.find_annotated_images`.
        jobs: Number of processes, or a cluster.
        overwrite: Whether to replace `out`, if it was written by an earlier run.
        progress: Function that is called after each file.

    Returns:
        The manifest and what was left out.

    Raises:
        InputError: No image can be used, there are fewer than two classes, the splits cannot be made, or
            `out` exists or cannot be written.

    Example:
        >>> result = prepare_sonar(Path("snapshots"), Path("out"))  # doctest: +SKIP
        >>> result.manifest.class_names, result.manifest.num_examples  # doctest: +SKIP
        (('background', 'mine', 'other'), 397)
    """
    settings = settings or SonarPrepareSettings()
    check_destination(out, (images, *([annotations] if annotations else [])), overwrite=overwrite)
    plan, range_ = plan_snapshots(images, annotations, settings, jobs=jobs, progress=progress)
    return prepare_labelled(
        plan,
        settings,
        out,
        stage="Cutting snapshots",
        what="image",
        origin=images,
        prepare_source=partial(prepare_source, range_=range_),
        make_manifest=lambda fields: SonarManifest(size=settings.size, levels=range_, **fields),
        file_of=lambda request: request.surveyed.source.image,
        jobs=jobs,
        overwrite=overwrite,
        progress=progress,
    )


def prepare_source(
    request: SnapshotRequest,
    settings: SonarPrepareSettings,
    class_names: Sequence[str],
    range_: KeptLevels | None = None,
) -> list[PreparedExample] | Skipped:
    """Cut, resize and normalise the snapshots of one image, or say why it cannot be used.

    Args:
        request: What to cut out of the image.
        settings: Settings of `prepare`.
        class_names: Names of the classes, in the order of the labels.
        range_: Levels that become 0 and 65535, as for `data_prep.sonar.images.read_sonar`.

    Returns:
        The examples, perhaps none, or why the image cannot be used.
    """
    surveyed, snapshots = request.surveyed, cut_snapshots(request, settings, range_)
    if isinstance(snapshots, Skipped):
        return snapshots
    if not snapshots:  # an image without an object, and without room for a place of the background
        return []
    pieces = [snapshot.levels for snapshot in snapshots]
    images = prepare_snapshots(pieces, settings.size, settings.normalisation)
    return [
        PreparedExample(
            ExampleFacts(
                name=snapshot.name,
                source=surveyed.source.name,
                label=class_names.index(snapshot.class_name),
                height=snapshot.levels.shape[0],
                width=snapshot.levels.shape[1],
                others={"digest": surveyed.digest.hex()} if surveyed.source.class_name else {},
            ),
            image,
        )
        for snapshot, image in zip(snapshots, images, strict=True)
    ]
