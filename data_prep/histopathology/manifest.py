"""The manifest of a prepared histopathology folder; loads without TensorFlow."""

from typing import Literal, Self

from pydantic import Field, model_validator

from data_prep.histopathology.settings import PatchSettings
from data_prep.labelled.view_manifest import ViewExample, ViewsManifest


class HistopathologyExample(ViewExample):
    """One patch; its height and width are those in its image."""

    patient: str = Field(description="Whose tissue it is; where the table names none, the group.")
    months: float | None = Field(
        default=None, gt=0, description="Time that the patient was observed, where the table says it."
    )
    event: bool | None = Field(
        default=None, description="Whether the patient died at that time; otherwise observation ended."
    )


class HistopathologyManifest(ViewsManifest):
    """Contents of a prepared folder of patches of tissue."""

    application: Literal["histopathology"] = Field(
        default="histopathology", description="The application the folder was prepared for."
    )
    patches: PatchSettings = Field(description="How images were cut, for images to predict on.")
    examples: tuple[HistopathologyExample, ...] = Field(
        description="The patches in the order of their names."
    )

    @model_validator(mode="after")
    def _check_survival(self) -> Self:
        if len({(example.months is None, example.event is None) for example in self.examples}) > 1:
            raise ValueError("some examples have months and event and others lack them")
        return self

    @property
    def has_survival(self) -> bool:
        """Whether months and event of each patient are known."""
        return self.examples[0].months is not None

    def patient_warnings(self) -> tuple[str, ...]:
        """Return a warning if the data do not say which images belong to the same patient."""
        if any(example.group != example.source for example in self.examples):
            return ()
        alone = (
            "nothing says which images are of one patient, so each counts as a patient of its own. If that "
            "is not so, scores will flatter: give patients in the table of labels, or group_pattern."
        )
        return (alone,)
