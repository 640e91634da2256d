"""Trained models as evaluation runs them: the rows of a report."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import tensorflow as tf

from gpmodels import HybridModel
from gpmodels.familiarity.flags import is_unfamiliar
from pipelines.scores.pictures import Outputs, Picture


def tempered_title(title: str) -> str:
    """Return the title of a head with its fitted temperature, from the title of the head.

    Example:
        >>> tempered_title("Linear")
        'Linear + temperature'
    """
    return f"{title} + temperature"


@dataclass(frozen=True)
class Predictor:
    """A trained model with its folded head, one image at a time.

    Attributes:
        title: Name in tables.
        predict: Returns named outputs `[B, ...]` of images `[B, H, W, 3]`.
        details: Facts for the report, for example the fitted temperature.
        head: Name of the head of the run; None for another method, which cannot be exported.
        temperature: Temperature of the head; None without one.
        pool_temperatures: Temperature of each kind of pool, by its name in the plural.
        interval_factors: What the standard deviation of numbers is times at half the width of intervals;
            empty without a temperature, or of classes.
        group_pooling: Correlation and scale of the numbers of a group, and then its interval factors, or the
            correlation alone;
            empty where no groups are judged, or none were held out.
        flags: Whether it can call anything unfamiliar: of few held-out groups no familiarity is low enough.
    """

    title: str
    predict: Callable[[tf.Tensor], dict[str, tf.Tensor]]
    details: dict[str, float | int | str]
    head: str | None = None
    temperature: float | None = None
    pool_temperatures: Mapping[str, float] = field(default_factory=dict)
    interval_factors: tuple[float, ...] = ()
    group_pooling: tuple[float, ...] = ()
    flags: bool = False

    def outputs(self, image: Picture) -> Outputs:
        """Return the outputs of one uint8 image `[H, W, 3]` of the network's size."""
        outputs = self.predict(tf.constant(image[None], tf.float32))
        return {name: value.numpy()[0] for name, value in outputs.items()}


def predictor(title: str, model: HybridModel, **details: float | str) -> Predictor:
    """Return the model as evaluation runs it: folded, traced once for any batch, with its distance."""
    infer = model.inference_function(returns_distance=True)
    function = tf.function(infer, reduce_retracing=True, autograph=False)
    known = model.familiarity
    return Predictor(title, function, details, flags=known is not None and is_unfamiliar(known.least))
