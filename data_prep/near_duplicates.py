"""Near-duplicate images by perceptual hash."""

import cv2
import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

_SIDE = 8
_CHUNK = 512  # rows of the table of distances that are in memory at a time


def difference_hashes(levels: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Difference hashes of an image as it is, and mirrored left-right, up-down and both.

    The image is averaged down to 8 x 9; a bit says whether a value is smaller than its right neighbour.

    Args:
        levels: [height, width].

    Returns:
        bool [4, 64], the hash of the image itself first.
    """
    small = cv2.resize(levels, (_SIDE + 1, _SIDE), interpolation=cv2.INTER_AREA)
    mirrored = (small, small[:, ::-1], small[::-1], small[::-1, ::-1])
    return np.stack([(one[:, :-1] < one[:, 1:]).ravel() for one in mirrored])


def duplicate_pairs(hashes: npt.NDArray[np.bool_], largest_distance: int) -> npt.NDArray[np.int64]:
    """Find the images whose hashes differ in few bits, mirrored or not.

    Args:
        hashes: bool [N, 4, 64], `difference_hashes` of each image.
        largest_distance: number of bits in which near-duplicates may differ.

    Returns:
        int64 [pairs, 2], numbers of images, the smaller one first.
    """
    signs = np.where(hashes, 1, -1).astype(np.float32)
    found = []
    for start in range(0, len(signs), _CHUNK):
        rows = signs[start : start + _CHUNK, 0]
        # Of two vectors of signs, 64 less the product is twice the number of places where they differ.
        products = np.max([rows @ signs[:, mirror].T for mirror in range(signs.shape[1])], axis=0)
        first, second = np.nonzero(products >= signs.shape[2] - 2 * largest_distance)
        pairs = np.stack([first + start, second], axis=1)
        found.append(pairs[pairs[:, 0] < pairs[:, 1]])
    return np.concatenate(found) if found else np.empty((0, 2), np.int64)


def connected_groups(num_items: int, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Number the groups that pairs join, directly or through others.

    Args:
        num_items: number of items.
        pairs: int64 [pairs, 2], items that belong together.

    Returns:
        int32 [num_items], the group of each item.
    """
    links = coo_array(
        (np.ones(len(pairs), np.int8), (pairs[:, 0], pairs[:, 1])), shape=(num_items, num_items)
    )
    return np.asarray(connected_components(links, directed=False)[1], dtype=np.int32)
