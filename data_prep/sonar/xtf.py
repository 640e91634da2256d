"""Side-scan recordings in the eXtended Triton Format (XTF), through the optional package `pyxtf`.

One row is one ping, as recorded: neither slant range nor the fish's motion is corrected. The first port
channel stands on the left and the first starboard channel on the right of the middle, where the fish is.
"""

import importlib
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError
from data_prep.files.images import MAX_PIXELS

XTF_SUFFIX = ".xtf"

_FILE_HEADER_BYTES = 1024
_RECORD_START = struct.Struct("<HBBHHHI")  # magic number, type, ..., length of the record
_MAGIC = 0xFACE
_PORT, _STARBOARD = 1, 2  # types of channels
_HIGHEST = 65535
_USUAL = 99  # percentile of the pings' highest levels
_HEADROOM = 4.0  # times that level; what is higher is a spike, which must not make all else dark
_LARGEST_WEIGHT = 512  # a power of two; recorders write a few, and products with larger ones leave float64
_MOST_EMPTY = 16  # pixels for each sample of a large image; where there are more, a ping's length is a lie
_BLOCK = 2**20  # bytes
_KEPT = {np.dtype(np.uint8), np.dtype(np.uint16)}


def read_xtf(path: Path) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
    """Read a recording as an image that lies in a temporary file, so that its size does not matter.

    Unsigned samples of 8 or 16 bits without weights stay as they are; others are multiplied by their ping's
    weight and brought to 0..65535: the highest one becomes 65535, or four times what 99 % of the pings stay
    below, if that is less. A sample that is not a finite number becomes 0.

    Args:
        path: The XTF file.

    Returns:
        uint8 or uint16 [pings, samples], port as recorded (far to near), then starboard (near to far).
        Shorter pings are filled up with 0 on the outer side.

    Raises:
        InputError: `pyxtf` is not installed, the file is damaged or has no side-scan ping, or its pings
            differ so much in length that an image of them would be empty for the most part, or there is no
            room for the temporary file.

    Example:
        >>> read_xtf(Path("line_07.xtf")).shape  # doctest: +SKIP
        (12041, 4096)
    """
    pyxtf = _import_pyxtf(path)
    _check_records(path)
    with _explained(path), _away_from_index(path) as link:
        survey = _survey(_pings(pyxtf, link))
        if not survey.num_pings or not survey.port + survey.starboard:
            raise InputError(
                f"{path}: no side-scan ping found. Expected a side-scan recording. Leave it out."
            )
        _require_few_empty_pixels(path, survey)
        image = _empty_image(path, (survey.num_pings, survey.port + survey.starboard), survey.kept_type)
        for row, ping in zip(image, _pings(pyxtf, link), strict=True):
            _fill(row, ping, survey)
    return image


@dataclass(frozen=True)
class _Ping:
    """Samples of one ping, [samples] each, empty where a side was not recorded; `weight` is their factor."""

    port: npt.NDArray[Any]
    starboard: npt.NDArray[Any]
    port_weight: float
    starboard_weight: float


@dataclass(frozen=True)
class _Survey:
    """What must be known of all pings before the first is stored.

    Attributes:
        num_pings: Number of the pings.
        port: Largest number of samples on the port side.
        starboard: Largest number of samples on the starboard side.
        num_samples: Number of all samples.
        highest: Weighted level that becomes 65535: the highest one, unless it is a spike.
        kept_type: Type of the samples if they are stored as they are, else None.
    """

    num_pings: int
    port: int
    starboard: int
    num_samples: int
    highest: float
    kept_type: np.dtype[Any] | None


def _import_pyxtf(path: Path) -> ModuleType:
    try:
        return importlib.import_module("pyxtf")
    except ImportError as error:
        raise InputError(
            f"{path}: XTF files are read by the package pyxtf, which is not installed. Install it "
            "(pip install 'gpimaging[sonar]'), or export the recording as a TIFF or PNG image."
        ) from error


