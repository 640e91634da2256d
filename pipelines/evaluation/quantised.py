"""What `export --quantise` reads from the prepared images, and the loss that it measures on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.errors import InputError
from pipelines.bundles.metadata import Int8Loss
from pipelines.bundles.portable import litert_runner
from pipelines.bundles.serving import ClassServer, Server
from pipelines.runs.job import Job

_INPUTS: Final = 100
"""Training images by which the integers of each layer are scaled."""

_LEAST: Final = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class QuantisationImages:
    """Prepared images with one class each: some that training saw, and those of the selection part.

    Attributes:
        training: Inputs `[1, H, W, 3]`, float32.
        selection: Inputs likewise.
        labels: Classes of the selection part, `[N]`.
    """

    training: Sequence[NDArray[Any]]
    selection: Sequence[NDArray[Any]]
    labels: Sequence[int]

    def loss(self, predict: Callable[[tf.Tensor], Mapping[str, tf.Tensor]], network: bytes) -> Int8Loss:
        """Return how the NLL of the selection part changes.

        Args:
            predict: From inputs `[1, H, W, 3]` to named outputs, in float32.
            network: The same in int8, for LiteRT.
        """
        run = litert_runner(network)
        before = self._nll([predict(tf.constant(one))["probability"].numpy() for one in self.selection])
        after = self._nll([run(inputs=one)["probability"] for one in self.selection])
        return Int8Loss(images=len(self.labels), nll=after, float32_nll=before)

    def _nll(self, probabilities: Sequence[NDArray[Any]]) -> float:
        of_labels = np.concatenate(probabilities)[np.arange(len(self.labels)), self.labels]
        return float(-np.log(np.maximum(of_labels, _LEAST)).mean())


def quantisation_images(job: Job[Any, Any, Any], server: Server, folder: Path | None) -> QuantisationImages:
    """Return the images of the prepared folder that a run was trained on.

    Raises:
        InputError: No folder is given, it is another one or has no images with one class each, or the run
            holds none of them out.
    """
    if folder is None:
        raise InputError("--quantise needs images that training saw. Give their prepared folder by --data.")
    if not isinstance(server, ClassServer):
        raise InputError("--quantise is for images with one class each. Leave it out.")
    data = job.application.inputs.open(folder)
    if data.sha256 != job.run.manifest_sha256:
        raise InputError(
            f"--data {folder}: is not the folder that {job.folder} was trained on. Give that one."
        )
    splits = job.on(data, fold=job.settings.fold).splits
    places = np.linspace(0, len(splits.train) - 1, min(_INPUTS, len(splits.train)), dtype=int)
    training = [image for _, image, _ in data.inputs([splits.train[place] for place in places])]
    held_out = [(image, label) for _, image, label in data.inputs(splits.selection)]
    if not held_out:
        raise InputError(f"{job.folder} holds no image out, by which the loss is seen. Leave --quantise out.")
    selection, labels = zip(*held_out, strict=True)
    return QuantisationImages(_inputs(training), _inputs(selection), [int(label) for label in labels])


def _inputs(images: Sequence[NDArray[np.uint8]]) -> list[NDArray[Any]]:
    return [image[None].astype(np.float32) for image in images]
