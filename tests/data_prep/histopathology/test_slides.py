"""Images and slides are read in pieces, at the resolution that is wanted."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from data_prep.errors import InputError
from data_prep.files import images
from data_prep.files.resizing import resize_image
from data_prep.histopathology import slides as histopathology_slides
from data_prep.histopathology.slides import is_whole_slide, open_slide
from tests.data_prep.tissue_files import tissue

IMAGE = tissue(0, (300, 420))


def write_pyramid(path: Path, *, nested: bool, **options: object) -> Path:
    """Two levels in tiles of 64; the coarse one is darker, so that one can tell which was read."""
    with tifffile.TiffWriter(path) as file:
        layout = {"tile": (64, 64), "photometric": "rgb", "metadata": None, **options}
        file.write(IMAGE, subifds=int(nested), **layout)
        file.write(IMAGE[::4, ::4] // 2, subfiletype=1, **layout)
    return path


@pytest.fixture(params=["tifffile", "openslide"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "openslide":
        pytest.importorskip("openslide", reason="OpenSlide is optional (gpimaging[slides])")
    else:
        monkeypatch.setattr(histopathology_slides, "_import_openslide", lambda: None)
    return request.param


@pytest.mark.parametrize("suffix", [".png", ".tif", ".bmp"])
def test_pieces_of_an_image(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"tissue{suffix}"
    Image.fromarray(IMAGE).save(path)
    assert not is_whole_slide(path)
    with open_slide(path) as slide:
        assert (slide.size, slide.pixel_size) == ((300, 420), None)
        np.testing.assert_array_equal(slide.read(17, 250, (90, 100), (90, 100)), IMAGE[17:107, 250:350])
        half = slide.read(0, 0, (300, 420), (150, 210)).astype(int)
    blocks = IMAGE.reshape(150, 2, 210, 2, 3).mean(axis=(1, 3))
    assert np.abs(half - blocks).max() <= 0.5


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_pieces_of_a_pyramid_come_from_the_coarsest_level_that_is_fine_enough(
    tmp_path: Path, reader: str, monkeypatch: pytest.MonkeyPatch, compression: str | None
) -> None:
    nested = reader == "tifffile"  # each has its own idea of a TIFF file with several resolutions
    path = write_pyramid(tmp_path / "slide.tif", nested=nested, compression=compression)
    if not nested:
        monkeypatch.setattr(images, "MAX_PIXELS", 1000)
    assert is_whole_slide(path)
    with open_slide(path) as slide:
        assert [level.size for level in slide.levels] == [(300, 420), (75, 105)]
        np.testing.assert_array_equal(slide.read(50, 130, (100, 200), (100, 200)), IMAGE[50:150, 130:330])
        np.testing.assert_array_equal(
            slide.read(200, 220, (100, 200), (25, 50)), IMAGE[::4, ::4][50:75, 55:105] // 2
        )
        assert slide.read(200, 220, (100, 200), (50, 100)).mean() > 1.5 * IMAGE[200:, 220:].mean() / 2


@pytest.mark.usefixtures("reader")
def test_a_very_large_tiff_is_read_by_its_strips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_PIXELS", 1000)
    path = tmp_path / "slide.tif"
    tifffile.imwrite(path, IMAGE, photometric="rgb", rowsperstrip=16)
    with open_slide(path) as slide:
        np.testing.assert_array_equal(slide.read(270, 3, (30, 400), (30, 400)), IMAGE[270:, 3:403])


@pytest.mark.slow
@pytest.mark.parametrize("layout", [{"tile": (64, 64)}, {"rowsperstrip": 16}])
def test_a_small_picture_of_a_large_slide_takes_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: dict
) -> None:
    monkeypatch.setattr(histopathology_slides, "_import_openslide", lambda: None)
    monkeypatch.setattr(histopathology_slides, "_CACHED_BYTES", 500_000)
    monkeypatch.setattr(histopathology_slides, "_READ_AT_ONCE", 100_000)
    monkeypatch.setattr(images, "MAX_PIXELS", 1000)
    image = tissue(1, (2000, 2403))
    path = tmp_path / "slide.tif"
    tifffile.imwrite(path, image, photometric="rgb", compression="zlib", **layout)
    tracemalloc.start()
    with open_slide(path) as slide:
        small = slide.read(0, 0, slide.size, (99, 120))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < image.nbytes / 4
    difference = small.astype(int) - resize_image(image, (99, 120))
    assert np.abs(difference).mean() < 1.5  # of 255; bands begin at whole pixels


@pytest.mark.parametrize(
    ("options", "pixel_size"),
    [
        ({"description": "Aperio Image Library |AppMag = 20|MPP = 0.4990"}, 0.499),
        ({"resolution": (20_000, 20_000), "resolutionunit": "CENTIMETER"}, 0.5),
        ({"resolution": (300, 300), "resolutionunit": "INCH"}, None),  # of paper
        ({"description": '<OME><Pixels PhysicalSizeX="0.25" PhysicalSizeXUnit="µm"/></OME>'.encode()}, 0.25),
        ({"description": '<OME><Pixels PhysicalSizeX="0.25" PhysicalSizeXUnit="mm"/></OME>'}, None),
        ({}, None),
    ],
)
def test_the_pixel_size_that_a_file_states(tmp_path: Path, options: dict, pixel_size: float | None) -> None:
    path = tmp_path / "tissue.tif"
    tifffile.imwrite(path, IMAGE, photometric="rgb", metadata=None, **options)
    with open_slide(path) as slide:
        assert slide.pixel_size == (None if pixel_size is None else pytest.approx(pixel_size))


def test_slides_that_need_a_package_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histopathology_slides, "_import_openslide", lambda: None)
    (tmp_path / "a.mrxs").write_bytes(b"nothing")
    with pytest.raises(
        InputError, match=r"a\.mrxs: .*OpenSlide, which is not installed.*gpimaging\[slides\]"
    ):
        open_slide(tmp_path / "a.mrxs").__enter__()


@pytest.mark.parametrize("colours", ["separated", "cielab", "ycbcr"])
def test_colours_that_are_not_decoded_to_rgb_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, colours: str
) -> None:
    monkeypatch.setattr(histopathology_slides, "_import_openslide", lambda: None)
    samples = 4 if colours == "separated" else 3
    path = tmp_path / "slide.svs"
    tifffile.imwrite(
        path, np.full((64, 64, samples), 90, np.uint8), photometric="rgb", extrasamples=(0,) * (samples - 3)
    )
    with tifffile.TiffFile(path, mode="r+") as file:
        file.pages[0].tags["PhotometricInterpretation"].overwrite(tifffile.PHOTOMETRIC[colours.upper()].value)
    with pytest.raises(InputError, match=rf"slide\.svs: colours are stored as {colours.upper()}.*OpenSlide"):
        open_slide(path).__enter__()


@pytest.mark.parametrize("kind", ["UNASSALPHA", "ASSOCALPHA", "UNSPECIFIED"])
def test_transparent_pixels_are_white(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(histopathology_slides, "_import_openslide", lambda: None)
    pixels = np.full((64, 64, 4), (100, 50, 0, 255), np.uint8)
    pixels[:, 32:, 3] = 155
    pixels[:, 48:] = (0, 0, 0, 0)
    path = tmp_path / "slide.svs"
    tifffile.imwrite(path, pixels, photometric="rgb", extrasamples=(kind,), tile=(32, 32))
    with open_slide(path) as slide:
        found = slide.read(0, 0, (64, 64), (64, 64))[0, [0, 40, 60]].tolist()
    # 100 * 155 / 255 + 100 where the colour is not yet multiplied by its opacity
    expected = {
        "UNASSALPHA": [[100, 50, 0], [160, 130, 100], [255] * 3],
        "ASSOCALPHA": [[100, 50, 0], [200, 150, 100], [255] * 3],
        "UNSPECIFIED": [[100, 50, 0], [100, 50, 0], [0] * 3],
    }
    assert found == expected[kind]


def test_tiles_that_cannot_be_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histopathology_slides, "_import_openslide", lambda: None)
    path = write_pyramid(tmp_path / "slide.tif", nested=True)
    with tifffile.TiffFile(path, mode="r+") as file:
        file.pages[0].tags["Compression"].overwrite(7)  # JPEG, which it is not
    with (
        open_slide(path) as slide,
        pytest.raises(InputError, match=r"slide\.tif: a tile of it cannot .*gpimaging\[slides\]"),
    ):
        slide.read(0, 0, (64, 64), (64, 64))


def test_damaged_slides_and_other_samples_are_refused(tmp_path: Path, reader: str) -> None:
    (tmp_path / "a.svs").write_bytes(b"II*\0 and then nothing")
    with pytest.raises(InputError, match=r"a\.svs: cannot be read"):
        open_slide(tmp_path / "a.svs").__enter__()
    tifffile.imwrite(tmp_path / "b.svs", IMAGE[..., 0], tile=(64, 64))
    if reader == "tifffile":
        with pytest.raises(InputError, match=r"b\.svs: 1 samples of uint8"):
            open_slide(tmp_path / "b.svs").__enter__()


@pytest.mark.usefixtures("reader")
def test_altered_slides_are_read_or_refused(tmp_path: Path) -> None:
    content = write_pyramid(tmp_path / "whole.tif", nested=True, compression="zlib").read_bytes()
    rng = np.random.default_rng(0)
    path, complaints = tmp_path / "altered.svs", []
    for number in range(60):
        altered = bytearray(content[: rng.integers(1, len(content)) if number % 2 else None])
        for place in rng.integers(0, len(altered), 3):
            altered[place] = rng.integers(0, 256)
        path.write_bytes(altered)
        try:
            with open_slide(path) as slide:
                slide.read(0, 0, slide.size, (30, 42))
        except InputError as error:
            complaints.append(str(error))
    assert len(complaints) > 30
    assert all(str(path) in complaint for complaint in complaints)


@pytest.mark.parametrize("value", [0, 2**31 - 1])
@pytest.mark.parametrize("tag", [256, 257], ids=["width", "height"])
def test_a_slide_whose_size_is_not_that_of_its_tiles_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: int, value: int
) -> None:
    monkeypatch.setattr(histopathology_slides, "_import_openslide", lambda: None)
    content = bytearray(write_pyramid(tmp_path / "whole.tif", nested=True).read_bytes())
    first = int.from_bytes(content[4:8], "little") + 2
    (entry,) = (
        place
        for place in range(first, first + 120, 12)
        if content[place : place + 2] == tag.to_bytes(2, "little")
    )
    content[entry + 2 : entry + 4] = (4).to_bytes(2, "little")  # 32 bits
    content[entry + 8 : entry + 12] = value.to_bytes(4, "little")
    (tmp_path / "a.svs").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.svs: .*pixels" + (" in .* tiles, but has" if value else "")):
        open_slide(tmp_path / "a.svs").__enter__()


def test_nothing_is_written_on_the_screen_about_damaged_slides(tmp_path: Path) -> None:
    content = write_pyramid(tmp_path / "whole.tif", nested=True).read_bytes()
    for tenth in range(1, 10):
        (tmp_path / f"{tenth}.svs").write_bytes(content[: len(content) * tenth // 10])
        altered = bytearray(content)
        altered[12 * tenth] ^= 0x55  # one of the tags
        (tmp_path / f"altered {tenth}.svs").write_bytes(altered)
    # In a process of its own: here pytest takes what is logged.
    program = (
        "import contextlib, sys; from pathlib import Path\n"
        "from data_prep.histopathology.slides import open_slide\n"
        "for path in Path(sys.argv[1]).glob('*.svs'):\n"
        "    with contextlib.suppress(ValueError), open_slide(path) as slide:\n"
        "        slide.read(0, 0, slide.size, (30, 42))"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert not ended.stderr
