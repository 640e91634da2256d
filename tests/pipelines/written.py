"""What tests read of what a step wrote."""

import csv
from pathlib import Path


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a table by its columns."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
