"""The parts of the application for images with one number each.

The record is that of `pipelines.classify` with another likelihood, judge and server. Networks see numbers
standardised (`MeasuredExample.target`), by a scale that the training part gives and the run keeps.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.depth import read_at_levels
from data_prep.files.fitting import fit_image
from data_prep.measure.manifest import MeasureManifest
from data_prep.measure.scale import count_scale, find_scale
from data_prep.prepared.workers import Cluster
from data_prep.splits.divide import Splits, manifest_splits
from gpmodels import HybridModel
from pipelines.bundles.fitting import fit_images
from pipelines.bundles.metadata import number_signatures
from pipelines.bundles.serving import NumberServer
from pipelines.command.console import say
from pipelines.labelled.classes import ClassDeployment, plain_batches, steps_per_epoch, training_batches
from pipelines.labelled.data import PreparedImages, open_images
from pipelines.labelled.images import IMAGE_NETWORK, fit_facts, fitting_in_words, oblong_noise, require_fit
from pipelines.measure.judging import NumberJudge, number_judge
from pipelines.measure.settings import APPLICATION, MeasureRun, TrainSettings
from pipelines.runs.application import Application, Inputs, require_size
from pipelines.runs.description import load_run
from pipelines.scores.numbers import COVERAGES, SHOWN
from pipelines.trunks.application import encoded_by_trunk, with_trunks

MeasureData = PreparedImages[MeasureManifest]


def encoded(
    data: MeasureData,
    settings: TrainSettings,
    run_folder: Path | None,
    console: Console,
    cluster: Cluster | None = None,
) -> Any:
    """Return images and standardised numbers as the networks of a run see them; see `Inputs.encode`.

    Raises:
        InputError: The numbers have no scale, or the trunk cannot be used.
    """
    manifest = data.manifest
    if run_folder is None:
        splits = manifest_splits(manifest, fold=settings.fold, selection_fraction=settings.selection_fraction)
        learned = np.array([one.value for one in manifest.select(splits.train)])  # type: ignore[attr-defined]
        values = np.array([one.value for one in manifest.examples])
        try:
            if settings.likelihood == "gaussian":
                scale = find_scale(learned, settings.transform, manifest.unit, least=values.min())
            else:
                scale = count_scale(values, manifest.unit)
        except ValueError as error:
            raise InputError(f"{data.folder} cannot be trained on: {error}.") from error
        say(console, f"Numbers are learned as {scale.in_words()}")
    else:
        scale = load_run(run_folder, MeasureRun).scale
    targets = scale.standardised(np.array([one.value for one in manifest.examples]))
    examples = tuple(
        one.model_copy(update={"standardised": float(target)})
        for one, target in zip(manifest.examples, targets, strict=True)
    )
    scaled = manifest.model_copy(update={"examples": examples, "scale": scale})
    return encoded_by_trunk(PreparedImages(data.folder, scaled), settings, run_folder, console, cluster)


def number_facts(data: MeasureData, splits: Splits) -> dict[str, Any]:
    """Return what a run records about its numbers; N is the number of training examples."""
    return {"num_data": len(splits.train), "scale": data.manifest.scale}


def require_numbers(data: MeasureData, model: Path, run: MeasureRun) -> None:
    """Raise `InputError` where numbers have another unit, or no logarithm that the run could have learned."""
    if data.manifest.unit != run.scale.unit:
        mine, theirs = data.manifest.unit or "no unit", run.scale.unit or "no unit"
        raise InputError(
            f"{data.folder} has numbers in {mine}, but {model} was trained on {theirs}. Convert them, or "
            "prepare with --unit where only the name differs."
        )
    values = np.array([one.value for one in data.manifest.examples])
    least = values.min()
    if run.scale.transform == "count":
        try:
            count_scale(values)
        except ValueError as error:
            raise InputError(
                f"{data.folder} cannot be judged by {model}, which learned counts: {error}."
            ) from error
    if run.scale.transform == "log" and least + run.scale.offset <= 0.0:
        raise InputError(
            f"{data.folder} has the number {least:g}, but {model} learned logarithms of positive numbers. "
            "Leave such images out, or train with --set transform=none."
        )


def number_server(model: HybridModel, run: MeasureRun) -> NumberServer:
    """Return the graph that predicts one number for each image."""
    factor = run.interval_factors[model.head.name][SHOWN]
    predict, resize = model.inference_function(), partial(fit_images, fit=run.images.fit)
    return NumberServer(run.scale, factor, predict, run.size, resize, levels=run.images.levels)


_ON_IMAGES: Application[MeasureData, TrainSettings, MeasureRun] = Application(
    name=APPLICATION,
    title="Images by number",
    settings=TrainSettings,
    run=MeasureRun,
    fixed_settings=("network", "augmentation", "steps_per_epoch", "likelihood", "transform"),
    fixed_gp_settings=(),
    inputs=Inputs(
        open=partial(open_images, manifest=MeasureManifest),
        training_batches=training_batches,
        plain_batches=plain_batches,
        steps_per_epoch=steps_per_epoch,
        facts=(number_facts, fit_facts),
        fitting=(require_size, require_numbers, require_fit),
    ),
    network=replace(IMAGE_NETWORK, likelihood=lambda settings: settings.likelihood),
    judge=NumberJudge(),
    judge_for=number_judge,
    deployment=ClassDeployment(
        application=APPLICATION,
        kind="images",
        intended_use=(
            "Measuring in images like those of the training what their table had, with an interval that says "
            "how far off the number may be."
        ),
        limitations=(
            "Intervals hold for images like those that the training held out, on average over these. Another "
            "camera, place or light is another kind of data: judge it on your own measured images from there "
            "with `gpimaging measure evaluate` first. Numbers beyond those of the training are guesses."
        ),
        preprocessing="turning images upright by their EXIF orientation; `gpimaging measure predict` does.",
        settings=lambda run: {"images": run.images.model_dump(mode="json"), "scale": run.scale.model_dump()},
        inside=fitting_in_words,
        signatures=lambda run, _: number_signatures(run.scale.unit, COVERAGES[SHOWN]),
        server=number_server,
        sample=oblong_noise,
    ),
    read_image=lambda path, run: fit_image(read_at_levels(path, run.images.levels), run.size, run.images.fit),
)

_ON_TRUNKS = with_trunks(_ON_IMAGES)

MEASURE: Application[MeasureData, TrainSettings, MeasureRun] = replace(
    _ON_TRUNKS, inputs=replace(_ON_TRUNKS.inputs, encode=encoded)
)
"""Images of any subject, one number each."""
