"""Random problems of heads: what is wrong with a head is noticed, and heads show no fault."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.reliability import head_numbers
from benchmarks.reliability.head_numbers import HEADS, draw_head_problem, faults_of, run, trained
from benchmarks.reliability.numbers import numbers_of

PROBLEMS = [draw_head_problem(number) for number in range(300)]


def test_problems_are_of_all_heads_and_of_classes():
    assert draw_head_problem(7) == draw_head_problem(7)
    assert {problem.estimator for problem in PROBLEMS} == set(HEADS)
    assert {problem.classes for problem in PROBLEMS} == {2, 4}


class Faulty:
    """A model that is wrong in one way."""

    def __init__(self, way):
        self.way = way

    def __call__(self, points):
        probability = tf.where(tf.convert_to_tensor(points)[:, 0] > 0.0, 0.9, 0.2)
        if self.way == "nan":
            probability *= np.nan
        if self.way == "above":
            probability += 1.0
        return {"probability": probability}

    def inference_function(self):
        def infer(points):
            probability = self(points)["probability"]
            if self.way == "export":
                probability = 1.0 - probability
            if self.way == "order":
                probability = probability * tf.cast(tf.range(len(points)), tf.float32) / 100.0
            return {"probability": probability}

        return infer


@pytest.mark.parametrize(
    ("way", "fault"),
    [
        ("", None),
        ("nan", "probability is not finite"),
        ("above", "probabilities lie between"),
        ("export", "the export changes probability by"),
        ("order", "another order of the points changes probability by"),
    ],
)
def test_faults_are_noticed(monkeypatch, way, fault):
    problem = next(problem for problem in PROBLEMS if problem.classes == 2 and problem.rows > 50)
    monkeypatch.setattr(head_numbers, "trained", lambda *_: Faulty(way))
    faults = faults_of(problem)
    if fault is None:
        assert not faults
    else:
        assert any(found.startswith(fault) for found in faults)


def test_an_error_is_a_fault(monkeypatch):
    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(head_numbers, "trained", broken)
    assert faults_of(PROBLEMS[0]) == ["RuntimeError: broken"]


@pytest.mark.slow
@pytest.mark.parametrize("head", ["laplace", "sngp", "atl_dgp"])
def test_heads_that_are_trained_in_several_ways_show_no_fault(head):
    number = next(p.number for p in PROBLEMS if p.estimator == head and 4 < p.rows < 200)
    (record,) = run([number])
    assert record["estimator"] == head
    assert not record["faults"]


@pytest.mark.slow
def test_training_moves_a_head():
    problem = next(p for p in PROBLEMS if p.estimator == "linear" and p.rows > 50)
    x, values, _ = numbers_of(problem)
    model = trained(problem, x.astype(np.float32), np.unique(values, return_inverse=True)[1])
    (bias,) = [weight for weight in model.head.trainable_weights if "bias" in weight.path]
    assert np.any(bias.numpy() != 0.0)  # where it starts
