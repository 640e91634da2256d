"""What `histopathology transfer` compares, and how it is scored."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.svm import SVC

from gpmodels.comparison.transfer_base import Rows, TransferClassifier, scores_of_decision
from gpmodels.estimators.transfer import ATLDGPClassifier
from gpmodels.transfer.rows import mean_distance
from pipelines.histopathology.transfer_draws import Integers, Tissue
from pipelines.scores.classification import (
    CLASSIFICATION_SCORES,
    classification_record,
    classification_statistics,
)
from pipelines.scores.definitions import FloatArray, Score

WITH, WITHOUT, SOURCE, POOLED = "with_transfer", "without_transfer", "source_alone", "pooled_svm"

TITLES = {
    WITH: "With transfer",
    WITHOUT: "Without transfer",
    SOURCE: "Source alone",
    POOLED: "Pooled RBF-SVM",
}
"""Name of each method in tables."""

SOURCE_WEIGHT = 0.1
"""How much a patch of the source counts beside one of the data in the pooled SVM."""

_AUC = "Are the classes told apart?"

CURVE_SCORES: tuple[Score, ...] = (
    Score(
        "auc",
        "Patch AUC",
        _AUC,
        "higher",
        "How often a patch of a class has a larger probability of it than a patch of another one, ties "
        "counting one half; of several classes the mean over each against the rest.",
        lambda sums: np.full(sums["count"].shape, np.nan),
        headline=True,
    ),
    Score(
        "image_auc",
        "Image AUC",
        _AUC,
        "higher",
        "The same of images, by the mean probability of their patches.",
        lambda sums: np.full(sums["count"].shape, np.nan),
        headline=True,
    ),
    *(score for score in CLASSIFICATION_SCORES if score.key in {"accuracy", "nll", "ece"}),
)
"""Scores of the learning curves; the two AUCs come from `scored`, for they are no function of sums."""


@dataclass(frozen=True)
class Scored:
    """How well a method did in one repeat.

    Attributes:
        scores: Scores by their keys; NaN where one is undefined.
        shares: What each judged group adds to a score, by group and key. A score is the sum over groups; ECE,
            which is no such sum, has none.
    """

    scores: Mapping[str, float]
    shares: Mapping[str, Mapping[str, float]]


@dataclass(kw_only=True, repr=False, eq=False)
class PooledSVM(TransferClassifier):
    """An SVM with an RBF kernel on the rows of source and target, those of the source with a small weight.

    Args:
        cost: C.
        source_weight: How much a row of a source counts beside a target row.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X, domain = rng.normal(size=(30, 2)), np.r_[np.zeros(20), -np.ones(10)]
        >>> PooledSVM().fit(X, X[:, 0] > 0.0, sample_domain=domain).predict_proba(X).shape
        (30, 2)
    """

    cost: float = 10.0
    source_weight: float = SOURCE_WEIGHT

    def _train(self, rows: Rows) -> None:
        weight = np.where(rows.is_target, 1.0, self.source_weight)
        machine = SVC(C=self.cost, gamma=0.5 / mean_distance(rows.x) ** 2)
        self._machine = machine.fit(rows.x, rows.label, sample_weight=weight)
        self._num_classes = rows.num_classes

    def _scores(self, x: FloatArray) -> FloatArray:
        decision = self._machine.decision_function(x)
        return scores_of_decision(decision, self._machine.classes_, self._num_classes)


def source_probability(source: Tissue, rows: Integers, x: FloatArray, num_classes: int) -> FloatArray | None:
    """Return probabilities `[n, C]` by the source alone; None where its patches are of one class.

    Args:
        source: Patches of the source.
        rows: Those that are learned from.
        x: Features to judge, `[n, K]`.
        num_classes: C.
    """
    if len(np.unique(source.label[rows])) < 2:
        return None
    model = ATLDGPClassifier(scaling=None, random_state=0)
    return _probability(model, x, num_classes, source.x[rows], source.label[rows], groups=source.image[rows])


def target_probabilities(
    source: Tissue,
    source_rows: Integers,
    target: Tissue,
    rows: Integers,
    x: FloatArray,
    num_classes: int,
    seed: int,
) -> tuple[dict[str, FloatArray], dict[str, float]]:
    """Return probabilities `[n, C]` by each method that learns from labels of the data.

    Args:
        source: Patches of the source.
        source_rows: Those that are learned from.
        target: Patches of the data.
        rows: The labelled ones.
        x: Features to judge, `[n, K]`.
        num_classes: C.
        seed: Seed of the models.

    Returns:
        The probabilities by method, and what the model with transfer says of the source.
    """
    joint = np.concatenate([source.x[source_rows], target.x[rows]])
    label = np.concatenate([source.label[source_rows], target.label[rows]])
    # A patch says too much about others of its image, so that images are left out whole.
    image = target.image[rows]
    more = {
        "sample_domain": np.repeat([0, -1], [len(source_rows), len(rows)]),
        "groups": np.concatenate([np.arange(len(source_rows)), len(source_rows) + image]),
    }
    model = ATLDGPClassifier(scaling=None, random_state=seed)
    found = {
        WITH: _probability(model, x, num_classes, joint, label, **more),
        WITHOUT: _probability(
            ATLDGPClassifier(scaling=None, random_state=seed),
            *(x, num_classes, target.x[rows], target.label[rows]),
            groups=image,
        ),
        POOLED: _probability(PooledSVM(), x, num_classes, joint, label, **more),
    }
    said = {
        "mixing": float(model.mixing_[0]),
        "left_out_nll": float(model.leave_one_out_.with_sources),
        "left_out_nll_without": float(model.leave_one_out_.without_sources),
    }
    return found, said


def _probability(
    model: Any, judged: FloatArray, num_classes: int, x: FloatArray, label: Integers, **more: Any
) -> FloatArray:
    """Fit a model and return probabilities of all classes, also of those that it has not met."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # whether the source helps is what the curves show
        model.fit(x, label, **more)
    probability = np.zeros((len(judged), num_classes))
    probability[:, model.classes_] = model.predict_proba(judged)
    return probability


