"""Image files to arrays, arrays to another size, and back to files.

Pillow decodes: it refuses truncated files, where OpenCV returns what it has, and its pixels equal
TensorFlow's (`dct_method="INTEGER_ACCURATE"`) and OpenCV's for JPEG, PNG, WebP and 24-bit BMP to the last
bit. So a model sees the same image whether it was decoded here or inside an exported graph.
"""

import logging
import struct
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file
from data_prep.files.dicom import WARNING_FILTERS, DicomImage
from data_prep.files.entries import DICOM_SUFFIXES, IMAGE_SUFFIXES, is_visible_file

MAX_PIXELS = 80_000_000
"""Images of more pixels are refused: a small file can decompress to more memory than the machine has."""

_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF")
_MASK_FORMATS = (*_FORMATS, "GIF")
_JPEG = b"\xff\xd8\xff"
_LOSSY_FORMATS = frozenset({"JPEG", "MPO", "WEBP"})  # MPO: JPEG with further frames, as some phones write
_OPAQUE = 255  # alpha
_LOSSY_TINT = 4  # grey levels by which lossy compression may tint a grey pixel

# What Pillow's decoders raise on damaged files (found by truncating and altering files of every format).
_DAMAGED = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)

TIFFFILE_ERRORS = (
    OSError,
    ArithmeticError,
    AttributeError,
    LookupError,  # also a codec that is not installed
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
"""What tifffile and its codecs raise on damaged files (found by truncating and altering files)."""

# Without a handler of a program's own, logging writes tifffile's remarks on damaged files to standard error.
logging.getLogger("tifffile").addHandler(logging.NullHandler())


def is_image_file(path: Path) -> bool:
    """Whether a path is a visible file with one of `IMAGE_SUFFIXES` (in upper or lower case)."""
    return is_visible_file(path, IMAGE_SUFFIXES)


def read_image(path: Path) -> npt.NDArray[np.uint8]:
    """Decode an image file as RGB, upright.

    The EXIF orientation is applied; grey and palette images are expanded; an alpha channel is dropped (not
    blended); of 16-bit samples the high byte is kept (`data_prep.files.depth.read_at_levels` keeps more); of
    several frames or pages the first one is read.

    Args:
        path: A PNG, JPEG, WebP, BMP, TIFF or coloured DICOM file.

    Returns:
        uint8 [height, width, 3], red, green, blue.

    Raises:
        InputError: The file is missing, damaged, truncated, of another format, has floating-point samples or
            more than `MAX_PIXELS` pixels.

    Example:
        >>> read_image(Path("photo.jpg")).shape  # doctest: +SKIP
        (3000, 4000, 3)
    """
    with _decoding(path):
        image, _ = _open_upright(path)
        _require_plain(image, path, "8")
        is_deep_grey = image.mode.startswith("I")
        if not is_deep_grey and image.mode != "L":
            return np.array(image.convert("RGB"))
        levels = _sixteen_bit_levels(image, path) >> 8 if is_deep_grey else np.asarray(image)
        # Pillow and NumPy take several times as long to repeat a channel.
        return np.asarray(cv2.merge([levels.astype(np.uint8)] * 3), np.uint8)


def read_mask(path: Path) -> npt.NDArray[np.integer[Any]]:
    """Decode an annotation mask to its levels, upright.

    - A grey mask gives its grey levels. One bit is 0 and 255, as the PNG standard and every viewer have it;
      16 bits stay 16 bits.
    - A palette mask whose colours are all grey gives those grey levels; one with a colour map gives the
      palette indices, which is how class masks are stored (PASCAL VOC and others).
    - A mask with red, green and blue gives the common level; one that is really coloured is refused.
    - An alpha channel is dropped, unless it is all that the mask shows: one colour, partly transparent.
    - The EXIF orientation is applied. Of a GIF file there must be one frame.

    Args:
        path: A PNG, JPEG, WebP, BMP, TIFF or GIF file.

    Returns:
        uint8 or uint16 [height, width].

    Raises:
        InputError: The file cannot be read, as in `read_image`, or the mask is coloured.
    """
    with _decoding(path):
        image, image_format = _open_upright(path, _MASK_FORMATS)
        if (drawn := _drawn_in_alpha(image)) is not None:
            return drawn
        if image.mode == "F":
            raise InputError(
                f"{path}: floating-point samples; expected whole-number levels. Save the mask with 8 bits "
                "per pixel."
            )
        if image.mode.startswith("I"):
            return _sixteen_bit_levels(image, path)
        if image.mode in {"P", "PA"}:
            return _palette_levels(image)
        if image.mode in {"L", "1"}:
            return np.array(image.convert("L"))
        if image.mode in {"LA", "La"}:
            return np.array(image.getchannel("L"))
        return _common_level(image, image_format, path)


def read_levels(path: Path) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
    """Decode an image file as grey levels at the depth it was stored with, upright.

    Of three channels the luminance is taken (the common level where they are equal), of 16 bits each their
    high bytes; an alpha channel is dropped; palettes are expanded; of several pages the first one is read.

    Args:
        path: A PNG, JPEG, WebP, BMP or TIFF file.

    Returns:
        uint8 or uint16 [height, width].

    Raises:
        InputError: The file cannot be read, as in `read_image`.
    """
    with _decoding(path):
        return _grey_levels(_open_upright(path)[0], path)


def has_several_pages(path: Path) -> bool:
    """Whether a file holds more than one image, as the pages of a TIFF file are.

    Raises:
        InputError: The file cannot be read, as in `read_image`.
    """
    with opened_image(path) as image:
        return _seek(image, 1)


def is_deep(path: Path) -> bool:
    """Whether a file has more than 8 bits per sample; its pixels are not decoded for that.

    Raises:
        InputError: The file cannot be read, as in `read_image`.
    """
    with _decoding(path), path.open("rb") as file:
        if file.read(len(_JPEG)) == _JPEG:  # of 8 bits, and Pillow takes long to parse its header
            return False
    with opened_image(path) as image:
        return image.mode.startswith(("F", "I")) or is_deep_colour(image)


def exif_orientation(path: Path) -> int:
    """Return the EXIF orientation of a file; 1 where it is upright or the file has none.

    Raises:
        InputError: The file cannot be read, as in `read_image`.
    """
    with opened_image(path) as image:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))


