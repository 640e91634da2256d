"""How labelled examples are grouped and divided; settings load without the code that uses them."""

import re
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

DUPLICATE_DISTANCE = 6
"""Distance in bits up to which files are near-duplicates, unless settings say otherwise."""

LARGEST_SEED: Final = 2**32 - 1
"""Largest seed that every library takes."""

Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
"""A seed of settings; the field says of what."""

SPLIT_OPTIONS: Final[dict[str, tuple[str, str]]] = {
    "folds": ("", "Number of folds for cross-validation."),
    "group_pattern": (
        "REGEX",
        "Names that agree in its first group stay in one part, e.g. of one patient, dish or survey line.",
    ),
    "group_list": ("", "CSV with the columns file and group, to keep files together."),
    "train_list": ("", "File with one training file a line."),
    "test_list": ("", "File with one test file a line."),
    "keep_split": (
        "",
        "Prepared folder of the same images before some were added; each keeps its side of the split.",
    ),
    "test_fraction": ("", "Share of each class to judge by, without folds and lists; else {default}."),
}
"""Options of `prepare` that are settings of the split, with placeholder and purpose."""


def later_seed(seed: int, number: int) -> int:
    """Return the seed a number of places after another one, of which the largest is followed by 0.

    Example:
        >>> later_seed(3, 1000), later_seed(LARGEST_SEED, 2)
        (1003, 1)
    """
    return (seed + number) % (LARGEST_SEED + 1)


def check_pattern(pattern: str | None) -> str | None:
    """Return a regular expression that a setting gives.

    Raises:
        ValueError: The text is not a regular expression.
    """
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


def require_one_split(folds: int | None, train_list: Path | None, test_list: Path | None) -> None:
    """Refuse settings that divide examples both into folds and by lists.

    Args:
        folds: Number of folds, or None.
        train_list: File of the names to train on, or None.
        test_list: File of the names to test on, or None.

    Raises:
        ValueError: Folds and a list are given.
    """
    if folds is not None and (train_list or test_list):
        raise ValueError("give either folds or lists (train_list, test_list), not both")


class SplitSettings(BaseModel):
    """Settings of `prepare` that all applications with one label for each example share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group_list: Path | None = Field(
        default=None,
        description="CSV file with the columns file and group, and class where files are in class folders: "
        "files of one group stay together in every split.",
    )
    group_pattern: str | None = Field(
        default=None,
        description="Regular expression searched in each file's name (class/name in class folders); files "
        "that agree in its first capture group (its whole match if it has none) stay together, for example "
        "those of one survey line or of one person.",
    )
    folds: int | None = Field(
        default=None, ge=2, description="Number of folds for cross-validation, instead of one fixed split."
    )
    train_list: Path | None = Field(
        default=None,
        description="Text file with one file (class/file in class folders) per line: the training examples. "
        "The others are tested on.",
    )
    test_list: Path | None = Field(
        default=None,
        description="Text file with one file per line: the test examples. The others are trained on; with "
        "both lists, they are left out.",
    )
    keep_split: Path | None = Field(
        default=None,
        description="Folder that `prepare` wrote before images were added: each of its examples stays on its "
        "side of the split, new ones that are grouped with them or look nearly the same join them, and other "
        "new ones are divided. Its folds are kept, and its test_fraction where none is given.",
    )
    test_fraction: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of each class to test on where neither lists nor folds are given; 0 puts all into "
        "training, 1 all into the test.",
    )
    seed: Seed = Field(default=0, description="Seed of the split.")
    examples_per_shard: int = Field(
        default=4096, ge=1, description="Largest number of examples in one shard file."
    )

    _check_pattern = field_validator("group_pattern")(check_pattern)

    @model_validator(mode="after")
    def _check_split(self) -> Self:
        require_one_split(self.folds, self.train_list, self.test_list)
        if self.keep_split and (self.train_list or self.test_list):
            raise ValueError("give either keep_split or lists (train_list, test_list), not both")
        return self


class ImageSplitSettings(SplitSettings):
    """Settings of the split where each file is an image: neighbours and near-duplicates stay together."""

    consecutive: int = Field(
        default=1,
        ge=1,
        description="So many files that follow each other in the natural order of their names (frame2 "
        "before frame10) stay together, for example frames of a recording.",
    )
    duplicate_distance: int | None = Field(
        default=None,
        ge=-1,
        le=20,
        description="Files whose perceptual hashes of 64 bits differ in at most so many bits, possibly "
        "mirrored, are near-duplicates and stay together; -1 for no such search. Chains stay together too (a "
        "like b, b like c), so that many files in a row may become one large group. Without it, 6 with "
        "keep_split, and where none of consecutive, group_list, group_pattern, train_list and test_list is "
        "given; else no search.",
    )

    @property
    def searched_distance(self) -> int:
        """Distance in bits up to which near-duplicates are searched, -1 for no search."""
        if self.duplicate_distance is not None:
            return self.duplicate_distance
        if self.keep_split:
            return DUPLICATE_DISTANCE
        otherwise = self.group_list or self.group_pattern or self.train_list or self.test_list
        return -1 if otherwise or self.consecutive > 1 else DUPLICATE_DISTANCE
