"""Settings that decide what predict steps refer; help imports them, so nothing heavy is imported here."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer, model_validator

COSTS_OPTION: Final = (
    "FILE.csv",
    "What each decision costs: a row for each class, a column for each decision; or a row for each label.",
)
"""Option `--costs` of evaluate, export and predict steps."""


class CostSettings(BaseModel):
    """Settings of all steps that decide by costs."""

    costs: Path | None = Field(
        default=None,
        description="Table of what decisions cost, in any unit: a row for each true class, named in the "
        "first column, a column for each class that may be decided, and perhaps one called refer. Of "
        "several labels: a row for each, with the columns label, missed, false_alarm and perhaps refer. The "
        "decision with the least expected cost is taken. null: `predict` takes the costs of the bundle, if "
        "it has any.",
    )


GUARANTEED_THRESHOLD = 0.5
"""Probability above which an evaluation takes something for an event or a lane; guarantees are of that."""

REFERRAL_OPTIONS: Final = {
    "max_error": (
        "SHARE|CLASS=SHARE",
        (
            "Refer predictions until at most this share of the others is wrong, with 95 % confidence, or "
            "until at most this share of a class is kept as another one. Can be repeated."
        ),
    ),
    "refer": ("", "Refer this share of what is like the held-out data, the most uncertain first."),
    "keep_unfamiliar": ("", "Do not refer what is unlike all of the training data."),
}
"""Options of predict steps that decide what is referred."""

CLASS_REFERRAL_OPTIONS: Final = {
    "max_error": REFERRAL_OPTIONS["max_error"],
    "max_false": (
        "CLASS=SHARE",
        "Refer predictions until at most this share of those kept as this class is of another one.",
    ),
    "refer": REFERRAL_OPTIONS["refer"],
    "coverage": ("", "Write a set of classes for each, which holds the true one for this share of them."),
    "keep_unfamiliar": REFERRAL_OPTIONS["keep_unfamiliar"],
    "costs": COSTS_OPTION,
}
"""The same of steps that give each example a class."""


FOLDER_GROUPS: Final = "folder"
"""Value of `by` with which the images of a folder are a group."""

GROUP_REFERRAL_OPTIONS: Final = {
    **CLASS_REFERRAL_OPTIONS,
    "by": (
        "folder|TABLE",
        (
            "Write groups.csv too, with one answer for each patient or place: for the images of a folder, or "
            "for those of a group by a table with the columns image and group. Guarantees are then of groups."
        ),
    ),
}
"""The same of steps that answer for groups of examples, too."""


@dataclass(frozen=True)
class ErrorLimit:
    """The largest share of mistakes that is allowed.

    Attributes:
        share: The share, in (0, 1).
        class_name: The class that it is about; None for all classes.
    """

    share: float
    class_name: str | None = None

    def __str__(self) -> str:
        return f"{self.share:g}" if self.class_name is None else f"{self.class_name}={self.share:g}"


def read_limits(value: Any) -> Any:
    """Return limits as a user writes them, such as `0.02` or `malignant=0.02`, in the form of settings.

    Args:
        value: A number, a text, a mapping of classes to shares, limits, or several of these.

    Raises:
        ValueError: A share is none, or a class is named twice.

    Example:
        >>> [str(limit) for limit in read_limits(["0.05", "malignant=0.02"])]
        ['0.05', 'malignant=0.02']
    """
    if value is None:
        return ()
    if isinstance(value, Mapping):
        value = [f"{name}={share}" for name, share in value.items()]
    several = value if isinstance(value, list | tuple) else (value,)
    limits = tuple(_limit(one) for one in several)
    names = [limit.class_name for limit in limits]
    if len(set(names)) < len(names):
        raise ValueError(f"found {', '.join(map(str, limits))}, expected one share for a class")
    return limits


def _limit(value: Any) -> ErrorLimit:
    if isinstance(value, ErrorLimit):
        return value
    name, is_of_class, text = str(value).rpartition("=")
    try:
        share = float(text)
    except ValueError:
        share = float("nan")
    if not 0 < share < 1 or (is_of_class and not name.strip()):
        raise ValueError(
            f"found {value!s}, expected a share between 0 and 1, as 0.02 for 2 %, or CLASS=SHARE of a class"
        )
    return ErrorLimit(share=share, class_name=name.strip() or None)


Limits = Annotated[
    tuple[ErrorLimit, ...],
    BeforeValidator(read_limits),
    PlainSerializer(lambda limits: [str(limit) for limit in limits]),
]
"""Shares of mistakes that are allowed, of all classes or of single ones."""


class FamiliaritySettings(BaseModel):
    """What is done to unfamiliar inputs."""

    keep_unfamiliar: bool = Field(
        default=False,
        description="Whether to keep inputs unlike all training data, instead of referring them to a person.",
    )


class ReferralSettings(FamiliaritySettings):
    """Settings of all predict steps that predict classes."""

    refer_above: float | None = Field(
        default=None,
        ge=0,
        description="Refer inputs to a person if the entropy of their prediction is above this (nats; for "
        "lanes, the mean over the pixels); null refers none for this reason.",
    )

    max_error: Limits = Field(
        default=(),
        description="Refer predictions until at most this share of the others is wrong, with 95 % "
        "confidence from the held-out data of the training. CLASS=SHARE: until at most this share of the "
        "examples of this class is kept as another class. Several hold together. Without it nothing is "
        "guaranteed.",
    )
    refer: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Refer this share of inputs like the held-out data of the training, the most uncertain "
        "first; null refers none for this reason.",
    )

    @model_validator(mode="after")
    def _check_one_rule(self) -> Self:
        given = [
            name
            for name in ("max_error", "max_false", "refer", "refer_above")
            if getattr(self, name, None) not in {None, ()}
        ]
        if len(given) > 1 and given != ["max_error", "max_false"]:
            raise ValueError(f"{' and '.join(given)} are given together, and each decides what is referred")
        return self


class ClassReferralSettings(CostSettings, ReferralSettings):
    """The same of predict steps that give each example a class."""

    max_false: Limits = Field(
        default=(),
        description="CLASS=SHARE: refer predictions until at most this share of those kept as this class is "
        "of another class, with 95 % confidence. It holds together with max_error.",
    )
    coverage: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Write a set of classes for each input. It contains the true class for this share of "
        "inputs like the held-out data, and of each class with enough held-out data; null writes none.",
    )

    @model_validator(mode="after")
    def _check_classes(self) -> Self:
        for limit in self.max_false:
            if limit.class_name is None:
                raise ValueError(f"max_false {limit} names no class, expected CLASS=SHARE")
        return self


_OF_GROUPS: Final = (
    *("by", "max_error", "max_false", "refer", "refer_above", "coverage", "costs"),
    *("max_width", "tolerance"),
)
"""Settings that are about groups where there are any."""


class GroupSettings(BaseModel):
    """What predict steps have alike that answer for groups of examples, too."""

    by: str | None = Field(
        default=None,
        min_length=1,
        description="Write groups.csv with one answer for each group of inputs: `folder` groups those of a "
        "folder, or give a table with the columns image and group. Guarantees, decisions and referrals are "
        "then about groups; null writes no such table.",
    )

    def of_members(self) -> Self:
        """Return the settings for the members of groups, which get no guarantee."""
        fields = type(self).model_fields
        return self.model_copy(update={name: fields[name].default for name in _OF_GROUPS if name in fields})


class GroupReferralSettings(GroupSettings, ClassReferralSettings):
    """Settings of predict steps that give each example, and each group of them, a class."""


class LabelReferralSettings(ReferralSettings):
    """Settings of predict steps whose labels depend on `threshold`; guarantees are of 0.5."""

    @model_validator(mode="after")
    def _check_guaranteed_threshold(self) -> Self:
        threshold = getattr(self, "threshold", GUARANTEED_THRESHOLD)
        if any(limit.class_name is not None for limit in self.max_error):
            raise ValueError("max_error names a class; here nothing is guaranteed of single classes")
        given = "max_error" if self.max_error else "refer"
        if (self.max_error or self.refer is not None) and threshold != GUARANTEED_THRESHOLD:
            raise ValueError(
                f"{given} goes with threshold {GUARANTEED_THRESHOLD:g} only, with which it was found on "
                f"the held-out data, found {threshold:g}"
            )
        return self
