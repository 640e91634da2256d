"""Images and masks of another size: averaged, interpolated, or by the nearest pixel."""

import cv2
import numpy as np
import numpy.typing as npt


def resize_image(image: npt.NDArray[np.uint8], size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Resize by averaging over areas (OpenCV's `INTER_AREA`), rounded to whole levels.

    Averages are taken in floating point and rounded once, half to even, so that the result equals
    TensorFlow's area resizing with `tf.round` in all but about one pixel of a hundred, and those by one
    level.

    Args:
        image: uint8 [height, width, 3].
        size: New height and width in pixels.

    Returns:
        uint8 [*size, 3].
    """
    # check_shapes would import TensorFlow, for seconds, into every process that decodes images.
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"Expected a uint8 image [height, width, 3], found {image.dtype} {image.shape}.")
    # One channel at a time: a photograph of 24 megapixels takes 290 MB as floats.
    channels = [np.rint(resize_by_area(channel.astype(np.float32), size)) for channel in cv2.split(image)]
    return cv2.merge(channels).astype(np.uint8)


def resize_mask(mask: npt.NDArray[np.uint8], size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Resize by taking the nearest pixel (OpenCV's `INTER_NEAREST_EXACT`), so that no new level appears.

    Args:
        mask: uint8 [height, width].
        size: New height and width in pixels.

    Returns:
        uint8 [*size].
    """
    height, width = size
    if mask.dtype != np.uint8 or mask.ndim != 2:
        raise ValueError(f"Expected a uint8 mask [height, width], found {mask.dtype} {mask.shape}.")
    return np.asarray(
        cv2.resize(mask, (width, height), interpolation=cv2.INTER_NEAREST_EXACT), dtype=np.uint8
    )


def resize_by_area(channel: cv2.typing.MatLike, size: tuple[int, int]) -> npt.NDArray[np.float32]:
    """Resize one channel by averaging over areas, without rounding.

    Args:
        channel: float32 [height, width].
        size: New height and width in pixels.

    Returns:
        float32 [*size].
    """
    height, width = size
    # Where one side shrinks and the other grows OpenCV would only interpolate: shrink first.
    shrunk = (min(width, channel.shape[1]), min(height, channel.shape[0]))
    resized = cv2.resize(
        cv2.resize(channel, shrunk, interpolation=cv2.INTER_AREA),
        (width, height),
        interpolation=cv2.INTER_AREA,
    )
    return np.asarray(resized, dtype=np.float32)
