"""Videos cut in the middle of a frame, slides without levels, recordings and tables that lie.

The kinds of `hostile_images` in other clothes; each takes a path without a suffix and a generator, too.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import tifffile

from benchmarks.reliability.hostile_images import (
    IMAGES,
    Maker,
    Rng,
    encoded,
    file_of,
    flipped,
    put,
    truncated,
)
from benchmarks.reliability.tiny_data import tissue, write_video

# Videos -----------------------------------------------------------------------------------------------------


@cache
def _video(suffix: str) -> bytes:
    """Return the content of a video of two seconds."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"video{suffix}"
        write_video(path, np.random.default_rng(0), moves=True)
        return path.read_bytes()


def _any_video(rng: Rng) -> tuple[bytes, str]:
    suffix = str(rng.choice([".avi", ".mp4"]))
    return _video(suffix), suffix


def _lying_video(path: Path, rng: Rng) -> Path:
    """Write an AVI file whose main header or stream header claims other numbers."""
    content = bytearray(_video(".avi"))
    place = 32 + 4 * int(rng.integers(0, 14)) if rng.random() < 0.5 else 108 + 4 * int(rng.integers(0, 12))
    value = int(rng.choice([0, 1, 2**31 - 1, 2**32 - 1, 65536]))
    struct.pack_into("<I", content, place, value)
    return put(path, ".avi", bytes(content))


def _wrong_video(path: Path, rng: Rng) -> Path:
    content = (encoded(rng)[0], _video(".avi"), _video(".mp4"), b"", rng.bytes(500))[int(rng.integers(0, 5))]
    suffixes = [".avi", ".mp4", ".mov", ".mkv", ".webm", ".mpg", ".MP4"]
    return put(path, str(rng.choice(suffixes)), content)


def _as_video(kind: str) -> Maker:
    """Return the maker of a kind of image whose file is named like a video."""

    def make(path: Path, rng: Rng) -> Path:
        written = IMAGES[kind](path, rng)
        content = _any_video(rng)[0] if kind == "odd name" else None
        if content is not None:
            written.write_bytes(content)
        suffix = str(rng.choice([".avi", ".mp4"]))
        named = written.with_suffix(suffix)
        if named.exists():
            named = written.with_name(f"{path.name} {written.stem[:200]}{suffix}")
        return written.rename(named)

    return make


VIDEOS: Mapping[str, Maker] = {
    "good": file_of(_any_video),
    "cut mid-frame": file_of(_any_video, truncated),
    "flipped bits": file_of(_any_video, flipped),
    "lying header": _lying_video,
    "wrong suffix": _wrong_video,
    "odd name": _as_video("odd name"),
    "pipe": _as_video("pipe"),
    "link": _as_video("link"),
    "empty": _as_video("empty"),
}
"""Kinds of hostile videos."""

# Slides -----------------------------------------------------------------------------------------------------


@cache
def _slide(levels: int, *, tiled: bool) -> bytes:
    """Return the content of a TIFF file with so many resolutions."""
    image = tissue(np.random.default_rng(levels), (256, 256), tumour=True)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "slide.tif"
        with tifffile.TiffWriter(path) as writer:
            for level in range(levels):
                options = {"subifds": levels - 1} if level == 0 else {"subfiletype": 1}
                tile = (64, 64) if tiled else None
                writer.write(image[:: 2**level, :: 2**level], tile=tile, photometric="rgb", **options)
        return path.read_bytes()


def _any_slide(rng: Rng) -> tuple[bytes, str]:
    content = _slide(int(rng.integers(1, 4)), tiled=bool(rng.integers(0, 2)))
    return content, str(rng.choice([".svs", ".tif", ".ndpi", ".scn", ".bif"]))


def _without_levels(path: Path, rng: Rng) -> Path:
    suffix = _any_slide(rng)[1]
    return put(path, suffix, _slide(1, tiled=bool(rng.integers(0, 2))))


def _lying_slide(path: Path, rng: Rng) -> Path:
    """Write a slide one of whose first tags claims another number: size, bits, tiles, where they lie."""
    content, suffix = _any_slide(rng)
    altered = bytearray(content)
    (directory,) = struct.unpack_from("<I", altered, 4)
    (number,) = struct.unpack_from("<H", altered, directory)
    entry = directory + 2 + 12 * int(rng.integers(0, number))
    struct.pack_into("<I", altered, entry + 8, int(rng.choice([0, 1, 65_535, 2**31 - 1, 2**32 - 1])))
    return put(path, suffix, bytes(altered))


