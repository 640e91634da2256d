"""Missing pixels: transparent ones, those of masks, and images that cannot be filled in."""

import numpy as np
import pytest
from PIL import Image

from data_prep.errors import InputError
from data_prep.explore import masked
from data_prep.explore.masked import read_masked_images, shrink_known
from data_prep.files.images import read_alpha, read_image

RNG = np.random.default_rng(0)
LEVELS = RNG.integers(1, 255, (6, 4), np.uint8)
HOLES = np.zeros((6, 4), bool)
HOLES[1:3, 2] = True


def write(path, levels=LEVELS, holes=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    if holes is None:
        Image.fromarray(levels).save(path)
    else:
        alpha = np.where(holes, 0, 255).astype(np.uint8)
        Image.fromarray(np.dstack([levels, alpha]), "LA").save(path)


def test_transparent_pixels_are_missing(tmp_path):
    write(tmp_path / "a.png", holes=HOLES)
    write(tmp_path / "b.png")
    (tmp_path / "c.png").write_bytes(b"damaged")
    images, skipped = read_masked_images(tmp_path, None, None)
    assert [image.file.name for image in images] == ["a.png", "b.png"]
    np.testing.assert_array_equal(images[0].known, ~HOLES)
    assert images[1].known.all()
    np.testing.assert_array_equal(images[1].levels[..., 0], LEVELS)
    assert [entry.file.name for entry in skipped] == ["c.png"]


def test_masks_of_the_same_names_say_what_is_missing(tmp_path):
    for name in ("a.png", "deep/b.png", "c.png"):
        write(tmp_path / "images" / "class" / name)
    write(tmp_path / "masks" / "class" / "deep" / "b.bmp", HOLES.astype(np.uint8))
    write(tmp_path / "masks" / "class" / "c.png", np.zeros((3, 3), np.uint8))
    images, skipped = read_masked_images(tmp_path / "images", tmp_path / "masks", None)
    assert {image.file.name: int((~image.known).sum()) for image in images} == {
        "class/a.png": 0,
        "class/deep/b.png": 2,
    }
    assert "6 x 4 pixels, but its mask" in skipped[0].reason


def test_an_image_whose_mask_is_of_no_known_format_is_left_out(tmp_path):
    for name in ("a.png", "b.png", "sub/c.png"):
        write(tmp_path / "images" / "class" / name)
    write(tmp_path / "masks" / "class" / "a.png", HOLES.astype(np.uint8))
    for name in ("b.heic", "sub/c.gif"):
        path = tmp_path / "masks" / "class" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    images, skipped = read_masked_images(tmp_path / "images", tmp_path / "masks", None)
    assert [image.file.name for image in images] == ["class/a.png"]
    assert sorted(entry.file.name for entry in skipped) == ["b.heic", "b.png", "c.gif", "c.png"]
    assert any("b.heic cannot be used, so nobody knows" in entry.reason for entry in skipped)


def test_a_mask_that_can_be_used_is_used_whatever_lies_beside_it(tmp_path):
    write(tmp_path / "images" / "a.png")
    write(tmp_path / "masks" / "a.png", HOLES.astype(np.uint8))
    (tmp_path / "masks" / "a.heic").write_bytes(b"")
    (image,), skipped = read_masked_images(tmp_path / "images", tmp_path / "masks", None)
    assert int((~image.known).sum()) == 2
    assert [entry.file.name for entry in skipped] == ["a.heic"]


def test_masks_beside_the_folders_of_others_are_masks(tmp_path):
    write(tmp_path / "images" / "a.png")
    write(tmp_path / "masks" / "a.png", HOLES.astype(np.uint8))
    write(tmp_path / "masks" / "old" / "a.png", HOLES.astype(np.uint8))
    (image,), skipped = read_masked_images(tmp_path / "images", tmp_path / "masks", None)
    assert (int((~image.known).sum()), skipped) == (2, [])


def test_images_or_masks_that_share_a_stem_are_left_out(tmp_path):
    for name in ("0.png", "0.bmp", "1.png", "2.png"):
        write(tmp_path / "images" / name)
    for name in ("1.png", "2.png", "2.bmp"):
        write(tmp_path / "masks" / name, HOLES.astype(np.uint8))
    images, skipped = read_masked_images(tmp_path / "images", tmp_path / "masks", None)
    assert [image.file.name for image in images] == ["1.png"]
    reasons = {entry.file.name: entry.reason for entry in skipped}
    assert sorted(reasons) == ["0.bmp", "0.png", "2.png"]
    assert "several files with the stem '0' (0.bmp, 0.png). Keep one." in reasons["0.png"]
    assert "several masks with the stem '2' (2.bmp, 2.png). Keep one." in reasons["2.png"]


def test_an_image_whose_name_is_too_long_to_be_written_is_left_out(tmp_path):
    long = f"{'a' * 240}.png"
    for name in (long, "b.png"):
        write(tmp_path / name, holes=HOLES)
    images, (entry,) = read_masked_images(tmp_path, None, None)
    assert [image.file.name for image in images] == ["b.png"]
    assert entry.file.name == long
    assert "more than 230 bytes" in entry.reason


def test_an_image_of_which_nothing_is_known_is_left_out(tmp_path):
    write(tmp_path / "a.png", holes=np.ones_like(HOLES))
    write(tmp_path / "b.png", holes=HOLES)
    images, skipped = read_masked_images(tmp_path, None, None)
    assert [image.file.name for image in images] == ["b.png"]
    assert "every pixel is missing" in skipped[0].reason


def test_shrinking_averages_what_is_known():
    levels = np.repeat(np.array([[10, 30, 50, 70]], np.float32)[..., None], 3, axis=2)
    levels = np.repeat(levels, 2, axis=0)
    known = np.array([[1, 0, 0, 0], [1, 1, 0, 1]], bool)
    small, seen = shrink_known(levels, known, (1, 2))
    assert seen.tolist() == [[True, False]]  # a quarter of the right area is known
    assert small[0, 0].tolist() == pytest.approx([(10 + 10 + 30) / 3] * 3)
    assert small[0, 1].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("sizes", "size", "message"),
    [
        ([(6, 4), (6, 5)], None, r"images of 2 sizes \(1 are 6 x 4, b\.png is 6 x 5\)\. .*expected one size"),
        ([(65, 4), (65, 4)], None, r"a\.png: 65 x 4 pixels; at most 64 x 64 are filled in"),
        ([(6, 4), (6, 4)], (80, 80), "--size 80x80: 80 x 80 pixels; at most"),
        ([(6, 4), (6, 4)], None, "no pixel of 2 images is missing: none is fully transparent"),
    ],
)
def test_what_cannot_be_filled_in_is_refused(tmp_path, sizes, size, message):
    for name, shape in zip("ab", sizes, strict=True):
        write(tmp_path / f"{name}.png", np.full(shape, 9, np.uint8))
    with pytest.raises(InputError, match=message):
        read_masked_images(tmp_path, None, size)


