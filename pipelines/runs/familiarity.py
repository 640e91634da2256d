"""The familiarity of a run's models: fitted after the training of each head, kept beside its weights.

Reference examples are of the training part, held-out ones of the whole selection part, of many a random
choice; of maps they are some random pixels of each image. What is held out counts by groups, as pixels of an
image are alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file
from gpmodels import HybridModel
from gpmodels.familiarity import MAX_REFERENCES, Familiarity, fit_familiarity

FAMILIARITY_NAME = "familiarity.safetensors"
"""File beside the weights of a head."""

_MOST_HELD_OUT = 5000
_PIXELS_AN_IMAGE = 32


def measure_familiarity(
    model: HybridModel,
    training: Iterable[Any],
    held_out: Iterable[Any],
    *,
    seed: int,
    groups: Sequence[str] | None = None,
) -> Familiarity | None:
    """Return the familiarity of a trained model.

    Args:
        model: The model.
        training: Shuffled batches of training examples; as many are read as are needed.
        held_out: Batches of examples that trained nothing.
        seed: Seed of the choices of pixels and of held-out points.
        groups: Group of each held-out example in the order of the batches; None where each is its own.

    Returns:
        The familiarity; None where nothing is held out.
    """
    rng = np.random.default_rng(seed)
    reference, _ = _first(_points(model, training, rng), MAX_REFERENCES)
    judged, examples = _some(_points(model, held_out, rng), _MOST_HELD_OUT, seed)
    if not len(reference) or not len(judged):
        return None
    members = examples if groups is None else np.asarray(groups)[examples]
    return fit_familiarity(reference, judged, groups=members, of_inputs=model.takes_features, seed=seed)


def _points(
    model: HybridModel, batches: Iterable[Any], rng: np.random.Generator
) -> Iterator[tuple[NDArray[np.floating[Any]], NDArray[np.intp]]]:
    """Yield features `[N, D]` of each batch, of maps some pixels that count, and their examples' numbers."""
    begin = 0
    for inputs, _, *weights in batches:
        features = inputs if model.takes_features else model.network(inputs, training=False)
        values = np.asarray(features)
        numbers = np.arange(begin, begin + len(values))
        begin += len(values)
        if values.ndim == 2:
            yield values, numbers
            continue
        maps = values.reshape(len(values), -1, values.shape[-1])
        counts = np.ones(maps.shape[:2]) if not weights else np.reshape(weights[0], [len(maps), -1])
        counts = np.broadcast_to(counts, maps.shape[:2])
        chosen = [rng.permutation(np.flatnonzero(row))[:_PIXELS_AN_IMAGE] for row in counts]
        pixels = np.concatenate([image[places] for image, places in zip(maps, chosen, strict=True)])
        yield pixels, np.repeat(numbers, [len(places) for places in chosen])


def _first(
    parts: Iterator[tuple[NDArray[Any], NDArray[np.intp]]], number: int
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the first rows of some parts and their numbers, reading no more of them than needed."""
    rows: list[NDArray[Any]] = []
    numbers: list[NDArray[np.intp]] = []
    while sum(map(len, rows)) < number and (part := next(parts, None)) is not None:
        rows.append(part[0])
        numbers.append(part[1])
    if not rows:
        return np.zeros((0, 0)), np.zeros(0, np.intp)
    return np.concatenate(rows)[:number], np.concatenate(numbers)[:number]


def _some(
    parts: Iterator[tuple[NDArray[Any], NDArray[np.intp]]], number: int, seed: int
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return that many rows of all parts, each as likely as any other, and their numbers, in their order.

    Each row draws a key, and those with the smallest keys stay; so no more than them are in memory.
    """
    rng = np.random.default_rng([seed, 1])
    rows, numbers, keys = np.zeros((0, 0)), np.zeros(0, np.intp), np.zeros(0)
    for part, of_part in parts:
        rows = np.concatenate([rows, part]) if len(rows) else part
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
    metadata = {"of_inputs": json.dumps(familiarity.of_inputs)}
    with atomic_file(folder / FAMILIARITY_NAME) as temporary:
        temporary.write_bytes(save(arrays, metadata=metadata))


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
            of_inputs = bool(json.loads(file.metadata()["of_inputs"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({error}). Expected the familiarity of a head. Remove it, and bundles "
            "and evaluations will have none, or train the head again."
        ) from error
    return Familiarity(**arrays, of_inputs=of_inputs)
