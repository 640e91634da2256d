"""The expected gain against its definition in slow loops, and what is chosen."""

import numpy as np
import pytest

from pipelines.label.learning.acquisition import choose_informative


def problem(seed=0, count=20, width=5):
    rng = np.random.default_rng(seed)
    basis = rng.normal(size=(count, width))
    root = rng.normal(size=(width, width))
    covariance = np.linalg.inv(np.eye(width) + root @ root.T)
    return basis, rng.uniform(0.05, 0.25, size=count), covariance, rng.uniform(size=count)


def fall_of_uncertainty(basis, curvature, covariance, of_interest, row):
    """What a label of an image takes from the weighted variances, by inverting the precision anew."""
    precision = np.linalg.inv(covariance) + curvature[row] * np.outer(basis[row], basis[row])
    fall = covariance - np.linalg.inv(precision)
    return sum(of_interest[other] * basis[other] @ fall @ basis[other] for other in range(len(basis)))


@pytest.mark.parametrize("seed", range(5))
def test_each_choice_takes_most_from_the_variances_after_the_earlier_ones(seed):
    basis, curvature, covariance, of_interest = problem(seed)
    chosen = choose_informative(
        *(basis, curvature, covariance, of_interest),
        allowed=np.ones(20, bool),
        group=np.arange(20),
        count=6,
    )
    free = np.ones(20, bool)
    for row in chosen:
        falls = [fall_of_uncertainty(basis, curvature, covariance, of_interest, other) for other in range(20)]
        assert row == np.argmax(np.where(free, falls, -np.inf))
        free[row] = False
        precision = np.linalg.inv(covariance) + curvature[row] * np.outer(basis[row], basis[row])
        covariance = np.linalg.inv(precision)


def test_a_group_is_asked_twice_only_where_no_other_is_left():
    given = problem(2)
    group = np.arange(20) // 5
    chosen = choose_informative(*given, allowed=np.arange(20) >= 5, group=group, count=9)
    assert sorted(group[chosen[:3]]) == [1, 2, 3]
    assert len(set(chosen.tolist())) == 9
    assert np.all(chosen >= 5)


def test_fewer_come_where_fewer_are_allowed():
    allowed = np.arange(20) < 2
    chosen = choose_informative(*problem(), allowed=allowed, group=np.zeros(20, int), count=5)
    assert sorted(chosen.tolist()) == [0, 1]


def test_an_image_that_others_are_like_comes_before_an_odd_one():
    basis = np.vstack([np.tile([1.0, 0.0], (10, 1)), [[0.0, 1.0]]])
    chosen = choose_informative(
        *(basis, np.full(11, 0.25), np.eye(2), np.ones(11)),
        allowed=np.ones(11, bool),
        group=np.arange(11),
        count=1,
    )
    assert chosen[0] < 10


def test_what_is_of_no_interest_draws_no_question():
    basis = np.vstack([np.tile([1.0, 0.0], (10, 1)), [[0.0, 1.0]]])
    chosen = choose_informative(
        *(basis, np.full(11, 0.25), np.eye(2), np.append(np.zeros(10), 1.0)),
        allowed=np.ones(11, bool),
        group=np.arange(11),
        count=1,
    )
    assert chosen[0] == 10
