import time
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest

from pipelines.scores.classification import classification_record
from pipelines.scores.figures import (
    confusion_figure,
    figure_style,
    referral_figure,
    reliability_figure,
    risk_coverage_figure,
    uncertainty_figure,
)
from pipelines.scores.results import MethodResult, classification_result


def _is_svg(text):
    return ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - our own text


@pytest.mark.slow
def test_figures_are_drawn_alike_each_time(evaluation):
    for draw in (reliability_figure, risk_coverage_figure, referral_figure):
        first = draw(evaluation.results)
        assert _is_svg(first)
        assert first == draw(evaluation.results)
        assert first != draw(evaluation.results[:2])
    names = ("background", "lane & <kerb>")
    assert _is_svg(confusion_figure(evaluation.results[-1], names))
    assert _is_svg(uncertainty_figure(evaluation.results[-1]))
    assert uncertainty_figure(evaluation.results[-1]) != uncertainty_figure(evaluation.results[0])


def test_threads_draw_one_at_a_time_and_leave_no_style_behind():
    before = dict(mpl.rcParams)
    drawing = []

    def most_at_once(number):
        with figure_style():
            drawing.append(number)
            time.sleep(0.002)
            found = len(drawing)
            drawing.remove(number)
            return found, mpl.rcParams["text.parse_math"]

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(most_at_once, range(12))) == [(1, False)] * 12
    assert dict(mpl.rcParams) == before


def _few_snapshots(name: str) -> MethodResult:
    """A method on 60 snapshots of three classes, whose shares span about a decade."""
    random = np.random.default_rng(2)
    records = []
    for index in range(60):
        label = index % 3
        probability = random.dirichlet(np.where(np.arange(3) == label, 2.0, 1.0))
        entropy = -(probability * np.log(probability)).sum()
        uncertainty = {"predictive_entropy": np.array([entropy])}
        records.append(classification_record(str(index), np.array([label]), probability[None], uncertainty))
    return classification_result(name, records)


def test_labels_of_logarithmic_axes_are_percent_for_few_examples_too():
    result = _few_snapshots("HGP")
    for figure in (reliability_figure([result]), uncertainty_figure(result)):
        assert "mathdefault" not in figure
        assert "<!-- 10% -->" in figure


def test_nothing_to_draw_gives_no_figure(perfect_evaluation):
    assert _is_svg(reliability_figure(perfect_evaluation.results))
    assert risk_coverage_figure(perfect_evaluation.results) is None
    assert referral_figure(perfect_evaluation.results) is None
    assert uncertainty_figure(perfect_evaluation.results[0]) is None


def test_global_settings_are_left_alone(evaluation):
    before = dict(mpl.rcParams)
    reliability_figure(evaluation.results)
    assert dict(mpl.rcParams) == before
