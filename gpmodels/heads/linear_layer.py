"""The linear layer that a Gaussian process corrects, and what layers that did not see a row say of it.

The layer is ridge regression for targets and logistic regression for classes. Its penalty is chosen by rows
held out, or whole groups: the layers that judge a penalty are those that have not seen the rows they judge,
so that what they say of these rows, the cross-fitted logits, costs nothing more. A Gaussian process that is
fitted beside the layer's own logits would take them for better than they are, since the layer knows the rows
that it was fitted to; beside cross-fitted logits it learns what the layer misses on new rows.

Few rows that a logistic regression tells apart ask for hardly any penalty, and then one new row on the wrong
side costs more than all others gain. So log10 λ has the prior N(0, 0.5²), about weights of standardised
columns that are N(0, 1), and is where this prior and the held-out rows together are most probable. Rows of
one group repeat each other: where the penalty is chosen they count as the N_eff observations that they are
worth. The layers of runs themselves are fitted with all rows: see `benchmarks.layer_penalty`.

A penalty of squares does not change when the inputs are rotated. A table of more columns than rows is rotated
to as many columns as rows first, which loses nothing and makes 5000 columns as cheap as the rows are.

The layer's logits are finally multiplied by the factor that the held-out rows ask for, whose logarithm has
the prior N(0, 0.25²): few rows that a layer happens to tell apart say little of how sure it may be.

Source: Chernozhukov et al., Double/debiased machine learning, The Econometrics Journal 21, 2018, definition
3.1, for cross-fitting; Hoerl and Kennard, Technometrics 12, 1970, for ridge regression.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.optimize
import scipy.special
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from gpmodels.heads.cross_folds import cross_folds, strata
from gpmodels.heads.gp import GPHead
from gpmodels.heads.layer_posterior import layer_covariance, left_out_variance
from gpmodels.likelihoods.counts import CountLikelihood
from gpmodels.likelihoods.names import TARGET_LIKELIHOODS
from gpmodels.statistics.effective_sample import effective_fraction
from gpmodels.units.linear_mean import as_latents
from gpmodels.units.weight_posterior import WeightCovariance

FloatArray = npt.NDArray[np.floating[Any]]

RIDGE_PENALTIES = np.logspace(-3.0, 5.0, 17)
"""λ of |y - Xw|² + λ|w|², of standardised columns and targets."""

LOGISTIC_PENALTIES = np.logspace(3.0, -2.0, 11)
"""λ of -log p(y | X w) + ½ λ|w|², the largest first: each fit starts from the one before."""

PENALTY_DEVIATION = 0.5
"""Standard deviation of log10 λ of a logistic regression under its prior, chosen on splits that no benchmark
judges by."""

MOST_ITERATIONS = 100
"""Iterations of each logistic regression, which starts from the one before."""

MOST_VALUES = 5_000_000
"""Values of rows times logits that the layers are fitted to: a random part of more rows."""

SCALE_DEVIATION = 0.25
"""Standard deviation of the logarithm of the factor of the logits under its prior."""

VARIANCE_SHARES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""κ: what the variance of the layer's weights may count for."""

PROBIT_SCALE = 0.6
"""What a logit is times for a probit, whose argument has unit noise where that of a logistic has 1.7."""

Index = npt.NDArray[np.intp]


class LinearLayer(NamedTuple):
    """A linear layer and its cross-fitted logits.

    Attributes:
        kernel: W of standardised inputs, `[D, P]`.
        bias: b, `[P]`.
        logits: What layers that did not see a row, or its group, say of it, `[N, P]`.
        penalty: λ, which the held-out rows chose.
        covariance: q(w) of a classifier's layer; None where it was not asked for.
        logit_variance: v of the cross-fitted logits, each without its own row, `[N, P]`; None likewise.
    """

    kernel: FloatArray
    bias: FloatArray
    logits: FloatArray
    penalty: float
    covariance: WeightCovariance | None = None
    logit_variance: FloatArray | None = None

    def times(self, factor: float) -> "LinearLayer":
        """Return the layer with all its logits multiplied."""
        return LinearLayer(
            factor * self.kernel,
            factor * self.bias,
            factor * self.logits,
            self.penalty,
            None if self.covariance is None else self.covariance.times(factor),
            None if self.logit_variance is None else factor**2 * self.logit_variance,
        )

    def for_latents(self, num_latents: int) -> "LinearLayer":
        """Return the layer of P latent functions; of two classes under a softmax, from the one logit."""
        return self._replace(
            kernel=as_latents(self.kernel, num_latents),
            bias=as_latents(self.bias[None], num_latents)[0],
            logits=as_latents(self.logits, num_latents),
            covariance=None if self.covariance is None else self.covariance.for_latents(num_latents),
            logit_variance=(
                self.logit_variance
                if self.logit_variance is None or self.logit_variance.shape[1] == num_latents
                else np.repeat(0.5 * self.logit_variance, num_latents, axis=1)
            ),
        )


