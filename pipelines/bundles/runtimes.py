"""What runs the network of a bundle: TensorFlow, or LiteRT where its package is installed.

LiteRT is faster for one image at a time, and a process that predicts by it never imports TensorFlow, which is
most of the start of a command.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from importlib.util import find_spec
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

LITERT_PACKAGE: Final = "ai_edge_litert"

Signature = Any
"""What a bundle predicts by: named arrays in, a dictionary of named arrays, or tensors of TensorFlow, out."""


def litert_file(bundle: Path, settings: BaseModel) -> Path | None:
    """Return the file of a bundle that LiteRT shall run; None where TensorFlow runs the bundle.

    Args:
        bundle: Folder of the bundle.
        settings: Of the step; LiteRT runs only where they are `RuntimeSettings` too.

    Raises:
        InputError: There are no metadata, or what is asked for is not in the bundle or not installed.
    """
    runtime = settings.runtime if isinstance(settings, RuntimeSettings) else "tensorflow"
    if runtime == "tensorflow":
        return None
    name = LITERT if runtime is None else INT8
    is_there, is_installed = name in load_metadata(bundle).sha256, find_spec(LITERT_PACKAGE) is not None
    if is_there and is_installed:
        return bundle / name
    if runtime is None:
        return None
    if is_there:
        raise InputError("runtime=int8 needs LiteRT. Install it with `pip install 'gpimaging[litert]'`.")
    raise InputError(f"runtime=int8: {bundle} has no {name}. Export it with --format litert --quantise int8.")


class LiteRTSignature:
    """Predicts by LiteRT as `serving_default` does by TensorFlow, for images of the network's size.

    Several threads may call it: each has an interpreter of its own.

    Args:
        file: The file for LiteRT.
        threads: For one image.

    Raises:
        InputError: It is no such file.
    """

    def __init__(self, file: Path, threads: int) -> None:
        self._file, self._content, self._threads = file, file.read_bytes(), threads
        self._own = threading.local()
        with start_up_notes_hidden():  # LiteRT writes them once a process
            self._own.run = self._runner()

    def __call__(self, images: NDArray[np.uint8]) -> Mapping[str, NDArray[Any]]:
        """Return the named outputs `[B, ...]` of images `[B, H, W, 3]`."""
        if not hasattr(self._own, "run"):
            self._own.run = self._runner()
        each = [self._own.run(inputs=image[None].astype(np.float32)) for image in images]
        return {name: np.concatenate([outputs[name] for outputs in each]) for name in each[0]}

    def _runner(self) -> Any:
        from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415 - of an extra

        try:
            interpreter = Interpreter(model_content=self._content, num_threads=self._threads)
            interpreter.allocate_tensors()
            return interpreter.get_signature_runner("serving_default")
        except ValueError as error:
            raise InputError(f"{self._file} cannot be run ({error}). Export the bundle again.") from error


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
            problems.append(
                f"{path} does not match its checksum in {METADATA}: it was changed, or not copied completely."
            )
    if problems:
        raise InputError("\n".join(problems) + " Copy or export the bundle again.")
    return metadata
