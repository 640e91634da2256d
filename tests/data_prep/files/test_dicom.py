"""DICOM files are read as their headers say, pixel by pixel, and hostile ones are refused by name."""

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGLSLossless,
    RLELossless,
)

from data_prep.errors import InputError
from data_prep.files import dicom, images
from data_prep.files.depth import find_levels, outside_levels, read_at_levels, read_wide_levels
from data_prep.files.images import (
    has_several_pages,
    is_deep,
    is_image_file,
    read_image,
    read_levels,
    read_mask,
    stored_size,
)
from tests.data_prep.dicom_files import write_dicom as write

LEVELS = np.array([[0, 500, 1000, 1024], [1100, 1500, 2048, 4095]], np.uint16)
IN_UNITS = LEVELS.astype(float) * 2 - 1024
WINDOW = {"WindowCenter": 1000, "WindowWidth": 401}


def ct(path: Path, **tags: Any) -> Path:
    """12 bits in 16 with slope 2 and intercept -1024."""
    return write(path, LEVELS, BitsStored=12, RescaleSlope=2, RescaleIntercept=-1024, **tags)


def shown(low: float, high: float) -> np.ndarray:
    grey = np.clip(np.rint((IN_UNITS - low) * 255 / (high - low)), 0, 255)
    return np.repeat(grey[:, :, np.newaxis], 3, axis=2)


@pytest.mark.parametrize(
    ("name", "syntax"),
    [
        ("a.dcm", ExplicitVRLittleEndian),
        ("a.dicom", ImplicitVRLittleEndian),
        ("a.IMA", ExplicitVRLittleEndian),
    ],
)
def test_a_rescaled_and_inverted_file_is_shown_by_its_window(tmp_path, name, syntax):
    """The formula of PS3.3 C.11.2.1.2.1, written out, and MONOCHROME1 turned over."""
    path = tmp_path / name
    assert is_image_file(write(path, LEVELS))
    write(
        path,
        LEVELS,
        syntax,
        BitsStored=12,
        RescaleSlope=2,
        RescaleIntercept=-1024,
        PhotometricInterpretation="MONOCHROME1",
        **WINDOW,
    )
    assert stored_size(path) == (2, 4)
    assert is_deep(path)
    assert not has_several_pages(path)
    found = find_levels([path], "auto")
    assert found.range == "window"
    assert (
        "levels from -1024 to 7166: the levels of each DICOM file's window became 0 to 255" in found.notes[0]
    )
    centre, width = 1000, 401
    expected = ((IN_UNITS - (centre - 0.5)) / (width - 1) + 0.5) * 255
    expected[centre - 0.5 - (width - 1) / 2 >= IN_UNITS] = 0
    expected[centre - 0.5 + (width - 1) / 2 < IN_UNITS] = 255
    assert expected.tolist()[0] == [0, 0, pytest.approx(112.52, abs=0.01), pytest.approx(143.12, abs=0.01)]
    read = read_at_levels(path, "window")
    np.testing.assert_array_equal(read, np.repeat(255 - np.rint(expected)[:, :, np.newaxis], 3, axis=2))
    assert read[..., 0].tolist() == [[255, 255, 142, 112], [15, 0, 0, 0]]
    assert outside_levels([path], "window") == []


def test_the_same_levels_that_are_not_inverted(tmp_path):
    path = ct(tmp_path / "a.dcm", **WINDOW)
    np.testing.assert_array_equal(read_at_levels(path, "window"), shown(799.5, 1199.5))
    np.testing.assert_array_equal(read_at_levels(path, (-1024, 7166)), shown(-1024, 7166))
    np.testing.assert_array_equal(read_at_levels(path, (0, 65535)), shown(0, 65535))