class LinearRows(NamedTuple):
    """Rows as a layer is fitted to them: standardised inputs `[N, D]`, targets `[N]` and weights `[N]`.

    Several yes/no labels are targets `[N, L]`, NaN where unknown, and shares of votes `[N, C]`.
    """

    x: FloatArray
    y: FloatArray
    weight: FloatArray

    def at(self, index: Index | npt.NDArray[np.bool_]) -> "LinearRows":
        """Return some of the rows."""
        return LinearRows(*(part[index] for part in self))


Path = Callable[[LinearRows], Sequence[tuple[FloatArray, FloatArray]]]
"""Returns W `[D, P]` and b `[P]` of each penalty."""


def fit_linear_layer(
    rows: LinearRows,
    fold: Index,
    likelihood: str,
    num_classes: int = 2,
    *,
    share: float | None = None,
    groups: Index | None = None,
    uncertain: bool = False,
) -> LinearLayer:
    """Fit the layer of a likelihood, its penalty chosen by the folds.

    Args:
        rows: All rows.
        fold: Fold of each row, from 0, `[N]`; see `cross_folds`.
        likelihood: Name of the head's likelihood; of counts the targets are those of f.
        num_classes: C of a classifier.
        share: N_eff / N, what rows are worth where the penalty is chosen; None finds it by groups.
        groups: Group of each row, `[N]`; None where each is its own.
        uncertain: Whether q(w) is asked for, of a classifier with one layer for all classes.
    """
    if likelihood in TARGET_LIKELIHOODS:
        return _fitted(rows, fold, _ridge_path, _squared_errors)
    if num_classes > 2 and likelihood == "noisy_probit":  # one class against the rest, each with its layer
        against = [rows._replace(y=(rows.y == number).astype(np.float64)) for number in range(num_classes)]
        return _side_by_side(
            [fit_linear_layer(one, fold, likelihood, share=share, groups=groups) for one in against]
        )
    if likelihood == "votes":
        return _layer_of_votes(rows, fold, share, groups, num_classes)
    if likelihood == "multilabel":
        return _side_by_side([_layer_of_label(rows, fold, share, groups, i) for i in range(num_classes)])
    layer = _fitted(rows, fold, _logistic_path(num_classes), partial(_logistic_costs, share, groups))
    layer = _with_posterior(rows, layer) if uncertain else layer
    layer = layer.times(best_factor(layer.logits, rows.y, rows.weight))
    return layer.times(PROBIT_SCALE if likelihood in ("bernoulli", "noisy_probit") else 1.0)


def _side_by_side(layers: Sequence[LinearLayer]) -> LinearLayer:
    """Return layers of one latent function each as one, with the median of their penalties."""
    parts = ([getattr(layer, name) for layer in layers] for name in ("kernel", "bias", "logits"))
    kernel, bias, logits = (np.concatenate(part, axis=-1) for part in parts)
    return LinearLayer(kernel, bias, logits, float(np.median([layer.penalty for layer in layers])))


def _layer_of_label(
    rows: LinearRows, fold: Index, share: float | None, groups: Index | None, number: int
) -> LinearLayer:
    """Return the layer of one of several labels, fitted to the rows where it is known; all get logits."""
    known = np.isfinite(rows.y[:, number])
    if not known.any():  # of a label that no row knows nothing is learned
        zeros = np.zeros([rows.x.shape[1], 1])
        return LinearLayer(zeros, np.zeros(1), np.zeros([len(rows.x), 1]), 1.0)
    own = rows._replace(y=rows.y[:, number]).at(known)
    of_known = None if groups is None else np.unique(groups[known], return_inverse=True)[1].reshape(-1)
    layer = fit_linear_layer(own, fold[known], "logistic", share=share, groups=of_known)
    logits = rows.x @ layer.kernel + layer.bias  # of rows whose label the layer has not seen
    logits[known] = layer.logits
    return layer._replace(logits=logits)


