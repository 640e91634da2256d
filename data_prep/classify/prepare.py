"""Prepare images of any subject: class folders, or a table of images, become shards and a manifest."""

from functools import partial
from pathlib import Path
from typing import Any

from data_prep.classify.labels import read_labels
from data_prep.classify.manifest import ClassifyManifest, MultilabelManifest, VoteManifest
from data_prep.classify.settings import ClassifyPrepareSettings
from data_prep.classify.votes import VoteTable, read_votes
from data_prep.errors import InputError
from data_prep.labelled.image_plan import plan_images, prepare_image
from data_prep.labelled.preparing import PrepareResult, prepare_labelled
from data_prep.prepared.manifest import check_destination
from data_prep.prepared.preparing import Progress
from data_prep.prepared.workers import Workers


def prepare_classify(
    images: Path,
    out: Path,
    settings: ClassifyPrepareSettings | None = None,
    *,
    table: Path | None = None,
    jobs: Workers = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PrepareResult[ClassifyManifest | MultilabelManifest | VoteManifest]:
    """Turn images with one class, or several yes/no labels, each into a prepared folder.

    The folder has TFRecord shards, `manifest.json` and `skipped.csv`; `data_prep.labelled.dataset` reads it.
    The result does not depend on `jobs`. What cannot be used is left out and reported; the rest is prepared.

    Args:
        images: Folder with a subfolder of images for each class; with a table, the folder from which its
            paths go.
        out: Folder to write; it appears when complete.
        settings: Settings of size, groups and splits.
        table: CSV file with the columns image and class, and perhaps group (images of one group stay on one
            side of every split) and split (train or test). Several columns of 0, 1 and empty cells in the
            place of class are labels, see `data_prep.classify.labels.read_labels`; with the setting
            `votes` it is read by `data_prep.classify.votes.read_votes`.
        jobs: Number of processes, or a cluster.
        overwrite: Whether to replace `out`, if it was written by an earlier run.
        progress: Function that is called after each file.

    Returns:
        The manifest and what was left out.

    Raises:
        InputError: No image can be used, there are fewer than two classes, the splits cannot be made, or
            `out` exists or cannot be written.

    Example:
        >>> result = prepare_classify(Path("flowers"), Path("prepared"))  # doctest: +SKIP
        >>> result.manifest.class_names, result.manifest.num_examples  # doctest: +SKIP
        (('daisy', 'rose'), 412)
    """
    settings = settings or ClassifyPrepareSettings()
    check_destination(out, (images, *([table] if table else [])), overwrite=overwrite)
    labels = votes = None
    if settings.votes:
        votes = _read_votes(images, table, settings)
    elif table is not None:
        labels = read_labels(images, table, judged_alone=settings.test_fraction == 1)
    if labels is not None and settings.classes is not None:
        raise InputError("classes: the table has several labels an image and no classes. Leave it out.")
    read = votes or labels
    found = None if read is None else (read.sources, read.skipped)
    classes = settings.classes if votes is None else votes.class_names
    of_images = settings.model_copy(update={"classes": classes})
    plan = plan_images(images, table, of_images, jobs=jobs, progress=progress, measured=found)

    def make_manifest(fields: dict[str, Any]) -> ClassifyManifest | MultilabelManifest | VoteManifest:
        notes = (*(() if labels is None else labels.notes), *plan.notes)
        shared = {"size": settings.size, "levels": plan.levels, "notes": notes, **fields}
        if votes is not None:
            return VoteManifest(**shared)
        return (
            ClassifyManifest(**shared)
            if labels is None
            else MultilabelManifest(label_names=labels.names, **shared)
        )

    return prepare_labelled(
        plan.labelled,
        settings,
        out,
        stage="Resizing images",
        what="image",
        origin=images,
        prepare_source=partial(prepare_image, levels=plan.levels),
        make_manifest=make_manifest,
        file_of=lambda image: image.source.path,
        jobs=jobs,
        overwrite=overwrite,
        progress=progress,
    )


def _read_votes(images: Path, table: Path | None, settings: ClassifyPrepareSettings) -> VoteTable:
    """Return the votes of a table.

    Raises:
        InputError: There is no table.
    """
    if table is None:
        raise InputError("votes: without --table there are no votes. Give a table of them, or leave it out.")
    return read_votes(images, table, settings.classes or ())
