"""Every module of the three packages can be imported, with the oldest versions of what they need too.

Continuous integration runs this file alone with the lowest versions of pyproject.toml and on another Python.
"""

from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in ("gpmodels", "data_prep", "pipelines")
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.stem != "__main__"  # which runs the command
]


@pytest.mark.parametrize("module", MODULES)
def test_module_can_be_imported(module):
    import_module(module)


def test_modules_are_found():
    assert {"gpmodels", "gpmodels.registry", "data_prep.errors", "pipelines.runs.job"} <= set(MODULES)
