"""Deep Gaussian processes: classifier and regressor, with sparse layers or random features."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from gpmodels.estimators.deep.natural_gradient import NaturalGradientSteps, natural_gradient_step
from gpmodels.estimators.fitting.engine import Engine, engine_for
from gpmodels.estimators.fitting.mini_batch import CHUNK, BoundSteps, Rows, TrainingSteps
from gpmodels.estimators.fitting.rows import checked_rows
from gpmodels.estimators.fitting.sizes import default_num_inducing
from gpmodels.estimators.fitting.summary import aligned, reported_bound
from gpmodels.estimators.sparse.base import SparseGPEstimator
from gpmodels.estimators.sparse.classifiers import LIKELIHOODS, _GPClassifier
from gpmodels.estimators.sparse.regressors import _GPRegressor
from gpmodels.heads.layered import checked_layers
from gpmodels.heads.layers import FloatArray
from gpmodels.likelihoods.gaussian import GaussianLikelihood
from gpmodels.units.counts import is_count

FAMILIES = {"sparse": "deep_gp", "random_features": "random_features"}
"""Family of heads of each approximation, by its name in `gpmodels.registry`."""

COUNTS = ("num_layers", "num_features", "num_samples", "num_prediction_samples")
"""Settings that are positive integers."""

SOFTMAX_VARIANCE = 100.0
"""σ² with which the last layer starts under a softmax, whose logits lie about so far apart."""


START_NOISE_VARIANCE = 0.5
"""Noise with which a regression starts, of standardised targets.

