"""Settings of `prepare` for cell events; load without the code that uses them."""

from pathlib import Path
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from data_prep.splits.settings import SPLIT_OPTIONS, SplitSettings


class CandidateSettings(BaseModel):
    """Where in a sequence an event may be, and how such a candidate is described."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: float = Field(
        default=0.25,
        gt=0,
        lt=1,
        description="Pixels change where the absolute difference of two consecutive frames is above this "
        "share of the pair's largest one (DFGP paper, section 5.3: a quarter).",
    )
    smallest_area: int = Field(
        default=20,
        ge=1,
        description="Connected changed pixels (8 neighbours) are a candidate from this number on (paper: "
        "20).",
    )
    patch: int = Field(
        default=52,
        ge=16,
        le=512,
        description="Side in pixels of the square around a candidate's centroid (paper: 52).",
    )
    levels: tuple[int, int] | None = Field(
        default=None,
        description="prepare maps these two levels of 16-bit frames to 0 and 255; null takes the percentiles "
        "0.1 and 99.9 of each sequence. It does not change 8-bit frames.",
    )

    @field_validator("levels")
    @classmethod
    def _check_levels(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and not 0 <= value[0] < value[1] <= 65535:
            raise ValueError("expected two levels from 0 to 65535, the lower one first")
        return value


class CellsPrepareSettings(CandidateSettings, SplitSettings):
    """How frame sequences become labelled candidates. Every field has a default."""

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "radius": ("", "Pixels between an event and its candidate at the most; else 26."),
        "window": ("", "Frames between an event and its candidate at the most; else 1."),
        "one_kind": ("NAME", "Take all kinds of events as one class of this name."),
        **SPLIT_OPTIONS,
    }

    radius: float = Field(
        default=26.0,
        gt=0,
        description="Largest distance in pixels of a candidate's centroid from the annotation it is matched "
        "with; half a patch, so that the annotated place is inside it.",
    )
    window: int = Field(
        default=1,
        ge=0,
        description="Largest number of frames between a candidate and the annotation it is matched with.",
    )
    first_frame: int = Field(
        default=0, ge=0, description="Number that the annotations give a sequence's first frame."
    )
    none_name: str = Field(
        default="none", min_length=1, description="Class of the candidates that are no event."
    )
    leave_out_unknown: bool = Field(
        default=False,
        description="Whether `prepare` leaves a candidate out where an annotation names its place and no "
        "kind, because the annotator could not tell it; without the setting, such an annotation is an error.",
    )
    one_kind: str | None = Field(
        default=None,
        min_length=1,
        description="Name of one class that all kinds of events form together (the paper takes mitosis and "
        "apoptosis as one). Without it, each kind is a class.",
    )
    group_list: Path | None = Field(
        default=None,
        description="CSV file with the columns file and group: sequences of one group stay together in every "
        "split.",
    )
    group_pattern: str | None = Field(
        default=None,
        description="Regular expression searched in each sequence's name; sequences that agree in its first "
        "capture group (its whole match if it has none) stay together, for example those of one dish.",
    )
    train_list: Path | None = Field(
        default=None,
        description="Text file with one sequence per line: the training sequences. The others are tested on.",
    )
    test_list: Path | None = Field(
        default=None,
        description="Text file with one sequence per line: the test sequences. The others are trained on; "
        "with both lists, they are left out.",
    )
    test_fraction: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of each class to test on where neither lists nor folds are given (paper: one "
        "sequence trains, another tests); 0 puts all into training, 1 all into the test. A sequence stays on "
        "one side.",
    )

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if self.one_kind == self.none_name:
            raise ValueError("one_kind and none_name are the same; give each its own name")
        return self
