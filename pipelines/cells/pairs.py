"""`gpimaging cells pairs`: train on one sequence, judge on every other one (DFGP paper, section 5.3).

Every sequence trains a run of its own, below `runs` in the output folder. A part of its frames is held out
of the training; it chooses the best epoch and the probability from which a candidate is called an event, so
that nothing of a judged sequence reaches what judges it. Sequences of one group are not judged by each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from rich.console import Console

from data_prep.cells.manifest import CellsManifest
from data_prep.cells.views import mean_difference
from data_prep.errors import InputError
from data_prep.splits.divide import assign_folds, manifest_splits
from data_prep.splits.settings import later_seed
from pipelines.bundles.serving import per_class
from pipelines.cells.application import CELLS, CellsData
from pipelines.cells.events import best_threshold, called_events
from pipelines.cells.pairs_report import (
    PAIRS,
    REPORT,
    PairResult,
    scores_markdown,
    write_pairs,
    write_report,
)
from pipelines.cells.scores import NO_EVENT, event_scores
from pipelines.cells.settings import CellsRun, PairsSettings, TrainSettings
from pipelines.command.config import CONFIG_NAME, dump_settings
from pipelines.runs.application import Application
from pipelines.runs.job import Job
from pipelines.runs.models import run_predictors
from pipelines.runs.predictors import Predictor
from pipelines.runs.train import train as train_run
from pipelines.scores.definitions import AnyFloatArray
from pipelines.tasks.data import PreparedViews
from pipelines.tasks.views import described

_DIFFERENCE = "current_difference_histogram"

_PARTS = 10  # of the training sequence's frames; some of these parts are held out


@dataclass(frozen=True)
class DifferenceThreshold:
    """A plain threshold of the difference, where there is one kind of event: it tells no kinds."""

    def train(self, job: Job[Any, TrainSettings, CellsRun], network: keras.Model) -> None:
        """Train nothing: the difference is a feature."""

    def predictors(
        self, job: Job[Any, TrainSettings, CellsRun], _networks: Mapping[str, keras.Model]
    ) -> list[Predictor]:
        """Return the row of the difference, none for several kinds of events."""
        return [difference_predictor(job.run)] if job.run.num_classes == 2 else []


def one_sequence(whole: CellsData, sequence: str) -> Application[CellsData, TrainSettings, CellsRun]:
    """Return the application with the candidates of one sequence to train on.

    Args:
        whole: The prepared folder.
        sequence: Name of the sequence that trains; the others are the test part.
    """
    divided = PreparedViews(whole.folder, divided_by_sequence(whole.manifest, sequence))
    return replace(
        CELLS,
        inputs=replace(CELLS.inputs, open=lambda _folder: divided),
        rivals=(DifferenceThreshold(), *CELLS.rivals),
    )


def difference_predictor(run: CellsRun) -> Predictor:
    """How much a candidate's patch changes, as a share of what it can, in place of a probability."""
    views = described(run).views
    start = sum(views[name] for name in takewhile(lambda name: name != _DIFFERENCE, views))
    columns = slice(start, start + views[_DIFFERENCE])

    def predict(features: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"probability": tf.constant(mean_difference(features[:, columns].numpy()) / 255.0)}

    return Predictor("Difference threshold", predict, {})


def train(
    settings: PairsSettings,
    *,
    data: Path,
    out: Path,
    resume: bool,
    console: Console,
) -> list[PairResult]:
    """Train on each sequence in turn and judge on the others; writes a table of pairs and a report.

    Args:
        settings: Of the trainings.
        data: Prepared folder.
        out: Folder to write to.
        resume: Whether to go on with an interrupted call; finished trainings are not repeated.
        console: Where progress is shown.

    Returns:
        a result for each method, seed and ordered pair.

    Raises:
        InputError: The data cannot be used, has no two sequences with events, or `out` holds other pairs.
        TrainingDiverged: A loss became NaN; what was trained before is kept.
    """
    if (out / CONFIG_NAME).exists() and not resume:
        raise InputError(f"{out} already holds pairs. Continue with --resume, or give another --out.")
    whole = CELLS.inputs.open(data)
    pairs, unusable = ordered_pairs(whole.manifest, settings.selection_fraction)
    if not pairs:
        reasons = "".join(f"\n  {reason}" for reason in unusable)
        raise InputError(
            f"{data}: no two sequences that can train and be judged. Expected events in two sequences at "
            f"least, of different groups. Annotate more sequences.{reasons}"
        )
    for reason in unusable:
        console.print(f"Warning: left out: {reason}", markup=False)
    out.mkdir(parents=True, exist_ok=True)
    if not (out / CONFIG_NAME).exists():
        dump_settings(settings, out / CONFIG_NAME)
    results: list[PairResult] = []
    weights: list[Mapping[str, float]] = []
    for repeat in range(settings.repeats):
        seed = later_seed(settings.seed, repeat)
        chosen = training_settings(settings, seed)
        for place, (sequence, tested) in enumerate(pairs.items(), 1):
            said = f"Training on {sequence}, {place} of {len(pairs)}, with the seed {seed}"
            console.print(said, markup=False)
            folder = out / "runs" / run_name(whole.manifest, sequence, seed)
            job = trained(one_sequence(whole, sequence), chosen, whole.folder, folder, console)
            dump_settings(settings, out / CONFIG_NAME)  # changed ones, now that the run took them
            results += judged_pairs(job, sequence, tested)
            run = job.run
            weights += [run.view_weights] if run.view_weights else []
    write_pairs(out / PAIRS, results)
    write_report(out / REPORT, results, weights, unusable)
    console.print(f"{scores_markdown(results)}\nEvery pair is in {out / PAIRS}", markup=False, soft_wrap=True)
    return results


