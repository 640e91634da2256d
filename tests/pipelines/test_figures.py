from xml.etree import ElementTree as ET

import matplotlib as mpl

from pipelines.figures import (
    confusion_figure,
    referral_figure,
    reliability_figure,
    risk_coverage_figure,
    uncertainty_figure,
)


def _is_svg(text):
    return ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - our own text


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


def test_nothing_to_draw_gives_no_figure(perfect_evaluation):
    assert _is_svg(reliability_figure(perfect_evaluation.results))
    assert risk_coverage_figure(perfect_evaluation.results) is None
    assert referral_figure(perfect_evaluation.results) is None
    assert uncertainty_figure(perfect_evaluation.results[0]) is None


def test_global_settings_are_left_alone(evaluation):
    before = dict(mpl.rcParams)
    reliability_figure(evaluation.results)
    assert dict(mpl.rcParams) == before
