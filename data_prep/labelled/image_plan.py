"""Which images can be read, which classes there are, and what belongs together."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError, Skipped
from data_prep.files.class_folders import class_folder_names, first_reasons
from data_prep.files.depth import find_levels, read_at_levels
from data_prep.files.fitting import fit_image, mostly_cut_off
from data_prep.files.identical import pixel_digest, require_different
from data_prep.files.image_settings import KeptLevels
from data_prep.files.kinds import is_grey
from data_prep.files.split_folders import split_note
from data_prep.labelled.examples import ExampleFacts, PreparedExample
from data_prep.labelled.image_settings import ImagePrepareSettings
from data_prep.labelled.image_sources import ImageSource, find_images
from data_prep.labelled.near_duplicates import (
    LEAST_CORRELATION,
    contradicted,
    contradicting_pairs,
    difference_hashes,
    duplicate_pairs,
    small_grey,
    split_by_near_duplicates,
)
from data_prep.labelled.preparing import LabelledPlan
from data_prep.labelled.surveying import survey_images
from data_prep.prepared.preparing import Progress, require_good
from data_prep.prepared.workers import Workers
from data_prep.splits.divide import given_split, read_lists, read_name_list
from data_prep.splits.groups import consecutive_groups, joined_groups, settings_groups
from data_prep.splits.settings import DUPLICATE_DISTANCE

_FEWEST = 5  # images of a class, and of the others, whose colours say something
_GIVEN_AWAY = 0.8  # by so much more often one of them is grey
_ALL_FOLDERS = 10_000  # of a path belong to the name, where a table gives paths


@dataclass(frozen=True)
class SurveyedImage:
    """What must be known of all images before the first one is stored.

    Attributes:
        source: The file.
        size: Height and width in pixels, upright.
        digest: Digest of the pixels: equal for equal images, whatever their files.
        hashes: bool [4, 64], as `data_prep.labelled.near_duplicates.difference_hashes`.
        grey: float32 [16, 16], as `data_prep.labelled.near_duplicates.small_grey`.
        is_grey: Whether it has no colours.
        complaints: None; a whole image can be used or not.
    """

    source: ImageSource
    size: tuple[int, int]
    digest: bytes
    hashes: npt.NDArray[np.bool_]
    grey: npt.NDArray[np.float32]
    is_grey: bool
    complaints: tuple[Skipped, ...] = ()


@dataclass(frozen=True)
class ImagePlan:
    """What to prepare, and what a person should know of it.

    Attributes:
        labelled: Images, classes and groups.
        levels: Levels that become 0 and 255 in images of more than 8 bits per sample; None without any.
        notes: Whole sentences about the images.
    """

    labelled: LabelledPlan[SurveyedImage]
    levels: KeptLevels | None
    notes: tuple[str, ...]


def plan_images(
    images: Path,
    table: Path | None,
    settings: ImagePrepareSettings,
    *,
    jobs: Workers,
    progress: Progress | None,
    measured: tuple[Sequence[ImageSource], Sequence[Skipped]] | None = None,
) -> ImagePlan:
    """Read all images once and decide what belongs together.

    Args:
        images: Folder of class folders, or the folder from which the paths of a table go.
        table: CSV file of images and classes; see `data_prep.labelled.image_sources.find_images`.
        settings: Settings of `prepare`.
        jobs: Number of processes, or a cluster.
        progress: Function that is called after each image.
        measured: Images of a table of numbers or of several labels, with ranges or rarest labels for
            classes, by which they are divided, and what of it cannot be used; None finds images with classes.

    Raises:
        InputError: No image can be used, there is only one class, or the split is given twice.
    """
    lists = read_lists(settings.train_list, settings.test_list, lambda path: _read_list(path, table))
    judged_alone = settings.test_fraction == 1
    sources, unmatched = measured or find_images(images, table, judged_alone=judged_alone)
    require_good(sources, "image", images, unmatched)
    sides = {source.name: source.split for source in sources}
    train, test = given_split(sides, settings, lists, table or images)
    names = [source.name for source in sources]
    # They may fail: before the long part.
    groupings = settings_groups(names, settings)
    if sources[0].group is not None:
        groupings.append({source.name: source.group or "" for source in sources})
    if settings.consecutive > 1:
        groupings.append(consecutive_groups(names, settings.consecutive))
    groupings = groupings or [{name: name for name in names}]  # one that is alone keeps its names
    found = find_levels([source.path for source in sources], settings.levels)
    surveyed, skipped = survey_images(
        images,
        sources,
        survey_image,
        (found.range,),
        unmatched,
        jobs=jobs,
        progress=progress,
        file_of=lambda source: source.path,
    )
    require_different([one.digest for one in surveyed], images)
    empty = images if table is None and judged_alone else None
    classes = _classes(surveyed, empty, getattr(settings, "classes", None))
    if len(classes) < 2 and measured is None:
        raise InputError(
            f"{images}: only the class {classes[0]!r} has images that can be read. Expected two classes at "
            "least. A folder of test images alone (--test-fraction 1) may add the others as empty folders or "
            f"by --set classes='[{classes[0]}, other]'.{first_reasons(skipped)}"
        )
    is_split = train is not None or test is not None
    distance = settings.searched_distance
    is_divided = is_split or (sources[0].group is not None and not settings.keep_split)
    if settings.duplicate_distance is None and is_divided:
        distance = -1
    pairs = _alike(surveyed, distance, equal=not is_split)
    # A split that is given stays as it is, but what it tears is said.
    looked_for = DUPLICATE_DISTANCE if settings.duplicate_distance is None and is_split else distance
    alike = _alike(surveyed, looked_for, equal=True) if is_split else pairs
    named = [(one.source.name, one.source.class_name) for one in surveyed]
    plan = LabelledPlan(
        sources=tuple(surveyed),
        class_names=classes,
        groups=joined_groups([one.source.name for one in surveyed], groupings, pairs if len(pairs) else None),
        skipped=tuple(skipped),
        train=train,
        test=test,
        contradictions=() if measured else contradicting_pairs(named, alike),
        is_compared=True,
        may_lack_classes=measured is not None,
    )
    split_notes = () if table else split_note(images)
    of_classes = (
        *_contradictions(surveyed),
        *contradicted(contradicting_pairs(named, _differing(surveyed, alike))),
        *_told_by_colours(surveyed),
    )
    notes = (
        *found.notes,
        *split_notes,
        *(() if measured else of_classes),
        *split_by_near_duplicates([name for name, _ in named], alike, train, test),
        *_enlargements(surveyed, settings),
        *mostly_cut_off({one.source.name: one.size for one in surveyed}, settings.size, settings.fit),
    )
    return ImagePlan(plan, found.range, notes)


def _told_by_colours(surveyed: Sequence[SurveyedImage]) -> tuple[str, ...]:
    """Return a sentence about a class that its images' being grey, or not, gives away; none without."""
    sizes = Counter(one.source.class_name for one in surveyed)
    greys = Counter(one.source.class_name for one in surveyed if one.is_grey)
    for name, size in sizes.items():
        others, grey_others = sizes.total() - size, greys.total() - greys[name]
        if min(size, others) >= _FEWEST and abs(greys[name] / size - grey_others / others) >= _GIVEN_AWAY:
            note = (
                f"{greys[name]} of {size} images of {name} are grey, and {grey_others} of {others} of the "
                "other classes: a model can tell them by that alone. Unless colours belong to the classes, "
                "convert all images to grey."
            )
            return (note,)
    return ()