def scored(probability: FloatArray, tissue: Tissue, rows: Integers) -> Scored:
    """Return the scores of probabilities `[n, C]` of some patches.

    Args:
        probability: Of each class; columns of a label that no patch has do not count for the AUCs.
        tissue: Patches of the data.
        rows: The judged ones.
    """
    label, group = tissue.label[rows], tissue.group[rows]
    values = probability[:, 1] if probability.shape[1] == 2 else probability
    groups = np.unique(group)
    names = [tissue.group_names[k] for k in groups]
    records = [
        classification_record(name, label[group == k], values[group == k], {})
        for name, k in zip(names, groups, strict=True)
    ]
    statistics = classification_statistics(records)
    scores = {score.key: float(score.evaluate(statistics)[0]) for score in CURVE_SCORES}
    shares = {
        "accuracy": statistics.dense["correct"] / len(rows),
        "nll": statistics.dense["negative_log_likelihood"] / len(rows),
        "auc": _per_group(auc_shares(probability, label), group, groups),
    }
    images = _of_images(probability, label, tissue.image[rows], group)
    if images is not None:
        mean, image_label, image_group = images
        shares["image_auc"] = _per_group(auc_shares(mean, image_label), image_group, groups)
    scores |= {key: float(shares[key].sum()) for key in ("auc", "image_auc") if key in shares}
    return Scored(
        scores,
        {name: {key: float(share[k]) for key, share in shares.items()} for k, name in enumerate(names)},
    )


def _per_group(shares: FloatArray, group: Integers, groups: Integers) -> FloatArray:
    return np.array([shares[group == k].sum() for k in groups])


def auc_shares(probability: FloatArray, label: Integers) -> FloatArray:
    """Return what each row adds to the AUC, `[n]`: half by its own class, half as one of the others.

    The sum is the AUC of class 1 for two classes, and the mean over classes against the rest otherwise.

    Args:
        probability: Probability of each class, `[n, C]`.
        label: Classes, `[n]`.

    Example:
        >>> auc_shares(np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]), np.array([0, 1, 0])).tolist()
        [0.25, 0.5, 0.25]
    """
    classes = [1] if probability.shape[1] == 2 else np.unique(label).tolist()
    shares = np.zeros(len(label))
    for one in classes:
        own = label == one
        total = rankdata(probability[:, one])
        for side, others in ((own, ~own), (~own, own)):
            if not side.any() or not others.any():
                return np.full(len(label), np.nan)
            below = (total[side] - rankdata(probability[side, one])) / others.sum()
            right = below if side is own else 1.0 - below
            shares[side] += 0.5 * right / side.sum()
    return shares / len(classes)


def _of_images(
    probability: FloatArray, label: Integers, image: Integers, group: Integers
) -> tuple[FloatArray, Integers, Integers] | None:
    """Return mean probability `[M, C]`, class and group of images; None where one has several classes."""
    names, first, index = np.unique(image, return_index=True, return_inverse=True)
    if not np.array_equal(label[first][index], label):
        return None
    mean = np.zeros((len(names), probability.shape[1]))
    np.add.at(mean, index, probability)
    return mean / np.bincount(index)[:, None], label[first], group[first]


def is_of_one_class(tissue: Tissue) -> NDArray[np.bool_]:
    """Return whether all patches of each patch's image are of its class, `[N]`."""
    _, first, index = np.unique(tissue.image, return_index=True, return_inverse=True)
    odd = np.bincount(index, tissue.label != tissue.label[first][index]) > 0
    return np.asarray(~odd[index])
