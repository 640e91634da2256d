"""What runs the network of a bundle: TensorFlow, or LiteRT where its package is installed.

LiteRT is faster for one image at a time, and a process that predicts by it never imports TensorFlow, which is
most of the start of a command.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from data_prep.errors import InputError
from data_prep.prepared.manifest import file_sha256
from pipelines.bundles.metadata import Metadata, load_metadata
from pipelines.bundles.runtime_settings import RuntimeSettings
from pipelines.command.folders import METADATA
from pipelines.command.tensorflow_start import start_up_notes_hidden

LITERT: Final = "network.tflite"
INT8: Final = "network_int8.tflite"

Signature = Any
"""What a bundle predicts by: named arrays in, a dictionary of named arrays, or tensors of TensorFlow, out."""


def litert_file(bundle: Path, settings: BaseModel) -> Path | None:
    """Return the file of a bundle that LiteRT runs; None where TensorFlow runs the bundle.

    Args:
        bundle: Folder of the bundle.
        settings: Of the step; LiteRT runs only where they are `RuntimeSettings` too.

    Raises:
        InputError: There are no metadata, the bundle lacks what is asked for, or LiteRT cannot be imported.
    """
    runtime = settings.runtime if isinstance(settings, RuntimeSettings) else "tensorflow"
    if runtime == "tensorflow":
        return None
    name = LITERT if runtime is None else INT8
    if name not in load_metadata(bundle).sha256:
        if runtime is None:
            return None
        raise InputError(
            f"runtime=int8: {bundle} has no {name}. Export it with --format litert --quantise int8."
        )
    try:
        _interpreter_class()
    except (ImportError, OSError) as error:
        if runtime is None:
            return None
        raise InputError(
            f"runtime=int8 needs LiteRT, which cannot be imported ({error}). Install it with "
            "`pip install 'gpimaging[litert]'`."
        ) from error
    return bundle / name


def _interpreter_class() -> Any:
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415 - of an extra

    return Interpreter


class LiteRTSignature:
    """Predicts by LiteRT as `serving_default` does by TensorFlow, for images of the network's size.

    Several threads may call it: each has an interpreter of its own.

    Args:
        file: The file for LiteRT, for messages.
        content: What it holds.
        threads: For one image.

    Raises:
        InputError: It is no such file, or, when called, it cannot be run.
    """

    def __init__(self, file: Path, content: bytes, threads: int) -> None:
        self._file, self._content, self._threads = file, content, threads
        self._own = threading.local()
        with start_up_notes_hidden():  # LiteRT writes them once a process
            self._own.run = run = self._runner()
        self._inputs, self._outputs = run.get_input_details(), run.get_output_details()

    def __call__(self, images: NDArray[np.uint8]) -> Mapping[str, NDArray[Any]]:
        """Return the named outputs `[B, ...]` of images `[B, H, W, 3]`."""
        if not hasattr(self._own, "run"):
            self._own.run = self._runner()
        with self._run():
            each = [self._own.run(inputs=image[None].astype(np.float32)) for image in images]
        return {name: np.concatenate([outputs[name] for outputs in each]) for name in each[0]}

    def require_described(self, metadata: Metadata) -> None:
        """Compare what the file takes and returns with the description, before anything is computed.

        Raises:
            InputError: It is the file of another network.
        """
        described = metadata.signatures["serving_default"].outputs
        one_image = {"inputs": ("float32", (1, *metadata.network_size, 3))}
        of_one = {name: (tensor.dtype, (1, *tensor.shape[1:])) for name, tensor in described.items()}
        for verb, details, expected in (
            ("takes", self._inputs, one_image),
            ("returns", self._outputs, of_one),
        ):
            found = {
                name: (np.dtype(each["dtype"]).name, tuple(each["shape"].tolist()))
                for name, each in details.items()
            }
            if found != expected:
                raise InputError(
                    f"{self._file} {verb} {found}, but {METADATA} describes {expected} for one image. "
                    "Export the bundle again."
                )

    def _runner(self) -> Any:
        with self._run():
            interpreter = _interpreter_class()(model_content=self._content, num_threads=self._threads)
            interpreter.allocate_tensors()
            return interpreter.get_signature_runner("serving_default")

    @contextmanager
    def _run(self) -> Iterator[None]:
        """Turn the errors of LiteRT into a sentence."""
        try:
            yield
        except (ValueError, RuntimeError) as error:
            raise InputError(f"{self._file} cannot be run ({error}). Export the bundle again.") from error


def load_litert(file: Path, metadata: Metadata, threads: int) -> LiteRTSignature:
    """Return what predicts by a file of a bundle after it was compared with the metadata.

    Args:
        file: The file for LiteRT.
        metadata: Of the bundle.
        threads: For one image.

    Raises:
        InputError: The file was changed, cannot be run, or is of another network.
    """
    signature = _loaded(file.resolve(), metadata.sha256[file.name], threads)
    signature.require_described(metadata)
    return signature


@lru_cache(maxsize=1)
def _loaded(file: Path, sha256: str, threads: int) -> LiteRTSignature:
    """Load a file with this checksum; the last one stays in memory for later predictions."""
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:  # it may have changed since `checked_metadata`
        raise InputError(f"{_changed(file)} Copy or export the bundle again.")
    return LiteRTSignature(file, content, threads)


def _changed(file: Path) -> str:
    return f"{file} does not match its checksum in {METADATA}: it was changed, or not copied completely."


def checked_metadata(bundle: Path, application: str | None = None) -> Metadata:
    """Return the metadata of a bundle after its files were compared with their checksums.

    Args:
        bundle: Folder of the bundle.
        application: The application that the bundle must be of; None for any.

    Raises:
        InputError: The bundle is of another application, or a file is missing or was changed; all are named.
    """
    metadata = load_metadata(bundle)
    found = metadata.command
    if application not in {None, metadata.application}:
        raise InputError(
            f"{bundle} is a bundle of `gpimaging {found}`, not of `gpimaging {application}`. Predict with "
            f"`gpimaging {found} predict`, or pass the --out of `gpimaging {application} export`."
        )
    # Before loading: a changed preprocessing.json would change predictions silently, and the name of a
    # missing file says more than the error of what loads it.
    problems = []
    for name, expected in metadata.sha256.items():
        path = bundle / name
        if not path.is_file():
            problems.append(f"{path} is missing, but {METADATA} lists it.")
        elif file_sha256(path) != expected:
            problems.append(_changed(path))
    if problems:
        raise InputError("\n".join(problems) + " Copy or export the bundle again.")
    return metadata
