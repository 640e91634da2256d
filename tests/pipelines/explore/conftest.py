"""A folder of handwritten digits as pictures, two of them under a wrong label, and a look at it."""

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from sklearn.datasets import load_digits

from pipelines.explore.settings import ExploreSettings
from pipelines.explore.steps import ExploredInputs, explore

QUICK = ExploreSettings(size=(8, 8), num_dimensions=4, max_iterations=30, shown=6, neighbours=7)
WRONG = ("three/wrong & <b>bold<b>.png", "zero/wrong.png")
SPECIAL = WRONG[0]
BROKEN = "zero/broken.png"


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """Sixty zeros and threes in two class folders, of which two are in the wrong one, and a damaged file."""
    folder = tmp_path_factory.mktemp("digits") / "digits"
    data = load_digits()
    for digit, name in ((0, "zero"), (3, "three")):
        (folder / name).mkdir(parents=True)
        for number, levels in enumerate(data.images[data.target == digit][:30]):
            Image.fromarray((levels * 15.9).astype(np.uint8)).save(folder / name / f"{number:02d}.png")
    (folder / "zero" / "29.png").rename(folder / WRONG[0])
    (folder / "three" / "29.png").rename(folder / WRONG[1])
    (folder / BROKEN).write_bytes(b"no image")
    return folder


@pytest.fixture(scope="session")
def explored(digits, tmp_path_factory):
    """The folder that an exploration of the digits wrote."""
    out = tmp_path_factory.mktemp("explored") / "out"
    predictions = digits.parent / "predictions.csv"
    rows = [f"{digits}/zero/{number:02d}.png,zero,0.{90 - number}" for number in range(20)]
    rows += [f"{digits}/three/{number:02d}.png,zero,0.8" for number in range(2)]
    predictions.write_text("\n".join(["file,label,probability of zero", *rows]) + "\n", encoding="utf-8")
    explore(QUICK, ExploredInputs(data=digits, predictions=predictions), out=out, console=Console(quiet=True))
    return out
