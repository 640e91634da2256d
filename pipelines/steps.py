"""Steps of the command line: the options that all of them share are defined and handled once, here.

A step is a function whose first parameter is a `StepCall`. Its parameters named `data`, `model`, `out` and
`resume` become the shared options of those names; the others are its own. A shared option that a step has no
use for is accepted and reported, so that a script can pass the same options to every step.
"""

import inspect
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
from pydantic import BaseModel
from rich.console import Console

from data_prep.errors import InputError
from pipelines.config import CONFIG_NAME, load_settings
from pipelines.console import configure_logging, exit_codes, make_console, show_note, show_settings
from pipelines.path_checks import PREDICTIONS, check_paths
from pipelines.tensorflow_start import start_tensorflow

Settings = TypeVar("Settings", bound=BaseModel)
StepFunction = Callable[..., None]

_PANEL: Final = "Shared by all steps"

_FOLDERS: Final[dict[str, tuple[type, str]]] = {
    "data": (Path, "Prepared folder, written by the prepare step."),
    "model": (Path, "Run folder of a train step, or bundle folder of an export step."),
    "out": (Path, "Folder to write to."),
    "resume": (bool, "Continue an interrupted run; what is complete is not repeated."),
}
"""Shared options that are parameters of the steps with a use for them."""

_ALWAYS: Final[dict[str, Any]] = {
    "config": Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE.yaml", help="Settings as YAML.", rich_help_panel=_PANEL),
    ],
    "overrides": Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change one setting; can be repeated. Beats --config; every other option beats --set.",
            rich_help_panel=_PANEL,
        ),
    ],
    "seed": Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed of every random choice.", rich_help_panel=_PANEL)
    ],
    "jobs": Annotated[
        int | None,
        typer.Option(
            "--jobs",
            min=1,
            help="Processes or threads; without it as many as there are processors.",
            rich_help_panel=_PANEL,
        ),
    ],
}
"""Shared options that reach every step through its `StepCall`."""


Folds = Annotated[int | None, typer.Option(help="Number of folds for cross-validation.")]
"""Option of prepare steps."""

OverwritePrepared = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier prepared folder.")]
"""Option of prepare steps."""

MoreInputs = Annotated[list[Path] | None, typer.Argument(metavar="PATH", hidden=True)]
"""Of predict steps: a wildcard after --input leaves all names but the first as arguments."""


@dataclass(frozen=True)
class SettingsClass:
    """Where a settings class is; imported when it is needed, for its module may import TensorFlow."""

    module: str
    name: str

    def load(self) -> type[BaseModel]:
        """Import the class."""
        cls: type[BaseModel] = getattr(import_module(self.module), self.name)
        return cls


@dataclass(frozen=True)
class StepCall:
    """What every step gets: the console and the options that become settings.

    Attributes:
        command: as the user wrote it, for messages.
        console: for progress and tables.
        jobs: processes or threads, None for as many as there are processors.
        config: file of settings.
        overrides: texts `key=value`.
        seed: of every random choice.
    """

    command: str
    console: Console
    jobs: int | None
    config: Path | None
    overrides: tuple[str, ...]
    seed: int | None

    def settings(self, cls: type[Settings], *, config: Path | None = None, **options: Any) -> Settings:
        """Build the step's settings; see `pipelines.config.load_settings`.

        Args:
            cls: the settings class.
            config: a file to read where the user gave none.
            options: the step's own options that are settings, None where the user gave none.
        """
        if "seed" in cls.model_fields:
            options["seed"] = self.seed
        elif self.seed is not None:
            _note_unused(self.command, "seed")
        return load_settings(cls, config=self.config or config, overrides=self.overrides, options=options)


def height_and_width(option: str, text: str) -> tuple[int, int]:
    """What the user means by an option like `--size 306x306`.

    Raises:
        InputError: the text is no height and width.
    """
    height, _, width = text.lower().partition("x")
    if not (height.isdecimal() and width.isdecimal()):
        raise InputError(f"{option} {text}: expected HEIGHTxWIDTH in pixels, for example 306x306.")
    return int(height), int(width)


def make_command(name: str, settings: SettingsClass, function: StepFunction) -> StepFunction:
    """Make the function that typer calls of a step's function.

    Args:
        name: command as the user writes it, e.g. `lane train`.
        settings: the step's settings, for `--help-settings`.
        function: takes a `StepCall`, shared options by their names, and options of its own.

    Returns:
        a function whose signature names all options, and which turns errors into exit codes.
    """
    own = list(inspect.signature(function).parameters.values())[1:]
    unused = _FOLDERS.keys() - {parameter.name for parameter in own}

    @wraps(function)
    def command(**values: Any) -> None:
        console = make_console()
        configure_logging(console)
        given = dict(values)
        with exit_codes(lambda: _how_to_go_on(name, given, resumable="resume" not in unused)):
            for shared in sorted(unused):
                if values.pop(shared):
                    _note_unused(name, shared)
            del values["help_settings"]
            check_paths(name.rpartition(" ")[2], values)
            call = StepCall(
                command=name,
                console=console,
                jobs=values.pop("jobs"),
                config=values.pop("config"),
                overrides=tuple(values.pop("overrides") or ()),
                seed=values.pop("seed"),
            )
            function(call, **values)

    parameters = [
        *(_own_parameter(parameter) for parameter in own),
        *(_unused_parameter(shared) for shared in _FOLDERS if shared in unused),
        *(_parameter(shared, annotation, None) for shared, annotation in _ALWAYS.items()),
        _help_settings(name, settings),
    ]
    # Typer reads the options from the signature and the annotations.
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _own_parameter(parameter: inspect.Parameter) -> inspect.Parameter:
    if parameter.name not in _FOLDERS:
        return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    annotation, text = _FOLDERS[parameter.name]
    option = typer.Option(f"--{parameter.name}", help=text, rich_help_panel=_PANEL)
    return _parameter(parameter.name, Annotated[annotation, option], parameter.default)


def _unused_parameter(name: str) -> inspect.Parameter:
    annotation, text = _FOLDERS[name]
    option = typer.Option(f"--{name}", help=text, hidden=True)
    return _parameter(name, Annotated[annotation | None, option], None)


def _help_settings(command: str, settings: SettingsClass) -> inspect.Parameter:
    def show(wanted: bool) -> None:
        if wanted:
            console = make_console()
            configure_logging(console)
            start_tensorflow(threads=None)  # the module of the settings may import it
            show_settings(console, command, settings.load())
            raise typer.Exit

    option = typer.Option(
        "--help-settings", is_eager=True, callback=show, help="Show the settings of this step and exit."
    )
    return _parameter("help_settings", Annotated[bool, option], False)


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _note_unused(command: str, option: str) -> None:
    show_note(f"`{command}` has no use for --{option}; it is ignored.")


def _how_to_go_on(command: str, values: dict[str, Any], *, resumable: bool) -> str:
    """What to do after Ctrl-C; looks at what the step has written until then."""
    out = values["out"]
    if resumable and (out / CONFIG_NAME).is_file():
        paths = {name: values.get(name) for name in ("data", "weights", "model", "out")}
        given = [
            text for name, path in paths.items() if path is not None for text in (f"--{name}", str(path))
        ]
        return f"Continue with: gpimaging {command} {shlex.join([*given, '--resume'])}"
    if (out / PREDICTIONS).is_file():
        return f"Complete predictions are kept in {out}. Predict the others into another --out."
    return "Nothing complete was written. Run the command again."
