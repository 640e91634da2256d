"""Decoding and resizing here equal what an exported graph does: models serve what they learnt from."""

import io
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from skimage import data

from data_prep.files.images import read_image
from data_prep.files.resizing import resize_image


@pytest.fixture(scope="module")
def photograph() -> Image.Image:
    return Image.fromarray(data.astronaut()).resize((173, 131))


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize(
    ("image_format", "options"),
    [
        ("JPEG", {"quality": 40}),
        ("JPEG", {"quality": 95, "progressive": True}),
        ("WEBP", {"quality": 80}),
        ("PNG", {}),
        ("BMP", {}),
    ],
)
def test_decodes_as_tensorflow_does(
    photograph: Image.Image, tmp_path: Path, mode: str, image_format: str, options: dict[str, int]
) -> None:
    buffer = io.BytesIO()
    photograph.convert(mode).save(buffer, image_format, **options)
    path = tmp_path / "photograph"
    path.write_bytes(buffer.getvalue())
    if image_format == "JPEG":
        decoded = tf.io.decode_jpeg(buffer.getvalue(), channels=3, dct_method="INTEGER_ACCURATE")
    elif image_format == "WEBP":
        decoded = tf.io.decode_webp(buffer.getvalue(), channels=3)[0]  # the first frame
    else:
        decoded = tf.io.decode_image(buffer.getvalue(), expand_animations=False)
    np.testing.assert_array_equal(read_image(path), np.broadcast_to(decoded.numpy(), (131, 173, 3)))


@pytest.mark.parametrize("size", [(131, 173), (66, 87), (65, 86), (300, 400), (306, 100), (1, 1)])
def test_resizes_as_tensorflow_does(photograph: Image.Image, size: tuple[int, int]) -> None:
    image = np.array(photograph)
    served = tf.round(tf.raw_ops.ResizeArea(images=image[np.newaxis], size=size))[0].numpy()
    difference = np.abs(resize_image(image, size) - served)
    assert difference.max() <= 1
    assert np.mean(difference > 0) < 0.02
