"""The commands of an application: `train`, `evaluate` and `export` take the same arguments in all of them.

The application is given as text, so that help answers without importing TensorFlow.
"""

from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer
from pydantic import BaseModel

from pipelines.command.steps import Command, Commands, OffCluster, StepCall, input_option
from pipelines.command.strategies import StrategyName
from pipelines.runs.settings import EvaluateSettings, ExportSettings

_STRATEGY: Final = typer.Option(
    "--strategy",
    help="Share each batch: mirrored by all GPUs of this machine, multi_worker by the machines of TF_CONFIG.",
)


def application_commands(  # noqa: PLR0913 - what the commands of applications differ in
    application: str,
    *,
    prepare: Command,
    train: type[BaseModel],
    evaluate: type[EvaluateSettings],
    predict: Command,
    export: type[ExportSettings],
    between: Commands = MappingProxyType({}),
    train_off_cluster: OffCluster | None = None,
    evaluate_off_cluster: OffCluster | None = None,
    purpose: str = "Train the network with each head; write checkpoints and a TensorBoard log.",
) -> Commands:
    """Return the commands of an application.

    Args:
        application: Path of its record, for example `"pipelines.lane.application:LANE"`.
        prepare: The command with the options of the application's kind of data.
        train: Class of the train step's settings.
        evaluate: Class of the evaluate step's settings.
        predict: The command with the options of what is predicted.
        export: Class of the export step's settings.
        between: Commands between prepare and train that only this application has.
        train_off_cluster: `Command.off_cluster` of the train step; None where no training has use for a
            cluster.
        evaluate_off_cluster: Likewise of the evaluate step.
        purpose: Help text of the train command.
    """

    def run_train(
        call: StepCall[BaseModel],
        data: Path,
        out: Path,
        resume: bool = False,
        strategy: Annotated[StrategyName, _STRATEGY] = StrategyName.NONE,
    ) -> Any:
        from pipelines.runs.train import train as train_run  # noqa: PLC0415 - imports TensorFlow

        return train_run(
            resolve_name(application),
            call.settings,
            data=data,
            out=out,
            resume=resume,
            former=call.former,
            console=call.console,
            strategy=strategy,
            cluster=call.cluster,
        )

    def run_evaluate(call: StepCall[EvaluateSettings], data: Path, model: Path, out: Path) -> Any:
        """Judge every head of a run on data it has not seen; write metrics.json and report.html."""
        from pipelines.evaluation.evaluate import evaluate as evaluate_run  # noqa: PLC0415 - imports TensorFlow

        return evaluate_run(
            resolve_name(application),
            call.settings,
            data=data,
            model=model,
            out=out,
            console=call.console,
            cluster=call.cluster,
        )

    def run_export(
        call: StepCall[ExportSettings],
        model: Path,
        out: Path,
        metrics: Annotated[
            Path | None, typer.Option(metavar="FILE", help="metrics.json of an evaluate step, to include.")
        ] = None,
        data: Annotated[
            Path | None,
            typer.Option(metavar="FOLDER", help="Prepared folder of the training, for --quantise."),
        ] = None,
        overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier bundle.")] = False,
    ) -> None:
        """Write a run's model as a bundle: a SavedModel with its description, for predict and for serving."""
        from pipelines.evaluation.export import export as export_run  # noqa: PLC0415 - imports TensorFlow

        export_run(
            resolve_name(application),
            call.settings,
            model=model,
            out=out,
            metrics=metrics,
            data=data,
            overwrite=overwrite,
            console=call.console,
        )

    run_train.__doc__ = purpose
    return {
        "prepare": prepare,
        **between,
        "train": Command(train, run_train, continues=True, **_on_cluster(train_off_cluster)),
        "evaluate": Command(evaluate, run_evaluate, **_on_cluster(evaluate_off_cluster)),
        "predict": predict,
        "export": Command(export, run_export),
    }


def predict_command(
    step: str, settings: type[BaseModel], *, purpose: str, inputs: str, side_by_side: bool = False
) -> Command:
    """Return the command that predicts files of an application.

    Args:
        step: Path of its `PredictStep`, for example `"pipelines.lane.prediction:LANE_PREDICTION"`.
        settings: Class of the settings.
        purpose: Help text of the command.
        inputs: Help text of `--input`.
        side_by_side: Whether threads predict several files at a time. One file gains little from a second
            processor where the network is small, and what predicts keeps nothing between files.
    """

    def run_predict(
        call: StepCall[BaseModel],
        inputs: Annotated[list[Path], input_option(inputs)],
        model: Path,
        out: Path,
    ) -> Any:
        return resolve_name(step)(
            call.settings,
            inputs=inputs,
            model=model,
            out=out,
            console=call.console,
            cluster=call.cluster,
            threads=call.threads if side_by_side else 1,
        )

    run_predict.__doc__ = purpose
    return Command(
        settings,
        run_predict,
        on_cluster=True,
        side_by_side=side_by_side,
        off_tensorflow=predicts_by_litert,
    )


def predicts_by_litert(options: Mapping[str, Any], settings: BaseModel) -> bool:
    """Whether a predict step with these options and settings needs no TensorFlow."""
    from pipelines.bundles.runtimes import litert_file  # noqa: PLC0415 - help answers without it

    return litert_file(options["model"], settings) is not None


def _on_cluster(off_cluster: OffCluster | None) -> Mapping[str, Any]:
    """Return the attributes of a `Command` by its `off_cluster`, None where it never works on a cluster."""
    return {} if off_cluster is None else {"on_cluster": True, "off_cluster": off_cluster}
