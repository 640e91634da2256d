"""How much training images with one label each vary. The settings load without TensorFlow."""

from pydantic import BaseModel, ConfigDict, Field


class LabelledAugmentation(BaseModel):
    """How much training images with one label each vary. A value of 0 switches its part off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    flip_probability: float = Field(default=0.5, ge=0, le=1, description="Probability of a left-right flip.")
    vertical_flip_probability: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Probability of an up-down flip, for images without an upper side.",
    )
    scale: float = Field(default=0.1, ge=0, lt=1, description="Largest relative change of size.")
    shift: float = Field(
        default=0.08, ge=0, lt=1, description="Largest shift, as a share of the height and of the width."
    )
    gain: float = Field(
        default=0.2, ge=0, lt=1, description="Largest relative change of the levels, all by one factor."
    )
    rotation: float = Field(
        default=0.0, ge=0, le=180, description="Largest turn in degrees, in either direction."
    )
