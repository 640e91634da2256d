"""The steps of an application as functions, made from the description of its commands."""

import difflib
import inspect
import typing
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.cli import APPLICATIONS
from pipelines.command.config import load_settings
from pipelines.command.console import make_console
from pipelines.command.folders import check_paths, only_command
from pipelines.command.steps import Command, StepCall, former_settings
from pipelines.command.tensorflow_start import start_tensorflow


class Steps:
    """The steps of an application: `prepare`, `train`, `evaluate`, `export`, `predict` and its own.

    Every function takes arguments by name alone: the folders and options of the command of that name, each of
    its settings (as `gpimaging classify train --help-settings` lists them, in Python's own types), `jobs` as
    `--jobs`, and `quiet=True` for no output. It raises `data_prep.errors.InputError` where the command ends
    with that message, and returns what the step made: `prepare` the manifest, `train` the record of the run,
    `evaluate` the `Evaluation`, `predict` the lines of `predictions.csv`; `export` returns nothing, see
    `gpimaging.load`.

    Args:
        name: Name of the application, such as `"classify"`.

    Raises:
        ValueError: There is no such application.

    Example:
        >>> "train" in dir(Steps("classify"))
        True
    """

    def __init__(self, name: str) -> None:
        groups = {group.name: group for group in APPLICATIONS}
        if name not in groups:
            raise ValueError(f"There is no application {name!r}; there are {', '.join(groups)}.")
        self._group = groups[name]

    @cached_property
    def _commands(self) -> Mapping[str, Command]:
        return self._group.commands()

    def __getattr__(self, step: str) -> Callable[..., Any]:
        if step.startswith("_") or step not in self._commands:
            raise AttributeError(f"gpimaging.{self._group.name} has no step {step!r}, but {self}.")
        function = _function(self._group.name, step, self._commands[step])
        setattr(self, step, function)
        return function

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._commands})

    def __repr__(self) -> str:
        return f"<gpimaging.{self._group.name}: {', '.join(self._commands)}>"


def _function(application: str, step: str, command: Command) -> Callable[..., Any]:
    """Return a command as a function whose signature names its options and its settings."""
    _, *own = inspect.signature(command.function).parameters.values()
    options = {parameter.name: parameter for parameter in own}
    fields = command.settings.model_fields
    name = f"gpimaging.{application}.{step}"

    def run(*, jobs: int | None = None, quiet: bool = False, **given: Any) -> Any:
        _require_known(name, given, {*options, *fields})
        missing = [
            key for key, option in options.items() if option.default is option.empty and key not in given
        ]
        if missing:
            raise TypeError(f"{name}() needs {', '.join(f'{key}=' for key in missing)}.")
        values = {
            key: _as_annotated(given.get(key, option.default), option) for key, option in options.items()
        }
        check_paths(step, values)
        former = former_settings(command, values)
        settings = load_settings(
            command.settings, base=former, options={key: given[key] for key in given if key in fields}
        )
        console = Console(quiet=True) if quiet else make_console()
        with only_command(step, values):
            if not command.off_tensorflow(values, settings):
                start_tensorflow(jobs)
            return command.function(StepCall(settings, console, jobs, former), **values)

    run.__name__ = run.__qualname__ = step
    run.__doc__ = command.function.__doc__
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            *(option.replace(kind=option.KEYWORD_ONLY, annotation=_kind(option)) for option in own),
            *(
                inspect.Parameter(
                    key, inspect.Parameter.KEYWORD_ONLY, default=field.get_default(call_default_factory=True)
                )
                for key, field in fields.items()
            ),
            *list(inspect.signature(run).parameters.values())[:2],
        ]
    )
    return run


def _require_known(name: str, given: Mapping[str, Any], known: set[str]) -> None:
    for key in given:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            meant = f" Did you mean {close[0]}?" if close else f" It takes {', '.join(sorted(known))}."
            raise TypeError(f"{name}() has no argument {key!r}.{meant}")


def _kind(option: inspect.Parameter) -> Any:
    """Return the type of an option without what the command line adds to it."""
    kind = option.annotation
    return typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind


def _as_annotated(value: Any, option: inspect.Parameter) -> Any:
    """Return paths as `Path`, and one path where several may be given as a list."""
    kind = _kind(option)
    if value is None:
        return None
    if typing.get_origin(kind) is list:
        return [Path(one) for one in ([value] if isinstance(value, str | Path) else value)]
    return Path(value) if kind is Path or Path in typing.get_args(kind) else value
