"""The programs of docs/recipes.md run as they stand, each in an empty folder and a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
RECIPES = {
    title: re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for title, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}


def test_each_recipe_is_one_program_that_compiles():
    assert len(RECIPES) == 5
    for title, programs in RECIPES.items():
        assert len(programs) == 1, title
        compile(programs[0], title, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("title", RECIPES)
def test_recipe_runs(title, tmp_path):
    program = tmp_path / "recipe.py"
    program.write_text(RECIPES[title][0], encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(
        [sys.executable, program.name],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if title == "Write a likelihood":
        off = [float(number) for number in re.findall(r"(?<= )[\d.e-]+", done.stdout)]
        assert len(off) == 5
        assert all(0.7 < number < 1.4 for number in off[:4])
        assert off[4] == 0.0
        return
    assert {"run", "evaluation", "bundle"} <= {path.name for path in tmp_path.iterdir()}
    assert "'serving_default/probability': 0.0" in done.stdout
