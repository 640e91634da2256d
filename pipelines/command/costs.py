"""The setting of steps that decide by costs; help imports it, so it imports nothing heavy."""

from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field

COSTS_OPTION: Final = (
    "FILE.csv",
    "What each decision costs: a row for each class, a column for each decision; or a row for each label.",
)
"""Option `--costs` of evaluate, export and predict steps."""


class CostSettings(BaseModel):
    """What the steps have alike that decide by costs."""

    costs: Path | None = Field(
        default=None,
        description="Table of what decisions cost, in any unit: a row for each true class, named in the "
        "first column, a column for each class that may be decided, and perhaps one called refer. Of "
        "several labels: a row for each, with the columns label, missed, false_alarm and perhaps refer. The "
        "decision with the least expected cost is taken. null: `predict` takes the costs of the bundle, if "
        "it has any.",
    )
