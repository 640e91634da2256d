"""Random problems for every head that runs offer, trained as `train` trains it on features of such scales.

The problems are those of `benchmarks.reliability.numbers`, whose columns are taken for the features of a
network. Of each it must hold that
- the training ends, or a `ValueError` says what is wrong with the data;
- everything predicted is finite, probabilities lie in [0, 1] and sum to 1, variances are not negative;
- the folded head of an export gives the same probabilities;
- the same points in another order have the same probabilities.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from benchmarks.reliability.numbers import (
    CLASSES,
    TOLERANCE,
    FloatArray,
    Problem,
    draw_problem,
    is_explained,
    numbers_of,
    wrong_outputs,
)
from gpmodels import HybridModel
from gpmodels.registry import HeadFamily, HeadTask, families, head_family, starting_head

HEADS = tuple(families())
EPOCHS, BATCH, PLACEMENT_STEPS, LEARNING_RATE = 2, 256, 20, 0.01


def draw_head_problem(number: int) -> Problem:
    """Return the problem of a number, always the same; `estimator` is the name of a head family."""
    rng = np.random.default_rng([25, number])
    return replace(
        draw_problem(number),
        estimator=str(rng.choice(HEADS)),
        classes=int(rng.choice(CLASSES)),
        dtype="float32",
    )


def run(numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Yield a record of each problem."""
    for number in numbers:
        problem = draw_head_problem(number)
        yield asdict(problem) | {"faults": faults_of(problem)}


def faults_of(problem: Problem) -> list[str]:
    """Return what a problem shows to be wrong, in words; nothing where all holds."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(problem.number)
    x, values, judged = numbers_of(problem)
    labels, judged = np.unique(values, return_inverse=True)[1], judged.astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            model = trained(problem, x.astype(np.float32), labels)
            outputs = _as_arrays(model(judged))
            folded = model.inference_function()
            exported = _as_arrays(folded(tf.constant(judged)))
            moved = _in_another_order(folded, judged, problem.number)
        except ValueError as error:
            return [] if is_explained(problem, labels, str(error)) else [f"ValueError: {error}"]
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a fault to be listed
            return [f"{type(error).__name__}: {error}"]
    wrong = list(wrong_outputs(problem, _with_both_classes(outputs)))
    if wrong:
        return wrong
    compared = {
        "the export changes": (outputs, exported),
        "another order of the points changes": (exported, moved),
    }
    near = slice(0, min(problem.rows, 50))
    changes = {
        what: float(np.max(np.abs(one["probability"][near] - other["probability"][near])))
        for what, (one, other) in compared.items()
    }
    tolerance = TOLERANCE[problem.dtype]
    return [
        f"{what} probability by {change:.2g}" for what, change in changes.items() if not change <= tolerance
    ]


def trained(problem: Problem, x: FloatArray, labels: npt.NDArray[Any]) -> HybridModel:
    """Return a head on features `[N, D]`, placed, trained and completed as a run does it."""
    family = head_family(problem.estimator)
    sources = [(x[::2], labels[::2])] if family.needs_sources else []
    own = (x[1::2], labels[1::2]) if family.needs_sources else (x, labels)
    model = _model(family, problem, own, [len(rows) for rows, _ in sources])
    if family.fitted_on is None:
        if family.is_gaussian_process:
            model.initialize(own, seed=0, head_steps=PLACEMENT_STEPS)
        _train(model, own)
    elif family.fitted_on == starting_head():
        start = _model(head_family(starting_head()), problem, own, [])
        _train(start, own)
        model.head.copy_weights(start.head)
    if family.fitted_on is not None or family.is_completed:
        model.fit_to(own, sources=sources, seed=0)
    return model


def _model(
    family: HeadFamily, problem: Problem, own: tuple[FloatArray, npt.NDArray[Any]], source_rows: list[int]
) -> HybridModel:
    middle = (problem.columns + 1) // 2
    columns = (slice(0, middle), slice(middle, problem.columns))
    task = HeadTask(
        num_classes=problem.classes,
        views=columns if problem.columns > 1 else columns[:1],
        domain_rows=(*source_rows, len(own[0])) if source_rows else (),
    )
    settings = None if family.settings is None else family.settings()
    model = HybridModel(keras.layers.Identity(), family.make(settings, task), num_data=len(own[0]))
    model.build((None, problem.columns))
    model.compile(optimizer=keras.optimizers.Adam(LEARNING_RATE))
    return model


def _train(model: HybridModel, own: tuple[FloatArray, npt.NDArray[Any]]) -> None:
    model.fit(*own, epochs=EPOCHS, batch_size=BATCH, shuffle=False, verbose=0)


def _as_arrays(outputs: Mapping[str, tf.Tensor]) -> dict[str, FloatArray]:
    return {name: value.numpy() for name, value in outputs.items()}


def _in_another_order(function: Any, points: FloatArray, seed: int) -> dict[str, FloatArray]:
    """Return outputs for points given in another order, in the order that they had."""
    order = np.random.default_rng(seed).permutation(len(points))
    back = np.argsort(order)
    outputs = _as_arrays(function(tf.constant(points[order])))
    return {name: value[back] for name, value in outputs.items()}


def _with_both_classes(outputs: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Return the outputs with probabilities `[N, C]`, of two classes as well."""
    probability = outputs["probability"]
    if probability.ndim == 1:
        probability = np.stack([1.0 - probability, probability], axis=1)
    return {**outputs, "probability": probability}
