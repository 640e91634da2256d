"""The served graph sees what `prepare` and `predict` see: every format, every size."""

import io
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from skimage import data

from data_prep.files.depth import read_at_levels
from data_prep.files.images import encode_picture, read_image
from data_prep.files.resizing import resize_image
from pipelines.bundles.runtimes import Signature
from pipelines.bundles.saved_model import load_signatures
from pipelines.bundles.serving import MapServer, at_size, decode_image, to_network_size
from tests.pipelines.tiny_lane import SIZE


@cache
def photograph(size: tuple[int, int] = SIZE) -> Image.Image:
    return Image.fromarray(data.astronaut()).resize((size[1], size[0]))


def with_alpha(image: Image.Image) -> Image.Image:
    levels = np.linspace(0, 255, image.width * image.height).reshape(image.height, image.width)
    copy = image.copy()
    copy.putalpha(Image.fromarray(levels.astype(np.uint8)))
    return copy


def pillow(image: Image.Image, image_format: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, image_format, **options)
    return buffer.getvalue()


def sixteen_bit_png(image: Image.Image, channels: int) -> bytes:
    """Levels whose low bytes differ, so that rounding and cutting to 8 bits do too."""
    levels = np.array(image.convert("L" if channels == 1 else "RGB"), np.uint16) * 256
    levels += np.arange(levels.size, dtype=np.uint16).reshape(levels.shape) % 256
    if channels == 4:
        levels = np.dstack([levels, np.full(levels.shape[:2], 999, np.uint16)])
    return cv2.imencode(".png", levels)[1].tobytes()


FORMATS: dict[str, Callable[[Image.Image], bytes]] = {
    "baseline JPEG": lambda image: pillow(image, "JPEG", quality=70),
    "JPEG of full chroma": lambda image: pillow(image, "JPEG", subsampling=0),
    "progressive JPEG": lambda image: pillow(image, "JPEG", progressive=True),
    "grey JPEG": lambda image: pillow(image.convert("L"), "JPEG"),
    "CMYK JPEG": lambda image: pillow(image.convert("CMYK"), "JPEG"),
    "PNG": lambda image: pillow(image, "PNG"),
    "grey PNG": lambda image: pillow(image.convert("L"), "PNG"),
    "one-bit PNG": lambda image: pillow(image.convert("1"), "PNG"),
    "16-bit PNG": lambda image: sixteen_bit_png(image, 3),
    "16-bit grey PNG": lambda image: sixteen_bit_png(image, 1),
    "16-bit alpha PNG": lambda image: sixteen_bit_png(image, 4),
    "palette PNG": lambda image: pillow(image.quantize(16), "PNG"),
    "2-bit palette PNG": lambda image: pillow(image.quantize(4), "PNG", bits=2),
    "palette PNG with a transparent colour": lambda image: pillow(image.quantize(16), "PNG", transparency=3),
    "alpha PNG": lambda image: pillow(with_alpha(image), "PNG"),
    "grey alpha PNG": lambda image: pillow(with_alpha(image).convert("LA"), "PNG"),
    "lossy WebP": lambda image: pillow(image, "WEBP", quality=60),
    "lossless WebP": lambda image: pillow(image, "WEBP", lossless=True),
    "alpha WebP": lambda image: pillow(with_alpha(image), "WEBP"),
    "lossless alpha WebP": lambda image: pillow(with_alpha(image), "WEBP", lossless=True),
    "24-bit BMP": lambda image: pillow(image, "BMP"),
}


@pytest.fixture(scope="module")
def signatures(lane_bundle: Path) -> dict[str, Signature]:
    return load_signatures(lane_bundle)


@pytest.fixture(scope="module")
def colours() -> MapServer:
    """A server whose maps are the image's own colours: a change of one grey level is 0.004."""

    def predict(images: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "probability": images[..., 0] / 255.0,
            "green": images[..., 1] / 255.0,
            "blue": images[..., 2] / 255.0,
        }

    return MapServer(predict, SIZE)


def numpy(maps: dict[str, tf.Tensor]) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in maps.items()}


def read(encoded: bytes, folder: Path) -> np.ndarray:
    path = folder / "image"
    path.write_bytes(encoded)
    return read_image(path)


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("kind", FORMATS)
def test_both_signatures_agree_on_every_format(signatures, colours, tmp_path, kind):
    encoded = FORMATS[kind](photograph())
    image = read(encoded, tmp_path)
    assert image.std() > 10
    for default, from_bytes in (
        (signatures["serving_default"], signatures["serve_bytes"]),
        (colours.serving_default, colours.serve_bytes),
    ):
        decoded = numpy(default(images=tf.constant(image[None])))
        served = numpy(from_bytes(encoded=tf.constant([encoded])))
        assert served.pop("original_size").tolist() == [[*SIZE]]
        assert decoded.keys() == served.keys()
        for name, value in decoded.items():
            assert value.shape == served[name].shape == (1, *SIZE)
            np.testing.assert_allclose(value, served[name], atol=1e-3, err_msg=f"{kind}, {name}")


