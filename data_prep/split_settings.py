"""How labelled examples are grouped and divided; settings load without the code that uses them."""

import re
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


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
    test_fraction: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of each class to test on where neither lists nor folds are given; 0 puts all into "
        "training, 1 all into the test.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of the split.")
    examples_per_shard: int = Field(
        default=4096, ge=1, description="Largest number of examples in one shard file."
    )

    @field_validator("group_pattern")
    @classmethod
    def _check_pattern(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return value

    @model_validator(mode="after")
    def _check_split(self) -> Self:
        if self.folds is not None and (self.train_list or self.test_list):
            raise ValueError("give either folds or lists (train_list, test_list), not both")
        return self
