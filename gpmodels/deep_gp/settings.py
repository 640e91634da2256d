"""Settings of the deep Gaussian process head; no TensorFlow here."""

from pydantic import Field

from gpmodels.heads.settings import LayerSettings, UnitSettings


class DeepGPSettings(UnitSettings, LayerSettings):
    """Settings of `gpmodels.DeepGPHead` in a run."""

    num_inducing: int = Field(default=100, ge=1, description="Inducing points of each layer.")
