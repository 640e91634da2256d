"""The temperature of a classifier's probabilities, fitted to rows that its posterior has not seen.

On a few hundred rows a variational posterior is often unsure of what the rows have settled: the classes are
right, and their probabilities too even. A temperature T mends that, p_c ∝ p_c^(1/T), and needs probabilities
of rows held out. A fit for each fold would multiply the time. So inducing inputs and hyper-parameters stay,
and only the posterior is solved anew without each fold in turn, which takes some natural-gradient steps.

Held-out rows have had their part in the hyper-parameters, so that what is found is a little too certain of
them; few rows tell little besides. Therefore log T has the prior N(0, 0.25²), and is where it and the rows
together are most probable. The many hyper-parameters of experts make far too certain: with experts T is 1.

Source: temperature scaling is by C. Guo, G. Pleiss, Y. Sun, K. Weinberger, On calibration of modern neural
networks, ICML 2017, section 4.2; a posterior without some of its sites is the cavity of expectation
propagation, used for cross-validation by A. Vehtari et al., Bayesian leave-one-out cross-validation
approximations for Gaussian latent variable models, JMLR 17, 2016, section 3, here with the sites solved anew.
"""

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.optimize
import scipy.special
import tensorflow as tf

from gpmodels.estimators.fitting.engine import LOG_PROBABILITY, Engine, FloatArray
from gpmodels.estimators.fitting.full_batch import refit_posterior
from gpmodels.estimators.fitting.mini_batch import CHUNK
from gpmodels.heads.gp import Points

FOLDS = 5
PRIOR_DEVIATION = 0.25
"""Standard deviation of log T under its prior, chosen on splits that no benchmark judges by."""

LOG_RANGE = 3.0
"""log T is sought within ± this."""


def check_temperature(setting: Any) -> None:
    """Refuse what is no setting of the temperature.

    Raises:
        ValueError: It is neither `"auto"` nor a positive number.
    """
    is_number = isinstance(setting, Real) and not isinstance(setting, bool)
    if setting == "auto" if isinstance(setting, str) else is_number and 0.0 < setting < math.inf:
        return
    raise ValueError(f'temperature must be "auto" or a positive number, but is {setting!r}.')


def held_out_temperature(
    engine: Engine, points: Points, groups: npt.NDArray[np.intp] | None, *, seed: int
) -> float:
    """Return T by posteriors that have not seen the rows they predict; 1 with experts or without sites.

    Args:
        engine: Its head is fitted to the points; it is left as it is.
        points: All training points.
        groups: Group of each row, `[N]`: whole groups are held out. None holds out rows.
        seed: Seed of the folds.
    """
    if engine.head.best_posterior_by != "sites" or engine.head.num_experts:
        return 1.0
    weight = points.weight.numpy()
    with engine.unchanged():
        sites = engine.matching_sites(points)

        def leave_out(held_out: npt.NDArray[np.bool_]) -> None:
            kept = tf.constant(np.where(held_out, 0.0, weight), points.weight.dtype)
            refit_posterior(engine, points._replace(weight=kept), sites)

        label = points.y.numpy().astype(np.intp)
        logits, variance = (
            None if part is None else part.numpy() for part in (points.logits, points.logit_variance)
        )
        x = points.x.numpy()
        return temperature_by_folds(
            *(engine, x, label, weight, groups, leave_out), seed=seed, logits=logits, logit_variance=variance
        )


def temperature_by_folds(
    engine: Engine,
    x: FloatArray,
    label: npt.NDArray[np.intp],
    weight: FloatArray,
    groups: npt.NDArray[np.intp] | None,
    leave_out: Callable[[npt.NDArray[np.bool_]], None],
    *,
    seed: int,
    logits: FloatArray | None = None,
    logit_variance: FloatArray | None = None,
) -> float:
    """Return T by posteriors that have not seen the rows they predict.

    Args:
        engine: Its head is fitted; afterwards it has the posterior of the last fold.
        x: Standardised rows, `[N, D]`.
        label: Class of each row, `[N]`.
        weight: How often each row counts, `[N]`.
        groups: Group of each row, `[N]`: whole groups are held out. None holds out rows.
        leave_out: Solves the posterior without some rows, which are true in its argument, `[N]`.
        seed: Seed of the folds.
        logits: What linear layers that have not seen each row say of it, `[N, P]`; None takes the head's own.
        logit_variance: Of these logits, `[N, P]`; None where they are certain.
    """
    fold = folds(label, groups, np.random.default_rng(seed))
    log_probability = np.zeros([len(label), engine.head.num_classes])
    for number in range(FOLDS):
        held_out = fold == number
        if not weight[held_out].any() or not weight[~held_out].any():
            continue
        leave_out(held_out)
        beside = (None if part is None else part[held_out] for part in (logits, logit_variance))
        log_probability[held_out] = class_log_probabilities(engine, x[held_out], *beside)
    return best_temperature(log_probability, label, weight)


