"""Exporting a trained head of a run as a bundle."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.atomic import refuse_existing
from gpmodels import HybridModel
from gpmodels.familiarity.flags import UNFAMILIAR_BELOW, is_unfamiliar
from pipelines.bundles.guarantees import GuaranteeRecord
from pipelines.bundles.metadata import Int8Loss, load_metadata, with_familiarity
from pipelines.bundles.portable import PORTABLES, Portable, int8_portable, litert_runner, require_onnx
from pipelines.bundles.saved_model import write_bundle
from pipelines.bundles.serving import ClassServer, Server
from pipelines.command.config import CONFIG_NAME
from pipelines.evaluation.guarantees import guarantee_record
from pipelines.evaluation.warnings import unfinished_warnings
from pipelines.runs.application import Application, DataKind, RunKind, SettingsKind
from pipelines.runs.description import head_folder
from pipelines.runs.guarantees import model_source, read_guarantees
from pipelines.runs.job import Job, trained_job
from pipelines.runs.models import load_model
from pipelines.runs.settings import ExportSettings
from pipelines.scores.costs import given_costs, given_label_costs
from pipelines.scores.held_out import HELD_OUT, read_held_out
from pipelines.scores.labels import HeldOutLabels
from pipelines.scores.metrics import read_metrics
from pipelines.scores.numbers import HeldOutNumbers

_INPUTS: Final = 100
"""Training images by which the integers of each layer are scaled."""

_LEAST: Final = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class QuantisationImages:
    """Prepared images with one class each: some that training saw, and those of the selection part.

    Attributes:
        training: Inputs `[1, H, W, 3]`, float32.
        selection: Inputs likewise.
        labels: Classes of the selection part, `[N]`.
    """

    training: Sequence[NDArray[Any]]
    selection: Sequence[NDArray[Any]]
    labels: Sequence[int]

    def loss(self, predict: Callable[[tf.Tensor], Mapping[str, tf.Tensor]], network: bytes) -> Int8Loss:
        """Return how the NLL of the selection part changes.

        Args:
            predict: From inputs `[1, H, W, 3]` to named outputs, in float32.
            network: The same in int8, for LiteRT.
        """
        run = litert_runner(network)
        before = self._nll([predict(tf.constant(one))["probability"].numpy() for one in self.selection])
        after = self._nll([run(inputs=one)["probability"] for one in self.selection])
        return Int8Loss(images=len(self.labels), nll=after, float32_nll=before)

    def _nll(self, probabilities: Sequence[NDArray[Any]]) -> float:
        of_labels = np.concatenate(probabilities)[np.arange(len(self.labels)), self.labels]
        return float(-np.log(np.maximum(of_labels, _LEAST)).mean())


def quantisation_images(job: Job[Any, Any, Any], server: Server, folder: Path | None) -> QuantisationImages:
    """Return the images of the prepared folder that a run was trained on.

    Raises:
        InputError: No folder is given, it is another one or has no images with one class each, or the run
            holds none of them out.
    """
    if folder is None:
        raise InputError("--quantise needs images that training saw. Give their prepared folder by --data.")
    if not isinstance(server, ClassServer):
        raise InputError("--quantise is for images with one class each. Leave it out.")
    data = job.application.inputs.open(folder)
    if data.sha256 != job.run.manifest_sha256:
        raise InputError(
            f"--data {folder}: is not the folder that {job.folder} was trained on. Give that one."
        )
    splits = job.on(data, fold=job.settings.fold).splits
    places = np.linspace(0, len(splits.train) - 1, min(_INPUTS, len(splits.train)), dtype=int)
    training = [image for _, image, _ in data.inputs([splits.train[place] for place in places])]
    held_out = [(image, label) for _, image, label in data.inputs(splits.selection)]
    if not held_out:
        raise InputError(f"{job.folder} holds no image out, by which the loss is seen. Leave --quantise out.")
    selection, labels = zip(*held_out, strict=True)
    return QuantisationImages(_inputs(training), _inputs(selection), [int(label) for label in labels])


def _inputs(images: Sequence[NDArray[np.uint8]]) -> list[NDArray[Any]]:
    return [image[None].astype(np.float32) for image in images]


def export(
    application: Application[DataKind, SettingsKind, RunKind],
    settings: ExportSettings,
    *,
    model: Path,
    out: Path,
    metrics: Path | None,
    data: Path | None = None,
    overwrite: bool,
    console: Console,
) -> None:
    """Write a run's head as a bundle.

    Args:
        application: Application of the run.
        settings: Settings of the export.
        model: Folder of the run.
        out: Folder of the bundle.
        metrics: `metrics.json` of an evaluation to enclose; its guarantees serve where the run keeps none.
        data: Prepared folder that the run was trained on, for a network in int8.
        overwrite: Whether to replace an earlier bundle.
        console: Where the command says what it did.

    Raises:
        InputError: The run cannot be used, `out` exists, or a package for the format is not installed.
    """
    refuse_existing(out, overwrite=overwrite)  # before the work
    job = trained_job(application, model, console)
    run, parts = job.run, job.application.deployment
    head = settings.head or (run.heads[-1] if run.choice is None else run.choice.head)
    for warning in unfinished_warnings(job):
        job.say(f"Warning: {warning}")
    if head not in run.heads:
        raise InputError(
            f"{job.folder} has no trained head {head!r}, but {', '.join(run.heads)}. Choose one of them."
        )
    _require_possible(job, settings)
    costs = given_costs(settings, run.reported_classes, job.say)
    label_costs = given_label_costs(settings, run.label_names, job.say)
    trained = load_model(job, head)
    temperature = run.temperature_of(head) if settings.tempered else None
    pool_temperatures = run.pool_temperatures.get(head, {}) if settings.tempered else {}
    pool_temperature = pool_temperatures.get(job.application.judge.judged)
    if temperature is not None:
        trained.set_temperature(temperature)
    network = job.application.network.name(job.settings, run)
    metadata = parts.metadata(out.name, head, job.settings, run, network)
    enclosed = None if metrics is None else read_metrics(metrics)
    source = model_source(job, head, temperature, pool_temperatures)
    guarantee = read_guarantees(job.folder).of(source)
    held_out = head_folder(job.folder, head) / HELD_OUT
    read: Callable[[Path], object] = read_held_out if _has_guarantees(job) else HeldOutNumbers.read
    read = HeldOutLabels.read if job.has_several_labels else read
    keeps_held_out = (guarantee is not None or not _has_guarantees(job)) and held_out.is_file()
    if keeps_held_out:  # a damaged one would be noticed at the prediction alone
        read(held_out)
    if guarantee is None and enclosed is not None:
        guarantee = guarantee_record(enclosed, source)
    told = {**metadata.training_data, **_fitted(trained, temperature)}
    if pool_temperature is not None:
        told[f"temperature of {job.application.judge.judged}"] = (
            f"{pool_temperature:.4g}, fitted on those of the selection part, after the mean"
        )
    deployed = parts.deployed(trained, job.folder, run)
    signatures = metadata.signatures
    if deployed.familiarity is not None:
        signatures = with_familiarity(signatures, deployed.familiarity.least)
    server = parts.server(deployed, run)
    images = _quantisation(job, settings, server, data)
    write_bundle(
        out,
        server,
        metadata.model_copy(
            update={
                "guarantee": guarantee,
                "costs": costs,
                "label_costs": label_costs,
                "training_data": told,
                "signatures": signatures,
                "pool_temperature": pool_temperature,
            }
        ),
        sample=parts.sample(run, trained.network),
        config=job.folder / CONFIG_NAME,
        metrics=enclosed,
        files={**parts.files(run), **({HELD_OUT: held_out} if keeps_held_out else {})},
        portable=PORTABLES.get(settings.format) if images is None else _int8(images, server),
        overwrite=overwrite,
    )
    _print_loss(job, out)
    _print_guarantee(job, guarantee, enclosed, settings)
    _print_lacking(job, guarantee, held_out=keeps_held_out, familiarity=deployed.familiarity is not None)
    if deployed.familiarity is not None and not is_unfamiliar(deployed.familiarity.least):
        job.say(
            "The bundle cannot call an input unfamiliar: its familiarity rests on "
            f"{deployed.familiarity.num_groups} groups, and at least {round(1 / UNFAMILIAR_BELOW)} are "
            "needed. Train with more data, or, if the network is trained, with a larger selection_fraction.",
        )
    check = f"gpimaging verify {shlex.quote(str(out))}"
    if run.choice is not None:
        job.say(run.choice.sentence())
    job.say(
        f"The {head} head{_why(job, head, settings)} is written as a bundle to {out}. Check it with: {check}",
    )


def _quantisation(
    job: Job[Any, Any, Any], settings: ExportSettings, server: Server, data: Path | None
) -> QuantisationImages | None:
    """Return what quantisation needs; None without it."""
    if settings.quantise is not None:
        return quantisation_images(job, server, data)
    if data is not None:
        job.say("Note: `export` has no use for --data without --quantise; it is ignored.")
    return None


def _print_loss(job: Job[Any, Any, Any], bundle: Path) -> None:
    """Print how much worse a network in int8 predicts than the bundle."""
    if (loss := load_metadata(bundle).int8_loss) is not None:
        job.say(loss.sentence)


def _int8(images: QuantisationImages, server: Server) -> Portable:
    """Return the file of a network in int8, scaled and judged by images."""
    return int8_portable(images.training, partial(images.loss, tf.function(server.portable()[0])))


def _require_possible(job: Job[Any, Any, Any], settings: ExportSettings) -> None:
    """Refuse, before the model is loaded, options that would fail after the work.

    Raises:
        InputError: A head of numbers or labels shall be exported without its temperature, or a package that
            the format needs is not installed.
    """
    if settings.format == "onnx":
        require_onnx()
    if not _has_guarantees(job) and not settings.tempered:
        raise InputError(
            "tempered: false is of classes alone. The intervals of numbers are of deviations with their "
            "temperature, and what is kept of several labels is of probabilities with it. Leave it out."
        )


def _has_guarantees(job: Job[Any, Any, Any]) -> bool:
    """Whether a run keeps guarantees; for numbers and for several labels `predict` finds them."""
    return not (job.has_real_targets or job.has_several_labels)


def _print_lacking(
    job: Job[Any, Any, Any], guarantee: GuaranteeRecord | None, *, held_out: bool, familiarity: bool
) -> None:
    """Print which files the run lacks, so that the bundle lacks them too, and what to do."""
    has_selection = job.run.counts["selection"] > 0
    lacking = {
        f"{HELD_OUT}, from which predict finds limits for single classes, shares and sets of classes": (
            guarantee is not None and guarantee.units > 0 and not held_out
        ),
        "familiarity, by which predict names what is unlike the training": not familiarity,
    }
    for what in (what for what, is_lacking in lacking.items() if is_lacking and has_selection):
        job.say(
            f"Warning: the run keeps no {what}: the bundle has none. Continue the training with --resume, "
            "which computes it, and export again.",
        )


def _print_guarantee(
    job: Job[Any, Any, Any],
    guarantee: GuaranteeRecord | None,
    enclosed: dict[str, Any] | None,
    settings: ExportSettings,
) -> None:
    """Print if a bundle can guarantee nothing, why, and what to do; for numbers `predict` finds that out."""
    if not _has_guarantees(job):
        return
    if guarantee is None:
        why = "the run keeps none of this model."
        if enclosed is not None:
            found = enclosed.get("no_guarantee", enclosed.get("no_promise"))  # the latter of version 0.1.0
            why = found or "the run keeps none, and the metrics judged no such head with these weights."
        remedy = "Continue the training with --resume, which computes them, and export again."
        if not settings.tempered:
            remedy = "A run keeps those of heads with temperatures; --metrics brings others of an evaluation."
        job.say(f"The bundle holds no guarantees for --max-error: {why} {remedy}")
    elif not guarantee.thresholds:
        job.say(
            "The bundle can guarantee nothing for --max-error: no error could be guaranteed by the "
            f"{guarantee.units} {guarantee.noun} of the selection part that are referred or kept.",
        )


def _why(job: Job[Any, Any, Any], head: str, settings: ExportSettings) -> str:
    """Return a clause that says why this head is exported; empty if the run has no other."""
    choice, others = job.run.choice, [name for name in job.run.heads if name != head]
    if not others:
        return ""
    if settings.head is not None:
        named = choice is not None and choice.head != head
        return f", in the place of {choice.head}," if choice is not None and named else ""
    another = f"--set head={others[-1]} takes another"
    if choice is None:
        return (
            f", the last of the run ({another}; this run has not chosen the best head, train --resume does),"
        )
    return f", which the run chose ({another}),"


def _fitted(model: HybridModel, temperature: float | None) -> dict[str, str]:
    """Return how a run fitted the certainty of its head, as a bundle describes it."""
    told = {}
    if model.num_effective is not None:
        told["effective observations"] = f"{model.num_effective:.4g} of {model.num_data}"
    if temperature is not None:
        told["temperature"] = f"{temperature:.4g}, fitted on the held-out examples"
    return told