def run_name(manifest: CellsManifest, sequence: str, seed: int) -> str:
    """Name of a run's folder; numbered, for names may differ in what no folder can be called."""
    number = [one.name for one in manifest.sequences].index(sequence)
    return f"{number:03d}_{sequence.replace('/', '_')}_seed_{seed}"


def trained(
    application: Application[CellsData, TrainSettings, CellsRun],
    settings: TrainSettings,
    data: Path,
    folder: Path,
    console: Console,
) -> Job[CellsData, TrainSettings, CellsRun]:
    """Train a run on one sequence, and return the job on it; what is complete of it is not repeated.

    Raises:
        InputError: The folder holds a run on other data or settings.
        TrainingDiverged: A loss became NaN; the last good checkpoint is kept.
    """
    begun = (folder / "run.json").exists()
    run = train_run(application, settings, data=data, out=folder, resume=begun, console=console)
    job = Job(application=application, settings=settings, run=run, folder=folder, console=console)
    return job.on(application.inputs.open(data), fold=0)


def training_settings(settings: PairsSettings, seed: int) -> TrainSettings:
    """Settings of one training."""
    own = settings.model_dump(include=set(TrainSettings.model_fields))
    return TrainSettings.model_validate(own | {"seed": seed})


def divided_by_sequence(manifest: CellsManifest, sequence: str) -> CellsManifest:
    """The same examples with one sequence to train on, whose groups are parts of consecutive frames.

    Args:
        manifest: Of the prepared folder.
        sequence: Its name; all others are the test part, in the groups they have.
    """
    frames = {one.name: f"{one.frame:09d}" for one in manifest.examples if one.source == sequence}
    parts = assign_folds(frames, min(_PARTS, len(set(frames.values()))), "name", seed=0)
    examples = tuple(
        one.model_copy(
            update={"group": f"{sequence} part {parts[one.name].fold}", "fold": None, "split": "train"}
            if one.name in parts
            else {"fold": None, "split": "test"}
        )
        for one in manifest.examples
    )
    return manifest.model_copy(update={"examples": examples, "num_folds": None})


def ordered_pairs(
    manifest: CellsManifest, selection_fraction: float
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Which sequences train, and which ones each is judged on.

    Args:
        manifest: Of the prepared folder.
        selection_fraction: Share of a training sequence to hold out.

    Returns:
        the sequences to judge, by the one that trains; and why other sequences are left out.
    """
    reasons = {one.name: _unusable(manifest, one.name, selection_fraction) for one in manifest.sequences}
    usable = [name for name, reason in reasons.items() if reason is None]
    group = {one.source: one.group for one in manifest.examples}
    pairs = {
        name: tuple(other for other in usable if group[other] != group[name])
        for name in usable
        if any(group[other] != group[name] for other in usable)
    }
    return pairs, tuple(reason for reason in reasons.values() if reason is not None)


def _unusable(manifest: CellsManifest, sequence: str, selection_fraction: float) -> str | None:
    """Why a sequence cannot train; None if it can."""
    label = {one.name: one.label for one in manifest.examples if one.source == sequence}
    events = sum(value != NO_EVENT for value in label.values())
    if events == 0:
        return f"{sequence} has no prepared candidate that is an event."
    try:
        splits = manifest_splits(
            divided_by_sequence(manifest, sequence), selection_fraction=selection_fraction
        )
    except InputError:
        parts: list[set[bool]] = []
    else:
        parts = [{label[name] != NO_EVENT for name in some} for some in (splits.train, splits.selection)]
    if parts == [{True, False}] * 2:
        return None
    return (
        f"{sequence} has {events} events among {len(label)} candidates, too few or too close in time to be "
        f"held out in part. Expected events and others in two of {_PARTS} parts of its frames at least."
    )


def judged_pairs(
    job: Job[CellsData, TrainSettings, CellsRun], trained_on: str, tested: Collection[str]
) -> Iterator[PairResult]:
    """Judge every method of a run on some sequences.

    Args:
        job: Job on the run and its data, of which one sequence trains.
        trained_on: Name of that sequence.
        tested: Names of the sequences to judge.
    """
    manifest, run = job.data.manifest, job.run
    missed = {one.name: one.annotations - one.matched for one in manifest.sequences}
    names: dict[str, list[str]] = {sequence: [] for sequence in tested}
    for example in manifest.examples:
        if example.source in names:
            names[example.source].append(example.name)

    def predicted(
        predictor: Predictor, some: Sequence[str]
    ) -> tuple[NDArray[np.integer[Any]], AnyFloatArray]:
        labels, probabilities = [], []
        for features, label in job.application.inputs.plain_batches(job.data, some, job.settings, False):
            labels.append(label.numpy())
            probabilities.append(per_class(predictor.predict(features)["probability"]).numpy())
        return np.concatenate(labels), np.concatenate(probabilities)

    for predictor in run_predictors(job):
        threshold = best_threshold(*predicted(predictor, job.splits.selection))
        for sequence in tested:
            labels, probability = predicted(predictor, names[sequence])
            called = called_events(probability, threshold)
            yield PairResult(
                method=predictor.title,
                seed=job.settings.seed,
                train=trained_on,
                test=sequence,
                threshold=threshold,
                candidates=len(labels),
                events=int((labels != NO_EVENT).sum()),
                scores=event_scores(labels, called, run.num_classes, missed[sequence]),
            )
