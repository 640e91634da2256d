"""Prepare pedestrian-lane data: a folder of images and a folder of masks become shards and a manifest."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from data_prep.errors import InputError, Skipped
from data_prep.files.atomic import atomic_folder
from data_prep.files.depth import find_levels
from data_prep.files.identical import pixel_digest, require_different, torn_copies
from data_prep.files.image_settings import ImageKinds, KeptLevels
from data_prep.files.kinds import kinds_of
from data_prep.files.orientation import turned_apart
from data_prep.files.pairing import Pair, find_pairs
from data_prep.lane.manifest import LaneExample, LaneManifest
from data_prep.lane.masks import LaneCoding, choose_coding
from data_prep.lane.pairs import PreparedPair, StoredExample, prepare_pair, store_pair, survey_mask
from data_prep.lane.settings import LanePrepareSettings
from data_prep.prepared.manifest import check_destination, write_manifest
from data_prep.prepared.preparing import (
    Progress,
    checksums,
    not_found,
    require_good,
    run_in_rounds,
    without_skipped,
    write_skipped,
)
from data_prep.prepared.workers import Workers
from data_prep.splits.divide import (
    Assignment,
    assign_folds,
    assign_fraction,
    assign_lists,
    group_names,
    nothing_to_judge,
    read_lists,
)

if TYPE_CHECKING:
    from data_prep.prepared.shards import Position

_PAIR = "pair of image and mask"


@dataclass(frozen=True)
class LanePrepareResult:
    """What `prepare_lane` did.

    Attributes:
        manifest: Manifest of the folder that was written.
        skipped: Files that were left out, each with the reason; also in skipped.csv.
        without_lane: Names of examples without a lane pixel at the prepared size. They are kept: an image
            without a lane is a valid example.
        notes: Sentences about the images that a person should know.
    """

    manifest: LaneManifest
    skipped: tuple[Skipped, ...]
    without_lane: tuple[str, ...]
    notes: tuple[str, ...] = ()


def prepare_lane(
    images: Path,
    masks: Path,
    out: Path,
    settings: LanePrepareSettings | None = None,
    *,
    jobs: Workers = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> LanePrepareResult:
    """Turn a folder of images and a folder of masks with the same stems into a prepared folder.

    The folder has TFRecord shards, `manifest.json` and `skipped.csv`; `data_prep.lane.dataset` reads it. The
    result does not depend on `jobs`. A pair that cannot be used is left out and reported; the others are
    prepared.

    Args:
        images: Folder of PNG, JPEG, WebP, BMP, TIFF or DICOM images of any sizes.
        masks: Folder of masks of the same sizes and stems.
        out: Folder to write; it appears when complete.
        settings: Settings of size, mask values and splits.
        jobs: Number of processes, or a cluster.
        overwrite: Whether to replace `out`, if it was written by an earlier run.
        progress: Function that is called after each file.

    Returns:
        The manifest and what was left out.

    Raises:
        InputError: No pair can be used, the mask values are not clear, the splits cannot be made, or `out`
            exists or cannot be written.

    Example:
        >>> settings = LanePrepareSettings(size=(96, 128), lane_values=(3, 4))
        >>> result = prepare_lane(Path("images"), Path("masks"), Path("out"), settings)  # doctest: +SKIP
        >>> result.manifest.num_examples, len(result.skipped)  # doctest: +SKIP
        (367, 0)
    """
    settings = settings or LanePrepareSettings()
    check_destination(out, (images, masks), overwrite=overwrite)
    train, test = read_lists(settings.train_list, settings.test_list)
    pairs, skipped = find_pairs(images, masks)
    found = {pair.name for pair in pairs}
    for list_file, names in ((settings.train_list, train), (settings.test_list, test)):
        skipped += not_found(list_file, names, found, skipped)
    require_good(pairs, _PAIR, images, skipped)
    assignments = _assign([pair.name for pair in pairs], settings, train, test)
    pairs = [pair for pair in pairs if pair.name in assignments]
    with atomic_folder(out, overwrite=overwrite) as folder:
        found_levels = find_levels([pair.image for pair in pairs], settings.levels)
        apart = turned_apart([(pair.image, pair.mask) for pair in pairs], settings.masks_drawn_on)
        pairs, coding = _survey(pairs, masks, settings, skipped, jobs, progress)
        results = run_in_rounds(
            "Preparing pairs",
            prepare_pair,
            pairs,
            (coding, settings.size, settings.masks_drawn_on, found_levels.range),
            jobs=jobs,
            progress=progress,
            file_of=lambda pair: pair.image,
        )
        digests: list[bytes] = []
        good = _with_digests(without_skipped((result for _, result in results), skipped), digests)
        stored = _write(good, folder, settings.examples_per_shard)
        examples = [example for example, _ in stored]
        require_good(examples, _PAIR, masks, skipped)
        _require_lane(examples, masks, settings.size)
        require_different(digests, images)
        assignments = _assign([example.name for example in examples], settings, train, test)
        torn = torn_copies(
            {example.name: digest for example, digest in zip(examples, digests, strict=True)},
            {name: assignment.side for name, assignment in assignments.items()},
        )
        write_skipped(folder, skipped)
        kept = found_levels.range, kinds_of(pair.image for pair in pairs)
        manifest = _manifest(stored, assignments, coding, settings, len(skipped), folder, *kept)
        write_manifest(folder, manifest)
    return LanePrepareResult(
        manifest=manifest,
        skipped=tuple(skipped),
        without_lane=tuple(example.name for example in examples if not example.lane_pixels),
        notes=(*found_levels.notes, *apart, *torn, *nothing_to_judge(manifest)),
    )


def _assign(
    names: Sequence[str],
    settings: LanePrepareSettings,
    train: Sequence[str] | None,
    test: Sequence[str] | None,
) -> dict[str, Assignment]:
    groups = group_names(names, settings.group_pattern)
    if settings.folds is not None:
        return assign_folds(groups, settings.folds, settings.fold_order, settings.seed)
    if train is not None or test is not None:
        return assign_lists(groups, train, test)
    return assign_fraction(groups, settings.test_fraction)


def _survey(
    pairs: Sequence[Pair],
    masks: Path,
    settings: LanePrepareSettings,
    skipped: list[Skipped],
    jobs: Workers,
    progress: Progress | None,
) -> tuple[list[Pair], LaneCoding]:
    """Read the levels of all masks, for the rule needs the set; return the readable pairs and the rule."""
    counts = {}
    readable = []
    for pair, result in run_in_rounds(
        "Reading mask levels",
        survey_mask,
        pairs,
        (),
        jobs=jobs,
        progress=progress,
        file_of=lambda pair: pair.mask,
    ):
        if isinstance(result, Skipped):
            skipped.append(result)
        else:
            readable.append(pair)
            counts[pair.mask.name] = result
    require_good(readable, _PAIR, masks, skipped)
    return readable, choose_coding(masks, counts, settings.lane_values, settings.ignore_values)


def _with_digests(pairs: Iterable[PreparedPair], digests: list[bytes]) -> Iterator[PreparedPair]:
    """Yield the same pairs, and keep a digest of each image."""
    for pair in pairs:
        digests.append(pixel_digest(pair.image))
        yield pair


def _write(
    prepared: Iterator[PreparedPair], folder: Path, examples_per_shard: int
) -> list[tuple[StoredExample, "Position"]]:
    from data_prep.prepared.shards import write_shards  # noqa: PLC0415 - workers do without TensorFlow

    return write_shards(folder, map(store_pair, prepared), examples_per_shard=examples_per_shard)


def _require_lane(examples: Sequence[StoredExample], masks: Path, size: tuple[int, int]) -> None:
    if not any(example.lane_pixels for example in examples):
        names = ", ".join(example.name for example in examples[:5])
        more = f" and {len(examples) - 5} more" if len(examples) > 5 else ""
        raise InputError(
            f"{masks}: none of the {len(examples)} usable masks has a lane pixel ({names}{more}) at the "
            f"prepared size of {size[0]} x {size[1]}. Expected one at least. Correct the files that could "
            "not be used, or prepare at a larger size if lanes are very thin."
        )


def _manifest(
    stored: Sequence[tuple[StoredExample, "Position"]],
    assignments: dict[str, Assignment],
    coding: LaneCoding,
    settings: LanePrepareSettings,
    num_skipped: int,
    folder: Path,
    levels: KeptLevels | None,
    kinds: ImageKinds,
) -> LaneManifest:
    examples = tuple(
        LaneExample(**asdict(entry), **asdict(position), **asdict(assignments[entry.name]))
        for entry, position in stored
    )
    return LaneManifest(
        class_names=("background", "lane"),
        size=settings.size,
        coding=coding,
        levels=levels,
        kinds=kinds,
        num_folds=settings.folds,
        settings=settings.model_dump(mode="json"),
        num_examples=len(examples),
        num_skipped=num_skipped,
        examples=examples,
        sha256=checksums(folder, (example.shard for example in examples)),
    )
