"""Features of a frozen trunk: computed once in one pass over a prepared folder, and kept in a cache.

A cached folder belongs to certain images, however these are divided, one set of weights and one size. Its
files hold some hundred examples each and appear when they are complete, so an interrupted pass goes on where
it stopped.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from safetensors import SafetensorError
from safetensors.numpy import load, save

from data_prep.errors import InputError, Skipped
from data_prep.files.atomic import atomic_file
from data_prep.labelled.dataset import labelled_dataset, labelled_records
from data_prep.prepared.manifest import MANIFEST_NAME, LabelledManifest, read_manifest
from data_prep.prepared.workers import Cluster
from gpmodels.networks.trunks import Trunk
from pipelines.command.console import say
from pipelines.command.remote import other_file_seen, work_with_tensorflow
from pipelines.labelled.data import PreparedImages, PreparedMatrix
from pipelines.trunks.cache import CACHE_VARIABLE, cache_folder
from pipelines.trunks.settings import TrunkFacts
from pipelines.trunks.weights import arrays_sha256, load_trunk

IMAGES_AT_ONCE = 32
EXAMPLES_A_FILE = 512
BATCHES_AHEAD = 4
"""Batches of images in memory per worker that are handed out at a time: they are larger than names."""

FEATURES_VERSION = 1
"""Raised where the same trunk and images give other features than before: cached ones are not taken then."""

ManifestKind = TypeVar("ManifestKind", bound=LabelledManifest)


@dataclass(frozen=True, kw_only=True)
class LoadedTrunk:
    """A trunk with its weights, and what distinguishes its features from others.

    Attributes:
        network: The trunk.
        facts: What distinguishes its features.
        weights: Where its weights came from, as `load_trunk` takes it.
    """

    network: Trunk
    facts: TrunkFacts
    weights: str | Path

    @cached_property
    def of_batch(self) -> "BatchPass":
        """What computes the features of images of the size of the facts in this process."""
        return BatchPass(self.network, (*self.facts.size, 3))

    @property
    def factory(self) -> "BatchPassFactory":
        """How a worker loads it."""
        return BatchPassFactory(weights=self.weights, facts=self.facts)


@dataclass(frozen=True)
class TrunkFeatures(PreparedMatrix[ManifestKind]):
    """A prepared folder of images as a frozen trunk sees them.

    Attributes:
        trunk: The trunk.
        console: Where the pass over the images is shown, the first time that features are asked for.
        cluster: Whose workers compute features that the cache does not have; None for this process.
    """

    trunk: LoadedTrunk
    console: Console = field(compare=False)
    cluster: Cluster | None = field(default=None, compare=False)

    @cached_property
    def features(self) -> NDArray[np.float32]:
        """Features `[examples, D]` in the order of the manifest; computed where the cache has none."""
        return frozen_features(self)

    def encode(self, images: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the features of images `[B, H, W, 3]`."""
        return features_of_images(self.trunk, images, self.cluster)

    def sources(self, names: Sequence[str]) -> Iterator[NDArray[np.uint8]]:
        """Yield the images of some examples, in the order of names."""
        return (image for _, image, _ in labelled_records(self.folder, self.manifest, names))


@dataclass(frozen=True)
class TrunkImages(PreparedImages[ManifestKind]):
    """A prepared folder of images for a trunk whose last blocks are trained; `trunk` is how it begins."""

    trunk: LoadedTrunk


