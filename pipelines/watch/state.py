"""`watch.json`: what is remembered of a stream of images from one call to the next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from data_prep.errors import InputError
from data_prep.files.json_files import read_json
from data_prep.splits.settings import Seed
from pipelines.watch.ranks import conformal_p_values, tie_breakers
from pipelines.watch.reading import Digest, NewImages, ReadTable
from pipelines.watch.wealth import BETS, Course, Wealth, bet_on

_MOST_SHOWN: Final = 24

_Count = Annotated[int, Field(ge=0, lt=2**53)]
_Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class SeenImage:
    """An image by its place in the stream, from 1, its name in predictions.csv and its familiarity."""

    number: _Count
    file: str
    familiarity: _Share


class WatchState(BaseModel):
    """The state of a stream of images that a bundle predicts.

    Attributes:
        bundle: SHA-256 of the bundle's metadata.
        alpha: Probability of an alarm, at most, if nothing changes.
        seed: Of the order of images that are equally familiar.
        held_out: Number of held-out groups with which the sequence begins; 0 where it begins with the stream.
        values: Distinct familiarities so far, ascending.
        counts: How many images had each of them.
        wealth: The money of the bettor.
        course: What is remembered of the wealth over time.
        alarm: What the bet with the most money said at the alarm; empty without one.
        read: Tables that were read.
        unfamiliar: The least familiar images since the wealth began to rise, the least first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    bundle: Digest
    alpha: Annotated[float, Field(gt=0, lt=1)]
    seed: Seed
    held_out: Annotated[int, Field(ge=0, le=10**6)]
    values: tuple[_Share, ...] = ()
    counts: tuple[_Count, ...] = ()
    wealth: Wealth = Wealth()
    course: Course = Course()
    alarm: str = ""
    read: tuple[ReadTable, ...] = ()
    unfamiliar: tuple[SeenImage, ...] = ()

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        number, course = sum(self.counts), self.course
        found = (self.wealth.number, len(self.wealth.money), len(self.values), len(course.points))
        if found != (number, len(BETS), len(self.counts), number // course.stride):
            raise ValueError("counts are of streams of different lengths")
        if np.any(np.diff(self.values) <= 0) or course.low_at > number:
            raise ValueError("numbers are not in their order")
        return self

    def after(self, images: NewImages) -> WatchState:
        """Return the state after further images; those of several calls may as well be of one."""
        first, new = self.wealth.number, np.array(images.familiarity, np.float64)
        uniform = tie_breakers(self.seed, first, new.size)
        p_values, values, counts = conformal_p_values(new, uniform, self.held_out, self.values, self.counts)
        wealth, path = bet_on(p_values, self.wealth)
        course = self.course.followed(path, first, self.alpha)
        alarm = self.alarm
        if course.alarm_at is not None and not alarm:
            alarm = bet_on(p_values[: course.alarm_at - first], self.wealth)[0].best
        numbers = range(first + 1, first + new.size + 1)
        seen = (*self.unfamiliar, *map(SeenImage, numbers, images.files, images.familiarity))
        # Of images that are equally familiar, the files of late ones may still be there.
        risen = sorted(
            (image for image in seen if image.number > course.low_at),
            key=lambda image: (image.familiarity, -image.number),
        )
        return WatchState(
            **{name: getattr(self, name) for name in ("bundle", "alpha", "seed", "held_out")},
            values=values,
            counts=counts,
            wealth=wealth,
            course=course,
            alarm=alarm,
            read=images.read,
            unfamiliar=tuple(risen[:_MOST_SHOWN]),
        )


def load_state(path: Path) -> WatchState:
    """Read the state of a stream.

    Raises:
        InputError: The file cannot be read, or is no such state.
    """
    try:
        return WatchState.model_validate(read_json(path))
    except (OSError, ValueError) as error:  # pydantic's is a ValueError, of several lines
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"--state {path}: is no state of `gpimaging watch`, or damaged ({reason}). Put a copy back, "
            "or give another file and read all predictions again, in their order."
        ) from error
