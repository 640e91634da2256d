"""Settings that deep heads share, whatever their layers are made of; no TensorFlow here."""

from typing import Literal

from pydantic import ConfigDict, Field

from gpmodels.heads.settings import MeanSettings


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
