"""Images that no camera writes, or that a copy, a converter or somebody with bad intentions has altered.

Each kind is a function that takes a path without a suffix and a generator, and returns the path that it made.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from PIL import Image

from data_prep.files.images import MAX_PIXELS

Rng = np.random.Generator
Maker = Callable[[Path, Rng], Path]
Encode = Callable[[Rng], tuple[bytes, str]]
Change = Callable[[bytes, Rng], bytes]

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".webp": "WEBP", ".bmp": "BMP", ".tif": "TIFF"}
_ODD_NAMES = (
    *("a b", "[bold]red", "-o", "%s%n", "quote\"and'", "comma,semi;", "new\nline", "tab\tstop", "ünïcödé"),
    *(
        "u\u0308",
        "写真",
        "😀",
        "a" * 240,
        "dots..",
        "$(exit 1)",
        "back\\slash",
        "{braces}",
        "*",
        "=1+1",
        "\u202ertl",
    ),
)
_SIDE = 45_000


def picture(rng: Rng, size: tuple[int, int] = (40, 56)) -> np.ndarray:
    """Return uint8 [*size, 3] of coarse noise."""
    coarse = rng.integers(0, 256, (size[0] // 8 + 1, size[1] // 8 + 1, 3), np.uint8)
    return np.kron(coarse, np.ones((8, 8, 1), np.uint8))[: size[0], : size[1]]


def encoded(
    rng: Rng, image: Image.Image | None = None, suffix: str | None = None, **options: Any
) -> tuple[bytes, str]:
    """Return the content of an image file and its suffix, of a random format where none is given."""
    suffix = str(rng.choice(list(FORMATS))) if suffix is None else suffix
    stream = io.BytesIO()
    (Image.fromarray(picture(rng)) if image is None else image).save(stream, FORMATS[suffix], **options)
    return stream.getvalue(), suffix


def put(path: Path, suffix: str, content: bytes) -> Path:
    """Write a file with a suffix and return its path."""
    written = path.with_name(path.name + suffix)
    written.write_bytes(content)
    return written


def truncated(content: bytes, rng: Rng) -> bytes:
    """Return the beginning of a file."""
    return content[: int(rng.integers(0, len(content)))]


def flipped(content: bytes, rng: Rng) -> bytes:
    """Return a file in which up to 16 bits are flipped, half of the times near its beginning."""
    altered = bytearray(content)
    reach = min(len(altered), 128) if rng.random() < 0.5 else len(altered)
    for place in rng.integers(0, reach, int(rng.integers(1, 17))):
        altered[place] ^= 1 << int(rng.integers(0, 8))
    return bytes(altered)


def file_of(encode: Encode, change: Change | None = None) -> Maker:
    """Return what writes a file as it is encoded, or changed.

    Args:
        encode: Returns the content and the suffix of a good file.
        change: Alters the content; None leaves it.
    """

    def make(path: Path, rng: Rng) -> Path:
        content, suffix = encode(rng)
        return put(path, suffix, content if change is None else change(content, rng))

    return make


def _noise(path: Path, rng: Rng) -> Path:
    begins = encoded(rng)[0][: int(rng.integers(0, 33))]
    return put(path, str(rng.choice(list(FORMATS))), begins + rng.bytes(int(rng.integers(0, 3000))))


def _wrong_suffix(path: Path, rng: Rng) -> Path:
    content = encoded(rng)[0] if rng.random() < 0.7 else b"file,label\na.png,benign\n"
    return put(path, str(rng.choice([*FORMATS, ".JPG", ".jpeg", ".tiff"])), content)


@cache
def _png(width: int, height: int, *, has_rows: bool, depth: int = 1) -> bytes:
    """Return a black grey PNG; without rows it only claims its size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    rows = b""
    if has_rows:
        packer = zlib.compressobj(9)
        row = bytes(1 + (width * depth + 7) // 8)
        rows = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def _bomb(path: Path, rng: Rng) -> Path:
    """Write a file of kilobytes that would take gigabytes, or claims to, or a text chunk that does."""
    kind = int(rng.integers(0, 4))
    if kind == 0:
        return put(path, ".png", _png(_SIDE, _SIDE, has_rows=True))
    if kind == 1:
        return put(path, ".png", _png(2**31 - 1, int(rng.integers(1, 2**31)), has_rows=False))
    if kind == 2:
        side = int(MAX_PIXELS**0.5) + 1
        return put(path, ".png", _png(side, side, has_rows=True, depth=8))
    content, suffix = encoded(rng, suffix=".bmp")
    return put(path, suffix, content[:18] + struct.pack("<ii", 2**30, -(2**30)) + content[26:])


def _large(path: Path, rng: Rng) -> Path:
    """Write an image of nearly as many pixels as are accepted."""
    side = int(MAX_PIXELS**0.5) - int(rng.integers(1, 100))
    return put(path, ".png", _png(side, side, has_rows=True, depth=8))


def _thin(path: Path, rng: Rng) -> Path:
    size = (1, 60_000) if rng.random() < 0.5 else (60_000, 1)
    image = Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8))
    content, suffix = encoded(rng, image, suffix=str(rng.choice([".png", ".jpg", ".tif"])))
    return put(path, suffix, content)


def _tiny(path: Path, rng: Rng) -> Path:
    size = tuple(rng.integers(1, 4, 2).tolist())
    content, suffix = encoded(rng, Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8)))
    return put(path, suffix, content)


