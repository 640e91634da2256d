"""Commands of the command line: the options that all of them share are defined and handled once, here.

The function of a command has a `StepCall` as its first parameter. Its parameters named `data`, `model`, `out`
and `resume` become the shared options of those names, unless they are annotated as options of their own; the
others are its own, beside those that the settings name as options. A shared option that a command has no use
for is accepted and reported, so that a script can pass the same options to every step.
"""

import inspect
import shlex
import typing
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, Generic, TypeVar

import typer
from pydantic import BaseModel
from rich.console import Console
from typer.models import OptionInfo

from data_prep.prepared.workers import Cluster, Workers, open_cluster
from data_prep.splits.settings import LARGEST_SEED
from pipelines.command.config import CONFIG_NAME, load_settings
from pipelines.command.console import (
    configure_logging,
    exit_codes,
    make_console,
    show_note,
    show_settings,
    stage_bars,
)
from pipelines.command.folders import PREDICT_RUN, PREDICTIONS, check_paths, only_command
from pipelines.command.options import read_options, setting_options
from pipelines.command.strategies import StrategyName, read_task
from pipelines.command.tensorflow_start import start_tensorflow

Settings = TypeVar("Settings", bound=BaseModel)
Result = TypeVar("Result")

_PANEL: Final = "Shared by all steps"

_FOLDERS: Final[dict[str, tuple[type, str]]] = {
    "data": (Path, "Prepared folder, written by the prepare step."),
    "model": (Path, "Run folder of a train step; predict takes the bundle folder of an export step."),
    "out": (Path, "Folder to write to."),
    "resume": (bool, "Continue an interrupted run; what is complete is not repeated."),
}
"""Shared options that are parameters of the commands with a use for them."""

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
        int | None,
        typer.Option(
            "--seed", min=0, max=LARGEST_SEED, help="Seed of every random choice.", rich_help_panel=_PANEL
        ),
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
"""Shared options that every command takes."""

_CLUSTER: Final[dict[str, Any]] = {
    "metavar": "ADDRESS",
    "help": "Work on files on a Dask cluster: tcp://HOST:PORT of its scheduler, or local:N for N processes.",
}
"""Shared option of commands that work on many files."""

_MORE_INPUTS: Final = Annotated[list[Path] | None, typer.Argument(metavar="PATH", hidden=True)]
"""A wildcard after --input leaves all names but the first as arguments."""

OverwritePrepared = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier prepared folder.")]
"""Option of prepare steps."""


@dataclass(frozen=True)
class StepCall(Generic[Settings]):
    """What every command's function gets beside the folders and its own options.

    Attributes:
        settings: Of the step, from defaults, `--config`, `--set` and options.
        console: For progress and tables.
        jobs: Processes or threads, None for as many as there are processors.
        former: The settings that a resumed run was started with, None where there is no run to resume.
        cluster: To work on files on, None for processes of this machine.
    """

    settings: Settings
    console: Console
    jobs: int | None
    former: Settings | None
    cluster: Cluster | None = None

    @property
    def threads(self) -> int:
        """How many files to work on at a time: `jobs`, or as many as there are processors."""
        from joblib import cpu_count  # noqa: PLC0415 - help answers without it

        return self.jobs or int(cpu_count())

    @property
    def workers(self) -> Workers:
        """What to work on files with: the cluster, or so many processes."""
        return self.cluster or self.threads

    def prepared(self, prepare: Callable[..., Result], *paths: Path, **options: Any) -> Result:
        """Return what a prepare step does with these settings, whose progress is shown.

        Args:
            prepare: The step, for example `data_prep.classify.prepare.prepare_classify`.
            *paths: Its inputs and its output.
            **options: Its own options.
        """
        with stage_bars(self.console) as advance:
            return prepare(*paths, self.settings, jobs=self.workers, progress=advance, **options)


OffCluster = Callable[[Mapping[str, Any], Any], str | None]
"""Function of the options and the settings of a command, see `Command.off_cluster`."""


