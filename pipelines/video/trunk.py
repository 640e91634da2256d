"""The network before the heads of the video application: its files of weights, its fingerprint."""

import hashlib
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from data_prep.errors import InputError
from data_prep.files.arrays import read_arrays
from data_prep.files.atomic import atomic_file
from data_prep.video.manifest import VideoTrunkFacts
from data_prep.video.settings import ClipSettings
from gpmodels.networks.res3d import Res3D, assign_torchvision_weights, torchvision_state

_STEM = "stem.0.weight"
_ANY_CLIP = (None, None, None, None, 3)


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a state dict of torchvision's `r3d_18` by their names.

    Args:
        path: A .safetensors or .npz file.

    Raises:
        InputError: The file cannot be read.
    """
    try:
        if path.suffix == ".safetensors":
            return _numbers(dict(load_file(path)))
        if path.suffix == ".npz":
            return _numbers(read_arrays(path))
    except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, SafetensorError) as error:
        raise InputError(
            f"{path} cannot be read as weights ({error}). Expected the state dict of torchvision's r3d_18 as "
            "32-bit floats, written by safetensors or numpy.savez."
        ) from error
    raise InputError(
        f"{path}: weights are read from .safetensors and .npz files. Convert the file, for example with "
        "safetensors.torch.save_file(state_dict, ...)."
    )


def _numbers(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays; raise `ValueError` for arrays of texts, times or the like."""
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{name} is of {array.dtype}")
    return arrays


def load_video_trunk(path: Path) -> Res3D:
    """Return the network of a file of weights, as wide as these.

    Raises:
        InputError: The file cannot be read, or holds something else.
    """
    state = read_weights(path)
    stem = state.get(_STEM)
    if stem is None or stem.ndim != 5 or not stem.size:
        raise InputError(f"{path} has no {_STEM} of a Res3D network. Expected torchvision's r3d_18.")
    trunk = Res3D(stem.shape[0])
    trunk.build(_ANY_CLIP)
    _assign(trunk, state, path)
    return trunk


def start_from(trunk: Res3D, path: Path) -> None:
    """Give a built network the weights of a file.

    Raises:
        InputError: The file cannot be read, or does not fit.
    """
    _assign(trunk, read_weights(path), path)


def require_weights(path: Path, width: int) -> None:
    """Check that training can start from a file, before anything is written.

    Raises:
        InputError: The file cannot be read, or does not fit a network of this width.
    """
    trunk = Res3D(width)
    trunk.build(_ANY_CLIP)
    start_from(trunk, path)


def _assign(trunk: Res3D, state: dict[str, NDArray[Any]], path: Path) -> None:
    try:
        assign_torchvision_weights(trunk, state)
    except ValueError as error:
        raise InputError(f"{path} does not fit: {error}") from error


def save_video_trunk(trunk: Res3D, path: Path) -> None:
    """Write the weights as a .safetensors file that `load_video_trunk` and torchvision read.

    Raises:
        InputError: The file cannot be written.
    """
    with atomic_file(path) as temporary:
        # Safetensors' own function raises other errors than OSError, and only the owner may read its files.
        temporary.write_bytes(save(torchvision_state(trunk)))


def video_trunk_facts(trunk: Res3D, clips: ClipSettings) -> VideoTrunkFacts:
    """Return what distinguishes features of this network on such clips from others."""
    digest = hashlib.sha256(f"Res3D {trunk.width} {clips.model_dump_json()}".encode())
    for name, array in sorted(torchvision_state(trunk).items()):
        digest.update(f"{name} {array.shape}".encode())
        digest.update(array.astype("<f4").tobytes())
    return VideoTrunkFacts(width=trunk.width, num_features=trunk.num_features, sha256=digest.hexdigest())