def survey_image(source: ImageSource, levels: KeptLevels | None) -> SurveyedImage | Skipped:
    """Read one image, with a range of deep levels, or say why it cannot be used."""
    try:
        image = read_at_levels(source.path, levels)
    except InputError as error:
        return Skipped(source.path, str(error))
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32)
    size = (image.shape[0], image.shape[1])
    hashes, small = difference_hashes(grey), small_grey(grey)
    return SurveyedImage(source, size, pixel_digest(image), hashes, small, is_grey(image))


def prepare_image(
    surveyed: SurveyedImage,
    settings: ImagePrepareSettings,
    class_names: Sequence[str],
    *,
    levels: KeptLevels | None = None,
) -> list[PreparedExample] | Skipped:
    """Bring one image to the prepared size, or say why it cannot be used.

    Args:
        surveyed: The file, which could be read a moment ago.
        settings: Settings of `prepare`.
        class_names: Names of the classes, in the order of the labels.
        levels: Levels that become 0 and 255 in images of more than 8 bits per sample.
    """
    source = surveyed.source
    try:
        image = read_at_levels(source.path, levels)
    except InputError as error:
        return Skipped(source.path, str(error))
    facts = ExampleFacts(
        name=source.name,
        source=source.name,
        label=class_names.index(source.class_name),
        height=image.shape[0],
        width=image.shape[1],
        others={"digest": surveyed.digest.hex()}
        | ({} if source.value is None else {"value": source.value})
        | ({"labels": source.labels} if source.labels else {}),
    )
    return [PreparedExample(facts, fit_image(image, settings.size, settings.fit))]


