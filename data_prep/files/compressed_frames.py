"""Size of the pixels in a compressed frame of a DICOM file, found without decompressing it.

Decoders trust the frame, not the header around it: one that claims more pixels than the header, or whose run
lengths never end, can take all memory.
"""

from itertools import pairwise
from typing import Literal

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
