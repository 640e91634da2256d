"""Predicting on the workers of a cluster; without TensorFlow, which a worker starts before it is used."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from data_prep.errors import InputError, Skipped
from data_prep.prepared.workers import Cluster, work_in_order
from pipelines.bundles.prediction_run import PredictionRun, Record, bundle_sha256
from pipelines.bundles.sources import Source
from pipelines.command.tensorflow_start import start_tensorflow

if TYPE_CHECKING:
    from pipelines.bundles.prediction import PredictionLine


@dataclass(frozen=True)
class Recipe:
    """How a worker makes what predicts; it opens the bundle once.

    Attributes:
        make: Takes the signature, the metadata, the bundle, the settings and the output folder.
        line_class: Class of the application's lines.
        application: Name of the application.
        bundle: Folder of the bundle, which all workers see.
        sha256: Of the bundle, so that a worker never predicts with another one.
        settings: Of the step.
        out: Output folder, which all workers see.
    """

    make: Callable[..., Any]
    line_class: type[PredictionLine]
    application: str
    bundle: Path
    sha256: str
    settings: BaseModel
    out: Path


def records_in_order(
    cluster: Cluster, recipe: Recipe, sources: Sequence[Source]
) -> Iterator[Record | Skipped]:
    """Predict files on the workers of a cluster, which also write the files of each.

    Args:
        cluster: The cluster.
        recipe: How a worker makes what predicts.
        sources: Files to predict.

    Yields:
        What was predicted of each file, in their order; or a `Skipped` where each worker that took it ended.

    Raises:
        InputError: A file cannot be written, or a worker cannot be used.
        ClusterLost: The cluster no longer answers.
    """
    arguments = (pickle.dumps(recipe),)
    for _, result in work_in_order(
        cluster, predict_on_worker, sources, arguments, lambda source: source.path
    ):
        yield result


def on_cluster(
    cluster: Cluster | None,
    run: PredictionRun,
    *,
    make: Callable[..., Any],
    line_class: type[PredictionLine],
    bundle: Path,
    settings: BaseModel,
) -> Callable[[Sequence[Source]], Iterator[Record | Skipped]] | None:
    """Return what predicts the files of a run on a cluster, None without a cluster.

    Args:
        cluster: The cluster.
        run: The run.
        make: Makes what predicts, see `Recipe`.
        line_class: Class of the application's lines.
        bundle: Folder of the bundle.
        settings: Of the step.
    """
    if cluster is None:
        return None
    application, sha256 = run.header["application"], run.header["bundle"]
    recipe = Recipe(make, line_class, application, bundle, sha256, settings, run.out)
    return partial(records_in_order, cluster, recipe)


def predict_on_worker(source: Source, recipe: bytes) -> Record:
    """Predict one file in a worker process.

    Args:
        source: The file.
        recipe: A pickled `Recipe`: unpickled by Dask, it would import TensorFlow before it is kept quiet.
    """
    start_tensorflow(1)
    record: Record = _opened(recipe)(source)
    return record


@lru_cache(maxsize=1)
def _opened(recipe: bytes) -> Callable[[Source], Record]:
    """Open a bundle, once in a worker process.

    Raises:
        InputError: The worker sees another bundle than the command, or cannot open it.
    """
    from pipelines.bundles.prediction import open_bundle, recorded  # noqa: PLC0415 - imports TensorFlow

    made: Recipe = pickle.loads(recipe)  # noqa: S301 - by the command itself, and Dask pickles all it sends
    if bundle_sha256(made.bundle) != made.sha256:
        raise InputError(
            f"{made.bundle}: a worker sees another bundle at this path than the command, or it has changed "
            "since the command began. All machines of a cluster must see the files under the same paths; run "
            "the command again when they do."
        )
    signature, metadata = open_bundle(made.bundle, made.application)
    predict = made.make(signature, metadata, made.bundle, made.settings, made.out)
    return partial(recorded, made.line_class, predict, made.out)