def frozen_features(data: TrunkFeatures[Any]) -> NDArray[np.float32]:
    """Return the features of all examples of a prepared folder, from the cache as far as it has them.

    Args:
        data: The folder, the trunk and the console.

    Returns:
        Features `[examples, D]` in the order of the manifest.

    Raises:
        ClusterLost: The cluster no longer answers; what is computed is in the cache.
        InputError: The cache cannot be written, or the workers of a cluster see other files or weights.
    """
    names = [example.name for example in data.manifest.examples]
    parts = [names[start : start + EXAMPLES_A_FILE] for start in range(0, len(names), EXAMPLES_A_FILE)]
    folder = cache_folder(f"features/{_key(data)}")
    files = [folder / f"{number:05d}.safetensors" for number in range(len(parts))]
    width = data.trunk.facts.num_features
    found = {file: _read(file, (len(part), width)) for file, part in zip(files, parts, strict=True)}
    missing = sum(len(part) for file, part in zip(files, parts, strict=True) if found[file] is None)
    if missing:
        name, started = data.trunk.facts.name, time.perf_counter()
        height, wide = data.manifest.size
        say(
            data.console, f"Computing the features of {missing} images of {height} x {wide} with {name}, once"
        )
        with Progress(console=data.console, transient=True, disable=not data.console.is_terminal) as bar:
            task = bar.add_task(f"Features of {name}", total=missing)
            todo = [(file, part) for file, part in zip(files, parts, strict=True) if found[file] is None]
            computed = _computed(data, [part for _, part in todo], lambda number: bar.advance(task, number))
            for (file, _), features in zip(todo, computed, strict=True):
                _write(file, features)
                found[file] = features
        seconds = time.perf_counter() - started
        say(
            data.console,
            f"{missing} images in {seconds:.0f} s ({missing / max(seconds, 1e-9):.0f} a second); their "
            f"features are kept in {folder}",
        )
    return np.concatenate([found[file] for file in files])


def _computed(
    data: TrunkFeatures[Any], parts: Sequence[Sequence[str]], on_done: Callable[[int], None]
) -> Iterator[NDArray[np.float32]]:
    """Yield the features of each of some parts of the examples, by this process or a cluster."""
    if data.cluster is None:
        pass_over = TrunkPass(data.folder, data.manifest, data.trunk.network)
        yield from (pass_over(part, on_done) for part in parts)
        return
    factory = TrunkPassFactory(
        folder=data.folder,
        kind=type(data.manifest),
        prepared_sha256=data.sha256,
        trunk=data.trunk.factory,
    )
    results = work_with_tensorflow(data.cluster, factory.open, parts, lambda part: data.folder / part[0])
    for part, features in zip(parts, results, strict=True):
        if isinstance(features, Skipped):
            raise InputError(
                f"{features.reason} Features that are computed are kept: mend the file, and give the command "
                "again, `train` with --resume."
            )
        on_done(len(part))
        yield features


def features_of_images(
    trunk: LoadedTrunk, images: NDArray[np.uint8], cluster: Cluster | None
) -> NDArray[np.float32]:
    """Return the features of images in memory; no cache keeps them.

    Args:
        trunk: The trunk.
        images: `[N, H, W, 3]`, of the size that the trunk's facts name.
        cluster: Whose workers compute them; None for this process.

    Returns:
        Features `[N, D]`.

    Raises:
        ClusterLost: The cluster no longer answers.
        InputError: The workers of a cluster see other weights, or end at some of the images.
    """
    batches = [images[start : start + IMAGES_AT_ONCE] for start in range(0, len(images), IMAGES_AT_ONCE)]
    if cluster is None:
        return np.concatenate([trunk.of_batch(batch) for batch in batches])
    name, (height, width) = trunk.facts.name, trunk.facts.size
    results = work_with_tensorflow(
        cluster, trunk.factory.open, batches, lambda _: Path(name), ahead=BATCHES_AHEAD
    )
    found = []
    for batch, features in zip(batches, results, strict=True):
        if isinstance(features, Skipped):  # whatever the images show, so none of them is named
            raise InputError(
                f"{name}: every worker that was given {len(batch)} images of {height} x {width} ended "
                "without an answer, the last one with them alone. It may need more memory than a worker has: "
                "give the workers more, or leave --cluster out."
            )
        found.append(features)
    return np.concatenate(found)


class BatchPass:
    """Computes the features of some images after others, here or on a worker of a cluster.

    The same images give the same features, whatever was computed before: the graph is traced once, for
    batches of any length.

    Args:
        network: The trunk.
        shape: Of an image: height, width, 3.
    """

    def __init__(self, network: Trunk, shape: tuple[int, ...]) -> None:
        spec = tf.TensorSpec([None, *shape], tf.float32)
        self._predict = tf.function(network, input_signature=[spec], autograph=False)

    def __call__(self, images: NDArray[np.uint8] | tf.Tensor) -> NDArray[np.float32]:
        """Return features `[B, D]` of images `[B, H, W, 3]`."""
        features: NDArray[np.float32] = self._predict(tf.cast(images, tf.float32)).numpy()
        return features


