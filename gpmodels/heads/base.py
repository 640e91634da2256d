"""What every output layer ("head") of a hybrid model does, whatever its mathematics.

A head maps feature vectors to a latent marginal, the marginal to predictions, and the marginal with a label
to its share of the objective. `gpmodels.HybridModel` and the export need nothing else.
"""

import abc
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.heads.points import PointBatch
from gpmodels.likelihoods.counts import CountLikelihood, log_count_probability
from gpmodels.likelihoods.multilabel import MultilabelLikelihood
from gpmodels.likelihoods.tempering import logits_of, tempered
from gpmodels.likelihoods.votes import VotesLikelihood
from gpmodels.units.bridge import GPflowLayer

_TEMPERATURE = "prediction_temperature"


@dataclass(frozen=True)
class Latent:
    """Marginals of the P latent functions at B points; P = 1 for two classes and for regression.

    A head whose latent functions are a mixture of S Gaussians (components of q, or samples of a layer below)
    gives `mean` and `variance` a leading axis S and the components' log weights; see
    `gpmodels.likelihoods.mixture`. A family that knows more of its points derives a record with more fields.

    TensorFlow sees a record of tensors (`tf.nest`), so that it may enter and leave a `tf.function`, a loop or
    a condition.

    Attributes:
        mean: μ of the latent functions that predict, `[B, P]`, or `[S, B, P]` of a mixture.
        variance: Their σ², of the same shape.
        log_weight: log w_s of the components, whose weights sum to 1 at each point, `[S, B]`; None where
            there is no axis S.
    """

    mean: tf.Tensor
    variance: tf.Tensor
    log_weight: tf.Tensor | None = None

    def __tf_flatten__(self) -> tuple[tuple[()], tuple[Any, ...]]:
        """Return no metadata and the fields, as `tf.nest` asks for."""
        return (), tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    @classmethod
    def __tf_unflatten__(cls, metadata: tuple[()], components: tuple[Any, ...]) -> Self:
        """Return the record of the fields that `__tf_flatten__` gave."""
        del metadata
        names = (field.name for field in dataclasses.fields(cls))
        return cls(**dict(zip(names, components, strict=True)))

    @classmethod
    def of(cls, latent: "Latent") -> Self:
        """Return the marginals themselves, which must be a record of this class.

        Raises:
            TypeError: They are those of another family of heads.
        """
        if not isinstance(latent, cls):
            raise TypeError(
                f"This head needs marginals of type {cls.__name__}, but got {type(latent).__name__}."
            )
        return latent

    @property
    def num_points(self) -> tf.Tensor:
        """B, a scalar tensor."""
        return tf.shape(self.mean)[-2]


class Readout(NamedTuple):
    """The affine map of a head whose latent functions are one, and certain.

    Attributes:
        kernel: W `[D, P]`.
        bias: b `[P]`.
    """

    kernel: tf.Tensor
    bias: tf.Tensor


@dataclass(frozen=True)
class UnitDescription:
    """One GP unit on the features, as a summary of the head lists it.

    Attributes:
        name: As in `Head.unit_names`.
        num_inducing: M.
        kernel_variance: Variance of the unit's kernels, `[J]`.
        expert: Index from 0 of the gated expert that the unit is, None for a unit that answers everywhere.
    """

    name: str
    num_inducing: int
    kernel_variance: npt.NDArray[np.floating[Any]]
    expert: int | None = None


@dataclass(frozen=True)
class SourceContribution:
    """What further data sets, the sources, gave a head that learns from them.

    Attributes:
        mixing: Posterior mean of each source's share, `[K]`.
        mixing_deviation: Its posterior standard deviation, `[K]`.
        transfer_weight: Each source's share in what the predictions vary with, `[K]`.
        nll: Mean NLL of left-out training points of the target, with the sources.
        nll_without: The same without them.
        standard_error: Of the difference between the two, over groups.
        do_harm: Whether the sources make it worse, by more than chance.
    """

    mixing: tuple[float, ...]
    mixing_deviation: tuple[float, ...]
    transfer_weight: tuple[float, ...]
    nll: float
    nll_without: float
    standard_error: float
    do_harm: bool


