"""The command `gpimaging`: applications and their steps, and commands of their own such as `explore`.

The commands of an application are imported when one of them is asked for, and TensorFlow when a step runs, so
that help answers at once. Exit codes: 0 done, 1 failed, 2 bad usage or bad input, 3 an alarm of `watch` or a
guarantee that `recheck` finds broken, 130 interrupted.
"""

import shlex
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_group

from data_prep.files import fetching
from data_prep.splits.settings import LARGEST_SEED
from pipelines.command.console import (
    FAILED,
    configure_logging,
    exit_codes,
    make_console,
    say,
    show_error,
    show_table,
    stage_bars,
)
from pipelines.command.doctor import describe_extras, describe_machine
from pipelines.command.folders import require_of_this_machine
from pipelines.command.steps import Commands, make_command
from pipelines.command.tensorflow_start import start_tensorflow
from pipelines.watch.commands import recheck, watch


@dataclass(frozen=True)
class CommandGroup:
    """An application as the command line knows it.

    Attributes:
        name: The command, e.g. `lane`.
        purpose: One line for the help.
        own: Where its commands are: a module with all of their settings, imported when one is asked for.
        further: Where there are others, which follow after its `prepare`; None without any.
    """

    name: str
    purpose: str
    own: str
    further: str | None = None

    def commands(self) -> Commands:
        """Import the commands and return them."""
        own: Commands = resolve_name(self.own)
        further: Commands = {} if self.further is None else resolve_name(self.further)
        return {"prepare": own["prepare"], **further, **own}


APPLICATIONS = (
    CommandGroup(
        "lane",
        "Find the walkable lane in photographs, with a map of the uncertainty.",
        "pipelines.lane.commands:COMMANDS",
    ),
    CommandGroup(
        "classify",
        "Tell classes of images apart, with the uncertainty of each image.",
        "pipelines.classify.commands:COMMANDS",
    ),
    CommandGroup(
        "measure",
        "Measure a number in each image, with an interval that holds it.",
        "pipelines.measure.commands:COMMANDS",
    ),
    CommandGroup(
        "sonar",
        "Tell objects in sonar images from each other and from clutter, with their uncertainty.",
        "pipelines.sonar.commands:COMMANDS",
    ),
    CommandGroup(
        "video",
        "Tell what happens in videos over time, with the uncertainty of each moment.",
        "pipelines.video.commands:COMMANDS",
    ),
    CommandGroup(
        "histopathology",
        "Tell tumours from other tissue in patches of images and slides, with maps of both.",
        "pipelines.histopathology.commands:COMMANDS",
        further="pipelines.survival.commands:COMMANDS",
    ),
    CommandGroup(
        "cells",
        "Find dividing and dying cells in time-lapse microscopy, with their uncertainty.",
        "pipelines.cells.commands:COMMANDS",
    ),
)


def own_commands() -> Commands:
    """Import the commands with settings that belong to no application."""
    from pipelines.explore import commands as explore  # noqa: PLC0415 - with all of its settings
    from pipelines.label import commands as label  # noqa: PLC0415 - with all of its settings

    return {**explore.COMMANDS, **label.COMMANDS}


def demo(
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of every random choice.")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the folder of an earlier demo.")
    ] = False,
) -> None:
    """Render scenes, train, evaluate, export and predict in a few minutes; nothing is downloaded."""
    console = make_console()
    configure_logging(console)
    with exit_codes(stopped=lambda: "Run the command again with --overwrite."):
        start_tensorflow(threads=None, whole_process=True)
        from pipelines.lane.demo import run_demo  # noqa: PLC0415 - imports TensorFlow

        run_demo(out, seed=seed, overwrite=overwrite, console=console)


def verify(bundle: Annotated[Path, typer.Argument(help="Folder that an export step wrote.")]) -> None:
    """Run every signature of a bundle on its sample and compare with the stored output."""
    console = make_console()
    configure_logging(console)
    with exit_codes(stopped=lambda: "Run the command again."):
        from pipelines.bundles.metadata import load_metadata  # noqa: PLC0415 - imports NumPy

        load_metadata(bundle)  # a slip shows before TensorFlow is imported
        start_tensorflow(threads=None, whole_process=True)
        from pipelines.bundles.saved_model import verify_bundle  # noqa: PLC0415 - imports TensorFlow

        verification = verify_bundle(bundle)
        differences = {name: f"{value:.2g}" for name, value in sorted(verification.differences.items())}
        show_table(console, f"{bundle} is good; largest difference to the stored output", differences)
        for name in verification.not_run:
            say(
                console,
                f"{name} was not run, for its runtime is not installed: pip install 'gpimaging[onnx]'",
            )


