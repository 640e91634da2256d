"""A Keras network with a Gaussian-process (or linear) head, trained end to end on the variational bound."""

import inspect
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.familiarity.nearest import Familiarity
from gpmodels.heads.base import Head
from gpmodels.heads.gp import GPHead
from gpmodels.heads.points import PointBatch
from gpmodels.hybrid.batches import Batch, shapes_of, untuned
from gpmodels.hybrid.checks import (
    check_class_weight,
    check_compile,
    check_counts_agree,
    check_trainable,
    in_one_sentence,
    warn_if_alike,
)
from gpmodels.hybrid.fitting import FitArguments, count_points, drop_unused
from gpmodels.hybrid.forks import require_unforked, starts_tensorflow
from gpmodels.hybrid.inference import inference_function
from gpmodels.hybrid.points import Sample, first_batches, num_points, point_batches, sample_points
from gpmodels.hybrid.replacing import Replacing, can_start_anew
from gpmodels.hybrid.replicas import number
from gpmodels.hybrid.sampling import mixture_of_samples, samples
from gpmodels.hybrid.step import BoundModel
from gpmodels.hybrid.targets import target_moments
from gpmodels.hybrid.waiting import said_when_long
from gpmodels.likelihoods.tempering import logits_of, tempered
from gpmodels.registry import import_heads

LOGGER = logging.getLogger(__name__)

MAX_POINTS = 20_000
"""Points by which a head is placed."""


