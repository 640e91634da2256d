"""Counting the points of experts, and dropping experts without any."""

import numpy as np

from gpmodels import HGPHead, SVGPHead
from gpmodels.estimators.routing import count_assignments, drop_unused_experts


def make_head(num_experts=4):
    head = HGPHead(num_experts=num_experts, num_inducing=2)
    head.build((None, 1))
    return head


def test_counts_cover_all_experts():
    assert count_assignments(make_head(), np.array([0, 2, 2])).tolist() == [1, 0, 2, 0]
    assert count_assignments(make_head(0), np.zeros(3, int)).tolist() == [3]
    svgp = SVGPHead(num_inducing=2)
    svgp.build((None, 1))
    assert count_assignments(svgp, np.zeros(3, int)).tolist() == [3]


def test_experts_are_dropped_one_at_a_time_and_points_counted_anew():
    head = make_head()
    # Dropping expert 1 sends a point to expert 3, which then stays.
    rounds = iter([[5, 0, 3, 0], [4, 0, 3, 1]])
    drop_unused_experts(head, lambda: np.array(next(rounds)))
    assert head.active_experts.tolist() == [0, 2, 3]
    assert head.expert_counts.numpy().tolist() == [4, 0, 3, 1]
    assert next(rounds, None) is None


def test_dropped_experts_stay_dropped_and_are_not_dropped_again():
    head = make_head()
    head.drop_experts(np.array([0]))
    calls = []

    def count():
        calls.append(head.active_experts.tolist())
        return np.array([0, 1, 1, 1])

    drop_unused_experts(head, count)
    assert calls == [[1, 2, 3]]


def test_heads_without_experts_are_left_alone_but_routed():
    calls = []

    def count():
        calls.append(True)
        return np.array([7])

    for head in (make_head(0), SVGPHead(num_inducing=2)):
        drop_unused_experts(head, count)
    assert len(calls) == 2


def test_points_follow_the_gate_of_those_left():
    head = make_head(3)
    rng = np.random.default_rng(0)
    centres = np.array([-5.0, 50.0, 5.0])
    head.experts.place(centres[:, None, None] + rng.normal(size=(3, 2, 1)), np.ones((3, 1)))
    x = np.concatenate([rng.normal(-5, 1, (20, 1)), rng.normal(5, 1, (30, 1))]).astype("float32")
    drop_unused_experts(head, lambda: count_assignments(head, head.assign(x).numpy()))
    assert head.active_experts.tolist() == [0, 2]
    assert head.expert_counts.numpy().tolist() == [20, 0, 30]
