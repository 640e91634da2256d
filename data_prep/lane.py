"""Prepare pedestrian-lane data: a folder of images and a folder of masks become shards and a manifest."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from data_prep.atomic import atomic_folder
from data_prep.destination import check_destination
from data_prep.errors import InputError
from data_prep.lane_manifest import LaneExample, LaneManifest
from data_prep.lane_masks import LaneCoding, choose_coding
from data_prep.lane_pairs import PreparedPair, StoredExample, prepare_pair, store_pair, survey_mask
from data_prep.manifest import write_manifest
from data_prep.pairing import Pair, Skipped, find_pairs
from data_prep.preparing import (
    Progress,
    checksums,
    not_found,
    require_good,
    run_in_rounds,
    without_skipped,
    write_skipped,
)
from data_prep.splits import (
    Assignment,
    assign_folds,
    assign_fraction,
    assign_lists,
    group_names,
    read_name_list,
)

if TYPE_CHECKING:
    from data_prep.shards import Position

_PAIR = "pair of image and mask"


class LanePrepareSettings(BaseModel):
    """How images and masks are prepared. Every field has a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: tuple[int, int] = Field(
        default=(306, 306), description="Height and width in pixels to which images and masks are resized."
    )
    lane_values: tuple[int, ...] | None = Field(
        default=None,
        description="Mask values that mean lane. Without them: values above half of the largest in the "
        "set, which then must have no more than two populated levels.",
    )
    ignore_values: tuple[int, ...] = Field(
        default=(), description="Mask values of pixels that are left out of the loss and of the metrics."
    )
    folds: int | None = Field(
        default=None, ge=2, description="Number of folds for cross-validation, instead of one fixed split."
    )
    fold_order: Literal["name", "seed"] = Field(
        default="name",
        description="Folds are contiguous in the order of names, or in an order shuffled by the seed.",
    )
    group_pattern: str | None = Field(
        default=None,
        description="Regular expression searched in each name; examples that agree in its first capture "
        "group (its whole match if it has none) stay together in every split, for example the frames of "
        "one sequence.",
    )
    train_list: Path | None = Field(
        default=None,
        description="Text file with one name per line: the training examples. The others are tested on.",
    )
    test_list: Path | None = Field(
        default=None,
        description="Text file with one name per line: the test examples. The others are trained on; with "
        "both lists, they are left out.",
    )
    test_fraction: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Share of the examples to test on, in contiguous blocks of names, where neither lists "
        "nor folds are given; 0 puts all into training, 1 all into the test.",
    )
    seed: int = Field(default=0, ge=0, description='Seed of the shuffling, with fold_order "seed".')
    examples_per_shard: int = Field(
        default=256, ge=1, description="Largest number of examples in one shard file."
    )

    @field_validator("size")
    @classmethod
    def _check_size(cls, value: tuple[int, int]) -> tuple[int, int]:
        if min(value) < 1 or max(value) > 16_384:
            raise ValueError("height and width must be from 1 to 16384 pixels")
        return value

    @field_validator("group_pattern")
    @classmethod
    def _check_pattern(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.lane_values is not None and not self.lane_values:
            raise ValueError("lane_values is empty; name at least one value or leave the setting out")
        both = set(self.lane_values or ()) & set(self.ignore_values)
        if both:
            raise ValueError(f"values {sorted(both)} are in both lane_values and ignore_values")
        if self.folds is not None and (self.train_list or self.test_list):
            raise ValueError("give either folds or lists (train_list, test_list), not both")
        return self


@dataclass(frozen=True)
class PrepareResult:
    """What `prepare_lane` did.

    Attributes:
        manifest: of the folder that was written.
        skipped: files that were left out, each with the reason; also in skipped.csv.
        without_lane: names of examples without a lane pixel at the prepared size. They are kept: an image
            without a lane is a valid example.
    """

    manifest: LaneManifest
    skipped: tuple[Skipped, ...]
    without_lane: tuple[str, ...]


def prepare_lane(
    images: Path,
    masks: Path,
    out: Path,
    settings: LanePrepareSettings | None = None,
    *,
    jobs: int = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PrepareResult:
    """Turn a folder of images and a folder of masks with the same stems into a prepared folder.

    The folder has TFRecord shards, `manifest.json` and `skipped.csv`; `data_prep.lane_dataset` reads it. The
    result does not depend on `jobs`. A pair that cannot be used is left out and reported; the others are
    prepared.

    Args:
        images: folder of PNG, JPEG, WebP, BMP or TIFF images of any sizes.
        masks: folder of masks of the same sizes and stems.
        out: folder to write; it appears when complete.
        settings: size, mask values, splits.
        jobs: number of processes.
        overwrite: replace `out` if it was written by an earlier run.
        progress: called after each file.

    Returns:
        the manifest and what was left out.

    Raises:
        InputError: no pair can be used, the mask values are not clear, the splits cannot be made, or `out`
            exists or cannot be written.

    Example:
        >>> settings = LanePrepareSettings(size=(96, 128), lane_values=(3, 4))
        >>> result = prepare_lane(Path("images"), Path("masks"), Path("out"), settings)  # doctest: +SKIP
        >>> result.manifest.num_examples, len(result.skipped)  # doctest: +SKIP
        (367, 0)
    """
    settings = settings or LanePrepareSettings()
    check_destination(out, (images, masks), overwrite=overwrite)
    train = read_name_list(settings.train_list) if settings.train_list else None
    test = read_name_list(settings.test_list) if settings.test_list else None
    pairs, skipped = find_pairs(images, masks)
    found = {pair.name for pair in pairs}
    for list_file, names in ((settings.train_list, train), (settings.test_list, test)):
        skipped += not_found(list_file, names, found, skipped)
    require_good(pairs, _PAIR, images, skipped)
    assignments = _assign([pair.name for pair in pairs], settings, train, test)
    pairs = [pair for pair in pairs if pair.name in assignments]
    with atomic_folder(out, overwrite=overwrite) as folder:
        pairs, coding = _survey(pairs, masks, settings, skipped, jobs, progress)
        results = run_in_rounds(
            "Preparing pairs", prepare_pair, pairs, (coding, settings.size), jobs=jobs, progress=progress
        )
        good = without_skipped((result for _, result in results), skipped)
        stored = _write(good, folder, settings.examples_per_shard)
        examples = [example for example, _ in stored]
        require_good(examples, _PAIR, masks, skipped)
        _require_lane(examples, masks, settings.size)
        assignments = _assign([example.name for example in examples], settings, train, test)
        write_skipped(folder, skipped)
        manifest = _manifest(stored, assignments, coding, settings, len(skipped), folder)
        write_manifest(folder, manifest)
    return PrepareResult(
        manifest=manifest,
        skipped=tuple(skipped),
        without_lane=tuple(example.name for example in examples if not example.lane_pixels),
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
    jobs: int,
    progress: Progress | None,
) -> tuple[list[Pair], LaneCoding]:
    """Read the levels of all masks, for the rule needs the set; return the readable pairs and the rule."""
    counts = {}
    readable = []
    for pair, result in run_in_rounds(
        "Reading mask levels", survey_mask, pairs, (), jobs=jobs, progress=progress
    ):
        if isinstance(result, Skipped):
            skipped.append(result)
        else:
            readable.append(pair)
            counts[pair.mask.name] = result
    require_good(readable, _PAIR, masks, skipped)
    return readable, choose_coding(masks, counts, settings.lane_values, settings.ignore_values)


def _write(
    prepared: Iterator[PreparedPair], folder: Path, examples_per_shard: int
) -> list[tuple[StoredExample, "Position"]]:
    from data_prep.shards import write_shards  # noqa: PLC0415 - workers do without TensorFlow

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
) -> LaneManifest:
    examples = tuple(
        LaneExample(**asdict(entry), **asdict(position), **asdict(assignments[entry.name]))
        for entry, position in stored
    )
    return LaneManifest(
        class_names=("background", "lane"),
        size=settings.size,
        coding=coding,
        num_folds=settings.folds,
        settings=settings.model_dump(mode="json"),
        num_examples=len(examples),
        num_skipped=num_skipped,
        examples=examples,
        sha256=checksums(folder, (example.shard for example in examples)),
    )
