"""The exact limit of ATL-DGP as the last layer of a network: it is fitted once, and predicts by its units."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy.linalg import solve_triangular

from gpmodels.heads.base import Latent, Readout, SourceContribution
from gpmodels.heads.linear import LinearHead
from gpmodels.heads.points import PointBatch
from gpmodels.transfer.exact import ExactTransfer, fit_exact
from gpmodels.transfer.features import placed_rows
from gpmodels.transfer.nodes import MixingGrid, fixed_mixing, prior_concentration, prior_nodes
from gpmodels.transfer.rows import DomainRows, FloatArray, TransferRows, class_codes, mean_distance
from gpmodels.transfer.score_scale import compare_with_sources


@keras.saving.register_keras_serializable("gpimaging")
class ATLDGPHead(LinearHead):
    """Classes by a mixture of functions that sources teach and of the target's own.

    The model is `gpmodels.transfer.exact`: after `fit_with_sources` the score of class c at features x is

        s_c(x) = Σ_i Σ_p k_i(x, w_ip) a_ipc,    p(c | x) = softmax(T s)

    with the units w of every domain i, sources and target. The features of a domain are centred, and divided
    by one deviation for all columns, by its own points. A head that is not fitted calls all classes equally
    likely. It keeps no variance: T was fitted to points that were left out, and the latent variance is 0.

    Args:
        domain_rows: Points of each source, then of the target, that it will be fitted on: as many units are
            kept as `gpmodels.transfer.features.placed_rows` says.
        mixing: Share of the source, for one source; None learns the shares.
        noise_variance: σ² of the codes of the classes.
        num_classes: C.
        dtype: `"float32"` or `"float64"`.
        **kwargs: Passed to `keras.layers.Layer`.

    Raises:
        ValueError: There is no source, or a share is given for several.

    Source:
        Kandemir (2015), section 4, in its exact limit (docs/theory.md, Transfer).

    Example:
        >>> head = ATLDGPHead(domain_rows=(20, 6))
        >>> head(tf.zeros([2, 3]))["probability"].numpy().tolist()
        [0.5, 0.5]
    """

    likelihoods = ()

    def __init__(
        self,
        *,
        domain_rows: Sequence[int],
        mixing: float | None = None,
        noise_variance: float = 0.1,
        num_classes: int = 2,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes=num_classes, dtype=dtype, **kwargs)
        if len(domain_rows) < 2 or min(domain_rows) < 1:
            raise ValueError(
                f"domain_rows must hold the points of a source and of the target, but is {list(domain_rows)}."
            )
        if mixing is not None and len(domain_rows) > 2:
            raise ValueError("mixing is the share of one source, but there are several. Leave it out.")
        self.domain_rows = tuple(int(rows) for rows in domain_rows)
        self.mixing, self.noise_variance = mixing, noise_variance
        self._contribution: SourceContribution | None = None

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the units for features `[..., input_shape[-1]]`.

        Gradients move their coefficients alone, where someone trains the head further after the fit.
        """
        num_features = self._num_features(input_shape)
        domains, most = len(self.domain_rows), max(placed_rows(self.domain_rows))
        shapes = {
            "feature_mean": (num_features,),
            "feature_deviation": (),
            "units": (domains, most, num_features),
            "unit_lengthscales": (domains,),
            "coefficients": (domains, most, self.num_classes),
            "temperature": (),
        }
        for name, shape in shapes.items():
            start = "ones" if name in ("feature_deviation", "unit_lengthscales", "temperature") else "zeros"
            is_trained = name == "coefficients"
            weight = self.add_weight(name=name, shape=shape, initializer=start, trainable=is_trained)
            setattr(self, name, weight)
        keras.layers.Layer.build(self, input_shape)

    def fit_with_sources(
        self,
        points: Iterable[PointBatch],
        sources: Sequence[Iterable[PointBatch]],
        *,
        seed: int = 0,
    ) -> None:
        """Fit to points of the target and of each source.

        Args:
            points: The target's training points; points of one group are left out together.
            sources: Points of each source.
            seed: Seed of the units, where they are not all points.

        Raises:
            ValueError: There are not as many sources or points as the head was made for, or no point counts.
        """
        if len(sources) != len(self.domain_rows) - 1:
            raise ValueError(
                f"{self.name} was made for {len(self.domain_rows) - 1} sources, but got {len(sources)}."
            )
        domains = [_joined(batches) for batches in (*sources, points)]
        scaled = [_scaled(domain.features, domain.weights) for domain in domains]
        parts = [
            DomainRows(
                rows.x,
                class_codes(domain.labels.astype(np.intp), self.num_classes),
                domain.weights,
                mean_distance(rows.x),
            )
            for rows, domain in zip(scaled, domains, strict=True)
        ]
        rows = TransferRows(tuple(parts[:-1]), parts[-1])
        concentration = prior_concentration(len(rows.target))
        groups = domains[-1].groups
        options: dict[str, Any] = {"noise": self.noise_variance, "groups": groups, "seed": seed}
        model = fit_exact(rows, self._nodes(rows, concentration), **options)
        alone = fit_exact(rows.without_sources(), prior_nodes(0, concentration), **options)
        self._take(model, scaled[-1])
        densities = [fit.left_out_densities(rows) for fit in (model, alone)]
        comparison = compare_with_sources(
            densities[0],
            densities[1],
            rows.target.weight,
            np.unique(groups, return_inverse=True)[1].reshape(-1),
        )
        self._contribution = SourceContribution(
            tuple(model.mixing[:-1].tolist()),
            tuple(model.mixing_deviation[:-1].tolist()),
            tuple(model.transfer_weights(rows.target.x)[:-1].tolist()),
            comparison.with_sources,
            comparison.without_sources,
            comparison.standard_error,
            comparison.do_harm,
        )

    def _nodes(self, rows: TransferRows, concentration: int) -> MixingGrid:
        if self.mixing is None:
            return prior_nodes(rows.num_sources, concentration)
        return fixed_mixing([self.mixing, 1.0 - self.mixing])

    def _take(self, model: ExactTransfer, scaled: "_Scaled") -> None:
        """Take over the units of a fitted model, T in their coefficients: a = T L⁻ᵀ w."""
        units, coefficients = np.zeros(self.units.shape), np.zeros(self.coefficients.shape)
        weights, start = model.mean_weights(), 0
        for i, features in enumerate(model.features):
            own = weights[start : start + features.size]
            units[i, : features.size] = features.inducing
            solved = solve_triangular(features.root, own, lower=True, trans="T")
            coefficients[i, : features.size] = model.score_scale * solved
            start += features.size
        self.units.assign(units)
        self.coefficients.assign(coefficients)
        self.unit_lengthscales.assign([features.lengthscale for features in model.features])
        self.feature_mean.assign(scaled.mean)
        self.feature_deviation.assign(scaled.deviation)

    def latent(self, features: tf.Tensor) -> Latent:
        """Return the tempered scores of features `[B, D]`, as marginals of variance 0."""
        return self._scores(features, *self._parameters())

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """Return `latent` with the units as constants."""
        constants = [tf.convert_to_tensor(weight.numpy()) for weight in self._parameters()]
        return lambda features: self._scores(features, *constants)

    def source_contribution(self) -> SourceContribution | None:
        """Return what the sources gave; None before the fit, and of a head that was loaded."""
        return self._contribution

    def readout(self) -> Readout | None:
        """Return None: the scores are no affine map of the features."""
        return None

    def _parameters(self) -> tuple[Any, ...]:
        return (
            self.feature_mean,
            self.feature_deviation,
            self.units,
            self.unit_lengthscales,
            self.coefficients,
            self.temperature,
        )

    def _scores(
        self,
        features: tf.Tensor,
        mean: Any,
        deviation: Any,
        units: Any,
        lengthscales: Any,
        coefficients: Any,
        temperature: Any,
    ) -> Latent:
        x = (features - mean) / deviation  # [B, D]
        units = tf.convert_to_tensor(units)
        products = tf.einsum("bd,ipd->ibp", x, units)
        squares = (
            tf.reduce_sum(tf.square(x), axis=-1)[None, :, None]
            + tf.reduce_sum(tf.square(units), axis=-1)[:, None, :]
            - 2.0 * products
        )  # [K + 1, B, P]
        scale = 0.5 / tf.square(tf.convert_to_tensor(lengthscales))
        kernel = tf.exp(-tf.maximum(squares, 0.0) * scale[:, None, None])
        scores = tf.einsum("ibp,ipc->bc", kernel, coefficients) / temperature
        if self.num_classes == 2:
            scores = scores[:, 1:] - scores[:, :1]
        return Latent(scores, tf.zeros_like(scores))


@dataclass(frozen=True)
class _Scaled:
    """Points of a domain, centred, and divided by one deviation for all columns."""

    x: FloatArray
    mean: FloatArray
    deviation: float


def _scaled(features: FloatArray, weight: FloatArray) -> _Scaled:
    mean = np.average(features, axis=0, weights=weight)
    deviation = float(np.sqrt(np.average(np.square(features - mean).mean(axis=1), weights=weight)))
    deviation = deviation if deviation > 0.0 else 1.0
    return _Scaled((features - mean) / deviation, mean, deviation)


def _joined(batches: Iterable[PointBatch]) -> PointBatch:
    """Return the points of positive weight of all batches.

    Raises:
        ValueError: There is none.
    """
    joined = PointBatch._make(np.concatenate(values) for values in zip(*batches, strict=True))
    used: npt.NDArray[np.bool_] = joined.weights > 0.0
    if not used.any():
        raise ValueError("No point of a domain has a positive weight: there is nothing to fit the head on.")
    return PointBatch._make(values[used] for values in joined)
