"""Many tests here fit random labels, which teach nothing; `test_learned.py` expects the warning."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore the warning of a fit that learned nothing."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(
                pytest.mark.filterwarnings("ignore:.* has learned nothing:UserWarning"), append=False
            )
