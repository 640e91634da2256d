"""Settings of `gpimaging explore`; no TensorFlow here."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from data_prep.splits.settings import Seed
from pipelines.command.config import Choices
from pipelines.trunks.settings import TRUNKS_IN_WORDS, trunk_names

_LARGEST_SIDE = 256

OWN_FEATURES = ("auto", "views", "grey", "colour")


def _feature_names() -> tuple[str, ...]:
    return (*OWN_FEATURES, *trunk_names())


FeaturesName = Annotated[str, Choices(_feature_names, words=" | ".join((*OWN_FEATURES, TRUNKS_IN_WORDS)))]
"""What examples are described by."""


class ExploreSettings(BaseModel):
    """Settings of `explore`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "size": ("HxW", "Height and width at which pixels are compared."),
        "features": ("NAME", "auto, views, grey, colour, or a network such as efficientnet_lite0."),
    }

    features: FeaturesName = Field(
        default="auto",
        description="What an example is described by: views for the handmade features of a prepared folder, "
        "grey or colour for its pixels, or the features of a network that learned from photographs, "
        "such as efficientnet_lite0. auto takes views where the folder has them, else that network where it "
        "is installed, images are of 64 pixels at least and no size is given, else colour where the images "
        "have any, else grey.",
    )
    size: tuple[int, int] | None = Field(
        default=None,
        description="Height and width in pixels at which images are compared by their pixels, null for 32 x "
        "32.",
    )
    fit: Literal["crop", "pad"] = Field(
        default="pad",
        description='How images of other proportions get that size: "pad" for the whole image with grey '
        'borders, "crop" for its middle part.',
    )
    weights: Literal["imagenet", "none"] | Path = Field(
        default="imagenet",
        union_mode="left_to_right",
        description="With a network: imagenet for weights learned from a million photographs, none for "
        "random weights, or a file of them (.safetensors, .h5 or .keras).",
    )
    smallest_side: int = Field(
        default=128,
        ge=32,
        le=1024,
        description="With a network: images whose shorter side is smaller are enlarged to so many pixels.",
    )
    max_examples: int = Field(
        default=5000,
        ge=10,
        le=20000,
        description="How many examples are looked at; of more, so many are drawn at random.",
    )
    num_dimensions: int = Field(
        default=10, ge=2, le=50, description="Dimensions of the map before the needless ones are found."
    )
    num_inducing: int | None = Field(
        default=None,
        ge=2,
        description="Inducing points of the Gaussian process; more are finer and slower. null leaves the "
        "number to the model.",
    )
    max_iterations: int | None = Field(
        default=None,
        ge=1,
        description="Iterations of the fit at most; null for 300 over all examples, or 3000 over batches of "
        "them where there are more than 10,000.",
    )
    neighbours: int = Field(
        default=10,
        ge=1,
        le=100,
        description="How many neighbours on the map an example's class is compared with.",
    )
    shown: int = Field(
        default=20, ge=1, le=200, description="How many of the oddest examples, and of others, are shown."
    )
    seed: Seed = Field(default=0, description="Seed of the examples drawn and of the fit.")

    @field_validator("size")
    @classmethod
    def _check_size(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and not all(2 <= side <= _LARGEST_SIDE for side in value):
            raise ValueError(f"expected sides from 2 to {_LARGEST_SIDE} pixels")
        return value
