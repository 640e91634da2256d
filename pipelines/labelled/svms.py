"""Support vector machines (SVMs) on fixed features, to compare with the heads (thesis table 4.4)."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from rich.console import Console
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC, LinearSVC

from data_prep.errors import InputError
from data_prep.files.arrays import read_arrays
from data_prep.files.atomic import atomic_file
from data_prep.splits.stratified import stratified_parts
from gpmodels.likelihoods.categorical import categorical_entropy
from pipelines.labelled.settings import SVMName
from pipelines.runs.predictors import Predictor
from pipelines.scores.calibration import TEMPERATURE_LIMITS, fit_temperature

TITLES: dict[SVMName, str] = {"linear_svm": "Linear SVM", "rbf_svm": "RBF-SVM"}

_COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
_WIDTHS = (0.1, 0.3, 1.0, 3.0)
"""Values of γ times the number of features, for features with a mean variance of one."""
_MOST_PARTS = 5

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingFeatures:
    """Features that SVMs are trained on.

    Attributes:
        features: Features `[N, D]`, float32.
        labels: Labels `[N]` from 0 to C - 1.
        groups: Group of each example `[N]`; a group is in one part of a cross-validation.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.int32]
    groups: NDArray[np.str_]

    def encoded_by(self, network: Callable[[tf.Tensor], tf.Tensor]) -> "TrainingFeatures":
        """Return the same examples with the features that a network makes of theirs."""
        return replace(self, features=np.asarray(network(tf.constant(self.features))))


