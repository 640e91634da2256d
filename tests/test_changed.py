"""`make test-changed` finds the tests that a change can break."""

from pathlib import Path

import pytest

from tests.changed import files_to_run

FILES = {
    "gpmodels/__init__.py": "",
    "gpmodels/__init__.pyi": "from .heads.base import Head\n",
    "gpmodels/heads/__init__.py": '"""Heads."""',
    "gpmodels/heads/base.py": '"""See gpmodels.units.groups."""\nfrom gpmodels.units import sparse\n',
    "gpmodels/units/sparse.py": "import numpy\n",
    "gpmodels/units/groups.py": "",
    "pipelines/cli.py": 'COMMANDS = {"train": "pipelines.steps:train"}',
    "pipelines/steps.py": "def train():\n    from gpmodels import Head\n",
    "pipelines/card.html": "",
    "tests/conftest.py": "",
    "tests/tiny.py": "from pipelines import steps\n",
    "tests/gpmodels/conftest.py": "from gpmodels.units import groups\ndef points(): ...\n",
    "tests/gpmodels/test_sparse.py": "from gpmodels.units.sparse import marginal\n",
    "tests/gpmodels/test_groups.py": "def test_it(points): ...\n",
    "tests/pipelines/test_cli.py": "import pipelines.cli\n",
    "tests/pipelines/test_steps.py": "from .. import tiny\n",
    "tests/benchmarks_peers/test_peers.py": "import gpmodels.units.sparse\n",
    "tests/test_docs.py": "",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("gpmodels/units/sparse.py", ["gpmodels/test_sparse", "pipelines/test_cli", "pipelines/test_steps"]),
        ("gpmodels/units/groups.py", ["gpmodels/test_groups"]),  # by a fixture
        ("pipelines/card.html", ["pipelines/test_cli", "pipelines/test_steps"]),
        ("tests/pipelines/test_cli.py", ["pipelines/test_cli"]),
        ("tests/tiny.py", ["pipelines/test_steps"]),
        ("gpmodels/units/gone.py", []),
        ("README.md", ["test_docs"]),
    ],
)
def test_tests_are_found_by_imports_strings_and_fixtures(checkout, changed, tests):
    assert files_to_run({changed}, checkout) == [f"tests/{name}.py" for name in tests]


def test_what_is_gone_leads_to_those_who_need_it(checkout):
    (checkout / "gpmodels/units/sparse.py").unlink()
    assert files_to_run({"gpmodels/units/sparse.py"}, checkout)[0] == "tests/gpmodels/test_sparse.py"
