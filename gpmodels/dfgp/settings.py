"""Settings of the deep feed-forward Gaussian process; no TensorFlow here."""

from typing import Literal

from pydantic import Field

from gpmodels.heads.settings import MeanSettings, UnitSettings


class DFGPSettings(UnitSettings, MeanSettings):
    """Settings of `gpmodels.DFGPHead` in a run."""

    output_kernel: Literal["ard", "rbf", "full", "linear"] = Field(
        default="ard",
        description='Output kernel of the DFGP heads; "linear" is DFGP-WP, see docs/theory.md.',
    )
    hidden_posterior: Literal["gaussian", "point"] = Field(
        default="gaussian", description="Posterior of the DFGP heads' hidden units; the paper's is a point."
    )
    hidden_lengthscales: Literal["learned", "median"] = Field(
        default="learned",
        description="Whether the DFGP heads' hidden units learn a lengthscale for each feature or keep the "
        "median distance, which may help with few examples; choose it on the selection part.",
    )
    hidden_kl_weight: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="What the divergence of the DFGP heads' hidden units counts. Less may help with few "
        "examples, whose bound leaves views unused; choose it on the selection part.",
    )
