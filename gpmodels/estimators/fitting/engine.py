"""A head and the compiled functions that train it and predict with it, reused by all estimators alike.

Tracing a TensorFlow function takes a second or more, as long as fitting a small data set. An `Engine`
is made once for a configuration and number of features (and thread) and serves every fit and prediction of
it, in cross-validation for instance; what an estimator has learned is kept by the estimator, as NumPy arrays.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.heads.base import Latent
from gpmodels.heads.conjugate import SitePair, Sites
from gpmodels.heads.gp import GPHead, Points
from gpmodels.hybrid.forks import require_unforked, starts_tensorflow
from gpmodels.registry import head_class
from gpmodels.units.gradients import apply_gradients

FloatArray = npt.NDArray[np.floating[Any]]
Made = TypeVar("Made")

MAX_ENGINES = 4
"""Engines kept for each thread, the least recently used one going first."""


class Compiled:
    """A function traced on its first call, for one signature.

    Calling a concrete function, unlike `tf.function`, does not count traces, which over many configurations
    would end in warnings about retracing that never happened.
    """

    def __init__(self, function: Callable[..., Any], *signature: Any) -> None:
        self._function = function
        self._signature = signature
        self._concrete: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Return the result of the function."""
        require_unforked()
        return self._traced()(*arguments)

    def outputs(self) -> Any:
        """Return what the function returns, with a `tf.TensorSpec` for each tensor."""
        return self._traced().structured_outputs

    def _traced(self) -> Any:
        if self._concrete is None:
            self._concrete = tf.function(self._function, autograph=False).get_concrete_function(
                *self._signature
            )
        return self._concrete


LOG_PROBABILITY = "log_probability"
"""Name of the output of `Engine.predict` that a head's own outputs do not have."""


