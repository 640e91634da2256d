"""Settings of the hierarchical Gaussian process; no TensorFlow here."""

from typing import Literal

from pydantic import BaseModel, Field

from gpmodels.heads.settings import MeanSettings, UnitSettings


class ExpertSettings(BaseModel):
    """How many experts there are; a class of its own, so that this key is written first."""

    num_experts: int | None = Field(
        default=9, ge=0, description="Experts of the HGP at the start; None where a run finds the number."
    )


class VMGPSettings(UnitSettings, MeanSettings, ExpertSettings):
    """Settings of `gpmodels.VMGPHead`: experts alone."""


class HGPSettings(VMGPSettings):
    """Settings of `gpmodels.HGPHead` in a run."""

    global_weight: float = Field(default=1.0, ge=0, description="Weight w of the global unit's likelihood.")
    expert_variance: Literal["full", "thesis"] = Field(
        default="full",
        description="Whether an expert's variance includes the global unit's conditional variance.",
    )
