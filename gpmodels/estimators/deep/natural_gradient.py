"""A training step of a deep head: natural gradients for q of the last layer, Adam for everything else.

The last layer is linear in whitened values, f_sn = b_snᵀ v + what v leaves open, at S samples of each point n
of a batch. With the sites that match the expected log-likelihood E at the marginals (μ, σ²) of f_sn,

    β = -2 ∂E/∂σ²,    r = ∂E/∂μ + β μ

a natural-gradient step of length γ of the batch's bound moves the natural parameters of q(v) = N(m, Λ⁻¹) by

    Λ  <- (1 - γ) Λ  + γ (I + Σ_sn N/(B S) β b bᵀ)
    Λm <- (1 - γ) Λm + γ Σ_sn N/(B S) r b

γ = 1 with all points in the batch and one sample is the step of `gpmodels.heads.conjugate`. Both kinds of
step use the gradients at the same weights, so that one pass forward and back serves both.

q(v) remembers the last 1/γ batches. Where an epoch has more, γ falls with the learning rate until q averages
over one, at iteration t of T:

    γ_t = γ_∞ + (γ - γ_∞) (1 + cos(πt/T)) / 2,    γ_∞ = min(γ, B/N)

Source: Salimbeni, Eleftheriadis and Hensman (2018), Natural gradients in practice; Khan and Lin (2017) for
the form by sites. Equal to GPflow's `NaturalGradient`, tested. The fall of γ is ours: measured on digits
(`docs/results/deep.md`).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import keras
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.estimators.fitting.engine import Compiled, Engine, forget_moments
from gpmodels.heads.layered import LayeredHead
from gpmodels.units.gradients import apply_gradients

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


class WeighedSites(NamedTuple):
    """Sites of the whole data set that a batch stands for, one for each sample and latent function.

    Attributes:
        precision: N/(B S) β, `[N, P]`.
        linear: N/(B S) r, `[N, P]`.
    """

    precision: tf.Tensor
    linear: tf.Tensor


@check_shapes(
    "inputs: [J, N, F]",
    "q_mean: [1, P, F]",
    "q_sqrt: [1, P, F, F]",
    "return[0]: [1, P, F]",
    "return[1]: [1, P, F, F]",
)
def natural_step(
    inputs: tf.Tensor, sites: WeighedSites, q_mean: tf.Tensor, q_sqrt: tf.Tensor, step: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return m and L_S after a step, in float64 but for the result.

    Args:
        inputs: b at each sample; J = 1 where all latent functions share it, else J = P.
        sites: At the same samples.
        q_mean: m.
        q_sqrt: L_S, lower triangular.
        step: γ, from 0 to 1, a scalar.
    """
    dtype = q_mean.dtype
    # In the type of b, products over all samples; [J, N, F] * [P, N, 1] is [P, N, F]
    weighted = inputs * tf.transpose(sites.precision)[:, :, None]
    gram = tf.cast(tf.matmul(weighted, inputs, transpose_a=True), tf.float64)  # Σ β b bᵀ [P, F, F]
    side = tf.reduce_sum(inputs * tf.transpose(sites.linear)[:, :, None], axis=1)  # Σ r b [P, F]
    mean, root = tf.cast(q_mean[0], tf.float64)[..., None], tf.cast(q_sqrt[0], tf.float64)
    step = tf.cast(step, tf.float64)
    identity = tf.eye(tf.shape(root)[-1], batch_shape=[tf.shape(root)[0]], dtype=tf.float64)
    # Λ = L_S⁻ᵀ L_S⁻¹
    inverse = tf.linalg.triangular_solve(root, identity)
    old = tf.matmul(inverse, inverse, transpose_a=True)
    precision = (1.0 - step) * old + step * (identity + gram)
    shift = (1.0 - step) * tf.matmul(old, mean) + step * tf.cast(side, tf.float64)[..., None]
    # Λ = U Uᵀ with U upper triangular, by the factor of Λ in reverse order; then L_S = U⁻ᵀ, S = L_S L_Sᵀ.
    reverse = [-2, -1]
    upper = tf.reverse(tf.linalg.cholesky(tf.reverse(precision, reverse)), reverse)
    new_root = tf.linalg.triangular_solve(tf.linalg.matrix_transpose(upper), identity)
    new_mean = tf.matmul(new_root, tf.matmul(new_root, shift, transpose_a=True))
    return tf.cast(new_mean[..., 0], dtype)[None], tf.cast(new_root, dtype)[None]


