"""Guarantees of a bundle about the predictions that are not referred to a person."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict

from data_prep.errors import InputError
from pipelines.command.console import say
from pipelines.command.referral import ReferralSettings
from pipelines.scores.guarantee_sizes import TABLE_ERRORS, units_needed

if TYPE_CHECKING:  # commands read metadata before anything heavy is imported
    from pipelines.scores.guarantees import MethodGuarantees


class GuaranteeRecord(BaseModel):
    """What a bundle can guarantee, computed from the selection part of its run.

    Attributes:
        confidence: Probability with which each guarantee holds.
        judged: What the guarantees are about, such as images, in the plural.
        units: Number of independent units from which they were computed.
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

    @classmethod
    def of(cls, found: MethodGuarantees) -> Self:
        """Return what a bundle keeps of the guarantees of a method."""
        return cls(
            confidence=found.confidence,
            judged=found.judged,
            units=found.units,
            noun=found.noun,
            binomial=found.binomial,
            thresholds=found.table,
        )

    def threshold(self, max_error: float) -> tuple[float, float]:
        """Return the largest error of the table that is no larger than this one, and its threshold.

        Raises:
            InputError: So small an error cannot be guaranteed; the message says how many units it needs.
        """
        guaranteed = max((error for error in TABLE_ERRORS if error <= max_error * (1 + 1e-9)), default=None)
        thresholds = dict(self.thresholds)
        # Another error than the nearest one would be chosen by the same data as its threshold.
        if guaranteed in thresholds:
            return guaranteed, thresholds[guaranteed]
        least_error = max_error if guaranteed is None else guaranteed
        needed = units_needed(least_error, binomial=self.binomial, confidence=self.confidence)
        reason = f"There were {self.units} {self.noun} to give guarantees by"
        if guaranteed is not None and not math.isclose(guaranteed, max_error):
            reason = f"Guarantees are given in steps, here that of {guaranteed:g}. {reason}"
        if needed > self.units:
            reason += f", and at least {needed} are needed for this one, even if none of them is wrong."
        elif guaranteed is None:
            reason += f", and guarantees begin at {TABLE_ERRORS[0]:g}."
        else:
            reason += ", and the most certain of them were too often wrong, or they were too few to tell."
        least = (
            f"The least error that can be guaranteed is {self.thresholds[0][0]:g}."
            if self.thresholds
            else "No error can be guaranteed."
        )
        raise InputError(
            f"--max-error {max_error:g} cannot be guaranteed. {reason} {least} Prepare more data and train "
            "with a larger selection_fraction, or pass a larger --max-error, or --refer-above."
        )


Settings = TypeVar("Settings", bound=ReferralSettings)


def with_guarantee(
    settings: Settings,
    record: GuaranteeRecord | None,
    *,
    bundle: Path,
    judged: str,
    console: Any,
    part: str = "",
) -> Settings:
    """Return the settings with the threshold of the guarantee that they ask for, and say what is guaranteed.

    Args:
        settings: Settings of a predict step whose `max_error` is one share of all classes.
        record: What the bundle can guarantee.
        bundle: The bundle, for messages.
        judged: What the predict step refers, in the plural: the guarantee must be of that.
        console: Where the guarantee is said.
        part: What of these is right or wrong, as "pixels of the "; empty for each as a whole.

    Returns:
        Settings whose `refer_above` is the threshold.

    Raises:
        InputError: The bundle cannot guarantee it.
    """
    (limit_of_all,) = settings.max_error
    max_error = limit_of_all.share
    if record is None:
        raise InputError(
            f"--max-error {max_error:g}: {bundle} holds no guarantees, since its run kept "
            "none of this model: an earlier version trained it, nothing was held out, or it was exported "
            "without its temperature. Continue the training with --resume, which computes them, and export "
            "again with the temperature, or pass --refer-above."
        )
    if record.judged != judged:
        raise InputError(
            f"--max-error {max_error:g}: the guarantees of {bundle} are of {record.judged}, and "
            f"here {judged} are referred. Evaluate {judged} and export again with --metrics, or pass "
            "--refer-above."
        )
    guaranteed, limit = record.threshold(max_error)
    say(
        console,
        f"Referred above an entropy of {limit:.6g} nats: of all {part}{judged} below that at most "
        f"{guaranteed:.4g} are wrong, with {record.confidence:.0%} confidence, if they are like the "
        f"{record.units} {record.noun} that this was found with",
    )
    return settings.model_copy(update={"refer_above": limit})
