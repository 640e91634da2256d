"""The list of benchmarks names every one, and each is run in the one way there is."""

import re

import pytest

from benchmarks.__main__ import benchmarks
from tests.benchmarks.conftest import ROOT

SOURCES = sorted((ROOT / "benchmarks").rglob("*.py"))
TEXTS = [*SOURCES, *(ROOT / "benchmarks").glob("*.sh"), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_every_benchmark_is_listed_with_what_it_measures():
    listed = benchmarks()
    assert {"tabular", "sonar", "head_speed", "video_heads"} <= listed.keys()
    assert "common" not in listed
    assert all(purpose.endswith((".", ":")) or " " in purpose for purpose in listed.values())


@pytest.mark.parametrize("name", benchmarks())
def test_docstring_shows_how_to_run_it(name):
    (source,) = [path for path in SOURCES if path.stem == name or path.match(f"{name}/__main__.py")]
    assert f"python -m benchmarks.{name}" in source.read_text(encoding="utf-8")


def test_nothing_names_another_way_to_run_them():
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"python3? \S*benchmarks/|sys\.path", text), path
