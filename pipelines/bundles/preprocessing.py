"""How `predict` makes what a bundle takes: images of its size, or views of features; no TensorFlow here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from data_prep.errors import InputError
from data_prep.files.image_settings import KEPT_DESCRIPTION, Fit, ImageKinds, KeptLevels


class ImagePreprocessing(BaseModel):
    """How images became those of the training; a bundle carries it, and `predict` follows it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fit: Fit = Field(description='"crop" for the middle part, "pad" for the whole image with borders.')
    levels: KeptLevels | None = Field(default=None, description=KEPT_DESCRIPTION)
    kinds: ImageKinds = Field(default=(), exclude=True, description="Runs and bundles have them now.")


PREPROCESSING = "preprocessing.json"

SettingsKind = TypeVar("SettingsKind", bound=BaseModel)


class ViewPreprocessing(BaseModel):
    """How the views of an example were computed in training.

    Attributes:
        extractor: Name and version of what computed them.
        views: Number of features of each view, in the order of the views.
        settings: Settings of the extraction.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    extractor: str
    views: dict[str, int]
    settings: dict[str, Any]


def load_preprocessing(
    bundle: Path, settings_class: type[SettingsKind], *, extractor: str
) -> tuple[ViewPreprocessing, SettingsKind]:
    """Read how a bundle's views are computed.

    Args:
        bundle: Folder of the bundle.
        settings_class: Class of the settings of the extraction.
        extractor: Name and version of what would compute them now.

    Returns:
        The contents of the file, and the settings of the extraction.

    Raises:
        InputError: The bundle has no such file, or its views were computed by another extractor.
    """
    path = bundle / PREPROCESSING
    try:
        preprocessing = ViewPreprocessing.model_validate_json(path.read_bytes())
        settings = settings_class.model_validate(preprocessing.settings)
    except (OSError, ValidationError) as error:
        raise InputError(
            f"{path} does not say how features are computed ({error}). Pass the --out of an export of a run "
            "on features."
        ) from error
    if preprocessing.extractor != extractor:
        raise InputError(
            f"{bundle} was trained on features of {preprocessing.extractor!r}, but this gpimaging computes "
            f"{extractor!r}, and the model would take them for what they are not. Use the version of "
            "gpimaging that wrote the bundle, or prepare and train again."
        )
    return preprocessing, settings