def _other_slide(path: Path, rng: Rng) -> Path:
    suffix = str(rng.choice([".mrxs", ".vms", ".vmu", ".svslide"]))
    return put(path, suffix, (b"", rng.bytes(300), _slide(2, tiled=True))[int(rng.integers(0, 3))])


SLIDES: Mapping[str, Maker] = {
    "good slide": file_of(_any_slide),
    "slide without levels": _without_levels,
    "cut slide": file_of(_any_slide, truncated),
    "flipped bits of a slide": file_of(_any_slide, flipped),
    "slide with a lying tag": _lying_slide,
    "slide of another scanner": _other_slide,
}
"""Kinds of hostile slides."""

# Recordings -------------------------------------------------------------------------------------------------


def _recording(path: Path, rng: Rng) -> Path:
    """Write an XTF recording that may claim other numbers of channels, samples or bytes than it has."""
    header = bytearray(1024)
    header[0] = 123
    struct.pack_into("<H", header, 166, int(rng.choice([2, 2, 2, 0, 65_535])))
    for number in range(2):
        size = int(rng.choice([2, 2, 2, 2, 2, 1, 0, 3, 65_535]))
        struct.pack_into("<BBHHH", header, 256 + 128 * number, number + 1, number, 0, 0, size)
    content = bytes(header)
    for _ in range(int(rng.integers(1, 4))):
        record, samples = bytearray(256), rng.integers(0, 65_536, 8).astype("<u2").tobytes()
        lies = int(rng.choice([0, 0, 0, 0, 0, 0, 2**31, -10]))
        length = max(256 + 2 * (64 + len(samples)) + lies, 0)
        channels = int(rng.choice([2, 2, 2, 2, 0, 9]))
        struct.pack_into("<HBBHHHI", record, 0, 0xFACE, 0, 0, channels, 0, 0, length)
        record[16:18] = bytes([1, 1])  # month and day
        content += bytes(record)
        for number in range(2):
            channel = bytearray(64)
            struct.pack_into("<H", channel, 0, int(rng.choice([number] * 8 + [7, 65_535])))
            struct.pack_into("<I", channel, 42, int(rng.choice([8] * 8 + [0, 2**32 - 1])))
            struct.pack_into("<h", channel, 58, int(rng.choice([0] * 8 + [3, -32_768])))
            content += bytes(channel) + samples
    return put(path, ".xtf", content if rng.random() < 0.7 else truncated(content, rng))


RECORDINGS: Mapping[str, Maker] = {"XTF with a lying header": _recording}
"""Kinds of hostile recordings."""

# Tables -----------------------------------------------------------------------------------------------------

_CELLS = (
    *(
        "",
        " ",
        "nan",
        "inf",
        "-1",
        "1e400",
        "1e9",
        "0x10",
        "1,5",
        "Infinity",
        "true",
        "\x00",
        "ü",
        "../../a.png",
    ),
    *("/etc/passwd", '"', "'", "a;b", "\u202e", "=1+1", "9" * 400, "None", "\ufeff", "12", "0.5"),
)


def table(header: str, rows: list[str], path: Path, rng: Rng) -> Path:
    """Write a table in which some rows, cells, bytes or the header are not as they should be."""
    lines = [header, *rows]
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(0, len(lines)))
        cells = lines[place].split(",")
        match int(rng.integers(0, 5)):
            case 0:
                cells[int(rng.integers(0, len(cells)))] = str(rng.choice(_CELLS))
            case 1:
                cells = cells[: int(rng.integers(0, len(cells)))]
            case 2:
                cells += [str(rng.choice(_CELLS))] * int(rng.integers(1, 4))
            case 3:
                cells = [*cells, "\n" + lines[int(rng.integers(0, len(lines)))]]
            case _:
                cells = [str(rng.choice(_CELLS)) for _ in cells]
        lines[place] = ",".join(cells)
    content = "\n".join(lines).encode()
    match int(rng.integers(0, 6)):
        case 0:
            content = flipped(content, rng)
        case 1:
            content = truncated(content, rng)
        case 2:
            content = "\n".join(lines).encode("utf-16")
        case 3:
            content = rng.bytes(200)
    return put(path, ".csv", content)
