"""Which images of tissue there are, whose they are, and what they show: tables, folders, masks."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from data_prep.errors import InputError, Skipped
from data_prep.files.class_folders import class_folder_names, files_by_stem, first_of_each_name
from data_prep.files.entries import MASK_SUFFIXES, walked_folders
from data_prep.files.pairing import without_common_ending
from data_prep.files.split_folders import Side, split_folders
from data_prep.files.tables import CLASS_ALIASES, FILE_ALIASES, read_table, table_number
from data_prep.histopathology.settings import HistopathologyPrepareSettings
from data_prep.histopathology.slides import TISSUE_SUFFIXES
from data_prep.prepared.preparing import require_good

CENSORED, EVENT = "censored", "event"
"""Classes of patches where a table has survival times and no labels."""

_PATCH = re.compile(r"(.+)/(\d{6,})_(\d{6,})")
"""Name of a patch as the manifest has it: image, row and column."""

_EVENTS = dict.fromkeys(("1", "1.0", "true", "yes"), True) | dict.fromkeys(("0", "0.0", "false", "no"), False)


@dataclass(frozen=True)
class TissueImage:
    """An image or slide with what is known of it.

    Attributes:
        name: Path from the images folder on, without the suffix.
        path: The file.
        class_name: Class of all its patches; None where the mask says it, or `patches` do.
        mask: Mask of the positive class.
        patient: Patient whose tissue it is; None where nothing says it.
        months: Time that the patient was observed.
        event: Whether the patient died at that time.
        side: Side of the split that folders such as train and test give.
        patches: Class of each patch that a table names, by its row and column; the others are not used
            unless there is a `class_name`.
    """

    name: str
    path: Path
    class_name: str | None
    mask: Path | None = None
    patient: str | None = None
    months: float | None = None
    event: bool | None = None
    side: Side | None = None
    patches: Mapping[tuple[int, int], str] = field(default_factory=dict)


def find_tissue_images(
    images: Path, labels: Path | None, masks: Path | None, settings: HistopathologyPrepareSettings
) -> tuple[list[TissueImage], list[Skipped]]:
    """List the images of a folder and its subfolders with what is known of them.

    Args:
        images: Folder of images. With neither labels nor masks, its subfolders are the classes.
        labels: CSV file with a row for each image; see `HistopathologyPrepareSettings` for its columns. With
            `months` and `event` it says survival times, and then needs no labels.
        masks: Folder with a mask for each image, under the same name. Images that the labels call negative
            need none.
        settings: Settings of `prepare`.

    Returns:
        The images in the order of their names, and what cannot be used.

    Raises:
        InputError: There is no image, the table lacks a column or contradicts itself.
    """
    files, skipped = named_files(images, TISSUE_SUFFIXES, leave_out=masks)
    if skipped:
        require_good(list(files), "image", images, skipped)
    if not files:
        raise InputError(
            f"{images}: no image found in it or its subfolders. Expected files with a suffix of "
            f"{', '.join(sorted(TISSUE_SUFFIXES))}. Check the path."
        )
    found = [TissueImage(name, path, None) for name, path in files.items()]
    if labels is not None:
        found = _with_rows(found, labels, settings, skipped, labels_needed=masks is None)
    if masks is not None:
        return _with_masks(found, masks, settings, skipped), skipped
    if labels is None:
        found = _with_folders(found, images, settings, skipped)
    return found, skipped


def class_names_of(
    images: Sequence[TissueImage], masks: Path | None, where: Path, settings: HistopathologyPrepareSettings
) -> tuple[str, ...]:
    """Return the names of the classes: those of masks, or all that occur by name, the positive one last.

    Args:
        images: Images with what is known of them.
        masks: Folder of masks, or None where there are none.
        where: File or folder to name in messages.
        settings: Settings of `prepare`.

    Raises:
        InputError: There are fewer than two (except for survival), or the positive class is none of them.
    """
    positive = settings.positive_class
    names = {image.class_name for image in images if image.class_name is not None}
    names.update(*(image.patches.values() for image in images))
    if masks is not None:
        return _check_positive(settings.mask_classes, positive, "the second of mask_classes")
    if has_survival_alone(images):
        return _check_positive((CENSORED, EVENT), positive, EVENT)
    names |= _empty_classes(where, settings) if where.is_dir() else set()
    if len(names) < 2:
        raise InputError(
            f"{where}: only the class {', '.join(names)}. Expected two at least. Add images of another class."
        )
    if positive is not None and positive not in names:
        raise InputError(
            f"{where}: has no class {positive!r}, the positive_class. Expected one of "
            f"{', '.join(sorted(names))}. Correct the setting."
        )
    return tuple(sorted(names, key=lambda name: (name == positive, name)))


def _empty_classes(folder: Path, settings: HistopathologyPrepareSettings) -> set[str]:
    """Return the names of class folders that count even if they are empty: where all is to be judged by."""
    return class_folder_names(folder) if settings.test_fraction == 1 else set()


def has_survival_alone(images: Sequence[TissueImage]) -> bool:
    """Return whether the classes of images only say of whom an event was observed.

    Args:
        images: Images with what is known of them.
    """
    names = {image.class_name for image in images if image.class_name is not None}
    return names <= {CENSORED, EVENT} and images[0].months is not None


def _check_positive(names: tuple[str, str], positive: str | None, expected: str) -> tuple[str, str]:
    if positive not in (None, names[1]):
        raise InputError(
            f"positive_class: found {positive!r}, but the positive class of this data is {names[1]!r}, "
            f"{expected}. Leave positive_class out."
        )
    return names


def named_files(
    folder: Path, suffixes: Iterable[str], *, every_folder: bool = False, leave_out: Path | None = None
) -> tuple[dict[str, Path], list[Skipped]]:
    """Return the visible files of a folder and its subfolders by their paths without suffix, in order.

    Args:
        folder: The folder.
        suffixes: Suffixes of the files, in lower case.
        every_folder: Whether a subfolder that cannot be listed is an error.
        leave_out: Folder that is passed over.

    Returns:
        The files, and what cannot be used.

    Raises:
        InputError: A folder cannot be listed.
    """
    files: list[tuple[str, Path]] = []
    skipped: list[Skipped] = []
    closed = None if every_folder else skipped
    for current, entries in walked_folders(folder, leave_out=leave_out, closed=closed):
        here, several = files_by_stem(entries, frozenset(suffixes))
        skipped += several
        inside = unicodedata.normalize("NFC", current.relative_to(folder).as_posix())
        files += [(stem if inside == "." else f"{inside}/{stem}", path) for stem, path in here.items()]
    return first_of_each_name(files, skipped), skipped


def _with_folders(
    images: Sequence[TissueImage],
    folder: Path,
    settings: HistopathologyPrepareSettings,
    skipped: list[Skipped],
) -> list[TissueImage]:
    """Take the outermost folder of each image for its class, inside those of a given split."""
    found = []
    sides = split_folders(folder)
    for image in images:
        part, _, inside = image.name.partition("/")
        class_name, _, rest = (inside if sides else image.name).partition("/")
        if rest:
            found.append(TissueImage(image.name, image.path, class_name, side=sides.get(part)))
        else:
            reason = (
                f"{image.path}: in no class. Move it into the folder of its class, or give a table of labels."
            )
            skipped.append(Skipped(image.path, reason))
    if not found or len({image.class_name for image in found} | _empty_classes(folder, settings)) < 2:
        raise InputError(
            f"{folder}: fewer than two class folders with images. Expected a subfolder for each class, or a "
            "table of labels (--labels), or masks (--masks)."
        )
    return found


def _with_masks(
    images: Sequence[TissueImage],
    folder: Path,
    settings: HistopathologyPrepareSettings,
    skipped: list[Skipped],
) -> list[TissueImage]:
    # A mask in a folder that cannot be listed would be taken for none, and its image for negative.
    masks, several = named_files(folder, MASK_SUFFIXES, every_folder=True)
    masks = without_common_ending(masks, {image.name for image in images})
    skipped += several
    negative = settings.mask_classes[0]
    found = []
    for image in images:
        mask = masks.get(image.name)
        if mask is None and image.class_name != negative:
            reason = (
                f"{image.path}: no mask {image.name!r} in {folder}. Add the mask, or label the image "
                f"{negative!r} in the table of labels."
            )
            skipped.append(Skipped(image.path, reason))
            continue
        label = None if mask is not None else negative
        found.append(
            TissueImage(image.name, image.path, label, mask, image.patient, image.months, image.event)
        )
    return found


def _with_rows(
    images: Sequence[TissueImage],
    table: Path,
    settings: HistopathologyPrepareSettings,
    skipped: list[Skipped],
    *,
    labels_needed: bool,
) -> list[TissueImage]:
    """Give images the labels, patients and survival times of a table."""
    optional = (settings.label_column, settings.patient_column, "months", "event")
    remedy = "Or name the column that has the files of the images (file_column)."
    aliases = {
        "file": (*FILE_ALIASES, "image"),
        "label": (*CLASS_ALIASES, "class"),
        "patient": ("patient_id",),
    }
    rows = read_table(table, (settings.file_column,), optional, aliases=aliases, remedy=remedy)
    columns = set(next(iter(rows.values()), ()))
    _check_columns(table, columns, settings, labels_needed=labels_needed)
    lines = _lines_by_name(images, rows, table, settings, skipped)
    found = []
    for image in images:
        of_image = lines.get(image.name)
        if of_image is None:
            reason = f"{image.path}: not in {table}. Add a row for it, or remove the image."
            skipped.append(Skipped(image.path, reason))
            continue
        patches = {place: line for place, line in of_image.items() if place is not None}
        if patches and not labels_needed:
            raise InputError(
                f"{table}: names patches such as {rows[min(patches.values())][settings.file_column]!r}, but "
                "the masks say what patches show. Leave the masks out, or these rows."
            )
        line = of_image.get(None, min(of_image.values()))
        row = rows[line]
        try:
            survival = _survival(row, table, line) if "months" in row else (None, None)
        except InputError as error:
            skipped.append(Skipped(image.path, str(error)))
            continue
        labels = {place: rows[one].get(settings.label_column, "") for place, one in patches.items()}
        of_patches = {place: label for place, label in labels.items() if label}
        class_name = row.get(settings.label_column) or None if None in of_image else None
        if settings.label_column not in columns and survival[1] is not None:
            class_name = EVENT if survival[1] else CENSORED
        patient = row.get(settings.patient_column)
        is_unlabelled = not of_patches and (bool(patches) or (class_name is None and labels_needed))
        if is_unlabelled or patient == "":
            lacking = "patient" if patient == "" else "label"
            reason = f"{image.path}: has no {lacking} in {table}. Complete its row, or remove the image."
            skipped.append(Skipped(image.path, reason))
            continue
        instead = "is left out" if class_name is None else f"gets that of its image, {class_name}"
        skipped += [
            Skipped(table, f"{table}, line {line}: the patch has no label, so it {instead}. Complete it.")
            for place, line in patches.items()
            if place not in of_patches
        ]
        known = TissueImage(image.name, image.path, class_name, None, patient, *survival)
        found.append(replace(known, patches=of_patches))
    _check_patients(found, table)
    return found


def _check_columns(
    table: Path, columns: set[str], settings: HistopathologyPrepareSettings, *, labels_needed: bool
) -> None:
    if not columns:
        raise InputError(f"{table}: has no rows. Expected one for each image.")
    survival = {"months", "event"} & columns
    if len(survival) == 1:
        raise InputError(f"{table}: has the column {survival.pop()} alone. Expected both months and event.")
    if labels_needed and not survival and settings.label_column not in columns:
        raise InputError(
            f"{table}: has no column {settings.label_column!r} with the classes of the images. Add it, name "
            "another one (label_column), give masks, or give months and event for survival times."
        )
    grouped = settings.group_list or settings.group_pattern
    if settings.patient_column not in columns and (survival or not grouped):
        raise InputError(
            f"{table}: has no column {settings.patient_column!r}. Expected whose tissue each image shows: "
            "a patient must be on one side of every split. Add it, or name another one (patient_column)"
            + (", or say which images belong together (group_list, group_pattern)." if not survival else ".")
        )


def _lines_by_name(
    images: Sequence[TissueImage],
    rows: Mapping[int, Mapping[str, str]],
    table: Path,
    settings: HistopathologyPrepareSettings,
    skipped: list[Skipped],
) -> dict[str, dict[tuple[int, int] | None, int]]:
    """Return the lines of each image: by row and column of those that name a patch, None for the image."""
    names = {image.name for image in images}
    inside: dict[str, list[str]] = {}
    for name in sorted(names):
        for tail in _tails(name)[1:]:
            inside.setdefault(tail, []).append(name)
    # The table may begin all its paths further out than the images folder, or have plain file names.
    parts = [_image_and_place(_without_suffix(row[settings.file_column]), names) for row in rows.values()]
    before = _folders_before([stem for stem, _ in parts], names)
    lines: dict[str, dict[tuple[int, int] | None, int]] = {}
    for (line, row), (stem, place) in zip(rows.items(), parts, strict=True):
        file = row[settings.file_column]
        inner = stem.removeprefix(before)
        fitting = [inner] if inner in names else inside.get(inner, [])
        if len(fitting) != 1:
            why = (
                f"fits {' and '.join(fitting[:3])}. Give its folder."
                if fitting
                else "is not among the images. Expected paths from the images folder on, or all after the "
                "same folders."
            )
            skipped.append(Skipped(table, f"{table}: names {file!r}, which {why}"))
            continue
        of_image = lines.setdefault(fitting[0], {})
        if _facts(rows[of_image.setdefault(place, line)], settings) != _facts(row, settings):
            raise InputError(
                f"{table}: has two different rows for {fitting[0]!r}. Expected one. Correct the table."
            )
        patients = {rows[one].get(settings.patient_column) for one in of_image.values()}
        if len(patients) > 1:
            raise InputError(
                f"{table}: patches of {fitting[0]!r} are of different patients. Expected one for each image. "
                "Correct the table."
            )
    return lines


def _image_and_place(stem: str, names: Collection[str]) -> tuple[str, tuple[int, int] | None]:
    """Return the image that a path names, and row and column where it names a patch of one."""
    found = _PATCH.fullmatch(stem)
    if found is None or any(tail in names for tail in _tails(stem)):
        return stem, None
    return found[1], (int(found[2]), int(found[3]))


def _folders_before(stems: Sequence[str], names: Collection[str]) -> str:
    """Return the folders, with slash, after which most paths of a table are names; the fewest of several."""
    found = Counter(
        stem.removesuffix(tail) for stem in stems for tail in _tails(stem) if tail in names
    ).most_common()
    return min((before for before, count in found if count == found[0][1]), key=len, default="")


def _facts(row: Mapping[str, str], settings: HistopathologyPrepareSettings) -> dict[str, str]:
    return {column: text for column, text in row.items() if column != settings.file_column}


def _without_suffix(file: str) -> str:
    name = unicodedata.normalize("NFC", file.replace("\\", "/"))
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and f".{suffix.lower()}" in TISSUE_SUFFIXES else name


def _tails(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[start:]) for start in range(len(parts))]


def _survival(row: Mapping[str, str], table: Path, line: int) -> tuple[float, bool]:
    event = _EVENTS.get(row["event"].lower())
    try:
        months = table_number(row["months"])
    except ValueError:
        months = math.nan
    if event is None or not (math.isfinite(months) and months > 0):
        raise InputError(
            f"{table}, line {line}: has months {row['months']!r} and event "
            f"{row['event']!r}; expected a number above 0, and 1 for a patient who died then or 0 for one "
            "who was last seen alive. Correct the row, or remove the image."
        )
    return months, event


def _check_patients(images: Sequence[TissueImage], table: Path) -> None:
    times: dict[str | None, tuple[float | None, bool | None]] = {}
    for image in images:
        if times.setdefault(image.patient, (image.months, image.event)) != (image.months, image.event):
            raise InputError(
                f"{table}: patient {image.patient!r} has different months or events in different rows. "
                "Expected one survival time for each patient. Correct the table."
            )