def folds(
    label: npt.NDArray[np.intp], groups: npt.NDArray[np.intp] | None, rng: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Return the fold of each row, from 0: every class spread over all, or whole groups.

    Args:
        label: Class of each row, `[N]`.
        groups: Group of each row, `[N]`, or None.
        rng: Draws the folds.

    Example:
        >>> np.bincount(folds(np.zeros(10, int), None, np.random.default_rng(0))).tolist()
        [2, 2, 2, 2, 2]
    """
    if groups is not None and len(np.unique(groups)) > 1:
        number_of_group = rng.permutation(int(groups.max()) + 1) % FOLDS
        return number_of_group[groups]
    order = rng.permutation(len(label))
    order = order[np.argsort(label[order], kind="stable")]
    fold = np.empty(len(label), np.intp)
    fold[order] = np.arange(len(label)) % FOLDS
    return fold


def best_temperature(log_probability: FloatArray, label: npt.NDArray[np.intp], weight: FloatArray) -> float:
    """Return the T of largest posterior density given held-out probabilities.

    Args:
        log_probability: log p_c of each row, `[N, C]`; rows of weight 0 are not looked at.
        label: Class of each row, `[N]`.
        weight: How often each row counts, `[N]`.

    Example:
        >>> best_temperature(np.log(np.full([10, 2], 0.5)), np.zeros(10, int), np.ones(10))
        1.0
    """
    used = weight > 0
    logits, rows, counts = log_probability[used], np.flatnonzero(used), weight[used]
    own = label[rows]

    def cost(log_temperature: float) -> float:
        logs = tempered_log_probabilities(logits, math.exp(log_temperature))[np.arange(len(own)), own]
        return float(-counts @ logs + 0.5 * (log_temperature / PRIOR_DEVIATION) ** 2)

    found = scipy.optimize.minimize_scalar(cost, bounds=(-LOG_RANGE, LOG_RANGE), method="bounded")
    return math.exp(float(found.x)) if found.fun < cost(0.0) else 1.0


def tempered_log_probabilities(log_probability: FloatArray, temperature: float) -> FloatArray:
    """Return log p_c of `p_c^(1/T)`, normalised, `[N, C]`.

    Example:
        >>> tempered_log_probabilities(np.log([[0.9, 0.1]]), 2.0).round(4).tolist()
        [[-0.2877, -1.3863]]
    """
    return scipy.special.log_softmax(log_probability / temperature, axis=1)


def class_log_probabilities(
    engine: Engine,
    x: FloatArray,
    logits: FloatArray | None = None,
    logit_variance: FloatArray | None = None,
) -> FloatArray:
    """Return log p_c at standardised rows `[n, D]`, some at a time.

    Args:
        engine: Its head predicts.
        x: The rows.
        logits: Of the linear mean at them, `[n, P]`; None takes the head's own.
        logit_variance: Of these logits, `[n, P]`; None where they are certain.
    """
    rows = max(CHUNK // engine.head.num_classes, 64)
    parts = []
    for start in range(0, len(x), rows):
        part = tf.constant(x[start : start + rows], engine.dtype)
        if logits is not None:
            beside = (
                None if values is None else tf.constant(values[start : start + rows], engine.dtype)
                for values in (logits, logit_variance)
            )
            parts.append(engine.log_probabilities_beside(part, *beside).numpy())
            continue
        outputs, _ = engine.predict(part)
        parts.append(outputs[LOG_PROBABILITY].numpy())
    return np.concatenate(parts)