def doctor() -> None:
    """Show versions, processors, memory and GPUs, and which extras are missing and what each would give."""
    console = make_console()
    start_tensorflow(threads=None, whole_process=True)
    show_table(console, "This installation", describe_machine())
    show_table(console, "Extras", describe_extras())


def fetch(
    address: Annotated[  # a Path would make one slash of two
        str,
        typer.Argument(
            metavar="ADDRESS", help="Of a folder or a file, such as s3://BUCKET/FOLDER or https://HOST/FILE."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(help="Folder to copy to. A file in it of the same name and another size is replaced."),
    ],
    pattern: Annotated[
        list[str] | None,
        typer.Option(metavar="'*.tif'", help="Only files with such a name, in any folder; repeatable."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Files at a time; one of archives and FTP.")
    ] = fetching.JOBS,
) -> None:
    """Copy files from S3, Google Cloud or another address to a folder.

    Run again, it copies what is missing or has another size.
    """
    console = make_console()
    configure_logging(console)
    with exit_codes(stopped=lambda: "Complete files are kept. Run the same command again to go on."):
        require_of_this_machine(out)
        with stage_bars(console) as progress:
            fetched = fetching.fetch(address, out, patterns=pattern or (), jobs=jobs, progress=progress)
        counts = {
            "Fetched": f"{fetched.num_fetched} files, {fetched.num_bytes:,} bytes",
            "There already": f"{fetched.num_there} files",
            "Failed": f"{len(fetched.failed)} files",
        }
        show_table(console, f"Fetched to {out}", counts)
        if fetched.failed:
            for entry in fetched.failed[:_NUM_SHOWN]:
                show_error(entry.reason)
            if len(fetched.failed) > _NUM_SHOWN:
                show_error(f"... and {len(fetched.failed) - _NUM_SHOWN} more.")
            raise typer.Exit(FAILED)
        say(console, f"Look at images with: gpimaging explore --data {shlex.quote(str(out))} --out look")


_NUM_SHOWN: Final = 10  # files that could not be fetched


def make_app() -> typer.Typer:
    """Build the typer application from `APPLICATIONS`."""
    app = typer.Typer(
        name="gpimaging",
        help="Imaging models with a Gaussian process as their last layer.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for application in APPLICATIONS:
        group = typer.Typer(cls=_group(application), help=application.purpose, no_args_is_help=True)
        app.add_typer(group, name=application.name)
    for name, command in own_commands().items():
        app.command(name)(make_command(name, command))
    app.command("watch")(watch)
    app.command("recheck")(recheck)
    app.command("fetch")(fetch)
    app.command("demo")(demo)
    app.command("verify")(verify)
    app.command("doctor")(doctor)
    return app


def _group(application: CommandGroup) -> type[TyperGroup]:
    """Return the class of an application's commands, which are made when one of them is asked for."""

    class Group(TyperGroup):
        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            self._make_commands()
            return super().get_command(ctx, cmd_name)

        def list_commands(self, ctx: Any) -> list[str]:
            self._make_commands()
            return super().list_commands(ctx)

        def _make_commands(self) -> None:
            if not self.commands:
                app = typer.Typer()
                for name, command in application.commands().items():
                    app.command(name)(make_command(f"{application.name} {name}", command))
                self.commands.update(get_group(app).commands)

    return Group


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpimaging {version('gpimaging')}")
        raise typer.Exit


def _root(
    show_version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit."),
    ] = False,
) -> None:
    """Take the options that stand before an application."""


def main() -> None:
    """Entry point of the command."""
    try:
        make_app()()
    finally:
        if "data_prep.prepared.preparing" in sys.modules:
            from data_prep.prepared.preparing import end_workers  # noqa: PLC0415 - help answers without it

            end_workers()


if __name__ == "__main__":
    main()