class NaturalGradientStep:
    """The compiled step of one engine, whose head is a `LayeredHead`; get one by `natural_gradient_step`.

    Args:
        engine: The engine.

    Raises:
        TypeError: Its head has no layers.
    """

    def __init__(self, engine: Engine) -> None:
        head = engine.head
        if not isinstance(head, LayeredHead):
            raise TypeError(f"Natural gradients need a head of layers, but this is a {type(head).__name__}.")
        self._head: LayeredHead = head
        moved_here = {id(variable) for variable in engine.hyper_variables}
        self._rest = [weight for weight in head.trainable_weights if id(weight.value) in moved_here]
        self._optimizer = keras.optimizers.Adam(1e-2)
        self._optimizer.build(self._rest)
        engine.state += self._optimizer.variables
        vector, scalar = tf.TensorSpec([None], engine.dtype), tf.TensorSpec([], engine.dtype)
        matrix = tf.TensorSpec([None, head.stack[0].num_inputs], engine.dtype)
        self._compiled = Compiled(self._step, (matrix, vector, vector), *[scalar] * 3)

    def reset(self) -> None:
        """Forget the moments of Adam."""
        forget_moments(self._optimizer)

    def __call__(
        self, batch: Batch, num_data: tf.Tensor, learning_rate: tf.Tensor, step: tf.Tensor
    ) -> tf.Tensor:
        """Take one step and return minus the batch's bound per point before it.

        Args:
            batch: Inputs `[B, D]`, labels `[B]` and weights `[B]`.
            num_data: N.
            learning_rate: Of Adam.
            step: γ.
        """
        return self._compiled(batch, num_data, learning_rate, step)

    def _step(
        self, batch: Batch, num_data: tf.Tensor, learning_rate: tf.Tensor, step: tf.Tensor
    ) -> tf.Tensor:
        x, y, weight = batch
        q_mean, q_sqrt = self._head.stack[-1].full_posterior()
        variables = [variable.value for variable in self._rest]
        with tf.GradientTape() as tape:
            sample = self._head.training_sample(x)
            latent = sample.latent
            terms = self._head.training_terms(latent, x, y)
            loss = self._head.penalty() / num_data - tf.reduce_sum(weight * terms) / tf.reduce_sum(weight)
        *gradients, slope, curvature = tape.gradient(loss, [*variables, latent.mean, latent.variance])
        # The loss has a factor -w_n/(S Σ w) before each sample's E: N times it is N/(B S) where all weights
        # agree.
        precision = tf.maximum(2.0 * num_data * curvature, 0.0)  # of a likelihood that is not log-concave
        mean_of_gp = (
            latent.mean if self._head.linear_mean is None else latent.mean - self._head.linear_mean(x)
        )
        linear = precision * mean_of_gp - num_data * slope  # sites of the GP alone, of which q is
        size = latent.mean.shape[-1]
        sites = WeighedSites(tf.reshape(precision, [-1, size]), tf.reshape(linear, [-1, size]))
        mean, root = tf.convert_to_tensor(q_mean), tf.convert_to_tensor(q_sqrt)
        new_mean, new_root = natural_step(sample.basis.inputs, sites, mean, root, step)
        self._optimizer.learning_rate.assign(tf.cast(learning_rate, tf.float32))
        apply_gradients(self._optimizer, zip(gradients, self._rest, strict=True))
        q_mean.assign(new_mean)
        q_sqrt.assign(new_root)
        self._head.record_assignments(latent, weight)
        return loss


def natural_gradient_step(engine: Engine) -> NaturalGradientStep:
    """Return the compiled step of an engine, which is traced once, without the moments of former fits."""
    step = engine.once("natural gradient step", lambda: NaturalGradientStep(engine))
    step.reset()
    return step


@dataclass(frozen=True)
class NaturalGradientSteps:
    """Iterations of `fit_mini_batch` with natural gradients, of a length γ that falls.

    Attributes:
        step: The compiled step.
        length: γ at the start, from 0 to 1.
        steps_per_epoch: Batches of an epoch, N/B.
        total: Iterations of the fit, T.
    """

    step: NaturalGradientStep
    length: float
    steps_per_epoch: float
    total: int

    @property
    def cycle(self) -> int:
        """0: there is one kind of step."""
        return 0

    def length_at(self, number: int) -> float:
        """Return γ_t, at an iteration from 0.

        Args:
            number: t.
        """
        last = min(self.length, 1.0 / self.steps_per_epoch)
        return last + (self.length - last) * 0.5 * (1.0 + math.cos(math.pi * number / self.total))

    def take(self, number: int, batch: Batch, num_data: tf.Tensor, rate: tf.Tensor) -> float:
        """Take a step, and return minus the bound per row before it.

        Args:
            number: Of the iteration, from 0.
            batch: Inputs, targets and weights.
            num_data: N.
            rate: Learning rate of Adam.
        """
        return float(self.step(batch, num_data, rate, tf.constant(self.length_at(number), rate.dtype)))

    def settle(self) -> None:
        """Do nothing: each step moves the weights themselves."""