def test_large_images_are_refused_at_the_first_one(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(masked, "read_image", lambda path: (read.append(path), read_image(path))[1])
    for name in "abc":
        write(tmp_path / f"{name}.png", np.full((65, 4), 9, np.uint8))
    with pytest.raises(InputError, match="at most 64 x 64"):
        read_masked_images(tmp_path, None, None)
    assert len(read) == 1


def test_masks_that_fit_no_image_are_refused(tmp_path):
    write(tmp_path / "images" / "a.png")
    write(tmp_path / "masks" / "other.png", HOLES.astype(np.uint8))
    with pytest.raises(InputError, match="has no mask for any image, or all of its masks are 0"):
        read_masked_images(tmp_path / "images", tmp_path / "masks", None)
    write(tmp_path / "images" / "b.png")
    (tmp_path / "masks" / "b.heic").write_bytes(b"")
    with pytest.raises(
        InputError, match=r"all of its masks are 0.*\n.*b\.heic.*\n.*its mask .*b\.heic cannot"
    ):
        read_masked_images(tmp_path / "images", tmp_path / "masks", None)


def test_alpha_of_every_kind_of_transparency(tmp_path):
    write(tmp_path / "grey.png", holes=HOLES)
    palette = Image.fromarray(HOLES.astype(np.uint8), "P")
    palette.putpalette([0, 0, 0, 255, 0, 0])
    palette.save(tmp_path / "palette.png", transparency=1)
    write(tmp_path / "plain.png")
    for name in ("grey.png", "palette.png"):
        np.testing.assert_array_equal(read_alpha(tmp_path / name) == 0, HOLES)
    assert read_alpha(tmp_path / "plain.png") is None
    with pytest.raises(InputError, match="cannot be opened"):
        read_alpha(tmp_path / "none.png")