def _not_a_number(path: Path, rng: Rng) -> Path:
    levels = rng.normal(size=(40, 56)).astype(rng.choice(["float32", "float64", "float16"]))
    levels[rng.random(levels.shape) < 0.2] = rng.choice([np.nan, np.inf, -np.inf])
    written = path.with_name(path.name + ".tif")
    tifffile.imwrite(written, levels)
    return written


def _sixteen_bits(path: Path, rng: Rng) -> Path:
    levels = rng.integers(0, 65536, (40, 56)).astype(np.uint16)
    content, suffix = encoded(rng, Image.fromarray(levels), suffix=str(rng.choice([".png", ".tif"])))
    return put(path, suffix, content)


def _cmyk(path: Path, rng: Rng) -> Path:
    image = Image.fromarray(picture(rng)).convert(str(rng.choice(["CMYK", "CMYK", "LAB", "YCbCr"])))
    suffix = ".tif" if image.mode == "LAB" else str(rng.choice([".jpg", ".tif"]))
    content, suffix = encoded(rng, image, suffix=suffix)
    return put(path, suffix, content)


def _palette(path: Path, rng: Rng) -> Path:
    image = Image.fromarray(picture(rng)).quantize(int(rng.integers(2, 257)))
    options: dict[str, Any] = {"transparency": int(rng.integers(0, 2))} if rng.random() < 0.5 else {}
    content, suffix = encoded(rng, image, suffix=".png", **options)
    if rng.random() < 0.3:  # fewer colours than the pixels name
        place = content.index(b"PLTE") - 4
        length = struct.unpack(">I", content[place : place + 4])[0]
        body = b"PLTE" + content[place + 8 : place + 11]
        chunk = struct.pack(">I", 3) + body + struct.pack(">I", zlib.crc32(body))
        content = content[:place] + chunk + content[place + 12 + length :]
    return put(path, suffix, content)


def _transparent(path: Path, rng: Rng) -> Path:
    image = Image.fromarray(picture(rng)).convert(str(rng.choice(["RGBA", "LA"])))
    image.putalpha(int(rng.choice([0, 0, 128])))
    content, suffix = encoded(rng, image, suffix=str(rng.choice([".png", ".tif"])))
    return put(path, suffix, content)


def _exif(path: Path, rng: Rng) -> Path:
    exif = Image.Exif()
    exif[0x0112] = int(rng.choice([2, 3, 5, 6, 8, 0, 9, 99]))
    data = exif.tobytes()
    if rng.random() < 0.4:
        data = data[:6] + flipped(data[6:], rng)
    content, suffix = encoded(rng, suffix=str(rng.choice([".jpg", ".png", ".webp"])), exif=data)
    return put(path, suffix, content)


def _several(path: Path, rng: Rng) -> Path:
    frames = [Image.fromarray(picture(rng)) for _ in range(3)]
    suffix = str(rng.choice([".png", ".webp", ".tif"]))
    content, _ = encoded(rng, frames[0], suffix, save_all=True, append_images=frames[1:])
    return put(path, suffix, content if rng.random() < 0.5 else truncated(content, rng))


def _other_format(path: Path, rng: Rng) -> Path:
    stream = io.BytesIO()
    kind, suffix = (("GIF", ".gif"), ("PPM", ".ppm"), ("GIF", ".png"))[int(rng.integers(0, 3))]
    Image.fromarray(picture(rng)).save(stream, kind)
    return put(path, suffix, stream.getvalue())


def _odd_name(path: Path, rng: Rng) -> Path:
    content, suffix = encoded(rng)
    name = str(rng.choice(_ODD_NAMES)) if rng.random() < 0.8 else os.fsdecode(b"\xff\xfe")
    place = path.with_name(name + suffix)
    while place.exists():
        place = place.with_name(f"{len(list(path.parent.iterdir()))}{name[:200]}{suffix}")
    place.write_bytes(content)
    return place


def _pipe(path: Path, rng: Rng) -> Path:
    written = path.with_name(path.name + str(rng.choice(list(FORMATS))))
    os.mkfifo(written)
    return written


def _link(path: Path, rng: Rng) -> Path:
    written = path.with_name(path.name + str(rng.choice(list(FORMATS))))
    targets = (written.name, "nothing", "/dev/zero", "/dev/null", "/proc/self/mem")
    target = targets[int(rng.integers(0, len(targets)))]
    written.symlink_to(target)
    return written


def _empty(path: Path, rng: Rng) -> Path:
    return put(path, str(rng.choice(list(FORMATS))), b"")


IMAGES: Mapping[str, Maker] = {
    "good": file_of(encoded),
    "truncated": file_of(encoded, truncated),
    "flipped bits": file_of(encoded, flipped),
    "noise": _noise,
    "wrong suffix": _wrong_suffix,
    "bomb": _bomb,
    "1 x 60,000": _thin,
    "few pixels": _tiny,
    "NaN": _not_a_number,
    "16 bits": _sixteen_bits,
    "CMYK and other colours": _cmyk,
    "palette": _palette,
    "transparent": _transparent,
    "EXIF": _exif,
    "several frames": _several,
    "other format": _other_format,
    "odd name": _odd_name,
    "pipe": _pipe,
    "link": _link,
    "empty": _empty,
}
"""Kinds of hostile images, and good ones among them."""

LARGE: Mapping[str, Maker] = {"as large as accepted": _large}
"""One of these is enough for a run: it takes the time of a hundred others."""