def read_pages(path: Path, first: int = 0) -> Iterator[npt.NDArray[np.uint8] | npt.NDArray[np.uint16]]:
    """Decode the pages of a TIFF file one after another, each as `read_levels` does; one is in memory.

    Args:
        path: A TIFF file.
        first: Page to begin with, from 0.

    Yields:
        uint8 or uint16 [height, width].

    Raises:
        InputError: A page cannot be read, as in `read_image`; what comes after it is not read.
    """
    with _explained(path), path.open("rb") as file, _opened(file, path) as image:
        # One after another: to count them all first would fail on a file with a damaged last page.
        for page in count(first):
            with _no_remarks():
                if not _seek(image, page):
                    return
                require_few_pixels(image, path)
                image.load()
                levels = _grey_levels(ImageOps.exif_transpose(image), path)
            yield levels


def write_picture(
    path: Path, picture: npt.NDArray[Any], *, suffix: str | None = None, parameters: Sequence[int] = ()
) -> None:
    """Write a picture to a file, which appears when complete.

    OpenCV's own writer returns False instead of saying why, and not everywhere takes non-ASCII paths.

    Args:
        path: File to write. Its folder is made, and a file of that name is replaced.
        picture: uint8 or uint16 [height, width, 3], red, green, blue, or grey [height, width].
        suffix: Format of the file; that of the path's suffix by default.
        parameters: Names and values of OpenCV's settings, such as `(cv2.IMWRITE_JPEG_QUALITY, 92)`.

    Raises:
        InputError: The file cannot be written.

    Example:
        >>> write_picture(Path("masks/a.png"), np.zeros((4, 6), np.uint8))  # doctest: +SKIP
    """
    encoded = encode_picture(picture, path.suffix if suffix is None else suffix, parameters)
    with atomic_file(path) as temporary:
        temporary.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(encoded)


def encode_picture(picture: npt.NDArray[Any], suffix: str = ".png", parameters: Sequence[int] = ()) -> bytes:
    r"""Encode a picture as the bytes of an image file.

    Args:
        picture: uint8 or uint16 [height, width, 3], red, green, blue, or grey [height, width].
        suffix: Format, as the suffix of its files: `.png`, `.jpg`, and what else OpenCV writes.
        parameters: Names and values of OpenCV's settings, such as `(cv2.IMWRITE_JPEG_QUALITY, 92)`.

    Returns:
        The content of the file.

    Raises:
        cv2.error: The format is unknown, or takes no such picture.

    Example:
        >>> encode_picture(np.zeros((4, 6, 3), np.uint8))[:4]
        b'\x89PNG'
    """
    ordered = picture[..., ::-1] if picture.ndim == 3 else picture
    return bytes(cv2.imencode(suffix, ordered, list(parameters))[1].tobytes())


