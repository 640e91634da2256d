"""Estimators as files: one `.npz` of arrays and a JSON description, never pickle.

A file may come from anyone. Everything in it is checked against what an estimator of that class would hold
before the estimator exists, and reading it runs no code of the file's.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import uuid
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from gpmodels.estimators.monitoring import CurvePoint

Estimator = TypeVar("Estimator", bound=BaseEstimator)
"""An estimator of `gpmodels`; its class is above this module, and of it only the interface is used."""

FORMAT = "gpmodels estimator"
FORMAT_VERSION = 1

FORGOTTEN = ("log_dir", "random_state")
"""Parameters stored as None where they mean something on one machine or in one process only."""

BEFORE = {"lengthscale_spread": None, "temperature": 1.0, "kernel_depth": 1, "mean": "none"}
"""Parameters that files of earlier versions lack, with the value under which they were fitted."""

LISTS = ("views", "widths")
"""Settings of a head that are lists."""

NUMBERS = (
    *("effective_observations", "temperature", "num_rows", "rows_digest", "weights_digest"),
    "linear_share",
)
"""Positive numbers that a fit finds, and that earlier files lack."""

Arrays = Mapping[str, npt.NDArray[Any]]


def save_estimator(estimator: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to one file, complete or not at all.

    Args:
        estimator: Fitted.
        path: The file, by custom `*.npz`; an existing one is replaced.

    Raises:
        sklearn.exceptions.NotFittedError: The estimator is not fitted.
        ValueError: A label or a parameter cannot be stored.
        FileNotFoundError: There is no such folder.
        OSError: The file cannot be written.
    """
    check_is_fitted(estimator)
    weights = estimator.weights_
    arrays: dict[str, npt.NDArray[Any]] = {
        "input_mean": estimator.input_mean_,
        "input_scale": estimator.input_scale_,
        "learning_curve": np.array(estimator.learning_curve_, "float64").reshape(-1, len(CurvePoint._fields)),
        **{name.rstrip("_"): getattr(estimator, name) for name in estimator._learned_arrays},
        **{f"weight_{i}": weight for i, weight in enumerate(weights)},
    }
    description = header(estimator) | {
        "head_settings": {name: _plain(value) for name, value in estimator.head_settings_.items()},
        "weight_names": _weight_names(estimator),
        "iterations": estimator.n_iter_,
        "kept_iteration": getattr(estimator, "kept_iteration_", None),
        "effective_observations": getattr(estimator, "effective_observations_", None),
        "temperature": getattr(estimator, "temperature_", None),
        "num_rows": float(estimator.num_rows_) if hasattr(estimator, "num_rows_") else None,
        "rows_digest": getattr(estimator, "rows_digest_", None),
        "weights_digest": getattr(estimator, "weights_digest_", None),
        "linear_share": getattr(estimator, "linear_share_", None),
        **{name.rstrip("_"): bool(getattr(estimator, name)) for name in estimator._learned_flags},
        "labels_are_objects": False,
    }
    if is_classifier(estimator):
        arrays["classes"] = storable_labels(estimator.classes_)
        description["labels_are_objects"] = estimator.classes_.dtype == object
    else:
        arrays["target_moments"] = np.array([estimator.target_mean_, estimator.target_scale_])
    if hasattr(estimator, "feature_names_in_"):
        arrays["feature_names"] = estimator.feature_names_in_.astype(np.str_)
    arrays["description"] = np.array(json.dumps(description))
    write_archive(Path(path), arrays)


def load_estimator(cls: type[Estimator], path: str | os.PathLike[str]) -> Estimator:
    """Read an estimator of class `cls` from a file of `save_estimator`.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is no such file, or of another class, damaged, or inconsistent.
    """
    try:
        description, arrays = read_archive(Path(path))
        _check_description(description, cls)
        return _restored(cls, description, arrays)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def header(estimator: BaseEstimator) -> dict[str, Any]:
    """Return what the description of every file begins with: format, class, parameters and versions.

    Raises:
        ValueError: A parameter cannot be stored.
    """
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "class": type(estimator).__name__,
        "parameters": storable_parameters(estimator.get_params(deep=False)),
        "versions": package_versions(),
    }


