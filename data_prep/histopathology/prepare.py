"""Prepare histopathology data: images or whole slides become patches, their features and a manifest."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError, Skipped
from data_prep.files.orientation import read_mask_of
from data_prep.files.resizing import resize_image
from data_prep.histopathology.features import EXTRACTOR, VIEWS, describe_patch
from data_prep.histopathology.labels import TissueImage
from data_prep.histopathology.manifest import HistopathologyManifest
from data_prep.histopathology.patches import Patch, cut_patches
from data_prep.histopathology.plan import PatchRequest, plan_patches
from data_prep.histopathology.settings import HistopathologyPrepareSettings
from data_prep.labelled.examples import ExampleFacts, PreparedExample
from data_prep.labelled.preparing import PrepareResult, prepare_labelled
from data_prep.prepared.manifest import check_destination
from data_prep.prepared.preparing import Progress
from data_prep.prepared.workers import Workers

_PROPORTIONS = 0.01  # by which sides of a mask may differ from those of its image, relatively


def prepare_histopathology(
    images: Path,
    out: Path,
    settings: HistopathologyPrepareSettings | None = None,
    *,
    labels: Path | None = None,
    masks: Path | None = None,
    jobs: Workers = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PrepareResult[HistopathologyManifest]:
    """Turn images of stained tissue into a prepared folder of labelled patches.

    The folder has TFRecord shards of resized patches, `features.npz` with the views of each patch,
    `manifest.json` and `skipped.csv`; `data_prep.labelled.dataset` and `data_prep.labelled.views` read it.
    The result does not depend on `jobs`. What cannot be used is left out and reported; the rest is prepared.

    Args:
        images: Folder of images or whole slides, with subfolders. With neither labels nor masks, each
            subfolder is a class.
        out: Folder to write; it appears when complete.
        settings: Settings of patches, background, stains, labels and splits.
        labels: CSV file with the columns file, label and patient, or file, months, event and patient. A file
            such as `biopsy/000200_000400` is the patch of an image at that row and column; of an image with
            such rows and none of its own no other patch is used.
        masks: Folder of masks that mark the positive class, under the names of the images; they may be
            smaller than the images.
        jobs: Number of processes, or a cluster.
        overwrite: Whether to replace `out`, if it was written by an earlier run.
        progress: Function that is called after each image, or piece of a slide.

    Returns:
        The manifest and what was left out.

    Raises:
        InputError: No image can be used, there are fewer than two classes, the splits cannot be made, or
            `out` exists or cannot be written.

    Example:
        >>> result = prepare_histopathology(
        ...     Path("images"), Path("out"), labels=Path("labels.csv")
        ... )  # doctest: +SKIP
        >>> result.manifest.class_names, result.manifest.num_examples  # doctest: +SKIP
        (('benign', 'malignant'), 2114)
    """
    settings = settings or HistopathologyPrepareSettings()
    sources = (images, *(path for path in (labels, masks) if path is not None))
    check_destination(out, sources, overwrite=overwrite)
    plan = plan_patches(images, labels, masks, settings)
    return prepare_labelled(
        plan,
        settings,
        out,
        stage="Cutting patches",
        what="image",
        origin=images,
        prepare_source=prepare_source,
        make_manifest=lambda fields: _manifest(settings, fields),
        file_of=lambda request: request.image.path,
        jobs=jobs,
        overwrite=overwrite,
        progress=progress,
        missed=lambda cut: _not_cut({one.image.name: one.image for one in plan.sources}.values(), cut),
    )


def prepare_source(
    request: PatchRequest, settings: HistopathologyPrepareSettings, class_names: Sequence[str]
) -> list[PreparedExample] | Skipped:
    """Cut and describe the patches of one image, or of a piece of it, or say why it cannot be used.

    Args:
        request: What to cut out of the image.
        settings: Settings of `prepare`.
        class_names: Names of the classes, in the order of the labels.

    Returns:
        The examples row by row, none in a piece that is all background; or why the image cannot be used.
    """
    image = request.image
    try:
        mask = None if image.mask is None else _positive(image.path, image.mask, settings)
        examples = []
        for patch in cut_patches(image.path, settings, request.first, request.last):
            class_name = image.patches.get((patch.row, patch.column), image.class_name)
            if class_name is None and mask is None:
                continue  # the table names other patches of this image
            label = class_names.index(class_name) if class_name is not None else 0
            if mask is not None and image.mask is not None:
                label = int(_marked_share(mask, patch, image.mask) >= settings.positive_share)
            examples.append(_prepared(request, patch, label, settings))
        # A piece of a slide may be empty; its last one, without an end, speaks for the others.
        empty = not examples and request.last is None and not _has_patches_before(request, settings)
    except InputError as error:
        return Skipped(image.path, str(error))
    if empty and image.patches:
        row, column = next(iter(image.patches))
        reason = (
            f"{image.path}: none of its {len(image.patches)} labelled patches, such as that at row {row}, "
            f"column {column}, is one that is cut. Prepare with the patch_size, grid and mpp of the labels."
        )
        return Skipped(image.path, reason)
    if empty:
        reason = (
            f"{image.path}: only background: no patch has a share of tissue of {settings.min_tissue}. If it "
            "shows tissue, lower min_tissue or tissue_saturation."
        )
        return Skipped(image.path, reason)
    return examples


def _not_cut(images: Iterable[TissueImage], cut: Collection[str]) -> Iterator[Skipped]:
    """Yield each labelled patch that `prepare` did not cut, where it cut others of the same image."""
    sources = {name.rpartition("/")[0] for name in cut}
    for image in images:
        lost = [place for place in image.patches if _patch_name(image, *place) not in cut]
        for row, column in lost if image.name in sources else ():
            reason = (
                f"{image.path}: the labelled patch at row {row}, column {column} is not cut, like "
                f"{len(lost)} of its {len(image.patches)}: no patch begins there, or it has too little "
                "tissue. Prepare with the patch_size, grid and mpp of the labels, or lower min_tissue."
            )
            yield Skipped(image.path, reason)


def _patch_name(image: TissueImage, row: int, column: int) -> str:
    return f"{image.name}/{row:06d}_{column:06d}"


def _has_patches_before(request: PatchRequest, settings: HistopathologyPrepareSettings) -> bool:
    """Whether the pieces before the last one of a slide have any patch, found by cutting them once more."""
    if request.first == 0:
        return False
    return any(True for _ in cut_patches(request.image.path, settings, 0, request.first))


def _prepared(
    request: PatchRequest, patch: Patch, label: int, settings: HistopathologyPrepareSettings
) -> PreparedExample:
    image = request.image
    facts = ExampleFacts(
        name=_patch_name(image, patch.row, patch.column),
        source=image.name,
        label=label,
        height=patch.height,
        width=patch.width,
        others={
            "source": image.name,
            "row": patch.row,
            "column": patch.column,
            "patient": request.patient,
            "months": image.months,
            "event": image.event,
        },
    )
    return PreparedExample(facts, resize_image(patch.image, settings.size), describe_patch(patch.image))


def _manifest(settings: HistopathologyPrepareSettings, fields: dict[str, Any]) -> HistopathologyManifest:
    return HistopathologyManifest(
        size=settings.size, views=VIEWS, extractor=EXTRACTOR, patches=settings.patches, **fields
    )


def _positive(image: Path, mask: Path, settings: HistopathologyPrepareSettings) -> npt.NDArray[np.bool_]:
    levels = read_mask_of(image, mask, settings.masks_drawn_on)
    return levels != 0 if settings.mask_values is None else np.isin(levels, settings.mask_values)


def _marked_share(mask: npt.NDArray[np.bool_], patch: Patch, path: Path) -> float:
    """Return the share of a patch that a mask, perhaps smaller than the image, marks."""
    scales = [of_mask / of_image for of_mask, of_image in zip(mask.shape, patch.whole, strict=True)]
    if abs(scales[0] / scales[1] - 1) > _PROPORTIONS:
        raise InputError(
            f"{path}: {mask.shape[1]} x {mask.shape[0]} pixels, but its image has {patch.whole[1]} x "
            f"{patch.whole[0]}. Expected the same proportions. Export the mask again."
        )
    top, left = int(patch.row * scales[0]), int(patch.column * scales[1])
    bottom = max(top + 1, round((patch.row + patch.height) * scales[0]))
    right = max(left + 1, round((patch.column + patch.width) * scales[1]))
    return float(mask[top:bottom, left:right].mean())
