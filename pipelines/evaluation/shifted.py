"""Judging a run's methods on shifted images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from rich.progress import track

from data_prep.errors import InputError
from gpmodels.familiarity.flags import flagged
from pipelines.bundles.metadata import FAMILIARITY
from pipelines.runs.application import JudgedExample
from pipelines.runs.job import Job
from pipelines.runs.predictors import Predictor
from pipelines.scores.shifts import SHIFTS, STRENGTHS, ShiftedScores, shifted

_KEPT_UNSHIFTED = 0.9


def require_images(job: Job[Any, Any, Any], names: Sequence[str]) -> None:
    """Raise `InputError` where the judged examples are no images, or have no classes to shift."""
    if job.has_real_targets:
        raise InputError(f"--shifted: {job.application.name} predicts numbers; only classes are shifted.")
    first = next(iter(job.application.judge.examples(job.data, names[:1])))
    if first.original.dtype != np.uint8 or first.original.shape[-1] != 3:
        raise InputError(
            f"--shifted: {job.data.folder} holds features, not images, and shifts are of images. Evaluate "
            "without --shifted, or train on the images themselves."
        )


def shifted_results(
    job: Job[Any, Any, Any], predictors: Sequence[Predictor], names: Sequence[str], *, seed: int
) -> dict[str, tuple[ShiftedScores, ...]]:
    """Return the scores of each method, by its title, for every kind and strength of shift.

    Args:
        job: Job on the run and the prepared folder.
        predictors: The methods.
        names: Names of the judged examples.
        seed: Seed of noise.
    """
    examples = list(job.application.judge.examples(job.data, names))  # few, see `shifted_examples`
    limits: list[float] = []
    results: list[list[ShiftedScores]] = []
    for predictor in predictors:
        unshifted, uncertainty = _judged(job, predictor, examples, "", 0)
        limits.append(float(np.quantile(uncertainty, _KEPT_UNSHIFTED)))
        kept = float(np.mean(uncertainty <= limits[-1]))
        results.append([replace(unshifted, kind=kind, kept=kept) for kind in SHIFTS])
    steps = track(
        list(product(SHIFTS, STRENGTHS)),
        "Shifted images",
        console=job.console,
        transient=True,
        disable=not job.console.is_terminal,
    )
    for kind, strength in steps:
        there = _shifted_examples(job, examples, kind, strength, seed)
        for predictor, limit, scores in zip(predictors, limits, results, strict=True):
            found, uncertainty = _judged(job, predictor, there, kind, strength)
            scores.append(replace(found, kept=float(np.mean(uncertainty <= limit))))
    return {predictor.title: tuple(scores) for predictor, scores in zip(predictors, results, strict=True)}


def _shifted_examples(
    job: Job[Any, Any, Any], examples: Sequence[JudgedExample], kind: str, strength: int, seed: int
) -> list[JudgedExample]:
    """Return the examples with shifted images, as the network sees these."""
    images = [
        shifted(kind, example.original, strength, seed=seed + number)
        for number, example in enumerate(examples)
    ]
    if all(example.source is None for example in examples):
        return [replace(example, image=image) for example, image in zip(examples, images, strict=True)]
    return [
        replace(example, image=seen, source=image)
        for example, image, seen in zip(examples, images, job.data.encode_all(images), strict=True)
    ]


def _judged(
    job: Job[Any, Any, Any],
    predictor: Predictor,
    examples: Sequence[JudgedExample],
    kind: str,
    strength: int,
) -> tuple[ShiftedScores, Any]:
    """Return the scores of some examples, `kept` left open, and the uncertainty of each."""
    judge_by = job.application.judge
    records, uncertainty, unfamiliar = [], [], []
    for example in examples:
        outputs = judge_by.outputs(predictor, example)
        records.append(judge_by.record(example, outputs))
        uncertainty.append(float(np.mean(outputs["predictive_entropy"])))
        if predictor.flags:
            unfamiliar.append(float(np.mean(flagged(outputs[FAMILIARITY]))))
    scores = judge_by.result(predictor.title, records).scores
    share = float(np.mean(unfamiliar)) if unfamiliar else np.nan
    return ShiftedScores(kind, strength, scores["nll"], scores["ece"], np.nan, share), np.array(uncertainty)
