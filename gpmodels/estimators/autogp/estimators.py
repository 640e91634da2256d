"""AutoGP: classifier and regressor that can learn their hyper-parameters by leaving out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from gpmodels.autogp.head import AutoGPHead
from gpmodels.estimators.autogp.alternation import OBJECTIVES, AlternatingSteps, require_papers_term
from gpmodels.estimators.autogp.refit import refit_posterior_by_chunks
from gpmodels.estimators.fitting.engine import Engine, FloatArray, engine_for
from gpmodels.estimators.fitting.mini_batch import (
    WARM_START_ITERATIONS,
    WARM_START_ROWS,
    BoundSteps,
    Judge,
    MayReplaceStart,
    Rows,
    TrainingSteps,
    log_densities,
    quiet_monitor,
    warm_start,
)
from gpmodels.estimators.fitting.monitoring import FitMonitor
from gpmodels.estimators.fitting.starts import choose_start
from gpmodels.estimators.sparse.base import ConjugateEstimator
from gpmodels.estimators.sparse.classifiers import LIKELIHOODS, _GPClassifier
from gpmodels.estimators.sparse.leave_one_out import LeavesOneOutClassifier, LeavesOneOutRegressor
from gpmodels.estimators.sparse.regressors import _GPRegressor
from gpmodels.estimators.sparse.temperature import (
    best_temperature,
    check_temperature,
    class_log_probabilities,
    temperature_by_folds,
    tempered_log_probabilities,
)
from gpmodels.heads.conjugate import SitePair
from gpmodels.heads.gp import GPHead, Points
from gpmodels.statistics.paired_difference import paired_gain
from gpmodels.units.counts import is_count
from gpmodels.units.sparse import InducingUnits

SVGP_SETTINGS = (
    *("num_inducing", "kernel", "kernel_depth", "mean", "lengthscale_spread"),
    *("num_classes", "likelihood", "class_kernels", "dtype"),
)
"""Settings that an AutoGP head shares with the SVGP head that it starts from."""

MIN_STANDARD_ERRORS = 3.0
"""Standard errors of their gain by which held-out rows must prefer other weights; they are asked 40 times."""

UNSEEN_ROW_LOSS = 10.0
"""Nats that one row of which the held-out rows have no like can lose; -log p of 10 and more was seen."""

ROWS_LEARNED_AGAIN = 10_000
"""Up to so many rows are all learned from in a second fit; to more, the held-out fifth adds little."""


def is_clear_gain(densities: FloatArray, at_start: FloatArray, held_out: Rows) -> bool:
    """Return whether held-out rows clearly prefer other weights to those of the SVGP that a fit starts from.

    A posterior that learning by leaving out has held may have short tails: it predicts most rows better, and
    a few very badly. Rows of a kind that comes once in n rows may be missing among n held-out rows. So the
    gain must be clear, and larger than what one more row could lose.

    Args:
        densities: Log density of each held-out row, nats, `[N]`.
        at_start: The same by the SVGP, `[N]`.
        held_out: The rows, whose groups count as one observation each.

    Example:
        >>> rows = Rows(np.zeros([100, 1]), np.zeros(100), np.ones(100), np.zeros(1), np.ones(1))
        >>> is_clear_gain(np.full(100, 0.05), np.zeros(100), rows)
        False
        >>> is_clear_gain(np.full(100, 0.5), np.zeros(100), rows)
        True
    """
    gain = paired_gain(densities, at_start, held_out.weight, held_out.groups)
    return gain.mean > max(MIN_STANDARD_ERRORS * gain.standard_error, UNSEEN_ROW_LOSS / gain.num_effective)


@dataclass(kw_only=True, repr=False, eq=False)
class _AutoGP(ConjugateEstimator):
    """What classifier and regressor share."""

    _model: ClassVar[str] = "autogp"
    _of_head: ClassVar[tuple[str, ...]] = ("num_components", "posterior", "entropy")
    _adam_iterations: ClassVar[int] = 4000
    _learned_flags: ClassVar[tuple[str, ...]] = ("posterior_is_solved_",)

    mean: str = "none"  # leaving rows out of a layer that learns with the kernel has not been measured
    num_components: int = 1
    posterior: str = "full"
    entropy: str = "pairwise"
    objective: str = "loo"
    block_epochs: int = 50
    validation_fraction: float = 0.2

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective must be one of {OBJECTIVES}, but is {self.objective!r}.")
        for name in ("num_components", "block_epochs"):
            if not is_count(getattr(self, name)):
                raise ValueError(f"{name} must be a positive integer, but is {getattr(self, name)!r}.")
        if self.optimizer == "lbfgs" and self.objective != "elbo":
            raise ValueError(
                f"objective={self.objective!r} alternates two objectives on mini-batches, which "
                "optimizer='lbfgs' cannot. Leave optimizer at 'auto', or choose objective='elbo'."
            )

    def _takes_full_batch(self, num_rows: int) -> bool:  # noqa: ARG002 - the base class has it
        return self.optimizer == "lbfgs"

    def _warm_start(self, engine: Engine, rows: Rows, rng: np.random.Generator) -> None:
        """Start from an SVGP fitted to a sample of the rows, whose posterior follows from sites."""
        head = _autogp_head(engine)
        settings = {name: value for name, value in self.head_settings_.items() if name in SVGP_SETTINGS}
        start = engine_for("svgp", settings, self.n_features_in_)
        start.reset()
        _copy_kernel(head.unit, start.head.posterior_units[0])
        _copy_mean(head, start.head)
        if len(rows) <= WARM_START_ROWS:
            # The sample is all there is, and the start may be what is kept: it is fitted as an SVGP is.
            steps = self.max_iterations or self._adam_iterations
            most = max(min(self._lbfgs_iterations, steps), WARM_START_ITERATIONS)
            points = start.points(rows.standardised, rows.y, rows.weight, rows.logits, rows.logit_variance)
            quiet = quiet_monitor(start, len(rows))
            choose_start(
                start, points, quiet, max_iterations=most, tolerance=self.tolerance, seed=self._start_seed
            )
            warm_start(start, rows, rng, max_iterations=most, tolerance=self.tolerance)
        else:
            warm_start(start, rows, rng)
        _copy_start(start, head)

    def _fit(
        self,
        x: FloatArray,
        targets: FloatArray,
        weight: FloatArray,
        groups: npt.NDArray[np.intp] | None,
        callback: Callable[[Any, int], None] | None,
    ) -> Self:
        self.posterior_is_solved_, self._held_temperature = self.num_components == 1, 1.0
        return super()._fit(x, targets, weight, groups, callback)

    def _fit_mini_batch(
        self, engine: Engine, rows: Rows, monitor: FitMonitor, total: int, rng: np.random.Generator
    ) -> int:
        """Learn with rows held out, then from all few rows for as long as those held out chose."""
        if self.objective == "loo_paper":
            require_papers_term(_autogp_head(engine))
        placed = engine.head.get_weights()
        training, held_out = self._divided(rows, rng)
        learns_again = held_out is not None and len(rows) <= ROWS_LEARNED_AGAIN
        if learns_again:
            # Of few rows many have an inducing input near them: held-out rows would judge places where the
            # posterior is tame, unlike those of new rows.
            engine.head.initialize(training.standardised, seed=int(rng.integers(2**31 - 1)))
        kept = self._learn(engine, training, held_out, monitor, total, rng)
        if held_out is not None:
            densities, self._held_temperature = self._judged(engine, held_out)
            if self.posterior_is_solved_ and kept:
                self.posterior_is_solved_ = self._solving_is_no_worse(engine, training, held_out, densities)
            if learns_again:
                engine.set_weights(placed)
                # As many epochs of as many blocks, at the same learning rates: more rows take more steps.
                longer = _steps_per_epoch(rows, self.batch_size) / _steps_per_epoch(training, self.batch_size)
                steps, quiet = round(longer * kept), quiet_monitor(engine, len(rows))
                self._learn(engine, rows, None, quiet, round(longer * total), rng, stop_after=steps)
        if self.posterior_is_solved_:
            refit_posterior_by_chunks(engine, rows)
            self._fit_temperature_by_folds(engine, rows, int(rng.integers(2**31 - 1)))
        return kept

    def _fit_temperature_by_folds(self, engine: Engine, rows: Rows, seed: int) -> None:
        """Find the temperature of a classifier whose posterior is solved; nothing in regression."""

    def _solving_is_no_worse(self, engine: Engine, training: Rows, held_out: Rows, held: FloatArray) -> bool:
        """Return whether held-out rows like the best posterior of the others as much as the one held."""
        chosen = engine.head.get_weights()
        refit_posterior_by_chunks(engine, training)
        solved, _ = self._judged(engine, held_out)
        engine.set_weights(chosen)
        return paired_gain(held, solved, held_out.weight).mean <= 0.0

    def _before_leaving_out(self, engine: Engine, rows: Rows) -> None:
        """Solve the posterior, which the held-out rows may have preferred as it was held."""
        refit_posterior_by_chunks(engine, rows)

    def _solve_without(self, engine: Engine, rows: Rows, _points: Points, _sites: SitePair | None) -> None:
        refit_posterior_by_chunks(engine, rows)

    def _may_replace_start(self) -> MayReplaceStart:
        """Return the test that weights must pass to replace those of the SVGP that the fit starts from."""
        return is_clear_gain

    def _judge(self) -> Judge:
        """Return what held-out rows are judged by: their densities at the classifier's temperature."""
        return lambda engine, rows: self._judged(engine, rows)[0]

    def _judged(self, engine: Engine, rows: Rows) -> tuple[FloatArray, float]:
        """Return the log density of each held-out row, nats, and the temperature of it: 1 in regression."""
        return log_densities(engine, rows), 1.0

    def _before_first_step(self, engine: Engine, rng: np.random.Generator) -> Callable[[], None] | None:
        """Return what sets several components apart; held-out rows judge the start as the SVGP it is."""
        head = _autogp_head(engine)
        return lambda: head.set_apart(rng)

    def _engine_to_leave_out_by(self) -> Engine:
        """Return the trained engine, or one of a single component with its kernel and likelihood.

        A site cannot be divided out of several components that no solution of the bound's conditions has
        placed: β v_g may be above 1. `_before_leaving_out` finds the best single one.
        """
        engine = self._trained_engine()
        if self.head_settings_["num_components"] == 1:
            return engine
        head = _autogp_head(engine)
        single = engine_for(self._model, {**self.head_settings_, "num_components": 1}, self.n_features_in_)
        single.reset()
        target = _autogp_head(single)
        _copy_kernel(head.unit, target.unit)
        _copy_likelihood(head, target)
        _copy_mean(head, target)
        return single

    def _training_steps(self, engine: Engine, steps_per_epoch: float, total: int) -> TrainingSteps:
        if self.objective == "elbo":
            return BoundSteps(engine.adam_step)
        # At least one block of each objective, however short the fit.
        block = max(min(round(self.block_epochs * steps_per_epoch), total // 2), 1)
        return AlternatingSteps(engine, is_papers=self.objective == "loo_paper", block=block)


def _autogp_head(engine: Engine) -> AutoGPHead:
    if not isinstance(engine.head, AutoGPHead):
        raise TypeError(f"An AutoGP estimator needs an AutoGPHead, but has {engine.head.name}.")
    return engine.head


def _steps_per_epoch(rows: Rows, batch_size: int) -> float:
    return len(rows) / min(batch_size, len(rows))


def _copy_kernel(source: InducingUnits, target: InducingUnits) -> None:
    """Give units the inducing inputs and the kernel of others."""
    for name in ("inducing_inputs", "lengthscales", "typical_lengthscales", "variance", "bias"):
        if (value := getattr(source, name)) is not None:
            getattr(target, name).assign(value.numpy())


def _copy_likelihood(source: GPHead, target: GPHead) -> None:
    """Give a head the likelihood's parameters of another."""
    for ours, theirs in zip(target.likelihood.parameters, source.likelihood.parameters, strict=True):
        ours.assign(theirs.numpy())


def _copy_mean(source: GPHead, target: GPHead) -> None:
    """Give a head the linear mean of another, if they have one."""
    if source.linear_mean is None or target.linear_mean is None:
        return
    for ours, theirs in zip(target.linear_mean.parameters, source.linear_mean.parameters, strict=True):
        ours.assign(theirs.numpy())


def _copy_start(start: Engine, head: AutoGPHead) -> None:
    """Give a head the kernel, likelihood and posterior of a fitted SVGP, every component the same."""
    unit = start.head.posterior_units[0]
    _copy_kernel(unit, head.unit)
    _copy_likelihood(start.head, head)
    _copy_mean(start.head, head)
    means = np.broadcast_to(unit.q_mean.numpy()[0][:, None], head.posterior.q_mean.shape)
    head.posterior.q_mean.assign(means)
    roots = np.broadcast_to(unit.q_sqrt.numpy()[0][:, None], head.posterior.dense_roots().shape)
    if head.posterior.is_diagonal:
        roots = np.linalg.norm(roots, axis=-1)
    head.posterior.q_sqrt.assign(roots)


@dataclass(kw_only=True, repr=False, eq=False)
class AutoGPClassifier(_AutoGP, LeavesOneOutClassifier, _GPClassifier):  # the first one's defaults count
    """Sparse GP classifier whose hyper-parameters are learned by leaving out, for probabilities that hold.

    It starts from an SVGP on a sample of the rows, and goes on by Adam on mini-batches: blocks of epochs on
    the bound, which fit the posterior, in turn with blocks on the leave-one-out density of the training rows,
    which fit the kernel while the posterior of the inducing values stays. That can overfit some thousand
    rows, so that rows are held out to stop by (`early_stopping`): other weights replace the start only where
    these rows clearly prefer them, which takes some thousand rows. They also say whether the posterior of one
    component is solved anew at the end, or stays as it was held. Up to 10,000 rows are then all learned from
    in a second fit, for as many epochs as those held out chose.

    Args:
        objective: `"loo"`, leaving rows out through their sites; `"elbo"`, the bound alone; `"loo_paper"`,
            the paper's -log E[1/p], which exists for softmax, logistic and robust max.
        block_epochs: Epochs of a block of either objective. Leaving out gains slowly, and the bound takes
            much of it back: rows held out of MNIST preferred 50 to 20. The paper's experiments have 100.
        num_components: K, Gaussians in the posterior.
        posterior: `"full"` or `"diagonal"` covariance of each.
        entropy: `"pairwise"` or `"jensen"`, see `gpmodels.AutoGPHead`.
        num_inducing: M, `"auto"` for 2.5 % of the rows within 50 and 250.
        kernel: As of `gpmodels.SVGPClassifier`.
        kernel_depth: Layers of an arc-cosine kernel.
        mean: As of `gpmodels.SVGPClassifier`.
        lengthscale_spread: As of `gpmodels.SVGPClassifier`.
        likelihood: `"auto"`, which is logistic for two classes and a softmax for more; or `"bernoulli"`,
            `"logistic"`, `"softmax"`, `"robust_max"`.
        class_kernels: `"shared"`, or `"separate"` for one kernel of each class.
        temperature: `"auto"` for the temperature that left-out rows ask for: of up to 10,000 rows by folds,
            see `gpmodels.estimators.sparse.temperature`, of more by `leave_one_out`; where the posterior was
            not solved anew, that of the rows held out for early stopping, and 1 if there are none. A number
            sets it.
        optimizer: `"auto"` or `"adam"` for mini-batches; `"lbfgs"` for the bound on all rows.
        max_iterations: Steps; None takes 4000. The second fit, which the progress bar, TensorBoard and the
            callback do not see, takes up to as many again.
        learning_rate: Learning rate of Adam, at the start of its cosine schedule.
        batch_size: Rows of a step.
        tolerance: Of L-BFGS.
        effective_observations: As of `gpmodels.SVGPClassifier`.
        early_stopping: Whether rows are held out, which choose the weights: the best ones, where these are
            clearly better than the start's.
        validation_fraction: Share of the rows held out.
        class_weight: `"balanced"`, or `{label: weight}`.
        random_state: Seed.
        dtype: `"float64"` or `"float32"`.
        verbose: 1 shows a progress bar.
        log_dir: Folder for TensorBoard.

    Attributes:
        classes_: Labels, sorted.
        temperature_: Temperature of the probabilities.
        posterior_is_solved_: Whether the posterior is the best one at the rows, which several components
            never are. Where it is not, `leave_one_out` and `suspicious_labels` solve one of a single
            component for themselves, and speak of that. None where an earlier release wrote the file, which
            does not say.
        kept_iteration_: Step whose weights the held-out rows chose, the last one where none were held out; 0
            where they chose the start.
        n_iter_: Steps done with rows held out; the second fit takes fewer.
        learning_curve_: One `gpmodels.estimators.fitting.monitoring.CurvePoint` for each of these steps. Its
            bound is the objective of its block, and its `validation` is at the temperature of the held-out
            rows.
        weights_: What was learned.

    Source:
        Krauth, Bonilla, Cutajar and Filippone (2017), AutoGP, section 4 and Algorithm 1; docs/theory.md,
        "AutoGP", tells what differs.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = AutoGPClassifier(num_inducing=10, max_iterations=40, random_state=0).fit(X, y)
        >>> model.leave_one_out(X, y).mean() > -0.3
        True
    """

    likelihood: str = "auto"
    temperature: float | str = "auto"

    def _check_settings(self) -> None:
        super()._check_settings()
        check_temperature(self.temperature)

    def _fit(
        self,
        x: FloatArray,
        targets: FloatArray,
        weight: FloatArray,
        groups: npt.NDArray[np.intp] | None,
        callback: Callable[[Any, int], None] | None,
    ) -> Self:
        super()._fit(x, targets, weight, groups, callback)
        if hasattr(self, "temperature_"):
            return self
        if self.temperature != "auto":
            self.temperature_ = float(self.temperature)
        elif self.posterior_is_solved_:
            logs = self._left_out_rows(x, targets, weight, self._log_probabilities_of)
            self.temperature_ = self._best_temperature(logs, targets.astype(np.intp), weight)
        else:
            self.temperature_ = self._held_temperature
        return self

    def _fit_temperature(
        self, engine: Engine, points: Points, groups: npt.NDArray[np.intp] | None, seed: int
    ) -> None:
        """Find the temperature after a fit to all rows at once."""
        if self.posterior_is_solved_:
            x, label, weight = (part.numpy() for part in points[:3])
            nothing, one = np.zeros(x.shape[1]), np.ones(x.shape[1])
            self._fit_temperature_by_folds(engine, Rows(x, label, weight, nothing, one, groups), seed)

    def _fit_temperature_by_folds(self, engine: Engine, rows: Rows, seed: int) -> None:
        if self.temperature != "auto" or len(rows) > ROWS_LEARNED_AGAIN:
            return
        with engine.unchanged():

            def leave_out(held_out: npt.NDArray[np.bool_]) -> None:
                refit_posterior_by_chunks(engine, rows.subset(np.flatnonzero(~held_out)))

            self.temperature_ = temperature_by_folds(
                engine,
                rows.standardised,
                rows.y.astype(np.intp),
                rows.weight,
                rows.groups,
                leave_out,
                seed=seed,
                logits=rows.logits,
            )

    def _best_temperature(self, logs: FloatArray, classes: npt.NDArray[np.intp], weight: FloatArray) -> float:
        """Return the temperature that left-out rows ask for, which count as the rows of the fit did."""
        return best_temperature(logs, classes, weight * (self.effective_observations_ / weight.sum()))

    def _left_out_log_probabilities(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> FloatArray:
        """Return log p_c of each row by what the others say.

        Where the fit kept another posterior than the solved one, which this is of, the model's temperature
        is not for it, and it is at the temperature that the left-out rows ask for.
        """
        logs = self._left_out(X, y, sample_weight, groups, self._log_probabilities_of)
        if self.temperature != "auto" or self.posterior_is_solved_:
            return tempered_log_probabilities(logs, self.temperature_)
        labels = column_or_1d(y)
        weight = self._row_weight(labels, _check_sample_weight(sample_weight, X, dtype=np.float64))
        return tempered_log_probabilities(
            logs, self._best_temperature(logs, self._class_indices(labels), weight)
        )

    def _judged(self, engine: Engine, rows: Rows) -> tuple[FloatArray, float]:
        """Return the log density of each held-out row, nats, and the temperature of it.

        That is the one that these rows ask for, where the classifier gets such a one: weights are not better
        because they are surer, which a temperature mends.
        """
        x, label, weight = (part.numpy() for part in rows.take(slice(None), engine.dtype))
        logs, own = class_log_probabilities(engine, x), label.astype(np.intp)
        automatic = self.temperature == "auto"
        temperature = best_temperature(logs, own, weight) if automatic else float(self.temperature)
        return tempered_log_probabilities(logs, temperature)[np.arange(len(own)), own], temperature

    def _head_settings(self) -> dict[str, Any]:
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood must be one of {LIKELIHOODS}, but is {self.likelihood!r}.")
        automatic = "logistic" if len(self.classes_) == 2 else "softmax"
        return {
            **super()._head_settings(),
            "num_classes": len(self.classes_),
            "likelihood": automatic if self.likelihood == "auto" else self.likelihood,
            "class_kernels": self.class_kernels,
        }


@dataclass(kw_only=True, repr=False, eq=False)
class AutoGPRegressor(_AutoGP, LeavesOneOutRegressor, _GPRegressor):
    """Sparse GP regressor whose hyper-parameters are learned by leaving out.

    Parameters as for `AutoGPClassifier`, without those of the classes; `objective="loo_paper"` exists only
    where the posterior's variance stays below the noise.

    Attributes:
        target_mean_: Mean of the targets.
        target_scale_: Their standard deviation.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> AutoGPRegressor(num_inducing=10, max_iterations=40, random_state=0).fit(X, y).score(X, y) > 0.3
        True
    """
