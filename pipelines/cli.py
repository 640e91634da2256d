"""The command `gpimaging`: applications and their steps, `demo` and `verify`.

Nothing here imports TensorFlow before a step runs, so that help answers at once. Exit codes: 0 done,
1 failed, 2 bad usage or bad input, 130 interrupted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from pipelines import (
    cells_steps,
    histopathology_steps,
    lane_steps,
    sonar_steps,
    survival_steps,
    video_steps,
)
from pipelines.console import configure_logging, exit_codes, make_console, show_table
from pipelines.steps import SettingsClass, StepCall, StepFunction, make_command
from pipelines.tensorflow_start import start_tensorflow
from pipelines.train_steps import run_training


@dataclass(frozen=True)
class Application:
    """What the command line has to know of an application.

    Attributes:
        name: the command, e.g. `lane`.
        purpose: one line for the help.
        module: has `train`, `evaluate` and `export`, called as the steps below do.
        settings: module of `TrainSettings`, `EvaluateSettings`, `PredictSettings` and `ExportSettings`.
        prepare: the prepare step, whose options depend on the kind of data.
        prepare_settings: its settings.
        predict: the predict step, whose options depend on what is predicted.
        between: steps between prepare and train that only this application has.
        train: the train step, where it has options of its own.
    """

    name: str
    purpose: str
    module: str
    settings: str
    prepare: StepFunction
    prepare_settings: SettingsClass
    predict: StepFunction
    between: Mapping[str, StepFunction] = field(default_factory=dict)
    train: StepFunction | None = None


APPLICATIONS = (
    Application(
        name="lane",
        purpose="Find the walkable lane in photographs, with a map of the uncertainty.",
        module="pipelines.lane",
        settings="pipelines.lane_settings",
        prepare=lane_steps.prepare,
        prepare_settings=SettingsClass("data_prep.lane", "LanePrepareSettings"),
        predict=lane_steps.predict,
    ),
    Application(
        name="sonar",
        purpose="Tell objects in sonar images from each other and from clutter, with their uncertainty.",
        module="pipelines.sonar",
        settings="pipelines.sonar_settings",
        prepare=sonar_steps.prepare,
        prepare_settings=SettingsClass("data_prep.sonar_settings", "SonarPrepareSettings"),
        predict=sonar_steps.predict,
    ),
    Application(
        name="video",
        purpose="Tell what happens in videos over time, with the uncertainty of each moment.",
        module="pipelines.video",
        settings="pipelines.video_settings",
        prepare=video_steps.prepare,
        prepare_settings=SettingsClass("data_prep.video_settings", "VideoPrepareSettings"),
        predict=video_steps.predict,
        between={"features": video_steps.features},
    ),
    Application(
        name="histopathology",
        purpose="Tell tumours from other tissue in patches of images and slides, with maps of both.",
        module="pipelines.histopathology",
        settings="pipelines.histopathology_settings",
        prepare=histopathology_steps.prepare,
        prepare_settings=SettingsClass("data_prep.histopathology_settings", "HistopathologyPrepareSettings"),
        predict=histopathology_steps.predict,
        between={"survival": survival_steps.survival},
        train=histopathology_steps.train,
    ),
    Application(
        name="cells",
        purpose="Find dividing and dying cells in time-lapse microscopy, with their uncertainty.",
        module="pipelines.cells",
        settings="pipelines.cells_settings",
        prepare=cells_steps.prepare,
        prepare_settings=SettingsClass("data_prep.cells_settings", "CellsPrepareSettings"),
        predict=cells_steps.predict,
        between={"pairs": cells_steps.pairs},
    ),
)


def train_step(application: Application, settings: SettingsClass) -> StepFunction:
    """Return the train step of an application."""

    def train(call: StepCall, data: Path, out: Path, resume: bool = False) -> None:
        """Train the network with each head; write checkpoints and a TensorBoard log."""
        run_training(call, application.module, settings, data=data, out=out, resume=resume)

    return train


def evaluate_step(application: Application, settings: SettingsClass) -> StepFunction:
    """Return the evaluate step of an application."""

    def evaluate(call: StepCall, data: Path, model: Path, out: Path) -> None:
        """Judge every head of a run on data it has not seen; write metrics.json and report.html."""
        start_tensorflow(call.jobs)
        module = import_module(application.module)
        module.evaluate(call.settings(settings.load()), data=data, model=model, out=out, console=call.console)

    return evaluate


def export_step(application: Application, settings: SettingsClass) -> StepFunction:
    """Return the export step of an application."""

    def export(
        call: StepCall,
        model: Path,
        out: Path,
        metrics: Annotated[
            Path | None, typer.Option(metavar="FILE", help="metrics.json of an evaluate step, to enclose.")
        ] = None,
        overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier bundle.")] = False,
    ) -> None:
        """Write a run's model as a bundle: a SavedModel with its description, for predict and for serving."""
        start_tensorflow(call.jobs)
        module = import_module(application.module)
        module.export(
            call.settings(settings.load()),
            model=model,
            out=out,
            metrics=metrics,
            overwrite=overwrite,
            console=call.console,
        )

    return export


def demo(
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of every random choice.")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the folder of an earlier demo.")
    ] = False,
) -> None:
    """Render scenes, train, evaluate, export and predict in a few minutes; nothing is downloaded."""
    console = make_console()
    configure_logging(console)
    with exit_codes(interrupted=lambda: "Run the command again with --overwrite."):
        start_tensorflow(threads=None)
        import_module("pipelines.demo").run_demo(out, seed=seed, overwrite=overwrite, console=console)


def verify(bundle: Annotated[Path, typer.Argument(help="Folder that an export step wrote.")]) -> None:
    """Run every signature of a bundle on its sample and compare with the stored output."""
    console = make_console()
    configure_logging(console)
    with exit_codes(interrupted=lambda: "Run the command again."):
        import_module("pipelines.bundle_metadata").load_metadata(bundle)  # before TensorFlow is imported
        start_tensorflow(threads=None)
        verification = import_module("pipelines.bundle").verify_bundle(bundle)
        differences = {name: f"{value:.2g}" for name, value in sorted(verification.differences.items())}
        show_table(console, f"{bundle} is good; largest difference to the stored output", differences)


def make_app() -> typer.Typer:
    """Build the typer application from `APPLICATIONS`."""
    app = typer.Typer(
        name="gpimaging",
        help="Imaging models with a Gaussian process as their last layer.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for application in APPLICATIONS:
        app.add_typer(_application_app(application), name=application.name)
    app.command("demo")(demo)
    app.command("verify")(verify)
    return app


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


def _application_app(application: Application) -> typer.Typer:
    app = typer.Typer(help=application.purpose, no_args_is_help=True)
    train, evaluate, predict, export = (
        SettingsClass(application.settings, f"{name}Settings")
        for name in ("Train", "Evaluate", "Predict", "Export")
    )
    steps = {
        "prepare": (application.prepare_settings, application.prepare),
        **{
            name: (SettingsClass(application.settings, f"{name.capitalize()}Settings"), function)
            for name, function in application.between.items()
        },
        "train": (train, application.train or train_step(application, train)),
        "evaluate": (evaluate, evaluate_step(application, evaluate)),
        "predict": (predict, application.predict),
        "export": (export, export_step(application, export)),
    }
    for name, (settings, function) in steps.items():
        app.command(name)(make_command(f"{application.name} {name}", settings, function))
    return app


def main() -> None:
    """Entry point of the command."""
    make_app()()


if __name__ == "__main__":
    main()