@pytest.mark.parametrize(
    ("tags", "window"),
    [
        ({"WindowCenter": [40, 600], "WindowWidth": [80, 2800]}, (0, 79)),
        ({"WindowCenter": 40, "WindowWidth": 80, "VOILUTFunction": "LINEAR_EXACT"}, (0, 80)),
        ({"WindowCenter": 0, "WindowWidth": 801}, (-400.5, 399.5)),
        ({"WindowCenter": 40, "WindowWidth": 80, "VOILUTFunction": "SIGMOID"}, None),
        ({"WindowCenter": 40, "WindowWidth": 1}, None),
        ({"WindowCenter": 40}, None),
        ({"WindowCenter": "", "WindowWidth": ""}, None),
    ],
)
def test_the_first_window_with_a_line_counts(tmp_path, tags, window):
    path = ct(tmp_path / "a.dcm", **tags)
    found = find_levels([path], "auto")
    if window is None:
        assert found.range == (-1017, 7138)  # percentiles, for some levels are negative
        with pytest.raises(InputError, match=r"a\.dcm: no linear window, .* WindowCenter and WindowWidth"):
            read_at_levels(path, "window")
    else:
        assert found.range == "window"
        np.testing.assert_array_equal(read_at_levels(path, "window"), shown(*window))


