"""Settings of every Gaussian-process unit; no TensorFlow here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class UnitSettings(BaseModel):
    """Settings that the sparse units of all GP heads share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_inducing: int = Field(default=50, ge=1, description="Inducing points of each GP unit (thesis: 50).")
    kernel: Literal["squared_exponential", "matern12", "matern32", "matern52"] = Field(
        default="squared_exponential", description="Kernel of every GP unit."
    )