@pytest.mark.parametrize("size", [(31, 47), (48, 24), (16, 25), (5, 7), (9, 100), (1, 1)])
def test_an_image_of_another_size_reaches_the_network_as_prepare_stores_it(colours, size):
    """Larger and smaller ones, and one that shrinks in one direction and grows in the other."""
    image = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    encoded = cv2.imencode(".png", image[..., ::-1])[1].tobytes()
    served = numpy(colours.serve_bytes(tf.constant([encoded])))
    prepared = resize_image(image, SIZE) / 255.0
    difference = np.abs(np.stack([served[k][0] for k in ("probability", "green", "blue")], -1) - prepared)
    # Where an average is half a level to rounding, the two may round to both sides.
    assert difference.max() <= 1.01 / 255.0
    assert np.mean(difference > 1e-6) < 0.02
    assert served["original_size"].tolist() == [[*size]]


@pytest.mark.parametrize(
    ("size", "network"), [((131, 173), (66, 87)), ((307, 305), (306, 306)), ((640, 481), SIZE)]
)
def test_area_averages_equal_opencvs_before_rounding(size, network):
    image = np.random.default_rng(1).integers(0, 256, (*size, 3), np.uint8)
    served = to_network_size(tf.constant(image[None]), network)[0].numpy()
    averaged = cv2.resize(image.astype(np.float32), network[::-1], interpolation=cv2.INTER_AREA)
    assert np.abs(served - averaged).max() <= 0.5 + 0.02


def test_enlarging_repeats_pixels_and_does_not_interpolate():
    """The rule that `prepare` and the graph share for small images: averages over areas, parts of pixels."""
    image = np.array([[[0, 0, 0], [200, 100, 50]]], np.uint8)
    for enlarged in (
        resize_image(image, (2, 4)),
        to_network_size(tf.constant(image[None]), (2, 4))[0].numpy(),
    ):
        assert enlarged[..., 0].tolist() == [[0, 0, 200, 200]] * 2
    halfway = to_network_size(tf.constant(image[None]), (1, 3))[0].numpy()
    np.testing.assert_array_equal(halfway, resize_image(image, (1, 3)))
    assert halfway[0, :, 0].tolist() == [0, 100, 200]


def test_a_batch_may_have_several_sizes_and_formats(colours):
    kinds = {"PNG": (20, 30), "baseline JPEG": SIZE, "24-bit BMP": (7, 5)}
    encoded = [FORMATS[kind](photograph(size)) for kind, size in kinds.items()]
    together = numpy(colours.serve_bytes(tf.constant(encoded)))
    assert together["original_size"].tolist() == [[20, 30], [*SIZE], [7, 5]]
    for i, one in enumerate(encoded):
        alone = numpy(colours.serve_bytes(tf.constant([one])))
        for name, value in alone.items():
            np.testing.assert_array_equal(together[name][i], value[0], err_msg=name)


def test_a_batch_of_decoded_images(signatures):
    images = np.stack([np.array(photograph((20, 30))), np.array(photograph((20, 30)).rotate(180))])
    together = numpy(signatures["serving_default"](images=tf.constant(images)))
    for i in range(2):
        alone = numpy(signatures["serving_default"](images=tf.constant(images[i : i + 1])))
        for name, value in alone.items():
            np.testing.assert_allclose(together[name][i], value[0], atol=1e-4, err_msg=name)


def bmp_of_bits(bits: int) -> bytes:
    encoded = bytearray(pillow(photograph(), "BMP"))
    struct.pack_into("<H", encoded, 28, bits)
    return bytes(encoded)


@pytest.mark.parametrize(
    ("encoded", "found"),
    [
        (pillow(photograph(), "TIFF"), "II"),
        (pillow(photograph(), "GIF"), "GIF8"),
        (pillow(photograph().quantize(16), "BMP"), "BM"),
        (pillow(photograph().convert("L"), "BMP"), "BM"),
        (pillow(with_alpha(photograph()), "BMP"), "BM"),
        (bmp_of_bits(16), "BM"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "RIFF"),
        (b"hello", "hell"),
        (b"\xe9\x00\x00\x00", "????"),
        (b"B", "B"),
        (b"", ""),
    ],
)
def test_other_formats_are_refused_by_name(colours, encoded, found):
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        colours.serve_bytes(tf.constant([encoded]))
    assert "Expected the bytes of a JPEG, PNG, WebP or 24-bit BMP file, but found" in caught.value.message
    assert f"[{found}" in caught.value.message


