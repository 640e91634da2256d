"""JSON files that nobody has checked."""

import json
from pathlib import Path
from typing import Any


def read_json(path: Path) -> Any:
    """Return what a JSON file holds.

    Args:
        path: File to read.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no JSON, or JSON that is nested too deeply or has numbers of thousands of digits.

    Example:
        >>> read_json(Path("metrics.json"))["methods"]  # doctest: +SKIP
    """
    return parse_json(path.read_bytes())


def parse_json(text: str | bytes) -> Any:
    """Return what a JSON text holds.

    Raises:
        ValueError: As `read_json`.

    Example:
        >>> parse_json('{"a": [1, 2]}')
        {'a': [1, 2]}
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
