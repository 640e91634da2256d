"""DICOM files with one image, as Pillow sees others, through the optional package `pydicom`.

Only the tags that say how pixels are stored and shown are read, so that no personal data can get anywhere.
Greyscale levels are those after the rescaling of the file (PS3.3 C.11.1), before its window (C.11.2).

The size of a compressed frame is found without decompressing it. Decoders trust the frame, not the header
around it: one that claims more pixels than the header, or whose run lengths never end, can take all memory.
"""

import importlib
import math
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from PIL import Image, ImageFile

from data_prep.errors import InputError
from data_prep.files.image_settings import LARGEST_LEVEL, LevelRange

WARNING_FILTERS = threading.RLock()
"""Held while filters of warnings are changed to decode a file: they are those of all threads."""

_DEFLATED = "1.2.840.10008.1.2.1.99"
_RUN_LENGTHS = "1.2.840.10008.1.2.5"
_PIXEL_SIDES = ("PixelAspectRatio", "PixelSpacing", "ImagerPixelSpacing")  # height, width
_HEADER = (
    *("Rows", "Columns", "SamplesPerPixel", "PhotometricInterpretation", "PlanarConfiguration"),
    *("BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation", "NumberOfFrames"),
    *("RescaleSlope", "RescaleIntercept", "ModalityLUTSequence"),
    *("WindowCenter", "WindowWidth", "VOILUTFunction"),
    *("PixelPaddingValue", "PixelPaddingRangeLimit", *_PIXEL_SIDES),
)
_PIXELS = (*_HEADER, "PixelData", "ExtendedOffsetTable", "ExtendedOffsetTableLengths")
_GREY = ("MONOCHROME1", "MONOCHROME2")
_COLOURS = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT")
_CODEC_BYTES = 2**16  # of tables, which compressed pixels have beside their own bytes


