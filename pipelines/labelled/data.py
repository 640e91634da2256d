"""Prepared folders whose examples have one class each: images in shards, or rows of features in memory."""

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.labelled.dataset import (
    features_dataset,
    labelled_dataset,
    labelled_records,
    require_stored_shape,
)
from data_prep.labelled.view_manifest import ViewsManifest
from data_prep.labelled.views import read_views
from data_prep.prepared.manifest import LabelledManifest, Target, load_manifest
from pipelines.labelled.svms import TrainingFeatures
from pipelines.runs.application import Prepared

ManifestKind = TypeVar("ManifestKind", bound=LabelledManifest)
ViewsKind = TypeVar("ViewsKind", bound=ViewsManifest)


@dataclass(frozen=True)
class LabelledData(Prepared[ManifestKind], abc.ABC):
    """A prepared folder whose examples have one class each.

    Attributes:
        judged_at_once: How many examples the scores of an epoch take at a time.
    """

    judged_at_once: ClassVar[int]

    @abc.abstractmethod
    def dataset(self, names: Sequence[str], **options: Any) -> tf.data.Dataset:
        """Return batches of inputs and labels; options as `data_prep.labelled.dataset.labelled_dataset`."""

    @abc.abstractmethod
    def inputs(self, names: Sequence[str]) -> Iterator[tuple[str, NDArray[Any], Target]]:
        """Yield name, what the network is given, and label of some examples, in the order of names."""

    def sources(self, names: Sequence[str]) -> Iterator[NDArray[np.uint8] | None]:
        """Yield the images of some examples in the order of names; None where the network is given these."""
        return repeat(None, len(names))


@dataclass(frozen=True)
class PreparedImages(LabelledData[ManifestKind]):
    """A prepared folder with an image for each example."""

    judged_at_once: ClassVar[int] = 256

    def dataset(self, names: Sequence[str], **options: Any) -> tf.data.Dataset:
        """Return batches of images and labels; options as `data_prep.labelled.dataset.labelled_dataset`."""
        return labelled_dataset(self.folder, self.manifest, names, **options)

    def inputs(self, names: Sequence[str]) -> Iterator[tuple[str, NDArray[Any], Target]]:
        """Yield name, image and label of some examples, in the order of names."""
        return labelled_records(self.folder, self.manifest, names)


@dataclass(frozen=True)
class PreparedMatrix(LabelledData[ManifestKind]):
    """Base class of prepared folders with a row of features for each example."""

    judged_at_once: ClassVar[int] = 4096  # features are small

    @property
    @abc.abstractmethod
    def features(self) -> NDArray[np.float32]:
        """Features `[examples, D]` in the order of the manifest, read once."""

    def part(self, names: Sequence[str]) -> TrainingFeatures:
        """Return features, labels and groups of some examples, in the order of the names."""
        rows = self.manifest.rows(names)
        examples = [self.manifest.examples[row] for row in rows]
        return TrainingFeatures(
            self.features[rows],
            np.array(self.manifest.targets(names), self.manifest.target_type),
            np.array([example.group for example in examples]),
        )

    def dataset(self, names: Sequence[str], **options: Any) -> tf.data.Dataset:
        """Return batches of features and labels; options as `data_prep.labelled.dataset.labelled_dataset`."""
        options.pop("augmentation", None)  # images alone are varied
        part = self.part(names)
        return features_dataset(part.features, part.labels, **options)

    def inputs(self, names: Sequence[str]) -> Iterator[tuple[str, NDArray[np.float32], Target]]:
        """Yield name, features and label of some examples, in the order of names."""
        names = sorted(names)
        part = self.part(names)
        return zip(names, part.features, part.labels.tolist(), strict=True)


@dataclass(frozen=True)
class PreparedViews(PreparedMatrix[ViewsKind]):
    """A prepared folder with the views of its examples."""

    @cached_property
    def features(self) -> NDArray[np.float32]:
        """Features `[examples, D]`, all views after each other, in the order of the manifest."""
        views = read_views(self.folder, self.manifest)
        return np.concatenate([views[name] for name in self.manifest.views], axis=1)


def open_images(folder: Path, manifest: type[ManifestKind]) -> PreparedImages[ManifestKind]:
    """Return a prepared folder of images, checked.

    Raises:
        InputError: The folder cannot be used.
    """
    found = load_manifest(folder, manifest)
    require_stored_shape(folder, found)
    return PreparedImages(folder, found)


def open_views(folder: Path, manifest: type[ViewsKind]) -> PreparedViews[ViewsKind]:
    """Return a prepared folder with views of features, checked.

    Raises:
        InputError: The folder cannot be used.
    """
    found = load_manifest(folder, manifest)
    require_stored_shape(folder, found)
    return PreparedViews(folder, found)
