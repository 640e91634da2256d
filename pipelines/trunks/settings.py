"""Settings of trunks, and what a run writes down of one; no TensorFlow here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.command.config import Choices
from pipelines.labelled.settings import IMAGE_NETWORKS, ImageTrainSettings, LabelledRun
from pipelines.runs.description import load_run

_KERAS_FAMILIES = {
    "ConvNeXt": ("Tiny", "Small", "Base", "Large", "XLarge"),
    "DenseNet": ("121", "169", "201"),
    "EfficientNet": tuple(f"B{number}" for number in range(8)),
    "EfficientNetV2": ("B0", "B1", "B2", "B3", "S", "M", "L"),
    "Inception": ("V3", "ResNetV2"),
    "MobileNet": ("", "V2", "V3Small", "V3Large"),
    "NASNet": ("Mobile", "Large"),
    "ResNet": ("50", "101", "152", "50V2", "101V2", "152V2"),
    "VGG": ("16", "19"),
    "Xception": ("",),
}


_OWN = ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2", "mobilenet_v2")
"""The keys of `gpmodels.networks.trunks.OWN`, which imports TensorFlow."""


def trunk_names() -> tuple[str, ...]:
    """Return the names of all trunks."""
    keras = (f"keras:{family}{size}" for family, sizes in _KERAS_FAMILIES.items() for size in sizes)
    return (*_OWN, *keras)


TRUNKS_IN_WORDS = " | ".join((*_OWN, "keras:NAME"))

TrunkName = Annotated[str, Choices(trunk_names, words=TRUNKS_IN_WORDS)]
"""Name of a network that learned from photographs: one of `_OWN`, or of keras.applications."""


def is_trunk(network: str | None) -> bool:
    """Whether a network is a trunk, and none of an application's own."""
    return network in trunk_names()


def train_off_cluster(_options: Mapping[str, Any], settings: Any) -> str | None:
    """Return how a training is called that leaves a cluster nothing to do; None for that of a frozen trunk.

    The features of a frozen trunk are computed once, image after image; everything else is one training.
    Random weights are drawn from what other threads draw from too, so that a worker would draw others.

    Args:
        settings: Settings of the training, with `network`, `weights` and `unfreeze_blocks`.
    """
    if not is_trunk(settings.network):
        return "train without --set network=efficientnet_lite0 or another trunk"
    if settings.weights == "none":
        return "train --set weights=none"
    return f"train --set unfreeze_blocks={settings.unfreeze_blocks}" if settings.unfreeze_blocks else None


def evaluate_off_cluster(run: "type[TrunkRun]", options: Mapping[str, Any], _settings: Any) -> str | None:
    """Return how an evaluation is called that leaves a cluster nothing to do; None where a trunk is frozen.

    The run has the weights of a frozen trunk in a file, which workers read, be they random or not.

    Args:
        run: Class of what runs of the application write down.
        options: Of the command, with the folder of the run, `model`.

    Raises:
        InputError: The folder is no run of the application.
    """
    trunk = load_run(options["model"], run).trunk
    is_frozen = trunk is not None and not trunk.unfrozen_blocks
    return None if is_frozen else "evaluate of a run without a frozen trunk"


_TRUNK_ALONE = ("weights", "unfreeze_blocks", "smallest_side")
"""Settings that do nothing without a trunk."""


class TrunkWeightsSettings(BaseModel):
    """What a trunk begins with, and how much of it is trained."""

    weights: Literal["imagenet", "none"] | Path = Field(
        default="imagenet",
        union_mode="left_to_right",
        description="With a trunk: its first weights. imagenet: learned from a million photographs; none: "
        "random; or a file of weights (.safetensors, .h5 or .keras).",
    )
    unfreeze_blocks: int = Field(
        default=0,
        ge=0,
        description="With a trunk: how many of its last blocks are trained with the heads, from the images. "
        "0 trains none: where images have one class each, their features are computed once, which is many "
        "times faster.",
    )

    @model_validator(mode="after")
    def _check_there_is_a_trunk(self) -> Self:
        fields = type(self).model_fields
        given = [
            name for name in _TRUNK_ALONE if name in fields and getattr(self, name) != fields[name].default
        ]
        if given and not self._begins_with_weights():
            raise ValueError(
                f"{' and '.join(given)}: of use with a trunk alone, and the network is none. Choose one, for "
                "example with --set network=efficientnet_lite0"
            )
        return self

    def _begins_with_weights(self) -> bool:
        """Whether the network is one that weights are for."""
        return is_trunk(getattr(self, "network", None))


class TrunkSettings(TrunkWeightsSettings):
    """Settings of a train step on images with one class each whose network may be a trunk."""

    smallest_side: int = Field(
        default=128,
        ge=32,
        le=1024,
        description="With a trunk: images whose shorter side is smaller than so many pixels are enlarged to "
        "it inside, since a trunk makes little of tiny images.",
    )
    components: int = Field(
        default=64,
        ge=1,
        description="With a trunk: principal components of its features that the heads see.",
    )


ImageNetworkName = Annotated[
    str,
    Choices(lambda: (*IMAGE_NETWORKS, *trunk_names()), words=" | ".join((*IMAGE_NETWORKS, TRUNKS_IN_WORDS))),
]
"""Name of a network that learns from the images alone, or of a trunk."""


class ImageOrTrunkSettings(TrunkSettings, ImageTrainSettings):
    """Settings of a train step on images of one size, with a network of their own or a trunk."""

    network: ImageNetworkName = Field(
        default="FE1",
        description="Feature extractor: FE1 or FE2 of the thesis, DenseNet-40 with growth 12, slower, or a "
        "trunk that learned from photographs.",
    )


class TrunkFacts(BaseModel):
    """What distinguishes the features of a trunk from others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="Name of the trunk.")
    sha256: str = Field(description="SHA-256 of its weights.")
    size: tuple[int, int] = Field(description="Height and width of the images it is given.")
    smallest_side: int = Field(description="Images with a shorter side are enlarged to it inside.")
    num_features: int = Field(gt=0, description="Features of an image.")
    unfrozen_blocks: int = Field(ge=0, description="Last blocks that are trained with the heads.")


class TrunkRun(LabelledRun):
    """Description of a run on images with one class each; `trunk` is None for a network of its own."""

    trunk: TrunkFacts | None = None
