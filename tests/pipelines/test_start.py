"""`predict` starts without the libraries that training alone needs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

APPLICATIONS = ("lane", "classify", "sonar", "cells")

BY_LITERT = ("classify.label_prediction", "measure.prediction", "sonar.predict_command")

TRAINING = ("gpflow", "tensorflow_probability", "pipelines.runs.train", "gpmodels.hybrid.model")


@pytest.mark.slow
def test_predict_imports_nothing_of_the_training() -> None:
    imports = [f"pipelines.{name}.{part}" for part in ("commands", "prediction") for name in APPLICATIONS]
    by_litert = [f"pipelines.{name}" for name in BY_LITERT]
    program = (
        f"import json, sys, {', '.join(by_litert)};"
        "assert not {'tensorflow', 'scipy.stats', 'scipy.optimize'} & sys.modules.keys();"
        f"import {', '.join(imports)};"
        f"print(json.dumps([name for name in {TRAINING!r} if name in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []
