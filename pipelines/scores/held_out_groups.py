"""Held-out groups as one example each, such as a patient with several images.

The probability of a group is the mean over its examples, at a temperature of groups; see
`pipelines.scores.pool_calibration`. Each group is then one independent unit that is right or wrong. The
number of a group is the mean of the standardised numbers of its examples, whose errors have a part in common.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from data_prep.errors import InputError
from gpmodels.statistics.effective_sample import intraclass_correlation
from pipelines.scores.definitions import FloatArray
from pipelines.scores.held_out import HeldOut
from pipelines.scores.numbers import HeldOutNumbers
from pipelines.scores.pool_calibration import at_temperature, entropies, fit_pool_temperature

GROUPS_JUDGED: Final = "groups"
"""What is judged, in the plural, where groups are."""

_GROUPS_OF_SEVERAL = 1.5
"""Mean number of examples from which held-out groups are taken for what groups of new images are like."""

_SMALL = 5.0
"""Percentile of the held-out groups' sizes below which a new group is smaller than they are."""


def least_size(sizes: NDArray[np.intp]) -> int:
    """Return the size below which a group is smaller than nearly all held-out ones, of these sizes."""
    return int(np.percentile(sizes, _SMALL, method="lower"))


@dataclass(frozen=True)
class HeldOutGroups:
    """Held-out groups as one example each.

    Attributes:
        predictions: What is predicted of each group, a unit of its own.
        temperature: Of the mean probability of a group. It was fitted on these groups: of two classes it
            leaves the order of entropies as it is, of more a threshold by the same groups is approximate.
        sizes: Number of examples of each `[G]`.
    """

    predictions: HeldOut
    temperature: float
    sizes: NDArray[np.intp]

    @property
    def least_size(self) -> int:
        """The size below which a group is smaller than nearly all of these.

        The mean of fewer examples is less often right at the same entropy, that of more is not.
        """
        return least_size(self.sizes)


def has_groups_of_several(held_out: HeldOut | HeldOutNumbers) -> bool:
    """Return whether the groups of held-out examples have several examples on average."""
    return held_out.unit.size >= _GROUPS_OF_SEVERAL * np.unique(held_out.unit).size


def lacking_groups(held_out: HeldOut | HeldOutNumbers, what: str) -> str:
    """Return why held-out examples tell nothing of groups, and what to do; empty where they do.

    Args:
        held_out: Predictions of held-out examples.
        what: What these are, as "held-out images of bundle".
    """
    if has_groups_of_several(held_out):
        return ""
    size = held_out.unit.size / np.unique(held_out.unit).size
    return (
        f"the {what} belong to no groups of several ({size:.2g} in each on average, at least "
        f"{_GROUPS_OF_SEVERAL:g} are needed). Prepare with a table whose column group names the patient or "
        "place of each, and train again."
    )


@dataclass(frozen=True)
class NumberPooling:
    """How the predicted numbers of the n examples of a group become that of the group.

    Its mean is the mean of theirs, and its variance σ² (ρ + (1 - ρ) / n) times the mean of theirs: the errors
    of a group, in standard deviations, have the correlation ρ.

    Attributes:
        correlation: ρ, from 0 to 1.
        scale: σ.
    """

    correlation: float
    scale: float

    def pooled(self, mean: FloatArray, deviation: FloatArray) -> tuple[float, float]:
        """Return mean and standard deviation of a group from those of its examples, each `[n]`.

        Example:
            >>> NumberPooling(0.0, 1.0).pooled(np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4))
            (2.5, 0.5)
        """
        shared = self.correlation + (1.0 - self.correlation) / mean.size
        return float(mean.mean()), float(self.scale * np.sqrt(shared * np.square(deviation).mean()))


def pooled_numbers(held_out: HeldOutNumbers) -> tuple[NumberPooling, HeldOutNumbers, NDArray[np.intp]]:
    """Return how groups are pooled, by held-out ones, these groups as one example each, and their sizes.

    ρ is found by analysis of variance of the errors in standard deviations, σ then by maximum likelihood of
    the errors of the groups.

    Args:
        held_out: Predictions of held-out examples, each with the number of its group, not one in each.
    """
    members = [np.flatnonzero(held_out.unit == unit) for unit in np.unique(held_out.unit)]
    errors = (held_out.truth - held_out.mean) / held_out.deviation
    rough = NumberPooling(intraclass_correlation(held_out.unit, errors, held_out=True), 1.0)
    rows = [
        (*rough.pooled(held_out.mean[of], held_out.deviation[of]), held_out.truth[of].mean())
        for of in members
    ]
    mean, deviation, truth = np.array(rows).T
    scale = float(np.sqrt(np.square((truth - mean) / deviation).mean()))
    found = replace(rough, scale=max(scale, float(np.finfo(np.float32).eps)))
    groups = HeldOutNumbers(mean, found.scale * deviation, truth, np.arange(len(members)))
    return found, groups, np.array([of.size for of in members])


def mixed_groups(held_out: HeldOut) -> int:
    """Return the number of groups whose examples have several classes."""
    truth = held_out.truth[np.unique(held_out.unit, return_index=True)[1]]
    return int(np.unique(held_out.unit[held_out.truth != truth[held_out.unit]]).size)


def pooled_by_unit(held_out: HeldOut) -> HeldOutGroups:
    """Return the held-out groups as one example each.

    Args:
        held_out: Predictions of held-out examples, each with the number of its group.

    Raises:
        InputError: Groups have examples of several classes, or examples have no class.

    Example:
        >>> said = np.array([[0.8, 0.2], [0.6, 0.4], [0.1, 0.9]])
        >>> groups = pooled_by_unit(
        ...     HeldOut(np.zeros(3), np.zeros(3), np.array([0, 0, 1]), np.array([0, 0, 1]), said)
        ... )
        >>> groups.predictions.truth.tolist(), groups.predictions.probability[:, 0].round(1).tolist()
        ([0, 1], [0.7, 0.1])
        >>> groups.sizes.tolist()
        [2, 1]
    """
    if not held_out.has_classes:
        raise InputError("Here no example is given one class, so that a group of them has none either.")
    if mixed := mixed_groups(held_out):
        raise InputError(
            f"{mixed} of the {held_out.num_units} held-out groups of the training have images of several "
            "classes, so that a group has no class of its own. Train with groups of one class."
        )
    truth = held_out.truth[np.unique(held_out.unit, return_index=True)[1]]
    sizes = np.bincount(held_out.unit)
    mean = np.stack([np.bincount(held_out.unit, column) / sizes for column in held_out.probability.T], axis=1)
    temperature = fit_pool_temperature(mean, truth)
    probability = at_temperature(mean, temperature)
    wrong = (probability.argmax(axis=1) != truth).astype(np.float64)
    groups = HeldOut(entropies(probability), wrong, np.arange(truth.size), truth, probability)
    return HeldOutGroups(groups, temperature, sizes)


def group_temperature(held_out: HeldOut) -> float:
    """Return the temperature of groups by held-out examples; 1 where their groups have one example each.

    Args:
        held_out: Predictions of held-out examples, each with the number of its group.

    Raises:
        InputError: As `pooled_by_unit`.
    """
    return pooled_by_unit(held_out).temperature if has_groups_of_several(held_out) else 1.0
