"""The learner learns, never trains on what judges, and may be called by several threads."""

import threading

import numpy as np
import pytest

from pipelines.label.learning.division import judging_groups
from pipelines.label.learning.learner import Learner


def learner_of(pool, **kwargs):
    return Learner(pool.features, pool.group, 3, **kwargs)


def answered(pool, count, **kwargs):
    """A learner that was given the right answers to so many of its questions."""
    learner = learner_of(pool, **kwargs)
    for _ in range(count):
        row = int(learner.next(1)[0])
        learner.update(row, int(pool.label[row]))
    return learner


@pytest.fixture(scope="module")
def taught(pool):
    learner = answered(pool, 60)
    learner.refit()
    return learner


def rows_of(learner, pool):
    """Labelled rows of the taught learner, found by what it says of them."""
    judging = judging_groups(pool.group, 0)
    return np.array([row for row in range(len(judging)) if learner._labels[row] >= 0]), judging


def test_it_is_right_about_most_images_after_sixty_answers(pool, taught):
    right = taught.probability().argmax(axis=1) == pool.label
    assert right.mean() > 0.9
    np.testing.assert_allclose(taught.probability().sum(axis=1), 1.0)


def test_without_labels_it_says_nothing_and_asks_of_many_groups(pool):
    learner = learner_of(pool)
    np.testing.assert_allclose(learner.probability(), 1 / 3)
    assert np.isnan(learner.familiarity()).all()
    asked = learner.next(20)
    assert len(set(asked.tolist())) == 20
    judging = judging_groups(pool.group, 0)
    assert len({pool.group[row] for row in asked[~judging[asked]]}) == 16
    assert learner.nearest(0) == ()
    assert learner.unfamiliar(3).size == learner.suspects(3).size == 0


def test_every_fifth_question_to_learn_from_is_of_a_random_new_group(pool, monkeypatch):
    judging, learner = judging_groups(pool.group, 0), learner_of(pool)
    first = np.flatnonzero(~judging)

    def lowest(allowed, count):
        return first[allowed[first]][:count]

    monkeypatch.setattr(learner, "_informative", lowest)
    asked = learner.next(20, judging)
    random = asked[4::5]
    others = [row for row in asked if row not in random]
    assert others == [row for row in first if row not in random][:16]
    assert len({pool.group[row] for row in random}) == 4
    for row in asked[:4]:
        learner.update(int(row), 0)
    assert learner.next(1, judging)[0] == learner.next(1, judging)[0] != others[4]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_of_a_judging_group_ever_trains(pool, seed):
    """Whatever is said of judging images, and however it is said, what the model says stays the same."""
    rng = np.random.default_rng(seed)
    judging = judging_groups(pool.group, 0)
    told, untold = learner_of(pool), learner_of(pool)
    given = np.full(len(pool.label), -1)
    for _ in range(40):
        kind = rng.choice(["train", "judge", "back", "all", "refit"], p=[0.4, 0.4, 0.1, 0.05, 0.05])
        row = int(rng.choice(np.flatnonzero(judging if kind == "judge" else ~judging)))
        if kind in {"train", "judge", "back"}:
            given[row] = -1 if kind == "back" else rng.integers(3)
            told.update(row, int(given[row]))
            if kind != "judge":
                untold.update(row, int(given[row]))
        elif kind == "all":
            told.set_labels(given)
            untold.set_labels(np.where(judging, -1, given))
        else:
            told.refit()
            untold.refit()
    np.testing.assert_array_equal(told.probability(), untold.probability())
    np.testing.assert_array_equal(told.familiarity(), untold.familiarity())
    assert told.nearest(0, 50) == untold.nearest(0, 50)
    np.testing.assert_array_equal(told.suspects(99), untold.suspects(99))
    for rows in (told.suspects(99), told.unfamiliar(999), told.alike(0, 999)):
        assert not judging[rows].any()


def test_every_fifth_question_is_for_judging(pool):
    learner, judging = learner_of(pool), judging_groups(pool.group, 0)
    asked = []
    for _ in range(50):
        row = int(learner.next(1)[0])
        asked.append(bool(judging[row]))
        learner.update(row, int(pool.label[row]))
    assert asked == [False, False, False, False, True] * 10
    assert judging[learner.next(10)].tolist() == [False, False, False, False, True] * 2


def test_what_judges_is_drawn_whatever_the_labels_say(pool):
    judging = judging_groups(pool.group, 0)
    right, wrong = learner_of(pool), learner_of(pool)
    for learner, shift in ((right, 0), (wrong, 1)):
        learner.set_labels(np.where(np.arange(160) < 40, (pool.label + shift) % 3, -1))
    first, second = (learner.next(40) for learner in (right, wrong))
    assert first[judging[first]].tolist() == second[judging[second]].tolist()


def test_skipped_rows_are_not_asked(pool):
    learner = learner_of(pool)
    first = learner.next(8)
    assert not set(learner.next(8, first).tolist()) & set(first.tolist())
    mask = np.zeros(160, bool)
    mask[first] = True
    np.testing.assert_array_equal(learner.next(8, mask), learner.next(8, first.tolist()))


def test_everything_is_asked_in_the_end_and_nothing_twice(pool):
    learner = learner_of(pool)
    asked = []
    while len(rows := learner.next(25)):
        asked += rows.tolist()
        for row in rows:
            learner.update(int(row), int(pool.label[row]))
    assert sorted(asked) == list(range(160))


def test_an_answer_taken_back_is_forgotten(pool):
    learner = learner_of(pool)
    for row in (0, 7, 31):
        learner.update(row, int(pool.label[row]))
    before = learner.probability()
    learner.update(60, 1)
    learner.update(60, -1)
    np.testing.assert_allclose(learner.probability(), before, atol=2e-3)


