"""Steps of `gpimaging histopathology` with options of their own."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.steps import Folds, MoreInputs, OverwritePrepared, SettingsClass, StepCall, height_and_width
from pipelines.tensorflow_start import start_tensorflow
from pipelines.train_steps import run_training


def prepare(  # noqa: PLR0913, PLR0917 - one parameter for each option
    call: StepCall,
    images: Annotated[
        Path,
        typer.Option(
            help="Folder of images or whole slides; without --labels and --masks, with a subfolder for each "
            "class."
        ),
    ],
    out: Path,
    labels: Annotated[
        Path | None,
        typer.Option(help="CSV with the columns file,label,patient, or file,months,event,patient."),
    ] = None,
    masks: Annotated[
        Path | None, typer.Option(help="Folder of masks of the positive class, named as the images.")
    ] = None,
    patch_size: Annotated[
        int | None, typer.Option(metavar="PIXELS", help="Side of a patch; 200 without it.")
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(metavar="ROWSxCOLUMNS", help="Divide each image into so many patches, e.g. 7x7."),
    ] = None,
    mpp: Annotated[
        float | None, typer.Option(help="Micrometres per pixel to reduce images to; else as they are.")
    ] = None,
    stain: Annotated[
        str | None, typer.Option(metavar="none|macenko|reinhard", help="Stain normalisation of each image.")
    ] = None,
    folds: Folds = None,
    group_pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="Names that agree in its first group stay in one part, e.g. a patient."
        ),
    ] = None,
    overwrite: OverwritePrepared = False,
) -> None:
    """Cut images or whole slides of tissue into patches and describe them, for training."""
    from data_prep.histopathology_settings import (  # noqa: PLC0415 - others need no time for it
        HistopathologyPrepareSettings,
    )

    settings = call.settings(
        HistopathologyPrepareSettings,
        patch_size=patch_size,
        grid=None if grid is None else height_and_width("--grid", grid),
        mpp=mpp,
        stain=stain,
        folds=folds,
        group_pattern=group_pattern,
    )
    start_tensorflow(call.jobs)
    from joblib import cpu_count  # noqa: PLC0415 - help answers without it

    from pipelines import histopathology_preparing  # noqa: PLC0415 - imports TensorFlow

    histopathology_preparing.prepare(
        settings,
        images=images,
        labels=labels,
        masks=masks,
        out=out,
        jobs=call.jobs or cpu_count(),
        overwrite=overwrite,
        console=call.console,
    )


def train(
    call: StepCall,
    data: Path,
    out: Path,
    resume: bool = False,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="handmade|cnn",
            help="Handmade features, or towers that learn from the patches; handmade without it.",
        ),
    ] = None,
    head: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A head to train: linear, svgp, hgp, dfgp or dfgp-mkl; may be given again. All without it.",
        ),
    ] = None,
) -> None:
    """Train heads on handmade features or on small networks; write checkpoints and a TensorBoard log."""
    heads = tuple(name.replace("-", "_") for name in head) if head else None
    run_training(
        call,
        "pipelines.histopathology",
        SettingsClass("pipelines.histopathology_settings", "TrainSettings"),
        data=data,
        out=out,
        resume=resume,
        features=features,
        heads=heads,
    )


def predict(
    call: StepCall,
    inputs: Annotated[
        list[Path],
        typer.Option(
            "--input", metavar="PATH...", help="Images of tissue, whole slides, or folders of them."
        ),
    ],
    model: Path,
    out: Path,
    more_inputs: MoreInputs = None,
    refer_above: Annotated[
        float | None, typer.Option(help="Refer an image to a pathologist above this entropy, in nats.")
    ] = None,
) -> None:
    """Write classes of images, maps and GeoJSON for QuPath, with an exported bundle."""
    start_tensorflow(call.jobs)
    from pipelines import histopathology  # noqa: PLC0415 - imports TensorFlow
    from pipelines.histopathology_settings import PredictSettings  # noqa: PLC0415 - help answers without it

    # A wildcard after --input leaves all names but the first as arguments.
    inputs = [*inputs, *(more_inputs or ())]
    settings = call.settings(PredictSettings, refer_above=refer_above)
    histopathology.predict(settings, inputs=inputs, model=model, out=out, console=call.console)
