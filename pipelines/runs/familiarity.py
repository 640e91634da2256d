"""The familiarity of a run's models: fitted after the training of each head, kept beside its weights.

Reference examples are of the training part, held-out ones of the whole selection part, of many a random
choice; of maps they are some random pixels of each image, and the distance is averaged over a square around
each. What is held out counts by groups, as pixels of an image are alike.

Where the features are given, the training has not moved them, and training examples lie as far away as new
ones if those of their group are no references for them. Where few groups are held out, these count, too: a
reference fewer puts them a little farther away, so that new ones seem a little more familiar than they are.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file
from gpmodels import HybridModel
from gpmodels.familiarity.nearest import MAX_REFERENCES, Familiarity, refer_to, unit_length

ENOUGH_GROUPS = 200
"""Held-out groups by which several parts that are judged as one can be called unfamiliar, too."""

FAMILIARITY_NAME = "familiarity.safetensors"
"""File beside the weights of a head."""

_MOST_HELD_OUT = 5000
_PIXELS_AN_IMAGE = 32
_REFERENCE_PIXELS_AN_IMAGE = 4  # few, so that the references are of many images
_SQUARES_A_SIDE = 5
"""So many of the squares over which the distance is averaged fit along the shorter side of a map."""


def measure_familiarity(
    model: HybridModel,
    training: Iterable[Any],
    held_out: Iterable[Any],
    *,
    seed: int,
    groups: Sequence[str] | None = None,
    training_groups: Sequence[str] = (),
) -> Familiarity | None:
    """Return the familiarity of a trained model.

    Args:
        model: The model.
        training: Batches of training examples, shuffled where no groups of them are given; as many are read
            as are needed.
        held_out: Batches of examples that trained nothing.
        seed: Seed of the choices of pixels and of held-out points.
        groups: Group of each held-out example in the order of the batches; None where each is its own.
        training_groups: Group of each training example in the order of the batches, where the model takes
            features and these groups count as well, each compared with the others; empty where not.

    Returns:
        The familiarity; None where nothing is held out.
    """
    rng = np.random.default_rng(seed)
    if training_groups and groups:
        return _of_given_features(training, held_out, (training_groups, groups), seed)
    reference, side = _reference(model, training, rng)
    if not len(reference):
        return None
    found = refer_to(reference, of_inputs=model.takes_features, seed=seed, neighbourhood=side)
    distance, examples = _some(_distance(found, model, held_out, rng), _MOST_HELD_OUT, seed)
    if not len(distance):
        return None
    return found.calibrated(distance, examples if groups is None else np.asarray(groups)[examples])


def _of_given_features(
    training: Iterable[Any], held_out: Iterable[Any], groups: tuple[Sequence[str], Sequence[str]], seed: int
) -> Familiarity | None:
    """Return the familiarity by held-out groups, and by training groups left out one at a time."""
    (known, of_known), (new, of_new) = (
        _some_rows(batches, of_batches, seed)
        for batches, of_batches in zip((training, held_out), groups, strict=True)
    )
    chosen = np.random.default_rng(seed).permutation(len(known))[:MAX_REFERENCES]
    found = refer_to(known[chosen], of_inputs=True, seed=seed)
    cosine = unit_length(known / found.scale).numpy() @ unit_length(known[chosen] / found.scale).numpy().T
    is_same = of_known[:, None] == of_known[chosen]
    cosine[is_same] = -1.0
    compared = ~is_same.all(axis=1)  # none of a single training group
    distance = [1.0 - cosine.max(axis=1)[compared], found.distance(tf.constant(new)).numpy()]
    return found.calibrated(np.concatenate(distance), np.concatenate([of_known[compared], of_new]))


def _some_rows(
    batches: Iterable[Any], groups: Sequence[str], seed: int
) -> tuple[NDArray[Any], NDArray[np.str_]]:
    """Return at most `_MOST_HELD_OUT` random rows of features, and the group of each."""
    kept = np.sort(np.random.default_rng([seed, 1]).permutation(len(groups))[:_MOST_HELD_OUT])
    rows, begin = [], 0
    for inputs, *_ in batches:
        rows.append(np.asarray(inputs)[kept[(kept >= begin) & (kept < begin + len(inputs))] - begin])
        begin += len(inputs)
    return np.concatenate(rows), np.asarray(groups)[kept]


def _features(model: HybridModel, batches: Iterable[Any]) -> Iterator[tuple[tf.Tensor, NDArray[np.bool_]]]:
    """Yield the features `[B, ..., D]` of each batch and which of its points count, `[B, points]`."""

    @tf.function(reduce_retracing=True)  # layer by layer it takes three times as long
    def of_images(images: tf.Tensor) -> tf.Tensor:
        return model.network(images, training=False)

    for inputs, _, *weights in batches:
        features = inputs if model.takes_features else of_images(inputs)
        counts = np.ones((len(features), int(np.prod(features.shape[1:-1]))), np.bool_)
        if weights and len(features.shape) > 2:
            counts &= np.reshape(weights[0], [len(features), -1]) > 0
        yield features, counts


def _reference(
    model: HybridModel, batches: Iterable[Any], rng: np.random.Generator
) -> tuple[NDArray[Any], int]:
    """Return features of training points `[R, D]`, reading no more than needed, and the side of a square."""
    rows: list[NDArray[Any]] = []
    side = 1
    for features, counts in _features(model, batches):
        maps = np.reshape(features, [*counts.shape, -1])
        chosen = _choice(counts, _REFERENCE_PIXELS_AN_IMAGE, rng)
        rows.append(maps[chosen])
        if len(features.shape) == 4:
            side = neighbourhood(*features.shape[1:3])
        if sum(map(len, rows)) >= MAX_REFERENCES:
            break
    return (np.concatenate(rows)[:MAX_REFERENCES] if rows else np.zeros((0, 0))), side


def neighbourhood(height: int, width: int) -> int:
    """Return the odd side in pixels of the square over which the distance of a map is averaged.

    Example:
        >>> neighbourhood(42, 56), neighbourhood(1, 1)
        (9, 1)
    """
    return 2 * round(min(height, width) / (2 * _SQUARES_A_SIDE)) + 1


def _distance(
    familiarity: Familiarity, model: HybridModel, batches: Iterable[Any], rng: np.random.Generator
) -> Iterator[tuple[NDArray[Any], NDArray[np.intp]]]:
    """Yield the distance of each batch, of maps of some pixels that count, and their examples' numbers."""
    begin = 0
    for features, counts in _features(model, batches):
        at_once = 1 if len(features.shape) > 2 else len(features)  # a map has many points
        parts = [features[row : row + at_once] for row in range(0, len(features), at_once)]
        distance = np.concatenate([familiarity.distance(part) for part in parts]).reshape(counts.shape)
        chosen = _choice(counts, _PIXELS_AN_IMAGE, rng)
        yield distance[chosen], begin + chosen[0]
        begin += len(counts)