class Head(GPflowLayer, abc.ABC):
    """Base class of the heads.

    Use `HGPHead`, `SVGPHead`, `DFGPHead`, `VMGPHead` or `LinearHead`.

    Attributes:
        is_classifier: Whether labels are classes, as against real targets.
        label_requirement: What labels must be, for messages, e.g. `"0 or 1"`.
        standardises_targets: Whether real targets are given to it at mean 0 and variance 1; counts are not.
        label_shape: Shape of a point's label: () of one, (L,) of several yes/no labels, (C,) of votes.
        num_experts: T, gated experts, of which each point has one; 0 for a head without a gate.
        prediction_temperature: Temperature that predictions have, 1 but for `set_temperature`.
    """

    is_classifier: bool = True
    label_requirement: str = "0 or 1"
    standardises_targets: bool = False
    label_shape: tuple[int, ...] = ()
    num_experts: int = 0
    prediction_temperature: float = 1.0

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal head, with its temperature if it has one."""
        tempered_by = self.prediction_temperature
        return {**super().get_config(), **({} if tempered_by == 1.0 else {_TEMPERATURE: tempered_by})}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Return the head that `get_config` describes."""
        arguments = dict(config)
        temperature = arguments.pop(_TEMPERATURE, None)
        head: Self = super().from_config(arguments)
        if temperature is not None:
            head.set_temperature(temperature)
        return head

    def set_temperature(self, temperature: float) -> None:
        """Predict at a temperature from now on, see `gpmodels.likelihoods.tempering`; training ignores it.

        Set it before the head first predicts: a function that is traced already keeps the former one.

        Args:
            temperature: T, best fitted on held-out data; 1 is the head as it was trained.

        Raises:
            ValueError: It is not a positive number.
        """
        if not (temperature > 0.0 and math.isfinite(temperature)):
            raise ValueError(f"The temperature must be a positive number, but is {temperature}.")
        self.prediction_temperature = float(temperature)

    def logits(self, outputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return what a temperature divides, from the outputs of `call` at the temperature 1.

        It is log p of each class, or for two classes the log-odds of class 1, whose shape is the label's.
        """
        return logits_of(outputs)

    @property
    def samples_per_point(self) -> int:
        """How many samples of a point a prediction holds in memory at once; 1 of most heads."""
        return 1

    @property
    @abc.abstractmethod
    def unit_names(self) -> tuple[str, ...]:
        """Name of each GP unit, in the order of `prior_kl`."""

    @abc.abstractmethod
    def latent(self, features: tf.Tensor) -> Latent:
        """Return the latent marginals at feature vectors `[B, D]`."""

    def training_latent(self, features: tf.Tensor) -> Latent:
        """Return the marginals that a training step uses; those of `latent`, but for a head that samples."""
        return self.latent(features)

    @abc.abstractmethod
    def expected_log_likelihood(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """Return each point's term of the objective before the KL divergences, nats, `[B]`."""

    @abc.abstractmethod
    def log_predictive_density(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """Return log p(y) of the prediction at each point, nats, `[B]`."""

    def tempered_log_density(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """Return log p(y) of the prediction at the head's temperature at each point, nats, `[B]`.

        Of classes it is log softmax(log p / T); the distribution of a real target is stretched by T about its
        mean, and that of a count is the negative binomial whose deviation is T times as large.
        """
        temperature = self.prediction_temperature
        if temperature == 1.0:
            return self.log_predictive_density(latent, label)
        outputs = self.predictions(latent)
        if isinstance(getattr(self, "likelihood", None), CountLikelihood):
            return log_count_probability(outputs["mean"], temperature**2 * outputs["variance"], label)
        if not self.is_classifier:
            nearer = outputs["mean"] + (label - outputs["mean"]) / temperature
            return self.log_predictive_density(latent, nearer) - math.log(temperature)
        logits = logits_of(outputs) / temperature
        if self.label_shape:
            return self.of_labels.log_probability(logits, label)
        if logits.shape.rank == 1:
            return -tf.nn.sigmoid_cross_entropy_with_logits(label, logits)
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(label, tf.int32), logits)

    @property
    def has_votes(self) -> bool:
        """Whether labels are shares of the votes for each class."""
        return bool(self.label_shape) and isinstance(self.of_labels, VotesLikelihood)

    @property
    def of_labels(self) -> MultilabelLikelihood | VotesLikelihood:
        """The likelihood of labels that have a shape."""
        raise NotImplementedError(f"{self.name} knows one label of a point.")

    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each of the labels `[B]` is one that the likelihood knows, bool `[B]`."""
        return tf.logical_or(tf.equal(label, 0), tf.equal(label, 1))

    def training_terms(self, latent: Latent, features: tf.Tensor, label: tf.Tensor) -> tf.Tensor:  # noqa: ARG002 - others need it
        """Return each point's term of the training objective, `[B]`, by default `expected_log_likelihood`."""
        return self.expected_log_likelihood(latent, label)

    @property
    def label_weight(self) -> float:
        """How often the objective counts a point's label: the sum of the weights of its log-likelihoods."""
        return 1.0

    @abc.abstractmethod
    def prior_kl(self) -> tf.Tensor:
        """Return KL(q ‖ prior) of each unit, nats, `[units]` in the order of `unit_names`."""

    def penalty(self) -> tf.Tensor:
        """Return what the objective subtracts from the points' terms, nats: the sum of `prior_kl`."""
        return tf.reduce_sum(self.prior_kl())

    @abc.abstractmethod
    def predictions(self, latent: Latent) -> dict[str, tf.Tensor]:
        """Return the named outputs of `call` from latent marginals, each `[B]` or `[B, C]`."""

    @abc.abstractmethod
    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Place whatever depends on where the features lie.

        Args:
            features: A sample of feature vectors, `[N, D]`.
            seed: Seed of the clustering.
        """

    def initialize_from_labels(
        self,
        features: npt.NDArray[np.floating[Any]],
        labels: npt.NDArray[np.floating[Any]],
        *,
        seed: int = 0,
    ) -> None:
        """Then start whatever depends on labels `[N]` as well; nothing in most heads.

        Args:
            features: The sample given to `initialize`, `[N, D]`.
            labels: Its labels, all valid, `[N]`.
            seed: Seed of whatever is drawn.
        """

    def fit_to(self, points: Iterable[PointBatch], *, seed: int = 0) -> None:
        """Complete the head by one pass over all training points, as the posterior covariance of some needs.

        `gpmodels.HybridModel.fit_to` calls it with the network's features.

        Args:
            points: The training points, batch by batch.
            seed: Seed of whatever is drawn.

        Raises:
            NotImplementedError: The head is complete when it is trained, as most are.
        """
        raise NotImplementedError(f"{type(self).__name__} is complete when it is trained.")

    def fit_with_sources(
        self, points: Iterable[PointBatch], sources: Sequence[Iterable[PointBatch]], *, seed: int = 0
    ) -> None:
        """Fit the head in one pass over all training points and those of further data sets.

        Args:
            points: The training points, batch by batch.
            sources: Points of each further data set.
            seed: Seed of whatever is drawn.

        Raises:
            NotImplementedError: The head learns from one data set, as most do.
        """
        raise NotImplementedError(f"{type(self).__name__} learns from one data set.")

    def source_contribution(self) -> SourceContribution | None:
        """Return what the sources gave the head when it was fitted; None of a head without them."""
        return None

    @abc.abstractmethod
    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """Return `latent` with all folded into constants, for export: no factorisation, no variables."""

    def readout(self) -> Readout | None:
        """Return the affine map of features that the latent functions are; None where they are none."""
        return None

    def lengthscales(self) -> Iterable[npt.NDArray[np.floating[Any]]]:
        """Return ℓ of each unit's kernels, `[J, D]` each, in the order of `unit_names`."""
        return np.zeros([0, 1, 0])

    def describe(self) -> tuple[UnitDescription, ...] | None:
        """Return a description of each GP unit on the features, None of a head that has other units."""
        return None

    def view_weights(self, features: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64] | None:  # noqa: ARG002 - others need it
        """Return each view's share at the features `[N, D]`, of sum 1, or None of a head without views."""
        return None

    # Gated experts: a head without them has one answer for all points, and nothing to count or drop.

    def assign(self, features: tf.Tensor) -> tf.Tensor:
        """Return the responsible expert of each of the features `[B, D]`, int32 `[B]`, 0 without experts."""
        return tf.zeros([tf.shape(features)[0]], tf.int32)

    def routed_latent(self, features: tf.Tensor, expert: tf.Tensor) -> Latent:  # noqa: ARG002 - others need it
        """Return `latent` with each point answered by the expert given, `[B]`, whatever the gate says."""
        return self.latent(features)

    def responsible_expert(self, latent: Latent) -> tf.Tensor:
        """Return the expert that answered for each point, int32 `[B]`, 0 without experts."""
        return tf.zeros([latent.num_points], tf.int32)

    def record_assignments(self, latent: Latent, weight: tf.Tensor) -> None:
        """Count the points of a training batch per expert; heads without experts have nothing to count."""

    def set_assignments(self, counts: npt.NDArray[np.integer[Any]]) -> None:
        """Replace the counts of points per expert by `counts [T]`."""

    def reset_assignments(self) -> None:
        """Start the count anew, as at the beginning of an epoch."""

    @property
    def active_experts(self) -> npt.NDArray[np.intp]:
        """Indices from 0 of the experts in use; heads without experts have none."""
        return np.arange(0)

    def expert_occupancy(self) -> dict[int, float]:
        """Return the share of the counted points of each expert in use, by its index from 0."""
        return {}

    def call(self, features: Any) -> dict[str, tf.Tensor]:
        """Return predictions for features `[..., D]`, each of shape `[...]`, or `[..., C]` where noted.

        Returns:
            Classification: `probability` of class 1 (of each class for C > 2, `[..., C]`), `label`
            (int32), `latent_mean` and `latent_variance` (`[..., C]` for C > 2), `predictive_entropy`
            and `mutual_information` in nats; of several yes/no labels each of these is `[..., L]`.
            Regression: `mean`, `variance` of the noisy target, `latent_variance`.
        """
        return tempered(self.predict_with(self.latent, features), self.prediction_temperature)

    def _num_features(self, input_shape: tuple[int | None, ...]) -> int:
        """Return D, the last axis of the input's shape.

        Raises:
            ValueError: It is not known.
        """
        if input_shape[-1] is None:
            raise ValueError(
                f"{self.name}: the number of features must be known, but the input is {input_shape}. "
                "Give the network's last layer a fixed number of channels."
            )
        return int(input_shape[-1])

    def predict_with(self, latent: Callable[[tf.Tensor], Latent], features: Any) -> dict[str, tf.Tensor]:
        """Return what `call` does before any temperature, with marginals from `latent` or `for_inference`."""
        features = tf.cast(features, self.compute_dtype)
        shape, static_shape = tf.shape(features)[:-1], features.shape[:-1]
        outputs = self.predictions(latent(flatten_points(features)))

        def restore(value: tf.Tensor) -> tf.Tensor:
            classes = value.shape[1:]  # of a multi-class output
            restored = tf.reshape(value, tf.concat([shape, classes], axis=0))
            return tf.ensure_shape(restored, [*static_shape, *classes])

        return {name: restore(value) for name, value in outputs.items()}


@check_shapes("features: [batch..., D]", "return: [B, D]")
def flatten_points(features: tf.Tensor) -> tf.Tensor:
    """Return all feature vectors of a batch as one list; every pixel of an image is a point of its own."""
    return tf.reshape(features, [-1, features.shape[-1]])


def write_unit_summaries(head: Head) -> None:
    """Write KL, occupancy and lengthscales of each unit to the default summary writer, at its step.

    Pipelines and estimators show a head in TensorBoard under the same tags: `kl/<unit>`,
    `occupancy/expert_<k>`, `lengthscales/<unit>`, `median_lengthscale/<unit>`.

    Example:
        >>> from gpmodels import SVGPHead
        >>> head = SVGPHead(num_inducing=2)
        >>> head.build((None, 3))
        >>> write_unit_summaries(head)  # without a default writer nothing is written
    """
    for name, kl in zip(head.unit_names, np.asarray(head.prior_kl()), strict=True):
        tf.summary.scalar(f"kl/{name}", kl)
    for expert, share in head.expert_occupancy().items():
        tf.summary.scalar(f"occupancy/expert_{expert + 1}", share)
    for name, lengthscales in zip(head.unit_names, head.lengthscales(), strict=True):
        tf.summary.histogram(f"lengthscales/{name}", lengthscales)
        tf.summary.scalar(f"median_lengthscale/{name}", np.median(lengthscales))