Natural gradients take q of the last layer to the data within some ten steps, in which the noise hardly moves:
under less noise than there is, a few hundred rows are overfitted before it has grown.
"""


@dataclass(kw_only=True, repr=False, eq=False)
class _DeepGPEstimator(SparseGPEstimator):
    """What classifier and regressor share."""

    approximation: str = "sparse"
    num_layers: int = 2
    widths: Sequence[int] | None = None
    num_inducing: int = 100
    inner_kernels: str = "shared"
    num_features: int = 100
    frequencies: str = "fixed"
    mean_function: str = "linear"
    inner_noise: bool = False
    num_samples: int = 1
    num_prediction_samples: int = 16
    natural_gradient: float = 0.1
    max_iterations: int | None = 5000
    learning_rate: float = 0.01
    batch_size: int = 1000

    _model: ClassVar[str] = "deep_gp"
    _of_head: ClassVar[tuple[str, ...]] = (
        *("mean_function", "inner_noise", "num_samples", "num_prediction_samples"),
    )
    _first_look: ClassVar[int | None] = 10  # few rows are learned within some ten steps

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.optimizer == "lbfgs":
            raise ValueError(
                "A deep GP's bound is sampled, which optimizer='lbfgs' cannot follow, but it is set. Leave "
                "optimizer at 'auto'."
            )
        if self.approximation not in FAMILIES:
            raise ValueError(
                f"approximation must be one of {tuple(FAMILIES)}, but is {self.approximation!r}."
            )
        for name in COUNTS:
            value = getattr(self, name)
            if not is_count(value):
                raise ValueError(f"{name} must be a positive integer, but is {value!r}.")
        checked_layers(self.num_layers, self.widths)
        if self.approximation == "random_features" and self.inner_kernels != "shared":
            raise ValueError(
                f"inner_kernels={self.inner_kernels!r} is for approximation='sparse'; functions of a layer "
                "of random features share one kernel. Leave inner_kernels at 'shared'."
            )
        step = self.natural_gradient
        if not isinstance(step, Real) or not 0.0 <= float(step) <= 1.0:
            raise ValueError(
                "natural_gradient must be the length of a natural-gradient step, up to 1, or 0 for Adam "
                f"alone, but is {step!r}."
            )

    def _takes_full_batch(self, num_rows: int) -> bool:  # noqa: ARG002 - the base class has it
        return False

    def _sizes(self, num_rows: int) -> dict[str, Any]:
        if self.approximation == "sparse":
            num_inducing = default_num_inducing(self.num_inducing, num_rows)
            size: dict[str, Any] = {"num_inducing": num_inducing, "inner_kernels": self.inner_kernels}
        else:
            size = {"num_features": self.num_features, "frequencies": self.frequencies}
        widths = None if self.widths is None else tuple(int(width) for width in self.widths)
        return {**size, "num_layers": self.num_layers, "widths": widths}

    def _engine(self, num_features: int) -> Engine:
        return engine_for(FAMILIES[self.approximation], self.head_settings_, num_features)

    def _warm_start(
        self,
        engine: Engine,
        rows: Rows,  # noqa: ARG002 - L-BFGS of the base class needs them; a sampled bound has none
        rng: np.random.Generator,  # noqa: ARG002 - the base class draws the sample of its L-BFGS by it
    ) -> None:
        """Start the noise of a regression large."""
        likelihood = engine.head.likelihood
        if isinstance(likelihood, GaussianLikelihood):
            likelihood.noise_variance.assign(np.full(likelihood.noise_variance.shape, START_NOISE_VARIANCE))

    def _training_steps(
        self,
        engine: Engine,
        steps_per_epoch: float,
        total: int,
    ) -> TrainingSteps:
        """Return steps by natural gradients for the last layer's q, or by Adam on everything."""
        if self.natural_gradient > 0.0:
            return NaturalGradientSteps(
                natural_gradient_step(engine),
                length=float(self.natural_gradient),
                steps_per_epoch=steps_per_epoch,
                total=total,
            )

        def adam(batch: Any, num_data: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
            loss = engine.adam_step(batch, num_data, rate)
            engine.head.count_step()
            return loss

        return BoundSteps(adam)

    def bound(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the bound of the fitted model at data, nats, with the nodes of prediction for the noise.

        Args:
            X: Inputs `[N, D]`.
            y: Labels or targets `[N]`.
            sample_weight: How often each row counts, `[N]`.

        Returns:
            Σ E[log p(y | f)] - Σ_l KL_l; standardised targets in regression.
        """
        check_is_fitted(self)
        x, y = checked_rows(self, X, y, reset=False, dtype=np.float64)
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64)
        targets = self._targets(y)
        head = self._trained_engine().head
        rows = max(CHUNK // head.samples_per_point, 1)
        total = -float(head.penalty())
        for start in range(0, len(x), rows):
            block = slice(start, start + rows)
            scaled = tf.constant((x[block] - self.input_mean_) / self.input_scale_, head.compute_dtype)
            label = tf.constant(targets[block], head.compute_dtype)
            terms = head.expected_log_likelihood(head.latent(scaled), label)
            total += float(weight[block] @ terms.numpy())
        return total

    def sample_layers(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> list[FloatArray]:
        """Draw the functions of each layer at all rows together.

        Args:
            X: Inputs, `[N, D]`. With sparse layers time grows with W `n_samples` N³ and memory with W N²:
                draw for some hundred rows.
            n_samples: Number of draws.
            random_state: Seed of the draws, or a `RandomState`.

        Returns:
            The draws of each layer, `[n_samples, N, W_l]`, without the noise of the targets; `sample_y` of
            other regressors has its draws last, `[N, n_samples]`. Layers are in the units of standardised
            inputs, the last one in those of standardised targets or of logits.

        Raises:
            ValueError: `n_samples` is no positive whole number, or X is not what the model was fitted to.

        Example:
            >>> X, y = np.arange(20.0)[:, None], np.arange(20.0) > 9
            >>> model = DeepGPClassifier(num_inducing=5, max_iterations=20, random_state=0).fit(X, y)
            >>> [layer.shape for layer in model.sample_layers(X, 3)]
            [(3, 20, 1), (3, 20, 1)]
        """
        check_is_fitted(self)
        x = checked_rows(self, X, reset=False, dtype=np.float64)
        features = (x - self.input_mean_) / self.input_scale_
        layers: list[FloatArray] = self._trained_engine().head.sample_layers(
            features, n_samples, seed=random_state
        )
        return layers

    def summary(self) -> str:
        """Return a table of what was learned: each layer's width, divergence and lengthscales."""
        check_is_fitted(self)
        head = self._trained_engine().head
        rows = [["layer", "functions", "KL", "median lengthscale"]]
        widths = [*head.inner_widths, head.likelihood.num_latents]
        parts = zip(head.unit_names, widths, head.prior_kl().numpy(), head.lengthscales(), strict=True)
        rows += [[name, str(w), f"{kl:.2f}", f"{np.median(scale):.4g}"] for name, w, kl, scale in parts]
        bound, training = reported_bound(self)
        size = (
            f"{head.num_features} random features"
            if self.approximation == "random_features"
            else f"{head.num_inducing} inducing points"
        )
        return "\n".join(
            [
                f"{type(self).__name__}: {head.kernel_name} kernels, {head.likelihood_name} likelihood",
                f"{self.n_features_in_} features, {head.num_layers} layers, {size} each",
                f"bound {bound:.4f} nats per row of its batch {training}",
                "",
                *aligned(rows),
            ]
        )


@dataclass(kw_only=True, repr=False, eq=False)
class DeepGPClassifier(_DeepGPEstimator, _GPClassifier):
    """Deep Gaussian process classifier: layers of sparse GPs, or of random features.

    Training samples the inner layers. Adam moves everything but q of the last layer, which natural gradients
    move. Where one GP underfits and there are some thousand rows, two layers are worth a try; with a few
    hundred rows take `SVGPClassifier`.

    Args:
        approximation: `"sparse"`, or `"random_features"`, which is cheaper with many layers and less sure of
            its uncertainty, see `gpmodels.RandomFeatureHead`.
        num_layers: L; 1 is a single GP.
        widths: Functions of each of the L - 1 inner layers; None takes one for each column, at most 30.
        num_inducing: M of each layer, at most the number of rows; for `"sparse"`.
        inner_kernels: `"shared"`, or `"separate"` for a kernel of each function of a sparse inner layer, at
            about twice the time.
        num_features: R of each layer, for `"random_features"`.
        frequencies: `"fixed"` or `"learned"`, for `"random_features"`.
        kernel: Kernel of all layers, see `gpmodels.DeepGPHead` or `gpmodels.RandomFeatureHead`.
        mean_function: `"linear"`, or `"zero"` for inner layers that do not add their input.
        inner_noise: Whether inner layers add independent noise to each row.
        num_samples: Samples of each row in a training step.
        num_prediction_samples: Fixed nodes that a prediction averages over.
        natural_gradient: Length γ of the natural-gradient steps of the last layer's q at the start, up to 1.
            It falls to one over the batches of an epoch, where that is less; 0 leaves q to Adam.
        likelihood: `"auto"`; of two classes `"bernoulli"` or `"logistic"`, of more `"softmax"` or
            `"robust_max"`.
        class_kernels: `"shared"`, or `"separate"` for one kernel of each class in a sparse last layer.
        optimizer: `"auto"` or `"adam"`, which is the same here.
        max_iterations: Steps; None takes 10,000.
        learning_rate: Learning rate of Adam, at the start of its cosine schedule.
        batch_size: Rows of a step.
        tolerance: Of no use here.
        effective_observations: How many observations the rows count as: `"all"` of them; `"auto"`, where
            `fit` is given groups, as many as the rows of a group do not repeat; or a number.
        early_stopping: Whether rows are held out, training stops when their density stalls, and the best
            weights are kept.
        validation_fraction: Share of the rows held out.
        class_weight: `"balanced"`, or `{label: weight}`.
        random_state: Seed.
        dtype: `"float64"` or `"float32"`.
        verbose: 1 shows a progress bar.
        log_dir: Folder for TensorBoard.

    Attributes:
        classes_: Labels, sorted.
        effective_observations_: How many observations the rows counted as: the number set, what `"auto"`
            found, or N.
        n_iter_: Iterations done.
        kept_iteration_: Iteration whose weights were kept, the last one unless rows held out preferred
            another; 0 where they preferred the start, which predicts the same for all rows.
        learning_curve_: One `gpmodels.estimators.fitting.monitoring.CurvePoint` for each iteration.
        weights_: What was learned.

    Source:
        Salimbeni and Deisenroth (2017), Doubly stochastic variational inference for deep Gaussian processes;
        Cutajar et al. (2017), Random feature expansions for deep Gaussian processes.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = DeepGPClassifier(num_inducing=15, max_iterations=100, random_state=0).fit(X, y)
        >>> model.predict_proba(X[:2]).shape
        (2, 3)
    """

    likelihood: str = "auto"

    def _head_settings(self) -> dict[str, Any]:
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood must be one of {LIKELIHOODS}, but is {self.likelihood!r}.")
        num_classes = len(self.classes_)
        is_softmax = self.likelihood == "softmax" or (self.likelihood == "auto" and num_classes > 2)
        return {
            **super()._head_settings(),
            "num_classes": num_classes,
            "likelihood": None if self.likelihood == "auto" else self.likelihood,
            "class_kernels": self.class_kernels,
            "kernel_variance": SOFTMAX_VARIANCE if is_softmax else 1.0,
        }


@dataclass(kw_only=True, repr=False, eq=False)
class DeepGPRegressor(_DeepGPEstimator, _GPRegressor):
    """Deep Gaussian process regressor: layers of sparse GPs, or of random features.

    Parameters as for `DeepGPClassifier`, without those of the classes.

    Attributes:
        target_mean_: Mean of the targets.
        target_scale_: Their standard deviation.

    Source:
        Salimbeni and Deisenroth (2017); Cutajar et al. (2017).

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = DeepGPRegressor(num_inducing=15, max_iterations=1000, random_state=0).fit(X, y)
        >>> model.score(X, y) > 0.3
        True
    """
