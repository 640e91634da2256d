"""Patches of tissue as pictures to label: each in its surroundings, outlined.

The pictures lie in the folder of the labels, under the names that `histopathology prepare` gives patches
(image/row_column), so that it takes `labels.csv`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from data_prep.errors import InputError, Skipped
from data_prep.files.images import write_picture
from data_prep.files.tables import read_table, table_number
from data_prep.histopathology.labels import named_files
from data_prep.histopathology.manifest import HistopathologyManifest
from data_prep.histopathology.patches import PatchPlace
from data_prep.histopathology.settings import HistopathologyPrepareSettings
from data_prep.histopathology.slides import TISSUE_SUFFIXES, Slide, open_slide
from data_prep.prepared.manifest import load_manifest
from data_prep.splits.groups import joined_groups
from pipelines.bundles.prediction_lines import probability_column
from pipelines.bundles.sources import unique_sources
from pipelines.label.pool import Pool, PoolImage, given_groupings
from pipelines.label.reviewing import (
    keep_what_pictures_show,
    like_prepared,
    predicted_classes,
    predicted_files,
    predicted_folder,
    reason_of,
    referred_rows,
    require_other_folder,
)
from pipelines.label.settings import LabelSettings

_PATCHES = "patches"
"""Folder of the tables that `histopathology predict` writes, and in the folder of labels of the pictures."""
_OF_IMAGE = 20
"""Patches of an image that are asked for, those of largest entropy."""
PATCH_SIDE: Final = 224
"""Longest side in pixels of a patch, whose picture is twice as large."""
BEYOND: Final = 200
"""Level of what is beyond an image."""


def has_patches(predictions: Path) -> bool:
    """Return whether predictions are of tissue: they have tables of patches."""
    return (predictions / _PATCHES).is_dir()


def tissue_command(images: Path, prepared: Path | None, out: Path, *options: str) -> tuple[str, ...]:
    """Return the words of the command that takes labels of tissue, which follow them.

    Args:
        images: Folder of the images.
        prepared: Folder whose settings and split are kept, in a file of the folder of labels; None for none.
        out: Folder of the labels.
        options: Further options.

    Raises:
        InputError: The prepared folder is damaged or knows survival times, or the file cannot be written.
    """
    given = ("--set", "patient_column=group", *options)
    if prepared is not None:
        former = _without_survival(prepared)
        changed = {
            "file_column": "image",
            "label_column": "class",
            "patient_column": "group",
            "positive_class": former.class_names[-1],  # the second of mask_classes need not be last by name
        }
        settings = {**former.settings, **changed}
        given = like_prepared(prepared, HistopathologyPrepareSettings, settings, out)
    return ("histopathology", "prepare", "--images", str(images), *given, "--labels")


def _without_survival(prepared: Path) -> HistopathologyManifest:
    """Return the manifest of a prepared folder all of whose facts a table of labels can hold."""
    manifest = load_manifest(prepared, HistopathologyManifest)
    if manifest.has_survival:
        raise InputError(
            f"{prepared}: has months and event of each patient, which labels.csv would lose. Expected a "
            "folder without survival times. Correct the table that it was prepared with instead."
        )
    return manifest


def referred_patches(predictions: Path, images: Path | None, out: Path, settings: LabelSettings) -> Pool:
    """Return the patches of largest entropy of the images that a model left to a person, by turns.

    Args:
        predictions: Folder that `histopathology predict` wrote.
        images: Folder of the images; None for the one that predictions were made of.
        out: Folder of the labels, which gets the pictures.
        settings: Of `label`; they may say which images are of one group.

    Raises:
        InputError: A table or an image cannot be read, or nothing was referred.
    """
    folder = images or predicted_folder(predictions)
    require_other_folder(out, folder)
    files, skipped = named_files(folder, TISSUE_SUFFIXES, leave_out=out)
    names = {path.relative_to(folder).as_posix(): name for name, path in files.items()}
    classes = predicted_classes(predictions)
    columns = ("row", "column", "height", "width", "label", "predictive_entropy")
    groupings = given_groupings(list(files), settings)
    groups = joined_groups(list(files), groupings or [{name: name for name in files}])
    tissue = [path for path in predicted_files(predictions) if path.suffix.lower() in TISSUE_SUFFIXES]
    stems = {source.path: source.stem for source in unique_sources(list(dict.fromkeys(tissue)))}
    wanted: dict[str, tuple[list[PatchPlace], list[str]]] = {}
    for file, row in referred_rows(predictions, list(names), folder).items():
        table = predictions / _PATCHES / f"{stems[Path(row['file'])]}.csv"
        patches = list(read_table(table, (*columns, *map(probability_column, classes))).values())
        patches.sort(key=lambda one: -table_number(one["predictive_entropy"]))
        places = [
            PatchPlace(*(int(table_number(one[name])) for name in columns[:4])) for one in patches[:_OF_IMAGE]
        ]
        reasons = [reason_of(one | {"unfamiliar": row.get("unfamiliar", "")}) for one in patches]
        if places:
            wanted[names[file]] = places, reasons
    if not wanted:
        raise InputError(
            f"{predictions / _PATCHES}: the tables of the referred images have no rows. Expected their "
            "patches. Run `histopathology predict` again."
        )
    _keep_sizes(files, {name: places[0] for name, (places, _) in wanted.items()}, out)
    found: list[tuple[int, PoolImage]] = []
    for name, (places, reasons) in wanted.items():
        shown = _shown_patches(files[name], name, places, out, skipped)
        found += [
            (turn, replace(one, group=groups[name], reason=reasons[turn])) for turn, one in enumerate(shown)
        ]
    found.sort(key=lambda one: one[0])
    sizes = {(place.height, place.width) for places, _ in wanted.values() for place in places}
    height, width = next(iter(sizes))
    size = ("--patch-size", str(height)) if len(sizes) == 1 and height == width else ()
    pool = Pool(
        _crop(out, ""), tuple(one for _, one in found), classes, purpose="referred", skipped=tuple(skipped)
    )
    return replace(pool, prepare=tissue_command(folder, None, out, *size), seen_share=(0.5, 0.5))


def prepared_patches(prepared: Path, images: Path | None, out: Path) -> Pool:
    """Return the patches of a prepared folder with their labels, which are looked at again.

    Args:
        prepared: Folder that `histopathology prepare` wrote.
        images: Folder of the images that were prepared.
        out: Folder of the labels, which gets the pictures.

    Raises:
        InputError: The folder is damaged, or an image is not there.
    """
    if images is None:
        raise InputError(f"{prepared}: name what was prepared: gpimaging label IMAGES --from {prepared}.")
    manifest = _without_survival(prepared)
    files, skipped = named_files(images, TISSUE_SUFFIXES, leave_out=out)
    found: list[PoolImage] = []
    first = {one.source: PatchPlace(one.row, one.column, one.height, one.width) for one in manifest.examples}
    for source in first:
        if source not in files:
            raise InputError(
                f"{images}: has no image {source!r}, of which {prepared} was made. Name its folder."
            )
    _keep_sizes(files, first, out)
    for source, some in groupby(manifest.examples, key=lambda one: one.source):
        examples = list(some)
        places = [PatchPlace(one.row, one.column, one.height, one.width) for one in examples]
        shown = _shown_patches(files[source], source, places, out, skipped)
        found += [
            replace(image, group=one.patient, label=manifest.class_names[one.label], split=one.split or "")
            for image, one in zip(shown, examples, strict=False)
        ]
    pool = Pool(
        _crop(out, ""), tuple(found), manifest.class_names, purpose="suspects", skipped=tuple(skipped)
    )
    return replace(pool, prepare=tissue_command(images, prepared, out), seen_share=(0.5, 0.5))


def _keep_sizes(files: Mapping[str, Path], places: Mapping[str, PatchPlace], out: Path) -> None:
    """Keep of each image where it is and the size of its patches, which is one."""
    shown = {name: (str(files[name].resolve()), one.height, one.width) for name, one in places.items()}
    keep_what_pictures_show(out, shown)


def _shown_patches(
    file: Path, name: str, places: Sequence[PatchPlace], out: Path, skipped: list[Skipped]
) -> list[PoolImage]:
    """Write the pictures of an image's patches that are not there yet; return none of a damaged image."""
    pieces = [f"{name}/{place.row:06d}_{place.column:06d}.jpg" for place in places]
    lacking = [number for number, piece in enumerate(pieces) if not _crop(out, piece).exists()]
    try:
        if lacking:
            with open_slide(file) as slide:
                for number in lacking:
                    _write_picture(_crop(out, pieces[number]), slide, places[number])
    except InputError as error:
        skipped.append(Skipped(file, str(error)))
        return []
    return [PoolImage(piece, _crop(out, piece), name) for piece in pieces]