def _layer_of_votes(
    rows: LinearRows, fold: Index, share: float | None, groups: Index | None, num_classes: int
) -> LinearLayer:
    """Return the layer of votes: every row counts once for each class that has votes, by their share."""
    row, voted = np.nonzero(rows.y)
    repeated = LinearRows(rows.x[row], voted.astype(np.float64), rows.weight[row] * rows.y[row, voted])
    first = np.unique(row, return_index=True)[1]

    def costs(logits: FloatArray, _: LinearRows) -> tuple[FloatArray, FloatArray]:
        worth = 1.0 if share is None and groups is None else share
        if worth is None and groups is not None:  # by what each row, and not each vote, is predicted wrongly
            losses = [log_loss(part, repeated.y, repeated.weight) for part in logits]
            worth = effective_share(logits[np.argmin(losses)][first], rows, groups)
        return _logistic_costs(worth, None, logits, repeated)

    layer = _fitted(repeated, fold[row], _logistic_path(num_classes), costs)
    layer = layer.times(best_factor(layer.logits, repeated.y, repeated.weight))
    return layer._replace(logits=layer.logits[first])


def _with_posterior(rows: LinearRows, layer: LinearLayer) -> LinearLayer:
    """Return the layer with q(w), its variances times the share κ that predicts held-out rows best."""
    logits = rows.x @ layer.kernel + layer.bias
    covariance = layer_covariance(rows.x, rows.weight, logits, layer.penalty)
    variance = left_out_variance(covariance, rows.x, rows.weight, logits)
    losses = [
        log_loss(layer.logits / np.sqrt(1.0 + np.pi / 8.0 * share * variance), rows.y, rows.weight)
        for share in VARIANCE_SHARES
    ]
    share = VARIANCE_SHARES[int(np.argmin(losses))]
    return layer._replace(covariance=covariance.times(share**0.5), logit_variance=share * variance)


def linear_layer_of(
    head: GPHead,
    x: FloatArray,
    targets: FloatArray,
    weight: FloatArray,
    groups: Index | None,
    *,
    share: float = 1.0,
) -> LinearLayer | None:
    """Return the layer that a head's linear mean takes, None without one; equal rows get equal folds.

    Args:
        head: Of a classifier or of real targets.
        x: Standardised inputs, `[N, D]`.
        targets: Class indices or targets in the head's units, `[N]`, or labels `[N, L]`.
        weight: How often each row counts, `[N]`.
        groups: Group of each row, `[N]`, or None.
        share: What rows of these weights are worth where the penalty is chosen: N_eff / N, or 1 where the
            weights sum to N_eff already.
    """
    if head.linear_mean is None:
        return None
    with threadpool_limits(1):  # threads that wait for each other cost more than these small systems
        layer = _layer_of(head, LinearRows(x, targets, weight), groups, share)
    return layer.for_latents(head.likelihood.num_latents)