class TrunkPass:
    """Computes the features of some examples after others, as `BatchPass` those of images.

    Args:
        folder: Prepared images.
        manifest: Their manifest.
        network: The trunk.
    """

    def __init__(self, folder: Path, manifest: LabelledManifest, network: Trunk) -> None:
        self._of_batch = BatchPass(network, manifest.shape)
        self._folder, self._manifest = folder, manifest

    def __call__(
        self, names: Sequence[str], on_done: Callable[[int], None] = lambda _: None
    ) -> NDArray[np.float32]:
        """Return features `[examples, D]` in the order of the names.

        Args:
            names: Names of examples.
            on_done: Called after each batch with its number of images.
        """
        batches = []
        for images, _ in labelled_dataset(self._folder, self._manifest, names, batch_size=IMAGES_AT_ONCE):
            batches.append(self._of_batch(images))
            on_done(len(batches[-1]))
        return np.concatenate(batches)


@dataclass(frozen=True, kw_only=True)
class BatchPassFactory:
    """How a worker makes what computes features of images; it loads the trunk once.

    Attributes:
        weights: Where the trunk's weights come from; random ones would be others.
        facts: Of the trunk, so that a worker never computes with another one.
    """

    weights: str | Path
    facts: TrunkFacts

    def open(self) -> BatchPass:
        """Return what computes features of images.

        Raises:
            InputError: The worker sees other weights than the command, or has none.
        """
        return BatchPass(self.network(), (*self.facts.size, 3))

    def network(self) -> Trunk:
        """Return the trunk.

        Raises:
            InputError: The worker sees other weights than the command, or has none.
        """
        facts = self.facts
        network = load_trunk(facts.name, self.weights, smallest_side=facts.smallest_side)
        if (found := arrays_sha256(network.arrays())) != facts.sha256:
            raise InputError(
                f"{facts.name}: a worker finds other weights than the command: expected "
                f"{facts.sha256[:12]}..., found {found[:12]}... Install the same weights on all machines, or "
                "pass a file of them that all see."
            )
        return network


@dataclass(frozen=True, kw_only=True)
class TrunkPassFactory:
    """How a worker makes what computes features of examples; it opens the trunk and the manifest once.

    Attributes:
        folder: Prepared images, which all workers see.
        kind: Class of their manifest.
        prepared_sha256: Of the manifest, so that a worker never reads others.
        trunk: How it loads the trunk.
    """

    folder: Path
    kind: type[LabelledManifest]
    prepared_sha256: str
    trunk: BatchPassFactory

    def open(self) -> TrunkPass:
        """Return what computes features of examples.

        Raises:
            InputError: The worker sees other files or weights than the command, or has none.
        """
        content = read_manifest(self.folder)
        if hashlib.sha256(content).hexdigest() != self.prepared_sha256:
            raise other_file_seen(self.folder / MANIFEST_NAME)
        return TrunkPass(self.folder, self.kind.model_validate_json(content), self.trunk.network())


def _key(data: TrunkFeatures[Any]) -> str:
    """Return the name of the cached folder, by what its features depend on: images and trunk, not splits."""
    digest = hashlib.sha256(f"{FEATURES_VERSION} {data.trunk.facts.model_dump_json()}".encode())
    for example in data.manifest.examples:
        shard = data.manifest.sha256[example.shard]
        digest.update(f"{example.name} {shard} {example.offset} {example.length}\n".encode())
    return digest.hexdigest()[:32]


def _write(path: Path, features: NDArray[np.float32]) -> None:
    digest = np.frombuffer(hashlib.sha256(features.tobytes()).digest(), np.uint8)
    try:
        with atomic_file(path) as temporary:
            temporary.write_bytes(save({"features": features, "sha256": digest}))
    except InputError as error:
        raise InputError(
            f"{error} The environment variable {CACHE_VARIABLE} names the folder of the cache."
        ) from error


def _read(path: Path, shape: tuple[int, int]) -> NDArray[np.float32] | None:
    """Return the features of a file; None where there is no file, or a damaged one."""
    try:
        arrays = load(path.read_bytes())
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
    features, digest = arrays.get("features"), arrays.get("sha256")
    if features is None or digest is None or features.shape != shape or features.dtype != np.float32:
        return None
    return features if hashlib.sha256(features.tobytes()).digest() == digest.tobytes() else None
