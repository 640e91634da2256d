"""Sizes of compressed frames, and hostile ones, which must not be followed without end."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

from data_prep.files.dicom import coded_size, longest_segment


def encoded(kind: str, mode: str, **options: object) -> bytes:
    content = io.BytesIO()
    Image.new(mode, (21, 13)).save(content, kind, **options)
    return content.getvalue()


FRAMES = {
    "JPEG": encoded("JPEG", "L"),
    "progressive": encoded("JPEG", "RGB", progressive=True),
    "codestream": encoded("JPEG2000", "RGB", no_jp2=True),
    "jp2": encoded("JPEG2000", "L"),
}


@pytest.mark.parametrize(("kind", "channels"), list(zip(FRAMES, (1, 3, 3, 1), strict=True)))
def test_sizes_are_those_that_a_decoder_finds(kind, channels):
    assert coded_size(FRAMES[kind]) == (13, 21, channels)


def test_filling_before_a_marker_is_passed_over():
    frame = FRAMES["JPEG"]
    assert coded_size(frame[:2] + b"\xff\xff\xff" + frame[2:]) == (13, 21, 1)


def test_the_size_of_jpeg_ls_stands_as_that_of_jpeg():
    start = b"\xff\xd8\xff\xf7" + struct.pack(">HBHHB", 11, 8, 13, 21, 1)
    assert coded_size(start) == (13, 21, 1)


def test_the_origin_of_a_codestream_counts():
    frame = bytearray(FRAMES["codestream"])
    frame[8:24] = struct.pack(">4L", 121, 63, 100, 50)
    assert coded_size(bytes(frame)) == (13, 21, 3)


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_that_are_cut_or_altered_end_in_a_size_or_an_error(kind):
    frame = FRAMES[kind]
    random = np.random.default_rng(1)
    cut = [frame[:length] for length in range(0, 200, 7)]
    altered = []
    for _ in range(100):
        content = bytearray(frame)
        content[int(random.integers(60))] = int(random.integers(256))
        altered.append(bytes(content))
    for hostile in (*cut, *altered):
        try:
            assert len(coded_size(hostile)) == 3
        except ValueError as error:
            assert str(error)  # noqa: PT017 - either may happen


def test_a_box_of_no_length_is_not_looked_at_for_ever():
    frame = FRAMES["jp2"][:12] + bytes(4) + b"free" + bytes(40)
    with pytest.raises(ValueError, match="a box of JPEG 2000 without an end"):
        coded_size(frame)


def test_run_lengths_are_counted_up_to_what_is_enough():
    header = struct.pack("<16L", 2, 64, 71, *13 * [0])
    first, second = b"\x02abc\x80" + b"\xfez", b"\x81\0" * 3  # 3 and 3 bytes; 3 times 128
    assert longest_segment(header + first, 1_000) == 6
    assert longest_segment(header + first + second, 1_000) == 384
    assert longest_segment(header + first + second, 200) == 256
    assert longest_segment(struct.pack("<16L", 0, *15 * [0]), 9) == 0
    assert longest_segment(struct.pack("<16L", 2, 2**32 - 1, 3, *13 * [0]), 9) >= 0
    with pytest.raises(ValueError, match="ends too early"):
        longest_segment(header[:20], 9)
