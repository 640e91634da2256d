"""One training step of a network and a head: a batch's estimate of the bound, and what is logged of it."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from gpmodels.heads.base import Head, Latent, flatten_points
from gpmodels.hybrid import replicas
from gpmodels.hybrid.batches import is_arrays, shapes_of
from gpmodels.hybrid.checks import (
    all_finite,
    assert_inputs_finite,
    assert_judged_inputs_finite,
    check_inputs,
    check_points,
    check_sizes,
    image_level,
    warn_of_levels,
)
from gpmodels.hybrid.sampling import samples
from gpmodels.hybrid.targets import in_unit_of_targets
from gpmodels.hybrid.watch import Watch
from gpmodels.likelihoods.gaussian import GaussianLikelihood
from gpmodels.units.gradients import apply_gradients


class _Points(NamedTuple):
    """A batch's share of the objective: features `[B, D]`, marginals, labels `[B]` or `[B, L]`, weights."""

    features: tf.Tensor
    latent: Latent
    labels: tf.Tensor
    weights: tf.Tensor


class BoundModel(keras.Model):
    """A network and a head that are trained on the variational bound; `HybridModel` is what people use.

    Attributes:
        compares_num_data: Whether the points that `fit` sees are compared with N; set it to False where an
            epoch repeats examples or takes a part of them.
        target_mean: Mean of real targets, a weight that is not trained; None of a classifier.
        target_scale: Their standard deviation, likewise.

    Args:
        network: Maps inputs to features.
        head: Maps features to predictions.
        num_data: N.
        num_effective: N_eff, or None for N.
        points_per_example: Points of each example that a step takes, or None for all.
        seed: Seed of that choice.
        **kwargs: Passed to `keras.Model`.

    Raises:
        TypeError: The head is none.
        ValueError: See `HybridModel`.
    """

    def __init__(
        self,
        network: keras.Model | keras.layers.Layer,
        head: Head,
        *,
        num_data: int,
        num_effective: float | None = None,
        points_per_example: int | None = None,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(head, Head):
            raise TypeError(f"head must be a head of gpmodels, such as SVGPHead(), but is {head!r}.")
        check_sizes(num_data, num_effective, points_per_example)
        if samples(network) and (head.label_shape or not head.is_classifier):
            raise ValueError("Predictions average over a network's samples for classes alone, not targets.")
        self.network = network
        self.head = head
        self.num_data = num_data
        self.compares_num_data = True
        self.num_effective = num_effective
        self.points_per_example = points_per_example
        self.seed = seed
        self.target_mean: keras.Variable | None = None
        self.target_scale: keras.Variable | None = None
        self._measured: keras.Variable | None = None  # a weight, so that it goes where the other two go
        if not head.is_classifier:
            settings = {"shape": (), "trainable": False, "dtype": head.variable_dtype}
            self.target_mean = self.add_weight(name="target_mean", initializer="zeros", **settings)
            self.target_scale = self.add_weight(name="target_scale", initializer="ones", **settings)
            self._measured = self.add_weight(name="targets_are_measured", initializer="zeros", **settings)
        self._expected_log_likelihood = keras.metrics.Mean("expected_log_likelihood")
        self._nll = keras.metrics.Mean("nll")
        self._error = (
            keras.metrics.Mean("accuracy")
            if head.is_classifier
            else keras.metrics.RootMeanSquaredError("rmse")
        )
        self._watch = Watch(head)
        self._image_level: float | None = None

    def _standardised(self, labels: tf.Tensor) -> tf.Tensor:
        """Return what the head learns from labels: class numbers as they are, targets standardised."""
        if self.target_mean is None or self.target_scale is None:
            return labels
        return (labels - tf.cast(self.target_mean, labels.dtype)) / tf.cast(self.target_scale, labels.dtype)

    def scale_of_targets(self) -> float:
        """Return the standard deviation that real targets are divided by, 1 of a classifier."""
        return 1.0 if self.target_scale is None else replicas.number(self.target_scale)

    def _in_unit(self, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the head's outputs in the unit of the targets, those of classes as they are."""
        if self.target_mean is None or self.target_scale is None:
            return outputs
        return in_unit_of_targets(outputs, self.target_mean, self.target_scale)

    def _expected_terms(self, points: _Points, *, training: bool) -> tf.Tensor:
        """Return each point's term of the objective, of standardised targets, `[B]`."""
        labels = self._standardised(points.labels)
        if training:
            return self.head.training_terms(points.latent, points.features, labels)
        return self.head.expected_log_likelihood(points.latent, labels)

    def _log_predictive_density(self, points: _Points) -> tf.Tensor:
        """Return log p(y) of each point at the head's temperature, in the unit of its target, `[B]`."""
        density = self.head.tempered_log_density(points.latent, self._standardised(points.labels))
        if self.target_scale is None:
            return density
        return density - tf.math.log(tf.cast(self.target_scale, density.dtype))

    def evaluate(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Judge like `keras.Model.evaluate`, which `fit` does of validation data.

        Raises:
            ValueError: Arrays of inputs hold NaN or infinity that the network does not fill in.
        """
        self._check(x)
        return super().evaluate(x, *args, **kwargs)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Predict like `keras.Model.predict`; raises as `evaluate`."""
        self._check(x)
        return super().predict(x, *args, **kwargs)

    def _check(self, inputs: Any, *, learns: bool = False) -> None:
        """Refuse arrays with NaN, and warn of images in another range than those that were learned from."""
        if not is_arrays(inputs):
            return
        check_inputs(self.network, inputs)
        level = image_level(inputs)
        if learns or warn_of_levels(self._image_level, level):
            self._image_level = level if learns else None  # it is said once

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """One step of the optimiser on the batch's estimate of the bound."""
        with tf.GradientTape() as tape:
            points = self._points(*keras.utils.unpack_x_y_sample_weight(data), training=True)
            expected, loss, share = self._bound_of_step(points)
            own = self._own_losses(loss.dtype)
            scaled_loss = self.optimizer.scale_loss(self._scaled(share) + own / replicas.num_replicas())
        variables = self.trainable_variables
        gradients = tape.gradient(scaled_loss, variables)
        if not self.jit_compile:  # A ReLU makes finite features of NaN, but no gradient; XLA has no checks.
            assert_inputs_finite(keras.utils.unpack_x_y_sample_weight(data)[0], all_finite(gradients))
        gradients = _zero_unless(tf.math.is_finite(loss), gradients)
        apply_gradients(self.optimizer, zip(gradients, variables, strict=True))
        self.head.record_assignments(points.latent, points.weights)
        return self._update_metrics(points, expected, loss + own, training=True)

    def _own_losses(self, dtype: Any) -> tf.Tensor:
        """Return the sum of the network's own losses, of regularisers and `add_loss`; 0 without any."""
        losses = [tf.cast(tf.reduce_sum(loss), dtype) for loss in self.network.losses]
        return tf.add_n(losses) if losses else tf.zeros([], dtype)

    def _scaled(self, loss: tf.Tensor) -> tf.Tensor:
        """Return a loss in nats as a step takes it: with the slope that a dense layer's usual loss has.

        The loss is divided by how often the head counts a label. For real targets it is also multiplied by
        twice the noise variance, held constant: a squared error keeps the slope 2 (f - y) from the first step
        to the last, but the slope of a Gaussian log-likelihood grows as the noise falls, so that a rate of
        SGD that suits a dense layer would become many times too large. The optimum is the same.
        """
        loss = loss / self.head.label_weight
        likelihood = getattr(self.head, "likelihood", None)
        if not isinstance(likelihood, GaussianLikelihood):
            return loss
        noise = tf.reduce_mean(tf.convert_to_tensor(likelihood.noise_variance))
        return loss * tf.stop_gradient(2.0 * tf.cast(noise, loss.dtype))

    def predict_step(self, data: Any) -> Any:
        """Return the predictions of a batch."""
        if not self.jit_compile:
            assert_judged_inputs_finite(self.network, keras.utils.unpack_x_y_sample_weight(data)[0])
        return super().predict_step(data)

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Return the bound and the metrics of a batch."""
        inputs, *labels = keras.utils.unpack_x_y_sample_weight(data)
        points = self._points(inputs, *labels, training=False)
        if not self.jit_compile:
            assert_judged_inputs_finite(self.network, inputs)
        expected = self._expected(points)
        loss = self._negative_bound_per_point(expected)
        return self._update_metrics(points, expected, loss + self._own_losses(loss.dtype))

    def _points(self, x: Any, y: Any, sample_weight: Any, *, training: bool) -> _Points:
        """Return marginals, labels and weights of a batch's points, in training of a random subset."""
        if not self.built:  # Keras builds in `__call__`, which a training step does without
            with tf.init_scope():
                self.build(shapes_of(x))
        features = self.network(x, training=training)
        if y is None:
            raise ValueError("fit and evaluate need labels: pass (inputs, labels) or batches of both.")
        check_points(
            features.shape, y.shape, None if sample_weight is None else sample_weight.shape, self.head
        )
        if training and not self.jit_compile:
            assert_inputs_finite(x, all_finite([features]))
        num_examples, num_features = tf.shape(features)[0], features.shape[-1]
        dtype = self.head.compute_dtype
        of_point = self.head.label_shape
        labels = tf.cast(tf.reshape(y, [num_examples, -1, *of_point]), dtype)
        shape = tf.shape(labels)[:2]
        weights = tf.ones(shape, dtype) if sample_weight is None else tf.cast(sample_weight, dtype)
        weights = tf.reshape(weights, [num_examples, -1])
        features = tf.cast(tf.reshape(features, [num_examples, -1, num_features]), dtype)
        if weights.shape[1] == 1:  # one weight for each example
            weights = tf.broadcast_to(weights, shape)
        if training and self.points_per_example is not None:
            chosen = self._choose_points(shape)
            features, labels, weights = (
                tf.gather(values, chosen, batch_dims=1) for values in (features, labels, weights)
            )
        labels, weights = tf.reshape(labels, [-1, *of_point]), tf.reshape(weights, [-1])
        features = flatten_points(features)
        latent = self.head.training_latent(features) if training else self.head.latent(features)
        return _Points(features, latent, self._checked(labels, weights), weights)

    def _checked(self, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Return the labels after a check that those that count are valid, which likelihoods do not check."""
        weighs = tf.math.is_finite(weights) & (weights >= 0.0)
        tf.debugging.Assert(
            tf.reduce_all(weighs),
            ["Weights must be finite numbers from 0, but found", tf.boolean_mask(weights, ~weighs)],
            summarize=5,
        )
        known = self.head.valid_labels(labels)
        valid = tf.logical_or(known, tf.equal(weights, 0.0))
        check = tf.debugging.Assert(
            tf.reduce_all(valid),
            [f"Labels must be {self.head.label_requirement}, but found", tf.boolean_mask(labels, ~valid)],
            summarize=5,
        )
        with tf.control_dependencies([check] if check is not None else []):
            known = tf.reshape(known, [-1, *[1] * len(self.head.label_shape)])
            return tf.where(known, labels, tf.zeros_like(labels))  # 0 times NaN is NaN

    def _choose_points(self, shape: tf.Tensor) -> tf.Tensor:
        """Return the indices `[examples, points_per_example]`, drawn with replacement.

        They depend on the seed and the step alone: Keras does not save the state of a seed generator, and a
        resumed run must draw what an uninterrupted one would.
        """
        seed = tf.stack([tf.constant(self.seed, tf.int64), tf.cast(self.optimizer.iterations, tf.int64)])
        before, examples = replicas.place_in_batch(shape[0])
        size = [examples, self.points_per_example]
        chosen = tf.random.stateless_uniform(size, seed, maxval=shape[1], dtype=tf.int32)
        return chosen[before : before + shape[0]]  # of a batch that replicas share, as one device draws it

    def _expected(self, points: _Points, *, training: bool = False) -> tf.Tensor:
        """Return the weighted mean over the batch of each point's expected log-likelihood terms."""
        terms = self._expected_terms(points, training=training)
        return tf.math.divide_no_nan(tf.reduce_sum(points.weights * terms), tf.reduce_sum(points.weights))

    def _bound_of_step(self, points: _Points) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return what `_expected` and the loss are of the global batch, and this replica's share of the loss.

        The replicas' gradients are summed. So each replica divides by the weights of the global batch, counts
        its share of the penalty, and the shares add up to the loss.
        """
        if replicas.num_replicas() == 1:
            expected = self._expected(points, training=True)
            loss = self._negative_bound_per_point(expected)
            return expected, loss, loss
        terms = self._expected_terms(points, training=True)
        weight = replicas.total(tf.reduce_sum(points.weights))
        own = tf.math.divide_no_nan(tf.reduce_sum(points.weights * terms), weight)
        penalty = self._penalty_per_point()
        expected = replicas.total(own)
        return expected, penalty - expected, penalty / replicas.num_replicas() - own

    def _negative_bound_per_point(self, expected: tf.Tensor) -> tf.Tensor:
        """Return -L1/N of thesis (4.39): the batch's mean stands for the mean over all N points.

        With N_eff instead of N it is -L1/N_eff of the power likelihood, see
        `gpmodels.statistics.effective_sample`.
        """
        return self._penalty_per_point() - expected

    def _penalty_per_point(self) -> tf.Tensor:
        count = self.num_data if self.num_effective is None else self.num_effective
        return self.head.penalty() / count

    def _update_metrics(
        self, points: _Points, expected: tf.Tensor, loss: tf.Tensor, *, training: bool = False
    ) -> dict[str, tf.Tensor]:
        total = tf.reduce_sum(points.weights)
        self._loss_tracker.update_state(loss, sample_weight=total)
        self._expected_log_likelihood.update_state(expected, sample_weight=total)
        density = self._log_predictive_density(points)
        self._nll.update_state(-density, sample_weight=points.weights)
        answer = "probability" if self.head.is_classifier else "mean"
        outputs = self.head.predictions(points.latent)
        if training and not self.head.label_shape:
            self._watch.update(self._standardised(points.labels), points.weights, outputs[answer])
        predicted = self._in_unit(outputs)[answer]
        # Keras metrics average over the last axis before weighting: keep one value per row.
        column = [part if part.shape.rank == 2 else part[:, None] for part in (points.labels, predicted)]
        if self.head.is_classifier:
            truth = points.labels
            if truth.shape.rank > outputs["label"].shape.rank:  # of votes the class that has most
                truth = tf.argmax(truth, axis=-1)
            hit = tf.equal(tf.cast(outputs["label"], truth.dtype), truth)
            counts = points.weights
            if hit.shape.rank > 1:  # unknown labels do not count
                counts = counts[:, None] * tf.cast(tf.math.is_finite(points.labels), counts.dtype)
            self._error.update_state(tf.cast(hit, density.dtype), sample_weight=counts)
        else:
            self._error.update_state(*column, sample_weight=points.weights)
        return self.compute_metrics(None, *column, sample_weight=points.weights)


def _zero_unless(finite: tf.Tensor, gradients: list[tf.Tensor | None]) -> list[tf.Tensor | None]:
    """Return the gradients of a finite loss, else zeros: a NaN would spread to all weights."""
    return [None if g is None else tf.where(finite, g, tf.zeros_like(g)) for g in gradients]
