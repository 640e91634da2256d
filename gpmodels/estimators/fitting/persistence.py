"""Estimators as files: one `.npz` of arrays and a JSON description, never pickle.

A file may come from anyone: reading it runs no code of the file's. A digest tells one that was altered after
it was written. Who writes a file on purpose can give it numbers that no fit gives; it then predicts nonsense.
"""

import abc
import hashlib
import importlib.metadata
import json
import os
import uuid
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from gpmodels.estimators.fitting.monitoring import CurvePoint

Estimator = TypeVar("Estimator", bound=BaseEstimator)
"""An estimator of `gpmodels`; its class is above this module, and of it only the interface is used."""

FORMAT = "gpmodels estimator"
FORMAT_VERSION = 1

FORGOTTEN = ("log_dir", "random_state")
"""Parameters stored as None where they mean something on one machine or in one process only."""

BEFORE = {
    "lengthscale_spread": None,
    "temperature": 1.0,
    "kernel_depth": 1,
    "mean": "none",
    "mean_posterior": False,
}
"""Parameters that files of earlier versions lack, with the value under which they were fitted."""


Arrays = Mapping[str, npt.NDArray[Any]]


class SavedEstimator(BaseEstimator, abc.ABC):
    """An estimator that can be written to a file."""

    _learned: ClassVar[str] = "weights_"
    """Attribute that every fit sets at its end: one that failed leaves others that end in `_` behind."""

    def __sklearn_is_fitted__(self) -> bool:
        """Whether something is learned."""
        return hasattr(self, self._learned)

    @abc.abstractmethod
    def _stored(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what was learned: arrays, and what else JSON can hold."""

    @classmethod
    @abc.abstractmethod
    def _restored(cls, description: Mapping[str, Any], arrays: Arrays) -> Self:
        """Return the estimator of what `_stored` returned; `unfitted` makes it."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file, complete or not at all.

        Args:
            path: The file, usually `*.npz`; an existing one is replaced.

        Raises:
            sklearn.exceptions.NotFittedError: The estimator is not fitted.
            ValueError: A label or a parameter cannot be stored.
            FileNotFoundError: There is no such folder.
        """
        check_is_fitted(self)
        arrays, own = self._stored()
        labels_are_objects = False
        if is_classifier(self):
            arrays["classes"] = storable_labels(self.classes_)
            labels_are_objects = self.classes_.dtype == object
        if hasattr(self, "feature_names_in_"):
            arrays["feature_names"] = self.feature_names_in_.astype(np.str_)
        description = header(self) | {"labels_are_objects": labels_are_objects} | own
        description["digest"] = _digest(arrays, description)
        write_archive(Path(path), arrays | {"description": np.array(json.dumps(description))})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator of this class from a file of `save`; reading runs no code of the file's.

        Args:
            path: The file.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: The file is of another kind or class, damaged, or altered; the message says how.
        """
        try:
            description, arrays = read_archive(Path(path))
            check_header(description, cls)
            digest = description.pop("digest", None)  # earlier files have none
            if digest is not None and digest != _digest(arrays, description):
                raise ValueError("was altered after it was saved. Save the estimator again.")
            return cls._restored(description, arrays)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        except (AttributeError, IndexError, KeyError, MemoryError, TypeError) as error:
            raise ValueError(f"{path}: is not what {cls.__name__}.save writes ({error!r}).") from error


def _digest(arrays: Arrays, description: Mapping[str, Any]) -> str:
    """Return a digest of all that a file holds besides it."""
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


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


def as_json_value(value: Any) -> Any:
    """Return NumPy scalars, and columns in any form, as Python's own types."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, slice) and value.stop is not None:
        return list(range(value.start or 0, value.stop, value.step or 1))
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple | range):
        return [as_json_value(part) for part in value]
    return value


def with_tuples(value: Any) -> Any:
    """Return lists as tuples, which can be keys."""
    return tuple(with_tuples(part) for part in value) if isinstance(value, list) else value


def storable_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return an estimator's parameters as JSON can hold them.

    Raises:
        ValueError: A parameter cannot be stored.
    """
    stored = {}
    for name, given in parameters.items():
        value = as_json_value(given)
        if isinstance(value, dict):  # class_weight: JSON would turn its labels into strings
            value = {"pairs": [[as_json_value(key), as_json_value(part)] for key, part in value.items()]}
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
            if strange := [name for name, array in arrays.items() if array.dtype.itemsize == 0 < array.size]:
                raise ValueError(f"{strange[0]} has items of no size")
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


def unfitted(cls: type[Estimator], description: Mapping[str, Any], arrays: Arrays) -> Estimator:
    """Return an estimator with the parameters, the labels and the names of the columns of a file."""
    parameters = description["parameters"]
    known = set(cls().get_params(deep=False))
    if unknown := sorted(set(parameters) - known):
        raise ValueError(f"has the parameters {unknown}, which {cls.__name__} does not have.")
    values: dict[str, Any] = {name: value for name, value in BEFORE.items() if name in known}
    for name, value in parameters.items():
        values[name] = dict(value["pairs"]) if isinstance(value, dict) else value
    values |= {"log_dir": None} if "log_dir" in known else {}  # a file says nowhere where to write
    estimator = cls(**values)
    if is_classifier(estimator):
        are_objects = description.get("labels_are_objects", False)
        estimator.classes_ = arrays["classes"].astype(object) if are_objects else arrays["classes"]
    if "feature_names" in arrays:
        estimator.feature_names_in_ = arrays["feature_names"].astype(object)
    return estimator


def curve_array(curve: Sequence[CurvePoint]) -> npt.NDArray[Any]:
    """Return a learning curve as an array, with a row for each iteration."""
    return np.array(curve, "float64").reshape(-1, len(CurvePoint._fields))


def restored_curve(arrays: Arrays) -> list[CurvePoint]:
    """Return the learning curve of a file."""
    return [CurvePoint(int(iteration), *rest) for iteration, *rest in arrays["learning_curve"].tolist()]
