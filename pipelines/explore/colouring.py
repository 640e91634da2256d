"""What the points of the map can be coloured by: their class, group, score, or the error of a model.

Classes and groups have a colour and a shape each, so that they can be told apart without colour vision.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.explore.examples import Examples
from pipelines.explore.latent import LatentMap
from pipelines.explore.predictions import Predicted

MOST_KINDS = 16
"""How many classes or groups have a colour and a shape of their own; the smallest ones share the last."""


@dataclass(frozen=True)
class Colouring:
    """One way to colour N points.

    Attributes:
        key: Name in the page.
        title: Text of its button.
        explanation: What it shows, in a sentence.
        values: Index of a kind, or a number from 0 to 1, of each point; -1 where there is none.
        kinds: Names of the kinds; empty where the values are numbers.
        ends: What 0 and 1 mean, where the values are numbers.
        crossed: Rows that are drawn as a cross.
        crosses: What a cross means; empty without crosses.
    """

    key: str
    title: str
    explanation: str
    values: NDArray[Any]
    kinds: tuple[str, ...] = ()
    ends: tuple[str, str] = ("", "")
    crossed: tuple[int, ...] = ()
    crosses: str = ""


def colourings(
    examples: Examples, latent: LatentMap, suspects: tuple[int, ...], predicted: Predicted | None
) -> list[Colouring]:
    """Return the ways in which the points can be coloured, the first one to begin with.

    Args:
        examples: The examples.
        latent: Where they lie.
        suspects: Rows whose class is crossed.
        predicted: What a model said; None without predictions.
    """
    found = []
    if examples.classes is not None:
        found.append(_by_kind("class", "Class", examples.classes, suspects))
    if examples.groups is not None:
        found.append(_by_kind("group", "Group", examples.groups, ()))
    if predicted is not None and examples.classes is not None:
        found.append(_by_error(predicted, examples.classes))
    found.append(_by_oddness(latent))
    return found


def _by_kind(key: str, title: str, names: Sequence[str], suspects: tuple[int, ...]) -> Colouring:
    counts = Counter(names)
    kinds = sorted(counts)
    said = f"The {key} of each example."
    if len(kinds) > MOST_KINDS:
        kinds = sorted(name for name, _ in counts.most_common(MOST_KINDS - 1))
        others = len(counts) - len(kinds)
        kinds.append(f"{others} others")
        said = f"The {key} of each example; the {others} smallest share the last mark."
    index = {name: number for number, name in enumerate(kinds)}
    values = np.array([index.get(name, len(kinds) - 1) for name in names])
    crosses = "listed below: its neighbours have another class" if suspects else ""
    return Colouring(key, title, said, values, tuple(kinds), crossed=suspects, crosses=crosses)


def _by_error(predicted: Predicted, classes: Sequence[str]) -> Colouring:
    pairs = enumerate(zip(predicted.label, classes, strict=True))
    wrong = tuple(row for row, (label, name) in pairs if label and label != name)
    return Colouring(
        "error",
        "Model error",
        "One minus the probability that the model gave to the example's own class.",
        np.where(np.isnan(predicted.error), -1, predicted.error),
        ends=("0: sure and right", "1: sure and wrong"),
        crossed=wrong,
        crosses="the model chose another class",
    )


def _by_oddness(latent: LatentMap) -> Colouring:
    share = 1 - (latent.oddness_rank - 1) / max(len(latent.score) - 1, 1)
    return Colouring(
        "oddness",
        "Oddness",
        "Rank of the score: how unlike the others the model finds an example.",
        share,
        ends=("most ordinary", "oddest"),
    )
