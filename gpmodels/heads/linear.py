"""The linear head: logistic or linear regression on features. The baseline of every report."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.heads.base import Head, Latent, Readout
from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.categorical import categorical_entropy, is_class
from gpmodels.likelihoods.factory import make_likelihood
from gpmodels.likelihoods.multilabel import MultilabelLikelihood
from gpmodels.likelihoods.names import MULTILABEL, TARGET_LIKELIHOODS, VOTES
from gpmodels.likelihoods.probit import bernoulli_entropy
from gpmodels.likelihoods.votes import VotesLikelihood
from gpmodels.units.counts import check_counts


def _glorot(num_features: int, num_outputs: int) -> keras.initializers.Initializer:
    """Return Glorot's uniform initialiser of a dense layer."""
    limit = (6.0 / (num_features + num_outputs)) ** 0.5
    return keras.initializers.RandomUniform(-limit, limit)


_OF_LABELS: Final = {MULTILABEL: MultilabelLikelihood, VOTES: VotesLikelihood}


@keras.saving.register_keras_serializable("gpimaging")
class LinearHead(Head):
    """Logistic regression on features: p(y = 1) = sigmoid((wᵀx + b) / temperature).

    With more than two classes it is the softmax of one such logit for each class.

    The temperature is 1 in training; `set_temperature` installs one fitted on held-out data (Guo et
    al., 2017). The latent mean is the tempered logit, its variance 0: a linear head knows nothing of its own
    uncertainty.

    With `likelihood="gaussian"` it is linear regression: the mean of a real target is wᵀx + b, and its noise
    variance is learned with w and b. With `"poisson"` or `"negative_binomial"` it is the generalised linear
    model of counts with log link, see `gpmodels.likelihoods.counts`. With `"multilabel"` it is a logistic
    regression for each of several yes/no labels `[B, L]`, of which unknown ones are NaN, and with `"votes"`
    that of classes of which each point has the shares of the votes `[B, C]`.

    Attributes:
        likelihoods: Likelihoods of targets and labels that are known; subclasses may know fewer, or none.

    Args:
        num_classes: C; 2 takes one logit, more take one for each class; the number of yes/no labels, which
            take one each; real targets ignore it.
        likelihood: None for classes, `"gaussian"` for real targets, `"poisson"` or `"negative_binomial"` for
            counts, `"multilabel"` for yes/no labels, `"votes"` for shares of classes.
        dtype: `"float32"` or `"float64"`.
        **kwargs: Passed to `keras.layers.Layer`.

    Raises:
        ValueError: `num_classes` is no whole number from 2, or the likelihood is another.

    Example:
        >>> sorted(LinearHead()(tf.zeros([2, 3])))[:3]
        ['label', 'latent_mean', 'latent_variance']
        >>> LinearHead(num_classes=4)(tf.zeros([2, 3]))["probability"].shape
        TensorShape([2, 4])
        >>> sorted(LinearHead(likelihood="gaussian")(tf.zeros([2, 3])))
        ['latent_variance', 'mean', 'variance']
    """

    likelihoods: ClassVar[tuple[str, ...]] = (*TARGET_LIKELIHOODS, MULTILABEL, VOTES)

    def __init__(
        self, *, num_classes: int = 2, likelihood: str | None = None, dtype: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(dtype=dtype, **kwargs)
        check_counts(least=2, num_classes=num_classes)
        if likelihood is not None and not self.likelihoods:
            raise ValueError(f"{type(self).__name__} is for classes alone; take LinearHead for real targets.")
        if likelihood not in (None, *self.likelihoods):
            raise ValueError(
                f"likelihood must be None for classes, or one of {self.likelihoods} for targets, but is "
                f"{likelihood!r}."
            )
        self.num_classes, self.likelihood_name = num_classes, likelihood
        self.likelihood: Likelihood | None = None
        self._labels: MultilabelLikelihood | VotesLikelihood | None = None
        if likelihood in _OF_LABELS:
            self._labels = labels = _OF_LABELS[likelihood](num_classes)
            self.label_shape, self.label_requirement = labels.label_shape, labels.label_requirement
            return
        if likelihood is not None:
            own = make_likelihood(likelihood, num_classes=2, num_units=1, dtype=self.variable_dtype)
            self.likelihood, self.standardises_targets = own, own.standardises_targets
            self.is_classifier, self.label_requirement = False, own.label_requirement
            return
        self.label_requirement = "0 or 1" if num_classes == 2 else f"an integer from 0 to {num_classes - 1}"

    @property
    def of_labels(self) -> MultilabelLikelihood | VotesLikelihood:
        """The likelihood of labels that have a shape."""
        return super().of_labels if self._labels is None else self._labels

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal head."""
        own = {"num_classes": self.num_classes, "likelihood": self.likelihood_name}
        return {**super().get_config(), **own}

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for features `[..., input_shape[-1]]`."""
        num_features = self._num_features(input_shape)
        # Not zeros: trained end to end, equal weights give all features the same gradient until they are one.
        is_one = self.likelihood is not None or (self.num_classes == 2 and not self.label_shape)
        outputs = () if is_one else (self.num_classes,)
        initializer = _glorot(num_features, *(outputs or (1,)))
        self.kernel = self.add_weight(name="kernel", shape=(num_features, *outputs), initializer=initializer)
        self.bias = self.add_weight(name="bias", shape=outputs, initializer="zeros")
        if self.likelihood is not None:
            self.adopt(self.likelihood, "likelihood")
            super().build(input_shape)
            return
        self.temperature = self.add_weight(name="temperature", shape=(), initializer="ones", trainable=False)
        super().build(input_shape)

    @property
    def unit_names(self) -> tuple[str, ...]:
        """None: there is no GP."""
        return ()

    def set_temperature(self, temperature: float) -> None:
        """Divide all logits by `temperature` from now on; it multiplies the deviation of targets.

        Raises:
            ValueError: It is not a positive number.
        """
        if self.likelihood is not None:
            super().set_temperature(temperature)
            return
        if not temperature > 0.0:
            raise ValueError(f"The temperature must be positive, but is {temperature}.")
        self.temperature.assign(temperature)

    def copy_weights(self, linear: "LinearHead") -> None:
        """Go on with the kernel and the bias of another linear head on the same features."""
        self.kernel.assign(linear.kernel)
        self.bias.assign(linear.bias)
        if self.likelihood is not None and linear.likelihood is not None:
            for own, given in zip(self.likelihood.variables, linear.likelihood.variables, strict=True):
                own.assign(given)

    def logits(self, outputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the logits that it predicts by, which are the latent mean."""
        return outputs["latent_mean"]

    def latent(self, features: tf.Tensor) -> Latent:
        """Return the tempered logits of features `[B, D]`, or the means of targets, of variance 0."""
        return self._tempered_logits(features, self.kernel, self.bias, self._divisor)

    @property
    def _divisor(self) -> Any:
        """The temperature, 1 of real targets."""
        return tf.ones([], self.variable_dtype) if self.likelihood is not None else self.temperature

    def _tempered_logits(self, features: tf.Tensor, kernel: Any, bias: Any, temperature: Any) -> Latent:
        if len(kernel.shape) == 1:
            logit = (tf.linalg.matvec(features, kernel) + bias)[:, None] / temperature
        else:
            logit = (tf.linalg.matmul(features, kernel) + bias) / temperature
        zeros = tf.zeros_like(logit)
        return Latent(logit, zeros)

    def expected_log_likelihood(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """Return log p(y) of each point, nats, `[B]`."""
        if self.likelihood is not None:
            unit = tf.zeros([latent.num_points], tf.int32)
            return self.likelihood.expected_log_likelihood(latent.mean, latent.variance, label, unit)
        if self.label_shape:
            return self.of_labels.log_probability(latent.mean, label)
        if self.num_classes > 2:
            classes = tf.cast(label, tf.int32)
            return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=latent.mean)
        logit = latent.mean[:, 0]
        return -tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(label, logit.dtype), logit)

    def log_predictive_density(self, latent: Latent, label: tf.Tensor) -> tf.Tensor:
        """Return log p(y) of each point, nats, `[B]`."""
        return self.expected_log_likelihood(latent, label)

    def valid_labels(self, label: tf.Tensor) -> tf.Tensor:
        """Whether each label is a whole number from 0 to C - 1, or each target finite."""
        if self.likelihood is not None:
            return self.likelihood.valid_labels(label)
        return self.of_labels.valid_labels(label) if self.label_shape else is_class(label, self.num_classes)

    def prior_kl(self) -> tf.Tensor:
        """Return an empty vector: a linear head has no prior."""
        return tf.zeros([0], self.compute_dtype)

    def predictions(self, latent: Latent) -> dict[str, tf.Tensor]:
        """Return sigmoid or softmax of the logits; no mutual information, since the latent variance is 0.

        Of real targets it is their mean and the noise variance; of yes/no labels what it is of two classes,
        for each label.
        """
        if self.likelihood is not None:
            unit = tf.zeros([latent.num_points], tf.int32)
            return self.likelihood.predictions(latent.mean, latent.variance, unit)
        if self.has_votes or (self.num_classes > 2 and not self.label_shape):
            return self._class_predictions(latent)
        logit, zeros = (part if self.label_shape else part[:, 0] for part in (latent.mean, latent.variance))
        probability = tf.sigmoid(logit)
        return {
            "probability": probability,
            "label": tf.cast(probability > 0.5, tf.int32),
            "latent_mean": logit,
            "latent_variance": zeros,
            "predictive_entropy": bernoulli_entropy(probability),
            "mutual_information": zeros,
        }

    def _class_predictions(self, latent: Latent) -> dict[str, tf.Tensor]:
        probability = tf.nn.softmax(latent.mean)
        entropy = categorical_entropy(probability)
        return {
            "probability": probability,
            "label": tf.argmax(latent.mean, axis=-1, output_type=tf.int32),
            "latent_mean": latent.mean,
            "latent_variance": latent.variance,
            "predictive_entropy": entropy,
            "mutual_information": tf.zeros_like(entropy),
        }

    def initialize(self, features: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> None:
        """Leave the weights at random as they are: a linear head has nothing to place."""

    def initialize_from_labels(
        self,
        features: npt.NDArray[np.floating[Any]],
        labels: npt.NDArray[np.floating[Any]],
        *,
        seed: int = 0,
    ) -> None:
        """Start what the likelihood takes from labels `[N]`, as counts their mean; see `Head`."""
        super().initialize_from_labels(features, labels, seed=seed)
        if self.likelihood is not None:
            self.likelihood.start_from(labels)

    def readout(self) -> Readout | None:
        """Return the tempered logits' map of the features."""
        kernel = tf.reshape(tf.convert_to_tensor(self.kernel), [self.kernel.shape[0], -1])
        bias = tf.reshape(tf.convert_to_tensor(self.bias), [-1])
        return Readout(kernel / self._divisor, bias / self._divisor)

    def for_inference(self) -> Callable[[tf.Tensor], Latent]:
        """Return `latent` with the weights as constants."""
        weights = [tf.convert_to_tensor(w.numpy()) for w in (self.kernel, self.bias, self._divisor)]
        return lambda features: self._tempered_logits(features, *weights)
