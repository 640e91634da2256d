"""Settings of the head with Monte Carlo dropout; no TensorFlow here."""

from pydantic import BaseModel, ConfigDict, Field


class DropoutSettings(BaseModel):
    """Settings of `gpmodels.DropoutHead` in a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate: float = Field(default=0.2, ge=0, lt=1, description="Share of the features that drop out.")
    num_samples: int = Field(default=30, ge=1, description="Samples that a prediction averages over.")