def _check_records(path: Path) -> None:
    """Follow the chain of records: on a damaged one the reader could go round for ever."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            position = _FILE_HEADER_BYTES
            while position < end:
                file.seek(position)
                start = file.read(_RECORD_START.size)
                if len(start) < _RECORD_START.size:
                    raise InputError(_damaged(path, f"it ends within the record at byte {position:,}"))
                magic, *_, length = _RECORD_START.unpack(start)
                if magic != _MAGIC or length < _RECORD_START.size or position + length > end:
                    raise InputError(_damaged(path, f"no complete record at byte {position:,}"))
                position += length
    except OSError as error:
        raise InputError(
            f"{path}: cannot be opened ({error.strerror}). Check that the file exists and that you may "
            "read it."
        ) from error


def _damaged(path: Path, reason: str) -> str:
    return (
        f"{path}: damaged or truncated ({reason}). Expected a complete XTF recording. Copy or export it "
        "again, or leave it out."
    )


@contextmanager
def _away_from_index(path: Path) -> Iterator[Path]:
    """Yield a name of the file in an empty folder: pyxtf would unpickle an index file that lies beside it."""
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder) / f"recording{XTF_SUFFIX}"
        link.symlink_to(path.resolve())
        yield link


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what pyxtf raises on files it cannot read into an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except (  # pyxtf checks little: a damaged file ends in whichever of these comes first
        RuntimeError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        NotImplementedError,
        struct.error,
    ) as error:
        # pyxtf's own words for a wrong number are the number alone, or "list index out of range".
        unknown = isinstance(error, LookupError)
        reason = f"a header has a number that stands for nothing: {error}" if unknown else str(error)
        raise InputError(_damaged(path, reason)) from error


def _pings(pyxtf: ModuleType, path: Path) -> Iterator[_Ping]:
    """Read the pings that hold a port or a starboard channel, one at a time."""
    packets = pyxtf.xtf_read_gen(str(path), types=[pyxtf.XTFHeaderType.sonar])
    header = next(packets)
    sides = [int(channel.TypeOfChannel) for channel in header.sonar_info]
    for packet in packets:
        port = _channel(packet, sides, _PORT)
        starboard = _channel(packet, sides, _STARBOARD)
        if len(port[0]) + len(starboard[0]):
            yield _Ping(port[0], starboard[0], port[1], starboard[1])


def _channel(packet: Any, sides: list[int], side: int) -> tuple[npt.NDArray[Any], float]:
    """Return samples and factor of a ping's first channel of a side."""
    for samples, header in zip(packet.data, packet.ping_chan_headers, strict=True):
        if sides[header.ChannelNumber] == side:
            floating = samples.dtype.kind == "f"
            finite = np.nan_to_num(samples, posinf=0.0, neginf=0.0) if floating else samples
            weight = int(header.Weight)
            if abs(weight) > _LARGEST_WEIGHT:
                raise ValueError(f"a ping has the weight {weight}")
            return finite, 2.0**-weight
    return np.empty(0, np.uint8), 1.0


def _survey(pings: Iterator[_Ping]) -> _Survey:
    num_pings, num_samples, port, starboard = 0, 0, 0, 0
    peaks = [0.0]
    types: set[np.dtype[Any]] = set()
    unweighted = True
    for ping in pings:
        num_pings += 1
        num_samples += len(ping.port) + len(ping.starboard)
        port, starboard = max(port, len(ping.port)), max(starboard, len(ping.starboard))
        for samples, weight in ((ping.port, ping.port_weight), (ping.starboard, ping.starboard_weight)):
            if len(samples):
                types.add(samples.dtype)
                unweighted = unweighted and weight == 1.0
                peaks.append(float(samples.max()) * weight)
    kept = types.pop() if unweighted and len(types) == 1 and types <= _KEPT else None
    usual = float(np.percentile(peaks, _USUAL, method="higher"))
    highest = min(max(peaks), _HEADROOM * usual) or max(peaks)
    return _Survey(num_pings, port, starboard, num_samples, highest, kept)


def _require_few_empty_pixels(path: Path, survey: _Survey) -> None:
    """Refuse a large image that is little more than what fills up its pings: it would take hours."""
    width = survey.port + survey.starboard
    if survey.num_pings * width > max(MAX_PIXELS, _MOST_EMPTY * survey.num_samples):
        raise InputError(
            f"{path}: {survey.num_pings:,} pings hold {survey.num_samples:,} samples, and the longest ones "
            f"{width:,}. Expected pings of about one length. Export the recording again, or leave it out."
        )


def _empty_image(path: Path, shape: tuple[int, int], kept_type: np.dtype[Any] | None) -> npt.NDArray[Any]:
    sample = np.dtype(kept_type or np.uint16)
    try:
        with tempfile.TemporaryFile() as file:  # stays on the disk, without a name, as long as it is mapped
            _reserve(file, shape[0] * shape[1] * sample.itemsize)
            return np.memmap(file, dtype=sample, shape=shape, mode="r+")
    except OSError as error:
        raise InputError(
            f"{path}: {shape[0]:,} pings of {shape[1]:,} samples do not fit into the folder for temporary "
            f"files, {tempfile.gettempdir()} ({error.strerror}). Free some space there, or set TMPDIR to a "
            "folder that has more."
        ) from error


def _reserve(file: IO[bytes], size: int) -> None:
    """Take room for an empty file: mapped, it would take it when filled, and a full disk ends the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    for start in range(0, size, _BLOCK):  # macOS cannot reserve
        file.write(bytes(min(_BLOCK, size - start)))
    file.flush()


def _fill(row: npt.NDArray[Any], ping: _Ping, survey: _Survey) -> None:
    port, starboard = ping.port, ping.starboard
    if survey.kept_type is None:
        scale = _HIGHEST / survey.highest if survey.highest > 0 else 0.0
        port = np.rint(np.clip(port * (ping.port_weight * scale), 0, _HIGHEST))
        starboard = np.rint(np.clip(starboard * (ping.starboard_weight * scale), 0, _HIGHEST))
    row[survey.port - len(port) : survey.port] = port
    row[survey.port : survey.port + len(starboard)] = starboard
