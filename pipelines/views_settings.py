"""Settings shared by applications whose examples are described by views; no TensorFlow here."""

from __future__ import annotations

from pydantic import Field

from pipelines.head_settings import HeadName
from pipelines.labelled_settings import LabelledRun, LabelledTrainSettings
from pipelines.machine_settings import MachineSettings
from pipelines.view_preprocessing import ViewPreprocessing


class ViewsRun(LabelledRun):
    """Description of a run on views; ``features`` is None where it learned from the images themselves."""

    features: ViewPreprocessing | None


class ViewsTrainSettings(LabelledTrainSettings, MachineSettings):
    """Settings of a train step on views of features."""

    heads: tuple[HeadName, ...] = Field(
        default=("linear", "svgp", "hgp", "dfgp", "dfgp_mkl"),
        min_length=1,
        description="Heads to train; the report compares them all, the last one with the others. dfgp_mkl "
        "has a unit for each view of the features. Whatever order is given, it is linear, svgp, hgp, dfgp, "
        "dfgp_mkl.",
    )
    components: int = Field(
        default=50,
        ge=1,
        description="Principal components of the features, fitted on the training examples: of all views "
        "together, or for dfgp_mkl of each view.",
    )
