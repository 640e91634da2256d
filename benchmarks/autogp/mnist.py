"""All digits: the bound against leaving out at equal steps, few inducing inputs, and errors over time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.autogp.models import classifier
from benchmarks.autogp.plan import fit_size
from benchmarks.autogp.problems import digits
from benchmarks.cell_runner import Cell
from benchmarks.tabular.measures import classification_measures

HELD_OUT = 5000

LEARNING_RATE = 0.1
"""Of Adam at the start. Held-out rows were likelier by it than by 0.02, the estimators' default, and 0.05."""


def compute(cell: Cell, data: Path) -> dict[str, Any]:
    """Return errors of a fit to all rows but those held out to stop by, and its learning curve."""
    problem = digits(data, cell.seed)
    class_kernels, num_inducing, steps = fit_size(cell.setting)
    model = classifier(
        f"AutoGP {cell.method}",
        cell.seed,
        num_inducing=num_inducing,
        max_iterations=steps,
        batch_size=1000,
        validation_fraction=HELD_OUT / len(problem.y),
        class_kernels=class_kernels,
        lengthscale_spread=None,
        learning_rate=LEARNING_RATE,
        dtype="float32",
    )
    times = [(0, 0.0)]
    started = time.process_time()
    model.fit(
        problem.x,
        problem.y,
        callback=lambda _, step: times.append((step, time.process_time() - started)),
    )
    seconds = time.process_time() - started
    measured = classification_measures(problem.test_y, model.predict_proba(problem.test_x))
    looks = [(point.iteration, point.validation) for point in model.learning_curve_]
    curve = curve_by_processor_time(looks, times)
    best_step, _, least = min(curve, key=lambda look: look[2])
    return {
        **measured,
        "seconds": seconds,
        "steps": model.n_iter_,
        "best_step": best_step,
        "validation_nll": least,
        "curve": curve,
    }


def curve_by_processor_time(
    looks: Iterable[tuple[int, float]], times: list[tuple[int, float]]
) -> list[tuple[int, float, float]]:
    """Return the step, the processor seconds and the NLL of each look at the held-out rows.

    The seconds of a fit's own learning curve are of the clock, which other work on the machine makes longer.

    Args:
        looks: Step and mean log density of the held-out rows, NaN after a step without a look.
        times: Step and processor seconds since the start of the fit, of some steps in order; between them
            the seconds are interpolated.

    Example:
        >>> curve_by_processor_time([(14, float("nan")), (15, -0.5)], [(10, 1.0), (20, 3.0)])
        [(15, 2.0, 0.5)]
    """
    steps, seconds = zip(*times, strict=True)
    return [
        (step, float(np.interp(step, steps, seconds)), -density)
        for step, density in looks
        if not np.isnan(density)
    ]