def check_header(description: Mapping[str, Any], cls: type[BaseEstimator]) -> None:
    """Refuse a description that does not begin as one of a class's estimators does.

    Raises:
        ValueError: It is of another version or class, or lacks the parameters.
    """
    version = description.get("format_version")
    if version != FORMAT_VERSION:
        raise ValueError(
            f"has format version {version!r}, but this release reads {FORMAT_VERSION}. It was written with "
            f"{description.get('versions')}."
        )
    if description.get("class") != cls.__name__:
        raise ValueError(
            f"is of {description.get('class')}, not of {cls.__name__}. Call {description.get('class')}.load."
        )
    if not isinstance(description.get("parameters"), dict):
        raise ValueError("its description lacks parameters.")


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that a file depends on."""
    versions = {}
    for package in ("gpimaging", "tensorflow", "gpflow", "scikit-learn", "numpy"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "unknown"
    return versions


def _weight_names(estimator: BaseEstimator) -> list[str]:
    head = estimator._engine(estimator.n_features_in_).head
    return [weight.name for weight in head.weights]


def _plain(value: Any) -> Any:
    """Return NumPy scalars, and columns in any form, as Python's own types."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, slice) and value.stop is not None:
        return list(range(value.start or 0, value.stop, value.step or 1))
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple | range):
        return [_plain(part) for part in value]
    return value


def _frozen(value: Any) -> Any:
    """Return lists as tuples, which can be keys."""
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value


def storable_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return an estimator's parameters as JSON can hold them.

    Raises:
        ValueError: A parameter cannot be stored.
    """
    stored = {}
    for name, given in parameters.items():
        value = _plain(given)
        if isinstance(value, dict):  # class_weight: JSON would turn its labels into strings
            value = {"pairs": [[_plain(key), _plain(part)] for key, part in value.items()]}
        if name in FORGOTTEN and not isinstance(value, int):
            value = None
        try:
            json.dumps(value)
        except TypeError as error:
            raise ValueError(
                f"The parameter {name} is {value!r}, which a file cannot hold. Set it to a number, "
                "a string or None."
            ) from error
        stored[name] = value
    return stored


def storable_labels(classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the labels as an array that needs no pickle.

    Raises:
        ValueError: They are objects other than strings, or end in a NUL character.
    """
    if classes.dtype != object:
        return classes
    kinds = {type(label) for label in classes.tolist()}
    if kinds != {str}:
        raise ValueError(
            f"Labels of type {sorted(kind.__name__ for kind in kinds)} in an object array cannot be "
            "stored. Fit with labels that are all strings, or in an array of numbers."
        )
    stored = classes.astype(np.str_)
    if stored.tolist() != classes.tolist():
        raise ValueError("Labels that end in a NUL character cannot be stored. Rename them and fit again.")
    return stored


def write_archive(path: Path, arrays: Arrays) -> None:
    """Write arrays to one file, complete or not at all.

    Raises:
        FileNotFoundError: There is no such folder.
    """
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such folder. Make it first, or save elsewhere.")
    temporary = folder / f".partial-{uuid.uuid4().hex[:8]}-{path.name}"
    try:
        with temporary.open("xb") as file:
            np.savez_compressed(file, **arrays)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


