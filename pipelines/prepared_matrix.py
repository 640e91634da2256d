"""Prepared folders whose examples are features: all of them in memory, looked up by name."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.feature_dataset import features_dataset
from data_prep.labelled_manifest import LabelledManifest
from pipelines.head_application import Prepared
from pipelines.machines import TrainingFeatures

ManifestKind = TypeVar("ManifestKind", bound=LabelledManifest)


@dataclass(frozen=True)
class PreparedMatrix(Prepared[ManifestKind], abc.ABC):
    """Base class of prepared folders with a row of features for each example."""

    @property
    @abc.abstractmethod
    def features(self) -> NDArray[np.float32]:
        """``[examples, D]`` in the order of the manifest, read once."""

    def part(self, names: Sequence[str]) -> TrainingFeatures:
        """Features, labels and groups of some examples, in the order of the names."""
        rows = self.manifest.rows(names)
        examples = [self.manifest.examples[row] for row in rows]
        return TrainingFeatures(
            self.features[rows],
            np.array([example.label for example in examples], np.int32),
            np.array([example.group for example in examples]),
        )

    def dataset(self, names: Sequence[str], **options: Any) -> tf.data.Dataset:
        """Batches of features and labels; options as :func:`data_prep.labelled.labelled_dataset`."""
        options.pop("augmentation", None)  # of images
        part = self.part(names)
        return features_dataset(part.features, part.labels, **options)

    def inputs(self, names: Sequence[str]) -> Iterator[tuple[str, NDArray[np.float32], int]]:
        """Name, features and label of some examples, in the order of names."""
        names = sorted(names)
        part = self.part(names)
        return zip(names, part.features, map(int, part.labels), strict=True)
