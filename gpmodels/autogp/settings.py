"""Settings of the AutoGP head; no TensorFlow here."""

from typing import Literal

from pydantic import Field

from gpmodels.heads.settings import MeanSettings, UnitSettings


class AutoGPSettings(UnitSettings, MeanSettings):
    """Settings of an AutoGP head in a run, in the table `autogp`."""

    num_components: int = Field(
        default=1, ge=1, description="Gaussians in the posterior's mixture; 1 is enough for class labels."
    )
    posterior: Literal["full", "diagonal"] = Field(
        default="full", description="Covariance of each Gaussian; diagonal is faster and loses a little."
    )
