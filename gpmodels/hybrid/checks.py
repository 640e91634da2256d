"""What is checked before the first step: numbers and shapes that contradict each other, values, arguments."""

import functools
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.heads.base import Head
from gpmodels.units.masked import check_unmasked

LOGGER = logging.getLogger(__name__)

_INPUTS_NOT_FINITE = "The inputs hold NaN or infinity"

# Of an exception that a step in a graph raises, TensorFlow keeps the text alone.
_REFUSED = re.compile(r"assertion failed: \[((?:Labels|Weights) must be .*?, but found)\] \[(.*?)\]")
_NOT_FINITE = re.compile(rf"({_INPUTS_NOT_FINITE}) \(row .*? not at fault\.")

OTHER_LEVELS = 30.0
"""Factor between the values of images beyond which they are not in one range."""

_LOOKED_AT = 32  # images

CLEARLY = 2.0
"""Factor by which the number of points may differ from `num_data` without a word."""

Shape = Sequence[int | None]


class NotFiniteError(ValueError):
    """Inputs hold a NaN or infinity that the network does not fill in."""


def check_compile(loss: Any, loss_weights: Any, jit_compile: Any = "auto") -> None:
    """Refuse a loss, which a `HybridModel` would not use; warn of XLA, which drops its checks.

    Raises:
        ValueError: There is one, or weights of losses.

    Example:
        >>> check_compile(None, None)
    """
    for name, value in (("loss", loss), ("loss_weights", loss_weights)):
        if value is not None:
            raise ValueError(
                f"compile({name}=...) has no effect on a HybridModel, whose loss is the bound of its head: "
                f"leave it out. To weigh classes or examples, pass class_weight or sample_weight to fit."
            )
    if jit_compile is True:
        LOGGER.warning(
            "compile(jit_compile=True): XLA leaves out the checks of labels, weights and inputs that are not "
            "finite, so that wrong ones train to nonsense. Train an epoch without it first."
        )


def check_trainable(weights: Sequence[Any]) -> None:
    """Refuse to train a model without anything to train.

    Raises:
        ValueError: There are no trainable weights.
    """
    if not weights:
        raise ValueError(
            "Nothing is trainable, neither of the network nor of the head, so that fit has nothing to do. "
            "Set trainable = True for the model, or for its head alone; a head of one pass needs fit_to."
        )


def in_one_sentence(model: Any, made: Any, name: str) -> Any:
    """Let a step of a model refuse labels and weights in one sentence, not by the trace of a graph.

    Args:
        model: The model.
        made: What making the step returned, which is handed on where it is no function.
        name: Attribute of the model that Keras calls for some batches.
    """
    step = getattr(model, name)
    if hasattr(step, "in_one_sentence"):
        return made

    @functools.wraps(step)
    def said(*args: Any, **kwargs: Any) -> Any:
        try:
            return step(*args, **kwargs)
        except tf.errors.InvalidArgumentError as error:
            if (refusal := refusal_of(error)) is None:
                raise
            raise refusal from None

    vars(said)["in_one_sentence"] = True
    setattr(model, name, said)
    return said if callable(made) else made


def refusal_of(error: tf.errors.InvalidArgumentError) -> ValueError | None:
    """Return how a step refused inputs, labels or weights; None where its error is another one."""
    if (inputs := _NOT_FINITE.search(error.message)) is not None:
        return NotFiniteError(inputs[0])
    if (found := _REFUSED.search(error.message)) is not None:
        return ValueError(f"{found[1]} [{', '.join(found[2].split())}].")
    return None


def check_sizes(num_data: int, num_effective: float | None, points_per_example: int | None) -> None:
    """Refuse sizes that a `HybridModel` cannot have.

    Raises:
        ValueError: One is not positive, or `num_effective` is above `num_data`.

    Example:
        >>> check_sizes(100, 40.0, None)
    """
    if num_data < 1:
        raise ValueError(f"num_data must be the number of training points, at least 1, but is {num_data}.")
    if num_effective is not None and not (num_effective > 0.0 and math.isfinite(num_effective)):
        raise ValueError(
            "num_effective must be how many observations the training points are worth, a positive "
            f"number, or None to count all of them, but is {num_effective}."
        )
    if num_effective is not None and num_effective > num_data * (1.0 + 1e-6):
        raise ValueError(
            f"num_effective is {num_effective:g}, but cannot be above num_data, {num_data}: points are "
            "worth one observation each at most."
        )
    if points_per_example is not None and points_per_example < 1:
        raise ValueError(f"points_per_example must be at least 1 or None, but is {points_per_example}.")


