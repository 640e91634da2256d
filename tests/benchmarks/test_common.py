import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.common import host, peak_memory, resident_memory

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json
import numpy as np
from benchmarks.common import peak_memory
before = peak_memory()
np.ones(25_000_000)
print(json.dumps([before, peak_memory()]))
"""


def test_peak_memory_grows_with_what_is_used_and_is_not_inherited():
    block = np.ones(60_000_000)  # 458 MiB that are not the child's
    child = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, cwd=ROOT
    )
    del block
    before, after = json.loads(child.stdout)
    assert 5.0 < before < 300.0
    assert before + 150.0 < after < before + 250.0


def test_host_names_the_peers_that_are_installed():
    description = host("scikit-learn", "no-such-package")
    assert "scikit-learn" in description
    assert "no-such-package" not in description


def test_resident_memory_falls_when_memory_is_given_back():
    block = np.ones(30_000_000)  # 229 MiB
    full = resident_memory()
    del block
    assert full - resident_memory() > 150.0
    assert peak_memory() > full - 1.0