@dataclass(frozen=True)
class SVM:
    """A trained SVM as arrays: decision values are `K(x, vectors) coefficients + intercepts`.

    With two classes there is one decision value, that of the second class; otherwise there is one for each
    class against the rest. Probabilities are the softmax (for two classes the sigmoid) of decision values
    over a temperature.

    Attributes:
        mean: Mean `[D]`, which is subtracted from the features.
        deviation: Standard deviation, by which the features are then divided.
        vectors: Scaled support vectors `[V, D]`; None for a linear SVM.
        coefficients: Coefficients `[V, K]`, or `[D, K]` of a linear SVM.
        intercepts: Intercepts `[K]`.
        gamma: γ of the kernel exp(-γ |x - v|²); 0 for a linear SVM.
        temperature: Temperature fitted on the selection examples.
        cost: The cost C, chosen by cross-validation.
    """

    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]
    vectors: NDArray[np.float32] | None
    coefficients: NDArray[np.float32]
    intercepts: NDArray[np.float32]
    gamma: float
    temperature: float
    cost: float

    def decision_values(self, features: tf.Tensor) -> tf.Tensor:
        """Return the decision values `[B, K]` of features `[B, D]`."""
        scaled = (features - self.mean) / self.deviation
        if self.vectors is not None:
            distances = (
                tf.reduce_sum(scaled**2, axis=1)[:, None]
                - 2.0 * tf.matmul(scaled, self.vectors, transpose_b=True)
                + np.sum(self.vectors**2, axis=1)
            )
            scaled = tf.exp(-self.gamma * tf.maximum(distances, 0.0))
        return tf.matmul(scaled, self.coefficients) + self.intercepts

    def predict(self, features: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return outputs by the names that heads use; the mutual information is 0."""
        logits = self.decision_values(features) / self.temperature
        if logits.shape[1] == 1:
            logits = tf.concat([tf.zeros_like(logits), logits], axis=1)
        probability = tf.nn.softmax(logits)
        entropy = categorical_entropy(probability)
        return {
            "probability": probability,
            "label": tf.argmax(logits, axis=1, output_type=tf.int32),
            "predictive_entropy": entropy,
            "mutual_information": tf.zeros_like(entropy),
        }


def fit_svm(
    name: SVMName,
    train: TrainingFeatures,
    selection: TrainingFeatures,
    class_names: Sequence[str],
    *,
    seed: int,
) -> SVM:
    """Train an SVM: C and γ by cross-validation over training groups, temperature on selection examples.

    Args:
        name: Name of the SVM.
        train: Examples to train on.
        selection: Examples that are neither trained on nor judged.
        class_names: Names of the classes in the order of the labels.
        seed: Seed of the parts of the cross-validation and of the linear solver.

    Raises:
        InputError: A class has fewer than two groups of training examples.
    """
    deviation = float(np.var(train.features, axis=0, dtype=np.float64).mean()) ** 0.5 or 1.0
    mean = train.features.mean(axis=0)
    scaled = (train.features - mean) / np.float32(deviation)
    folds = _folds(train, cross_validation_parts(train, class_names), seed)
    search = _search(name, scaled.shape[1], folds, seed)
    search.fit(scaled, train.labels)
    svm = _as_arrays(search.best_estimator_, scaled, mean, deviation)
    decisions = svm.decision_values(tf.constant(selection.features)).numpy()
    logits = decisions[:, 0] if decisions.shape[1] == 1 else decisions
    temperature = fit_temperature(logits, selection.labels)
    if temperature <= TEMPERATURE_LIMITS[0]:
        # As for the linear head: if all is right no temperature fits, and 0 would make mistakes certain.
        LOGGER.warning("Every selection example is predicted right: %s keeps the temperature 1", TITLES[name])
        temperature = 1.0
    return replace(svm, temperature=temperature)


def cross_validation_parts(train: TrainingFeatures, class_names: Sequence[str]) -> int:
    """Return the number of parts of whole groups that a cross-validation has, as the classes allow.

    Args:
        train: Examples to train on.
        class_names: Names of the classes in the order of the labels.

    Raises:
        InputError: A class has fewer than two groups.
    """
    groups = [np.unique(train.groups[train.labels == label]) for label in range(len(class_names))]
    fewest, rarest = min((len(names), label) for label, names in enumerate(groups))
    if fewest < 2:
        raise InputError(
            f"The class {class_names[rarest]!r} has training examples of {fewest} groups; support vector "
            "machines need two, one to learn from and one to choose C by. Prepare more groups or another "
            "split, or train without these machines (--set svms=[])."
        )
    return min(_MOST_PARTS, fewest)


def _folds(train: TrainingFeatures, parts: int, seed: int) -> PredefinedSplit:
    """Return that many parts, or a few more if classes share groups: no class may lie in one part alone."""
    names = [str(row) for row in range(len(train.labels))]
    groups = dict(zip(names, train.groups.tolist(), strict=True))
    labels = dict(zip(names, train.labels.tolist(), strict=True))
    for number in range(parts, len(set(train.groups)) + 1):
        part_of = stratified_parts(groups, labels, (1 / number,) * number, seed)
        part = np.array([part_of[name] for name in names])
        if all(np.ptp(part[train.labels == label]) for label in np.unique(train.labels)):
            break
    return PredefinedSplit(part)


def _search(name: SVMName, num_features: int, folds: PredefinedSplit, seed: int) -> GridSearchCV:
    grid: dict[str, Any] = {"estimator__C": _COSTS}
    if name == "linear_svm":
        estimator = LinearSVC(random_state=seed, max_iter=20_000)
    else:
        estimator = SVC(kernel="rbf")
        grid["estimator__gamma"] = [width / num_features for width in _WIDTHS]
    return GridSearchCV(OneVsRestClassifier(estimator), grid, cv=folds, scoring="accuracy")


def _as_arrays(
    fitted: OneVsRestClassifier, scaled: NDArray[np.float32], mean: NDArray[np.float32], deviation: float
) -> SVM:
    svms = fitted.estimators_
    intercepts = np.array([svm.intercept_[0] for svm in svms], np.float32)
    if isinstance(svms[0], LinearSVC):
        vectors, gamma = None, 0.0
        coefficients = np.stack([svm.coef_[0] for svm in svms], axis=1)
    else:
        used = np.unique(np.concatenate([svm.support_ for svm in svms]))
        coefficients = np.zeros((len(used), len(svms)))
        for column, svm in enumerate(svms):
            coefficients[np.searchsorted(used, svm.support_), column] = svm.dual_coef_[0]
        vectors, gamma = scaled[used], float(svms[0].gamma)
    return SVM(
        mean=mean,
        deviation=np.asarray(deviation, np.float32),
        vectors=vectors,
        coefficients=coefficients.astype(np.float32),
        intercepts=intercepts,
        gamma=gamma,
        temperature=1.0,
        cost=float(svms[0].C),
    )


def save_svm(svm: SVM, path: Path) -> None:
    """Write an SVM as arrays.

    Raises:
        InputError: The file cannot be written.
    """
    arrays = {name: value for name, value in vars(svm).items() if value is not None}
    with atomic_file(path) as temporary:
        temporary.parent.mkdir(parents=True, exist_ok=True)
        np.savez(temporary, **arrays)


def load_svm(path: Path) -> SVM:
    """Read an SVM.

    Raises:
        InputError: The file is damaged.
    """
    try:
        arrays = read_arrays(path)
        names = ("mean", "deviation", "coefficients", "intercepts")
        values: dict[str, Any] = {name: arrays[name] for name in names}
        values |= {name: float(arrays[name]) for name in ("gamma", "temperature", "cost")}
        return SVM(vectors=arrays.get("vectors"), **values)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} holds no support vector machine ({error}). Train again.") from error


def svm_file(run: Path, name: SVMName) -> Path:
    """Return the file of an SVM in a run; earlier versions wrote it to the folder `machines`."""
    former = run / "machines" / f"{name}.npz"
    return former if former.is_file() else run / "svms" / f"{name}.npz"


def train_svms(
    names: Sequence[SVMName],
    train: TrainingFeatures,
    selection: TrainingFeatures,
    class_names: Sequence[str],
    *,
    run: Path,
    seed: int,
    console: Console,
) -> None:
    """Train the SVMs that a run does not have yet.

    Args:
        names: Names of the SVMs that are wanted.
        train: Examples to train on.
        selection: Examples that are neither trained on nor judged.
        class_names: Names of the classes in the order of the labels.
        run: Folder of the run.
        seed: Seed of `fit_svm`.
        console: Console that shows progress.

    Raises:
        InputError: The training examples of a class are of one group, or a file cannot be written.
    """
    for name in names:
        if svm_file(run, name).is_file():
            continue
        with console.status(f"Training {TITLES[name]}"):
            svm = fit_svm(name, train, selection, class_names, seed=seed)
        save_svm(svm, svm_file(run, name))
        console.print(f"{TITLES[name]}: C {svm.cost:g}, temperature {svm.temperature:.3f}")


def svm_predictors(
    names: Sequence[SVMName], run: Path, network: Callable[[tf.Tensor], tf.Tensor] | None = None
) -> list[Predictor]:
    """Return the SVMs that a run has as rows of a report.

    Args:
        names: Names of the SVMs that are wanted.
        run: Folder of the run.
        network: Function from the inputs of the heads' network to the features of the SVMs, if these differ.

    Raises:
        InputError: A file is damaged.
    """
    paths = {name: svm_file(run, name) for name in names}
    return [svm_predictor(name, load_svm(path), network) for name, path in paths.items() if path.is_file()]


def svm_predictor(
    name: SVMName, svm: SVM, network: Callable[[tf.Tensor], tf.Tensor] | None = None
) -> Predictor:
    """Return an SVM as a row of a report; `network` as in `svm_predictors`."""
    details: dict[str, float | int | str] = {
        "C": svm.cost,
        "temperature": round(svm.temperature, 4),
    }
    if svm.vectors is not None:
        details |= {"gamma": round(svm.gamma, 6), "support vectors": len(svm.vectors)}

    def predict(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return svm.predict(inputs if network is None else network(inputs))

    return Predictor(TITLES[name], tf.function(predict, reduce_retracing=True), details)
