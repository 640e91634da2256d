"""What the estimators share: checking, scaling, default sizes, training, prediction, and a summary."""

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from gpmodels.estimators.fitting.engine import Engine, FloatArray, engine_for
from gpmodels.estimators.fitting.full_batch import fit_full_batch
from gpmodels.estimators.fitting.grouped import check_effective_observations, counted_observations, shuffled
from gpmodels.estimators.fitting.learned import linear_share, warn_if_nothing_learned
from gpmodels.estimators.fitting.mini_batch import (
    CHUNK,
    BoundSteps,
    Judge,
    MayReplaceStart,
    Rows,
    TrainingSteps,
    fit_mini_batch,
    log_densities,
    warm_start,
)
from gpmodels.estimators.fitting.monitoring import CurvePoint, FitMonitor
from gpmodels.estimators.fitting.persistence import SavedEstimator
from gpmodels.estimators.fitting.rows import (
    checked_rows,
    merged_rows,
    warn_of_small_weights,
    weighted_moments,
)
from gpmodels.estimators.fitting.sizes import default_num_experts, default_num_inducing, expert_size
from gpmodels.estimators.fitting.starts import choose_start
from gpmodels.estimators.fitting.summary import describe
from gpmodels.estimators.sparse.files import restored_sparse, stored_sparse
from gpmodels.heads.gp import Points
from gpmodels.heads.joint import joint_covariance
from gpmodels.heads.linear_layer import linear_layer_of
from gpmodels.units.counts import is_count
from gpmodels.units.linear_mean import MEANS

OPTIMIZERS = ("auto", "lbfgs", "adam")

FULL_BATCH_VALUES = 5_000_000
"""Most values of an N x M matrix for which `optimizer="auto"` takes L-BFGS: a few such of 40 MB."""

PLACEMENT_ROWS = 20_000
"""Most rows that k-means sees, and that the linear layer is fitted to."""

LOOKED_AT = 5000
"""Most of its own rows that a fit is compared with the class shares on, at its end."""

MAX_HELD_OUT = 10_000
"""Most rows held out for early stopping."""


