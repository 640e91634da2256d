"""What a reader of an evaluation must know."""

from pathlib import Path
from types import SimpleNamespace

from pipelines.evaluation.warnings import unfinished_warnings


def job(*trained: str) -> SimpleNamespace:
    settings = SimpleNamespace(heads=("linear", "svgp", "hgp"))
    return SimpleNamespace(settings=settings, run=SimpleNamespace(heads=trained), folder=Path("run"))


def test_heads_that_an_unfinished_training_lacks_are_named():
    (warning,) = unfinished_warnings(job("linear"))
    assert warning.startswith("The training of run is not finished: svgp, hgp of 3 heads are missing.")
    assert unfinished_warnings(job("linear", "svgp", "hgp")) == ()
