"""The command `gpimaging label`; TensorFlow is imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.command.config import load_settings
from pipelines.command.steps import Command, StepCall
from pipelines.label.settings import LabelSettings


def label(  # noqa: PLR0913, PLR0917 - all but the first are options
    call: StepCall[LabelSettings],
    out: Path,
    images: Annotated[
        Path | None,
        typer.Argument(
            metavar="IMAGES", help="Folder of images, in class folders or not, or of sequences of cells."
        ),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(metavar="A,B,C", help="Names of the classes, in the order of their keys 1, 2, 3."),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Column image, and perhaps class and group; or an export of Label Studio (.json).",
        ),
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Folder of predict, to label what it referred; of prepare, to use its labels; or of train "
            "or export, to use its classes.",
        ),
    ] = None,
    suspects: Annotated[
        bool, typer.Option("--suspects", help="Look again at labels that something contradicts.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json|FOLDER",
            help="Write the labels for Label Studio, or as class folders, instead of opening the page.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page on this machine; 0 for a free one.")
    ] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
) -> None:
    """Label images on a page that asks for those that teach most; run again, it goes on."""
    from pipelines.label import steps  # noqa: PLC0415 - imports TensorFlow

    settings = call.settings
    if classes is not None:
        named = [name.strip() for name in classes.split(",")]
        settings = load_settings(LabelSettings, base=settings, options={"classes": named})
    if export is None:
        steps.require_server()
    pool = steps.open_pool(settings, images, out, table=table, source=from_, is_review=suspects)
    if export is not None:
        steps.export_labels(pool, settings, out, export, console=call.console)
        return
    steps.label_pool(
        pool,
        settings,
        out,
        port=port,
        is_browser_opened=not no_browser,
        console=call.console,
    )


COMMANDS = {"label": Command(LabelSettings, label, continues=True)}
