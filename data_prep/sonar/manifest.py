"""The manifest of a prepared sonar folder; loads without TensorFlow."""

from typing import Literal

from pydantic import Field

from data_prep.files.image_settings import KEPT_DESCRIPTION, KeptLevels
from data_prep.prepared.manifest import LabelledManifest


class SonarManifest(LabelledManifest):
    """Contents of a prepared sonar folder; an example's height and width are those of its window."""

    application: Literal["sonar"] = Field(
        default="sonar", description="The application the folder was prepared for."
    )
    levels: KeptLevels | None = Field(default=None, description=KEPT_DESCRIPTION)