def _layer_of(head: GPHead, rows: LinearRows, groups: Index | None, share: float) -> LinearLayer:
    if isinstance(head.likelihood, CountLikelihood):
        head.likelihood.start_from(rows.y)
        rows = rows._replace(y=head.likelihood.latent_targets(rows.y))
    x, targets, _ = rows
    rng = np.random.default_rng(0)
    uncertain = head.linear_mean is not None and head.linear_mean.posterior is not None
    most = max(MOST_VALUES // (x.shape[1] * head.likelihood.num_latents), 1000)
    if len(x) <= most:
        fold = cross_folds(x, strata(targets), groups, rng, is_class=head.is_classifier)
        return fit_linear_layer(
            rows, fold, head.likelihood_name, head.num_classes, share=share, uncertain=uncertain
        )
    chosen = np.sort(rng.permutation(len(x))[:most])
    of_chosen = None if groups is None else groups[chosen]
    fold = cross_folds(x[chosen], strata(targets[chosen]), of_chosen, rng, is_class=head.is_classifier)
    layer = fit_linear_layer(
        rows.at(chosen), fold, head.likelihood_name, head.num_classes, share=share, uncertain=uncertain
    )
    logits = x @ layer.kernel + layer.bias  # of rows that the layer has not seen
    logits[chosen] = layer.logits
    variance = None
    if layer.covariance is not None and layer.logit_variance is not None:
        variance = layer.covariance.of(x)
        variance[chosen] = layer.logit_variance
    return layer._replace(logits=logits, logit_variance=variance)


def log_loss(logits: FloatArray, y: FloatArray, weight: FloatArray) -> float:
    """Return the weighted mean of -log p(y), nats, of one logit for two classes or one for each of more.

    Example:
        >>> round(log_loss(np.zeros([2, 1]), np.array([0.0, 1.0]), np.ones(2)), 3)
        0.693
    """
    own = scipy.special.log_softmax(_of_each_class(logits), axis=1)[np.arange(len(y)), y.astype(np.intp)]
    return float(-np.average(own, weights=weight))


def _of_each_class(logits: FloatArray) -> FloatArray:
    """Return a logit for each class, `[N, C]`, of two classes from the one `[N, 1]`."""
    return np.concatenate([np.zeros_like(logits), logits], axis=1) if logits.shape[1] == 1 else logits


def best_factor(logits: FloatArray, y: FloatArray, weight: FloatArray) -> float:
    """Return the factor of held-out logits that is most probable given their labels.

    Args:
        logits: `[N, P]`.
        y: Class indices, `[N]`.
        weight: How often each row counts, `[N]`.

    Example:
        >>> best_factor(np.zeros([4, 1]), np.array([0.0, 0.0, 1.0, 1.0]), np.ones(4))
        1.0
    """

    def cost(logarithm: float) -> float:
        own = weight.sum() * log_loss(np.exp(logarithm) * logits, y, weight)
        return float(own + 0.5 * (logarithm / SCALE_DEVIATION) ** 2)

    found = scipy.optimize.minimize_scalar(cost, bounds=(-3.0, 3.0), method="bounded")
    return float(np.exp(found.x)) if found.fun < cost(0.0) - 1e-9 else 1.0


def penalty_costs(penalties: npt.ArrayLike) -> FloatArray:
    """Return what the prior of log10 λ takes from the log-likelihood of held-out rows, nats.

    Args:
        penalties: λ, of any shape.

    Example:
        >>> penalty_costs([0.1, 1.0, 10.0]).tolist()
        [2.0, 0.0, 2.0]
    """
    return 0.5 * np.square(np.log10(penalties) / PENALTY_DEVIATION)


Costs = Callable[[FloatArray, LinearRows], tuple[FloatArray, FloatArray]]
"""Returns the penalties, and what the cross-fitted logits of each, `[penalties, N, P]`, cost."""


def _squared_errors(logits: FloatArray, rows: LinearRows) -> tuple[FloatArray, FloatArray]:
    return RIDGE_PENALTIES, np.square(rows.y - logits[..., 0]) @ rows.weight


def _logistic_costs(
    share: float | None, groups: Index | None, logits: FloatArray, rows: LinearRows
) -> tuple[FloatArray, FloatArray]:
    """Return -(N_eff / N) log p(y) of all rows and what the prior adds, of each penalty."""
    losses = np.array([log_loss(part, rows.y, rows.weight) for part in logits])
    if share is None:
        share = 1.0 if groups is None else effective_share(logits[np.argmin(losses)], rows, groups)
    count = share * rows.weight.sum()
    return LOGISTIC_PENALTIES, count * losses + penalty_costs(LOGISTIC_PENALTIES)


def effective_share(logits: FloatArray, rows: LinearRows, groups: Index) -> float:
    """Return N_eff / N of rows by their cross-fitted logits `[N, P]`; a single group is one observation."""
    one_for_two_classes = logits[:, 0] if logits.shape[1] == 1 else logits
    return effective_fraction(one_for_two_classes, rows.y, rows.weight, groups)


def _fitted(rows: LinearRows, fold: Index, path: Path, costs: Costs) -> LinearLayer:
    """Return the layer of the penalty whose cross-fitted logits cost least."""
    turned, axes = _rotated(rows.x)
    rows = rows._replace(x=turned)
    logits: FloatArray | None = None
    for number in np.unique(fold):
        held_out = fold == number
        seen = rows.at(~held_out) if not held_out.all() else rows  # a single group has nothing to hold out
        layers = path(seen)
        if logits is None:
            logits = np.zeros([len(layers), len(fold), layers[0][1].shape[0]])
        for i, (kernel, _) in enumerate(layers):
            logits[i, held_out] = turned[held_out] @ kernel
    if logits is None:
        raise ValueError("There are no rows to fit a linear layer to.")
    whole = path(rows)
    # One intercept for all: without a group of one class the others' intercept leans to the other class, and
    # logits that lean against each row's own label say the opposite of what the layer knows.
    logits += np.stack([bias for _, bias in whole])[:, None]
    penalties, of_penalties = costs(logits, rows)
    best = int(np.argmin(of_penalties))
    kernel, bias = whole[best]
    return LinearLayer(kernel if axes is None else axes @ kernel, bias, logits[best], float(penalties[best]))


def _rotated(x: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Return rows `[N, N]` in the space that they span and its axes `[D, N]`; as they are where D <= N."""
    if x.shape[1] <= x.shape[0]:
        return x, None
    left, singular, right = np.linalg.svd(x, full_matrices=False)
    return left * singular, right.T


def _ridge_path(rows: LinearRows) -> list[tuple[FloatArray, FloatArray]]:
    """Return ridge regressions of all penalties by one decomposition."""
    mean, centre = np.average(rows.x, axis=0, weights=rows.weight), np.average(rows.y, weights=rows.weight)
    root = np.sqrt(rows.weight)
    left, singular, right = np.linalg.svd((rows.x - mean) * root[:, None], full_matrices=False)
    side = left.T @ ((rows.y - centre) * root)
    layers = []
    for penalty in RIDGE_PENALTIES:
        kernel = right.T @ (singular / (singular**2 + penalty) * side)
        layers.append((kernel[:, None], np.array([centre - mean @ kernel])))
    return layers


def _logistic_path(num_classes: int) -> Path:
    """Return a function of rows to the logistic regressions of all penalties."""
    num_logits = 1 if num_classes == 2 else num_classes

    def path(rows: LinearRows) -> list[tuple[FloatArray, FloatArray]]:
        seen = np.unique(rows.y).astype(np.intp)
        if len(seen) < 2:
            return [_constant(rows, num_logits, seen)] * len(LOGISTIC_PENALTIES)
        layers = []
        model = LogisticRegression(warm_start=True, max_iter=MOST_ITERATIONS)
        for penalty in LOGISTIC_PENALTIES:
            model.set_params(C=1.0 / penalty)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # a penalty of nothing, of separable rows
                model.fit(rows.x, rows.y, rows.weight)
            layers.append(_of_all_classes(model, num_logits, seen))
        return layers

    return path


def _constant(rows: LinearRows, num_logits: int, seen: Index) -> tuple[FloatArray, FloatArray]:
    """Return the layer of rows of one class: it is as sure as their number allows."""
    sure = float(np.log(len(rows.y) + 1.0))
    bias = np.full(num_logits, sure if num_logits == 1 and seen[0] == 1 else -sure)
    if num_logits > 1:
        bias[seen] = 0.0
    return np.zeros([rows.x.shape[1], num_logits]), bias


def _of_all_classes(model: LogisticRegression, num_logits: int, seen: Index) -> tuple[FloatArray, FloatArray]:
    """Return a model's weights with a logit for each class; one without rows gets less than any bias."""
    kernel: Any = model.coef_.T
    bias: Any = model.intercept_
    if num_logits == 1:
        return kernel, bias
    if len(seen) == 2:  # of two classes among more
        kernel, bias = np.concatenate([-0.5 * kernel, 0.5 * kernel], 1), np.array([-0.5, 0.5]) * bias
    full = np.zeros([kernel.shape[0], num_logits])
    full[:, seen] = kernel
    biases = np.full(num_logits, bias.min() - np.log(len(seen)))
    biases[seen] = bias
    return full, biases
