"""Formats, orientations and sample types become one upright array; damaged files are refused by name."""

import contextlib
import io
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from data_prep.errors import InputError
from data_prep.files import images
from data_prep.files.images import encode_picture, is_image_file, read_image, read_mask, write_picture
from data_prep.files.resizing import resize_image, resize_mask

LOSSLESS = {"png": {}, "bmp": {}, "tiff": {}, "webp": {"lossless": True}}
ORIENTATION_TAG = 0x0112


def picture(height: int = 20, width: int = 30) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def encoded(array: np.ndarray, suffix: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image_format = {"jpg": "JPEG", "tif": "TIFF"}.get(suffix, suffix.upper())
    Image.fromarray(array).save(buffer, image_format, **options)
    return buffer.getvalue()


def as_stored(upright: np.ndarray, orientation: int) -> np.ndarray:
    """The array a camera stores for an upright picture, by the EXIF definition of the orientations."""
    return {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.swapaxes(0, 1),
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].swapaxes(0, 1),
        8: np.rot90(upright, -1),
    }[orientation]


@pytest.mark.parametrize("suffix", LOSSLESS)
def test_lossless_formats_keep_every_pixel(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"Straße am Fluß 名.{suffix}"
    path.write_bytes(encoded(picture(), suffix, **LOSSLESS[suffix]))
    np.testing.assert_array_equal(read_image(path), picture())


@pytest.mark.parametrize(
    "options", [{"quality": 50}, {"quality": 95, "subsampling": 0}, {"progressive": True}]
)
def test_jpeg_decodes_as_opencv_does(tmp_path: Path, options: dict[str, int]) -> None:
    path = tmp_path / "photo.JPG"
    path.write_bytes(encoded(picture(61, 47), "jpg", **options))
    np.testing.assert_array_equal(read_image(path), cv2.imread(str(path))[:, :, ::-1])


def test_a_mask_in_a_gif_file_or_in_alpha_is_read(tmp_path: Path) -> None:
    levels = np.zeros((6, 8), np.uint8)
    levels[2:, 3:] = 255
    Image.fromarray(levels).save(tmp_path / "a.gif")
    np.testing.assert_array_equal(read_mask(tmp_path / "a.gif"), levels)
    for colour in (0, 200):
        plain = np.full_like(levels, colour)
        Image.fromarray(np.dstack([plain, plain, plain, levels])).save(tmp_path / "alpha.png")
        np.testing.assert_array_equal(read_mask(tmp_path / "alpha.png"), levels)
        Image.fromarray(np.dstack([plain, np.full_like(plain, 255)])).save(tmp_path / "opaque.png")
        np.testing.assert_array_equal(read_mask(tmp_path / "opaque.png"), plain)
    frames = [Image.fromarray(frame) for frame in (levels, 255 - levels)]
    frames[0].save(tmp_path / "b.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(InputError, match=r"b\.gif: a GIF file of several frames; expected one"):
        read_mask(tmp_path / "b.gif")
    with pytest.raises(InputError, match=r"a\.gif: unreadable"):
        read_image(tmp_path / "a.gif")


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "webp", "tiff", "jpg"])
def test_exif_orientation_is_applied(tmp_path: Path, suffix: str, orientation: int) -> None:
    blocks = np.repeat(np.repeat(picture(2, 3), 16, axis=0), 16, axis=1)  # survives JPEG
    exif = Image.Exif()
    exif[ORIENTATION_TAG] = orientation
    options = {"quality": 100, "subsampling": 0} if suffix == "jpg" else LOSSLESS[suffix]
    path = tmp_path / f"photo.{suffix}"
    path.write_bytes(
        encoded(np.ascontiguousarray(as_stored(blocks, orientation)), suffix, exif=exif, **options)
    )
    read = read_image(path)
    assert read.shape == blocks.shape
    assert np.abs(read.astype(int) - blocks).max() <= (3 if suffix == "jpg" else 0)

    grey = blocks[:, :, 0]
    mask = tmp_path / f"mask.{suffix}"
    mask.write_bytes(
        encoded(np.ascontiguousarray(as_stored(grey, orientation)), suffix, exif=exif, **options)
    )
    assert np.abs(read_mask(mask).astype(int) - grey).max() <= (3 if suffix == "jpg" else 0)