@dataclass(frozen=True)
class Command:
    """One step of an application as a command.

    Attributes:
        settings: Class of the step's settings.
        function: Takes a `StepCall`, shared options by their names, and options of its own; returns what the
            step returns. Its docstring is the help. It imports the step when it is called, for that takes
            seconds.
        continues: Whether a resumed run goes on with the settings it was started with.
        on_cluster: Whether it can work on files on a cluster.
        off_cluster: Returns how a step that can is called, where these options and settings leave a cluster
            nothing to do; None where there is work for it.
        side_by_side: Whether threads of it run a network on several files at a time.
        off_tensorflow: Whether these options and settings need no TensorFlow.
    """

    settings: type[BaseModel]
    function: Callable[..., Any]
    continues: bool = False
    on_cluster: bool = False
    off_cluster: OffCluster = lambda _options, _settings: None
    side_by_side: bool = False
    off_tensorflow: Callable[[Mapping[str, Any], Any], bool] = lambda _options, _settings: False


Commands = Mapping[str, Command]
"""Commands of an application by the names of its steps, in the order of its help."""


def input_option(purpose: str) -> Any:
    """Return the option `--input` of a predict step; it takes several files as a wildcard gives them."""
    return typer.Option("--input", metavar="PATH...", help=purpose)


def make_command(name: str, command: Command) -> Callable[..., None]:
    """Make the function that typer calls for a command.

    Args:
        name: The command as the user writes it, e.g. `lane train`.
        command: Its settings and its function.

    Returns:
        A function whose signature names all options, and which turns errors into exit codes.
    """
    own = list(inspect.signature(command.function).parameters.values())[1:]
    unused = _FOLDERS.keys() - {parameter.name for parameter in own}
    options = setting_options(command.settings)

    @wraps(command.function)
    def run(**values: Any) -> None:
        console = make_console()
        configure_logging(console)
        entered = dict(values)
        with exit_codes(lambda: _how_to_go_on(name, entered, resumable="resume" not in unused)):
            for shared in sorted(unused):
                if values.pop(shared):
                    _note_unused(name, shared)
            del values["help_settings"]
            step = name.rpartition(" ")[2]
            check_paths(step, values)
            is_writer = True
            if values.get("strategy") is StrategyName.MULTI_WORKER:
                is_writer = read_task().is_chief  # refuses a TF_CONFIG before TensorFlow is imported
            given = {option: values.pop(option) for option in options}
            config, overrides, seed, jobs = (values.pop(shared) for shared in _ALWAYS)
            cluster = values.pop("cluster")
            if "inputs" in values:
                values["inputs"] = [*values["inputs"], *(values.pop("more_inputs") or ())]
            former = former_settings(command, values)
            chosen = read_options(command.settings, given)
            if "seed" in command.settings.model_fields:
                chosen["seed"] = seed
            elif seed is not None:
                _note_unused(name, "seed")
            settings = load_settings(
                command.settings,
                base=former if config is None else None,
                config=config,
                overrides=overrides or (),
                options=chosen,
            )
            if cluster is not None and (without := _without_cluster(name, command, values, settings)):
                _note_unused(without, "cluster")
                cluster = None
            with (
                only_command(step, values) if is_writer else nullcontext(),
                nullcontext() if cluster is None else open_cluster(cluster) as opened,
            ):
                _start(command, values, settings, jobs)
                command.function(StepCall(settings, console, jobs, former, opened), **values)

    of_command = [
        *(_own_parameter(parameter) for parameter in own),
        *(_parameter("more_inputs", _MORE_INPUTS, None) for parameter in own if parameter.name == "inputs"),
        *options.values(),
    ]
    parameters = [
        *sorted(of_command, key=lambda parameter: parameter.name == "overwrite"),  # the last one in the help
        *(_unused_parameter(shared) for shared in _FOLDERS if shared in unused),
        *(_parameter(shared, annotation, None) for shared, annotation in _ALWAYS.items()),
        _cluster_parameter(hidden=not command.on_cluster),
        _help_settings(name, command.settings),
    ]
    for parameter in parameters:
        _leave_checks_to_step(parameter)
    # Typer reads the options from the signature and the annotations.
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _start(command: Command, values: Mapping[str, Any], settings: BaseModel, jobs: int | None) -> None:
    """Start TensorFlow for a process of one command, unless the step does without."""
    if not command.off_tensorflow(values, settings):
        start_tensorflow(jobs, whole_process=True, side_by_side=command.side_by_side and jobs != 1)


