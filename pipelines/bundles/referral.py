"""Promises that a bundle keeps of what is not referred to a person."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from data_prep.errors import InputError
from pipelines.command.referral import ReferralSettings
from pipelines.scores.promisable import TABLE_ERRORS, units_needed


class PromiseRecord(BaseModel):
    """What a bundle can promise, by the selection part of its run.

    Attributes:
        confidence: Probability with which each promise holds.
        judged: What a prediction is that the promises are of, in the plural.
        units: Number of independent units that they were made by.
        noun: What a unit is, in the plural.
        binomial: Whether each unit is one example that is right or wrong.
        thresholds: Errors, ascending, each with the largest uncertainty that is kept for it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    confidence: float
    judged: str
    units: int
    noun: str
    binomial: bool
    thresholds: tuple[tuple[float, float], ...]

    def threshold(self, max_error: float) -> tuple[float, float]:
        """Return the largest error of the table that is no larger than this one, and its threshold.

        Raises:
            InputError: So small an error cannot be promised; the message says how many units would be needed.
        """
        promised = max((error for error in TABLE_ERRORS if error <= max_error * (1 + 1e-9)), default=None)
        thresholds = dict(self.thresholds)
        # Another error than the nearest one would be chosen by the same data as its threshold.
        if promised in thresholds:
            return promised, thresholds[promised]
        least_error = max_error if promised is None else promised
        needed = units_needed(least_error, binomial=self.binomial, confidence=self.confidence)
        reason = f"There were {self.units} {self.noun} to make promises by"
        if promised is not None and not math.isclose(promised, max_error):
            reason = f"Promises are made in steps, here that of {promised:g}. {reason}"
        if needed > self.units:
            reason += f", and at least {needed} are needed for this one, even if none of them is wrong."
        elif promised is None:
            reason += f", and promises begin at {TABLE_ERRORS[0]:g}."
        else:
            reason += ", and the most certain of them were too often wrong, or they were too few to tell."
        least = (
            f"The least error that can be promised is {self.thresholds[0][0]:g}."
            if self.thresholds
            else "No error can be promised."
        )
        raise InputError(
            f"--max-error {max_error:g} cannot be promised. {reason} {least} Prepare more data and train "
            "with a larger selection_fraction, or pass a larger --max-error, or --refer-above."
        )


Settings = TypeVar("Settings", bound=ReferralSettings)


def with_promise(
    settings: Settings,
    record: PromiseRecord | None,
    *,
    bundle: Path,
    judged: str,
    console: Any,
    part: str = "",
) -> Settings:
    """Return the settings with the threshold of the promise that they ask for, and say what is promised.

    Args:
        settings: Settings of a predict step.
        record: What the bundle can promise.
        bundle: The bundle, for messages.
        judged: What the predict step refers, in the plural: the promise must be of that.
        console: Where the promise is said.
        part: What of these is right or wrong, as "pixels of the "; empty for each as a whole.

    Returns:
        Settings whose `refer_above` is the threshold; the same settings where nothing is to be promised.

    Raises:
        InputError: The bundle cannot promise it.
    """
    if settings.max_error is None:
        return settings
    if record is None:
        raise InputError(
            f"--max-error {settings.max_error:g}: {bundle} keeps no promises. Judge the run with `evaluate` "
            "on the folder that it was trained with, and export it again with --metrics and the metrics.json "
            "of that, or pass --refer-above."
        )
    if record.judged != judged:
        raise InputError(
            f"--max-error {settings.max_error:g}: the promises of {bundle} are of {record.judged}, and here "
            f"{judged} are referred. Evaluate {judged} and export again with --metrics, or pass "
            "--refer-above."
        )
    promised, limit = record.threshold(settings.max_error)
    console.print(
        f"Referred above an entropy of {limit:.6g} nats: of the {part}other {judged} at most {promised:.4g} "
        f"are wrong, with {record.confidence:.0%} confidence, if they are like the {record.units} "
        f"{record.noun} that this was found with",
        markup=False,
    )
    return settings.model_copy(update={"refer_above": limit})
