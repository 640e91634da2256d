"""How images of any proportions became those of a training; no TensorFlow here."""

from pydantic import BaseModel, ConfigDict, Field

from data_prep.files.fitting import Fit
from data_prep.files.image_settings import KEPT_DESCRIPTION, ImageKinds, KeptLevels


class ImagePreprocessing(BaseModel):
    """How images became those of the training; a bundle carries it, and `predict` follows it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fit: Fit = Field(description='"crop" for the middle part, "pad" for the whole image with borders.')
    levels: KeptLevels | None = Field(default=None, description=KEPT_DESCRIPTION)
    kinds: ImageKinds = Field(default=(), exclude=True, description="Runs and bundles have them now.")
