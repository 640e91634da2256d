"""Trained models as evaluation runs them: the rows of a report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from gpmodels import HybridModel, LinearHead
from pipelines.head_settings import HeadName, HeadRun
from pipelines.heads import TEMPERED, TITLES, view_text
from pipelines.overlays import Picture

Outputs = dict[str, NDArray[Any]]
"""Named outputs of one image: ``[H, W]`` where every pixel is predicted, ``[]`` or ``[C]`` else."""


@dataclass(frozen=True)
class Predictor:
    """A trained model with its folded head, one image at a time.

    Attributes:
        title: As in tables.
        predict: From images ``[B, H, W, 3]`` to named outputs ``[B, ...]``.
        details: Facts for the report, for example the fitted temperature.
    """

    title: str
    predict: Callable[[tf.Tensor], dict[str, tf.Tensor]]
    details: dict[str, float | int | str]

    def outputs(self, image: Picture) -> Outputs:
        """Outputs of one uint8 image ``[H, W, 3]`` of the network's size."""
        outputs = self.predict(tf.constant(image[None], tf.float32))
        return {name: value.numpy()[0] for name, value in outputs.items()}


def predictor(title: str, model: HybridModel, **details: float | str) -> Predictor:
    """The model as evaluation and export run it: folded, traced once for any batch."""
    function = tf.function(model.inference_function(), reduce_retracing=True, autograph=False)
    return Predictor(title, function, details)


def run_predictors(run: HeadRun, load: Callable[[HeadName], HybridModel]) -> list[Predictor]:
    """The rows of the report: each head of the run, the linear one with and without its temperature.

    Args:
        run: Which heads there are.
        load: Gives the trained model of a head.
    """
    rows: list[Predictor] = []
    for name in run.heads:
        model = load(name)
        details = _head_details(model)
        if name == "dfgp_mkl":
            details["weights of the views"] = view_text(run.view_weights)
        rows.append(predictor(TITLES[name], model, **details))
        if isinstance(model.head, LinearHead) and run.temperature is not None:
            model.head.set_temperature(run.temperature)
            rows.append(predictor(TEMPERED, model, temperature=round(run.temperature, 4)))
    return rows


def _head_details(model: HybridModel) -> dict[str, float | int | str]:
    occupancy = model.head.expert_occupancy()
    if not occupancy:
        return {}
    shares = sorted(occupancy.values(), reverse=True)
    return {
        "experts": len(shares),
        "expert occupancy in training": ", ".join(f"{share:.0%}" for share in shares),
    }
