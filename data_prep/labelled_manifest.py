"""The manifest of a prepared folder of images or clips that have one label each; loads without TensorFlow."""

from pydantic import Field, model_validator

from data_prep.manifest import Example, Manifest


class LabelledExample(Example):
    """One image or clip with its label."""

    label: int = Field(ge=0, description="Index of the example's class in the manifest's class_names.")


class LabelledManifest(Manifest):
    """Contents of a prepared folder of labelled images; an application gives `application` its name."""

    examples: tuple[LabelledExample, ...] = Field(description="The examples in the order of their names.")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a stored example: height, width, 3; a subclass may have more in front."""
        return (*self.size, 3)

    @model_validator(mode="after")
    def _check_labels(self) -> "LabelledManifest":
        highest = max((example.label for example in self.examples), default=0)
        if highest >= len(self.class_names):
            raise ValueError(f"label {highest}, but {len(self.class_names)} class_names")
        return self
