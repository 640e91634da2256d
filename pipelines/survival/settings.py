"""Settings of `histopathology survival`; importing them needs no TensorFlow."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from data_prep.splits.settings import Seed

ModelName = Literal["constant", "linear", "svgp", "hgp", "dfgp", "dfgp_mkl", "cox"]


class SurvivalSettings(BaseModel):
    """Settings of `histopathology survival`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    models: tuple[ModelName, ...] = Field(
        default=("constant", "linear", "svgp", "hgp", "dfgp", "dfgp_mkl", "cox"),
        min_length=1,
        description="Models to compare: the mean of the training patients, Bayesian ridge regression, sparse "
        "GP, hierarchical GP, deep feed-forward GP, the same with a unit for each view, and Cox' "
        "proportional hazards on each patient's mean features.",
    )
    folds: int = Field(default=5, ge=2, description="Parts of the patients for cross-validation.")
    repeats: int = Field(
        default=1,
        ge=1,
        description="How often the patients are divided in another way, for a better estimate of the spread.",
    )
    train_on_one: bool = Field(
        default=False,
        description="Train on one part and judge on the others, instead of the other way round: with 4 folds "
        "the quarter of the data that the paper trains on.",
    )
    components: int = Field(
        default=50,
        ge=1,
        description="Principal components of the features, fitted on the training patches: of all views "
        "together, or for dfgp_mkl of each view.",
    )
    num_inducing: int = Field(
        default=10, ge=1, description="Inducing points of each GP (the paper's number)."
    )
    max_iterations: int = Field(
        default=100, ge=1, description="Training iterations of each GP model (the paper's number)."
    )
    cox_penalty: float = Field(
        default=1.0, ge=0, description="Weight of the squared coefficients in Cox' partial likelihood."
    )
    seed: Seed = Field(default=0, description="Seed of the division and of the models.")

    @field_validator("models")
    @classmethod
    def _check_models(cls, value: tuple[ModelName, ...]) -> tuple[ModelName, ...]:
        if len(set(value)) < len(value):
            raise ValueError("names a model twice")
        return value

    @model_validator(mode="after")
    def _check_division(self) -> Self:
        if self.train_on_one and self.folds == 2:
            raise ValueError("with 2 folds train_on_one changes nothing; use more folds")
        return self
