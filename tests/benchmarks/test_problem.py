import time

import numpy as np

from benchmarks.tabular.problem import Clock, Problem, kmeans_centres, split_off


def test_the_clock_stands_still_while_paused():
    clock = Clock()
    with clock.paused():
        time.sleep(0.2)
    assert clock.seconds < 0.1
    time.sleep(0.05)
    assert clock.seconds >= 0.05


def test_held_out_rows_are_others_and_the_same_each_time():
    problem = Problem(np.zeros([50, 1]), np.zeros(50), num_classes=0, num_inducing=5)
    rows, held = split_off(problem, 0.2)
    assert len(held) == 10
    assert sorted([*rows, *held]) == list(range(50))
    np.testing.assert_array_equal(split_off(problem, 0.2)[1], held)


def test_no_more_centres_than_distinct_points():
    inputs = np.repeat(np.arange(3.0), 4)[:, None]
    problem = Problem(inputs, np.zeros(12), num_classes=0, num_inducing=5)
    assert sorted(kmeans_centres(problem).ravel()) == [0.0, 1.0, 2.0]
