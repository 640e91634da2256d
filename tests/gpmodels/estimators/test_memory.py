"""Memory of a fit to many rows: a few copies of the data, never a matrix of rows by inducing points."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("fit_many_rows.py")


@pytest.mark.slow
def test_a_million_rows_fit_into_memory():
    """A matrix of 10⁶ rows by 50 inducing points alone would be 400 MB, and L-BFGS needs a dozen of them."""
    finished = subprocess.run(
        [sys.executable, str(SCRIPT), "1000000", "8"], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    result = json.loads(finished.stdout.splitlines()[-1])
    assert 1 <= result["iterations"] <= 20
    assert result["rows"] == 1_000_000
    assert result["data"] == 72_000_000
    assert result["growth"] < 0.4e9, result
