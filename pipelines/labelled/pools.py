"""Pools: several prepared examples that are judged as one, for example the clips of a video.

The heads predict the examples; a pool's probability is the mean of theirs, at a temperature of its own. The
name of an example is that of its pool, a slash and what tells it from the others, unless a pool is something
else.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.bundles.metadata import FAMILIARITY
from pipelines.bundles.pooled_outputs import mean_outputs
from pipelines.bundles.serving import per_class
from pipelines.labelled.data import LabelledData
from pipelines.runs.application import JudgedExample
from pipelines.runs.predictors import Predictor
from pipelines.scores.pictures import Outputs
from pipelines.scores.unfamiliar_scores import FAMILIARITY_DISTANCE


@dataclass(frozen=True)
class Pools:
    """How examples are pooled.

    Attributes:
        name_of: Returns the name of an example's pool.
        predicted_at_once: How many examples of a pool a method is given at a time.
    """

    name_of: Callable[[Any], str]
    predicted_at_once: int = 64

    def names(self, data: LabelledData[Any], names: Sequence[str]) -> set[str]:
        """Return the names of the pools of some examples."""
        return {self.name_of(example) for example in data.manifest.select(names)}

    def examples(self, data: LabelledData[Any], names: Sequence[str]) -> Iterator[JudgedExample]:
        """Yield pools: what the network is given of their examples, stacked, and the label of the first."""
        pools: dict[str, list[str]] = defaultdict(list)
        for example in data.manifest.select(sorted(names)):
            pools[self.name_of(example)].append(example.name)
        for pool, of_pool in sorted(pools.items()):
            inputs = list(data.inputs(of_pool))
            sources = [source for source in data.sources(of_pool) if source is not None]
            yield JudgedExample(
                pool,
                np.stack([values for _, values, _ in inputs]),
                inputs[0][2],
                source=np.stack(sources) if sources else None,
            )

    def members(self, data: LabelledData[Any], pools: Sequence[str]) -> list[str]:
        """Return the names of the examples of some pools."""
        wanted = set(pools)
        return [example.name for example in data.manifest.examples if self.name_of(example) in wanted]

    def outputs(self, predictor: Predictor, example: JudgedExample, *, temperature: float = 1.0) -> Outputs:
        """Return the mean over the examples of a pool, see `mean_outputs`, with that of their distance.

        Args:
            predictor: The method.
            example: The pool.
            temperature: Of the method's pools.
        """
        batches = [
            predictor.predict(tf.constant(example.image[start : start + self.predicted_at_once], tf.float32))
            for start in range(0, len(example.image), self.predicted_at_once)
        ]
        probability = np.concatenate([per_class(batch["probability"]).numpy() for batch in batches])
        information = np.concatenate([batch["mutual_information"].numpy() for batch in batches])
        if FAMILIARITY not in batches[0]:
            return mean_outputs(probability, information, temperature=temperature)
        keys = (FAMILIARITY, FAMILIARITY_DISTANCE)
        familiarity, distance = (np.concatenate([batch[key].numpy() for batch in batches]) for key in keys)
        outputs = mean_outputs(probability, information, familiarity, temperature=temperature)
        return {**outputs, FAMILIARITY_DISTANCE: np.asarray(distance.mean())}


def pools_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the pools of examples, each once, in the order of names."""
    return tuple(sorted({pool_of(name) for name in names}))


def pool_of(name: str) -> str:
    """Return the name of an example's pool.

    Example:
        >>> pool_of("Walk/v_Walk_g01_c01/0003")
        'Walk/v_Walk_g01_c01'
    """
    return name.rpartition("/")[0]
