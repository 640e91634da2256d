"""The setting that says what runs the network of a bundle; help imports it, so nothing heavy is imported."""

from typing import Final, Literal, Self

from pydantic import BaseModel, Field, model_validator

_OF_FLOAT32: Final = ("max_error", "max_false", "refer", "refer_above", "coverage")
"""Settings whose thresholds come from predictions of held-out data by the network in float32."""


class RuntimeSettings(BaseModel):
    """Settings of predict steps that give their network images of its own size."""

    runtime: Literal["tensorflow", "int8"] | None = Field(
        default=None,
        description="What runs the network: `tensorflow`, or `int8` for `network_int8.tflite` of the bundle, "
        "which is faster and gives other probabilities; null takes `network.tflite` where the bundle has it "
        "and the extra `litert` is installed, and TensorFlow elsewhere, with the same probabilities.",
    )

    @model_validator(mode="after")
    def _check_int8(self) -> Self:
        given = [name for name in _OF_FLOAT32 if getattr(self, name, None) not in {None, ()}]
        if self.runtime == "int8" and given:
            raise ValueError(
                f"{' and '.join(given)} cannot be kept by int8: thresholds are those of the network "
                "in float32. Leave one of them out"
            )
        return self
