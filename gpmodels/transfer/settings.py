"""Settings of the transfer head; no TensorFlow here."""

from pydantic import BaseModel, ConfigDict, Field


class ATLDGPSettings(BaseModel):
    """Settings of `gpmodels.transfer.head.ATLDGPHead` in a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mixing: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Share of the source in the mixture, for one source; null learns it from training "
        "examples that are left out. 0 learns from the target alone.",
    )
    noise_variance: float = Field(
        default=0.1, gt=0, description="Variance of the noise on the codes of the classes."
    )
