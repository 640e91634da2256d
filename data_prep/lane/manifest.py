"""The manifest of a prepared lane folder."""

from typing import Literal

from pydantic import Field

from data_prep.files.image_settings import KEPT_DESCRIPTION, KeptLevels
from data_prep.lane.masks import LaneCoding
from data_prep.prepared.manifest import Example, Manifest


class LaneExample(Example):
    """One image with its mask; its name is the stem of both files."""

    lane_pixels: int = Field(ge=0, description="Lane pixels at the prepared size.")
    labelled_pixels: int = Field(ge=0, description="Pixels at the prepared size that are not ignored.")


class LaneManifest(Manifest):
    """Contents of a prepared lane folder."""

    application: Literal["lane"] = Field(
        default="lane", description="The application the folder was prepared for."
    )
    coding: LaneCoding = Field(description="How mask levels became labels.")
    levels: KeptLevels | None = Field(default=None, description=KEPT_DESCRIPTION)
    examples: tuple[LaneExample, ...] = Field(description="The examples in the order of their names.")

    def describe_examples(self) -> str:
        """Return a line on how the examples are divided and on the share of lane pixels."""
        tested = sum(example.split == "test" for example in self.examples)
        parts = (
            f"{self.num_folds} folds"
            if self.num_folds
            else f"{self.num_examples - tested} for training, {tested} for judging"
        )
        lane = sum(example.lane_pixels for example in self.examples)
        labelled = sum(example.labelled_pixels for example in self.examples)
        return f"{parts}; lane is {lane / max(labelled, 1):.1%} of the labelled pixels"
