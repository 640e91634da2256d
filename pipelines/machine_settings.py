"""Which support vector machines a run compares with its heads; no TensorFlow here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, field_validator

MachineName = Literal["linear_svm", "rbf_svm"]


class MachineSettings(BaseModel):
    """The setting of a train step for fixed features."""

    machines: tuple[MachineName, ...] = Field(
        default=("linear_svm", "rbf_svm"),
        description="On fixed features: support vector machines to compare with, as in thesis table 4.4. "
        "The one with an RBF kernel takes long for more than some thousand examples.",
    )

    @field_validator("machines")
    @classmethod
    def _check_machines(cls, machines: tuple[MachineName, ...]) -> tuple[MachineName, ...]:
        if len(set(machines)) < len(machines):
            raise ValueError("a machine is named twice")
        return machines
