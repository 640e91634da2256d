"""What is simulated has the signal and the censoring that the table says."""

import numpy as np
import pytest

from benchmarks.survival_simulated import CENSORED, SIGNAL_SHARE, TRUTH, VIEWS, judge, simulate, table
from pipelines.survival.data import SurvivalData
from pipelines.survival.settings import SurvivalSettings

PATIENTS = 400


@pytest.fixture(scope="module")
def patches() -> tuple[SurvivalData, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((2 * PATIENTS, 8)).astype(np.float32)
    data = SurvivalData(
        features=features,
        views=dict(zip(VIEWS, (4, 4), strict=True)),
        patient=np.repeat(np.arange(PATIENTS), 2),
        names=tuple(f"{number:03d}" for number in range(PATIENTS)),
        groups=tuple(f"{number // 4:03d}" for number in range(PATIENTS)),
        months=np.full(PATIENTS, np.nan),
        event=np.zeros(PATIENTS, bool),
    )
    return data, dict(zip(VIEWS, (features[:, :4], features[:, 4:]), strict=True))


@pytest.mark.parametrize("signal", ["linear", "nonlinear"])
def test_the_signal_has_its_share_and_censoring_too(patches, signal):
    data, months, expected = simulate(*patches, signal, seed=0)
    assert 1 - data.event.mean() == pytest.approx(CENSORED, abs=0.01)
    assert (data.months > 0).all()
    np.testing.assert_array_equal(data.months[data.event], months[data.event])
    assert (data.months[~data.event] < months[~data.event]).all()
    assert np.corrcoef(np.log(expected), np.log(months))[0, 1] ** 2 == pytest.approx(SIGNAL_SHARE, abs=0.1)
    again, *_ = simulate(*patches, signal, seed=0)
    np.testing.assert_array_equal(again.months, data.months)
    other, *_ = simulate(*patches, signal, seed=1)
    assert (other.months != data.months).all()


def test_the_table_has_a_row_for_each_model_and_the_truth(patches):
    settings = SurvivalSettings(models=("constant", "linear"), folds=3, components=4)
    judged = {
        ("noise", "linear", "67 %"): {seed: judge(*patches, "linear", seed, settings) for seed in (0, 1)}
    }
    for by_seed in judged.values():
        for scores in by_seed.values():
            assert scores[TRUTH]["nmse_all"] < scores["linear"]["nmse_all"] < scores["constant"]["nmse_all"]
            scores["dfgp"] = scores["linear"]
    rows = table(judged)
    assert [row["model"] for row in rows] == ["constant", "linear", TRUTH, "dfgp"]
    assert rows[0]["NLL"] == ""
    assert rows[0]["seeds"] == 2
