"""Settings of the SVDKL head; no TensorFlow here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class SVDKLSettings(BaseModel):
    """Settings of an SVDKL head in a run, in the table `svdkl`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_gps: int | None = Field(
        default=None,
        ge=1,
        description="Gaussian processes, each on as many of the features in turn; null takes one for each "
        "feature, at most 32.",
    )
    num_inducing: int = Field(default=20, ge=1, description="Inducing points of each Gaussian process.")
    kernel: Literal["squared_exponential", "matern12", "matern32", "matern52"] = Field(
        default="squared_exponential", description="Kernel of every Gaussian process."
    )