def check_counts_agree(x: Any, y: Any, weight: Any) -> None:
    """Raise where inputs, labels and weights are not equally many, or labels are no numbers.

    Raises:
        ValueError: They differ in number, or labels are texts.
    """
    check_unmasked(x, y, weight)
    scalars = [name for name, part in (("inputs", x), ("labels", y)) if _is_list_of_numbers(part)]
    if scalars:
        raise ValueError(f"The {scalars[0]} are a list of numbers; give an array, such as numpy.array(...).")
    if hasattr(y, "dtype") and np.size(y) and isinstance(text := np.ravel(y)[0], str | bytes):
        raise ValueError(
            f"The labels are texts, such as {np.asarray(text).item()!r}; expected numbers. For classes give "
            "their numbers from 0: numpy.unique(labels, return_inverse=True)[1]."
        )
    counts = [np.shape(part)[0] for part in tf.nest.flatten(x) if np.ndim(part)]
    if len(set(counts)) > 1:
        raise ValueError(f"The inputs differ in number: {', '.join(map(str, counts))}.")
    for name, values in (("labels", y), ("weights", weight)):
        if values is not None and counts and (found := len(tf.nest.flatten(values)[0])) != counts[0]:
            raise ValueError(f"There are {counts[0]} inputs, but {found} {name}; give one for each input.")


def _is_list_of_numbers(values: Any) -> bool:
    """Whether values are a list of numbers, or of such lists: Keras takes a list for several inputs."""
    return isinstance(values, list | tuple) and bool(values) and not np.ndim(tf.nest.flatten(values)[0])


def check_points(features: Shape, labels: Shape, weights: Shape | None, head: Head) -> None:
    """Raise where labels or weights do not have the shape of the points that a network gives.

    Args:
        features: Shape of the network's features, `[examples, ..., D]`; None stands for what is not known.
        labels: Shape of the labels.
        weights: Shape of the weights, None without any.
        head: What the labels are for.

    Raises:
        ValueError: A shape is another, with what was probably meant.
    """
    space = tuple(features[1:-1])
    found, points = _per_example(labels), _per_example((*features[:-1], *head.label_shape))
    if head.label_shape and None not in labels[1:] and tuple(labels[1:]) != (*space, *head.label_shape):
        raise ValueError(
            f"Labels have shape {_text(labels)}, but must have shape "
            f"{_text((labels[0], *space, *head.label_shape))}: {head.label_requirement}."
        )
    if head.label_shape and weights is not None and _per_example(weights) not in (None, 1):
        raise ValueError(
            f"Weights have shape {_text(weights)}: give one for each example, and NaN for unknown labels."
        )
    if found is not None and points is not None and found != points:
        example = "n" if labels[0] is None else str(labels[0])
        shape = f"({', '.join([example, *map(str, labels[1:])])})"
        expected = f"({', '.join([example, *map(str, space)])}{'' if space else ','})"
        raise ValueError(
            f"Labels have shape {shape}, but must have shape {expected}: "
            f"{_what_was_meant(space, found, head)}"
        )
    if weights is not None:
        check_weights(weights, labels)


def check_weights(weights: Shape, labels: Shape) -> None:
    """Raise unless there is one weight for each example, or one for each label.

    Raises:
        ValueError: Weights have another shape.

    Example:
        >>> check_weights((4,), (4, 8, 8))
    """
    each, of_labels = _per_example(weights), _per_example(labels)
    if each not in (None, 1) and of_labels is not None and each != of_labels:
        raise ValueError(
            f"Weights have shape {_text(weights)}, but labels have shape {_text(labels)}: give one weight "
            "for each example, or one for each label."
        )


def _text(shape: Shape) -> str:
    return f"({', '.join('n' if size is None else str(size) for size in shape)}{',' * (len(shape) == 1)})"


def _per_example(shape: Shape) -> int | None:
    """Return how many values an example has, None where that is not known."""
    sizes = list(shape)[1:]
    return None if None in sizes else math.prod(size for size in sizes if size is not None)


def _what_was_meant(space: Shape, found: int, head: Head) -> str:
    points = math.prod(size or 1 for size in space)
    if found == 1:
        sides = " x ".join(map(str, space))
        return (
            f"the network gives {sides} points for each example, and there is one label. End the network in "
            "a pooling or flattening layer, or give a label for each point."
        )
    if not head.is_classifier:
        return "one target for each point. A head has one output; train one model for each target."
    num_classes = int(getattr(head, "num_classes", 2))
    if found == points * num_classes:
        return "numbers of classes. These look one-hot: pass np.argmax(labels, axis=-1)."
    return "the number of a class for each point."