@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_sixteen_bit_images_keep_the_high_byte(tmp_path: Path, suffix: str) -> None:
    levels = np.random.default_rng(1).integers(0, 65_536, (9, 7, 3), dtype=np.uint16)
    colour, grey = tmp_path / f"colour.{suffix}", tmp_path / f"grey.{suffix}"
    cv2.imwrite(str(colour), levels[:, :, ::-1])
    cv2.imwrite(str(grey), levels[:, :, 0])
    np.testing.assert_array_equal(read_image(colour), levels >> 8)
    np.testing.assert_array_equal(read_image(grey), np.repeat(levels[:, :, :1] >> 8, 3, axis=2))
    np.testing.assert_array_equal(read_mask(grey), levels[:, :, 0])


def test_grey_palette_and_alpha_are_converted(tmp_path: Path) -> None:
    colours = picture()
    grey, alpha = colours[:, :, 0], colours[:, :, 1]
    three = np.repeat(grey[:, :, np.newaxis], 3, axis=2)
    path = tmp_path / "image.png"

    Image.fromarray(grey).save(path)
    np.testing.assert_array_equal(read_image(path), three)
    Image.fromarray(np.dstack([grey, alpha])).save(path)
    np.testing.assert_array_equal(read_image(path), three)
    Image.fromarray(np.dstack([colours, alpha])).save(path)
    np.testing.assert_array_equal(read_image(path), colours)
    Image.fromarray(grey > 127).save(path)
    np.testing.assert_array_equal(read_image(path), np.where(three > 127, 255, 0))

    indices = Image.new("P", grey.shape[::-1])
    indices.putdata((grey % 3).ravel().tolist())
    indices.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    indices.save(path, transparency=bytes([0, 128, 255]))
    palette = np.array([[10, 20, 30], [40, 50, 60], [70, 80, 90]])
    np.testing.assert_array_equal(read_image(path), palette[grey % 3])


def test_cmyk_jpeg_is_converted(tmp_path: Path) -> None:
    path = tmp_path / "print.jpg"
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(path, quality=95)
    assert np.abs(read_image(path).astype(int) - (255, 0, 0)).max() < 10


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1, 1), (4000, 6000)])
def test_smallest_and_large_images(tmp_path: Path, size: tuple[int, int]) -> None:
    path = tmp_path / "image.png"
    Image.new("L", size[::-1], 77).save(path, compress_level=1)
    image = read_image(path)
    assert image.shape == (*size, 3)
    assert np.all(resize_image(image, (6, 9)) == 77)


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "bmp", "tiff"])
@pytest.mark.parametrize("kept", [0.0, 0.05, 0.5, 0.9])
def test_truncated_file_is_refused_by_name(tmp_path: Path, suffix: str, kept: float) -> None:
    path = tmp_path / f"half copied.{suffix}"
    content = encoded(picture(64, 64), suffix)
    path.write_bytes(content[: int(kept * len(content))])
    for read in (read_image, read_mask):
        with pytest.raises(
            InputError, match=r"half copied\.\w+: unreadable or truncated .* Copy or export it again"
        ):
            read(path)


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "bmp", "tiff"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_never_ends_in_another_error(tmp_path: Path, suffix: str, data: st.DataObject) -> None:
    exif = Image.Exif()
    exif[ORIENTATION_TAG] = 6
    options = {} if suffix == "bmp" else {"exif": exif}
    content = bytearray(encoded(picture(12, 9), suffix, **options))
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / f"damaged.{suffix}"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    for read, ndim in ((read_image, 3), (read_mask, 2)):
        with contextlib.suppress(InputError):
            assert read(path).ndim == ndim


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.png"
    text.write_text("no pixels here")
    with pytest.raises(InputError, match=r"notes\.png: unreadable"):
        read_image(text)
    with pytest.raises(InputError, match=r"absent\.png: cannot be opened \(No such file or directory\)"):
        read_image(tmp_path / "absent.png")
    with pytest.raises(InputError, match="cannot be opened"):
        read_image(tmp_path)


def test_other_formats_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "animation.png"
    Image.new("L", (4, 4)).save(path, "GIF")
    with pytest.raises(InputError, match=r"\(no known format\)\. Expected a complete PNG, JPEG"):
        read_image(path)


def png_header(width: int, height: int) -> bytes:
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))


