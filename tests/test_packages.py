"""The three packages as a whole: what imports what, and how quickly the command line can answer."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("gpmodels", "data_prep", "pipelines")
FORBIDDEN = {
    "gpmodels": {"data_prep", "pipelines"},
    "data_prep": {"gpmodels", "pipelines"},
    "pipelines": set(),
}


def _imported_packages(source: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package):
    sources = sorted((ROOT / package).rglob("*.py"))
    assert sources
    for source in sources:
        wrong = _imported_packages(source.read_text(encoding="utf-8")) & FORBIDDEN[package]
        assert not wrong, f"{source.relative_to(ROOT)} imports {sorted(wrong)}"


@pytest.mark.parametrize("package", ["data_prep", "pipelines"])
def test_importing_a_package_leaves_tensorflow_alone(package):
    program = f"import sys, {package}; sys.exit('tensorflow' in sys.modules or 'gpflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