def check_labels(labels: npt.NDArray[Any], head: Head) -> None:
    """Raise where a label is none that the head knows.

    Args:
        labels: Labels of points that count, `[N]`.
        head: What they are for.

    Raises:
        ValueError: With some of them.
    """
    wrong = labels[~np.asarray(head.valid_labels(tf.constant(labels)))]
    if len(wrong):
        raise ValueError(
            f"Labels must be {head.label_requirement}, but found {np.unique(wrong)[:5].tolist()}."
        )


class NotFiniteValue(NamedTuple):
    """Where a value is: the row, and what a message says of it."""

    row: int
    text: str


def first_not_finite(inputs: Any) -> NotFiniteValue | None:
    """Return where the first NaN or infinity of inputs is; None where all are finite.

    Args:
        inputs: Arrays or tensors in any structure, whose first axis counts rows.

    Example:
        >>> first_not_finite(np.array([[0.0, 1.0], [2.0, np.nan]])).text
        'row 1, column 1'
    """
    for part in tf.nest.flatten(inputs):
        values = np.asarray(part)
        if values.dtype.kind not in "fc":
            continue
        rows = max(2**22 // max(math.prod(values.shape[1:]), 1), 1)  # without a mask of gigabytes
        for start in range(0, len(values), rows):
            finite = np.isfinite(values[start : start + rows])
            if finite.all():
                continue
            row, *place = (int(index) for index in np.argwhere(~finite)[0])
            row += start
            where = f", column {place[0]}" if len(place) == 1 else f", at {tuple(place)}" if place else ""
            return NotFiniteValue(row, f"row {row}{where}")
    return None


def check_inputs(network: Any, inputs: Any, of: str = "") -> None:
    """Raise where inputs hold a NaN or infinity that the network does not fill in.

    A ReLU makes a finite feature of NaN, but not a finite gradient of the weights before it.

    Args:
        network: Keras model or layer, inputs to features; one that fills in values is content.
        inputs: Arrays in any structure.
        of: What their rows are of, for the message.

    Raises:
        NotFiniteError: With the first row that has one.
    """
    place = first_not_finite(inputs)
    if place is None:
        return
    row = tf.nest.map_structure(lambda values: np.asarray(values)[place.row : place.row + 1], inputs)
    weights = [weight.value for weight in network.weights if tf.as_dtype(weight.dtype).is_floating]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(weights)
        features = network(row, training=False)
    gradients = tape.gradient(features, weights) if weights else []
    if not all_finite([tf.convert_to_tensor(features), *gradients]):
        raise not_finite(place.text + of)


def image_level(inputs: Any) -> float | None:
    """Return the mean size of the values of some images, one array `[N, H, W, C]`; None of other arrays.

    Example:
        >>> image_level(np.full([2, 4, 4, 3], 255, np.uint8)), image_level(np.zeros([2, 4]))
        (255.0, None)
    """
    if isinstance(inputs, tuple | list | dict) or len(np.shape(inputs)) < 4:
        return None
    return float(np.abs(np.asarray(inputs[:_LOOKED_AT], np.float64)).mean())


def warn_of_levels(learned: float | None, given: float | None) -> bool:
    """Warn where images are far darker or brighter than those of training, as 0 to 1 beside 0 to 255 are.

    Args:
        learned: `image_level` of what was learned from.
        given: That of what is to be predicted.

    Returns:
        Whether it did.
    """
    if not learned or not given or 1.0 / OTHER_LEVELS < given / learned < OTHER_LEVELS:
        return False
    LOGGER.warning(
        "The images have values of %.3g on average, and those of the training of %.3g: give both in one "
        "range, as 0 to 1 or 0 to 255.",
        given,
        learned,
    )
    return True


def warn_if_alike(features: npt.NDArray[np.floating[Any]], name: str) -> None:
    """Warn where a network gives the same features for all points, so that nothing can be learned of them.

    Args:
        features: Of a sample of the points, `[N, D]`.
        name: Name of the head.
    """
    if len(features) > 1 and not np.ptp(features, axis=0).any():
        LOGGER.warning(
            "%s: the network gives the same features for all %d points of the sample, of which nothing can "
            "be learned. Are its units dead (a ReLU whose inputs are all below 0), or the inputs all alike?",
            name,
            len(features),
        )


def not_finite(where: str | None) -> ValueError:
    """Return the error of features that are not finite, by where the inputs are not."""
    if where is not None:
        return NotFiniteError(
            f"{_INPUTS_NOT_FINITE} ({where}); leave such examples out or fill in the values. The "
            "network is not at fault."
        )
    return ValueError(
        "The network's features hold NaN or infinity, though its inputs are finite; lower the learning rate "
        "of its training."
    )


def assert_inputs_finite(inputs: Any, is_fine: tf.Tensor) -> None:
    """Stop a training step, in a graph too, that goes wrong because inputs are not finite.

    Args:
        inputs: Tensors in any structure, `[B, ...]` each.
        is_fine: Whether features or gradients are finite, bool, a scalar: a network may fill values in.

    Raises:
        tf.errors.InvalidArgumentError: With the first row and column of the batch.
    """

    def refuse(*parts: tf.Tensor) -> None:
        place = first_not_finite(parts)
        if place is not None:
            raise not_finite(f"{place.text} of a batch")

    _look_unless(is_fine, refuse, inputs)


def assert_judged_inputs_finite(network: Any, inputs: Any) -> None:
    """Stop a step of `evaluate`, in a graph too, on inputs that are not finite and that nothing fills in.

    Args:
        network: As for `check_inputs`, which is asked for such a batch alone.
        inputs: Tensors in any structure, `[B, ...]` each.

    Raises:
        tf.errors.InvalidArgumentError: With the first row and column of the batch.
    """
    floating = [part for part in tf.nest.flatten(inputs) if part.dtype.is_floating]

    def refuse(*parts: tf.Tensor) -> None:
        check_inputs(network, tf.nest.pack_sequence_as(inputs, parts), " of a batch")

    if floating:  # one NaN or infinity is enough for the sum; one of large numbers is looked at in vain
        _look_unless(all_finite([tf.reduce_sum(part) for part in floating]), refuse, inputs)


def _look_unless(is_fine: tf.Tensor, refuse: Callable[..., None], inputs: Any) -> None:
    """Hand inputs to a function of NumPy in a step that is not fine."""

    def look() -> tf.Tensor:
        with tf.control_dependencies([tf.py_function(refuse, tf.nest.flatten(inputs), [])]):
            return tf.constant(True)

    tf.cond(is_fine, lambda: tf.constant(True), look)


def all_finite(tensors: Iterable[tf.Tensor | None]) -> tf.Tensor:
    """Return whether all values of some tensors are finite, bool, a scalar.

    Example:
        >>> bool(all_finite([tf.constant([1.0]), None, tf.constant([float("nan")])]))
        False
    """
    finite = [
        tf.reduce_all(tf.math.is_finite(tf.convert_to_tensor(one))) for one in tensors if one is not None
    ]
    return tf.reduce_all(tf.stack(finite))


def check_class_weight(class_weight: Any, *, is_classifier: bool = True) -> None:
    """Raise unless weights of classes are None, or numbers by the class that they are of.

    Args:
        class_weight: As `fit` is given it.
        is_classifier: Whether the labels are classes at all; Keras cuts real targets to whole numbers.

    Raises:
        ValueError: They are not; Keras would fail on them, or count every class once.

    Example:
        >>> check_class_weight({0: 1.0, 1: 5.0})
    """
    if class_weight is None:
        return
    if not is_classifier:
        raise ValueError(
            "class_weight weighs classes, but this head has real targets: pass sample_weight to fit instead."
        )
    expected = "expected a dictionary from class numbers to weights, such as {0: 1.0, 1: 5.0}."
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight is {class_weight!r}; {expected}")
    wrong = [key for key in class_weight if isinstance(key, bool) or not isinstance(key, Integral)]
    if wrong:
        raise ValueError(f"class_weight has the class {wrong[0]!r}, which is no number; {expected}")
    for key, weight in class_weight.items():
        if not (math.isfinite(weight) and weight >= 0.0):
            raise ValueError(f"class_weight of the class {key} is {weight}; expected a finite number from 0.")


def warn_of_num_data(num_data: int, points: int, *, of_all: bool) -> bool:
    """Log a warning where the number of points contradicts `num_data`; return whether it does.

    Args:
        num_data: What the model was told.
        points: Points of positive weight that the data hold.
        of_all: Whether these are all data, so that fewer contradict it as well.
    """
    more, fewer = points > CLEARLY * num_data, of_all and points * CLEARLY < num_data
    if not (more or fewer):
        return False
    LOGGER.warning(
        "num_data is %d, but the data hold %s%d points, so that the divergence from the prior counts too %s. "
        "num_data is the number of training points: examples, not batches, or pixels if each has a label.",
        num_data,
        "" if of_all else "at least ",
        points,
        "much" if more else "little",
    )
    return True
