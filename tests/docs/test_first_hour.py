"""The notebook examples/first_hour.ipynb was run from its first cell to its last, and runs as it stands."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "first_hour.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
PROGRAMS = [cell for cell in CELLS if cell["cell_type"] == "code"]
QUICK = (
    'out="run", heads=["linear"], out_of_fold=False, selection_fraction=0.5, pretraining_epochs=10, '
    "head_epochs=2, panel_images=1)"
)
STAND_IN = """
import numpy as np

def load_dataset():
    rng = np.random.default_rng(0)
    defective = rng.random(70) < 0.5
    images = rng.integers(0, 60, (70, 48, 48)) + np.where(defective, 40, 150)[:, None, None]
    return images.astype(np.uint8), np.where(defective, 1.0, 1 / 3), np.full(70, "mono")
"""


def test_its_outputs_are_those_of_one_run_without_an_error():
    assert [cell["execution_count"] for cell in PROGRAMS] == list(range(1, len(PROGRAMS) + 1))
    outputs = [output for cell in PROGRAMS for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data"}
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    assert not re.search(r"/(root|home|tmp|work)/|Traceback", NOTEBOOK.read_text(encoding="utf-8"))
    assert NOTEBOOK.stat().st_size < 300_000


def test_the_script_asks_for_what_the_notebook_asks_for():
    script = (ROOT / "examples" / "solar_cells.sh").read_text(encoding="utf-8")
    sources = "\n".join("".join(cell["source"]) for cell in PROGRAMS)
    for name, value in (("LABELLED", "300"), ("MAX_ERROR", "0.15")):
        assert f"{name} = {value}\n" in sources
        assert f"${{{name}:-{value}}}" in script
    for step in ("prepare", "train", "evaluate", "export"):
        assert f"gpimaging.classify.{step}(" in sources
        assert f"gpimaging classify {step} " in script


@pytest.mark.slow
def test_its_cells_run_on_other_images(tmp_path):
    (tmp_path / "elpv_dataset").mkdir()
    (tmp_path / "elpv_dataset" / "__init__.py").touch()  # it comes before an installed one
    (tmp_path / "elpv_dataset" / "utils.py").write_text(STAND_IN, encoding="utf-8")
    program = "\n".join("".join(cell["source"]) for cell in PROGRAMS)
    for written, quick in (
        ("LABELLED = 300", "LABELLED = 60"),
        ('out="run")', QUICK),
        ("MAX_ERROR = 0.15", "MAX_ERROR = 0.3"),
    ):
        assert written in program
        program = program.replace(written, quick, 1)
    (tmp_path / "notebook.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "notebook.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"all new cells: 100\.0% right", done.stdout)
