"""A set of deep images keeps its grey levels, by one range; images of 8 bits stay as they are."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image
from pydantic import TypeAdapter, ValidationError

from data_prep.errors import InputError
from data_prep.files.depth import find_levels, outside_levels, read_at_levels
from data_prep.files.image_settings import FULL, Levels, in_words
from data_prep.files.images import read_image


def ramp(highest: int) -> np.ndarray:
    return np.linspace(0, highest, 40 * 50).reshape(40, 50).astype(np.uint16)


def grey(path: Path, highest: int) -> Path:
    Image.fromarray(ramp(highest)).save(path)
    return path


@pytest.fixture
def eight_bits(tmp_path: Path) -> Path:
    Image.fromarray(np.full((4, 5, 3), 77, np.uint8)).save(tmp_path / "plain.png")
    return tmp_path / "plain.png"


@pytest.mark.parametrize(("highest", "range_"), [(900, (0, 1023)), (3000, (0, 4095)), (65535, FULL)])
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_the_bits_in_use_are_stretched(tmp_path, eight_bits, highest, range_, suffix):
    path = grey(tmp_path / f"deep.{suffix}", highest)
    found = find_levels([eight_bits, path, tmp_path / "missing.png"], "auto")
    assert found.range == range_
    assert f"1 images have 16 bits per sample, with levels from 0 to {highest}" in found.notes[0]
    image = read_at_levels(path, found.range)
    np.testing.assert_allclose(image[..., 1], ramp(highest) * (255.0 / range_[1]), atol=1.001)
    np.testing.assert_array_equal(read_at_levels(eight_bits, found.range), read_image(eight_bits))


def test_one_range_is_found_for_all(tmp_path):
    files = [grey(tmp_path / "dark.png", 500), grey(tmp_path / "bright.png", 4000)]
    assert find_levels(files, "auto").range == (0, 4095)
    assert find_levels(files, "full").range == FULL
    assert find_levels(files, (100, 700)).range == (100, 700)
    low, high = find_levels(files, "percentiles").range
    assert low in {0, 1}
    assert 3990 <= high < 4000
    assert read_at_levels(files[0], (0, 4095)).max() == round(255 * 500 / 4095)


def test_images_of_8_bits_have_no_range(eight_bits):
    assert find_levels([eight_bits], "auto").range is None
    assert find_levels([eight_bits], (0, 99)).notes == ()


@pytest.mark.parametrize("kind", ["png", "tif", "turned tif"])
def test_deep_colours_are_stretched_too(tmp_path, kind):
    colours = np.stack([ramp(4095), ramp(2000), ramp(700)], axis=2)
    path = tmp_path / f"colours.{kind[-3:]}"
    if kind == "png":
        cv2.imwrite(str(path), colours[..., ::-1])
    else:
        stored = colours[::-1, ::-1] if kind.startswith("turned") else colours
        orientation = 3 if kind.startswith("turned") else 1
        tifffile.imwrite(path, stored, photometric="rgb", extratags=[(274, "H", 1, orientation, True)])
    found = find_levels([path], "auto")
    assert found.range == (0, 4095)
    np.testing.assert_allclose(read_at_levels(path, found.range), colours * (255.0 / 4095), atol=0.51)


def test_images_outside_the_range_of_a_training_are_named(tmp_path, eight_bits):
    files = [eight_bits, grey(tmp_path / "usual.png", 4000), grey(tmp_path / "other.png", 16000)]
    assert outside_levels(files[:2], (0, 4095)) == []
    (warning,) = outside_levels(files, (0, 4095))
    assert "1 of 3 images have more than 1 % of their samples outside the levels 0 to 4095" in warning
    assert "other.png" in warning
    (warning,) = outside_levels(files, None)
    assert "2 of 3 images have 16 bits per sample (usual.png; their largest level is 16000)" in warning
    assert outside_levels([eight_bits], None) == []


def wide(path: Path, samples: np.ndarray) -> Path:
    tifffile.imwrite(path, samples, extratags=[(274, "H", 1, 1, True)])
    return path


@pytest.mark.parametrize("order", ["<f4", ">f4"])
def test_floating_point_samples_get_the_percentiles_of_the_set(tmp_path, order):
    samples = np.linspace(-0.25, 0.75, 1001).reshape(7, 143)
    samples[0, 0], samples[6, 142] = -50, 90  # spikes of one pixel, which must not make all else grey
    files = [
        wide(tmp_path / "a.tif", samples.astype(order)),
        wide(tmp_path / "b.tif", np.float32([[0, 0.5]])),
    ]
    found = find_levels(files, "auto")
    low, high = found.range
    assert (low, high) == pytest.approx((-0.249, 0.749))
    said = "2 images have more than 8 bits per sample, with levels from -50 to 90"
    assert found.notes == (f"{said}: levels {low:.9g} to {high:.9g} became 0 to 255 (setting levels).",)
    assert find_levels(files, "percentiles") == found
    assert find_levels(files, "full").range == (-50, 90)
    expected = np.clip(np.rint((samples - low) / (high - low) * 255), 0, 255)
    image = read_at_levels(files[0], found.range)
    assert (image[0, 0, 0], image[6, 142, 2]) == (0, 255)
    np.testing.assert_allclose(image, np.repeat(expected[:, :, np.newaxis], 3, axis=2), atol=1)
    assert np.mean(image[..., 1] == expected) > 0.99  # .5 is rounded in 32 bits
    np.testing.assert_array_equal(read_at_levels(files[1], (0, 1))[0, :, 0], [0, 128])
    np.testing.assert_array_equal(read_at_levels(files[1], (0.25, 0.375))[0, :, 0], [0, 255])


def test_floating_point_samples_whose_white_is_zero_are_turned_over(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.float32([[0, 0.25, 1]]), photometric="miniswhite")
    assert read_at_levels(tmp_path / "a.tif", (0, 1))[0, :, 1].tolist() == [255, 191, 0]


def test_images_that_one_far_sample_makes_nearly_even_are_named(tmp_path):
    paths = [tmp_path / f"{number}.tif" for number in range(3)]
    for path in paths:
        levels = np.arange(64, dtype=np.uint16).reshape(8, 8) * 10
        levels[0, 0] = 65535 if path == paths[0] else 0
        tifffile.imwrite(path, np.tile(levels, (20, 20)) if path != paths[0] else np.pad(levels, (0, 200)))
    (note,) = find_levels(paths, "auto").notes
    assert "use less than a 64th of it and become nearly even, such as" in note
    (fine,) = find_levels(paths[1:], "auto").notes
    assert "nearly even" not in fine


def test_samples_that_would_be_read_as_other_levels_are_refused(tmp_path):
    """Pillow does not convert either of them: 16 bits where 0 means white, and signed bytes."""
    tifffile.imwrite(tmp_path / "white.tif", np.uint16([[0, 4095]]), photometric="miniswhite")
    tifffile.imwrite(tmp_path / "signed.tif", np.int8([[-100, 100]]))
    for name, fault in (("white", "where 0 means white"), ("signed", "signed levels of 8 bits")):
        for read in (read_image, lambda path: read_at_levels(path, FULL)):
            with pytest.raises(InputError, match=fault):
                read(tmp_path / f"{name}.tif")
    tifffile.imwrite(tmp_path / "eight.tif", np.uint8([[0, 255]]), photometric="miniswhite")
    assert read_image(tmp_path / "eight.tif")[0, :, 0].tolist() == [255, 0]


def test_signed_samples_of_16_bits_are_read_at_their_levels(tmp_path):
    signed = wide(tmp_path / "signed.tif", np.int16([[-1000, 0], [500, 1000]]))
    assert find_levels([signed], "auto").range == (-997, 999)  # percentiles between the pixels
    np.testing.assert_array_equal(read_at_levels(signed, (-1000, 1000))[..., 0], [[0, 128], [191, 255]])
    np.testing.assert_array_equal(read_at_levels(signed, (-500, 500))[..., 0], [[0, 128], [255, 255]])
    np.testing.assert_array_equal(read_at_levels(signed, FULL)[..., 0], [[0, 0], [2, 4]])
    positive = wide(tmp_path / "positive.tif", np.int16([[0, 3000]]))
    assert find_levels([positive], "auto").range == (0, 4095)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e31])
def test_samples_that_are_no_numbers_are_refused(tmp_path, bad):
    path = wide(tmp_path / "holes.tif", np.float32([[0, bad], [bad, 1]]))
    assert find_levels([path], "auto").range is None
    assert outside_levels([path], (0, 1)) == []
    with pytest.raises(
        InputError, match=r"holes\.tif: 2 of 4 samples are NaN, infinite or beyond 1e\+30; .*Fill"
    ):
        read_at_levels(path, (0, 1))


def test_floating_point_samples_without_a_range_are_refused(tmp_path):
    path = wide(tmp_path / "float.tif", np.float32([[0, 1]]))
    assert outside_levels([path], None) == []
    with pytest.raises(
        InputError, match=r"float\.tif: floating-point samples; .* no range of levels is known"
    ):
        read_at_levels(path, None)


@pytest.mark.parametrize("kind", ["truncated", "huge"])
def test_hostile_tiff_files_of_floating_point_are_refused(tmp_path, kind):
    path = wide(tmp_path / "a.tif", np.zeros((40, 50), np.float32))
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[:-600])
    else:
        with tifffile.TiffFile(path, mode="r+") as file:
            file.pages.first.tags["ImageWidth"].overwrite(60_000)
            file.pages.first.tags["ImageLength"].overwrite(60_000)
    assert find_levels([path], "auto").range is None
    with pytest.raises(InputError, match=r"a\.tif: (unreadable|60000 x 60000 pixels)"):
        read_at_levels(path, (0, 1))


def test_extreme_ranges_are_computed_without_a_warning(tmp_path):
    path = wide(tmp_path / "a.tif", np.float32([[-9e29, 0, 9e29]]))
    assert read_at_levels(path, (0, 2e-30))[0, :, 0].tolist() == [0, 0, 255]
    assert read_at_levels(path, find_levels([path], "full").range)[0, :, 0].tolist() == [0, 128, 255]
    even = wide(tmp_path / "even.tif", np.full((3, 4), -7.5, np.float32))
    assert find_levels([even], "auto").range == (-7.5, 0)
    assert read_at_levels(even, "each").max() == 0


def test_each_image_by_its_own_percentiles(tmp_path, eight_bits):
    files = [grey(tmp_path / "dark.png", 500), grey(tmp_path / "bright.png", 60_000), eight_bits]
    floats = wide(tmp_path / "float.tif", ramp(500).astype(np.float32) / 1000 - 3)
    found = find_levels([*files, floats], "each")
    assert found.range == "each"
    assert "levels from -3 to 60000: two percentiles of each image became 0 to 255" in found.notes[0]
    dark, bright, plain, shifted = (read_at_levels(file, "each")[..., 0] for file in (*files, floats))
    low, high = np.floor(np.percentile(ramp(500), 0.1)), np.ceil(np.percentile(ramp(500), 99.9))
    expected = np.clip(np.rint((ramp(500) - low) * (255 / (high - low))), 0, 255)
    np.testing.assert_array_equal(dark, expected)
    np.testing.assert_allclose(bright, expected, atol=1.001)
    np.testing.assert_allclose(shifted, expected, atol=1.001)
    np.testing.assert_array_equal(plain, 77)
    assert outside_levels(files, "each") == []
    assert find_levels([eight_bits], "each").range is None


def test_whole_and_floating_point_levels_in_one_set_are_said(tmp_path):
    files = [grey(tmp_path / "a.png", 4000), wide(tmp_path / "b.tif", np.float32([[0, 1]]))]
    said = "1 of them have negative or floating-point levels. Is the unit of all the same?"
    assert said in find_levels(files, "auto").notes[0]
    assert said not in find_levels(files, "each").notes[0]


def test_images_that_a_range_makes_nearly_black_are_named(tmp_path):
    files = [grey(tmp_path / "usual.png", 4000), wide(tmp_path / "unit.tif", np.float32([[0, 1]]))]
    (warning,) = outside_levels(files, (0, 4095))
    assert "1 of 2 images use less than a 64th of the levels 0 to 4095 of the training" in warning
    assert "unit.tif" in warning
    assert outside_levels(files[1:], (0, 1)) == []


def test_an_even_image_stretches_no_range_and_is_named(tmp_path):
    even = tmp_path / "even.png"
    Image.fromarray(np.full((8, 8), 60_000, np.uint16)).save(even)
    found = find_levels([even, grey(tmp_path / "usual.png", 4000)], "percentiles")
    assert found.range[1] == 60_000
    (warning,) = outside_levels([even], (0, 65_535))
    assert warning.startswith(
        "1 of 1 images use less than a 64th of the levels 0 to 65535 of the training (even"
    )


def test_images_of_fewer_bits_than_the_training_are_named(tmp_path):
    """A set of 10 bits uses a quarter of 12; a dark image among others of 12 bits is usual."""
    ten = [grey(tmp_path / f"{number}.png", 1023 - number) for number in range(2)]
    (warning,) = outside_levels(ten, (0, 4095))
    assert warning.startswith(
        "2 of 2 images stay in the lowest quarter of the levels 0 to 4095 of the training (0"
    )
    assert "fewer bits than that of the training" in warning
    assert outside_levels([*ten, grey(tmp_path / "12.png", 4000)], (0, 4095)) == []
    assert outside_levels([grey(tmp_path / "11.png", 2047)], (0, 4095)) == []


@pytest.mark.parametrize("levels", [(5, 5), (6, 5), (0, float("inf")), (float("nan"), 1), (0, 1e-31)])
def test_ranges_that_are_none_are_refused(levels):
    with pytest.raises(ValidationError, match="expected two levels"):
        TypeAdapter(Levels).validate_python(levels)


def test_a_range_can_be_read_again_from_its_words():
    assert in_words((0.0, 4095.0)) == "0 to 4095"
    low, high = np.random.default_rng(1).normal(size=2).astype(np.float32)
    assert [np.float32(text) for text in in_words((low, high), " ").split()] == [low, high]


@pytest.mark.parametrize(
    "samples", [np.zeros((3, 4)), np.zeros((3, 4), np.float16), np.zeros((3, 4, 3), "f4")]
)
def test_other_floating_point_samples_are_refused_by_what_is_read(tmp_path, samples):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, samples, photometric="rgb" if samples.ndim == 3 else "minisblack")
    with pytest.raises(
        InputError, match=r"a\.tif: .*no TIFF of 8 or 16 bits, or one channel of 32-bit floats"
    ):
        read_at_levels(path, "each")
