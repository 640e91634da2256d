"""What a step refuses by its paths alone: a slip shows before TensorFlow is imported and data is read.

The steps themselves call the same checks: they have callers other than the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from data_prep.atomic import refuse_existing
from data_prep.destination import check_destination
from data_prep.errors import InputError
from data_prep.manifest import read_manifest
from pipelines.runs import require_no_run, require_run

METRICS, PREDICTIONS = "metrics.json", "predictions.csv"

Values = Mapping[str, Any]


def require_no_evaluation(out: Path) -> None:
    """Raise `InputError` where a folder holds an evaluation."""
    if (out / METRICS).exists():
        raise InputError(f"{out} already holds an evaluation. Give another --out, or remove that folder.")


def require_no_predictions(out: Path) -> None:
    """Raise `InputError` where a folder holds predictions."""
    if (out / PREDICTIONS).exists():
        raise InputError(f"{out} already holds predictions. Give another --out, or remove that folder.")


def check_paths(step: str, values: Values) -> None:
    """Check what the user gave for the options of a step.

    Args:
        step: Its name, e.g. `train`.
        values: What its parameters are to be; those that are paths, lists of paths, `resume` and `overwrite`
            count.

    Raises:
        InputError: There is nothing at a path to read from, or something at that to write to.
    """
    for option, path in _sources(values):
        if not path.exists():
            raise InputError(f"--{option} {path}: does not exist. Check the path.")
    if values.get("data") is not None:
        read_manifest(values["data"])
    if values.get("model") is not None:
        _require_model(step, values["model"])
    if step in _DESTINATIONS:
        _DESTINATIONS[step](values["out"], values)


def _sources(values: Values) -> Iterator[tuple[str, Path]]:
    """Name of the option and path of all that is only read, besides prepared folders and models."""
    for name, value in values.items():
        option = "input" if name in {"inputs", "more_inputs"} else name.replace("_", "-")
        paths = value if isinstance(value, list) else [value]
        if option not in {"data", "model", "out"}:
            yield from ((option, path) for path in paths if isinstance(path, Path))


def _require_model(step: str, model: Path) -> None:
    if step != "predict":
        require_run(model)
        return
    from pipelines.bundle_metadata import require_bundle  # noqa: PLC0415 - NumPy, which no help needs

    require_bundle(model)


def _check_prepared(out: Path, values: Values) -> None:
    check_destination(out, (path for _, path in _sources(values)), overwrite=values["overwrite"])


def _refuse_existing(out: Path, values: Values) -> None:
    refuse_existing(out, overwrite=values["overwrite"])


_DESTINATIONS: Final[dict[str, Callable[[Path, Values], None]]] = {
    "prepare": _check_prepared,
    "survival": _refuse_existing,
    "train": lambda out, values: require_no_run(out, resume=values["resume"]),
    "evaluate": lambda out, _: require_no_evaluation(out),
    "predict": lambda out, _: require_no_predictions(out),
    "export": _refuse_existing,
}
"""Of steps whose output is known by its files alone."""
