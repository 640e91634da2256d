"""The manifest of a prepared folder of images with one class each; loads without TensorFlow."""

from typing import Literal

from pydantic import Field

from data_prep.files.image_settings import KEPT_DESCRIPTION, KeptLevels
from data_prep.prepared.manifest import LabelledManifest


class ClassifyManifest(LabelledManifest):
    """Contents of a prepared folder of images of any subject."""

    application: Literal["classify"] = Field(
        default="classify", description="The application the folder was prepared for."
    )
    levels: KeptLevels | None = Field(default=None, description=KEPT_DESCRIPTION)
    notes: tuple[str, ...] = Field(
        default=(), description="What a person should know of the images, such as two labels of one image."
    )