@keras.saving.register_keras_serializable("gpimaging")
class HybridModel(BoundModel):
    """`head(network(x))` with the loss `-bound / N_eff`, so that `fit` needs no other loss.

    The network may return `[batch, D]` or, for segmentation, `[batch, height, width, D]`: every pixel is
    then a data point, and `num_data` counts pixels. `sample_weight` of the labels' shape excludes points
    by 0.

    Points that repeat each other, such as pixels of an image or patches of a patient, are worth fewer
    observations than there are points. `num_effective` says how many (see
    `gpmodels.statistics.effective_sample`): the loss is then KL / N_eff less the mean expected
    log-likelihood, the negative bound of a power likelihood.

    Real targets are standardised inside: `initialize` measures their mean and scale, the model keeps them,
    and predictions, `nll` and `rmse` are in the unit of the targets; `loss` and `expected_log_likelihood` are
    of the standardised ones.

    Logged each epoch: `loss` (-bound/N_eff), `expected_log_likelihood` per point, `nll` of the prediction
    (nats) and `accuracy` (`rmse` in regression), besides any `metrics` given to `compile`, which see
    `probability` (`mean` in regression).

    Attributes:
        familiarity: Adds an output `familiarity` to `inference_function`; None adds nothing.
        target_mean: Mean of real targets, a weight that is not trained; None of a classifier.
        target_scale: Their standard deviation, likewise.

    Args:
        network: Maps inputs to features.
        head: An `HGPHead`, `SVGPHead`, `VMGPHead`, `DFGPHead` or
            `LinearHead`.
        num_data: N, the number of training points (pixels for maps) that the KL divergences are weighed
            against.
        num_effective: N_eff, how many independent observations these are worth; None counts all N.
        points_per_example: Train the head on so many random points of each example; None takes all.
        seed: Seed of that choice.
        **kwargs: Passed to `keras.Model`.

    Raises:
        ValueError: `num_data`, `num_effective` or `points_per_example` is not positive, `num_effective` is
            above `num_data`, or a network that samples has a head that predicts no classes.

    Source:
        Thesis algorithm 4 and (4.39); algorithm 5 for prediction.

    Example:
        >>> from gpmodels import HGPHead
        >>> network = keras.Sequential([keras.layers.Dense(4, activation="relu")])
        >>> model = HybridModel(network, HGPHead(num_experts=2, num_inducing=5), num_data=100)
        >>> x, y = np.random.randn(100, 3).astype("float32"), np.arange(100) % 2
        >>> model.compile(optimizer="adam")
        >>> history = model.fit(x, y, verbose=0)
        >>> model.predict(x, verbose=0)["probability"].shape
        (100,)
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
        starts_tensorflow()
        super().__init__(
            network,
            head,
            num_data=num_data,
            num_effective=num_effective,
            points_per_example=points_per_example,
            seed=seed,
            **kwargs,
        )
        self.familiarity: Familiarity | None = None
        self._trunk: keras.Model | None = None

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal model."""
        return {
            **super().get_config(),
            "network": keras.saving.serialize_keras_object(self.network),
            "head": keras.saving.serialize_keras_object(self.head),
            "num_data": self.num_data,
            "num_effective": self.num_effective,
            "points_per_example": self.points_per_example,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "HybridModel":
        """The model that `get_config` describes."""
        import_heads()  # Keras finds the class of a head by its registered name
        config = dict(config)
        for part in ("network", "head"):
            config[part] = keras.saving.deserialize_keras_object(config[part], custom_objects=custom_objects)
        return cls(**config)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for inputs of a shape."""
        if not self.network.built:
            self.network.build(input_shape)
        if not self.head.built:
            self.head.build(self.network.compute_output_shape(input_shape))
        super().build(input_shape)

    def call(self, inputs: Any, training: bool = False) -> dict[str, tf.Tensor]:
        """Predictions under the names of `gpmodels.heads.base.Head.call`, of the features' leading shape.

        But in training they average over the samples of a network that has some, see
        `gpmodels.hybrid.sampling`.
        """
        require_unforked()
        if training or not samples(self.network):
            return self._in_unit(self.head(self.network(inputs, training=training)))
        shared = self.network.shared(inputs)
        outputs = mixture_of_samples(self.network, shared, self.head, self.head.latent, self.head.readout())
        return tempered(outputs, self.head.prediction_temperature)

    def set_temperature(self, temperature: float) -> None:
        """Predict at a temperature from now on, as `Head.set_temperature` says.

        Where predictions average over samples it is that of their average, whatever the head.
        """
        if samples(self.network):
            Head.set_temperature(self.head, temperature)
        else:
            self.head.set_temperature(temperature)

    def logits(self, outputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return what a temperature divides, from the outputs of `call` at the temperature 1.

        It is `Head.logits`; where predictions average over samples, it is the logits of their average.
        """
        return logits_of(outputs) if samples(self.network) else self.head.logits(outputs)

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Choose optimiser and further metrics, as `keras.Model.compile` does; the loss is the bound.

        Raises:
            ValueError: There is a loss, or weights of losses, which would not be used.
        """
        check_compile(loss, loss_weights, kwargs.get("jit_compile"))
        super().compile(optimizer, loss, loss_weights, *args, **kwargs)

    def get_compile_config(self) -> Any:
        """Return optimiser and metrics for a file."""
        return super().get_compile_config()

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compile as a file says; a loss that it may name was never used."""
        config = {**config, "loss": None, "loss_weights": None}
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def make_train_function(self, force: bool = False) -> Any:
        """Make what `fit` and `train_on_batch` call; a child that was forked too late is refused."""
        require_unforked()
        if self.built:
            check_trainable(self.trainable_variables)
        return in_one_sentence(self, super().make_train_function(force), "train_function")

    def make_test_function(self, force: bool = False) -> Any:
        """Make what `evaluate` and `test_on_batch` call, likewise."""
        require_unforked()
        return in_one_sentence(self, super().make_test_function(force), "test_function")

    def make_predict_function(self, force: bool = False) -> Any:
        """Make what `predict` and `predict_on_batch` call, likewise."""
        require_unforked()
        return in_one_sentence(self, super().make_predict_function(force), "predict_function")

    def fit(self, *args: Any, **kwargs: Any) -> Any:
        """Train like `keras.Model.fit`, with the same arguments and the same kinds of data.

        Where neither `initialize` nor training has placed the head, it is placed first, on the training data;
        a generator loses no batch by that. Where the network then moves its features in the first half of the
        epochs, the GP beside a linear mean starts anew where they are.

        An epoch that leaves the head at its prior, or a number of points that contradicts `num_data`, is said
        in a warning.

        Raises:
            ValueError: Labels or weights do not have the shape of the points, a label is unknown, or inputs
                are not finite.
        """
        require_unforked()
        arguments = FitArguments(inspect.signature(super().fit).bind(*args, **kwargs).arguments)
        check_class_weight(arguments.class_weight, is_classifier=self.head.is_classifier)
        arrays = arguments.arrays
        if arrays is not None:
            check_counts_agree(*arguments.x_y_weight)
            if (points := count_points(arrays, self.head)) is not None:
                self._watch.tell_num_data(self, points, of_all=arguments.reads_all)
        callbacks: list[keras.callbacks.Callback] = []
        if not self._is_started():
            if (data := arguments.readable()) is None:
                LOGGER.warning(
                    "%s was not placed by initialize(data), and data of this kind cannot be read before "
                    "training: it may learn nothing. Call initialize before fit.",
                    self.head.name,
                )
            else:
                LOGGER.info("Placing %s on the training data.", self.head.name)
                sampled = first_batches(data)
                self._initialize(data, sampled, seed=self.seed)
                if can_start_anew(self.head):
                    callbacks.append(Replacing(sampled, data, seed=self.seed))
        if arrays is not None:
            self._check(arrays[0], learns=True)
        callbacks.append(self._watch.callback(reads_all=arguments.reads_all))
        return super().fit(**arguments.with_callbacks(callbacks))

    def _is_started(self) -> bool:
        """Whether the head is where the data are, by `initialize` or by training."""
        placed = not isinstance(self.head, GPHead) or (self.built and self.head.is_placed())
        return placed and (self._measured is None or number(self._measured) > 0.0)

    def load_own_variables(self, store: Any) -> None:
        """Take mean and scale of the targets from a file, which those of an earlier version lack."""
        if len(store.keys()):
            super().load_own_variables(store)
        elif self._measured is not None:
            self._measured.assign(1.0)  # it was trained on targets as they were given

    def sample(self, data: Any, max_points: int, *, seed: int = 0) -> Sample:
        """Return features, labels and weights of at most `max_points` random points of positive weight.

        Args:
            data: Inputs, `(inputs, labels)`, `(inputs, labels, weights)`, or batches of these: a
                `tf.data.Dataset`, best shuffled, a `keras.utils.PyDataset`, or any iterable, such as a
                generator, which is used up. At most 32 batches are read.
            max_points: Size of the sample.
            seed: Seed of the choice.

        Raises:
            ValueError: The data holds no point, labels or weights do not have the shape of the points, a
                label is unknown, or a feature is not finite.
        """
        return sample_points(self.features, self.head, data, first_batches(data), max_points, seed)

    def features(self, inputs: Any) -> Any:
        """Return the network's features of inputs, as in prediction."""
        return self.network(inputs, training=False)

    def initialize(
        self,
        data: Any,
        *,
        max_points: int = MAX_POINTS,
        seed: int = 0,
        head_steps: int = 0,
        head_learning_rate: float = 1e-2,
    ) -> None:
        """Place inducing points, gates and lengthscales by k-means on the network's features.

        Mean and scale of real targets are measured too. `fit` does all this by itself where nobody did.

        Args:
            data: As for `sample`.
            max_points: Size of the sample of features.
            seed: Seed of sampling and clustering.
            head_steps: Then train the head alone on the sample, by the weights of its points, for so many
                Adam steps, which costs seconds and spares the network the gradients of an untrained head.
                Needs labels.
            head_learning_rate: Learning rate of those steps.

        Raises:
            ValueError: As `sample`, or head steps without labels.
        """
        sampled = first_batches(data)
        sample = self._initialize(data, sampled, max_points=max_points, seed=seed)
        if head_steps:
            self._fit_head(sample, head_steps, head_learning_rate)

    @said_when_long("Placing the head on a sample of the data")
    def _initialize(
        self, data: Any, sampled: Sequence[Batch], *, max_points: int = MAX_POINTS, seed: int
    ) -> Sample:
        """Place the head by batches of the data, and return their points, targets standardised."""
        if sampled and not self.built:
            self.build(shapes_of(sampled[0].x))
        sample = sample_points(self.features, self.head, data, sampled, max_points, seed)
        self._watch.tell_num_data(self, num_points(sampled, self.head), of_all=False)
        warn_if_alike(sample.features, self.head.name)
        self.head.initialize(sample.features, seed=seed)
        if sample.labels is not None:
            labels = self._standardise(sample.labels, sample.weights)
            self.head.initialize_from_labels(sample.features, labels, seed=seed)
            sample = sample._replace(labels=labels)
        return sample

    def _standardise(
        self, labels: npt.NDArray[Any], weights: npt.NDArray[np.floating[Any]]
    ) -> npt.NDArray[Any]:
        """Measure mean and scale of real targets, and return what the head learns from."""
        if self.target_mean is None or self.target_scale is None or self._measured is None:
            return labels
        mean, scale = target_moments(labels, weights) if self.head.standardises_targets else (0.0, 1.0)
        self.target_mean.assign(mean)
        self.target_scale.assign(scale)
        self._measured.assign(1.0)
        return (labels - mean) / scale

    @said_when_long("HybridModel.initialize(head_steps=...)")
    def _fit_head(self, sample: Sample, steps: int, learning_rate: float, batch_size: int = 2048) -> None:
        features, labels, weights = sample
        if labels is None:
            raise ValueError(
                "initialize(head_steps=...) needs labels: pass (inputs, labels) or such a dataset."
            )
        alone = HybridModel(
            keras.layers.Identity(), self.head, num_data=self.num_data, num_effective=self.num_effective
        )
        alone.compile(
            optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(learning_rate, steps))
        )
        dtype = self.head.compute_dtype
        points = tf.data.Dataset.from_tensor_slices(
            tuple(part.astype(dtype) for part in (features, labels, weights))
        )
        # A few hundred features are one batch; copies of them would cost time and add nothing.
        points = points.shuffle(len(features), seed=self.seed).repeat().batch(min(batch_size, len(features)))
        keras.Model.fit(alone, untuned(points), steps_per_epoch=steps, shuffle=False, verbose=0)

    @said_when_long("HybridModel.fit_to")
    def fit_to(
        self,
        data: Any,
        *,
        groups: Iterable[Any] | None = None,
        sources: Sequence[Any] = (),
        seed: int = 0,
    ) -> None:
        """Complete a head by one pass over all training data, as those heads need that have `Head.fit_to`.

        Args:
            data: `(inputs, labels)`, `(inputs, labels, weights)`, or a `tf.data.Dataset` of such batches.
            groups: Group of each example in the order of the data, which must not be shuffled then; None
                makes each example a group of its own.
            sources: Further data sets, each as `data`, that a transfer head learns from too.
            seed: Seed of whatever is drawn.

        Raises:
            ValueError: The data have no labels, a feature is not finite, or groups and examples differ in
                number.
            NotImplementedError: The head is complete when it is trained.
        """
        numbers = None if groups is None else np.unique(list(groups), return_inverse=True)[1]
        points = self._point_batches(data, numbers)
        if sources:
            self.head.fit_with_sources(points, [self._point_batches(one, None) for one in sources], seed=seed)
        else:
            self.head.fit_to(points, seed=seed)

    def _point_batches(self, data: Any, groups: npt.NDArray[Any] | None) -> Iterator[PointBatch]:
        """Yield all points of the data, each counted N_eff/N times."""
        each = 1.0 if self.num_effective is None else self.num_effective / self.num_data
        return point_batches(self.features, self.head, data, groups, each)

    def drop_unused_experts(self, data: Iterable[Any]) -> list[int]:
        """Drop the experts that no point of `data` chooses, re-routing all of it after each drop.

        Dropping one changes the pooled variance of the gate, so the others' shares must be counted anew
        (thesis 4.3.2.3). Pass all the training data; a sample proves nothing.

        Args:
            data: As for `sample`, unshuffled or shuffled alike.

        Returns:
            Indices from 0 of the experts dropped.
        """
        return drop_unused(self.features, self.head, data)

    def inference_function(self, *, returns_distance: bool = False) -> Any:
        """Return `inputs -> predictions` with the head folded into constants, for a SavedModel.

        Args:
            returns_distance: Also return the `familiarity_distance` that each familiarity ranks.
        """
        return inference_function(
            self.network,
            self.head,
            trunk=self._trunk,
            familiarity=self.familiarity,
            moments=None if self.target_mean is None else (number(self.target_mean), self.scale_of_targets()),
            returns_distance=returns_distance,
        )

    @property
    def inference_holders(self) -> list[Any]:
        """What holds the variables of `inference_function`, for whoever saves it."""
        likelihood = getattr(self.head, "likelihood", None)
        # The folded head is constant but for the noise variances.
        trunk = [] if self._trunk is None else [self._trunk]
        return [
            *trunk,
            self.network,
            *([likelihood] if likelihood is not None and likelihood.variables else []),
        ]

    @property
    def takes_features(self) -> bool:
        """Whether what the network is given are feature vectors, and not images or clips."""
        return len(self._build_shape) == 2

    def with_trunk(self, trunk: keras.Model) -> "HybridModel":
        """Return the model whose `inference_function` begins with another network, for export.

        Args:
            trunk: Maps images or clips to what this model's network takes.
        """
        whole = HybridModel(self.network, self.head, num_data=self.num_data, num_effective=self.num_effective)
        whole.familiarity, whole._trunk = self.familiarity, trunk
        for own, given in ((whole.target_mean, self.target_mean), (whole.target_scale, self.target_scale)):
            if own is not None:
                own.assign(given)
        return whole

    def export(self, filepath: str, **kwargs: Any) -> None:
        """Write a SavedModel whose `serve` endpoint runs the network and the folded head.

        Args:
            filepath: Folder to write.
            **kwargs: `input_signature` (list of `tf.TensorSpec`), by default the shape the model was
                built with.

        Raises:
            ValueError: The model is not built.
        """
        if not self.built:
            raise ValueError("The model has no weights yet to export. Call initialize or fit first.")
        signature = kwargs.pop("input_signature", None) or [
            tf.TensorSpec([None, *self._build_shape[1:]], self.network.compute_dtype)
        ]
        archive = keras.export.ExportArchive()
        for holder in self.inference_holders:
            archive.track(holder)
        archive.add_endpoint("serve", self.inference_function(), input_signature=signature)
        archive.write_out(filepath, **({"verbose": False} | kwargs))

    @property
    def _build_shape(self) -> tuple[int | None, ...]:
        return self._build_shapes_dict["input_shape"]