def _read_list(path: Path, table: Path | None) -> tuple[str, ...]:
    return read_name_list(path, folders=1 if table is None else _ALL_FOLDERS)


def _classes(
    surveyed: Sequence[SurveyedImage], folder: Path | None, wanted: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the names of the classes: those that occur, those of a folder's class folders, or those set."""
    found = {one.source.class_name for one in surveyed}
    if wanted is None:
        return tuple(sorted(found | (set() if folder is None else class_folder_names(folder))))
    unknown = sorted(found - set(wanted))
    if unknown:
        named = ", ".join(map(repr, unknown))
        raise InputError(
            f"classes: the images also show {named}. Expected all classes that occur. "
            "Add them, or leave the setting out."
        )
    return tuple(sorted(set(wanted)))


def _alike(surveyed: Sequence[SurveyedImage], distance: int, *, equal: bool) -> npt.NDArray[np.int64]:
    """Return pairs of images that are near-duplicates, and where wanted those that are equal."""
    pairs: npt.NDArray[np.int64] = np.empty((0, 2), np.int64)
    if distance >= 0:
        pairs = duplicate_pairs(
            np.stack([one.hashes for one in surveyed]),
            distance,
            np.stack([one.grey for one in surveyed]),
            least_correlation=LEAST_CORRELATION,
        )
    if not equal:
        return pairs
    same = [(copies[0], copy) for copies in _copies(surveyed) for copy in copies[1:]]
    return np.concatenate([pairs, np.array(same, np.int64).reshape(-1, 2)])


def _copies(surveyed: Sequence[SurveyedImage]) -> list[list[int]]:
    """Return the numbers of images with equal pixels, for each image that is there more than once."""
    copies: dict[bytes, list[int]] = defaultdict(list)
    for number, one in enumerate(surveyed):
        copies[one.digest].append(number)
    return [numbers for numbers in copies.values() if len(numbers) > 1]


def _contradictions(surveyed: Sequence[SurveyedImage]) -> list[str]:
    """Say which images are there in more than one class."""
    torn = [
        [surveyed[number].source for number in numbers]
        for numbers in _copies(surveyed)
        if len({surveyed[number].source.class_name for number in numbers}) > 1
    ]
    if not torn:
        return []
    shown = "; ".join(
        " and ".join(f"{source.name} ({source.class_name})" for source in copies[:3]) for copies in torn[:5]
    )
    note = (
        f"{len(torn)} images are there more than once with different classes: {shown}. No model can learn "
        "both: keep the right one."
    )
    return [note]


def _differing(surveyed: Sequence[SurveyedImage], alike: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the pairs that are alike but not equal; another note names the equal ones."""
    unequal = [surveyed[one].digest != surveyed[other].digest for one, other in alike]
    return alike[np.array(unequal, bool)]


def _enlargements(surveyed: Sequence[SurveyedImage], settings: ImagePrepareSettings) -> list[str]:
    """Say how many images have fewer pixels than they get."""
    rows, columns = settings.size
    small = sum(one.size[0] < rows or one.size[1] < columns for one in surveyed)
    if small <= len(surveyed) // 2:
        return []
    height, width = np.median([one.size for one in surveyed], axis=0).astype(int).tolist()
    note = (
        f"{small} of {len(surveyed)} images are smaller than {rows} x {columns} (the median is {height} x "
        f"{width}) and were enlarged, which adds no detail. A smaller --size trains faster."
    )
    return [note]