def _choice(
    counts: NDArray[np.bool_], number: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of at most `number` random points that count of each row `[B, points]`."""
    columns = [rng.permutation(np.flatnonzero(row))[:number] for row in counts]
    rows = np.repeat(np.arange(len(counts)), [len(places) for places in columns])
    return rows, np.concatenate(columns)


def _some(
    parts: Iterator[tuple[NDArray[Any], NDArray[np.intp]]], number: int, seed: int
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return that many values of all parts, each as likely as any other, and their numbers, in their order.

    Each value draws a key, and those with the smallest keys stay; so no more than them are in memory.
    """
    rng = np.random.default_rng([seed, 1])
    rows, numbers, keys = np.zeros(0), np.zeros(0, np.intp), np.zeros(0)
    for part, of_part in parts:
        rows = np.append(rows, part)
        numbers, keys = np.append(numbers, of_part), np.append(keys, rng.random(len(part)))
        kept = np.sort(np.argsort(keys, kind="stable")[:number])
        rows, numbers, keys = rows[kept], numbers[kept], keys[kept]
    return rows, numbers


def save_familiarity(familiarity: Familiarity, folder: Path) -> None:
    """Keep a familiarity beside the weights of a head.

    Raises:
        InputError: The file cannot be written.
    """
    arrays: dict[str, NDArray[Any]] = {
        "scale": familiarity.scale,
        "reference": familiarity.reference,
        "held_out": familiarity.held_out,
    }
    if familiarity.groups is not None:
        arrays["groups"] = familiarity.groups
    metadata = {
        "of_inputs": json.dumps(familiarity.of_inputs),
        "neighbourhood": json.dumps(familiarity.neighbourhood),
    }
    with atomic_file(folder / FAMILIARITY_NAME) as temporary:
        temporary.write_bytes(save(arrays, metadata=metadata))


def is_measured(folder: Path) -> bool:
    """Return whether the familiarity in a head's folder was measured after its weights were last written.

    A resumed run need not measure it again, and on several threads it would differ in its last digits.
    """
    measured = folder / FAMILIARITY_NAME
    weights = [path.stat().st_mtime_ns for path in folder.glob("*.weights.h5")]
    return measured.exists() and measured.stat().st_mtime_ns > max(weights, default=0)


def load_familiarity(folder: Path) -> Familiarity | None:
    """Return the familiarity beside the weights of a head; None where an earlier version left none.

    Raises:
        InputError: The file is damaged.
    """
    path = folder / FAMILIARITY_NAME
    if not path.exists():
        return None
    try:
        with safe_open(path, "numpy") as file:
            arrays = {name: file.get_tensor(name) for name in ("scale", "reference", "held_out")}
            if "groups" in set(file.keys()):  # not in files of earlier versions
                arrays["groups"] = file.get_tensor("groups")
            metadata = file.metadata()
            of_inputs = bool(json.loads(metadata["of_inputs"]))
            side = int(json.loads(metadata.get("neighbourhood", "1")))  # not in files of earlier versions
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({error}). Expected the familiarity of a head. Remove it, and "
            "continue the training with --resume, which measures it again."
        ) from error
    return Familiarity(**arrays, of_inputs=of_inputs, neighbourhood=side)