def _leave_checks_to_step(parameter: inspect.Parameter) -> None:
    """Have typer not look at a path: the step says what it expected there, and what to do."""
    for mark in typing.get_args(parameter.annotation)[1:]:
        if isinstance(mark, OptionInfo):
            mark.readable = False


def former_settings(command: Command, values: Mapping[str, Any]) -> BaseModel | None:
    """Return the settings in the folder of a run that is to be resumed, None where there are none."""
    is_resumed = values.get("resume", True)  # a command without that option always goes on
    if not (command.continues and is_resumed and (values["out"] / CONFIG_NAME).is_file()):
        return None
    return load_settings(command.settings, config=values["out"] / CONFIG_NAME)


def _own_parameter(parameter: inspect.Parameter) -> inspect.Parameter:
    says_its_own_help = typing.get_origin(parameter.annotation) is Annotated
    if parameter.name not in _FOLDERS or says_its_own_help:
        return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    annotation, text = _FOLDERS[parameter.name]
    option = typer.Option(f"--{parameter.name}", help=text, rich_help_panel=_PANEL)
    return _parameter(parameter.name, Annotated[annotation, option], parameter.default)


def _unused_parameter(name: str) -> inspect.Parameter:
    annotation, text = _FOLDERS[name]
    option = typer.Option(f"--{name}", help=text, hidden=True)
    return _parameter(name, Annotated[annotation | None, option], None)


def _cluster_parameter(*, hidden: bool) -> inspect.Parameter:
    option = typer.Option("--cluster", hidden=hidden, rich_help_panel=_PANEL, **_CLUSTER)
    return _parameter("cluster", Annotated[str | None, option], None)


def _help_settings(command: str, settings: type[BaseModel]) -> inspect.Parameter:
    def show(wanted: bool) -> None:
        if wanted:
            show_settings(make_console(), command, settings)
            raise typer.Exit

    option = typer.Option(
        "--help-settings", is_eager=True, callback=show, help="Show the settings of this step and exit."
    )
    return _parameter("help_settings", Annotated[bool, option], False)


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _note_unused(command: str, option: str) -> None:
    show_note(f"`{command}` has no use for --{option}; it is ignored.")


def _without_cluster(
    name: str, command: Command, values: Mapping[str, Any], settings: BaseModel
) -> str | None:
    """Return how a command is called that leaves a cluster nothing to do; None where there is work for it."""
    return command.off_cluster(values, settings) if command.on_cluster else name


def _how_to_go_on(command: str, values: dict[str, Any], *, resumable: bool) -> str:
    """Return what to do after Ctrl-C, by what the step has written until then."""
    out = values["out"]
    if resumable and (out / CONFIG_NAME).is_file():
        paths = {name: values.get(name) for name in ("data", "weights", "model", "out")}
        given = [
            text for name, path in paths.items() if path is not None for text in (f"--{name}", str(path))
        ]
        if values.get("strategy", StrategyName.NONE) is not StrategyName.NONE:
            given += ["--strategy", values["strategy"].value]
        if values.get("cluster") is not None:
            given += ["--cluster", values["cluster"]]
        return f"Continue with: gpimaging {command} {shlex.join([*given, '--resume'])}"
    if (out / PREDICT_RUN).is_file():
        return f"Complete predictions are kept in {out}. Run the same command again to go on with the others."
    if (out / PREDICTIONS).is_file():
        return f"Complete predictions are kept in {out}. Predict the others into another --out."
    return "Nothing complete was written. Run the command again."