@pytest.mark.parametrize(
    "side", [8_950, 9_600, 60_000]
)  # just refused, where Pillow warns, where Pillow refuses
def test_decompression_bomb_is_refused(tmp_path: Path, side: int) -> None:
    path = tmp_path / "bomb.png"
    data = b"IDAT" + zlib.compress(b"\0" * 100)
    chunk = struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))
    path.write_bytes(png_header(side, side) + chunk)
    with pytest.raises(InputError, match=r"bomb\.png: .*pixels.*"):
        read_image(path)


def test_pixel_limit_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_PIXELS", 599)
    path = tmp_path / "wide.png"
    path.write_bytes(encoded(picture(), "png"))
    with pytest.raises(InputError, match=r"wide\.png: 30 x 20 pixels; at most 599 are accepted\. Reduce"):
        read_image(path)


def test_float_samples_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "float.tiff"
    Image.fromarray(np.zeros((3, 4), dtype=np.float32)).save(path)
    for read in (read_image, read_mask):
        with pytest.raises(InputError, match=r"float\.tiff: floating-point samples; expected"):
            read(path)


def test_levels_beyond_sixteen_bits_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.tiff"
    Image.fromarray(np.array([[0, 70_000]], dtype=np.int32)).save(path)
    for read in (read_image, read_mask):
        with pytest.raises(
            InputError, match=r"wide\.tiff: 32-bit levels from 0 to 70000; expected 8 or 16 bits"
        ):
            read(path)


def test_mask_levels_of_grey_files(tmp_path: Path) -> None:
    levels = np.array([[0, 3, 4], [11, 200, 255]], dtype=np.uint8)
    path = tmp_path / "mask.png"
    for array in (
        levels,
        np.dstack([levels, levels[::-1]]),  # grey with alpha
        np.dstack([levels] * 3),
        np.dstack([levels] * 3 + [levels[::-1]]),  # red, green, blue, alpha
    ):
        Image.fromarray(array).save(path)
        np.testing.assert_array_equal(read_mask(path), levels)
    Image.fromarray(levels > 10).save(path)
    np.testing.assert_array_equal(read_mask(path), [[0, 0, 0], [255, 255, 255]])


@pytest.mark.parametrize(
    ("colours", "expected"),
    [
        ([0, 0, 0, 128, 0, 0, 0, 128, 0], [0, 1, 2]),  # a colour map: the class numbers
        ([255, 255, 255, 0, 0, 0, 4, 4, 4], [255, 0, 4]),  # greys, in any order: the greys
    ],
)
def test_palette_mask(tmp_path: Path, colours: list[int], expected: list[int]) -> None:
    path = tmp_path / "mask.png"
    image = Image.new("P", (3, 1))
    image.putpalette(colours)
    image.putdata([0, 1, 2])
    image.save(path)
    assert read_mask(path).tolist() == [expected]


def test_coloured_mask_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "overlay.png"
    colours = np.zeros((5, 6, 3), dtype=np.uint8)
    colours[2, 4] = (4, 0, 0)
    Image.fromarray(colours).save(path)
    with pytest.raises(
        InputError, match=r"overlay\.png: a coloured mask \(pixel 4, 2 is \(4, 0, 0\).*one value per"
    ):
        read_mask(path)


@pytest.mark.parametrize("suffix", ["jpg", "webp"])
def test_grey_mask_saved_lossily_in_colour_is_read(tmp_path: Path, suffix: str) -> None:
    mask = np.zeros((64, 64), dtype=np.uint8)
    mask[30:, 11:50] = 255
    path = tmp_path / f"mask.{suffix}"
    path.write_bytes(encoded(np.dstack([mask] * 3), suffix, quality=75))
    np.testing.assert_array_equal(read_mask(path) > 127, mask > 127)


def test_resize_image_averages_and_rounds_once() -> None:
    image = np.zeros((4, 4, 3), dtype=np.uint8)
    image[:2, :2, 0] = [[1, 2], [3, 4]]  # mean 2.5, half to even
    image[2:, 2:, 1] = [[3, 4], [3, 4]]  # mean 3.5
    resized = resize_image(image, (2, 2))
    assert resized.dtype == np.uint8
    assert resized.tolist() == [[[2, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 4, 0]]]


