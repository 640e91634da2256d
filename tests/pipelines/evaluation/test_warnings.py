"""What a reader of an evaluation must know."""

import html
import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from data_prep.prepared.manifest import Manifest
from pipelines.evaluation import evaluate as evaluating
from pipelines.evaluation import warnings as reader_warnings
from pipelines.evaluation.evaluate import write_evaluation
from pipelines.evaluation.warnings import (
    chance_warnings,
    kind_warnings,
    unfamiliar_warnings,
    unfinished_warnings,
)
from pipelines.scores.classification import classification_record
from pipelines.scores.report import Gallery
from pipelines.scores.results import classification_result


def job(*trained: str) -> SimpleNamespace:
    settings = SimpleNamespace(heads=("linear", "svgp", "hgp"))
    return SimpleNamespace(settings=settings, run=SimpleNamespace(heads=trained), folder=Path("run"))


def test_heads_that_an_unfinished_training_lacks_are_named():
    (warning,) = unfinished_warnings(job("linear"))
    assert warning.startswith("The training of run is not finished: svgp, hgp of 3 heads are missing.")
    assert unfinished_warnings(job("linear", "svgp", "hgp")) == ()


@pytest.mark.parametrize(
    ("kept", "says"),
    [({"kinds": ()}, True), ({"kinds": ("grey",)}, False), ({}, False)],
    ids=["colours", "grey", "of an earlier version"],
)
def test_judged_images_of_another_kind_are_named(kept, says):
    run = SimpleNamespace(kinds=("grey",))
    warnings = kind_warnings(run, Manifest.model_construct(**kept))
    assert [text[:36] for text in warnings] == ["All images of the training were grey"] * says


def test_an_auroc_of_few_images_of_another_kind_is_called_rough():
    (warning,) = unfamiliar_warnings(1)
    assert warning.startswith("With only 1 images of another kind")
    assert unfamiliar_warnings(None) == unfamiliar_warnings(1_000) == ()


@pytest.mark.parametrize(("sure", "says"), [(0.5, True), (0.3, True), (0.9, False)])
def test_methods_that_tell_no_more_than_the_shares_of_the_classes_are_named(sure, says):
    """Each true class gets the probability `sure`; of one class alone nothing can be told."""
    labels = np.arange(20) % 2
    probability = np.where(labels[:, None] == np.arange(2), sure, 1.0 - sure)

    def result(chosen):
        entropy = {"predictive_entropy": np.array([0.5])}
        numbers = np.flatnonzero(chosen)
        records = [classification_record(f"{n}", labels[[n]], probability[[n]], entropy) for n in numbers]
        return classification_result("HGP", records)

    warnings = chance_warnings([result(labels >= 0)], "images")
    assert [text[:38] for text in warnings] == ["No method predicts these images better"] * says
    assert chance_warnings([result(labels == 1)], "images") == ()
    assert chance_warnings([], "images") == ()


def test_what_the_report_warns_of_is_on_the_console_once(evaluation, tmp_path):
    """The page, `metrics.json` and the console take one list, so that none of them lacks a new warning."""
    said: list[str] = []
    job = SimpleNamespace(
        application=SimpleNamespace(title="Lane"),
        console=Console(quiet=True),
        say=lambda text, **_: said.append(text),
    )
    write_evaluation(job, evaluation, Gallery(), tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    lists = re.findall(r'<div class="warnings"><ul>(.*?)</ul>', page, re.DOTALL)
    warned = [html.unescape(text) for text in re.findall(r"<li>(.*?)</li>", "".join(lists), re.DOTALL)]
    assert len(lists) == 1
    assert warned
    assert [said.count(f"Warning: {text}") for text in warned] == [1] * len(warned)


def test_evaluate_asks_for_every_warning():
    functions = dict(inspect.getmembers(reader_warnings, inspect.isfunction))
    names = [name for name in functions if name.endswith("_warnings")]
    source = inspect.getsource(evaluating)
    assert len(names) > 8
    assert [name for name in names if f"*{name}(" not in source] == []