class DicomImage(ImageFile.ImageFile):
    """A DICOM file whose pixels are decoded when they are loaded; `F` for grey levels, else `RGB`.

    Args:
        file: The open file.
        path: Its path, for messages.

    Attributes:
        window: The levels that the file wants shown as black and white; None where it has no linear window.
        is_inverted: Whether low levels are bright.
        has_square_pixels: Whether a pixel is as high as wide, or the file does not say.

    Raises:
        InputError: `pydicom` is not installed, or the file has several frames or is stored in a way that is
            not read.
        ValueError: The file is damaged.
    """

    format = "DICOM"

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path
        super().__init__(file, str(path))

    def _open(self) -> None:
        header = self._read(_HEADER)
        self._require_single(header)
        with _explained():
            self._size = (int(header.Columns), int(header.Rows))
            self._mode = "F" if header.PhotometricInterpretation in _GREY else "RGB"
            self.window = _window(header)
            self.is_inverted = header.PhotometricInterpretation == "MONOCHROME1"
            self.has_square_pixels = all(_is_square(header, name) for name in _PIXEL_SIDES)

    def load(self) -> Any:
        """Decode the pixels."""
        if self._im is None:
            dataset = self._read(_PIXELS)
            with _explained():
                self._require_fitting_length(dataset)
                self._require_fitting_frame(dataset)
                pixels = importlib.import_module("pydicom.pixels")
                samples = pixels.pixel_array(dataset)
                if samples.shape[:2] != (self.height, self.width):
                    raise ValueError(f"{samples.shape} samples in {self.width} x {self.height} pixels")
                if self.mode == "F":
                    levels = self._rescaled(samples, dataset, pixels)
                    samples = self._without_padding(levels, samples, dataset)
                self.im = Image.fromarray(samples).im
        return super().load()

    def _read(self, tags: tuple[str, ...]) -> Any:
        pydicom = _import_pydicom(self._path)
        with _explained():
            syntax = pydicom.filereader.read_file_meta_info(self._path).TransferSyntaxUID
            syntax = pydicom.uid.UID(syntax)
            is_decoded = _can_decode(syntax)
        # pydicom would decompress a deflated file as a whole: a small one could take all memory.
        if syntax == _DEFLATED or not is_decoded:
            raise InputError(
                f"{self._path}: compressed as {syntax.name!r}, which cannot be decoded here. Save it "
                "uncompressed (dcmtk's dcmconv, dcmdjpeg and dcmdjpls do), or install a decoder that pydicom "
                "knows, such as pip install pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg."
            )
        with _explained():
            self._file.seek(0)
            return pydicom.dcmread(self._file, specific_tags=list(tags), stop_before_pixels=tags is _HEADER)

    def _require_single(self, header: Any) -> None:
        with _explained():
            frames = int(header.get("NumberOfFrames") or 1)
            bits, channels = header.get("BitsAllocated"), header.get("SamplesPerPixel")
            colours = header.get("PhotometricInterpretation")
        if frames != 1:
            raise InputError(
                f"{self._path}: {frames} frames; expected one image. Save the frames that count as files of "
                "their own, in a folder for each class."
            )
        is_grey = colours in _GREY and channels == 1 and bits in {8, 16}
        if not is_grey and not (colours in _COLOURS and channels == 3 and bits == 8):
            raise InputError(
                f"{self._path}: {channels!r} channels of {bits!r} bits, {colours!r}; expected one of 8 or "
                f"16 bits ({' or '.join(_GREY)}) or three of 8 bits ({', '.join(_COLOURS)}). Export the "
                "image as PNG."
            )

    def _rescaled(self, samples: Any, dataset: Any, pixels: Any) -> Any:
        if "ModalityLUTSequence" in dataset:
            return pixels.apply_modality_lut(samples, dataset).astype(np.float32)
        slope, intercept = (dataset.get(f"Rescale{name}") for name in ("Slope", "Intercept"))
        scaled = samples.astype(np.float32) * np.float32(1 if slope is None else slope)
        return scaled + np.float32(intercept or 0)  # pydicom passes over a slope without an intercept

    def _without_padding(self, levels: Any, samples: Any, dataset: Any) -> Any:
        """Return the levels with the padding around the image as its darkest level (PS3.3 C.7.5.1.1.2)."""
        value, limit = dataset.get("PixelPaddingValue"), dataset.get("PixelPaddingRangeLimit")
        if value is None:
            return levels
        # Some files write the value of signed samples as an unsigned number.
        ends = np.array([value, value if limit is None else limit], np.int64).astype(samples.dtype)
        is_padding = (samples >= ends.min()) & (samples <= ends.max())
        image = levels[~is_padding]
        if image.size:
            levels[is_padding] = image.max() if self.is_inverted else image.min()
        return levels

    def _require_fitting_frame(self, dataset: Any) -> None:
        """Refuse compressed pixels that are more than the header says, before they take memory."""
        syntax = dataset.file_meta.TransferSyntaxUID
        if not syntax.is_compressed:
            return
        offsets = [dataset.get(name) for name in ("ExtendedOffsetTable", "ExtendedOffsetTableLengths")]
        encaps = importlib.import_module("pydicom.encaps")
        extended = tuple(offsets) if all(offsets) else None
        frames = list(
            encaps.generate_frames(dataset.PixelData, number_of_frames=1, extended_offsets=extended)
        )
        pixels = self.width * self.height
        fault: str | None = None
        if len(frames) != 1:
            fault = f"{len(frames)} compressed frames"
        elif syntax == _RUN_LENGTHS:
            if longest_segment(frames[0], 2 * pixels) > 2 * pixels:
                fault = "run lengths of more bytes than the image has"
        else:
            height, width, channels = coded_size(frames[0])
            if (height, width, channels) != (self.height, self.width, dataset.SamplesPerPixel):
                fault = f"a compressed frame of {width} x {height} pixels, {channels} channels"
        if fault is not None:
            raise InputError(
                f"{self._path}: {fault}; expected one frame of {self.width} x {self.height} pixels, "
                f"{dataset.SamplesPerPixel} channels, as its header has it. Export the image again."
            )

    def _require_fitting_length(self, dataset: Any) -> None:
        """Refuse more bytes than one image needs: the file holds frames that its header does not count."""
        needed = self.width * self.height * dataset.SamplesPerPixel * dataset.BitsAllocated // 8
        stored = len(dataset.PixelData)
        if stored >= 2 * needed + _CODEC_BYTES * dataset.file_meta.TransferSyntaxUID.is_compressed:
            raise InputError(
                f"{self._path}: {stored} bytes for {self.width} x {self.height} pixels, which need {needed}. "
                "Expected one image. If there are several frames, save them as files of their own."
            )


def _import_pydicom(path: Path) -> Any:
    try:
        return importlib.import_module("pydicom")
    except ImportError as error:
        raise InputError(
            f"{path}: DICOM files are read by the package pydicom, which is not installed. Install it "
            "(pip install 'gpimaging[dicom]'), or export the image as PNG or TIFF."
        ) from error


@contextmanager
def _explained() -> Iterator[None]:
    """Turn what pydicom raises on damaged files into a `ValueError`, and keep its remarks from the screen.

    What it remarks of headers would quote them.
    """
    try:
        with WARNING_FILTERS, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    except InputError:
        raise
    # A damaged header makes pydicom and its decoders raise errors of any type (TypeError, AttributeError,
    # KeyError, RuntimeError were seen), and each of them means here that the file cannot be read.
    except Exception as error:
        raise ValueError(f"no DICOM image that can be decoded ({type(error).__name__})") from error


