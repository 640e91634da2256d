"""The graph inside a bundle for images: decoding, resizing, network, folded head, maps.

Facts behind the code, checked on TensorFlow 2.21: baseline JPEG equals OpenCV's only with INTEGER_ACCURATE; alpha
WebP is refused at ``channels=3``; EXIF rotation is ignored and there is no TIFF, so callers of ``serve_bytes`` rotate
and convert first (``gpimaging lane predict`` does).
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

Maps = dict[str, tf.Tensor]

JPEG, PNG, BMP, WEBP = b"\xff\xd8", b"\x89P", b"BM", b"RI"


class ImageServer(tf.Module):
    """Signatures ``serving_default`` and ``serve_bytes`` of a model that maps images to maps of the same size.

    Args:
        predict: Maps images ``[B, height, width, 3]`` in 0..255 to named maps ``[B, height, width]``.
        size: The network's height and width.
        network: What holds the variables, so that they are saved.
    """

    def __init__(self, predict: Callable[[tf.Tensor], Maps], size: tuple[int, int], network: tf.Module) -> None:
        super().__init__(name="image_server")
        self._predict = predict
        self._size = size
        self.network = network

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.uint8, name="images")], autograph=False)
    def serving_default(self, images: tf.Tensor) -> Maps:
        """Maps at the images' own size, for decoded images ``[B, H, W, 3]``."""
        maps = self._predict(to_network_size(images, self._size))
        return at_size(maps, tf.shape(images)[1:3])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="encoded")], autograph=False)
    def serve_bytes(self, encoded: tf.Tensor) -> Maps:
        """Maps at the network's size and ``original_size [B, 2]``, for encoded images ``[B]``."""
        spec = (tf.TensorSpec([*self._size, 3], tf.float32), tf.TensorSpec([2], tf.int32))
        images, original_size = tf.map_fn(self._decode_and_resize, encoded, fn_output_signature=spec)
        maps = with_label(self._predict(images))
        return {**maps, "original_size": original_size}

    def _decode_and_resize(self, encoded: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image = decode_image(encoded)
        return to_network_size(image[None], self._size)[0], tf.shape(image)[:2]


def decode_image(encoded: tf.Tensor) -> tf.Tensor:
    """A JPEG, PNG, WebP or 24-bit BMP string as uint8 ``[H, W, 3]``: grey expanded, alpha dropped, 16 bits cut to 8."""
    kind = tf.strings.substr(encoded, 0, 2)
    unknown = tf.debugging.Assert(
        tf.reduce_any([tf.equal(kind, magic) for magic in (JPEG, PNG, BMP, WEBP)]),
        ["serve_bytes takes JPEG, PNG, WebP or 24-bit BMP, but the data starts with", kind],
    )
    with tf.control_dependencies([unknown] if unknown is not None else []):
        return tf.case(
            [
                (tf.equal(kind, JPEG), lambda: _three_channels(_decode_jpeg(encoded))),
                (tf.equal(kind, PNG), lambda: _three_channels(tf.io.decode_png(encoded, channels=0))),
                (tf.equal(kind, BMP), lambda: _three_channels(tf.io.decode_bmp(encoded, channels=0))),
            ],
            default=lambda: _three_channels(tf.image.decode_image(encoded, channels=0, expand_animations=False)),
            exclusive=True,
        )


def _decode_jpeg(encoded: tf.Tensor) -> tf.Tensor:
    return tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE")


def _three_channels(image: tf.Tensor) -> tf.Tensor:
    """Colour without alpha; one grey channel (with or without alpha) three times."""
    colour = tf.shape(image)[-1] >= 3
    return tf.ensure_shape(
        tf.cond(colour, lambda: image[..., :3], lambda: tf.repeat(image[..., :1], 3, axis=-1)), [None, None, 3]
    )


def to_network_size(images: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """Images as training saw them: averaged over areas and rounded to whole grey levels, float32 in 0..255."""
    resized = tf.raw_ops.ResizeArea(images=images, size=size, align_corners=False)
    return tf.ensure_shape(tf.round(resized), [None, *size, 3])


def at_size(maps: Maps, size: tf.Tensor) -> Maps:
    """Maps resized bilinearly; the label is thresholded afterwards, so that its edge is not blocky."""

    def resize(values: tf.Tensor) -> tf.Tensor:
        return tf.image.resize(values[..., None], size, method="bilinear")[..., 0]

    return with_label({name: resize(values) for name, values in maps.items() if name != "label"})


def with_label(maps: Maps) -> Maps:
    """Maps with ``label`` (int32, 1 where the probability is above one half) taken from ``probability``."""
    return {**maps, "label": tf.cast(maps["probability"] > 0.5, tf.int32)}