def stored_size(path: Path) -> tuple[int, int]:
    """Return height and width of an image file in pixels, by its header alone.

    Raises:
        InputError: The file cannot be read.
    """
    with opened_image(path) as image:
        return image.height, image.width


@contextmanager
def opened_image(path: Path) -> Iterator[ImageFile.ImageFile]:
    """Open an image file without loading its pixels; errors inside the block count as damage of the file."""
    with _decoding(path), path.open("rb") as file, _opened(file, path) as image:
        yield image


@contextmanager
def _decoding(path: Path) -> Iterator[None]:
    """Decode without warnings, and with errors that name the file. Do not yield from a generator inside."""
    with _explained(path), _no_remarks():
        yield


@contextmanager
def _no_remarks() -> Iterator[None]:
    """Suppress Pillow's warnings about odd and damaged files.

    Our own error, or the table of skipped files, already names each file that is not used.
    """
    with WARNING_FILTERS, warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def _opened(file: IO[bytes], path: Path, formats: tuple[str, ...] = _FORMATS) -> ImageFile.ImageFile:
    """Return an image whose pixels are not loaded yet."""
    with _no_remarks():
        if path.suffix.lower() in DICOM_SUFFIXES:
            return DicomImage(file, path)
        image = Image.open(file, formats=formats)
        require_known_samples(image, path)
        return image


def _unidentified(path: Path) -> str:
    try:
        if path.stat().st_size == 0:
            return "the file is empty"
        of_tiff = path.suffix.lower() in {".tif", ".tiff"}
        return "no TIFF of 8 or 16 bits, or one channel of 32-bit floats" if of_tiff else "no known format"
    except OSError:  # it was read a moment ago, and is gone now
        return "no known format"


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what the decoders raise into an `InputError` that names the file."""
    try:
        yield
    except InputError:
        raise
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise InputError(
            f"{path}: cannot be opened ({error.strerror}). Check that the file exists and that you may read "
            "it."
        ) from error
    except _DAMAGED as error:
        # Pillow's own message for this error holds the address of an object in memory.
        reason = _unidentified(path) if isinstance(error, UnidentifiedImageError) else error
        raise InputError(
            f"{path}: unreadable or truncated ({reason}). Expected a complete PNG, JPEG, WebP, BMP, "
            "TIFF or DICOM file. Copy or export it again, or remove it."
        ) from error


def _open_upright(path: Path, formats: tuple[str, ...] = _FORMATS) -> tuple[Image.Image, str | None]:
    """Load all pixels, apply the EXIF orientation; return the image and the file's format."""
    # Given a path, Pillow maps uncompressed TIFFs into memory and then turns them wrongly.
    with path.open("rb") as file, _opened(file, path, formats) as image:
        require_few_pixels(image, path)
        if isinstance(image, DicomImage) and image.mode != "RGB":
            raise InputError(
                f"{path}: grey levels of a DICOM file; expected 8 or 16 bits per sample, since no range of "
                "levels is known. Export the image with 8 bits."
            )
        image_format = image.format
        if image_format == "GIF" and _seek(image, 1):
            raise InputError(f"{path}: a GIF file of several frames; expected one. Save the mask as PNG.")
        image.load()
        return ImageOps.exif_transpose(image), image_format


def _seek(image: Image.Image, page: int) -> bool:
    """Go to a page; return whether there is one."""
    try:
        image.seek(page)
    except EOFError:
        return False
    return True


def is_deep_colour(image: ImageFile.ImageFile) -> bool:
    """Whether an opened image has several channels of 16 bits, which Pillow cuts to 8."""
    return image.mode.startswith(("RGB", "LA")) and any(";16" in str(tile.args) for tile in image.tile)


def require_few_pixels(image: Image.Image, path: Path) -> None:
    """Refuse an opened image of more than `MAX_PIXELS` pixels before they are decoded."""
    if image.width * image.height > MAX_PIXELS:
        raise InputError(
            f"{path}: {image.width} x {image.height} pixels; at most {MAX_PIXELS:,} are accepted. "
            "Reduce the image first."
        )


