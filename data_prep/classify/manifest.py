"""Manifests of prepared folders of images with one class or several labels each, without TensorFlow."""

import math
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from data_prep.files.image_settings import KEPT_DESCRIPTION, KeptLevels
from data_prep.prepared.manifest import LabelledExample, LabelledManifest


class ClassifyManifest(LabelledManifest):
    """Contents of a prepared folder of images of any subject."""

    application: Literal["classify"] = Field(
        default="classify", description="The application the folder was prepared for."
    )
    levels: KeptLevels | None = Field(default=None, description=KEPT_DESCRIPTION)
    notes: tuple[str, ...] = Field(
        default=(), description="What a person should know of the images, such as two labels of one image."
    )


class MultilabelExample(LabelledExample):
    """One image with several yes/no labels; its `label` is the rarest one, by which the split is even."""

    labels: tuple[Literal[0, 1] | None, ...] = Field(
        description="1 for yes, 0 for no, null where it is unknown, in the order of the label_names."
    )

    @property
    def target(self) -> tuple[float, ...]:
        """What a model learns of it: NaN where a label is unknown."""
        return tuple(math.nan if one is None else float(one) for one in self.labels)


class VoteExample(LabelledExample):
    """One image on whose class several people voted; its `label` is the class with most votes."""

    labels: tuple[float, ...] = Field(description="Share of the votes of each class.")

    @property
    def target(self) -> tuple[float, ...]:
        """What a model learns of it."""
        return self.labels


class VoteManifest(LabelledManifest):
    """Contents of a prepared folder of images on whose classes several people voted."""

    target_type: ClassVar[str] = "float32"

    application: Literal["votes"] = Field(
        default="votes", description="The application the folder was prepared for."
    )
    examples: tuple[VoteExample, ...] = Field(description="The examples in the order of their names.")
    levels: KeptLevels | None = Field(default=None, description=KEPT_DESCRIPTION)
    notes: tuple[str, ...] = Field(default=(), description="What a person should know of the images.")

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        for one in self.examples:
            is_whole = math.isclose(sum(one.labels), 1.0, abs_tol=1e-6)
            if len(one.labels) != len(self.class_names) or not is_whole or min(one.labels) < 0.0:
                raise ValueError(f"{one.name} has not a share of the votes for each class, whose sum is 1")
            if one.labels[one.label] != max(one.labels):
                raise ValueError(f"the label of {one.name} is none of the classes with most votes")
        return self


class MultilabelManifest(LabelledManifest):
    """Contents of a prepared folder of images with several labels each; its classes are rarest labels."""

    target_type: ClassVar[str] = "float32"
    label_noun: ClassVar[tuple[str, str]] = ("rarest label", "rarest labels")

    application: Literal["multilabel"] = Field(
        default="multilabel", description="The application the folder was prepared for."
    )
    examples: tuple[MultilabelExample, ...] = Field(description="The examples in the order of their names.")
    label_names: tuple[str, ...] = Field(min_length=2, description="Names of the yes/no labels.")
    levels: KeptLevels | None = Field(default=None, description=KEPT_DESCRIPTION)
    notes: tuple[str, ...] = Field(default=(), description="What a person should know of the images.")

    @model_validator(mode="after")
    def _check_number_of_labels(self) -> Self:
        if any(len(one.labels) != len(self.label_names) for one in self.examples):
            raise ValueError(f"an example has not one label for each of {', '.join(self.label_names)}")
        return self
