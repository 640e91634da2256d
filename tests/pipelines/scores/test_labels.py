"""Scores of several labels against scikit-learn's, and answers that are kept."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from data_prep.errors import InputError
from pipelines.scores.labels import HeldOutLabels, LabelRecord, answer_uncertainty, label_result, label_scores
from pipelines.scores.results import compare

NAMES = ("head", "tail")


def records(noise: float = 1.0) -> list[LabelRecord]:
    rng = np.random.default_rng(0)
    odds = rng.normal(size=(200, 2)) * 2.0
    truth = (rng.random(odds.shape) < 1.0 / (1.0 + np.exp(-odds))).astype(float)
    truth[rng.random(odds.shape) < 0.3] = np.nan
    said = 1.0 / (1.0 + np.exp(-odds - noise * np.random.default_rng(9).normal(size=odds.shape)))
    return [
        LabelRecord(str(row), NAMES, truth[row], said[row].astype(np.float32)) for row in range(len(odds))
    ]


def test_scores_of_each_label_are_those_of_scikit_learn():
    found, rows = label_result("one", records()), records()
    for place, name in enumerate(NAMES):
        truth, said = (
            np.array([getattr(row, key)[place] for row in rows]) for key in ("truth", "probability")
        )
        known = np.isfinite(truth)
        truth, said = truth[known], said[known].astype(float)
        assert found.scores[f"nll/{name}"] == pytest.approx(log_loss(truth, said), rel=1e-5)
        assert found.scores[f"ap/{name}"] == pytest.approx(average_precision_score(truth, said), abs=2e-3)
        assert found.scores[f"auroc/{name}"] == pytest.approx(roc_auc_score(truth, said), abs=2e-3)
        assert found.scores[f"accuracy/{name}"] == pytest.approx(np.mean((said > 0.5) == truth))
        assert found.counts[f"known {name}"] == known.sum()
        assert found.counts[f"with {name}"] == truth.sum()
    for key in ("nll", "ap", "auroc", "accuracy", "ece"):
        assert found.scores[key] == pytest.approx(np.mean([found.scores[f"{key}/{name}"] for name in NAMES]))
    assert found.reliability().count.sum() == found.counts["known labels"]


def test_an_undefined_score_of_a_label_leaves_the_mean_of_the_others():
    rows = [LabelRecord(r.name, NAMES, np.array([r.truth[0], 0.0]), r.probability) for r in records()]
    found = label_result("one", rows)
    assert np.isnan(found.scores["ap/tail"])
    assert found.scores["ap"] == found.scores["ap/head"]


def test_methods_are_compared_by_groups():
    exact, noisy = label_result("exact", records(noise=0.0)), label_result("noisy", records(noise=3.0))
    assert exact.definitions is noisy.definitions is label_scores(NAMES)
    groups = {name: str(int(name) // 4) for name in exact.statistics.names}
    (comparison,) = compare(exact, [noisy], groups=groups, resamples=200)
    assert comparison.differences["nll"].upper < 0.0 < comparison.differences["ap"].lower


def held_out(count: int = 400) -> HeldOutLabels:
    """The first label is right where it is certain, the second one as often wrong as right."""
    rng = np.random.default_rng(0)
    probability = rng.random((count, 2))
    truth = (rng.random((count, 2)) < 0.5).astype(float)
    certain = answer_uncertainty(probability[:, 0]) < 0.3
    truth[certain, 0] = probability[certain, 0] > 0.5
    truth[:10, 0] = np.nan
    return HeldOutLabels(probability, truth, np.arange(count))


def test_answers_are_kept_where_the_held_out_ones_are_right():
    first, second = held_out().thresholds(0.05)
    assert 0.2 < first.threshold < 0.35
    assert first.confidence == pytest.approx(0.975)  # 1 - 0.05 / L
    assert second.threshold is None
    assert "too often wrong where it is certain" in second.reason


def test_images_of_a_group_count_as_one():
    one = held_out()
    grouped = HeldOutLabels(one.probability, one.truth, np.arange(400) // 20)
    assert (
        "groups are needed, even if none of them is wrong, and there are 20"
        in grouped.thresholds(0.05)[0].reason
    )


def test_nothing_is_known_of_a_label_that_was_never_seen():
    one = held_out()
    hidden = HeldOutLabels(one.probability, np.where([False, True], np.nan, one.truth), one.unit)
    assert hidden.thresholds(0.05)[1].reason == "no held-out image has it known"


def test_a_file_gives_what_was_written(tmp_path):
    held_out().write(tmp_path / "one.npz")
    again = HeldOutLabels.read(tmp_path / "one.npz")
    np.testing.assert_array_equal(again.truth, held_out().truth)
    (tmp_path / "one.npz").write_bytes(b"other")
    with pytest.raises(InputError, match="cannot be read as predictions of held-out examples"):
        HeldOutLabels.read(tmp_path / "one.npz")


@pytest.mark.parametrize(
    ("probability", "truth", "said"),
    [([[0.5, 2.0]], [[0.0, 1.0]], "a probability"), ([[0.5, 0.2]], [[0.0, 3.0]], "neither 0 nor 1"),
     ([[0.5, 0.2]], [[0.0]], "different shapes")],
)  # fmt: skip
def test_what_cannot_be_is_refused(probability, truth, said):
    with pytest.raises(ValueError, match=said):
        HeldOutLabels(np.array(probability), np.array(truth), np.zeros(1, np.intp))
