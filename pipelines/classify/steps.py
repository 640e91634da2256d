"""The application for images of any subject: what each step of `gpimaging classify` does.

prepare (in `data_prep.classify.prepare`) -> train -> evaluate -> export -> predict. Each step takes settings
and folders, writes one folder, and says what it did on a console.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from data_prep.classify.manifest import ClassifyManifest
from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from data_prep.files.images import IMAGE_SUFFIXES
from data_prep.labelled.preparing import PrepareResult
from pipelines.bundles.prediction import bundle_preprocessing, find_sources, open_bundle, predict_sources
from pipelines.bundles.referral import with_promise
from pipelines.classify.application import CLASSIFY
from pipelines.classify.prediction import ImagePrediction, ImagePredictor
from pipelines.classify.settings import ImagePreprocessing, PredictSettings
from pipelines.command.console import stage_bars
from pipelines.runs.steps import RunSteps
from pipelines.tasks.prepared import describe_classes, say_prepared

STEPS = RunSteps(CLASSIFY)
train, evaluate, export = STEPS.train, STEPS.evaluate, STEPS.export


def prepare(
    settings: ClassifyPrepareSettings,
    *,
    images: Path,
    table: Path | None,
    out: Path,
    jobs: int,
    overwrite: bool,
    console: Console,
) -> PrepareResult[ClassifyManifest]:
    """Turn images into prepared examples; see `data_prep.classify.prepare.prepare_classify`.

    Raises:
        InputError: No image can be used, or `out` cannot be written.
    """
    with stage_bars(console) as advance:
        result = prepare_classify(
            images, out, settings, table=table, jobs=jobs, overwrite=overwrite, progress=advance
        )
    manifest = result.manifest
    written = f"{manifest.num_examples} images of {manifest.size[0]} x {manifest.size[1]}"
    facts = describe_classes(result, manifest.examples, manifest.notes)
    say_prepared(written, facts, result.skipped, out, console)
    return result


def predict(
    settings: PredictSettings, *, inputs: Sequence[Path], model: Path, out: Path, console: Console
) -> list[ImagePrediction]:
    """Predict images with a bundle; nothing else of the training is needed.

    Raises:
        InputError: The bundle cannot be loaded, or nothing can be predicted.
    """
    sources = find_sources(inputs, suffixes=IMAGE_SUFFIXES, kind="image")
    signature, metadata = open_bundle(model, CLASSIFY.name)
    settings = with_promise(settings, metadata.promise, bundle=model, judged="images", console=console)
    names = metadata.class_names
    predictor = ImagePredictor(
        signature=signature,
        size=metadata.network_size,
        class_names=names,
        fit=bundle_preprocessing(metadata, model, ImagePreprocessing).fit,
        settings=settings,
    )
    say_unsearched(inputs, console)
    lines = predict_sources(
        ImagePrediction,
        predictor,
        sources,
        out,
        console,
        class_names=names,
        least_familiarity=metadata.least_familiarity,
    )
    if sheet := predictor.sheet.write(out):
        console.print(f"The least certain images: {sheet}", markup=False, soft_wrap=True)
    return lines


def say_unsearched(inputs: Sequence[Path], console: Console) -> None:
    """Which of the folders have folders inside, whose images are not predicted."""
    for folder in inputs:
        entries = folder.iterdir() if folder.is_dir() else ()
        number = sum(path.is_dir() and not path.name.startswith(".") for path in entries)
        if number:
            console.print(
                f"Note: folders inside {folder} are not searched; there are {number}. To predict their "
                f"images, pass them too: --input {folder}/*",
                markup=False,
                soft_wrap=True,
            )
