"""Scores of numbers against their definitions, and what intervals by groups hold."""

from datetime import UTC, datetime

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from data_prep.errors import InputError
from data_prep.measure.scale import TargetScale
from pipelines.scores.metrics import metrics_content
from pipelines.scores.number_figures import scatter_picture
from pipelines.scores.numbers import NORMAL_FACTORS, HeldOutNumbers, number_record, number_result
from pipelines.scores.report import Gallery, render_report
from pipelines.scores.results import Evaluation

PLAIN = TargetScale(unit="mm", centre=5.0, spread=2.0, lowest=-9.0, highest=99.0)
LOG = TargetScale(transform="log", offset=0.5, centre=1.0, spread=0.7, lowest=0.0, highest=99.0)


def distribution(scale: TargetScale, mean: float, deviation: float):
    """The predicted distribution of a number in its unit, as SciPy has it."""
    centre, spread = scale.centre + scale.spread * mean, scale.spread * deviation
    if scale.transform == "none":
        return scipy.stats.norm(centre, spread)
    return scipy.stats.lognorm(spread, -scale.offset, np.exp(centre))


@pytest.mark.parametrize("scale", [PLAIN, LOG])
@pytest.mark.parametrize("value", [0.3, 4.0, 20.0])
def test_a_record_is_of_the_predicted_distribution(scale, value):
    row = number_record("a", "g", value, (0.4, 0.36), NORMAL_FACTORS, scale).row
    truth = distribution(scale, 0.4, 0.6)
    assert row["nll"] == pytest.approx(-truth.logpdf(value))
    assert row["mean"] == pytest.approx(truth.mean())
    grid = np.linspace(truth.ppf(1e-7) - 30.0, truth.ppf(1.0 - 1e-7) + 30.0, 400_001)
    crps = scipy.integrate.trapezoid(np.square(truth.cdf(grid) - (grid >= value)), grid)
    assert row["crps"] == pytest.approx(crps, rel=1e-3, abs=1e-4)
    np.testing.assert_allclose(row["lower"], truth.ppf([0.25, 0.1, 0.05, 0.025]))
    np.testing.assert_allclose(row["upper"], truth.ppf([0.75, 0.9, 0.95, 0.975]))
    assert row["pit"].argmax() == min(int(10 * truth.cdf(value)), 9)


def result_of(seed: int = 0, widened: float = 1.0):
    rng = np.random.default_rng(seed)
    value = rng.normal(5.0, 2.0, 2000)
    mean = value + rng.normal(0.0, 0.5, 2000)
    variance = (0.25 * widened) ** 2
    records = [
        number_record(str(i), f"g{i % 40}", v, ((m - 5.0) / 2.0, variance), NORMAL_FACTORS, PLAIN)
        for i, (v, m) in enumerate(zip(value.tolist(), mean.tolist(), strict=True))
    ]
    return number_result("one", records), value, mean


def test_scores_are_those_of_their_definitions():
    result, value, mean = result_of()
    assert result.scores["rmse"] == pytest.approx(np.sqrt(np.mean((value - mean) ** 2)))
    assert result.scores["mae"] == pytest.approx(np.abs(value - mean).mean())
    assert result.scores["r2"] == pytest.approx(1.0 - np.mean((value - mean) ** 2) / value.var())
    assert result.scores["coverage_error_90"] < 0.02
    for interval in result.intervals():
        assert interval["covered"] == pytest.approx(interval["coverage"], abs=0.03)
    assert result.intervals()[2]["width"] == pytest.approx(2 * 1.645 * 0.5, rel=1e-3)
    errors = [group["mae"] for group in result.groups]
    assert len(errors) == 40
    assert errors == sorted(errors, reverse=True)
    assert sum(group["examples"] for group in result.groups) == 2000


def test_wrong_widths_cost_likelihood():
    good = result_of()[0].scores
    for widened in (0.3, 3.0):
        assert result_of(widened=widened)[0].scores["nll"] > good["nll"] + 0.3


@pytest.mark.slow
def test_reports_show_intervals_and_groups_in_the_unit():
    result = result_of()[0]
    evaluation = Evaluation("measure", (result,))
    page = render_report("Images by number", evaluation, Gallery(), datetime(2026, 1, 1, tzinfo=UTC))
    for text in (
        "Do the intervals hold?",
        "Within 90 %",
        "Errors by group",
        "in the unit, mm",
        "standardised: mean 5 mm",
    ):
        assert text in page
    assert "Reliability diagram" not in page
    content = metrics_content(evaluation)
    (method,) = content["methods"].values()
    assert [one["coverage"] for one in method["intervals"]] == [0.5, 0.8, 0.9, 0.95]
    assert len(method["groups"]) == 40
    assert scatter_picture(result).ndim == 3


def held_out(rng: np.random.Generator, groups: int, size: int = 5) -> HeldOutNumbers:
    """Predictions whose errors are larger than they say, and alike within groups."""
    unit = np.repeat(np.arange(groups), size)
    truth = 1.5 * rng.normal(size=groups)[unit] + rng.normal(size=len(unit))
    return HeldOutNumbers(np.zeros(len(unit)), np.ones(len(unit)), truth, unit)


def test_intervals_hold_for_new_groups():
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(400):
        factor = held_out(rng, 20).factor(0.9)
        covered.append(np.mean(held_out(rng, 5).score <= factor))
    assert np.mean(covered) == pytest.approx(0.92, abs=0.025)  # at least .9, at most 1/21 more


def test_too_few_groups_give_the_largest_score():
    found = held_out(np.random.default_rng(0), 5)
    assert found.factor(0.9) == max(found.score.max(), 1.6448536)


def test_held_out_predictions_are_kept_and_damage_is_named(tmp_path):
    found = held_out(np.random.default_rng(0), 5)
    found.write(tmp_path / "held_out.npz")
    again = HeldOutNumbers.read(tmp_path / "held_out.npz")
    assert all((getattr(found, name) == getattr(again, name)).all() for name in vars(found))
    (tmp_path / "held_out.npz").write_bytes(b"damaged")
    with pytest.raises(InputError, match="Continue the training with --resume"):
        HeldOutNumbers.read(tmp_path / "held_out.npz")
    np.savez(tmp_path / "bad.npz", **{**vars(found), "deviation": -found.deviation})
    with pytest.raises(InputError, match="a standard deviation or a group that cannot be"):
        HeldOutNumbers.read(tmp_path / "bad.npz")
