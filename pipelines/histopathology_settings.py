"""Settings of the histopathology steps, and what a run writes down; no TensorFlow here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from data_prep.augmentation_settings import LabelledAugmentation
from data_prep.histopathology_settings import PatchSettings
from pipelines import head_settings
from pipelines.head_settings import ExportSettings
from pipelines.survival_settings import SurvivalSettings
from pipelines.views_settings import ViewsRun, ViewsTrainSettings

__all__ = [
    "EvaluateSettings",
    "ExportSettings",
    "HistopathologyRun",
    "PredictSettings",
    "SurvivalSettings",
    "TrainSettings",
]


class HistopathologyRun(ViewsRun):
    """Description of a histopathology run; ``features`` is None where towers learned from the patches."""

    application: Literal["histopathology"]
    patches: PatchSettings


class TrainSettings(ViewsTrainSettings):
    """Settings of `histopathology train`."""

    features: Literal["handmade", "cnn"] = Field(
        default="handmade",
        description='What the heads see: "handmade" features in the views intensity, box_counting, lbp and '
        'sift; "cnn" the features of a small convolutional network for each of haematoxylin, eosin and '
        "texture, trained with the heads.",
    )
    augmentation: LabelledAugmentation | None = Field(
        default=LabelledAugmentation(vertical_flip_probability=0.5),
        description="With cnn: random changes of the training patches; null for none.",
    )


class EvaluateSettings(head_settings.EvaluateSettings):
    """Settings of `histopathology evaluate`."""

    by: Literal["patch", "image", "patient"] | None = Field(
        default=None,
        description="What is judged: each patch, or the mean probability of all patches of an image or of a "
        "patient. null takes images, or patches where masks gave the labels and an image has both classes.",
    )


class PredictSettings(BaseModel):
    """Settings of `histopathology predict`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    refer_above: float | None = Field(
        default=None,
        ge=0,
        description="Refer an image to a pathologist above this entropy (nats); null refers none.",
    )
    patches_at_once: int = Field(
        default=64, ge=1, description="Patches that the model takes at a time; fewer need less memory."
    )
    map_side: int = Field(
        default=1600,
        ge=64,
        le=8192,
        description="Longest side in pixels of the picture under the maps; larger images are shrunk to it.",
    )
