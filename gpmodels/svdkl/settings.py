"""Settings of the SVDKL head; no TensorFlow here."""

from pydantic import Field

from gpmodels.heads.settings import UnitSettings


class SVDKLSettings(UnitSettings):
    """Settings of an SVDKL head in a run, in the table `svdkl`."""

    num_gps: int | None = Field(
        default=None,
        ge=1,
        description="Gaussian processes, each on as many of the features in turn; null takes one for each "
        "feature, at most 32.",
    )
    num_inducing: int = Field(default=20, ge=1, description="Inducing points of each Gaussian process.")
