"""Files by which the folders of steps are known, and checks of a step's paths.

The command line runs these checks before TensorFlow is imported and data is read. The steps run the same
checks, for they have other callers too.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

from data_prep.errors import InputError
from data_prep.files.atomic import refuse_existing
from data_prep.files.sole_writer import sole_writer
from data_prep.prepared.manifest import check_destination, read_manifest

RUN, METADATA, METRICS, PREDICTIONS = "run.json", "metadata.json", "metrics.json", "predictions.csv"
PREDICT_RUN = "predict_run.json"
EXPLORE_PAGE = "explore.html"

Values = Mapping[str, Any]


def _require_present(folder: Path, expected: str) -> None:
    if not folder.exists():
        raise InputError(f"{folder} does not exist. Check the path: pass {expected}.")


def require_run(run: Path) -> None:
    """Raise `InputError` where a folder is no training run."""
    _require_present(run, "the --out folder of a train step")
    if not (run / RUN).is_file():
        raise InputError(f"{run} is no training run: it has no {RUN}. Pass the --out folder of a train step.")


def require_no_run(out: Path, *, resume: bool) -> None:
    """Raise `InputError` where a folder holds a run that is not to be resumed."""
    if (out / RUN).exists() and not resume:
        raise InputError(f"{out} already holds a run. Continue it with --resume, or give another --out.")


def require_bundle(bundle: Path) -> None:
    """Raise `InputError` where a folder is no bundle."""
    _require_present(bundle, "the --out of an export")
    if not (bundle / METADATA).is_file() or not (bundle / "saved_model.pb").is_file():
        raise InputError(
            f"{bundle} is no bundle: {METADATA} or saved_model.pb is missing. Pass the --out of an export."
        )


def require_no_evaluation(out: Path) -> None:
    """Raise `InputError` where a folder holds an evaluation."""
    if (out / METRICS).exists():
        raise InputError(f"{out} already holds an evaluation. Give another --out, or remove that folder.")


def require_no_predictions(out: Path) -> None:
    """Raise `InputError` where a folder holds predictions that no command can go on with."""
    if (out / PREDICTIONS).exists() and not (out / PREDICT_RUN).is_file():
        raise InputError(f"{out} already holds predictions. Give another --out, or remove that folder.")


def only_command(step: str, values: Values) -> AbstractContextManager[None]:
    """Return a block in which no other command may write to a step's folder.

    A step that writes its files one after another shares the folder with nobody, see `sole_writer`. Others
    write under a temporary name of their own and rename it.

    Args:
        step: Its name, e.g. `train`.
        values: The values of its parameters, of which `out` is used.
    """
    return sole_writer(values["out"]) if step in _IN_PLACE else nullcontext()


def check_explored(out: Path, sources: Iterable[Path], *, overwrite: bool) -> None:
    """Refuse to write where input lies, or over what `explore` has not written.

    Args:
        out: Folder to write.
        sources: Files and folders of the input.
        overwrite: Whether a folder that `explore` has written may be replaced.

    Raises:
        InputError: `out` exists and `overwrite` is false, was not written by `explore`, or holds a source or
            lies in one.
    """
    target = out.resolve()
    for source in sources:
        path = source.resolve()
        if target.is_relative_to(path) or path.is_relative_to(target):
            raise InputError(f"--out {out}: is in the input {source}, or holds it. Choose another --out.")
    refuse_existing(out, overwrite=overwrite)
    # Other steps write metrics.json too, so only a page tells.
    is_explored = (out / EXPLORE_PAGE).is_file()
    if out.is_dir() and any(out.iterdir()) and not is_explored:
        raise InputError(
            f"{out}: has no {EXPLORE_PAGE}, so it was not written by `explore`; it is not "
            "overwritten. Choose another --out, or remove this folder yourself."
        )


def check_paths(step: str, values: Values) -> None:
    """Check what the user gave for the options of a step.

    Args:
        step: Its name, e.g. `train`.
        values: The values of its parameters. Only paths, lists of paths, `resume` and `overwrite` are used.

    Raises:
        InputError: A path to read from does not exist, or the folder to write to holds something already.
    """
    for option, path in _sources(values):
        if not path.exists():
            raise InputError(f"--{option} {path}: does not exist. {_remedy(path)}")
    if step in _ANY_DATA:
        _require_folder(values["data"])
    elif values.get("data") is not None:
        read_manifest(values["data"])
    if values.get("model") is not None:
        (require_bundle if step == "predict" else require_run)(values["model"])
    if values.get("out") is not None:
        require_of_this_machine(values["out"])
    if step in _DESTINATIONS:
        _DESTINATIONS[step](values["out"], values)


def require_of_this_machine(out: Path) -> None:
    """Refuse an address as `--out`, which would make folders of its name here.

    Raises:
        InputError: The path begins as an address.
    """
    if _ADDRESS.match(str(out)):
        raise InputError(f"--out {out}: is an address; expected a folder of this machine. Give a path.")


def _sources(values: Values) -> Iterator[tuple[str, Path]]:
    """Yield the option and the path of everything that is read, but for prepared folders and models."""
    for name, value in values.items():
        option = "input" if name in {"inputs", "more_inputs"} else name.rstrip("_").replace("_", "-")
        paths = value if isinstance(value, list) else [value]
        if option not in {"data", "export", "model", "out"}:
            yield from ((option, path) for path in paths if isinstance(path, Path))


def _remedy(path: Path) -> str:
    """Return what to do where there is no such path."""
    protocol = _ADDRESS.match(str(path))
    if protocol is None:
        return "Check the path."
    address = f"{protocol[0]}/{str(path)[protocol.end() :]}"
    return f"Copy it first: gpimaging fetch {shlex.quote(address)} --out FOLDER. Then give that folder."


def _require_folder(data: Path) -> None:
    if not data.is_dir():
        found = "is a file" if data.exists() else "does not exist"
        raise InputError(f"--data {data}: {found}; expected a folder. {_remedy(data)}")


def _check_prepared(out: Path, values: Values) -> None:
    check_destination(out, (path for _, path in _sources(values)), overwrite=values["overwrite"])


def _refuse_existing(out: Path, values: Values) -> None:
    refuse_existing(out, overwrite=values["overwrite"])


def _check_explored(out: Path, values: Values) -> None:
    sources = [values["data"], *(path for _, path in _sources(values))]
    check_explored(out, sources, overwrite=values["overwrite"])


_ADDRESS: Final = re.compile(r"(?!file:)[a-z][a-z0-9+]+:/")
"""How a path begins that is an address of another machine; a path keeps one of the two slashes."""

_ANY_DATA: Final = frozenset({"explore"})
"""Steps that take other folders than prepared ones as well."""

_IN_PLACE: Final = frozenset({"train", "evaluate", "predict", "features", "label"})
"""Steps whose folder grows file by file."""

_DESTINATIONS: Final[dict[str, Callable[[Path, Values], None]]] = {
    "prepare": _check_prepared,
    "survival": _refuse_existing,
    "explore": _check_explored,
    "train": lambda out, values: require_no_run(out, resume=values["resume"]),
    "evaluate": lambda out, _: require_no_evaluation(out),
    "predict": lambda out, _: require_no_predictions(out),
    "export": _refuse_existing,
}
"""Checks of the output folder, by step, where its files alone say whether it may be written to."""