@dataclass(kw_only=True, repr=False, eq=False)
class SparseGPEstimator(SavedEstimator, abc.ABC):
    """Base class of the scikit-learn estimators; use one of its subclasses.

    The parameters are keyword-only fields of dataclasses, which make the constructors that scikit-learn asks
    for. What is learned is kept as NumPy arrays in `weights_`, so that estimators can be cloned, copied and
    pickled; the TensorFlow objects are shared, see `gpmodels.estimators.fitting.engine`.
    """

    _model: ClassVar[str]
    _lbfgs_iterations: ClassVar[int] = 1000
    _adam_iterations: ClassVar[int] = 10_000
    _first_look: ClassVar[int | None] = None  # of `fit_mini_batch`
    _of_head: ClassVar[tuple[str, ...]] = ("kernel", "kernel_depth")
    """Parameters of this class that are arguments of the head; subclasses name their own."""
    _learned_arrays: ClassVar[tuple[str, ...]] = ()
    """Attributes of one axis, besides `weights_`, that go into a file."""
    _learned_flags: ClassVar[tuple[str, ...]] = ()  # attributes that are true or false and go into a file

    _stored = stored_sparse
    _restored: ClassVar[Any] = classmethod(restored_sparse)

    num_inducing: int | str = "auto"
    kernel: str = "squared_exponential"
    kernel_depth: int = 1
    optimizer: str = "auto"
    max_iterations: int | None = None
    learning_rate: float = 0.02
    batch_size: int = 1024
    tolerance: float = 1e-5
    effective_observations: float | str = "auto"
    early_stopping: bool = True
    validation_fraction: float = 0.1
    random_state: Any = None
    dtype: str = "float64"
    verbose: int = 0
    log_dir: str | None = None

    def _head_settings(self) -> dict[str, Any]:
        """Return the arguments of the head besides its sizes, from the parameters and the labels."""
        names = [name for cls in reversed(type(self).__mro__) for name in vars(cls).get("_of_head", ())]
        return {name: getattr(self, name) for name in names}

    def _fit(
        self,
        x: FloatArray,
        targets: FloatArray,
        weight: FloatArray,
        groups: npt.NDArray[np.intp] | None,
        callback: Callable[[Any, int], None] | None,
    ) -> Self:
        """Train on checked `x [N, D]`, class indices or targets as given, weights and groups, `[N]`."""
        self._check_settings()
        warn_of_small_weights(weight, type(self).__name__)
        self._remember_rows(x, targets, weight)
        self.effective_observations_ = counted_observations(self, x, targets, weight, groups)
        x, targets, weight, groups = merged_rows(x, targets, weight, groups)
        targets = self._scaled_targets(targets, weight)
        weight = weight * (self.effective_observations_ / weight.sum())
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        self.input_mean_, self.input_scale_ = weighted_moments(x, weight)
        self.head_settings_ = self._sizes(len(x)) | self._head_settings() | {"dtype": self.dtype}
        engine = self._engine(x.shape[1])
        engine.reset()
        rows = self._place(engine, Rows(x, targets, weight, self.input_mean_, self.input_scale_, groups), rng)
        full_batch = self._takes_full_batch(len(x))
        total = self.max_iterations or (self._lbfgs_iterations if full_batch else self._adam_iterations)
        monitor = FitMonitor(
            engine,
            num_data=float(weight.sum()),
            total=total,
            verbose=self.verbose,
            log_dir=self.log_dir,
            publish=lambda: self._publish(engine),
            callback=None if callback is None else lambda iteration: callback(self, iteration),
        )
        with monitor:
            if full_batch:
                kept = self._fit_full_batch(engine, rows, monitor, total)
            else:
                kept = self._fit_mini_batch(engine, rows, monitor, total, rng)
        self._publish(engine)
        self.learning_curve_: list[CurvePoint] = monitor.curve
        self.n_iter_, self.kept_iteration_ = max(monitor.iteration, 1), kept
        self._look(engine, rows.subset(np.sort(rng.permutation(len(x))[:LOOKED_AT])))
        return self

    def _place(self, engine: Engine, rows: Rows, rng: np.random.Generator) -> Rows:
        """Place the head at a sample of the rows; return them with the cross-fitted logits of its layer.

        The logits are left out where a layer was fitted to a part of the rows.
        """
        head, sample = engine.head, rows
        if len(rows) > PLACEMENT_ROWS:
            sample = rows.subset(rng.choice(len(rows), PLACEMENT_ROWS, replace=False))
        placed = sample.standardised
        self._start_seed = seed = int(rng.integers(2**31 - 1))
        head.initialize(placed, seed=seed)
        layer = linear_layer_of(head, placed, sample.y, sample.weight, sample.groups)
        if layer is not None and head.linear_mean is not None:
            head.linear_mean.start_from(layer.kernel, layer.bias, covariance=layer.covariance)
        head.initialize_from_labels(placed, sample.y, seed=seed)
        if layer is None or sample is not rows:
            return rows
        return replace(rows, logits=layer.logits, logit_variance=layer.logit_variance)

    def _fit_full_batch(self, engine: Engine, rows: Rows, monitor: FitMonitor, total: int) -> int:
        """Learn from all rows at once; return the iteration whose weights are kept."""
        points = engine.points(rows.standardised, rows.y, rows.weight, rows.logits, rows.logit_variance)
        seed = self._start_seed
        choose_start(engine, points, monitor, max_iterations=total, tolerance=self.tolerance, seed=seed)
        points = points._replace(expert=engine.assign(points.x))
        fit_full_batch(engine, points, monitor, max_iterations=total, tolerance=self.tolerance)
        self._fit_temperature(engine, points, rows.groups, seed)
        return max(monitor.iteration, 1)

    def _look(self, engine: Engine, rows: Rows) -> None:
        """Warn where some rows are predicted no better than without inputs; say what the linear mean does."""
        outputs, head = self._outputs_of(rows.x), engine.head
        warn_if_nothing_learned(
            outputs, rows.x, rows.y, rows.weight, is_class=head.is_classifier, name=type(self).__name__
        )
        share = linear_share(head.linear_mean, tf.constant(rows.standardised, engine.dtype), outputs)
        if share is not None:
            self.linear_share_ = share

    def _remember_rows(self, x: FloatArray, targets: FloatArray, weight: FloatArray) -> None:  # noqa: ARG002 - estimators that leave rows out digest targets and weights, too
        """Keep what later calls with the rows of the fit are checked by."""
        self.num_rows_ = len(x)

    def _fit_temperature(
        self, engine: Engine, points: Points, groups: npt.NDArray[np.intp] | None, seed: int
    ) -> None:
        """Find the temperature of a fitted classifier; nothing elsewhere."""

    def _fit_mini_batch(
        self,
        engine: Engine,
        rows: Rows,
        monitor: FitMonitor,
        total: int,
        rng: np.random.Generator,
    ) -> int:
        """Learn from mini-batches; return the iteration whose weights are kept, 0 for those of the start."""
        training, held_out = self._divided(rows, rng)
        return self._learn(engine, training, held_out, monitor, total, rng)

    def _divided(self, rows: Rows, rng: np.random.Generator) -> tuple[Rows, Rows | None]:
        """Return the rows to train on, and those held out for early stopping, None without it."""
        if not self.early_stopping or len(rows) < 2:
            return rows, None
        size = min(max(int(self.validation_fraction * len(rows)), 1), MAX_HELD_OUT)
        order, size = shuffled(len(rows), rows.groups, size, rng)
        return rows.subset(np.sort(order[size:])), rows.subset(np.sort(order[:size]))

    def _learn(
        self,
        engine: Engine,
        training: Rows,
        held_out: Rows | None,
        monitor: FitMonitor,
        total: int,
        rng: np.random.Generator,
        stop_after: int | None = None,
    ) -> int:
        """Start from a sample of the rows and go on by mini-batches.

        Args:
            engine: Its head is placed at the data; on return it holds the result.
            training: Rows to learn from.
            held_out: Rows to choose the weights by; None to keep the last ones.
            monitor: What every iteration is reported to.
            total: Iterations of the schedule.
            rng: Draws the sample and the batches.
            stop_after: Ends the fit after so many iterations; None for the whole schedule.

        Returns:
            After how many iterations the weights that are kept were there.
        """
        self._warm_start(engine, training, rng)
        batch_size = min(self.batch_size, len(training))
        return fit_mini_batch(
            engine,
            training,
            held_out,
            monitor,
            batch_size=batch_size,
            max_iterations=total,
            learning_rate=self.learning_rate,
            rng=rng,
            steps=self._training_steps(engine, len(training) / batch_size, total),
            judge=self._judge(),
            may_replace_start=self._may_replace_start(),
            first_look=self._first_look,
            stop_after=stop_after,
            before_first_step=self._before_first_step(engine, rng),
        )

    def _warm_start(self, engine: Engine, rows: Rows, rng: np.random.Generator) -> None:
        """Start a fit by mini-batches from one of a sample of the rows."""
        warm_start(engine, rows, rng)

    def _before_first_step(
        self,
        engine: Engine,  # noqa: ARG002 - subclasses build their step on it
        rng: np.random.Generator,  # noqa: ARG002 - AutoGP sets its components apart by it
    ) -> Callable[[], None] | None:
        """Return what changes the start for the first step on a mini-batch: nothing."""
        return None

    def _judge(self) -> Judge:
        """Return what is looked at of the held-out rows: the log density of each."""
        return log_densities

    def _may_replace_start(self) -> MayReplaceStart | None:
        """Return the test that weights must pass to replace those a fit by mini-batches starts from."""
        return None

    def _training_steps(
        self,
        engine: Engine,
        steps_per_epoch: float,  # noqa: ARG002 - subclasses need it
        total: int,  # noqa: ARG002 - deep GPs lay the fall of their steps over it
    ) -> TrainingSteps:
        """Return what an iteration on a mini-batch does."""
        return BoundSteps(engine.adam_step)

    def _check_settings(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {OPTIMIZERS}, but is {self.optimizer!r}.")
        if not isinstance(self.early_stopping, bool | np.bool_):
            raise ValueError(f"early_stopping must be True or False, but is {self.early_stopping!r}.")
        for name in ("batch_size", "max_iterations"):
            value = getattr(self, name)
            if value is None and name == "max_iterations":
                continue
            if not is_count(value):
                raise ValueError(f"{name} must be a positive integer, but is {value!r}.")
        for name in ("learning_rate", "tolerance", "global_weight"):
            value = getattr(self, name, 1.0)
            if not isinstance(value, Real) or not 0.0 <= float(value) < math.inf:
                raise ValueError(f"{name} must be a finite number from 0, but is {value!r}.")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be positive, but is {self.learning_rate!r}.")
        check_effective_observations(self.effective_observations)
        if not 0.0 < float(self.validation_fraction) < 1.0:
            raise ValueError(
                f"validation_fraction must lie between 0 and 1, but is {self.validation_fraction!r}."
            )

    def _sizes(self, num_rows: int) -> dict[str, Any]:
        return {"num_inducing": default_num_inducing(self.num_inducing, num_rows)}

    def _takes_full_batch(self, num_rows: int) -> bool:
        if self.optimizer != "auto":
            return self.optimizer == "lbfgs"
        return num_rows * self._values_per_row() <= FULL_BATCH_VALUES

    def _values_per_row(self) -> float:
        """Return how many values full-batch training keeps for each row, in units of one of M features."""
        settings = self.head_settings_
        classes = settings.get("num_classes", 2)
        if classes == 2:
            return float(settings["num_inducing"])
        # One latent function for each of more than two classes, and the nodes of their expectations.
        return classes * max(settings["num_inducing"], 128) / 4

    def _engine(self, num_features: int) -> Engine:
        return engine_for(self._model, self.head_settings_, num_features)

    def _publish(self, engine: Engine) -> None:
        """Take over what the engine's head has learned."""
        self.weights_: list[npt.NDArray[Any]] = engine.head.get_weights()
        self.n_experts_ = len(engine.head.active_experts)

    def _trained_engine(self) -> Engine:
        engine = self._engine(self.n_features_in_)
        engine.set_weights(self.weights_)
        return engine

    def _outputs(self, X: Any) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs of the head, in its own units, and `expert`, for rows of any number."""
        check_is_fitted(self)
        return self._outputs_of(checked_rows(self, X, reset=False, dtype=[np.float64, np.float32]))

    def _outputs_of(self, x: FloatArray) -> dict[str, npt.NDArray[Any]]:
        """Return `_outputs` of checked rows."""
        engine = self._engine(self.n_features_in_)
        parts = []
        values = self.head_settings_.get("num_classes", 1) * engine.head.samples_per_point
        rows = max(CHUNK // values, 64)
        for start in range(0, len(x), rows):
            block = x[start : start + rows] - self.input_mean_
            block /= self.input_scale_
            outputs, expert = engine.predict_by(self.weights_, tf.constant(block, engine.dtype))
            parts.append(
                {name: value.numpy() for name, value in outputs.items()} | {"expert": expert.numpy()}
            )
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def bound(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return L1 of the fitted model at data, in nats, with q as it is: what training maximised.

        Args:
            X: Inputs `[N, D]`.
            y: Labels or targets `[N]`.
            sample_weight: How often each row counts, `[N]`.

        Returns:
            The bound of thesis (4.20), (3.28); standardised targets in regression. Rows count in full, and
            the penalty of the lengthscales' prior is subtracted. With `hidden_kl_weight` below 1 it is the
            DFGP's tempered objective, which bounds nothing.
        """
        check_is_fitted(self)
        x, y = checked_rows(self, X, y, reset=False, dtype=np.float64)
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64)
        engine = self._trained_engine()
        points = engine.points((x - self.input_mean_) / self.input_scale_, self._targets(y), weight)
        value, _ = engine.joint_bound(tf.constant(engine.flat(engine.all_variables), engine.dtype), points)
        return -float(value)

    def summary(self) -> str:
        """Return a table of what was learned; its numbers: `gpmodels.estimators.fitting.summary.describe`."""
        return str(describe(self))

    def _latent_covariance(self, X: Any, expert: npt.NDArray[np.integer[Any]]) -> FloatArray:
        """Return the covariance of the latent functions between rows, in the head's units, `[P, N, N]`."""
        x = checked_rows(self, X, reset=False, dtype=[np.float64, np.float32])
        engine = self._engine(self.n_features_in_)
        engine.set_weights(self.weights_)
        features = tf.constant((x - self.input_mean_) / self.input_scale_, engine.dtype)
        return joint_covariance(engine.head, features, expert)

    def _scaled_targets(
        self,
        targets: FloatArray,
        weight: FloatArray,  # noqa: ARG002 - the regressors need it
    ) -> FloatArray:
        """Return class indices or targets `[N]` in the head's units, and keep what these units are."""
        return targets

    @abc.abstractmethod
    def _targets(self, y: npt.NDArray[Any]) -> FloatArray:
        """Return the labels or targets in the head's units."""