def _can_decode(syntax: Any) -> bool:
    try:
        return bool(importlib.import_module("pydicom.pixels").get_decoder(syntax).is_available)
    except NotImplementedError:  # pydicom knows no decoder for such a syntax, or a damaged file names none
        return False


def _is_square(header: Any, name: str) -> bool:
    """Return whether a tag has two sides of a pixel that are equal to a hundredth, or nothing of the kind."""
    try:
        height, width = map(float, header.get(name))
    except (TypeError, ValueError):
        return True
    return not (height > 0 and width > 0) or math.isclose(height, width, rel_tol=0.01)


def _window(header: Any) -> LevelRange | None:
    """Return the levels that become black and white by the first window of a file (C.11.2.1.2)."""
    centre, width = (np.atleast_1d(header.get(f"Window{name}"))[0] for name in ("Center", "Width"))
    function = header.get("VOILUTFunction") or "LINEAR"
    if centre is None or width is None or function not in {"LINEAR", "LINEAR_EXACT"}:
        return None
    half = float(width) / 2
    low, high = float(centre) - half, float(centre) + half - (function == "LINEAR")
    is_range = all(map(math.isfinite, (low, high))) and 1 / LARGEST_LEVEL < high - low < LARGEST_LEVEL
    return (low, high) if is_range else None


_START_OF_IMAGE = b"\xff\xd8"
_START_OF_CODESTREAM = b"\xff\x4f\xff\x51"  # with the marker of the size, which must be the next one
_JP2_SIGNATURE = b"\x00\x00\x00\x0cjP  "
_START_OF_FRAME = frozenset({*range(0xC0, 0xD0), 0xF7}) - {0xC4, 0xC8, 0xCC}  # 0xF7: JPEG-LS
_RLE_HEADER = 64  # bytes: the number of segments, and where each begins


def coded_size(frame: bytes) -> tuple[int, int, int]:
    """Return height, width and number of channels that a JPEG, JPEG-LS or JPEG 2000 frame claims.

    Raises:
        ValueError: The frame is of another kind, or damaged.
    """
    if frame.startswith(_START_OF_IMAGE):
        return _jpeg_size(frame)
    return _jpeg_2000_size(frame)


def longest_segment(frame: bytes, enough: int) -> int:
    """Return how many bytes the longest segment of a run-length encoded frame gives (PS3.5 G.3).

    Args:
        frame: The frame.
        enough: Number of bytes after which a segment is not followed further.

    Raises:
        ValueError: The frame is damaged.
    """
    starts = [_number(frame, at, 4, "little") for at in range(4, _RLE_HEADER, 4)]
    starts = starts[: _number(frame, 0, 4, "little")]
    return max((_run(frame, *ends, enough) for ends in pairwise([*starts, len(frame)])), default=0)


def _run(frame: bytes, at: int, end: int, enough: int) -> int:
    size = 0
    while at < min(end, len(frame)) and size <= enough:
        code = frame[at]
        if code < 0x80:  # that many bytes and one more, as they stand there
            size += code + 1
            at += code + 2
        elif code > 0x80:  # the next byte several times
            size += 257 - code
            at += 2
        else:
            at += 1
    return size


def _jpeg_size(frame: bytes) -> tuple[int, int, int]:
    at = len(_START_OF_IMAGE)
    while True:
        marker = _number(frame, at, 2)
        if marker == 0xFFFF:  # filling
            at += 1
        elif marker >> 8 != 0xFF:
            raise ValueError("no marker where JPEG has one")
        elif marker & 0xFF in _START_OF_FRAME:
            return _number(frame, at + 5, 2), _number(frame, at + 7, 2), _number(frame, at + 9, 1)
        else:
            at += 2 + _number(frame, at + 2, 2)


def _jpeg_2000_size(frame: bytes) -> tuple[int, int, int]:
    at = 0
    if frame.startswith(_JP2_SIGNATURE):
        while frame[at + 4 : at + 8] != b"jp2c":
            length = _number(frame, at, 4)
            if length < 8:  # pydicom would look at this box for ever
                raise ValueError("a box of JPEG 2000 without an end")
            at += length
        at += 8
    if not frame.startswith(_START_OF_CODESTREAM, at):
        raise ValueError("neither JPEG nor JPEG 2000")
    width, height, left, top = (_number(frame, at + offset, 4) for offset in (8, 12, 16, 20))
    return height - top, width - left, _number(frame, at + 40, 2)


def _number(frame: bytes, at: int, length: int, order: Literal["big", "little"] = "big") -> int:
    content = frame[at : at + length]
    if len(content) < length:
        raise ValueError("a frame that ends too early")
    return int.from_bytes(content, order)
