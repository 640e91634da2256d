"""Effective number of observations of a run, estimated from the errors of a trained head."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.errors import InputError
from gpmodels import HybridModel
from gpmodels.statistics.effective_sample import design_effect, intraclass_correlation, residuals_of
from pipelines.runs.job import Job

POINTS_PER_EXAMPLE = 500
"""Most points of an example, for example pixels of an image, whose residuals are kept."""


@dataclass(frozen=True)
class Observations:
    """Effective number of training points.

    Attributes:
        points: N.
        groups: Number of groups that the points belong to.
        correlation: ρ of two residuals of one group.
        effective: N_eff, by `gpmodels.statistics.effective_sample.design_effect`.
    """

    points: int
    groups: int
    correlation: float
    effective: float


@dataclass(frozen=True)
class Grouped:
    """Batches of examples in order, and their groups.

    Attributes:
        batches: Of inputs, labels and, where points may be ignored, weights; each example once.
        groups: Group of each example.
    """

    batches: tf.data.Dataset
    groups: Sequence[str]


def require_observations(job: Job[Any, Any, Any]) -> None:
    """Raise `InputError` where more effective observations are wanted than there are training points."""
    wanted = job.settings.effective_observations
    if not isinstance(wanted, str) and wanted > job.run.num_data:
        raise InputError(
            f"effective_observations is {wanted:g}, more than the {job.run.num_data} training points of "
            f"{job.data.folder}. Give a smaller number, or all."
        )


def observations_of_run(job: Job[Any, Any, Any], pretrained: HybridModel) -> tuple[float | None, str]:
    """Return the effective number of training points of a run, and a sentence about it.

    Args:
        job: Job on the run, with its data.
        pretrained: The network with the trained linear head.

    Returns:
        N_eff, or None if it cannot be estimated, and a sentence. Each of several labels counts as a point.
    """

    def grouped(part: str) -> Grouped:
        batches = job.batches(part)
        if pretrained.head.has_votes:  # an image is one point, of the class with most votes
            batches = batches.map(lambda inputs, shares: (inputs, tf.argmax(shares, axis=-1)))
        return Grouped(batches, job.groups(part))

    training, held_out = grouped("train"), None
    if job.splits.selection:
        held_out = grouped("selection")
    found = count_observations(pretrained, training, held_out, seed=job.settings.seed)
    if found is None:
        return None, (
            "All training examples are of one group, which cannot show how much they repeat each other: "
            f"the heads count all {job.run.num_data} points. Prepare groups, or give a number."
        )
    # Labelled points may be a few more or less than N, which a run counts before it reads them.
    return found.effective / found.points * job.run.num_data, (
        f"Effective observations: {found.points} points of {found.groups} groups count as "
        f"{found.effective:.1f} (correlation within a group {found.correlation:.3f})"
    )


def count_observations(
    model: HybridModel, training: Grouped, held_out: Grouped | None, *, seed: int
) -> Observations | None:
    """Return the effective number of training points, estimated from a trained model's residuals.

    Held-out groups show how much points of a group repeat each other: a model's errors on its own training
    data show little, since it may have memorised them. For an example with many points the correlation is
    estimated from a random sample; all of them count.

    Args:
        model: Trained model, best of the linear head: a Gaussian process fits its points too well.
        training: Examples to count.
        held_out: Examples of groups that were not trained on; None if there are none.
        seed: Seed of the sample.

    Returns:
        None if nothing is held out and the training is all of one group.
    """
    sizes = [size for size in _group_sizes(training).values() if size]
    if held_out is None and len(sizes) < 2:
        return None
    members, residuals = _residuals(model, held_out or training, np.random.default_rng(seed))
    correlation = intraclass_correlation(members, residuals, held_out=held_out is not None)
    effective = sum(sizes) / design_effect(sizes, correlation)
    return Observations(sum(sizes), len(sizes), correlation, effective)


def _group_sizes(examples: Grouped) -> dict[str, int]:
    """Return how many points of each group count."""
    sizes, remaining = dict.fromkeys(examples.groups, 0), iter(examples.groups)
    for _, label, *weight in examples.batches:
        for used in _used(label, weight):
            sizes[next(remaining)] += int(used.sum())
    return sizes


def _residuals(
    model: HybridModel, examples: Grouped, rng: np.random.Generator
) -> tuple[list[str], NDArray[Any]]:
    """Return group `[N]` and residual `[N]` or `[N, C]` of some points of each example."""
    members: list[str] = []
    residuals, remaining = [], iter(examples.groups)
    for inputs, label, *weight in examples.batches:
        used = _used(label, weight)
        labels = label.numpy().reshape(used.shape)
        outputs = model(inputs, training=False)
        logits = (model.logits(outputs) if model.head.is_classifier else outputs["mean"]).numpy()
        logits = logits.reshape(*labels.shape, *logits.shape[label.shape.rank :])
        for example, group in zip(range(len(labels)), remaining, strict=False):
            chosen = rng.permutation(np.flatnonzero(used[example]))[:POINTS_PER_EXAMPLE]
            of_example = logits[example, chosen], labels[example, chosen]
            residuals.append(
                residuals_of(*of_example) if model.head.is_classifier else of_example[1] - of_example[0]
            )
            members += [group] * len(chosen)
    return members, np.concatenate(residuals)


def _used(label: tf.Tensor, weight: Sequence[tf.Tensor]) -> NDArray[np.bool_]:
    """Return which points of a batch count, `[B, points]`; a label that nobody knows is none."""
    known = np.isfinite(label.numpy().reshape(label.shape[0], -1).astype(np.float64))
    return known & (weight[0].numpy().reshape(known.shape) > 0) if weight else known
