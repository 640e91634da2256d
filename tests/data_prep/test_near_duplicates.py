"""Near-duplicates are found mirrored, brighter and noisy; other images are not."""

import numpy as np
from skimage import data

from data_prep.near_duplicates import connected_groups, difference_hashes, duplicate_pairs


def textures() -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    blobs = [np.kron(generator.uniform(0, 200, (6, 7)), np.ones((10, 12))) for _ in range(20)]
    return [image.astype(np.float32) for image in (data.camera()[::4, ::4], *blobs)]


def test_duplicates_are_paired_and_others_are_not() -> None:
    images = textures()
    noise = np.random.default_rng(1).normal(0, 4, images[0].shape)
    copies = [images[0][::-1] * 0.6 + 9, images[0][:, ::-1] + noise, images[5][::-1, ::-1]]
    hashes = np.stack([difference_hashes(image.astype(np.float32)) for image in [*images, *copies]])
    pairs = {tuple(pair) for pair in duplicate_pairs(hashes, 6).tolist()}
    assert pairs == {(0, 21), (0, 22), (21, 22), (5, 23)}
    groups = connected_groups(len(hashes), np.array(sorted(pairs)))
    assert groups[0] == groups[21] == groups[22]
    assert len(set(groups.tolist())) == 21


def test_distance_is_the_number_of_different_bits() -> None:
    hashes = np.random.default_rng(0).random((5, 4, 64)) < 0.5
    hashes[3, 2] = hashes[1, 0]
    hashes[3, 2, :9] ^= True
    assert duplicate_pairs(hashes, 9).tolist() == [[1, 3]]
    assert duplicate_pairs(hashes, 8).tolist() == []


def test_groups_join_through_others() -> None:
    groups = connected_groups(5, np.array([[0, 3], [3, 4]]))
    assert groups[0] == groups[3] == groups[4]
    assert len({groups[0], groups[1], groups[2]}) == 3
    assert connected_groups(2, np.empty((0, 2), np.int64)).tolist() == [0, 1]
