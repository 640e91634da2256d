"""What `gpimaging doctor` reports: versions, the machine, and which extras are installed."""

import os
import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final

EXTRAS: Final = {
    "pretrained": "weights of a pretrained network: few labels suffice, and training takes minutes",
    "label": "the page of `gpimaging label`",
    "dicom": "medical images in DICOM files",
    "slides": "whole slides of tissue",
    "sonar": "XTF side-scan recordings",
    "survival": "`gpimaging histopathology survival`",
    "litert": "`predict` by the file of `export --format litert`, which starts in a second",
    "onnx": "`export --format onnx`: networks for onnxruntime",
    "remote": "`gpimaging fetch` from S3, Google Cloud and other addresses",
    "cluster": "`--cluster`: many files on many machines",
    "serving": "a client of TensorFlow Serving by gRPC",
}
"""What each extra of the distribution gives its user; that of `cuda` shows as a GPU."""

_DISTRIBUTION: Final = "gpimaging"
_VERSIONS: Final = (
    "gpimaging",
    "tensorflow",
    "keras",
    "gpflow",
    "numpy",
    "scipy",
    "scikit-learn",
    "opencv-python",
)


def describe_machine() -> dict[str, str]:
    """Return versions and what the machine has, by name. Imports TensorFlow, which takes seconds."""
    import psutil  # noqa: PLC0415 - help answers without it
    import tensorflow as tf  # noqa: PLC0415 - takes seconds
    from joblib import cpu_count  # noqa: PLC0415 - help answers without it

    memory = psutil.virtual_memory()
    gpus = [device.name for device in tf.config.list_physical_devices("GPU")]
    return {
        "Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        **{name: version(name) for name in _VERSIONS},
        "Processors": f"{cpu_count()} of {os.cpu_count()} may be used",
        "Memory": f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB are free",
        "GPU": ", ".join(gpus) or f"none that TensorFlow can use. For NVIDIA: {_install('cuda')}",
    }


def describe_extras() -> dict[str, str]:
    """Return for each extra what it gives, and how to install it where a package of it is missing.

    Example:
        >>> list(describe_extras())[0]
        'pretrained'
    """
    rows = {}
    for extra, gives in EXTRAS.items():
        missing = ", ".join(_missing(extra))
        rows[extra] = f"missing {missing}: {gives}. {_install(extra)}" if missing else f"installed: {gives}"
    return rows


def _install(extra: str) -> str:
    return f"pip install '{_DISTRIBUTION}[{extra}]'"


def _missing(extra: str) -> Iterator[str]:
    """Yield the packages of an extra that are not installed."""
    for requirement in requires(_DISTRIBUTION) or ():
        name = re.match(r"[\w.-]+", requirement)
        if name is None or not re.search(rf"extra == ['\"]{extra}['\"]", requirement):
            continue
        try:
            version(name[0])
        except PackageNotFoundError:
            yield name[0]
