"""A bundle serves in a process with TensorFlow alone, and the benchmark notices what would be wrong."""

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.serving.__main__ import SCRIPT, measure, rows_of
from benchmarks.serving.alone import slope
from tests.kept.conftest import kept  # noqa: F401 - a fixture


@pytest.mark.slow
def test_a_kept_bundle_serves_alone_and_equally(kept):  # noqa: F811 - pytest's way of naming a fixture
    arguments = ("--requests", "40", "--batches", "1", "3")
    result = measure(Path(sys.executable), kept("lane") / "bundle", *arguments)
    assert {name.split("/")[0] for name in result["sample"]} == {"serving_default", "serve_bytes"}
    assert max(result["sample"].values()) < 1e-3
    assert [row["images a request"] for row in rows_of(result)] == [1, 3]
    assert all(measured["largest_difference"] < 1e-5 for measured in result["batches"].values())


@pytest.mark.slow
def test_a_bundle_that_is_none_ends_with_the_reason(tmp_path):
    with pytest.raises(SystemExit, match="could not serve"):
        measure(Path(sys.executable), tmp_path, "--requests", "1")


def test_the_script_names_no_package_of_the_project():
    lines = SCRIPT.read_text(encoding="utf-8").splitlines()
    imports = [line.split()[1].split(".")[0] for line in lines if line.startswith(("import ", "from "))]
    assert not {"gpmodels", "data_prep", "pipelines", "benchmarks"} & set(imports)


def test_slope_is_the_growth_in_a_minute_with_its_error():
    seconds = np.arange(0.0, 60.0, 0.5)
    growth, error = slope(list(seconds), list(700.0 + 0.1 * seconds))
    assert growth == pytest.approx(6.0)
    assert error < 1e-6
    noise = np.random.default_rng(0).normal(size=len(seconds))
    growth, error = slope(list(seconds), list(700.0 + noise))
    assert abs(growth) < 3.0 * error
