"""Near-duplicates are found mirrored, brighter and noisy; other images are not."""

from collections.abc import Iterable

import numpy as np
import pytest
from skimage import data

from data_prep.labelled import near_duplicates
from data_prep.labelled.near_duplicates import (
    difference_hashes,
    duplicate_pairs,
    small_grey,
)
from data_prep.splits.groups import connected_groups


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
    assert pairs == {(0, 21), (0, 22), (5, 23)}  # 21 and 22 are alike too, and joined by 0
    groups = connected_groups(len(hashes), np.array(sorted(pairs)))
    assert groups[0] == groups[21] == groups[22]
    assert len(set(groups.tolist())) == 21


def test_distance_is_the_number_of_different_bits() -> None:
    hashes = np.random.default_rng(0).random((5, 4, 64)) < 0.5
    hashes[3, 2] = hashes[1, 0]
    hashes[3, 2, :9] ^= True
    assert duplicate_pairs(hashes, 9).tolist() == [[1, 3]]
    assert duplicate_pairs(hashes, 8).tolist() == []


def test_what_is_mostly_of_one_level_is_told_apart_by_its_levels() -> None:
    strokes = [np.zeros((32, 32), np.float32) for _ in range(3)]
    strokes[0][4:28, 15] = strokes[1][4:28, 15] = 200.0
    strokes[1][4:28, 16] = 60.0  # nearly the first one, and mirrored nearly too
    strokes[2][14:17, 15] = 200.0  # its hash is as near: the rest is black
    images = [*strokes, strokes[0][:, ::-1]]
    hashes = np.stack([difference_hashes(image) for image in images])
    greys = np.stack([small_grey(image) for image in images])
    pairs = duplicate_pairs(hashes, 20)
    assert {(0, 1), (0, 2), (0, 3)} <= {tuple(pair) for pair in pairs.tolist()}
    confirmed = {tuple(pair) for pair in duplicate_pairs(hashes, 20, greys, least_correlation=0.9).tolist()}
    assert {(0, 1), (0, 3)} <= confirmed
    assert not {(0, 2), (1, 2), (2, 3)} & confirmed


def test_small_greys_are_correlations() -> None:
    first, second = np.random.default_rng(0).uniform(0, 255, (2, 16, 16)).astype(np.float32)
    product = np.sum(small_grey(first) * small_grey(3 * second + 7))
    np.testing.assert_allclose(product, np.corrcoef(first.ravel(), second.ravel())[0, 1], rtol=1e-4)
    assert not small_grey(np.full((9, 9), 80, np.float32)).any()
    unlike = np.random.default_rng(0).random((2, 4, 64)) < 0.5
    assert duplicate_pairs(unlike, 0, np.stack([small_grey(first)] * 2), least_correlation=0.9).shape == (
        0,
        2,
    )


def all_pairs(hashes: np.ndarray, largest_distance: int) -> np.ndarray:
    """Every pair of near-duplicates, the plain way."""
    distances = (hashes[:, None, :1] != hashes[None]).sum(-1).min(-1)
    return np.argwhere(np.triu(distances <= largest_distance, 1))


def test_groups_are_those_of_all_pairs() -> None:
    generator = np.random.default_rng(2)
    bits = np.repeat(generator.random((40, 1, 64)) < 0.5, 10, axis=0) ^ (
        generator.random((400, 1, 64)) < 0.03
    )
    hashes = generator.permutation(np.repeat(bits, 4, axis=1))
    everything, pairs = all_pairs(hashes, 4), duplicate_pairs(hashes, 4)
    assert len(pairs) < len(hashes) < len(everything)
    assert {tuple(pair) for pair in pairs.tolist()} <= {tuple(pair) for pair in everything.tolist()}
    np.testing.assert_array_equal(connected_groups(400, pairs), connected_groups(400, everything))
    assert 40 < len(set(connected_groups(400, pairs).tolist())) < 400


@pytest.mark.slow
def test_groups_with_levels_are_those_of_all_pairs_alike_in_both() -> None:
    generator = np.random.default_rng(3)
    hashes = np.repeat(generator.random((70, 4, 64)) < 0.5, 10, axis=0)
    levels = generator.uniform(0, 255, (140, 16, 16)).repeat(5, axis=0) + generator.normal(
        0, 20, (700, 16, 16)
    )
    levels[::3] = levels[::3, ::-1]
    levels[::2] = levels[::2, :, ::-1]
    greys = np.stack([small_grey(image.astype(np.float32)) for image in levels])
    order = generator.permutation(700)  # more than one chunk, each with images of most groups
    hashes, greys = hashes[order], greys[order]
    mirrored = (greys, greys[:, :, ::-1], greys[:, ::-1], greys[:, ::-1, ::-1])
    flat = greys.reshape(700, -1)
    correlations = np.max([flat @ form.reshape(700, -1).T for form in mirrored], axis=0)
    everything = all_pairs(hashes, 0)
    both = everything[correlations[tuple(everything.T)] >= 0.9]
    pairs = duplicate_pairs(hashes, 0, greys, least_correlation=0.9)
    assert {tuple(pair) for pair in pairs.tolist()} <= {tuple(pair) for pair in both.tolist()}
    groups = connected_groups(700, pairs)
    np.testing.assert_array_equal(groups, connected_groups(700, both))
    assert len(set(groups.tolist())) == 140
    assert len(both) < len(everything)


def test_levels_are_compared_where_hashes_are_alike_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(4)
    hashes = generator.random((900, 4, 64)) < 0.5
    hashes[700] = hashes[20]
    sizes: list[tuple[int, int]] = []
    plain = near_duplicates._largest_products

    def recorded(pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        products = plain(pairs)
        sizes.append(products.shape)
        return products

    monkeypatch.setattr(near_duplicates, "_largest_products", recorded)
    greys = np.stack([small_grey(generator.random((16, 16), np.float32)) for _ in range(900)])
    greys[700] = greys[20]
    assert duplicate_pairs(hashes, 6, greys, least_correlation=0.9).tolist() == [[20, 700]]
    assert sizes == [(512, 900), (512, 1), (388, 388), (388, 0)]


def test_thousands_of_flat_images_are_joined_by_few_pairs() -> None:
    hashes = np.zeros((3000, 4, 64), np.bool_)
    hashes[1000:, :, :32] = True
    pairs = duplicate_pairs(hashes, 6)
    assert len(pairs) == 2998
    groups = connected_groups(3000, pairs)
    assert set(groups[:1000].tolist()) == {0}
    assert set(groups[1000:].tolist()) == {1}