def test_resize_image_averages_the_side_that_shrinks_while_the_other_grows() -> None:
    image = np.zeros((2, 8, 3), dtype=np.uint8)
    image[:, 1::4] = 200  # every fourth column: a mean of 50 that sampling would miss
    assert np.all(resize_image(image, (4, 2)) == 50)


@pytest.mark.parametrize("size", [(5, 7), (40, 60), (20, 30), (1, 1)])
def test_resize_mask_makes_no_new_level(size: tuple[int, int]) -> None:
    mask = np.random.default_rng(0).choice(np.array([0, 1, 255], dtype=np.uint8), (20, 30))
    resized = resize_mask(mask, size)
    assert resized.shape == size
    assert set(np.unique(resized)) <= {0, 1, 255}
    if size == mask.shape:
        np.testing.assert_array_equal(resized, mask)


def test_resize_refuses_other_arrays() -> None:
    with pytest.raises(ValueError, match=r"uint8 image \[height, width, 3\], found float64 \(4, 4, 3\)"):
        resize_image(np.zeros((4, 4, 3)), (2, 2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"uint8 mask \[height, width\], found uint8 \(4, 4, 3\)"):
        resize_mask(np.zeros((4, 4, 3), dtype=np.uint8), (2, 2))


def test_image_files_are_told_by_suffix(tmp_path: Path) -> None:
    for name in ("a.PNG", "b.jpeg", ".hidden.png", "c.txt", "d"):
        (tmp_path / name).touch()
    (tmp_path / "folder.png").mkdir()
    assert sorted(path.name for path in tmp_path.iterdir() if is_image_file(path)) == ["a.PNG", "b.jpeg"]


def test_pages_are_read_as_levels_one_after_another(tmp_path: Path) -> None:
    first = picture()[..., 0]
    others = [first.astype(np.uint16) * 200, picture()]
    path = tmp_path / "stack.tif"
    Image.fromarray(first).save(path, save_all=True, append_images=[Image.fromarray(page) for page in others])
    pages = list(images.read_pages(path))
    assert images.has_several_pages(path)
    np.testing.assert_array_equal(pages[0], first)
    np.testing.assert_array_equal(pages[1], others[0])
    np.testing.assert_array_equal(pages[2], np.array(Image.fromarray(others[1]).convert("L")))
    assert pages[1].dtype == np.uint16
    np.testing.assert_array_equal(next(images.read_pages(path, first=2)), pages[2])
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(InputError, match="unreadable or truncated"):
        list(images.read_pages(path))


@pytest.mark.parametrize("suffix", [".png", ".tiff"])
@pytest.mark.parametrize(
    ("shape", "kind"),
    [((4, 6, 3), np.uint8), ((4, 6), np.uint8), ((4, 6), np.uint16), ((4, 6, 3), np.uint16)],
)
def test_pictures_are_written_as_they_are_read(
    tmp_path: Path, suffix: str, shape: tuple[int, ...], kind: type[np.integer]
) -> None:
    array = np.random.default_rng(0).integers(0, np.iinfo(kind).max, shape, dtype=kind)
    path = tmp_path / "new" / "folder" / "pictüre.out"
    write_picture(path, array, suffix=suffix)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert encode_picture(array, suffix) == path.read_bytes()
    stored = cv2.imdecode(np.frombuffer(path.read_bytes(), np.uint8), cv2.IMREAD_UNCHANGED)
    assert stored.dtype == kind
    np.testing.assert_array_equal(stored[..., ::-1] if len(shape) == 3 else stored, array)


def test_pictures_take_the_format_of_their_name_and_settings(tmp_path: Path) -> None:
    small, large = tmp_path / "small.jpg", tmp_path / "large.jpg"
    write_picture(small, picture(), parameters=(cv2.IMWRITE_JPEG_QUALITY, 20))
    write_picture(large, picture())
    assert large.read_bytes()[:3] == b"\xff\xd8\xff"
    assert small.stat().st_size < large.stat().st_size
    write_picture(tmp_path / "a.png", picture())
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), picture())


def test_pictures_that_cannot_be_written_say_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"a\.png: cannot be written \("):
        write_picture(tmp_path / "file" / "a.png", picture())


def test_an_empty_file_is_called_empty(tmp_path):
    (tmp_path / "a.png").touch()
    with pytest.raises(InputError, match=r"a\.png: unreadable or truncated \(the file is empty\)"):
        read_image(tmp_path / "a.png")
