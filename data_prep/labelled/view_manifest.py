"""The manifest of a prepared folder of examples that are described by views; loads without TensorFlow.

A view is one kind of feature, such as the texture of an image: the unit that multiple-kernel learning weighs.
"""

from pydantic import Field, field_validator, model_validator

from data_prep.prepared.manifest import LabelledExample, LabelledManifest

FEATURES_NAME = "features.npz"
"""File of the prepared folder with an array for each view."""


class ViewExample(LabelledExample):
    """An example that was cut out of something larger, and is described by views."""

    source: str = Field(
        description="Name of what the example was cut out of, such as an image or a sequence."
    )
    row: int = Field(description="Upper edge in the source, in pixels.")
    column: int = Field(description="Left edge in the source, in pixels.")


class ViewsManifest(LabelledManifest):
    """Contents of a prepared folder whose examples have features beside their image."""

    examples: tuple[ViewExample, ...] = Field(description="The examples in the order of their names.")
    views: dict[str, int] = Field(description="Number of features of each view, in the order of the views.")
    extractor: str = Field(description="Name and version of what computed the features.")

    @property
    def num_features(self) -> int:
        """Number of features of all views together, D."""
        return sum(self.views.values())

    @field_validator("views")
    @classmethod
    def _check_views(cls, value: dict[str, int]) -> dict[str, int]:
        if not value or min(value.values()) < 1:
            raise ValueError("every view needs a feature, and there must be a view")
        return value

    @model_validator(mode="after")
    def _check_features_listed(self) -> "ViewsManifest":
        if FEATURES_NAME not in self.sha256:
            raise ValueError(f"{FEATURES_NAME} has no checksum")
        return self
