"""The graph inside a bundle: decoding, resizing, network, folded head, maps.

Clips and features are not made in the graph; callers pass them ready.

Facts behind the code, checked on TensorFlow 2.21: baseline JPEG equals OpenCV's only with INTEGER_ACCURATE;
WebP with alpha is refused at `channels=3`; an animated WebP without alpha corrupts the memory of the process
(three channels are reserved and four written); BMP with a palette is misread without an error; EXIF rotation
is ignored and there is no TIFF, so callers of `serve_bytes` rotate and convert first, as `gpimaging lane
predict` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.files.depth import PERCENTILES
from data_prep.files.image_settings import FULL, KeptLevels, range_in_words
from data_prep.files.images import encode_picture
from data_prep.measure.scale import TargetScale
from pipelines.bundles.frozen import FrozenFunction, Tensors

Resize = Callable[[tf.Tensor, tuple[int, int]], tf.Tensor]
"""Function from images `[B, H, W, 3]` and a height and width to images of that size."""

_HEAD = 32
"""Number of bytes at the start of an image file that show its format."""


class Server(tf.Module):
    """What a bundle is written from: signatures, and the inputs that a sample gives for them."""

    # Abstract; `abc` cannot say so, for tf.Module has a metaclass of its own.

    _portable: Callable[[tf.Tensor], Tensors]
    _shape: tuple[int, ...]

    def signatures(self) -> dict[str, Any]:
        """Return the functions to serve, by name."""
        return {"serving_default": self.serving_default}

    def sample_inputs(self, sample: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return every input of the signatures by name; an encoded image as its bytes."""
        raise NotImplementedError

    def portable(self) -> tuple[Callable[[tf.Tensor], Tensors], tf.TensorSpec]:
        """Return what answers for one input of the network's size, and the shape of that input."""
        return self._portable, tf.TensorSpec([1, *self._shape], tf.float32)

    def portable_sample(self, sample: NDArray[Any]) -> NDArray[Any]:
        """Return the one input that a sample gives, float32."""
        return sample[None].astype(np.float32)


