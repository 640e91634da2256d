"""Sonar images of 8 and 16 bits are read at their depth, very large ones piece by piece."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from data_prep.errors import InputError
from data_prep.files import images
from data_prep.sonar.images import cut_window, read_sonar

LEVELS = np.random.default_rng(0).integers(0, 65536, (12, 9), dtype=np.uint16)
BYTES = (LEVELS >> 8).astype(np.uint8)


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_depth_is_kept(tmp_path: Path, suffix: str) -> None:
    for name, levels in (("deep", LEVELS), ("shallow", BYTES)):
        path = tmp_path / f"{name}{suffix}"
        Image.fromarray(levels).save(path)
        np.testing.assert_array_equal(read_sonar(path), levels)
        assert read_sonar(path).dtype == levels.dtype


def test_three_equal_channels_are_one(tmp_path: Path) -> None:
    path = tmp_path / "grey.png"
    Image.fromarray(np.repeat(BYTES[:, :, np.newaxis], 3, axis=2)).save(path)
    np.testing.assert_array_equal(read_sonar(path), BYTES)
    cv2.imwrite(str(tmp_path / "deep.png"), cv2.merge([LEVELS, LEVELS, LEVELS]))
    tifffile.imwrite(tmp_path / "deep.tif", np.repeat(LEVELS[..., np.newaxis], 3, axis=2), photometric="rgb")
    for name in ("deep.png", "deep.tif"):
        np.testing.assert_array_equal(read_sonar(tmp_path / name), LEVELS)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["plain.png", "plain.tif", "big.tif", "packed.tif"])
def test_colours_of_16_bits_are_upright(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], orientation: int, kind: str
) -> None:
    path = tmp_path / kind
    colours = np.random.default_rng(0).integers(0, 65536, (12, 9, 3), dtype=np.uint16)
    if kind == "plain.png":
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.fromarray(BYTES).save(path, exif=exif)
        chunk = next(part for part in chunks(path.read_bytes()) if part[4:8] == b"eXIf")
        encoded = cv2.imencode(".png", colours[..., ::-1])[1].tobytes()
        path.write_bytes(encoded[:33] + chunk + encoded[33:])  # behind the header
    else:
        order: Literal["<", ">"] = ">" if kind == "big.tif" else "<"
        tag = (274, 3, 1, orientation, True)
        compression = "zlib" if kind == "packed.tif" else None
        tifffile.imwrite(
            path, colours, photometric="rgb", byteorder=order, compression=compression, extratags=[tag]
        )
    levels = read_sonar(path)
    assert levels.dtype == np.uint16
    # Pillow's luminance is of the high bytes, each a little lower.
    assert np.abs((levels >> 8).astype(int) - images.read_levels(path)).max() <= 1
    assert capfd.readouterr().err == ""


def chunks(png: bytes) -> Iterator[bytes]:
    position = 8
    while position < len(png):
        length = 12 + int.from_bytes(png[position : position + 4], "big")
        yield png[position : position + length]
        position += length


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("byteorder", ["<", ">"])
def test_a_very_large_tiff_is_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, channels: int, byteorder: Literal["<", ">"]
) -> None:
    path = tmp_path / "line.tif"
    tifffile.imwrite(
        path, LEVELS if channels == 1 else np.repeat(LEVELS[..., None], 3, 2), photometric="minisblack"
        if channels == 1 else "rgb", byteorder=byteorder
    )  # fmt: skip
    monkeypatch.setattr(images, "MAX_PIXELS", LEVELS.size - 1)
    mapped = read_sonar(path)
    assert isinstance(mapped, np.memmap)
    for top in (3, -2):  # inside, and beyond the border
        window = cut_window(mapped, top, 2, (4, 5))
        assert window.dtype == np.uint16
        np.testing.assert_array_equal(window, cut_window(LEVELS, top, 2, (4, 5)))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_colours_become_the_same_levels_whether_mapped_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: type
) -> None:
    colours = np.random.default_rng(1).integers(0, np.iinfo(dtype).max + 1, (12, 9, 3), dtype=dtype)
    tifffile.imwrite(tmp_path / "line.tif", colours, photometric="rgb")
    decoded = read_sonar(tmp_path / "line.tif")
    monkeypatch.setattr(images, "MAX_PIXELS", LEVELS.size - 1)
    mapped = cut_window(read_sonar(tmp_path / "line.tif"), 0, 0, (12, 9))
    assert mapped.dtype == decoded.dtype == dtype
    np.testing.assert_allclose(mapped, decoded, rtol=0, atol=1)  # Pillow and OpenCV round differently
    np.testing.assert_allclose(mapped, colours @ [0.299, 0.587, 0.114], rtol=2e-4, atol=1)


def test_what_cannot_be_read_piece_by_piece_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tifffile.imwrite(tmp_path / "packed.tif", LEVELS, compression="zlib")
    tifffile.imwrite(tmp_path / "floats.tif", LEVELS.astype(np.float32))
    planes = np.stack([LEVELS, LEVELS, LEVELS])
    tifffile.imwrite(tmp_path / "planes.tif", planes, photometric="rgb", planarconfig="separate")
    tifffile.imwrite(tmp_path / "negative.tif", LEVELS, photometric="miniswhite")
    palette = np.zeros((3, 256), np.uint16)
    tifffile.imwrite(tmp_path / "palette.tif", BYTES, photometric="palette", colormap=palette)
    tifffile.imwrite(tmp_path / "turned.tif", LEVELS, extratags=[(274, 3, 1, 6, True)])
    tifffile.imwrite(tmp_path / "tiles.tif", LEVELS, tile=(16, 16))
    Image.fromarray(LEVELS).save(tmp_path / "line.png")
    np.testing.assert_array_equal(read_sonar(tmp_path / "packed.tif"), LEVELS)
    monkeypatch.setattr(images, "MAX_PIXELS", LEVELS.size - 1)
    for name, message in (
        ("packed.tif", r"packed\.tif: 9 x 12 pixels that are compressed, .* uncompressed TIFF"),
        ("tiles.tif", r"tiles\.tif: 9 x 12 pixels that are compressed, in tiles .* without tiles"),
        ("negative.tif", r"negative\.tif: stored as MINISWHITE with orientation 1.*MINISBLACK"),
        ("palette.tif", r"palette\.tif: stored as PALETTE"),
        ("turned.tif", r"turned\.tif: stored as MINISBLACK with orientation 6"),
        ("floats.tif", r"floats\.tif: samples of type float32"),
        ("planes.tif", r"planes\.tif: samples of type uint16 in the shape \(3, 12, 9\).*side by side"),
        ("line.png", r"line\.png: 9 x 12 pixels; at most 107 are accepted"),
    ):
        with pytest.raises(InputError, match=message):
            read_sonar(tmp_path / name)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    Image.fromarray(LEVELS).save(tmp_path / "a.tif")
    (tmp_path / "a.tif").write_bytes((tmp_path / "a.tif").read_bytes()[:-30])
    with pytest.raises(InputError, match=r"a\.tif: unreadable or truncated"):
        read_sonar(tmp_path / "a.tif")
    with pytest.raises(InputError, match=r"b\.png: cannot be opened"):
        read_sonar(tmp_path / "b.png")


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow tells of damaged tags in many ways
@pytest.mark.parametrize("limit", [LEVELS.size - 1, 10**9])
def test_damaged_headers_are_no_surprise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    path, generator = tmp_path / "a.tif", np.random.default_rng(0)
    tifffile.imwrite(path, LEVELS)
    good = path.read_bytes()
    monkeypatch.setattr(images, "MAX_PIXELS", limit)
    damaged = [good[:length] for length in range(20)]
    for _ in range(150):
        content = bytearray(good)
        for place in generator.integers(0, 250, 3):
            content[place] = generator.integers(256)
        damaged.append(bytes(content))
    for each in damaged:
        path.write_bytes(each)
        with contextlib.suppress(InputError):
            read_sonar(path)


@pytest.mark.parametrize(
    ("top", "left", "size"),
    [(0, 0, (12, 9)), (-3, 4, (8, 9)), (9, -2, (6, 4)), (-20, -9, (60, 40)), (13, 0, (2, 2))],
)
def test_windows_are_mirrored_beyond_the_border(top: int, left: int, size: tuple[int, int]) -> None:
    margin = 60
    padded = np.pad(LEVELS, margin, mode="symmetric")
    expected = padded[top + margin :, left + margin :][: size[0], : size[1]]
    window = cut_window(LEVELS, top, left, size)
    assert window.dtype == LEVELS.dtype
    np.testing.assert_array_equal(window, expected)