def _write_picture(path: Path, slide: Slide, place: PatchPlace) -> None:
    """Write a patch in the middle of twice its height and width, outlined."""
    row, column = place.row - place.height // 2, place.column - place.width // 2
    top, left = max(row, 0), max(column, 0)
    extent = (
        min(row + 2 * place.height, slide.size[0]) - top,
        min(column + 2 * place.width, slide.size[1]) - left,
    )
    scale = PATCH_SIDE / max(place.height, place.width)
    height, width = (max(1, round(side * scale)) for side in extent)
    inside = slide.read(top, left, extent, (height, width))
    picture = np.full((round(2 * place.height * scale), round(2 * place.width * scale), 3), BEYOND, np.uint8)
    first, before = round((top - row) * scale), round((left - column) * scale)
    part = picture[first : first + height, before : before + width]
    part[...] = inside[: part.shape[0], : part.shape[1]]
    write_outlined(path, picture)


def write_outlined(path: Path, *pictures: NDArray[np.uint8]) -> None:
    """Write pictures side by side, the middle half of each side with a frame around it, black on white.

    Args:
        path: The file, whose folder is made.
        pictures: Of one height, uint8 `[H, W, 3]`; the frames are drawn into them.

    Raises:
        InputError: The file cannot be written.
    """
    for picture in pictures:
        height, width = picture.shape[:2]
        corners = (width // 4 - 2, height // 4 - 2), (width * 3 // 4 + 1, height * 3 // 4 + 1)
        for level, thickness in ((255, 3), (0, 1)):
            cv2.rectangle(picture, *corners, (level,) * 3, thickness)
    write_picture(path, np.hstack(pictures), parameters=(cv2.IMWRITE_JPEG_QUALITY, 95))


def _crop(out: Path, name: str) -> Path:
    return out / _PATCHES / name
