"""How much training images of lanes vary. The settings load without TensorFlow."""

from pydantic import BaseModel, ConfigDict, Field


class LaneAugmentation(BaseModel):
    """How much training images vary. A value of 0 switches its part off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    flip_probability: float = Field(default=0.5, ge=0, le=1, description="Probability of a left-right flip.")
    brightness: float = Field(
        default=0.15, ge=0, lt=1, description="Largest brightness change, as a share of the range 0 to 255."
    )
    contrast: float = Field(
        default=0.25, ge=0, lt=1, description="Largest relative change of contrast around the image's mean."
    )
    scale: float = Field(default=0.1, ge=0, lt=1, description="Largest relative change of size.")
    shift: float = Field(
        default=0.05, ge=0, lt=1, description="Largest shift, as a share of the height and of the width."
    )