class Engine:
    """One head and its compiled functions; get one by `engine_for`.

    Args:
        model: Name of the head's family in `gpmodels.registry`.
        settings: Arguments of the head.
        num_features: D.

    Attributes:
        head: The head; every function reads or writes its weights. Set them by `set_weights`, which forgets
            what was folded of those before.
        all_variables: What a fit moves: all of the head but W of a linear mean, which is a fitted layer's.
        hyper_variables: The same without q.
        dtype: Type of all tensors.
        state: Variables besides the weights that the steps of a fit move, such as the moments of Adam.
        warm_up: What the part of the penalty counts that a warm-up weighs, see `GPHead.warm_up_weights`: 1
            but for the start of a fit.
    """

    def __init__(self, model: str, settings: Mapping[str, Any], num_features: int) -> None:
        starts_tensorflow()
        self.head: GPHead = head_class(model)(**{"mean": "none", **settings})
        self.state: list[Any] = []
        self._made: dict[str, Any] = {}
        self.head.build((None, num_features))
        self.dtype = tf.as_dtype(self.head.variable_dtype)
        self._initial = self.head.get_weights()
        units = self.head.posterior_units
        posterior = {id(v) for unit in units for v in unit.posterior_parameters}
        owners = {id(p.unconstrained_variable): id(p) for unit in units for p in unit.parameters}
        mean = self.head.linear_mean
        fixed = None if mean is None else mean.kernel.unconstrained_variable
        self.all_variables = [w.value for w in self.head.trainable_weights if w.value is not fixed]
        self.hyper_variables = [v for v in self.all_variables if owners.get(id(v)) not in posterior]
        self.warm_up = tf.Variable(1.0, dtype=self.dtype, trainable=False)
        self._optimizer: keras.optimizers.Optimizer | None = None
        self._folded: tuple[Sequence[npt.NDArray[Any]], Any] | None = None
        self._predict_folded: Compiled | None = None
        self._compile(num_features)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Lend the engine: afterwards its weights and state are what they were, whatever fits."""
        weights, warm_up = self.head.get_weights(), self.warm_up.numpy()
        state = [(variable, variable.numpy()) for variable in self.state]
        try:
            yield
        finally:
            self.set_weights(weights)
            self.warm_up.assign(warm_up)
            for variable, value in state:
                variable.assign(value)

    def _compile(self, num_features: int) -> None:
        vector = tf.TensorSpec([None], self.dtype)
        latents = self.head.likelihood.num_latents
        sites = Sites(*[tf.TensorSpec([None, latents], self.dtype)] * 2)
        matrix = tf.TensorSpec([None, num_features], self.dtype)
        mean = self.head.linear_mean
        logits = None if mean is None else tf.TensorSpec([None, latents], self.dtype)
        variance = logits if mean is not None and mean.posterior is not None else None
        points = Points(matrix, vector, vector, tf.TensorSpec([None], tf.int32), logits, variance)
        scalar = tf.TensorSpec([], self.dtype)
        self.assign = Compiled(self.head.assign, matrix)
        self._matrix = matrix
        self._fold = Compiled(self.head.fold)
        self.log_densities = Compiled(self._log_densities, points[:2])
        self.log_probabilities_beside = Compiled(self._log_probabilities_beside, matrix, logits, variance)
        self.joint_bound = Compiled(self._joint_bound, vector, points)
        self.collapsed_bound = Compiled(self._collapsed_bound, vector, points)
        self.tied_bound = Compiled(self._tied_bound, vector, points, (sites, sites))
        self.matching_sites = Compiled(self._matching_sites, points)
        self.set_posterior = Compiled(self._set_posterior, points, (sites, sites))
        self.set_best_posterior = Compiled(self.head.set_best_posterior, points)
        self.adam_step = Compiled(self._adam_step, points[:3], scalar, scalar)

    def reset(self) -> None:
        """Give all weights the values of a new head."""
        self.set_weights(self._initial)

    def set_weights(self, weights: Sequence[npt.NDArray[Any]]) -> None:
        """Set the head's weights, and forget what was folded of those before."""
        self._folded = None
        self.head.set_weights(weights)

    def predict(self, x: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Return the head's outputs at points `[B, D]`, and their experts, by its present weights.

        A classifier's have `LOG_PROBABILITY` besides, the logarithms of its probabilities, `[B, C]`.
        """
        return self._predict_by_folded(self._fold(), x)

    def predict_by(
        self, weights: Sequence[npt.NDArray[Any]], x: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Return `predict` by the weights of an estimator, which are set and folded once for its calls.

        Args:
            weights: The weights. Another call with the same object takes them to be as they were.
            x: Points `[B, D]`.
        """
        if self._folded is None or self._folded[0] is not weights:
            self.set_weights(weights)
            self._folded = weights, self._fold()
        return self._predict_by_folded(self._folded[1], x)

    def _predict_by_folded(self, folded: Any, x: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        if self._predict_folded is None:
            self._predict_folded = Compiled(self._predict, self._fold.outputs(), self._matrix)
        outputs: tuple[dict[str, tf.Tensor], tf.Tensor] = self._predict_folded(folded, x)
        return outputs

    def points(
        self,
        x: FloatArray,
        y: FloatArray,
        weight: FloatArray,
        logits: FloatArray | None = None,
        logit_variance: FloatArray | None = None,
    ) -> Points:
        """Return the tensors of the head's dtype, routed by the present gate.

        Args:
            x: Standardised inputs, `[N, D]`.
            y: Class indices or targets, `[N]`.
            weight: How often each point counts, `[N]`.
            logits: Cross-fitted logits for the head's linear mean, `[N, P]`; None takes the layer's own. A
                head without such a mean has none.
            logit_variance: Of these logits, `[N, P]`; None takes the layer's own.
        """
        features = tf.constant(x, self.dtype)
        mean, beside, variance = self.head.linear_mean, None, None
        if mean is not None:
            beside = mean.logits(features) if logits is None else tf.constant(logits, self.dtype)
            variance = mean.logit_variance(features)
            if variance is not None and logit_variance is not None:
                variance = tf.constant(logit_variance, self.dtype)
        target, count = tf.constant(y, self.dtype), tf.constant(weight, self.dtype)
        return Points(features, target, count, self.assign(features), beside, variance)

    def flat(self, variables: list[tf.Variable]) -> FloatArray:
        """Return the values of some variables as one float64 vector."""
        return np.concatenate([np.ravel(v.numpy()).astype("float64") for v in variables])

    def _spread(self, flat: tf.Tensor, variables: list[tf.Variable]) -> None:
        sizes = [int(np.prod(v.shape)) for v in variables]
        for variable, part in zip(variables, tf.split(flat, sizes), strict=True):
            variable.assign(tf.reshape(part, variable.shape))

    def assign_flat(self, flat: FloatArray, variables: list[tf.Variable]) -> None:
        """Assign one vector to some variables, the inverse of `flat`."""
        self._spread(tf.constant(flat, self.dtype), variables)

    # Traced once each, by `_compile`.

    def _predict(self, folded: Any, x: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        latent = self.head.folded_latent(folded, x)
        outputs = self.head.predictions(latent)
        if self.head.is_classifier:
            outputs[LOG_PROBABILITY] = self.head.class_log_probabilities(latent, outputs)
        return outputs, self.head.responsible_expert(latent)

    def _log_densities(self, points: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        x, y = points
        return self.head.log_predictive_density(self.head.latent(x), y)

    def _log_probabilities_beside(
        self, x: tf.Tensor, logits: tf.Tensor, variance: tf.Tensor | None
    ) -> tf.Tensor:
        """Return log p_c of points `[B, C]` whose linear layer says `logits [B, P]`, of that variance."""
        mean = self.head.linear_mean
        if mean is None:
            return self.head.class_log_probabilities(self.head.latent(x))
        beside = mean.marginal_of(logits, variance)
        return self.head.class_log_probabilities(self.head.shifted(self.head.residual(x), beside))

    def _scale_penalty(self) -> tf.Tensor:
        """Return what the prior of a linear mean's scale subtracts from the objective, nats."""
        mean = self.head.linear_mean
        return tf.zeros([], self.dtype) if mean is None else mean.scale_penalty()

    def _negative_with_gradient(
        self, flat: tf.Tensor, variables: list[tf.Variable], bound: Callable[[], tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        self._spread(flat, variables)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            value = bound() - self._scale_penalty()
        gradients = tape.gradient(value, variables, unconnected_gradients="zero")
        gradient = tf.concat([tf.reshape(g, [-1]) for g in gradients], axis=0)
        return -value, -gradient

    def _joint_bound(self, flat: tf.Tensor, points: Points) -> tuple[tf.Tensor, tf.Tensor]:
        def bound() -> tf.Tensor:
            latent = self.head.latent_at(points)
            terms = self.head.training_terms(latent, points.x, points.y)
            return tf.reduce_sum(points.weight * terms) - self.head.penalty()

        return self._negative_with_gradient(flat, self.all_variables, bound)

    def _collapsed_bound(self, flat: tf.Tensor, points: Points) -> tuple[tf.Tensor, tf.Tensor]:
        def bound() -> tf.Tensor:
            return self.head.collapsed_bound(points, self.warm_up)

        return self._negative_with_gradient(flat, self.hyper_variables, bound)

    def _tied_bound(
        self, flat: tf.Tensor, points: Points, sites: SitePair
    ) -> tuple[tf.Tensor, tf.Tensor, SitePair]:
        latents: list[Latent] = []

        def bound() -> tf.Tensor:
            value, latent = self.head.tied_bound(points, sites)
            latents.append(latent)
            return value

        value, gradient = self._negative_with_gradient(flat, self.hyper_variables, bound)
        return value, gradient, self.head.matching_sites(latents[0], points)

    def _matching_sites(self, points: Points) -> SitePair:
        return self.head.matching_sites(self.head.latent_at(points), points)  # of heads with sites alone

    def _set_posterior(self, points: Points, sites: SitePair) -> None:
        self.head.set_posterior_of_sites(points, sites)  # of heads with sites alone

    def _adam_step(
        self, points: tuple[tf.Tensor, tf.Tensor, tf.Tensor], num_data: tf.Tensor, learning_rate: tf.Tensor
    ) -> tf.Tensor:
        x, y, weight = points
        with tf.GradientTape() as tape:
            terms = self.head.training_terms(self.head.training_latent(x), x, y)
            # Minus the bound per point, thesis (4.31).
            penalty = self.head.penalty() + self._scale_penalty()
            loss = penalty / num_data - tf.reduce_sum(weight * terms) / tf.reduce_sum(weight)
        gradients = tape.gradient(loss, self.all_variables)
        optimizer = self._adam()
        optimizer.learning_rate.assign(tf.cast(learning_rate, tf.float32))
        apply_gradients(optimizer, zip(gradients, self.keras_variables(self.all_variables), strict=True))
        return loss

    def _adam(self) -> keras.optimizers.Optimizer:
        if self._optimizer is None:
            with tf.init_scope():
                self._optimizer = self.new_optimizer(self.all_variables)
                self.state += self._optimizer.variables
        return self._optimizer

    def keras_variables(self, variables: list[tf.Variable]) -> list[keras.Variable]:
        """Return the head's weights behind some of its variables."""
        weights = {id(weight.value): weight for weight in self.head.trainable_weights}
        return [weights[id(variable)] for variable in variables]

    def new_optimizer(self, variables: list[tf.Variable]) -> keras.optimizers.Optimizer:
        """Return Adam for some of the head's variables."""
        optimizer = keras.optimizers.Adam(1e-2)
        optimizer.build(self.keras_variables(variables))
        return optimizer

    def reset_optimizer(self) -> None:
        """Forget the moments of Adam."""
        forget_moments(self._adam())

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """Return what is made for this engine on first use, such as a function that takes long to trace.

        Args:
            name: What it is.
            make: Makes it.
        """
        if name not in self._made:
            self._made[name] = make()
        made: Made = self._made[name]
        return made


def forget_moments(optimizer: keras.optimizers.Optimizer) -> None:
    """Set an optimizer to its start."""
    for variable in optimizer.variables:
        variable.assign(tf.zeros_like(variable))


_local = threading.local()


def engine_for(model: str, settings: Mapping[str, Any], num_features: int) -> Engine:
    """Return the engine of a configuration, which is made on first use in this thread.

    Args:
        model: Name of the head's family in `gpmodels.registry`.
        settings: Arguments of the head, hashable.
        num_features: D.
    """
    require_unforked()
    engines: OrderedDict[Any, Engine] = _local.__dict__.setdefault("engines", OrderedDict())
    key = (model, tuple(sorted(settings.items())), num_features)
    if key not in engines:
        engines[key] = Engine(model, settings, num_features)
        while len(engines) > MAX_ENGINES:
            engines.popitem(last=False)
    engines.move_to_end(key)
    return engines[key]
