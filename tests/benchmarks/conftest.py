"""The benchmarks are no installed package: they are imported from the checkout."""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))


@pytest.fixture
def data_folder(tmp_path: Path) -> Path:
    """A folder with a small set of two classes and a small regression set."""
    folder = tmp_path / "data"
    folder.mkdir()
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((60, 2))
    np.savez(folder / "halves.npz", X=inputs, y=(inputs[:, 0] > 0).astype(int))
    np.savez(folder / "slope.npz", X=inputs, y=inputs[:, 0] + 0.1 * rng.standard_normal(60))
    return folder
