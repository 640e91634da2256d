"""Learning by leaving out, in turn with the bound: Algorithm 1 of AutoGP.

Blocks of steps on the bound move everything. Blocks of steps on the leave-one-out objective move the
hyper-parameters, with inducing inputs and the likelihood's parameters, while the posterior q(u) of the
inducing values stays where it is. In whitened coordinates u = L v that means holding L m and L L_S: holding
q(v) itself would let the function follow the lengthscales.
"""

import math
from typing import Literal

import tensorflow as tf

from gpmodels.autogp.head import AutoGPHead, HeldPosterior
from gpmodels.estimators.fitting.engine import Compiled, Engine, forget_moments
from gpmodels.units.gradients import apply_gradients

Objective = Literal["elbo", "loo", "loo_paper"]
OBJECTIVES: tuple[Objective, ...] = ("elbo", "loo", "loo_paper")


class LeaveOneOutStep:
    """A step of Adam on the leave-one-out objective, with q(u) held.

    Args:
        engine: Of an AutoGP head.
        is_papers: Whether the term is the paper's -log E[1/p], (16), rather than that of the sites.

    Raises:
        TypeError: The engine's head is another.
    """

    def __init__(self, engine: Engine, *, is_papers: bool) -> None:
        if not isinstance(engine.head, AutoGPHead):
            raise TypeError(f"Learning by leaving out needs an AutoGPHead, but got {engine.head.name}.")
        self.head = engine.head
        self._engine = engine
        self._is_papers = is_papers
        with tf.init_scope():
            held = self.head.hold()
            self._held = HeldPosterior(*(tf.Variable(part) for part in held))
            self._optimizer = engine.new_optimizer(engine.hyper_variables)
        engine.state += [*self._held, *self._optimizer.variables]
        vector, matrix = tf.TensorSpec([None], engine.dtype), tf.TensorSpec([None, None], engine.dtype)
        scalar = tf.TensorSpec([], engine.dtype)
        self.take = Compiled(self._take, (matrix, vector, vector), scalar)

    def reset(self) -> None:
        """Forget the moments of Adam."""
        forget_moments(self._optimizer)

    def hold(self) -> None:
        """Hold q(u) as it is now."""
        for variable, value in zip(self._held, self.head.hold(), strict=True):
            variable.assign(value)

    def release(self) -> None:
        """Give the head the q(v) that the held q(u) is under the present kernel."""
        self.head.release(HeldPosterior(*(tf.convert_to_tensor(part) for part in self._held)))

    def _take(self, batch: tuple[tf.Tensor, tf.Tensor, tf.Tensor], rate: tf.Tensor) -> tf.Tensor:
        x, y, weight = batch
        variables = self._engine.hyper_variables
        held = HeldPosterior(*(tf.convert_to_tensor(part) for part in self._held))
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            if self._is_papers:
                terms = self.head.paper_leave_one_out_terms(x, y, held)
            else:
                terms = self.head.leave_one_out_terms(x, y, weight, held)
            loss = -tf.reduce_sum(weight * terms) / tf.reduce_sum(weight)
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        self._optimizer.learning_rate.assign(tf.cast(rate, tf.float32))
        apply_gradients(self._optimizer, zip(gradients, self._engine.keras_variables(variables), strict=True))
        return loss


def require_papers_term(head: AutoGPHead) -> None:
    """Refuse a likelihood without the paper's term, before anything is trained.

    Args:
        head: That shall learn by it.

    Raises:
        ValueError: It has none.
    """
    ones = tf.ones([1, head.likelihood.num_latents], head.variable_dtype)
    nothing = tf.zeros([1], head.variable_dtype)
    head.likelihood.log_expected_inverse(0.0 * ones, 1e-6 * ones, nothing, tf.zeros([1], tf.int32))


class AlternatingSteps:
    """Blocks of steps on the bound and on the leave-one-out objective in turn, beginning with the bound.

    Args:
        engine: Of an AutoGP head.
        is_papers: See `LeaveOneOutStep`.
        block: Steps of a block.
    """

    def __init__(self, engine: Engine, *, is_papers: bool, block: int) -> None:
        self._engine, self._is_papers = engine, is_papers
        self._leave_one_out = engine.once(
            f"leave one out, is_papers={is_papers}", lambda: LeaveOneOutStep(engine, is_papers=is_papers)
        )
        self._leave_one_out.reset()
        self._block = block
        self._holds = False

    @property
    def cycle(self) -> int:
        """Steps of a block of each kind."""
        return 2 * self._block

    def take(
        self,
        number: int,
        batch: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
        num_data: tf.Tensor,
        rate: tf.Tensor,
    ) -> float:
        """Train on a batch; the loss is minus the bound, or minus the leave-one-out density, per row."""
        holds = (number // self._block) % 2 == 1
        if holds and not self._holds:
            self._leave_one_out.hold()
        elif self._holds and not holds:
            self._leave_one_out.release()
        self._holds = holds
        if holds:
            loss = float(self._leave_one_out.take(batch, rate))
            if self._is_papers and math.isinf(loss):
                raise ValueError(
                    "E[1/p(y | f)] is infinite where the posterior's variance reaches that of the noise, so "
                    "that objective='loo_paper' does not exist here. Choose objective='loo'."
                )
            return loss
        return float(self._engine.adam_step(batch, num_data, rate))

    def settle(self) -> None:
        """Bring q(v) up to date in a block in which q(u) is held."""
        if self._holds:
            self._leave_one_out.release()