LARGEST_FILE = 2 * 2**30
"""Most bytes of arrays that are unpacked: a small file can hold very many zeros."""


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the description and arrays of a file, of whatever content.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no file of an estimator, or damaged.
    """
    with path.open("rb") as file:
        try:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is no .npz archive")
            with zipfile.ZipFile(file) as archive:
                size = sum(member.file_size for member in archive.infolist())
            if size > LARGEST_FILE:
                raise ValueError(f"its arrays would take {size / 2**30:.1f} GiB, the limit is 2")
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            description = json.loads(str(arrays.pop("description")[()]))
        except (ValueError, KeyError, EOFError, OSError, TypeError, AttributeError) as error:
            raise ValueError(f"is not a complete file of an estimator ({error}).") from error
        # RuntimeError: an encrypted member; NotImplementedError: an unknown compression; MemoryError: a
        # header that claims an array beyond all memory, however few bytes follow.
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, MemoryError) as error:
            raise ValueError(f"is damaged ({error}).") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ValueError(f'is not a file of an estimator: its description has no "format": "{FORMAT}".')
    return description, arrays


def _check_description(description: Mapping[str, Any], cls: type[BaseEstimator]) -> None:
    check_header(description, cls)
    for name, kind in (("head_settings", dict), ("weight_names", list)):
        if not isinstance(description.get(name), kind):
            raise ValueError(f"its description lacks {name}.")
    iterations = description.get("iterations")
    if not isinstance(iterations, int) or iterations < 1:
        raise ValueError(f"its number of iterations must be a positive integer, but is {iterations!r}.")
    kept = description.get("kept_iteration")  # earlier files have none
    if kept is not None and not (type(kept) is int and 0 <= kept <= iterations):
        raise ValueError(f"its kept_iteration must be an integer from 0 to {iterations}, but is {kept!r}.")
    for name in NUMBERS:
        value = description.get(name)
        if value is not None and not (isinstance(value, float) and 0.0 < value < math.inf):
            raise ValueError(f"its {name} must be a positive number, but is {value!r}.")
    for name in (flag.rstrip("_") for flag in cls._learned_flags):
        if not isinstance(description.get(name), bool | None):  # earlier files have none
            raise ValueError(f"its {name} must be true or false, but is {description[name]!r}.")


def _restored(cls: type[Estimator], description: Mapping[str, Any], arrays: Arrays) -> Estimator:
    estimator = unfitted(cls, description["parameters"])
    moments = {name: finite_array(arrays, name, (None,)) for name in ("input_mean", "input_scale")}
    (num_features,) = moments["input_mean"].shape
    if moments["input_scale"].shape != (num_features,) or not (moments["input_scale"] > 0).all():
        raise ValueError(f"input_scale must hold {num_features} positive numbers.")
    estimator.n_features_in_ = num_features
    estimator.input_mean_, estimator.input_scale_ = moments["input_mean"], moments["input_scale"]
    if "feature_names" in arrays:
        estimator.feature_names_in_ = restored_names(arrays, num_features)
    if is_classifier(estimator):
        estimator.classes_ = restored_classes(arrays, objects=bool(description.get("labels_are_objects")))
    else:
        mean, scale = finite_array(arrays, "target_moments", (2,)).tolist()
        if scale <= 0:
            raise ValueError(f"the scale of the targets must be positive, but is {scale}.")
        estimator.target_mean_, estimator.target_scale_ = mean, scale
    estimator.n_iter_ = description["iterations"]
    if description.get("kept_iteration") is not None:
        estimator.kept_iteration_ = description["kept_iteration"]
    for name in NUMBERS:
        if (value := description.get(name)) is not None:
            setattr(estimator, f"{name}_", float(value))
    estimator.learning_curve_ = restored_curve(arrays)
    for name in estimator._learned_arrays:
        setattr(estimator, name, finite_array(arrays, name.rstrip("_"), (None,)))
    for name in estimator._learned_flags:
        setattr(estimator, name, description.get(name.rstrip("_")))
    _restore_head(estimator, description, arrays)
    return estimator


def unfitted(cls: type[Estimator], parameters: Mapping[str, Any]) -> Estimator:
    """Return an estimator with the parameters of a file."""
    known = set(cls().get_params(deep=False))
    if unknown := sorted(set(parameters) - known):
        raise ValueError(f"has the parameters {unknown}, which {cls.__name__} does not have.")
    values: dict[str, Any] = {name: value for name, value in BEFORE.items() if name in known}
    for name, value in parameters.items():
        pairs = value.get("pairs") if isinstance(value, dict) else None
        try:
            values[name] = value if pairs is None else dict(pairs)
        except (TypeError, ValueError) as error:
            raise ValueError(f"its parameter {name} is no list of pairs: {value!r}.") from error
    return cls(**values)


def finite_array(arrays: Arrays, name: str, shape: tuple[int | None, ...]) -> npt.NDArray[Any]:
    """Return a float64 array of the file, of a shape in which None stands for any length."""
    if name not in arrays:
        raise ValueError(f"lacks the array {name}.")
    array = arrays[name]
    fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if not fits or array.dtype != np.float64:
        raise ValueError(
            f"the array {name} must be float64 of shape {list(shape)}, but is {array.dtype} of shape "
            f"{list(array.shape)}."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"the array {name} holds numbers that are not finite.")
    return array


def restored_names(arrays: Arrays, num_features: int) -> npt.NDArray[Any]:
    """Return the names of the columns that a file holds, `[D]`."""
    names = arrays["feature_names"]
    if names.shape != (num_features,) or names.dtype.kind != "U":
        raise ValueError(f"feature_names must hold {num_features} strings.")
    return names.astype(object)


def restored_classes(arrays: Arrays, *, objects: bool) -> npt.NDArray[Any]:
    """Return the labels that a file holds, in order."""
    classes = arrays.get("classes")
    if (
        classes is None
        or classes.ndim != 1
        or len(classes) < 2
        or not np.array_equal(classes, np.unique(classes))
    ):
        raise ValueError("the array classes must hold at least two different labels in order.")
    return classes.astype(object) if objects else classes


def restored_curve(arrays: Arrays) -> list[CurvePoint]:
    """Return the learning curve of a file."""
    curve = arrays.get("learning_curve")
    width = len(CurvePoint._fields)
    if curve is None or curve.dtype != np.float64 or curve.ndim != 2 or curve.shape[1] != width:
        raise ValueError(f"the array learning_curve must be float64 with {width} columns.")
    if not np.isfinite(curve[:, :2]).all():
        raise ValueError("the array learning_curve holds iterations or seconds that are not finite.")
    return [CurvePoint(int(iteration), *rest) for iteration, *rest in curve.tolist()]


def _restore_head(estimator: BaseEstimator, description: Mapping[str, Any], arrays: Arrays) -> None:
    of_before = {name: value for name, value in BEFORE.items() if name in estimator._head_settings()}
    settings: dict[str, Any] = {**of_before, **description["head_settings"]}
    names = description["weight_names"]
    missing = [f"weight_{i}" for i in range(len(names)) if f"weight_{i}" not in arrays]
    if missing:
        raise ValueError(f"lacks the arrays {missing[:5]}.")
    weights = [arrays[f"weight_{i}"] for i in range(len(names))]
    _check_settings(estimator, settings, sum(weight.size for weight in weights))
    estimator.head_settings_ = {name: _frozen(value) for name, value in settings.items()}
    try:
        engine = estimator._engine(estimator.n_features_in_)
    except TypeError as error:
        raise ValueError(f"its head_settings are not those of a head: {error}") from error
    head = engine.head
    if head.is_classifier != is_classifier(estimator):
        raise ValueError(
            f"its head has the likelihood {settings['likelihood']!r}, which does not go with "
            f"{type(estimator).__name__}."
        )
    expected_names = [weight.name for weight in head.weights]
    if names != expected_names:
        raise ValueError(f"holds the weights {names}, but this model has {expected_names}.")
    for name, weight, like in zip(names, weights, head.get_weights(), strict=True):
        if weight.shape != like.shape or weight.dtype != like.dtype:
            raise ValueError(
                f"the weight {name} must be {like.dtype} of shape {list(like.shape)}, but is "
                f"{weight.dtype} of shape {list(weight.shape)}."
            )
        if not np.isfinite(weight).all():
            raise ValueError(f"the weight {name} holds numbers that are not finite.")
    engine.set_weights(weights)
    if settings.get("num_experts") and not len(head.active_experts):
        raise ValueError("all of its experts are dropped; at least one must be in use.")
    estimator.weights_ = weights
    estimator.n_experts_ = len(head.active_experts)


def _check_settings(estimator: BaseEstimator, settings: Mapping[str, Any], num_values: int) -> None:
    """Refuse settings that are not of a head, or for which it would hold more numbers than the file."""
    expected = {*estimator._sizes(1), *estimator._head_settings(), "dtype"}
    # Present or not by a parameter, which may have been changed after the fit.
    if {*settings, "num_expert_inducing"} != {*expected, "num_expert_inducing"}:
        raise ValueError(f"its head_settings are {sorted(settings)}, but must be {sorted(expected)}.")
    sizes = ("num_inducing", "num_hidden", "num_hidden_inducing", "num_expert_inducing", "num_experts")
    for name in (*sizes, "num_classes"):
        size = settings.get(name, 1)
        if not isinstance(size, int) or isinstance(size, bool) or size < (name != "num_experts"):
            raise ValueError(f"{name} must be a positive integer, but is {size!r}.")
    others = [
        v
        for name, v in settings.items()
        if isinstance(v, list | dict) and not (name in LISTS and isinstance(v, list))
    ]
    if others:
        raise ValueError(f"its head_settings must be numbers, strings or null, but one is {others[0]!r}.")
    if settings["dtype"] not in ("float32", "float64"):
        raise ValueError(f'dtype must be "float32" or "float64", but is {settings["dtype"]!r}.')
    if is_classifier(estimator) and settings["num_classes"] != len(estimator.classes_):
        raise ValueError(
            f"num_classes is {settings['num_classes']}, but there are {len(estimator.classes_)} labels."
        )
    needed = estimator._least_weights(settings)
    if needed > num_values:
        raise ValueError(
            f"its head_settings ask for at least {needed} weights, but the file holds {num_values}."
        )
