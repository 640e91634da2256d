"""Predicting several files at a time: on the workers of a cluster, or in threads of this process.

Without TensorFlow, which a worker starts before it is used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from data_prep.errors import Skipped
from data_prep.prepared.workers import Cluster
from pipelines.bundles.prediction_run import PredictionRun, Record, bundle_sha256
from pipelines.bundles.sources import Source
from pipelines.command.remote import other_file_seen, work_with_tensorflow

if TYPE_CHECKING:
    from pipelines.bundles.prediction_lines import PredictionLine


MOST_THREADS = 8
"""Images in memory at a time, however many processors there are."""


@dataclass(frozen=True)
class PredictorFactory:
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

    def open(self) -> Callable[[Source], Record]:
        """Return what predicts a file and writes the files of it, after the bundle is opened.

        Raises:
            InputError: The worker sees another bundle than the command, or cannot open it.
        """
        from pipelines.bundles.prediction import open_bundle, recorded  # noqa: PLC0415 - help answers without it

        if bundle_sha256(self.bundle) != self.sha256:
            raise other_file_seen(self.bundle)
        signature, metadata = open_bundle(self.bundle, self.application, self.settings)
        predict = self.make(signature, metadata, self.bundle, self.settings, self.out)
        return partial(recorded, self.line_class, predict, self.out)


def on_cluster(
    cluster: Cluster | None,
    run: PredictionRun,
    *,
    make: Callable[..., Any],
    line_class: type[PredictionLine],
    bundle: Path,
    settings: BaseModel,
) -> Callable[[Sequence[Source]], Iterator[Record | Skipped]] | None:
    """Return what predicts the files of a run on a cluster, in their order; None without a cluster.

    It raises `InputError` where a file cannot be written or a worker cannot be used, and `ClusterLost` where
    the cluster no longer answers.

    Args:
        cluster: The cluster.
        run: The run.
        make: Makes what predicts, see `PredictorFactory`.
        line_class: Class of the application's lines.
        bundle: Folder of the bundle.
        settings: Of the step.
    """
    if cluster is None:
        return None
    application, sha256 = run.header["application"], run.header["bundle"]
    recipe = PredictorFactory(make, line_class, application, bundle, sha256, settings, run.out)

    def records(sources: Sequence[Source]) -> Iterator[Record | Skipped]:
        return work_with_tensorflow(cluster, recipe.open, sources, lambda source: source.path)

    return records


def in_threads(
    threads: int, predict: Callable[[Source], Any], line_class: type[PredictionLine], out: Path
) -> Callable[[Sequence[Source]], Iterator[Record | Skipped]]:
    """Return what predicts files in threads of this process, in their order.

    A small network does not gain much from a second processor for one image; two images side by side do.

    Args:
        threads: How many files are predicted at a time.
        predict: What predicts a file; several threads call it.
        line_class: Class of the application's lines.
        out: Output folder.
    """
    from pipelines.bundles.prediction import recorded  # noqa: PLC0415 - imports TensorFlow

    def records(sources: Sequence[Source]) -> Iterator[Record]:
        pool, ahead = ThreadPoolExecutor(threads), deque[Future[Record]]()
        try:
            for source in sources:
                ahead.append(pool.submit(recorded, line_class, predict, out, source))
                if len(ahead) > threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    return records
