"""Settings of the SNGP head; no TensorFlow here."""

from pydantic import BaseModel, ConfigDict, Field


class SNGPSettings(BaseModel):
    """Settings of `gpmodels.SNGPHead` in a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_features: int = Field(
        default=512,
        ge=1,
        description="Random Fourier features that stand for the Gaussian process; its covariance takes the "
        "square of that many numbers for each class.",
    )
