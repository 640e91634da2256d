"""Support vector machines as arrays: scikit-learn's decisions, calibrated apart, kept without pickle."""

import logging

import numpy as np
import pytest
import tensorflow as tf
from sklearn.model_selection import GridSearchCV

from data_prep.errors import InputError
from pipelines.labelled import svms
from pipelines.labelled.svms import (
    TrainingFeatures,
    cross_validation_parts,
    fit_svm,
    load_svm,
    save_svm,
    svm_predictor,
)

NAMES = ("a", "b", "c", "d")


def examples(classes: int, groups: int, seed: int) -> TrainingFeatures:
    rng = np.random.default_rng(seed)
    labels = np.tile(np.arange(classes, dtype=np.int32), 3 * groups)
    centres = np.random.default_rng(9).normal(size=(classes, 6))
    features = 5.0 + centres[labels] + 0.7 * rng.normal(size=(len(labels), 6))
    names = np.repeat([f"g{number}" for number in range(groups)], 3 * classes)
    return TrainingFeatures(features.astype(np.float32), labels, names)


@pytest.fixture
def searches(monkeypatch) -> list[GridSearchCV]:
    """The searches that were made, to compare with."""
    made: list[GridSearchCV] = []
    search = svms._search

    def remember(*arguments: object) -> GridSearchCV:
        made.append(search(*arguments))
        return made[-1]

    monkeypatch.setattr(svms, "_search", remember)
    return made


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", ["linear_svm", "rbf_svm"])
def test_decisions_are_those_of_scikit_learn_and_survive_a_file(name, classes, searches, tmp_path):
    train, selection, judged = (examples(classes, groups, seed) for seed, groups in ((0, 4), (1, 2), (2, 2)))
    machine = fit_svm(name, train, selection, NAMES[:classes], seed=0)
    (search,) = searches
    scaled = (judged.features - machine.mean) / machine.deviation
    expected = np.reshape(search.decision_function(scaled), (len(scaled), -1))
    np.testing.assert_allclose(machine.decision_values(tf.constant(judged.features)), expected, atol=2e-4)
    save_svm(machine, tmp_path / "machines" / "machine.npz")
    outputs = svm_predictor(name, load_svm(tmp_path / "machines" / "machine.npz")).predict(
        tf.constant(judged.features)
    )
    np.testing.assert_allclose(tf.reduce_sum(outputs["probability"], axis=1), 1.0, atol=1e-5)
    assert outputs["probability"].shape[1] == classes
    assert np.mean(outputs["label"].numpy() == judged.labels) > 0.7
    np.testing.assert_array_equal(outputs["label"], search.predict(scaled))


def test_selection_examples_decide_how_sure_it_is():
    train, selection = examples(3, 4, 0), examples(3, 2, 1)
    shuffled = TrainingFeatures(selection.features, selection.labels[::-1].copy(), selection.groups)
    sure = fit_svm("linear_svm", train, selection, NAMES[:3], seed=0)
    unsure = fit_svm("linear_svm", train, shuffled, NAMES[:3], seed=0)
    assert unsure.temperature > 3 * sure.temperature


def test_no_temperature_is_taken_from_examples_that_are_all_right(caplog):
    train = examples(2, 4, 0)
    apart = TrainingFeatures(
        train.features + 20 * train.labels[:, None].astype(np.float32), train.labels, train.groups
    )
    with caplog.at_level(logging.WARNING):
        assert fit_svm("linear_svm", apart, apart, NAMES[:2], seed=0).temperature == 1.0
    assert "keeps the temperature 1" in caplog.text


def of_class(train: TrainingFeatures, kept: np.ndarray) -> TrainingFeatures:
    return TrainingFeatures(train.features[kept], train.labels[kept], train.groups[kept])


def test_each_class_is_in_each_part_of_the_cross_validation():
    train = examples(2, 6, 0)
    apart = TrainingFeatures(train.features, train.labels, np.where(train.labels, train.groups, "h"))
    with pytest.raises(InputError, match=r"'a' has training examples of 1 groups.*svms=\[\]"):
        cross_validation_parts(apart, NAMES[:2])
    with pytest.raises(InputError, match="'b' has training examples of 0 groups"):
        cross_validation_parts(of_class(examples(3, 6, 0), examples(3, 6, 0).labels != 1), NAMES[:3])
    assert cross_validation_parts(train, NAMES[:2]) == 5
    # Two classes in three groups each, none of them shared: five parts would be too many.
    few = of_class(train, np.isin(train.groups, ("g0", "g1", "g2")) == (train.labels == 0))
    assert cross_validation_parts(few, NAMES[:2]) == 3
    fit_svm("linear_svm", few, train, NAMES[:2], seed=0)


def test_each_class_is_trained_on_in_each_part_where_classes_share_groups():
    rng = np.random.default_rng(0)
    for seed in range(30):
        # Each class is done by some of eight persons, who are the groups.
        persons = [rng.choice(8, rng.integers(2, 5), replace=False) for _ in NAMES]
        of_class = [np.repeat(those, rng.integers(1, 6, len(those))) for those in persons]
        labels = np.repeat(np.arange(len(NAMES), dtype=np.int32), [len(rows) for rows in of_class])
        groups = np.concatenate(of_class).astype(str)
        train = TrainingFeatures(np.zeros((len(labels), 1), np.float32), labels, groups)
        folds = svms._folds(train, cross_validation_parts(train, NAMES), seed)
        for kept, judged in folds.split():
            assert set(labels[kept]) == set(labels)
            assert not set(groups[kept]) & set(groups[judged])


def test_damaged_files_are_refused(tmp_path):
    (tmp_path / "machine.npz").write_bytes(b"no machine")
    with pytest.raises(InputError, match="holds no support vector machine"):
        load_svm(tmp_path / "machine.npz")