def test_a_resumed_learner_says_the_same(pool):
    learner = answered(pool, 30)
    resumed = learner_of(pool)
    resumed.set_labels(learner._labels)
    np.testing.assert_allclose(resumed.probability(), learner.probability(), atol=2e-3)


def test_classes_without_a_label_are_possible(pool):
    learner = learner_of(pool)
    for row in np.flatnonzero((pool.label == 0) & ~judging_groups(pool.group, 0))[:10]:
        learner.update(int(row), 0)
    learner.refit()
    assert np.all(learner.probability() > 0)


def test_the_nearest_are_labelled_and_sorted(pool, taught):
    labelled, judging = rows_of(taught, pool)
    found = taught.nearest(int(labelled[0]), 5)
    similarity = [one for _, one in found]
    assert similarity == sorted(similarity, reverse=True)
    assert {row for row, _ in found} <= set(labelled[~judging[labelled]].tolist()) - {int(labelled[0])}


def test_a_copy_of_a_labelled_image_is_its_nearest():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, 6))
    features[9] = features[4]
    learner = Learner(features, ["same"] * 30, 2)
    for row in (1, 4, 8):
        learner.update(row, row % 2)
    (row, similarity), *_ = learner.nearest(9)
    assert row == 4
    assert similarity == pytest.approx(1.0, abs=1e-5)


def test_alike_images_have_the_same_predicted_class_and_no_label(pool, taught):
    labelled, judging = rows_of(taught, pool)
    predicted = taught.probability().argmax(axis=1)
    found = taught.alike(3, 12)
    assert len(found)
    assert not set(found.tolist()) & set(labelled.tolist())
    assert not judging[found].any()
    assert np.all(predicted[found] == predicted[3])


def test_wrong_answers_are_suspected_first(pool):
    learner = answered(pool, 60)
    rows, judging = rows_of(learner, pool)
    wrong = rows[~judging[rows]][[3, 17]]
    for row in wrong:
        learner.update(int(row), int(pool.label[row] + 1) % 3)
    learner.refit()
    assert set(wrong.tolist()) <= set(learner.suspects(4).tolist())


def test_what_is_like_nothing_labelled_is_unfamiliar(pool):
    features = pool.features.copy()
    features[5] = 40.0 * np.random.default_rng(3).normal(size=16)
    learner = Learner(features, [str(row) for row in range(160)], 3)
    judging = judging_groups([str(row) for row in range(160)], 0)
    assert not judging[5]
    rows = np.flatnonzero(~judging & (np.arange(160) != 5))[:80]
    labels = np.full(160, -1)
    labels[rows] = pool.label[rows]
    learner.set_labels(labels)
    assert learner.familiarity()[5] < np.median(learner.familiarity())
    assert 5 in learner.unfamiliar(10)


def test_familiarity_is_the_conformal_share_by_groups(pool, taught):
    """In slow loops: images of the row's own group never count among the labelled ones' neighbours."""
    labelled, judging = rows_of(taught, pool)
    rows = labelled[~judging[labelled]]
    unit = taught._basis.components
    group = np.array(pool.group)
    held_out = {}
    for row in rows:
        others = rows[group[rows] != group[row]]
        held_out.setdefault(group[row], []).append(1 - (unit[others] @ unit[row]).max())
    for row in [*range(0, 160, 13), *rows[:5]]:
        distance = 1 - (unit[rows[rows != row]] @ unit[row]).max()  # an image is not its own reference
        share = sum(np.mean(np.array(values) >= distance - 1e-9) for values in held_out.values())
        assert taught.familiarity()[row] == pytest.approx((1 + share) / (len(held_out) + 1), abs=0.02)


@pytest.mark.slow
def test_answers_during_a_refit_are_not_lost(pool):
    learner = answered(pool, 30)
    stop = threading.Event()

    def refit():
        while not stop.is_set():
            learner.refit()

    thread = threading.Thread(target=refit)
    thread.start()
    given = []
    for _ in range(20):
        row = int(learner.next(1)[0])
        learner.update(row, int(pool.label[row]))
        given.append(row)
        learner.progress()
        learner.probability()
    stop.set()
    thread.join()
    assert np.all(learner._labels[given] == pool.label[given])
    alone = learner_of(pool)
    alone.set_labels(learner._labels)
    alone.refit()
    learner.refit()
    np.testing.assert_allclose(learner.probability(), alone.probability(), atol=2e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda learner: learner.update(160, 0), "row 160"),
        (lambda learner: learner.update(0, 3), "label 3"),
        (lambda learner: learner.set_labels([0, 1]), "160 whole numbers"),
        (lambda learner: learner.set_labels(np.full(160, 7)), "from -1 to 2"),
    ],
)
def test_wrong_answers_of_a_caller_are_refused(pool, call, message):
    with pytest.raises(ValueError, match=message):
        call(learner_of(pool))


def test_wrong_pools_are_refused(pool):
    with pytest.raises(ValueError, match="group for each of 160"):
        Learner(pool.features, ["a"], 3)
    with pytest.raises(ValueError, match="yes or no of each of 160"):
        Learner(pool.features, pool.group, 3, is_judging=[True])
    with pytest.raises(ValueError, match="not finite"):
        Learner(np.full((3, 2), np.nan), ["a", "b", "c"], 2)


def test_one_image_and_alike_features_are_no_obstacle():
    learner = Learner(np.ones((1, 4)), ["a"], 2)
    assert learner.next(3).tolist() == [0]
    learner.update(0, 1)
    learner.refit()
    same = Learner(np.ones((6, 4)), list("abcdef"), 2)
    for row in same.next(6):
        same.update(int(row), 0)
    same.refit()
    assert np.isfinite(same.probability()).all()
    assert same.next(1).size == 0