@dataclass(kw_only=True, repr=False, eq=False)
class ConjugateEstimator(SparseGPEstimator, abc.ABC):
    """Base class of the estimators whose units have the columns themselves as inputs."""

    _of_head: ClassVar[tuple[str, ...]] = ("mean", "lengthscale_spread")

    mean: str = "linear"
    lengthscale_spread: float | None = 0.5

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.mean not in MEANS:
            raise ValueError(f"mean must be one of {MEANS}, but is {self.mean!r}.")
        spread = self.lengthscale_spread
        is_number = isinstance(spread, Real) and not isinstance(spread, bool)
        if spread is not None and not (is_number and 0.0 < float(spread) < math.inf):
            raise ValueError(f"lengthscale_spread must be positive or None, but is {spread!r}.")


@dataclass(kw_only=True, repr=False, eq=False)
class ExpertsEstimator(ConjugateEstimator, abc.ABC):
    """Base class of the estimators with gated experts."""

    _fewest_experts: ClassVar[int] = 0

    num_experts: int | str = "auto"
    e_step: str = "hard"

    def _sizes(self, num_rows: int) -> dict[str, Any]:
        return {
            **super()._sizes(num_rows),
            "num_experts": default_num_experts(self.num_experts, num_rows, fewest=self._fewest_experts),
            "e_step": self.e_step,
        }


@dataclass(kw_only=True, repr=False, eq=False)
class HierarchicalEstimator(ExpertsEstimator, abc.ABC):
    """Base class of the estimators with a global unit and gated experts."""

    _model: ClassVar[str] = "hgp"
    _of_head: ClassVar[tuple[str, ...]] = ("global_weight", "expert_variance")

    num_expert_inducing: int | None = None
    global_weight: float = 1.0
    expert_variance: str = "full"

    def _sizes(self, num_rows: int) -> dict[str, Any]:
        return super()._sizes(num_rows) | expert_size(self.num_expert_inducing, num_rows)
