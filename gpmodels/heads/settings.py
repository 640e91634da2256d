"""Settings of every Gaussian-process unit; no TensorFlow here."""

import math
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class MeanSettings(BaseModel):
    """Whether a GP head corrects a linear layer."""

    mean: Literal["linear", "none"] = Field(
        default="linear",
        description="Mean of the latent functions: linear, which starts as the linear head is and which the "
        "Gaussian process corrects; or none, as in the thesis.",
    )


class UnitSettings(BaseModel):
    """Settings that the sparse units of all GP heads share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_inducing: int = Field(default=50, ge=1, description="Inducing points of each GP unit (thesis: 50).")
    kernel: Literal[
        "squared_exponential", "matern12", "matern32", "matern52", "arc_cosine1", "arc_cosine2"
    ] = Field(default="squared_exponential", description="Kernel of every GP unit.")
    kernel_depth: int = Field(
        default=1, ge=1, description="Layers of an arc-cosine kernel; 1 for the other kernels."
    )

    @model_validator(mode="after")
    def _depth_goes_with_the_kernel(self) -> Self:
        limit = {"arc_cosine1": math.inf, "arc_cosine2": 2}.get(self.kernel, 1)
        if self.kernel_depth > limit:
            raise ValueError(
                f"kernel_depth is {self.kernel_depth}, but the kernel {self.kernel} has at most {limit}; "
                "choose arc_cosine1 for greater depths"
            )
        return self


class SVGPSettings(UnitSettings, MeanSettings):
    """Settings of `gpmodels.SVGPHead` in a run."""


class LayerSettings(MeanSettings):
    """Settings of the layers of a deep head in a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_layers: int = Field(default=2, ge=1, description="Layers; 1 is a single Gaussian process.")
    width: int | None = Field(
        default=None,
        ge=1,
        description="Functions of each inner layer; null takes one for each feature, at most 30.",
    )
    mean_function: Literal["linear", "zero"] = Field(
        default="linear", description="Whether an inner layer adds its input to what it gives: linear."
    )
    num_prediction_samples: int = Field(
        default=16,
        ge=1,
        description="Fixed nodes that a prediction averages over; each takes the work of an SVGP.",
    )

    @property
    def widths(self) -> tuple[int, ...] | None:
        """Functions of each inner layer, None for the default."""
        return None if self.width is None else (self.width,) * (self.num_layers - 1)
