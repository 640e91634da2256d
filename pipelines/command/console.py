"""Output of the command line: one console, log lines, short tables, errors with exit codes."""

import errno
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from data_prep.errors import ClusterLost, InputError
from pipelines.command.config import describe_settings
from pipelines.errors import ProcessLost, TrainingDiverged

FAILED, BAD_INPUT, ALARM, INTERRUPTED = 1, 2, 3, 130

_WIDTH_OF_A_LOG: Final = 200  # columns where the width of the page is not known: tables and paths stay whole

_REMEDIES: Final = {
    errno.ENOSPC: "Free some space, or choose another --out.",
    errno.EDQUOT: "Free some of your quota, or choose another --out.",
    errno.EACCES: "Check the permissions, or choose another path.",
    errno.EPERM: "Check the permissions, or choose another path.",
    errno.EROFS: "The disk is read-only: choose another --out.",
    errno.ENOENT: "Check the path.",
    errno.ENOTDIR: "Check the path: a part of it is a file.",
    errno.EISDIR: "Check the path: it is a folder.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.EMFILE: "Raise the limit of open files (ulimit -n), or lower --jobs.",
    errno.ENOMEM: "Lower --jobs, or the batch size.",
    errno.EIO: "Check the disk.",
}


def make_console() -> Console:
    """Return the console for tables and progress; in a log it is wide enough to break no line.

    Names of classes and files are printed unchanged: a class named `:smile:` does not become an emoji.
    """
    is_log = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=_WIDTH_OF_A_LOG if is_log else None, highlight=False, emoji=False)


class _ConsoleHandler(logging.Handler):
    """Prints log records as lines that do not disturb a progress bar."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        style = "yellow" if record.levelno >= logging.WARNING else None
        self._console.print(self.format(record), style=style, markup=False)


def configure_logging(console: Console) -> None:
    """Show what this project's own modules log."""
    handler = _ConsoleHandler(console)
    for package in ("pipelines", "gpmodels", "data_prep"):
        logger = logging.getLogger(package)
        logger.handlers = [handler]
        logger.propagate = False  # libraries set handlers of the root logger, which would show a line again
        logger.setLevel(logging.INFO)


@contextmanager
def exit_codes(stopped: Callable[[], str]) -> Iterator[None]:
    """Turn what a user can put right into one message and an exit code; anything else keeps its traceback.

    Args:
        stopped: Returns how to go on after Ctrl-C, or after a cluster was lost.

    Raises:
        typer.Exit: With 2 for bad input, 1 for what the system refused, a training that diverged, or a
            cluster or another process of a training that was lost, 130 for Ctrl-C.
    """
    try:
        yield
    except InputError as error:
        show_error(str(error))
        raise typer.Exit(BAD_INPUT) from error
    except ClusterLost as error:
        show_error(f"{error} {stopped()}")
        raise typer.Exit(FAILED) from error
    except (TrainingDiverged, ProcessLost) as error:
        show_error(str(error))
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt as error:
        show_error(f"Interrupted. {stopped()}")
        raise typer.Exit(INTERRUPTED) from error
    except OSError as error:
        if error.errno not in _REMEDIES:
            raise
        where = f"{error.filename}: " if error.filename else ""
        detail = "" if error.filename else f" ({error})"
        show_error(f"{where}{os.strerror(error.errno)}{detail}. {_REMEDIES[error.errno]}")
        raise typer.Exit(FAILED) from error


def say(console: Console, text: str) -> None:
    """Write plain text on a console: brackets are no markup, and a path is not broken, to be copied."""
    console.print(text, markup=False, soft_wrap=True)


def show_error(message: str) -> None:
    """Write a message to standard error."""
    typer.echo(f"Error: {message}", err=True)


def show_note(message: str) -> None:
    """Write a remark to standard error."""
    typer.echo(f"Note: {message}", err=True)


def show_table(console: Console, title: str, rows: Mapping[str, object]) -> None:
    """Show a short table of names and values; paths in the title stay on one line, to be copied."""
    console.print(title, style="bold", markup=False, soft_wrap=True)
    table = Table(show_header=False)
    for name, value in rows.items():
        table.add_row(escape(name), escape(str(value)))
    console.print(table)


def show_settings(console: Console, command: str, cls: type[BaseModel]) -> None:
    """Show every setting of a step: key, type, default, purpose."""
    console.print(f"Settings of {command}", style="bold")
    table = Table()
    for header in ("Key", "Type", "Default", "Purpose"):
        table.add_column(header)
    for row in describe_settings(cls):
        table.add_row(*(escape(text) for text in (row.key, row.type, row.default, row.description)))
    console.print(table)
    say(console, "Give them as --set KEY=VALUE, or as lines KEY: VALUE in a file for --config.")


@contextmanager
def stage_bars(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Draw a bar for each stage of `prepare`, on a terminal only.

    Args:
        console: Where to draw.

    Yields:
        A function that takes the stage, how many files are done and how many there are.
    """
    from rich.progress import Progress, TaskID  # noqa: PLC0415 - help answers without it

    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def advance(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield advance
