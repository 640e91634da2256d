"""Applications that judge several prepared examples as one: the clips of a video, the patches of an image.

The heads predict the examples; a pool's probability is the mean of theirs. The name of an example is that of
its pool, a slash and what tells it from the others.
"""

from __future__ import annotations

import abc
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from pipelines.head_application import JudgedExample, Prepared
from pipelines.labelled_application import LabelledApplication, ManifestKind, RunKind, SettingsKind
from pipelines.learned_examples import input_digests
from pipelines.predictors import Outputs, Predictor
from pipelines.serving import per_class


class PooledApplication(LabelledApplication[SettingsKind, RunKind, ManifestKind], abc.ABC):
    """Base class of the applications whose judged examples are pools of prepared ones.

    Attributes:
        predicted_at_once: How many examples of a pool a method is given at a time.
    """

    predicted_at_once: int = 64

    def pool(self, example: Any) -> str:
        """Name of an example's pool."""
        return pool_of(example.name)

    def num_judged(self, data: Prepared[ManifestKind], names: Sequence[str]) -> int:
        """How many pools these examples are of."""
        return len({self.pool(example) for example in data.manifest.select(names)})

    def examples(self, data: Prepared[ManifestKind], names: Sequence[str]) -> Iterator[JudgedExample]:
        """Pools: what the network is given of their examples, stacked, and the label of the first."""
        pools: dict[str, list[str]] = defaultdict(list)
        for example in data.manifest.select(sorted(names)):
            pools[self.pool(example)].append(example.name)
        for pool, of_pool in sorted(pools.items()):
            inputs = list(self.inputs(data, of_pool))
            yield JudgedExample(pool, np.stack([values for _, values, _ in inputs]), inputs[0][2])

    def judged_groups(self, data: Prepared[ManifestKind], names: Sequence[str]) -> dict[str, str]:
        """Group of each pool, that of its examples."""
        return {self.pool(example): example.group for example in data.manifest.select(names)}

    def digests(self, example: JudgedExample) -> list[str]:
        """Of what the network is given of each of a pool's examples."""
        return input_digests(example.image)

    def examples_named(self, data: Prepared[ManifestKind], names: Sequence[str]) -> Iterator[JudgedExample]:
        """Pools by their names."""
        wanted = set(names)
        return self.examples(data, [e.name for e in data.manifest.examples if self.pool(e) in wanted])

    def outputs(self, predictor: Predictor, example: JudgedExample) -> Outputs:
        """The mean over the examples of a pool, see :func:`mean_outputs`."""
        batches = [
            predictor.predict(tf.constant(example.image[start : start + self.predicted_at_once], tf.float32))
            for start in range(0, len(example.image), self.predicted_at_once)
        ]
        probability = np.concatenate([per_class(batch["probability"]).numpy() for batch in batches])
        information = np.concatenate([batch["mutual_information"].numpy() for batch in batches])
        return mean_outputs(probability, information)


def mean_outputs(probability: NDArray[np.floating[Any]], information: NDArray[np.floating[Any]]) -> Outputs:
    """Outputs of a pool from those of its examples.

    The entropy is that of the mean probability, and so counts how much the examples differ; the mutual
    information is the mean of theirs.

    Args:
        probability: ``[K, C]``.
        information: Mutual information ``[K]``, nats.

    Returns:
        ``probability [C]``, ``label []``, ``predictive_entropy []`` of the mean probability and
        ``mutual_information []``, the mean.
    """
    mean = probability.mean(axis=0)
    positive = mean[mean > 0]
    return {
        "probability": mean,
        "label": np.asarray(mean.argmax(), np.int32),
        "predictive_entropy": np.asarray(-(positive * np.log(positive)).sum(), mean.dtype),
        "mutual_information": np.asarray(information.mean()),
    }


def pools_of(names: Sequence[str]) -> tuple[str, ...]:
    """Names of the pools of examples, each once, in the order of names."""
    return tuple(sorted({pool_of(name) for name in names}))


def pool_of(name: str) -> str:
    """Name of an example's pool.

    Example:
        >>> pool_of("Walk/v_Walk_g01_c01/0003")
        'Walk/v_Walk_g01_c01'
    """
    return name.rpartition("/")[0]
