"""Labels that a strategy needs, and simulated annotators of a small pool."""

import numpy as np
import pytest

from benchmarks.labelling.pools import Pool
from benchmarks.labelling.report import labels_to, ratio, summary, table
from benchmarks.labelling.runs import BATCH, Run, simulate
from benchmarks.labelling.strategies import STRATEGIES, Turn
from pipelines.label.learning.division import judging_groups
from pipelines.label.learning.learner import Learner

LABELS = np.arange(10.0, 110.0, 10.0)


def pool():
    rng = np.random.default_rng(0)
    label = rng.integers(2, size=80)
    features = rng.normal(size=(80, 6)) + 3.0 * label[:, None]
    return Pool(features.astype(np.float32), label, np.arange(80) // 2)


def test_the_labels_to_a_target_are_between_the_points_of_the_curve():
    assert labels_to(LABELS, LABELS / 100, 0.55) == pytest.approx(55.0)
    assert labels_to(LABELS, LABELS / 100, 0.01) == 10.0
    assert labels_to(LABELS, LABELS / 100, 1.5) == np.inf


def test_a_lucky_point_of_a_curve_does_not_count_as_reached():
    values = np.full(10, 0.5)
    values[2], values[9] = 0.9, 0.6
    assert labels_to(LABELS, values, 0.7) == np.inf


def test_a_strategy_that_learns_twice_as_fast_needs_half_the_labels():
    reference = np.tile(LABELS / 100, (3, 1))
    fast = np.minimum(2.0 * reference, 1.0)
    value, target, needed = ratio(fast, reference, np.full(3, 1.0), LABELS, 0.2)
    assert (value, target, needed) == pytest.approx((0.5, 0.8, 80.0))


def test_one_that_never_arrives_counts_as_twice_the_largest_number():
    reference = np.tile(LABELS / 100, (3, 1))
    assert ratio(0 * reference, reference, np.full(3, 2.0), LABELS, 0.0)[0] == pytest.approx(2.0)


def test_the_table_compares_with_random_groups_and_the_summary_takes_the_mean(monkeypatch):
    monkeypatch.setattr("benchmarks.labelling.report._RESAMPLES", 5)

    def record(strategy, speed, seed):
        curve = [{"labels": int(n), "accuracy": speed * n / 250, "nll": 2 - speed * n / 250} for n in LABELS]
        return Run("made", strategy, 0.0, seed)._asdict() | {
            "curve": curve[-1:] if strategy == "all" else curve
        }

    plan = {"all": 1.0, "random groups": 1.0, "ours": 2.0, "BADGE": 1.0}
    rows = table([record(name, speed, seed) for name, speed in plan.items() for seed in range(2)])
    assert [row["score"] for row in rows] == ["accuracy", "NLL"]
    assert rows[0]["ours"].startswith("0.50")
    assert rows[0]["BADGE"].startswith("1.00")
    assert rows[0]["TypiClust"] == "-"
    found = {(line["score"], line["strategy"]): line for line in summary(rows)}
    assert found["accuracy", "ours"]["mean"] == "0.50"


@pytest.mark.parametrize("name", ["ours", "random groups", "random images", "entropy"])
def test_a_strategy_asks_for_other_images_than_those_that_judge_or_are_answered(name):
    made = pool()
    names = [str(number) for number in made.group]
    judging = judging_groups(names, 0)
    learner = Learner(made.features, names, 2, is_judging=judging)
    answers = np.full(80, -1)
    answers[np.flatnonzero(~judging)[:10]] = made.label[np.flatnonzero(~judging)[:10]]
    learner.set_labels(answers)
    turn = Turn(learner, learner.components, answers, judging, made.group, np.random.default_rng(0), 12)
    asked = STRATEGIES[name](turn)
    assert len(set(asked.tolist())) == 12
    assert not judging[asked].any()
    assert np.all(answers[asked] < 0)


def test_an_annotator_ends_with_all_images_and_wrong_answers_cost():
    right, wrong = (simulate(Run("made", "ours", share, 0), pool())["curve"] for share in (0.0, 0.9))
    judging = judging_groups([f"group {number}" for number in pool().group], 0, 0.3)
    assert [point["labels"] for point in right[:2]] == [BATCH, 2 * BATCH]
    assert right[-1]["labels"] == np.sum(~judging)
    assert right[-1]["accuracy"] > 0.9
    assert wrong[-1]["accuracy"] < 0.5