def _require_plain(image: Image.Image, path: Path, bits: str) -> None:
    if image.mode == "F":
        raise InputError(
            f"{path}: floating-point samples; expected 8 or 16 bits per sample, since no range of levels is "
            f"known. Convert the image to {bits} bits."
        )


def _grey_levels(image: Image.Image, path: Path) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
    _require_plain(image, path, "16")
    if image.mode.startswith("I"):
        return _sixteen_bit_levels(image, path)
    return np.array(image.convert("RGB").convert("L"))


def _sixteen_bit_levels(image: Image.Image, path: Path) -> npt.NDArray[np.uint16]:
    levels = np.asarray(image)
    lowest, highest = int(levels.min()), int(levels.max())
    if lowest < 0 or highest > np.iinfo(np.uint16).max:
        raise InputError(
            f"{path}: 32-bit levels from {lowest} to {highest}; expected 8 or 16 bits per sample. "
            "Convert the file to 8 bits."
        )
    return levels.astype(np.uint16)


def _drawn_in_alpha(image: Image.Image) -> npt.NDArray[np.uint8] | None:
    """Return the alpha channel of an image of one colour that is partly transparent; None of others."""
    if image.mode not in {"RGBA", "LA"}:
        return None
    channels = np.array(image)
    colours, alpha = channels[..., :-1], channels[..., -1]
    is_plain = bool((colours == colours[:1, :1]).all())
    return alpha if is_plain and alpha.min() < _OPAQUE else None


def _palette_levels(image: Image.Image) -> npt.NDArray[np.uint8]:
    indices = np.array(image) if image.mode == "P" else np.array(image.getchannel("P"))
    # The whole palette decides, not the colours in use, so that all masks of a set are read alike.
    palette = np.array(image.getpalette("RGB"), dtype=np.uint8).reshape(-1, 3)
    if np.any(palette != palette[:, :1]):
        return indices
    grey = np.zeros(256, dtype=np.uint8)
    grey[: len(palette)] = palette[:, 0]
    return grey[indices]


def _common_level(image: Image.Image, image_format: str | None, path: Path) -> npt.NDArray[np.uint8]:
    colours = np.array(image.convert("RGB"))
    tint = colours.max(axis=2) - colours.min(axis=2)
    if tint.max() > (_LOSSY_TINT if image_format in _LOSSY_FORMATS else 0):
        row, column = np.unravel_index(tint.argmax(), tint.shape)
        raise InputError(
            f"{path}: a coloured mask (pixel {column}, {row} is {tuple(colours[row, column].tolist())} in "
            "red, green, blue); expected one level per pixel. Save it as a grey image or with a palette, "
            "one value per class."
        )
    return np.array(image.convert("RGB").convert("L"))


_BITS_PER_SAMPLE, _PHOTOMETRIC, _SAMPLE_FORMAT = 258, 262, 339
_WHITE_IS_ZERO, _SIGNED, _BYTE, _TWO_BYTES = 0, 2, 8, 16


def require_known_samples(image: Image.Image, path: Path) -> None:
    """Refuse unsigned 16-bit levels in files where 0 means white, and signed 8-bit levels.

    Args:
        image: An opened image of any format.
        path: Its file.

    Raises:
        InputError: It has such samples: they would be shown as a negative, or wrapped round.
    """
    bits, colours, kind = (_tag(image, name) for name in (_BITS_PER_SAMPLE, _PHOTOMETRIC, _SAMPLE_FORMAT))
    if bits == _BYTE and kind == _SIGNED:
        raise InputError(
            f"{path}: signed levels of 8 bits; expected unsigned ones. Add 128 to them and save the image."
        )
    if bits == _TWO_BYTES and kind != _SIGNED and colours == _WHITE_IS_ZERO and image.mode.startswith("I"):
        raise InputError(
            f"{path}: 16-bit levels where 0 means white; expected 0 to mean black. Invert the image and "
            "save it with the photometric interpretation min-is-black."
        )


def _tag(image: Image.Image, name: int) -> Any:
    """Return the value of a tag, the first one where each sample has its own; None without the tag."""
    value = getattr(image, "tag_v2", {}).get(name)
    return value[0] if isinstance(value, tuple) and value else value
