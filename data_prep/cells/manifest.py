"""The manifest of a prepared folder of candidates for cell events; loads without TensorFlow."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from data_prep.cells.settings import CandidateSettings
from data_prep.labelled.view_manifest import ViewExample, ViewsManifest


class CellExample(ViewExample):
    """A candidate; its height and width are those of its patch, its source is its sequence."""

    frame: int = Field(ge=0, description="Number of the later of the two frames, as annotations count.")
    x: float = Field(description="Column of the centroid of what changed, in pixels.")
    y: float = Field(description="Row of the centroid of what changed, in pixels.")
    area: int = Field(gt=0, description="Number of changed pixels.")


class SequenceFacts(BaseModel):
    """A sequence that candidates were taken from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="Name of the sequence.")
    frames: int = Field(gt=0, description="Number of its frames.")
    height: int = Field(gt=0, description="Height of its frames, in pixels.")
    width: int = Field(gt=0, description="Width of its frames, in pixels.")
    candidates: int = Field(ge=0, description="Number of candidates found.")
    annotations: int = Field(ge=0, description="Number of annotated events.")
    matched: int = Field(
        ge=0, description="Of these, how many have a candidate. No classifier can find the others."
    )
    left_out: int = Field(
        ge=0,
        description="Candidates near a matched annotation that are not its own: neither event nor none.",
    )


class CellsManifest(ViewsManifest):
    """Contents of a prepared folder of candidates for cell events."""

    application: Literal["cells"] = Field(
        default="cells", description="The application the folder was prepared for."
    )
    examples: tuple[CellExample, ...] = Field(description="The candidates in the order of their names.")
    sequences: tuple[SequenceFacts, ...] = Field(description="The sequences in the order of their names.")

    @property
    def candidate_settings(self) -> CandidateSettings:
        """Settings by which the candidates were found and described."""
        return CandidateSettings.model_validate(
            {name: self.settings[name] for name in CandidateSettings.model_fields}
        )

    def describe_reachable(self) -> str:
        """Return a sentence on how many annotated events have a candidate, which bounds every recall."""
        annotated = sum(sequence.annotations for sequence in self.sequences)
        matched = sum(sequence.matched for sequence in self.sequences)
        return (
            f"{matched} of {annotated} annotated events have a candidate: recall cannot be above "
            f"{matched / max(annotated, 1):.3f}, and most scores are among candidates"
        )
