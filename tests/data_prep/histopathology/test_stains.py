"""Stain normalisation on mixtures whose stains are known."""

import numpy as np
import pytest

from data_prep.histopathology.stains import (
    REFERENCE_LAB,
    REFERENCE_STAINS,
    REFERENCE_STRENGTHS,
    find_stains,
    fit_macenko,
    fit_reinhard,
    fitted_stains,
    from_density,
    lab_statistics,
    optical_density,
)

OTHER_STAINS = np.array([[0.65, 0.70, 0.29], [0.07, 0.99, 0.11]])  # of Ruifrok and Johnston
OTHER_STAINS /= np.linalg.norm(OTHER_STAINS, axis=1, keepdims=True)


def amounts(seed: int = 0) -> np.ndarray:
    """Of two stains, [4000, 2]; a part of the pixels has one of them alone."""
    rng = np.random.default_rng(seed)
    mixed = rng.uniform(0.2, 1.5, (4000, 2))
    mixed[:400, 1] = mixed[400:800, 0] = 0
    return mixed


def test_density_is_additive_and_comes_back():
    levels = np.arange(256, dtype=np.uint8).repeat(3).reshape(-1, 3)
    np.testing.assert_array_equal(from_density(optical_density(levels)), levels)
    assert optical_density(np.array([[255, 127, 0]], np.uint8)) == pytest.approx(np.log([[1, 2, 256]]))


@pytest.mark.parametrize("stains", [REFERENCE_STAINS, OTHER_STAINS])
def test_mixed_stains_are_found(stains):
    found = find_stains(amounts() @ stains)
    np.testing.assert_allclose(found, stains / np.linalg.norm(stains, axis=1, keepdims=True), atol=1e-3)
    found = find_stains(optical_density(from_density(amounts() @ stains)))  # in whole levels
    np.testing.assert_allclose(found, stains / np.linalg.norm(stains, axis=1, keepdims=True), atol=0.03)


def test_an_image_normalised_to_itself_does_not_change():
    image = from_density(amounts() @ OTHER_STAINS).reshape(50, 80, 3)
    own = fitted_stains(image)
    assert own is not None
    assert np.abs(fit_macenko(image, *own)(image).astype(int) - image).max() <= 1
    np.testing.assert_array_equal(fit_reinhard(image, lab_statistics(image))(image), image)


def test_an_image_in_other_stains_becomes_the_same_one_in_those_of_the_reference():
    other, strength = from_density(0.7 * amounts() @ REFERENCE_STAINS), np.array([1.5, 1.2])
    reference = from_density(amounts() / np.percentile(amounts(), 99, axis=0) * strength @ OTHER_STAINS)
    normalised = fit_macenko(other, OTHER_STAINS, strength)(other)
    difference = np.abs(normalised.astype(int) - reference)
    assert np.median(difference) <= 3
    assert np.median(np.abs(other.astype(int) - reference)) > 15
    found = fitted_stains(fit_macenko(other)(other))
    assert found is not None
    np.testing.assert_allclose(found[1], REFERENCE_STRENGTHS, rtol=0.05)


def test_reinhard_gives_means_and_deviations_of_the_reference():
    image = from_density(0.7 * amounts() @ OTHER_STAINS)
    reference = np.array([REFERENCE_LAB[0], 0.5 * REFERENCE_LAB[1]])  # so that no colour is out of range
    np.testing.assert_allclose(lab_statistics(fit_reinhard(image, reference)(image)), reference, atol=1)


@pytest.mark.parametrize("fit", [fit_macenko, fit_reinhard])
@pytest.mark.parametrize("level", [0, 128, 250])
def test_images_without_stains_give_pixels_all_the_same(fit, level):
    grey = np.full((30, 30, 3), level, np.uint8)
    assert fit(grey)(grey).shape == grey.shape
    assert fit(grey[:1, :1])(grey).tolist() == grey.tolist()  # too few pixels to fit anything to
