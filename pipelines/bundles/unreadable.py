"""Inputs that cannot be read or predicted, whatever the reason; the other inputs go on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from data_prep.errors import InputError
from pipelines.bundles.runtimes import Signature
from pipelines.scores.pictures import Outputs, Picture


class UnreadableSourceError(Exception):
    """A source cannot be decoded or predicted; errors of writing, which stop the run, are others."""


@contextmanager
def reading() -> Iterator[None]:
    """Turn the `InputError` of what reads a source into an `UnreadableSourceError`."""
    try:
        yield
    except InputError as error:
        raise UnreadableSourceError(str(error)) from error


def require_file(path: Path) -> None:
    """Refuse a named pipe or a device: reading from a pipe would wait for ever.

    Raises:
        UnreadableSourceError: The path is one of these.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UnreadableSourceError(
            f"{path}: is no file, but a pipe or a device. Give the file itself, or remove it."
        )


def run_signature(signature: Signature, image: Picture, file: str) -> Outputs:
    """Return the outputs of one image.

    Args:
        signature: The signature `serving_default` of a bundle.
        image: `[H, W, 3]`, uint8.
        file: Name of the image's file, for messages.

    Raises:
        UnreadableSourceError: There is not enough memory, or the outputs are no numbers.
    """
    with enough_memory(image, file):
        outputs = signature(images=image[None])
        arrays = {name: np.asarray(value)[0] for name, value in outputs.items()}
    if not all(np.isfinite(values).all() for values in arrays.values()):
        raise UnreadableSourceError(no_numbers(file))
    return arrays


def no_numbers(file: str) -> str:
    """Return why a file has no prediction where the model gives NaN or infinity."""
    return (
        f"{file}: the prediction has numbers that are NaN or infinite. Check the image, and the model with "
        "`gpimaging verify`."
    )


@contextmanager
def enough_memory(image: Picture, file: str) -> Iterator[None]:
    """Name the image where there is not enough memory for it.

    Args:
        image: `[H, W, 3]`.
        file: Name of the image's file.

    Raises:
        UnreadableSourceError: There is not enough memory.
    """
    try:
        yield
    except _lacks_memory() as error:
        raise UnreadableSourceError(
            f"{file}: {image.shape[1]} x {image.shape[0]} pixels need more memory than there is. Reduce the "
            "image, or end other programs."
        ) from error


def _lacks_memory() -> tuple[type[Exception], ...]:
    """Return the errors of too little memory; TensorFlow has its own where it was imported."""
    tensorflow = sys.modules.get("tensorflow")
    return (MemoryError,) if tensorflow is None else (MemoryError, tensorflow.errors.ResourceExhaustedError)