class ImageServer(Server):
    """Signatures `serving_default` and `serve_bytes` of a model from images to named outputs.

    This is a base class: `MapServer` and `ClassServer` decide what is served for images of other sizes than
    the network's.

    Args:
        predict: Function from images `[B, height, width, 3]` in 0..255 to named outputs `[B, ...]`.
        size: Height and width of the network's images.
        resize: Function from images `[B, H, W, 3]` and a size to float32 images `[B, *size, 3]` in 0..255;
            None for `to_network_size`.
        levels: The levels that become 0 and 255 in PNG files of 16 bits; None to keep the high byte.
    """

    def __init__(
        self,
        predict: Callable[[tf.Tensor], Tensors],
        size: tuple[int, int],
        resize: Resize | None = None,
        *,
        levels: KeptLevels | None = None,
    ) -> None:
        super().__init__(name="image_server")
        self._levels = levels
        self._predict = FrozenFunction(predict, tf.TensorSpec([None, *size, 3], tf.float32))
        self._shape, self._portable = (*size, 3), lambda images: self._of_network_size(predict(images))
        self._size = size
        self._resize = resize or to_network_size

    @tf.function(
        input_signature=[tf.TensorSpec([None, None, None, 3], tf.uint8, name="images")], autograph=False
    )
    def serving_default(self, images: tf.Tensor) -> Tensors:
        """Return outputs for decoded images `[B, H, W, 3]`."""
        outputs = self._predict(self._resize(images, self._size))
        return self._of_images(outputs, tf.shape(images)[1:3])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="encoded")], autograph=False)
    def serve_bytes(self, encoded: tf.Tensor) -> Tensors:
        """Return outputs and `original_size [B, 2]` for encoded images `[B]`, which may differ in size."""
        spec = (tf.TensorSpec([*self._size, 3], tf.float32), tf.TensorSpec([2], tf.int32))
        images, original_size = tf.map_fn(self._decode_and_resize, encoded, fn_output_signature=spec)
        outputs = self._of_network_size(self._predict(images))
        return {**outputs, "original_size": original_size}

    def signatures(self) -> dict[str, Any]:
        """Return the functions for decoded and for encoded images."""
        return {"serving_default": self.serving_default, "serve_bytes": self.serve_bytes}

    def sample_inputs(self, sample: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the inputs that a decoded image `[H, W, 3]` gives."""
        return {"images": sample[None], "encoded": np.frombuffer(encode_picture(sample), np.uint8)}

    def portable_sample(self, sample: NDArray[Any]) -> NDArray[Any]:
        """Return a decoded image at the network's size."""
        resized: NDArray[Any] = self._resize(tf.constant(sample[None]), self._size).numpy()
        return resized

    def _of_images(self, outputs: Tensors, size: tf.Tensor) -> Tensors:
        """Return what is served for images of `size [2]`, from the network's outputs."""
        raise NotImplementedError

    def _of_network_size(self, outputs: Tensors) -> Tensors:
        """Return what is served for images of several sizes."""
        raise NotImplementedError

    def _decode_and_resize(self, encoded: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image = decode_image(encoded, self._levels)
        return self._resize(image[None], self._size)[0], tf.shape(image)[:2]


class MapServer(ImageServer):
    """Serves maps of two classes: at the images' own size, or at the network's for encoded images."""

    def _of_images(self, outputs: Tensors, size: tf.Tensor) -> Tensors:
        return at_size(outputs, size)

    def _of_network_size(self, outputs: Tensors) -> Tensors:
        return with_label(outputs)


class ClassServer(ImageServer):
    """Serves one class for each image, with a probability for every class also where there are two."""

    def _of_images(self, outputs: Tensors, size: tf.Tensor) -> Tensors:  # noqa: ARG002 - maps need it
        return self._of_network_size(outputs)

    def _of_network_size(self, outputs: Tensors) -> Tensors:
        return _with_classes(outputs)


class LabelServer(ImageServer):
    """Serves several yes/no labels for each image."""

    def _of_images(self, outputs: Tensors, size: tf.Tensor) -> Tensors:  # noqa: ARG002 - maps need it
        return self._of_network_size(outputs)

    def _of_network_size(self, outputs: Tensors) -> Tensors:
        served = ("probability", "predictive_entropy", "mutual_information", "familiarity")
        return {name: outputs[name] for name in served if name in outputs}


class NumberServer(ImageServer):
    """Serves a number for each image, with an interval.

    Args:
        scale: From standardised numbers to those of the user.
        factor: What the standard deviation is times at half the width of the interval.
        *arguments: As `ImageServer`.
        **options: As `ImageServer`.
    """

    def __init__(self, scale: TargetScale, factor: float, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._scale, self._factor = scale, factor

    def _of_images(self, outputs: Tensors, size: tf.Tensor) -> Tensors:  # noqa: ARG002 - maps need it
        return self._of_network_size(outputs)

    def _of_network_size(self, outputs: Tensors) -> Tensors:
        scale = self._scale
        mean = scale.centre + scale.spread * outputs["mean"]
        deviation = scale.spread * tf.sqrt(outputs["variance"])
        found = {"mean": mean, "sd": deviation}
        ends = {"lower": mean - self._factor * deviation, "upper": mean + self._factor * deviation}
        if scale.transform == "log":
            middle = tf.exp(mean + 0.5 * tf.square(deviation))
            found = {
                "mean": middle - scale.offset,
                "sd": middle * tf.sqrt(tf.math.expm1(tf.square(deviation))),
            }
            ends = {name: tf.exp(end) - scale.offset for name, end in ends.items()}
        if scale.transform == "count":
            ends = {name: tf.maximum(end, 0.0) for name, end in ends.items()}
        kept = {name: value for name, value in outputs.items() if name == "familiarity"}
        return {**found, **ends, **kept}


class ClipServer(Server):
    """Serves a model that gives each clip a class, by the signature `serving_default`.

    Args:
        predict: Function from clips `[B, *shape]` in 0..255 to named outputs `[B, ...]`.
        shape: Shape of a clip: frames, height, width and 3.
    """

    def __init__(
        self,
        predict: Callable[[tf.Tensor], Tensors],
        shape: tuple[int, ...],
    ) -> None:
        super().__init__(name="clip_server")
        self._predict = FrozenFunction(predict, tf.TensorSpec([None, *shape], tf.float32))

        self._shape, self._portable = shape, lambda clips: _with_classes(predict(clips))

        def serving_default(clips: tf.Tensor) -> Tensors:
            return _with_classes(self._predict(tf.cast(clips, tf.float32)))

        spec = tf.TensorSpec([None, *shape], tf.uint8, name="clips")
        self.serving_default = tf.function(serving_default, input_signature=[spec], autograph=False)

    def sample_inputs(self, sample: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the input that a clip gives."""
        return {"clips": sample[None]}


class ViewServer(Server):
    """Serves a model that gives a class to views of features, by the signature `serving_default`.

    Args:
        predict: Function from features `[B, D]` of all views to named outputs `[B, ...]`.
        views: Number of features of each view, in their order.
    """

    def __init__(
        self,
        predict: Callable[[tf.Tensor], Tensors],
        views: Mapping[str, int],
    ) -> None:
        super().__init__(name="view_server")
        self._views = dict(views)
        self._shape = (sum(views.values()),)
        self._portable = lambda features: _with_classes(predict(features))
        self._predict = FrozenFunction(predict, tf.TensorSpec([None, *self._shape], tf.float32))

        def serving_default(**values: tf.Tensor) -> Tensors:
            return _with_classes(self._predict(tf.concat([values[name] for name in views], axis=-1)))

        function = tf.function(serving_default, autograph=False)
        self.serving_default = function.get_concrete_function(
            **{name: tf.TensorSpec([None, number], tf.float32, name=name) for name, number in views.items()}
        )

    def sample_inputs(self, sample: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the inputs that the features of one example give; its views follow each other."""
        ends = np.cumsum(list(self._views.values()))[:-1]
        return {name: part[None] for name, part in zip(self._views, np.split(sample, ends), strict=True)}


def levels_in_words(levels: KeptLevels) -> str:
    """Return what is done to PNG files of 16 bits first, as the beginning of a sentence."""
    if levels == "window":
        return "PNG files of 16 bits, which have no DICOM window, are refused; of others, first "
    return f"of PNG files of 16 bits, {range_in_words(levels)} become 0 to 255; then "


def decode_image(encoded: tf.Tensor, levels: KeptLevels | None = None) -> tf.Tensor:
    """Decode a JPEG, PNG, WebP or 24-bit BMP: grey expanded, alpha dropped, 16 bits cut to 8.

    Args:
        encoded: Content of an image file, string `[]`.
        levels: The levels that become 0 and 255 in a PNG file of 16 bits, "each" for its own percentiles,
            "window" to refuse it, for it has no DICOM window; None to keep the high byte.

    Returns:
        uint8 `[H, W, 3]`, as `data_prep.files.images.read_image` except for the EXIF orientation.

    Raises:
        tf.errors.InvalidArgumentError: The file has another format, is an animated WebP, or is damaged.
    """
    padded = tf.strings.join([tf.strings.substr(encoded, 0, _HEAD), _HEAD * b"\0"])

    def holds(position: int, magic: bytes) -> tf.Tensor:
        return tf.equal(tf.strings.substr(padded, position, len(magic)), magic)

    is_jpeg = holds(0, b"\xff\xd8\xff")
    is_png = holds(0, b"\x89PNG\r\n\x1a\n")
    # Bytes 28 and 29 are the bits per pixel: with a palette TensorFlow returns its indices as grey levels.
    is_bmp = tf.logical_and(holds(0, b"BM"), holds(28, b"\x18\0"))
    is_webp = tf.logical_and(holds(0, b"RIFF"), holds(8, b"WEBP"))
    known = tf.debugging.Assert(
        tf.reduce_any([is_jpeg, is_png, is_bmp, is_webp]),
        ["Expected the bytes of a JPEG, PNG, WebP or 24-bit BMP file, but found", _readable(padded)],
    )
    still = tf.debugging.Assert(
        tf.logical_not(tf.logical_and(is_webp, _is_animated(padded))),
        ["Found an animated WebP, which TensorFlow cannot decode safely: send its first frame"],
    )
    with tf.control_dependencies([check for check in (known, still) if check is not None]):
        return tf.case(
            [
                (is_jpeg, lambda: _three_channels(_decode_jpeg(encoded))),
                (is_png, lambda: _three_channels(_decode_png(encoded, padded, levels))),
                (is_bmp, lambda: _three_channels(tf.io.decode_bmp(encoded, channels=0))),
            ],
            default=lambda: _three_channels(_decode_webp(encoded)),
            exclusive=True,
        )


def _readable(start: tf.Tensor) -> tf.Tensor:
    """Return the first bytes of a file for an error message, which must be Unicode."""
    return tf.strings.unicode_transcode(
        tf.strings.substr(start, 0, 4),
        input_encoding="US-ASCII",
        output_encoding="UTF-8",
        errors="replace",
        replacement_char=ord("?"),
        replace_control_characters=True,
    )


def _decode_jpeg(encoded: tf.Tensor) -> tf.Tensor:
    return tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE")


def _decode_png(encoded: tf.Tensor, padded: tf.Tensor, levels: KeptLevels | None) -> tf.Tensor:
    """Decode a PNG file; byte 24 is its number of bits per sample."""
    if levels is None or levels == FULL:
        return tf.io.decode_png(encoded, channels=0)

    def refused() -> tf.Tensor:
        said = "Found a PNG of 16 bits, but the training was on DICOM windows: send 8 bits"
        with tf.control_dependencies([tf.debugging.Assert(tf.constant(False), [said])]):
            return tf.zeros([1, 1, 1], tf.uint8)

    def deep() -> tf.Tensor:
        samples = tf.cast(tf.io.decode_png(encoded, channels=0, dtype=tf.uint16), tf.float32)
        low, high = levels if isinstance(levels, tuple) else _percentiles(samples)
        scaled = tf.round((samples - low) * (255 / (high - low)))
        return tf.cast(tf.clip_by_value(scaled, 0.0, 255.0), tf.uint8)

    is_deep = tf.equal(tf.strings.substr(padded, 24, 1), b"\x10")
    of_deep = refused if levels == "window" else deep
    return tf.cond(is_deep, of_deep, lambda: tf.io.decode_png(encoded, channels=0))


def _percentiles(samples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the range of an image by itself, alpha left out, as `data_prep.files.depth` does."""
    import tensorflow_probability as tfp  # noqa: PLC0415 - takes .6 s, and predict does without

    colours = samples[..., : (tf.shape(samples)[-1] + 1) // 2 * 2 - 1]  # 1 or 3 channels
    ends = tfp.stats.percentile(tf.cast(colours, tf.float64), PERCENTILES, interpolation="linear")
    low, high = tf.cast(tf.floor(ends[0]), tf.float32), tf.cast(tf.math.ceil(ends[1]), tf.float32)
    return low, tf.where(high > low, high, low + tf.maximum(low, 1))


def _is_animated(padded: tf.Tensor) -> tf.Tensor:
    """Return whether the start of a WebP file has the animation flag of the extended format."""
    extended = tf.equal(tf.strings.substr(padded, 12, 4), b"VP8X")
    flags = tf.io.decode_raw(tf.strings.substr(padded, 20, 1), tf.uint8)[0]
    return tf.logical_and(extended, tf.bitwise.bitwise_and(flags, 0x02) > 0)


def _decode_webp(encoded: tf.Tensor) -> tf.Tensor:
    """Decode a still image with its alpha channel."""
    return tf.image.decode_image(encoded, channels=0, expand_animations=False)


def _three_channels(image: tf.Tensor) -> tf.Tensor:
    """Return colour without alpha, or one grey channel (with or without alpha) three times."""
    colour = tf.shape(image)[-1] >= 3
    rgb = tf.cond(colour, lambda: image[..., :3], lambda: tf.repeat(image[..., :1], 3, axis=-1))
    return tf.ensure_shape(rgb, [None, None, 3])


def to_network_size(images: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """Return images as training saw them: averaged over areas, in whole grey levels, float32 in 0..255.

    An image smaller than `size` is averaged over areas as well, which are parts of pixels: it is enlarged in
    steps and not interpolated, as by `data_prep.files.resizing.resize_image`.
    """
    resized = tf.raw_ops.ResizeArea(images=images, size=size, align_corners=False)
    return tf.ensure_shape(tf.round(resized), [None, *size, 3])


def at_size(maps: Tensors, size: tf.Tensor) -> Tensors:
    """Return maps resized bilinearly; the label is thresholded afterwards, so its edge is not blocky."""
    return with_label({name: enlarged_map(values, size) for name, values in maps.items() if name != "label"})


def enlarged_map(values: tf.Tensor, size: tf.Tensor | tuple[int, int]) -> tf.Tensor:
    """Return maps `[B, H, W]` resized bilinearly, float32 `[B, *size]`; those of that size as they are."""
    return tf.image.resize(values[..., None], size, method="bilinear")[..., 0]


def with_label(maps: Tensors) -> Tensors:
    """Return maps with `label` (int32, 1 where the probability is above one half) from `probability`."""
    return {**maps, "label": tf.cast(maps["probability"] > 0.5, tf.int32)}


def per_class(probability: tf.Tensor) -> tf.Tensor:
    """Return probabilities `[B, C]` of all classes; for two, a head may give only the second one's, `[B]`."""
    if probability.shape.rank == 2:
        return probability
    return tf.stack([1.0 - probability, probability], axis=-1)


def _with_classes(outputs: Tensors) -> Tensors:
    """Return outputs with probabilities of all classes."""
    return {**outputs, "probability": per_class(outputs["probability"])}