DECODE_STDIN = """
import sys
import tensorflow as tf
from pipelines.bundles.serving import decode_image
for encoded in map(bytes.fromhex, sys.stdin):
    for decode in (decode_image, tf.function(decode_image)):
        try:
            decode(tf.constant(encoded))
        except tf.errors.InvalidArgumentError as error:
            print("animated WebP" in error.message and "send its first frame" in error.message)
"""


@pytest.mark.slow
def test_animated_webp_is_refused_before_tensorflow_sees_it():
    """TensorFlow writes four channels where it reserved three: in a process of its own, for it may crash."""
    lines = ""
    for mode in ("RGB", "RGBA"):
        frames = [with_alpha(photograph((16, 16)).rotate(angle)).convert(mode) for angle in (0, 90, 180)]
        encoded = pillow(frames[0], "WEBP", save_all=True, append_images=frames[1:], quality=60)
        lines += encoded.hex() + "\n"
    decoding = subprocess.run(
        [sys.executable, "-c", DECODE_STDIN], input=lines, text=True, capture_output=True, check=False
    )
    assert (decoding.returncode, decoding.stdout.split()) == (0, ["True"] * 4), decoding.stderr


@pytest.mark.parametrize("kind", ["baseline JPEG", "PNG", "lossy WebP", "24-bit BMP"])
@pytest.mark.parametrize("share", [0.1, 0.6])
def test_truncated_files_are_refused(kind, share):
    encoded = FORMATS[kind](photograph((64, 64)))
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode_image(tf.constant(encoded[: int(share * len(encoded))]))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images_of_16_bits_get_their_own_levels_in_the_graph(tmp_path, channels):
    levels = np.random.default_rng(channels).gamma(2, 500, (50, 41, channels)).astype(np.uint16)
    path = tmp_path / "deep.png"
    path.write_bytes(encode_picture(levels))
    expected = read_at_levels(path, "each")
    served = decode_image(tf.constant(path.read_bytes()), "each").numpy()
    np.testing.assert_array_equal(served, expected)
    assert (served.min(), served.max()) == (0, 255)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="16 bits, but the training was on DICOM windows"
    ):
        tf.function(decode_image)(tf.constant(path.read_bytes()), "window")
    even = decode_image(tf.constant(encode_picture(np.full((3, 4), 900, np.uint16))), "each")
    np.testing.assert_array_equal(even, np.zeros((3, 4, 3)))


def test_exif_is_left_to_the_caller(tmp_path):
    """As metadata.json says; `predict` rotates before it calls."""
    exif = Image.Exif()
    exif[0x0112] = 6
    encoded = pillow(photograph((20, 30)), "JPEG", exif=exif)
    served = decode_image(tf.constant(encoded)).numpy()
    assert served.shape == (20, 30, 3)
    np.testing.assert_array_equal(np.rot90(served, -1), read(encoded, tmp_path))


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (50, 1), (3, 4)])
def test_tiny_images_get_maps_of_their_size(signatures, size):
    image = np.array(photograph(size))
    maps = numpy(signatures["serving_default"](images=tf.constant(image[None])))
    assert {value.shape for value in maps.values()} == {(1, *size)}
    assert all(np.isfinite(value).all() for value in maps.values())
    assert 0 < maps["probability"].min() <= maps["probability"].max() < 1


@pytest.mark.slow
def test_an_image_of_24_megapixels(signatures):
    image = np.array(photograph((4000, 6000)))
    maps = signatures["serving_default"](images=tf.constant(image[None]))
    assert {tuple(value.shape) for value in maps.values()} == {(1, 4000, 6000)}
    encoded = pillow(Image.fromarray(image), "JPEG")
    served = numpy(signatures["serve_bytes"](encoded=tf.constant([encoded])))
    assert served["original_size"].tolist() == [[4000, 6000]]


def test_labels_are_thresholded_after_maps_are_enlarged():
    """Thresholding first would make the label's edge lie between the two pixels: 0, 0, 0, 0, 1, 1, 1, 1."""
    maps = {"probability": tf.constant([[[0.0, 0.6]]]), "label": tf.constant([[[0, 1]]])}
    enlarged = numpy(at_size(maps, tf.constant([1, 8])))
    assert enlarged["label"].dtype == np.int32
    assert enlarged["label"][0, 0].tolist() == [0, 0, 0, 0, 0, 1, 1, 1]


def test_maps_grow_as_the_evaluation_enlarges_them():
    """`pipelines.scores.segmentation` judges maps at the images' own size by OpenCV's interpolation."""
    probability = np.random.default_rng(2).random((16, 24)).astype(np.float32)
    served = at_size({"probability": tf.constant(probability[None])}, tf.constant([37, 91]))["probability"][0]
    judged = cv2.resize(probability, (91, 37), interpolation=cv2.INTER_LINEAR)
    np.testing.assert_allclose(served.numpy(), judged, atol=1e-5)
