from pathlib import Path

import numpy as np
import pytest

from data_prep.files.images import read_image, read_levels, write_picture
from gpimaging.images import features, image_files


def test_paths_stay_what_they_are():
    with image_files("folder") as files:
        assert files == [Path("folder")]
    with image_files([Path("a.png"), "b.png"]) as files:
        assert files == [Path("a.png"), Path("b.png")]


@pytest.mark.parametrize("shape", [(4, 6, 3), (2, 4, 6, 3)])
def test_colour_arrays_are_read_back_as_they_were(shape):
    images = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    with image_files(images) as files:
        np.testing.assert_array_equal([read_image(file) for file in files], images.reshape(-1, 4, 6, 3))
    assert not files[0].exists()


def test_deep_grey_arrays_keep_their_levels():
    image = np.random.default_rng(0).integers(0, 2**16, (4, 6)).astype(np.uint16)
    with image_files(image) as (file,):
        np.testing.assert_array_equal(read_levels(file), image)


def test_files_of_many_arrays_are_in_order_by_name():
    with image_files([np.zeros([2, 2], np.uint8)] * 11) as files:
        assert files == sorted(files)


@pytest.mark.parametrize(
    "image",
    [np.zeros([4, 6]), np.zeros([4, 6, 4], np.uint8), np.zeros([3], np.uint8), np.zeros([0, 4], np.uint8)],
)
def test_an_array_that_is_no_image_is_refused(image):
    with (
        pytest.raises(ValueError, match=r"array_0 has the shape .* Expected \[height, width\]"),
        image_files([image]),
    ):
        pass


@pytest.mark.parametrize("images", [[], np.zeros([0, 4, 6, 3], np.uint8)])
def test_no_images_at_all_are_refused(images):
    with pytest.raises(ValueError, match="Found no images"), image_files(images):
        pass


@pytest.mark.slow
def test_features_are_those_of_the_network_whatever_else_is_in_the_batch():
    images = np.random.default_rng(0).integers(0, 256, (33, 40, 40, 3)).astype(np.uint8)
    together = features(images, weights="none", size=(32, 32))
    alone = features(images[-1], weights="none", size=(32, 32))
    assert together.shape == (33, 1280)
    np.testing.assert_allclose(alone[0], together[-1], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_files_have_their_features_in_the_order_given_and_as_often(tmp_path):
    for number in range(2):
        write_picture(tmp_path / f"{number}.png", np.full([8, 8, 3], 200 * number, np.uint8))
    first, second = features(tmp_path, weights="none", size=(32, 32))
    files = [tmp_path / f"{number}.png" for number in (1, 0, 1)]
    rows = features(files, weights="none", size=(32, 32))
    np.testing.assert_allclose(rows, [second, first, second], rtol=1e-4, atol=1e-5)
