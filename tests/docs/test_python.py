"""The programs of docs/python.md run one after the other as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from data_prep.files.images import write_picture

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
CHECK = """
import cv2

files = sorted(table["file"])
arrays = model.predict([cv2.imread(file)[..., ::-1] for file in files])
again = model.predict(files)
np.testing.assert_array_equal(arrays["predictive_entropy"], again["predictive_entropy"])
assert set(arrays["label"]) <= {"dark", "light"} and arrays["familiarity"].dtype == float
assert np.mean(classifier.predict(x) == y) > 0.9
"""


def write_images(folder: Path) -> None:
    """Write 16 images of each of two classes, and two new ones."""
    rng = np.random.default_rng(0)
    for number in range(16):
        for name, level in (("dark", 40), ("light", 150)):
            image = rng.integers(level, level + 60, (48, 48, 3)).astype(np.uint8)
            write_picture(folder / "images" / name / f"{number:02d}.png", image)
            if number < 1:
                write_picture(folder / "new_images" / f"{int(level > 100)}.png", image[::-1])


def test_the_page_has_three_programs_that_compile():
    assert len(PROGRAMS) == 3
    for number, program in enumerate(PROGRAMS):
        compile(program, str(number), "exec")


@pytest.mark.slow
def test_the_page_runs_and_arrays_give_what_files_give(tmp_path):
    write_images(tmp_path)
    program = tmp_path / "page.py"
    program.write_text("\n".join([*PROGRAMS, CHECK]), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program.name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Take the" in done.stdout
