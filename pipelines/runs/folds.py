"""Out-of-fold heads: if little is held out, training examples judge heads that did not see their groups.

The training groups of a run on a network that is not trained are divided into folds. Every head is trained
again without each fold, and what it predicts of that fold counts as held out beside the selection part: for
the temperatures, the choice of the head, and what the run guarantees.

    run/folds/1/ ...       a run of its own whose test part is the first fold

Source:
    Vovk (2015), Cross-conformal predictors; Barber, Candès, Ramdas and Tibshirani (2021), Predictive
    inference with the jackknife+. `docs/theory.md` says what such predictions guarantee of the head of all
    examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from data_prep.prepared.manifest import LabelledManifest
from data_prep.splits.divide import Splits
from data_prep.splits.stratified import stratified_parts
from gpmodels import HybridModel
from pipelines.runs.application import DataKind, RunKind, SettingsKind
from pipelines.runs.description import load_run
from pipelines.runs.job import Job
from pipelines.runs.models import load_model
from pipelines.runs.resume import new_run
from pipelines.runs.selection import SelectedNumbers, SelectedPoints, selected_points, selection_temperature
from pipelines.scores.guarantee_sizes import units_needed

NUM_FOLDS: Final = 5

ENOUGH_HELD_OUT: Final = units_needed(0.02, binomial=True)
"""Number of held-out groups that suffices without folds: if all are right, they guarantee 2 %."""

FEWEST_GROUPS: Final = 6 * NUM_FOLDS
"""With fewer training groups than this, a fold has too few to show anything."""


def num_folds_of(job: Job[Any, Any, Any], model: HybridModel) -> int:
    """Return the number of folds of a run's training examples; 0 if no heads are refitted.

    Args:
        job: Job on the run and its data, before its training.
        model: Network of the run with any head.
    """
    judge_by, data = job.application.judge, job.data
    is_of_labels_or_numbers = not model.head.is_classifier or bool(model.head.label_shape)
    is_of_examples = judge_by.refers_classes or is_of_labels_or_numbers
    if model.network.trainable_weights or not (job.settings.out_of_fold and is_of_examples):
        return 0
    if not (job.splits.selection and isinstance(data.manifest, LabelledManifest)):
        return 0
    held_out = len(set(judge_by.groups(data, job.splits.selection).values()))
    fewest = FEWEST_GROUPS if model.head.is_classifier else NUM_FOLDS  # each number says how far off it is
    is_small = held_out < ENOUGH_HELD_OUT and len(set(job.groups("train"))) >= fewest
    return NUM_FOLDS if is_small else 0


def fold_splits(job: Job[Any, Any, Any]) -> list[Splits]:
    """Return the parts of each fold of a run: its test part is the fold, its selection part that of the run.

    Args:
        job: Job on the run and the prepared folder that it is trained with.

    Returns:
        The parts in the order of the folds; empty for a run without folds.
    """
    if not job.run.refitted_folds:
        return []
    examples = job.data.manifest.select(job.splits.train)
    groups = {example.name: example.group for example in examples}
    labels = {example.name: example.label for example in examples}
    shares = (1.0 / job.run.refitted_folds,) * job.run.refitted_folds
    part_of = stratified_parts(groups, labels, shares, job.settings.seed)
    return [
        Splits(
            train=tuple(name for name in job.splits.train if part_of[name] != number),
            selection=job.splits.selection,
            test=tuple(name for name in job.splits.train if part_of[name] == number),
        )
        for number in range(job.run.refitted_folds)
    ]


def untrained_folds(job: Job[DataKind, SettingsKind, RunKind]) -> list[Job[DataKind, SettingsKind, RunKind]]:
    """Return a job for each fold of a run, with a run that has not begun; arguments as of `fold_splits`."""
    application, steps_of = job.application, job.application.inputs.steps_per_epoch
    return [
        replace(
            fold,
            run=new_run(application, fold.data, fold.splits, steps_of(job.settings, len(fold.splits.train))),
        )
        for fold in _folds(job)
    ]


def trained_folds(job: Job[DataKind, SettingsKind, RunKind]) -> list[Job[DataKind, SettingsKind, RunKind]]:
    """Return a job for each fold of a run, with its trained run; arguments as of `fold_splits`.

    Raises:
        InputError: The description of a fold is missing or damaged.
    """
    return [replace(fold, run=load_run(fold.folder, job.application.run)) for fold in _folds(job)]


def _folds(job: Job[DataKind, SettingsKind, RunKind]) -> list[Job[DataKind, SettingsKind, RunKind]]:
    """Return the jobs on the folders and parts of the folds, still with the run of the whole."""
    return [
        replace(job, folder=job.folder / "folds" / str(number), opened=(job.data, splits))
        for number, splits in enumerate(fold_splits(job), 1)
    ]


def held_out_names(job: Job[Any, Any, Any]) -> tuple[str, ...]:
    """Return the examples that judge the heads of a run: the selection part, then those of each fold."""
    return (*job.splits.selection, *(name for splits in fold_splits(job) for name in splits.test))


def unlearned_note(fold: Job[Any, Any, Any]) -> str:
    """Return what it means that all training examples of some classes are in a fold; empty if of none."""
    if fold.has_real_targets:
        return ""
    examples, is_learned = fold.data.manifest.select(fold.splits.test), _is_learned(fold, "test")
    unseen = {example.label for example, known in zip(examples, is_learned, strict=True) if not known}
    if not unseen:
        return ""
    classes = ", ".join(fold.data.manifest.class_names[label] for label in sorted(unseen))
    return (
        f". All training examples of {classes} are in this fold, so these heads cannot recognise them. Their "
        "predictions for these examples are left out of the temperature and the choice of the head, and "
        "guarantees count them as wrong. The training goes on; more groups with examples of that kind would "
        "mend this."
    )


class HeldOutPoints(NamedTuple):
    """A head's predictions for the held-out examples, in the order of `held_out_names`.

    Attributes:
        points: Predictions, of each fold those of the head without it.
        sharpness: Factor of the logits of each fold's head; empty of numbers and without folds.
    """

    points: SelectedPoints
    sharpness: tuple[float, ...]


def held_out_points(job: Job[Any, Any, Any], head: str, model: HybridModel) -> HeldOutPoints:
    """Return a head's predictions for the held-out examples.

    Heads of fewer examples need another temperature than the head of all examples. The selection part, which
    trained neither, shows both: a fold's head is taken to be as sure there as the head of all is.
    `docs/theory.md` says what that guarantees.

    - Of classes, the fold's logits are multiplied by their `sharpness`. Examples of a class whose groups are
      all in one fold have no weight: the heads without it have not learned the class, which the head of all
      has, so that their certain errors say nothing of its temperature.
    - Of numbers, deviations are divided by one factor where the fold's are the larger ones. Intervals are
      multiples of the deviations of the head of all, and would be too narrow by errors in units of larger
      ones; this only widens them.

    Args:
        job: Job on the run and its data.
        head: Name of the head.
        model: The head with its network, at the temperature 1.

    Raises:
        InputError: A fold has no such head, or it is damaged.
    """
    whole = selected_points(model, job.batches("selection"))
    parts, sharpness = [whole], []
    for fold in trained_folds(job):
        of_fold = load_model(fold, head)
        part = selected_points(of_fold, fold.batches("test"))
        own = selected_points(of_fold, job.batches("selection"))
        if isinstance(part, SelectedNumbers):
            part = part.no_less_sure(own, whole)
        else:
            sharpness.append(_sharpness(fold, whole, own))
            weights = part.weights * _is_learned(fold, "test")[part.examples]
            part = replace(part, logits=part.logits * sharpness[-1], weights=weights)
        parts.append(part)
    points = type(parts[0])(
        np.concatenate([part.logits for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate(list(_renumbered(parts))),
    )
    return HeldOutPoints(points, tuple(sharpness))


def _sharpness(fold: Job[Any, Any, Any], whole: SelectedPoints, own: SelectedPoints) -> float:
    """Return the temperature of the whole run's head divided by that of a fold's, on the selection part."""
    is_learned = _is_learned(fold, "selection")
    if not is_learned.any():
        return 1.0
    of_all, of_fold = (
        selection_temperature(
            replace(points, weights=points.weights * is_learned[points.examples]),
            groups=fold.groups("selection"),
        )
        for points in (whole, own)
    )
    return of_all / of_fold


def _is_learned(fold: Job[Any, Any, Any], part: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return for each example of a fold's part whether the fold's heads were trained on its class.

    Of votes that is the class with most of them: heads that saw a class as a minority of votes alone are less
    sure of it than the head of all examples, and count as not having learned it.
    """
    trained, judged = (
        [example.label for example in fold.data.manifest.select(getattr(fold.splits, name))]
        for name in ("train", part)
    )
    return np.isin(judged, trained) | fold.has_several_labels


def _renumbered(parts: list[SelectedPoints]) -> Iterator[np.ndarray[Any, np.dtype[np.int32]]]:
    """Yield the numbers of the examples of each part, counted on from the part before."""
    first = 0
    for part in parts:
        yield part.examples + np.int32(first)
        first += int(part.examples.max(initial=-1)) + 1