def test_without_windows_the_range_of_the_set_is_found_as_for_16_bits(tmp_path):
    files = [write(tmp_path / "a.dcm", LEVELS), write(tmp_path / "b.dcm", LEVELS // 4, **WINDOW)]
    found = find_levels(files, "auto")
    assert found.range == (0, 4095)
    assert "1 of them have a DICOM window, which is not followed" in found.notes[0]
    np.testing.assert_array_equal(read_at_levels(files[0], (0, 4095))[..., 1], np.rint(LEVELS * (255 / 4095)))
    eight = write(tmp_path / "c.dcm", (LEVELS // 16).astype(np.uint8))
    assert find_levels([eight], "auto").range == (0, 255)
    np.testing.assert_array_equal(read_at_levels(eight, (0, 255))[..., 2], LEVELS // 16)
    signed = write(tmp_path / "d.dcm", (LEVELS - 2000.0).astype(np.int16), BitsStored=13)
    np.testing.assert_array_equal(
        read_at_levels(signed, (-2000, 2095))[..., 0], np.rint(LEVELS * np.float32(255 / 4095))
    )
    (said,) = outside_levels([*files, signed], (0, 4095))
    assert "1 of 3 images have more than 1 % of their samples outside the levels 0 to 4095" in said


def test_each_file_by_its_own_percentiles(tmp_path):
    path = ct(tmp_path / "a.dcm", PhotometricInterpretation="MONOCHROME1")
    low, high = np.floor(np.percentile(IN_UNITS, 0.1)), np.ceil(np.percentile(IN_UNITS, 99.9))
    np.testing.assert_array_equal(read_at_levels(path, "each"), 255 - shown(low, high))


def test_a_slope_that_is_not_whole(tmp_path):
    path = write(tmp_path / "a.dcm", LEVELS, RescaleSlope="0.001", RescaleIntercept="-0.5")
    low, high = find_levels([path], "full").range
    assert (low, high) == pytest.approx((-0.5, 3.595))
    expected = np.rint((LEVELS * 0.001 - 0.5 - low) * 255 / (high - low))
    np.testing.assert_allclose(read_at_levels(path, (low, high))[..., 0], expected, atol=1)


def test_a_table_of_levels_is_followed(tmp_path):
    table = Dataset()
    table.LUTDescriptor, table.LUTData = [4, 0, 16], [10, 20, 5000, 40]
    table["LUTDescriptor"].VR = table["LUTData"].VR = "US"
    table.ModalityLUTType = "US"
    path = write(tmp_path / "a.dcm", np.uint8([[0, 1], [2, 3]]), ModalityLUTSequence=[table])
    np.testing.assert_array_equal(read_wide_levels(path).samples, [[10, 20], [5000, 40]])


def test_colours_are_read_as_other_images(tmp_path):
    colours = np.random.default_rng(1).integers(0, 256, (5, 4, 3), np.uint8)
    path = write(tmp_path / "A.DCM", colours)
    planes = write(tmp_path / "planes.dcm", colours, data=None, PlanarConfiguration=0)
    for file in (path, planes):
        assert not is_deep(file)
        np.testing.assert_array_equal(read_image(file), colours)
        np.testing.assert_array_equal(read_at_levels(file, (0, 9)), colours)
    grey = read_levels(path)
    np.testing.assert_array_equal(grey, np.array(Image.fromarray(colours).convert("L")))


@pytest.mark.parametrize(
    ("kind", "syntax"), [("JPEG", JPEGBaseline8Bit), ("JPEG2000", JPEG2000Lossless), ("rle", RLELossless)]
)
def test_compressed_files(tmp_path, kind, syntax):
    grey = np.tile(np.arange(0, 256, 8, dtype=np.uint8), (16, 1))
    path = tmp_path / "a.dcm"
    if kind == "rle":
        write(path, grey)
        dataset = pydicom.dcmread(path)
        dataset.compress(RLELossless)
        dataset.save_as(path)
    else:
        content = io.BytesIO()
        Image.fromarray(grey).save(content, kind, **({"quality": 100} if kind == "JPEG" else {}))
        write(path, grey, syntax, data=encapsulate([content.getvalue()]))
    np.testing.assert_allclose(read_at_levels(path, (0, 255))[..., 0], grey, atol=2 if kind == "JPEG" else 0)


@pytest.mark.parametrize("syntax", [JPEGLSLossless, DeflatedExplicitVRLittleEndian])
def test_what_cannot_be_decompressed_says_what_to_do(tmp_path, syntax):
    data = encapsulate([b"x" * 20]) if syntax == JPEGLSLossless else None
    path = write(tmp_path / "a.dcm", LEVELS, syntax, data=data)
    with pytest.raises(InputError, match=r"a\.dcm: compressed as .*(JPEG-LS|Deflated).*dcmdjpls.*pylibjpeg"):
        read_at_levels(path, "window")


def test_an_unknown_compression_is_refused_without_its_escape_sequences(tmp_path):
    path = write(tmp_path / "a.dcm", LEVELS)
    content = path.read_bytes()
    at = content.index(b"\x02\x00\x10\x00UI")  # the transfer syntax, as a text of another kind
    length = content[at + 6]
    text = b"\x1b[31m".ljust(length, b"9")
    path.write_bytes(content[: at + 4] + b"LO" + content[at + 6 : at + 8] + text + content[at + 8 + length :])
    with pytest.raises(InputError, match=r"a\.dcm: compressed as") as refused:
        read_at_levels(path, "window")
    assert "\x1b" not in str(refused.value)


def test_several_frames_are_refused(tmp_path):
    path = write(tmp_path / "a.dcm", LEVELS, data=LEVELS.tobytes() * 3, NumberOfFrames=3)
    with pytest.raises(InputError, match=r"a\.dcm: 3 frames; expected one image. Save the frames"):
        read_at_levels(path, "window")
    write(path, LEVELS, data=LEVELS.tobytes() * 3)  # and nobody said so
    with pytest.raises(InputError, match=r"a\.dcm: 48 bytes for 4 x 2 pixels, which need 16\. Expected one"):
        read_at_levels(path, "window")


@pytest.mark.parametrize(
    "tags",
    [
        {"PhotometricInterpretation": "PALETTE COLOR"},
        {"BitsAllocated": 32, "BitsStored": 32},
        {"SamplesPerPixel": 3},
        {"PhotometricInterpretation": "RGB"},
    ],
)
def test_other_kinds_of_pixels_are_refused(tmp_path, tags):
    path = write(tmp_path / "a.dcm", LEVELS, **tags)
    with pytest.raises(InputError, match=r"a\.dcm: \d channels of \d+ bits, .*expected one of 8 or 16 bits"):
        read_at_levels(path, "each")


def test_without_a_range_grey_files_are_refused(tmp_path):
    path = ct(tmp_path / "a.dcm", **WINDOW)
    for read in (read_image, read_mask, read_levels):
        with pytest.raises(InputError, match=r"a\.dcm: grey levels of a DICOM file; .* no range of levels"):
            read(path)
    assert outside_levels([path, write(tmp_path / "b.dcm", LEVELS)], None) == []


def test_without_the_package_it_says_what_to_install(tmp_path, monkeypatch):
    path = ct(tmp_path / "a.dcm")

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(dicom.importlib, "import_module", missing)
    with pytest.raises(InputError, match=r"a\.dcm: .* pydicom, which is not installed. .*gpimaging\[dicom\]"):
        read_at_levels(path, "window")


@pytest.mark.parametrize("slope", ["nan", "1e300", "inf", "x", "1\\2"])
def test_scales_that_are_no_numbers_are_refused(tmp_path, slope):
    path = ct(tmp_path / "a.dcm")
    content = path.read_bytes()
    at = content.index(b"\x28\x00\x53\x10DS") + 8
    element = slope.encode().ljust(6)
    path.write_bytes(content[: at - 2] + len(element).to_bytes(2, "little") + element + content[at + 2 :])
    with pytest.raises(InputError, match=r"a\.dcm: "):
        read_at_levels(path, "each")


def test_sizes_are_checked_before_pixels_are_decoded(tmp_path):
    huge = write(tmp_path / "huge.dcm", LEVELS, Rows=60_000, Columns=60_000)
    wrong = write(tmp_path / "wrong.dcm", LEVELS, Rows=300)
    content = io.BytesIO()
    Image.new("L", (64, 64)).save(content, "JPEG")
    small = write(
        tmp_path / "small.dcm",
        np.zeros((8, 8), np.uint8),
        JPEGBaseline8Bit,
        data=encapsulate([content.getvalue()]),
    )
    with pytest.raises(InputError, match=r"huge\.dcm: 60000 x 60000 pixels; at most"):
        read_at_levels(huge, "each")
    with pytest.raises(InputError, match=r"wrong\.dcm: unreadable or truncated \(no DICOM image"):
        read_at_levels(wrong, "each")
    with pytest.raises(
        InputError, match=r"small\.dcm: a compressed frame of 64 x 64 pixels, .* of 8 x 8 pixels"
    ):
        read_at_levels(small, "each")
    packed = write(
        tmp_path / "packed.dcm",
        np.zeros((8, 8), np.uint8),
        RLELossless,
        data=encapsulate([struct.pack("<16L", 1, 64, *14 * [0]) + b"\x81\0" * 40_000]),
    )
    with pytest.raises(InputError, match=r"packed\.dcm: 80\d+ bytes for 8 x 8 pixels, which need 64"):
        read_at_levels(packed, "each")


def test_frames_that_would_take_more_memory_than_the_header_says(tmp_path, monkeypatch):
    """Refused without decoding: run lengths of 4 MB, a JPEG 2000 of 9,000 x 9,000, and a second frame."""
    monkeypatch.setattr("pydicom.pixels.pixel_array", lambda _dataset: pytest.fail("decoded"))
    eight = np.zeros((8, 8), np.uint8)
    runs = struct.pack("<16L", 1, 64, *14 * [0]) + b"\x81\0" * 2 + b"\x80" * 9
    bomb = write(tmp_path / "bomb.dcm", eight, RLELossless, data=encapsulate([runs]))
    content = io.BytesIO()
    Image.new("L", (8, 8)).save(content, "JPEG2000", no_jp2=True)
    codestream = bytearray(content.getvalue())
    codestream[8:16] = struct.pack(">2L", 9_000, 9_000)
    claims = write(tmp_path / "claims.dcm", eight, JPEG2000Lossless, data=encapsulate([bytes(codestream)]))
    jpeg = io.BytesIO()
    Image.new("L", (8, 8)).save(jpeg, "JPEG")
    twice = write(tmp_path / "twice.dcm", eight, JPEGBaseline8Bit, data=encapsulate([jpeg.getvalue()] * 2))
    for path, fault in (
        (bomb, "run lengths of more bytes than the image has"),
        (claims, "a compressed frame of 9000 x 9000 pixels, 1 channels"),
        (twice, "2 compressed frames"),
    ):
        with pytest.raises(InputError, match=rf"{path.name}: {fault}; expected one frame of 8 x 8 pixels"):
            read_at_levels(path, "each")


@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
@pytest.mark.parametrize("kind", ["MONOCHROME2", "MONOCHROME1"])
def test_padding_is_the_darkest_level_and_stretches_no_range(tmp_path, syntax, kind):
    levels = np.array([[-2000, -2000, 0, 100], [-1990, 50, 100, 1000]], np.int16)
    path = write(
        tmp_path / "a.dcm",
        levels,
        syntax,
        PhotometricInterpretation=kind,
        RescaleSlope=2,
        RescaleIntercept=0,
        PixelPaddingValue=-2000,
        PixelPaddingRangeLimit=-1990,
    )
    low, high = find_levels([path], "full").range
    assert (low, high) == (0, 65535)  # -4000 would be the least
    darkest = 0 if kind == "MONOCHROME2" else 2000
    padded = read_wide_levels(path).samples
    np.testing.assert_array_equal(padded, [[darkest, darkest, 0, 200], [darkest, 100, 200, 2000]])
    assert read_at_levels(path, "each")[0, 0, 0] == 0


def test_padding_of_signed_samples_that_is_written_unsigned(tmp_path):
    levels = np.array([[-2000, 0, 100, 1000]], np.int16)
    path = write(tmp_path / "a.dcm", levels, PixelPaddingValue=-2000)
    content = path.read_bytes()
    at = content.index(b"\x28\x00\x20\x01SS")
    path.write_bytes(content[: at + 4] + b"US" + content[at + 6 :])  # 63536
    np.testing.assert_array_equal(read_wide_levels(path).samples, [[0, 0, 100, 1000]])
    write(path, np.full((2, 2), -2000, np.int16), PixelPaddingValue=-2000)
    np.testing.assert_array_equal(read_wide_levels(path).samples, np.full((2, 2), -2000))


@pytest.mark.parametrize(
    ("tags", "is_square"),
    [
        ({"PixelSpacing": [0.5, 0.5]}, True),
        ({"PixelSpacing": [0.5, 0.502]}, True),
        ({"PixelSpacing": [0.5, 0.25]}, False),
        ({"PixelAspectRatio": [4, 3]}, False),
        ({"PixelSpacing": [0.5, 0]}, True),
        ({"PixelSpacing": ""}, True),
    ],
)
def test_pixels_that_are_not_square_are_said_once(tmp_path, tags, is_square):
    colours = np.zeros((5, 4, 3), np.uint8)
    files = [
        ct(tmp_path / "a.dcm"),
        ct(tmp_path / "b.dcm", **tags),
        write(tmp_path / "c.dcm", colours, **tags),
    ]
    said = [note for note in find_levels(files, "auto").notes if "not square" in note]
    assert len(said) == (not is_square)
    assert is_square or "2 of 3 images have pixels that are not square (b.dcm)" in said[0]
    assert is_square or find_levels(files[2:], "auto").notes  # colours have no range


def test_grey_files_of_8_bits_are_not_called_deep(tmp_path):
    path = write(tmp_path / "a.dcm", np.uint8([[0, 200]]))
    assert (
        find_levels([path], "auto")
        .notes[0]
        .startswith("1 images have grey levels of DICOM, with levels from")
    )
    deep = tmp_path / "b.png"
    Image.fromarray(np.full((2, 2), 900, np.uint16)).save(deep)
    said = find_levels([path, deep], "auto").notes[0]
    assert said.startswith(
        "2 images have grey levels of DICOM or 16 bits per sample, with levels from 0 to 900"
    )


def test_truncated_files_are_refused(tmp_path):
    content = ct(tmp_path / "whole.dcm", **WINDOW).read_bytes()
    path = tmp_path / "a.dcm"
    for length in (*range(0, len(content) - 20, 23), *range(len(content) - 20, len(content))):
        path.write_bytes(content[:length])
        assert str(path) in str(_outcome(path)), length


def test_whatever_is_altered_a_file_is_read_or_refused_by_name(tmp_path):
    content = ct(tmp_path / "whole.dcm", **WINDOW).read_bytes()
    path = tmp_path / "a.dcm"
    random = np.random.default_rng(3)
    for _ in range(60):
        altered = bytearray(content)
        altered[int(random.integers(132, len(content)))] = int(random.integers(256))
        path.write_bytes(altered)
        outcome = _outcome(path)
        assert outcome == (2, 4) or str(path) in str(outcome), outcome
        assert "ecret" not in str(outcome)
    path.write_bytes(b"not DICOM" * 40)
    assert "no DICOM image that can be decoded" in str(_outcome(path))


def _outcome(path: Path) -> object:
    """What a file gives: a size, or why it is refused; nothing else may happen."""
    try:
        return read_at_levels(path, "each").shape[:2]
    except InputError as error:
        return error


def test_personal_data_are_not_even_read(tmp_path):
    with images.opened_image(ct(tmp_path / "a.dcm")) as image:
        image.load()
        assert "PatientName" not in image._read(dicom._PIXELS)
        assert "ecret" not in repr(vars(image))
