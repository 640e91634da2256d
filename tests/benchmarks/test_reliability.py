"""The campaign notices what is wrong, and its problems are what they say."""

import warnings

import numpy as np
import pytest

from benchmarks.reliability import numbers
from benchmarks.reliability.__main__ import rows_of
from benchmarks.reliability.numbers import ESTIMATORS, draw_problem, faults_of, numbers_of, run

PROBLEMS = [draw_problem(number) for number in range(400)]


def test_a_number_gives_one_problem():
    assert draw_problem(7) == draw_problem(7)
    for first, second in zip(numbers_of(PROBLEMS[7]), numbers_of(PROBLEMS[7]), strict=True):
        np.testing.assert_array_equal(first, second)


def test_problems_are_of_all_kinds():
    assert {problem.estimator for problem in PROBLEMS} == set(ESTIMATORS)
    rows = [problem.rows for problem in PROBLEMS]
    assert min(rows) <= 3
    assert max(rows) > 1500
    copied = next(problem for problem in PROBLEMS if problem.copies == 0.9 and problem.rows > 100)
    x, *_ = numbers_of(copied)
    assert len(np.unique(x, axis=0)) < 0.6 * len(x)
    rare = next(problem for problem in PROBLEMS if problem.rare and problem.classes and problem.rows > 100)
    assert np.unique(numbers_of(rare)[1], return_counts=True)[1].min() == 1
    spread = np.concatenate([numbers_of(problem)[0].std(axis=0) for problem in PROBLEMS[:60]])
    assert spread.max() > 1e5
    assert 0.0 < spread[spread > 0.0].min() < 1e-5


class Faulty:
    """A classifier of two classes that is wrong in one way; `way` is set by the test."""

    way = ""
    _estimator_type = "classifier"

    def __init__(self, **_):
        pass

    def __sklearn_tags__(self):
        return numbers.gpmodels.SVGPClassifier().__sklearn_tags__()

    def fit(self, x, y):
        if self.way == "error":
            raise RuntimeError("broken")
        if self.way == "nothing":
            warnings.warn("Faulty has learned nothing: broken", UserWarning, stacklevel=2)
        self.share = float(np.argmin(x[:, 0])) / len(y)
        return self

    def predict_proba(self, x):
        share = self.share if self.way == "order" else 0.2
        probability = np.tile([share, 1.0 - share], [len(x), 1])
        if self.way == "sum":
            probability *= 1.01
        return probability

    def predict_distribution(self, x):
        value = {"nan": np.nan, "negative": -1.0}.get(self.way, 1.0)
        return {"latent_variance": np.full(len(x), value)}


@pytest.mark.parametrize(
    ("way", "fault"),
    [
        ("", None),
        ("error", "RuntimeError: broken"),
        ("nothing", "UserWarning: Faulty has learned nothing"),
        ("nan", "latent_variance is not finite"),
        ("negative", "latent_variance is -1"),
        ("sum", "probabilities sum to 1 but for 0.01"),
        ("order", "another order of the rows changes probability"),
    ],
)
def test_faults_are_noticed(monkeypatch, way, fault):
    problem = next(
        problem
        for problem in PROBLEMS
        if problem.classes == 2
        and not problem.rare
        and problem.rows > 50
        and not problem.constant
        and hasattr(numbers.gpmodels, problem.estimator)
    )
    monkeypatch.setattr(Faulty, "way", way)
    monkeypatch.setattr(numbers.gpmodels, problem.estimator, Faulty)
    faults = faults_of(problem)
    assert [fault in found for found in faults] == ([True] if fault else [])


def test_inputs_tell_nothing_where_the_informative_column_is_constant_or_rows_are_few():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3))
    assert not numbers.tells_nothing(x)
    assert numbers.tells_nothing(np.concatenate([np.ones([30, 1]), x[:, 1:]], axis=1))
    assert numbers.tells_nothing(np.repeat(x[:3], 10, axis=0))
    assert not numbers.tells_nothing(np.repeat(x[:4], 10, axis=0))


def test_one_class_may_be_refused_and_nothing_else():
    problem = PROBLEMS[0]
    several, single = np.array([0, 1]), np.array([0, 0])
    assert not numbers.is_explained(problem, several, "the number of classes has to be greater than one")
    classes = next(problem for problem in PROBLEMS if problem.classes)
    assert numbers.is_explained(classes, single, "the number of classes has to be greater than one")
    assert not numbers.is_explained(classes, single, "Cholesky decomposition was not successful")


@pytest.mark.slow
def test_random_problems_show_no_fault():
    records = list(run(range(4)))
    assert not [record for record in records if record["faults"]]
    rows = rows_of(records, ESTIMATORS)
    assert sum(row["problems"] for row in rows) == 4
    assert not any(row["faults"] for row in rows)
