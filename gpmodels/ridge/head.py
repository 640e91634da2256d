"""The linear head with a penalty on its weights, as strong as held-out groups of training points want it."""

from collections.abc import Iterable

import keras
import numpy as np
import numpy.typing as npt

from gpmodels.heads.cross_folds import cross_folds, strata
from gpmodels.heads.linear import LinearHead
from gpmodels.heads.linear_layer import LinearRows, fit_linear_layer
from gpmodels.heads.points import PointBatch
from gpmodels.likelihoods.gaussian import GaussianLikelihood
from gpmodels.likelihoods.names import MULTILABEL, VOTES
from gpmodels.units.numerics import precision

MAX_POINTS = 20_000
"""Points that the head is fitted on: a share of each batch, so that they are of all groups."""

LOG_ABSENT = np.log(1e-6)
"""Bias of a class without points."""


@keras.saving.register_keras_serializable("gpimaging")
class RidgeLinearHead(LinearHead):
    """Logistic regression with the penalty ‖W‖²/(2C) on the weights of standardised features.

    `fit_to` fits it on the features of a network that is trained already, as the layer that the mean of a
    Gaussian process takes, see `gpmodels.heads.linear_layer`: C is the most probable one given points whose
    group was left out, and so is the factor that all logits are multiplied by at the end. The scaling of the
    features is folded into kernel and bias.

    A network that was trained from scratch on these points has seen the labels of all groups, those left out
    too: its features separate them better than those of new groups, and C is chosen too large. The choice is
    clean on features of a network that has not seen the labels, as of a frozen one.

    With `likelihood="gaussian"` it is ridge regression of real targets, whose noise variance is the mean
    square of what layers that did not see a point's group miss of it.

    Args:
        num_classes: C; 2 takes one logit, more take one for each class; real targets ignore it.
        likelihood: None for classes, `"gaussian"` for real targets, `"multilabel"` for several yes/no labels,
            `"votes"` for shares of classes.
        dtype: `"float32"` or `"float64"`.
        **kwargs: Passed to `keras.layers.Layer`.

    Raises:
        ValueError: There are fewer than two classes.

    Source:
        Hastie, Tibshirani and Friedman (2009), The elements of statistical learning, sections 4.4.4 and 7.10.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.standard_normal((60, 2))
        >>> head = RidgeLinearHead()
        >>> head.build((None, 2))
        >>> head.fit_to([PointBatch(x, (x[:, 0] > 0.0).astype(int), np.ones(60), np.arange(60) % 6)])
        >>> bool(head.kernel[0] > 10.0 * abs(head.kernel[1]))
        True
    """

    likelihoods = ("gaussian", MULTILABEL, VOTES)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features `[..., input_shape[-1]]`."""
        self.cost = self.add_weight(name="cost", shape=(), initializer="zeros", trainable=False)
        super().build(input_shape)

    def fit_to(self, points: Iterable[PointBatch], *, seed: int = 0) -> None:
        """Fit kernel and bias on at most `MAX_POINTS` of the points; arguments as `Head.fit_to`.

        Raises:
            ValueError: The points are all of one class, or none has a positive weight.
        """
        sample = _sampled(points, np.random.default_rng(seed))
        features, labels, weights, groups = sample
        mean, deviation = features.mean(axis=0), features.std(axis=0)
        tiny = 1e-10 * np.abs(mean)  # what rounding leaves of a constant feature
        deviation = np.where(deviation > tiny, deviation, 1.0)
        scaled = (features - mean) / deviation
        if self.is_classifier and not self.label_shape and len(np.unique(labels)) < 2:
            raise ValueError(f"The training points are all of class {labels[0]:g}; two classes are needed.")
        number = np.unique(groups, return_inverse=True)[1].reshape(-1)
        rng = np.random.default_rng(seed)
        fold = cross_folds(scaled, strata(labels), number, rng, is_class=self.is_classifier)
        kind = "softmax" if self.likelihood is None else "gaussian"
        if self.label_shape:
            kind = "votes" if self.has_votes else "multilabel"
        layer = fit_linear_layer(
            LinearRows(scaled, labels, weights), fold, kind, self.num_classes, groups=number
        )
        layer = layer.for_latents(self.num_classes) if self.has_votes else layer
        kernel = layer.kernel / deviation[:, None]
        bias = layer.bias - mean @ kernel
        if self.is_classifier and self.num_classes > 2 and not self.label_shape:
            bias[np.setdiff1d(np.arange(self.num_classes), labels)] = LOG_ABSENT
        self.kernel.assign(kernel.reshape(self.kernel.shape))
        self.bias.assign(bias.reshape(self.bias.shape))
        self.cost.assign(1.0 / layer.penalty)
        if isinstance(self.likelihood, GaussianLikelihood):
            missed = np.average(np.square(labels - layer.logits[:, 0]), weights=weights)
            self.likelihood.noise_variance.assign([max(missed, 2.0 * precision(self.variable_dtype).jitter)])


def _sampled(points: Iterable[PointBatch], rng: np.random.Generator) -> PointBatch:
    """Return at most `MAX_POINTS` points of positive weight, drawn evenly over the pass.

    Whenever there are twice as many, a random half is kept, and of later batches the same share.
    """
    share, kept, count = 1.0, [], 0
    for batch in points:
        chosen = np.flatnonzero((batch.weights > 0.0) & (rng.random(len(batch.labels)) < share))
        kept.append(_rows(batch, chosen))
        count += len(chosen)
        if count > 2 * MAX_POINTS:
            kept, share = [_part(_joined(kept), 0.5, rng)], share / 2.0
            count = len(kept[0].labels)
    if not count:
        raise ValueError("No training point has a positive weight: there is nothing to fit the head on.")
    joined = _joined(kept)
    return _part(joined, min(1.0, MAX_POINTS / max(len(joined.labels), 1)), rng)


def _joined(batches: list[PointBatch]) -> PointBatch:
    """Return the points of all batches as one."""
    return PointBatch._make(np.concatenate(values) for values in zip(*batches, strict=True))


def _part(points: PointBatch, share: float, rng: np.random.Generator) -> PointBatch:
    """Return a random share of the points, in their order."""
    if share >= 1.0:
        return points
    chosen = np.sort(rng.permutation(len(points.labels))[: int(share * len(points.labels))])
    return _rows(points, chosen)


def _rows(points: PointBatch, chosen: npt.NDArray[np.intp]) -> PointBatch:
    """Return some of the points."""
    return PointBatch._make(values[chosen] for values in points)
