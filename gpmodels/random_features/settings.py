"""Settings of the head of random features; no TensorFlow here."""

from typing import Literal

from pydantic import Field

from gpmodels.heads.settings import LayerSettings


class RandomFeatureSettings(LayerSettings):
    """Settings of `gpmodels.RandomFeatureHead` in a run."""

    num_features: int = Field(
        default=100,
        ge=1,
        description="Random frequencies of each layer; the covariance of the last one takes four times the "
        "square of that many numbers for each class.",
    )
    kernel: Literal["squared_exponential", "arc_cosine1", "arc_cosine2"] = Field(
        default="squared_exponential", description="Kernel that the features approach."
    )
    frequencies: Literal["fixed", "learned"] = Field(
        default="fixed", description="Whether the frequencies stay as they were drawn."
    )
