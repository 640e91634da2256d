"""How many independent observations grouped ones are worth.

Pixels of an image and patches of a patient repeat each other: what a model gets wrong at one of them it
gets wrong at the others too. A bound that counts them as independent is too sure of its posterior. Counted
as N_eff observations the bound is (N_eff / N) Σ_n E[log p(y_n | f_n)] - KL. That is the bound of a power
likelihood, each factor to the power N_eff / N, and so bounds no ordinary evidence.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.special


def design_effect(group_sizes: npt.ArrayLike, intraclass_correlation: float) -> float:
    """Return N / N_eff, by how much grouped observations are overcounted.

    N_eff = Σ_g n_g / (1 + (n_g - 1) ρ): n_g observations of equal correlation ρ fix their mean as well as so
    many independent ones would. It is N for ρ = 0 and the number of groups for ρ = 1.

    Args:
        group_sizes: Number of observations of each group, n_g > 0, `[groups]`.
        intraclass_correlation: ρ, correlation of two observations of one group, in [0, 1].

    Returns:
        The design effect, from 1 to the mean size of a group.

    Raises:
        ValueError: There is no group, a size is not positive, or ρ is outside [0, 1].

    Source:
        L. Kish, Survey Sampling, Wiley 1965, section 5.4 (1 + (n - 1) ρ for groups of one size n), applied to
        each group by its own size.

    Example:
        >>> design_effect([10, 10], 0.0), design_effect([10, 10], 1.0)
        (1.0, 10.0)
    """
    sizes = np.asarray(group_sizes, np.float64)
    if sizes.ndim != 1 or not sizes.size or not (np.isfinite(sizes) & (sizes > 0)).all():
        raise ValueError(
            "group_sizes must be a list of positive numbers, one for each group, but is "
            f"{np.array2string(sizes, threshold=5)}."
        )
    if not 0.0 <= intraclass_correlation <= 1.0:
        raise ValueError(f"intraclass_correlation must lie in [0, 1], but is {intraclass_correlation}.")
    effective = np.sum(sizes / (1.0 + (sizes - 1.0) * intraclass_correlation))
    return float(sizes.sum() / effective)


def intraclass_correlation(
    groups: npt.ArrayLike, residuals: npt.ArrayLike, *, held_out: bool = False
) -> float:
    """Return the correlation ρ of two residuals of one group, by one-way analysis of variance.

    With G groups of n_g observations, N in all, the mean squares between and within groups, and
    n_0 = (N - Σ n_g² / N) / (G - 1), the estimate is ρ = (MSB - MSW) / (MSB + (n_0 - 1) MSW), cut to [0, 1].
    Residuals of several columns, one for each class or output, add their mean squares.

    Of groups that trained nothing, a calibrated model's residuals have the mean 0, which then need not be
    estimated: MSB = Σ n_g m_g² / G with the means m_g of the groups, and n_0 = N / G. So one group is enough,
    and what a model gets wrong of all new groups counts as repeated too.

    Args:
        groups: Group of each observation, of any type that compares for equality, `[N]`.
        residuals: What the model got wrong, label less prediction, `[N]` or `[N, C]`.
        held_out: Whether the model was not fitted to these groups.

    Returns:
        ρ in [0, 1]; 0 where no group has two observations, and where all residuals are equal, for then
        nothing that varies repeats itself.

    Raises:
        ValueError: There is only one group, of which the model was trained; shapes differ, or a residual is
            not finite.

    Source:
        A. Donner, A review of inference procedures for the intraclass correlation coefficient in the one-way
        random effects model, International Statistical Review 54 (1986), section 2.

    Example:
        >>> intraclass_correlation(["a", "a", "b", "b"], [1.0, 1.0, -1.0, -1.0])
        1.0
    """
    index, sizes, values = _grouped(groups, residuals)
    num_groups, count = len(sizes), len(index)
    if num_groups < 2 and not held_out:
        raise ValueError(
            "The correlation within groups needs at least two groups, but all observations are of one. Give "
            "each observation its group, or count them all."
        )
    if num_groups == count:
        return 0.0
    sums = np.stack([np.bincount(index, column, num_groups) for column in values.T], axis=1)
    means = sums / sizes[:, None]
    within = float(np.sum((values - means[index]) ** 2)) / (count - num_groups)
    if held_out:
        between = float(np.sum(sizes[:, None] * means**2)) / num_groups
        typical_size = count / num_groups
    else:
        between = float(np.sum(sizes[:, None] * (means - values.mean(axis=0)) ** 2)) / (num_groups - 1)
        typical_size = (count - float(np.sum(sizes**2)) / count) / (num_groups - 1)
    total = between + (typical_size - 1.0) * within
    rounding = count * (np.finfo(np.float64).eps * np.abs(values).max()) ** 2 * values.shape[1]
    return float(np.clip((between - within) / total, 0.0, 1.0)) if total > 100.0 * rounding else 0.0


def effective_observations(
    groups: npt.ArrayLike, residuals: npt.ArrayLike, *, held_out: bool = False
) -> float:
    """Return N_eff, how many independent observations grouped ones are worth, from a model's residuals.

    Residuals of the examples that the model was fitted to are smaller and less alike than those of others:
    prefer the residuals of held-out groups, for example of a cross-validation over groups.

    Args:
        groups: Group of each observation, `[N]`.
        residuals: Label less prediction, `[N]`, or `[N, C]` for several classes or outputs.
        held_out: Whether the model was not fitted to these groups, as in `intraclass_correlation`.

    Returns:
        N_eff, from the number of groups to N; N where each observation is its own group.

    Raises:
        ValueError: As `intraclass_correlation`.

    Source:
        `design_effect` with `intraclass_correlation`.

    Example:
        >>> effective_observations([1, 2, 3, 4], [0.3, -0.2, 0.1, -0.4])
        4.0
    """
    _, sizes, _ = _grouped(groups, residuals)
    correlation = intraclass_correlation(groups, residuals, held_out=held_out)
    return float(sizes.sum()) / design_effect(sizes, correlation)


def effective_fraction(
    logits: npt.NDArray[Any], labels: npt.NDArray[Any], weights: npt.NDArray[Any], groups: npt.NDArray[Any]
) -> float:
    """Return N_eff / N of points by the residuals of their predictions.

    Args:
        logits: Logits `[N]` of class 1, or `[N, C]` of a softmax.
        labels: Classes `[N]`, or shares of the votes for each `[N, C]`.
        weights: Weights `[N]`; points of weight 0 do not count.
        groups: Group of each point `[N]`, none of which trained the model. Points of only one group are worth
            one observation: another group may need another temperature.
    """
    used = weights > 0
    group = groups[used]
    if len(np.unique(group)) == 1:
        return 1.0 / len(group)
    residuals = residuals_of(logits[used], labels[used])
    return effective_observations(group, residuals, held_out=True) / len(group)


def residuals_of(logits: npt.NDArray[Any], labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return label less probability of each point: `[N]` for log-odds `[N]`, `[N, C]` for C logits each."""
    if logits.ndim == 1:
        of_second = labels[:, 1] if labels.ndim == 2 else labels
        return np.asarray(of_second - scipy.special.expit(logits))
    classes = labels if labels.ndim == 2 else np.eye(logits.shape[1])[labels.astype(np.intp)]
    return np.asarray(classes - scipy.special.softmax(logits, axis=1))


def _grouped(
    groups: npt.ArrayLike, residuals: npt.ArrayLike
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return each observation's group as an index `[N]`, the groups' sizes `[G]`, and residuals `[N, C]`."""
    names = np.asarray(groups)
    values = np.asarray(residuals, np.float64)
    if names.ndim != 1 or not names.size or values.ndim not in {1, 2} or len(values) != len(names):
        raise ValueError(
            "Expected a group for each observation, [N], and residuals [N] or [N, C], but got shapes "
            f"{names.shape} and {values.shape}."
        )
    if not np.isfinite(values).all():
        raise ValueError("A residual is not finite. Pass finite labels and predictions.")
    index: npt.NDArray[Any]
    _, index, sizes = np.unique(names, return_inverse=True, return_counts=True)
    return index.reshape(-1), sizes, values.reshape(len(names), -1)
