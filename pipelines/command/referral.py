"""The setting of predict steps that refers by a guarantee; help imports it, so it imports nothing heavy."""

from typing import Self

from pydantic import BaseModel, Field, model_validator

MAX_ERROR_OPTION = ("", "Refer so many that at most this share of the others is wrong, with 95 % confidence.")
"""Option `--max-error` of predict steps."""

GUARANTEED_THRESHOLD = 0.5
"""Probability above which an evaluation takes something for an event or a lane; guarantees are of that."""


class ReferralSettings(BaseModel):
    """What all predict steps have alike; each adds `refer_above` with what it refers."""

    max_error: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Refer so many that at most this share of what is not referred is wrong, with 95 % "
        "confidence, by the guarantee that the bundle holds from its training; null guarantees nothing.",
    )

    @model_validator(mode="after")
    def _check_one_rule(self) -> Self:
        if self.max_error is not None and getattr(self, "refer_above", None) is not None:
            raise ValueError("max_error and refer_above are both given, and each decides what is referred")
        return self


class LabelReferralSettings(ReferralSettings):
    """The same of predict steps whose labels depend on a setting `threshold`; guarantees are of 0.5."""

    @model_validator(mode="after")
    def _check_guaranteed_threshold(self) -> Self:
        threshold = getattr(self, "threshold", GUARANTEED_THRESHOLD)
        if self.max_error is not None and threshold != GUARANTEED_THRESHOLD:
            raise ValueError(
                f"max_error goes with threshold {GUARANTEED_THRESHOLD:g} only, with which its guarantee is "
                f"given, found {threshold:g}"
            )
        return self
