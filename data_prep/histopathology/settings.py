"""Settings of `prepare` for histopathology; load without the code that uses them."""

from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from data_prep.files.image_settings import DRAWN_ON_DESCRIPTION, DrawnOn
from data_prep.splits.settings import SPLIT_OPTIONS, SplitSettings

LARGEST_PATCH = 4096
"""Largest side of a patch, in pixels."""


class PatchSettings(BaseModel):
    """How an image or a slide becomes patches: all that is needed to treat a new one in the same way."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    patch_size: int = Field(
        default=200,
        ge=16,
        le=LARGEST_PATCH,
        description="Side in pixels of the square patches, side by side from the upper left corner; what "
        "remains at the right and the bottom is not used.",
    )
    grid: tuple[int, int] | None = Field(
        default=None,
        description="Rows and columns of equal patches that divide each image, instead of patch_size; 7 x 7 "
        "is what the paper has for breast.",
    )
    size: tuple[int, int] = Field(
        default=(64, 64),
        description="Height and width in pixels to which patches are resized for convolutional networks: at "
        "a third of 200 pixels nuclei still show, and two processors train on thousands. Features are of the "
        "patch as it was cut.",
    )
    mpp: float | None = Field(
        default=None,
        gt=0,
        le=100,
        description="prepare reduces images to so many micrometres per pixel before it cuts them; null keeps "
        "their resolution.",
    )
    pixel_size: float | None = Field(
        default=None,
        gt=0,
        le=100,
        description="Micrometres per pixel of the images that do not state it; needed only with mpp.",
    )
    min_tissue: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Patches with a smaller share of tissue are background and left out; 0 keeps all.",
    )
    tissue_saturation: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="A pixel is tissue from this saturation on, (max - min) / max of red, green and blue, "
        "unless it is nearly black.",
    )
    stain: Literal["none", "macenko", "reinhard"] = Field(
        default="none",
        description='Stain normalisation of each image: "macenko" finds its haematoxylin and eosin and gives '
        'them reference colours and strengths; "reinhard" gives it the means and standard deviations of a '
        "reference in CIE Lab.",
    )

    @field_validator("size", "grid")
    @classmethod
    def _check_size(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and (min(value) < 1 or max(value) > LARGEST_PATCH):
            raise ValueError(f"both numbers must be from 1 to {LARGEST_PATCH}")
        return value


class HistopathologyPrepareSettings(PatchSettings, SplitSettings):
    """How images of tissue become labelled patches. Every field has a default."""

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "patch_size": ("PIXELS", "Side of a patch; 200 without it."),
        "grid": ("ROWSxCOLUMNS", "Divide each image into so many patches, e.g. 7x7."),
        "mpp": ("", "Micrometres per pixel to reduce images to; else as they are."),
        "stain": ("none|macenko|reinhard", "Stain normalisation of each image."),
        **SPLIT_OPTIONS,
    }

    file_column: str = Field(
        default="file",
        min_length=1,
        description="Column of the table of labels with file names, from the images folder on; all may begin "
        "with the same further folders. Suffixes and folders may be left out where names stay unique.",
    )
    label_column: str = Field(
        default="label", min_length=1, description="Column of the table of labels with the class."
    )
    patient_column: str = Field(
        default="patient",
        min_length=1,
        description="Column of the table of labels with the patient, or whatever must stay on one side of "
        "every split.",
    )
    mask_values: tuple[int, ...] | None = Field(
        default=None,
        description="Values of masks that mark the positive class; without it, all but 0.",
    )
    masks_drawn_on: DrawnOn = Field(default="upright", description=DRAWN_ON_DESCRIPTION)
    positive_share: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="With masks, a patch is of the positive class if at least this share of it is marked.",
    )
    mask_classes: tuple[str, str] = Field(
        default=("normal", "tumour"), description="With masks, names of the negative and the positive class."
    )
    positive_class: str | None = Field(
        default=None,
        min_length=1,
        description="The class that maps show where there are two, such as the tumour; it comes last. If not "
        "set, the last one in the order of the names. With masks it is the second of mask_classes.",
    )
    test_fraction: float = Field(
        default=0.25,
        ge=0,
        le=1,
        description="Share of each class to test on where neither lists nor folds are given; 0 puts all into "
        "training, 1 all into the test.",
    )

    @field_validator("mask_values")
    @classmethod
    def _check_values(cls, value: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if value is not None and not value:
            raise ValueError("expected at least one value")
        return value

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if self.mask_classes[0] == self.mask_classes[1] or not all(self.mask_classes):
            raise ValueError("mask_classes needs two different names")
        return self

    @property
    def patches(self) -> PatchSettings:
        """Settings by which patches are cut, without those by which they are labelled and divided."""
        return PatchSettings.model_validate(
            {name: getattr(self, name) for name in PatchSettings.model_fields}
        )
