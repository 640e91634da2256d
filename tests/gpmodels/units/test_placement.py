"""Where inducing points and lengthscales start, from well-behaved features and from awkward ones."""

import numpy as np
import pytest

from gpmodels.units.placement import (
    cluster_centres,
    median_distance,
    place_experts,
    place_global,
    split_into_regions,
)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def clouds(num_clouds: int = 3, size: int = 40) -> np.ndarray:
    """Tight clouds ten units apart, one after the other."""
    centres = 10.0 * np.arange(num_clouds)[:, None, None]
    return (centres + 0.1 * generator().normal(size=(num_clouds, size, 2))).reshape(-1, 2)


def distinct(points: np.ndarray) -> int:
    return len(np.unique(points, axis=0))


def test_centres_are_the_centres_of_clouds():
    centres = cluster_centres(clouds(), 3, generator())
    np.testing.assert_allclose(np.sort(centres[:, 0]), [0.0, 10.0, 20.0], atol=0.1)


@pytest.mark.parametrize("num_distinct", [1, 2, 5])
def test_too_few_distinct_points_still_give_distinct_centres(num_distinct):
    points = np.repeat(generator(1).normal(size=(num_distinct, 3)), 10, axis=0)
    centres = cluster_centres(points, 5, generator())
    assert centres.shape == (5, 3)
    assert distinct(centres) == 5
    assert np.abs(centres[:, None] - points[None]).max(axis=-1).min(axis=1).max() < 1.0


def test_regions_are_the_clouds():
    region = split_into_regions(clouds(), 3, generator())
    assert [len(np.unique(part)) for part in np.split(region, 3)] == [1, 1, 1]
    assert len(np.unique(region)) == 3


def test_median_distance_equals_a_loop_over_pairs():
    points = generator(2).normal(size=(30, 3))
    distances = [np.linalg.norm(points[i] - points[j]) for i in range(30) for j in range(i)]
    assert median_distance(points, generator()) == pytest.approx(np.median(distances), rel=1e-9)


@pytest.mark.parametrize("points", [np.ones((1, 2)), np.ones((50, 2))])
def test_median_distance_of_coincident_points_is_one(points):
    assert median_distance(points, generator()) == 1.0


def test_copies_that_differ_by_rounding_coincide():
    rng = np.random.default_rng(3)
    copies = 5.0 * rng.standard_normal(64) + 1e-6 * rng.standard_normal((2, 64))
    assert median_distance(copies, generator()) == 1.0
    many = np.concatenate([rng.standard_normal((20, 64)) + 40.0, copies])
    _, lengthscales = place_experts(many, 2, 3, generator())
    assert lengthscales.min() > 0.1


def test_global_unit_covers_the_features():
    inducing, lengthscales = place_global(clouds(), 6, generator())
    assert inducing.shape == (1, 6, 2)
    assert lengthscales.shape == (1, 2)
    nearest = np.linalg.norm(clouds()[:, None] - inducing[0][None], axis=-1).min(axis=1)
    assert nearest.max() < 1.0


def test_placement_scales_with_each_feature():
    """A feature in other units moves the inducing inputs and the lengthscale of that feature alone."""
    features, scales = clouds() @ np.array([[1.0, 0.3], [0.0, 1.0]]), np.array([1.0, 64.0])
    for place in (
        lambda x: place_global(x, 5, generator()),
        lambda x: place_experts(x, 3, 4, generator()),
    ):
        for plain, scaled in zip(place(features), place(features * scales), strict=True):
            np.testing.assert_allclose(scaled, plain * scales, rtol=1e-6)


def test_each_expert_gets_a_region_of_its_own():
    inducing, lengthscales = place_experts(clouds(), 3, 4, generator())
    assert inducing.shape == (3, 4, 2)
    assert lengthscales.shape == (3, 2)
    spans = sorted((points[:, 0].min(), points[:, 0].max()) for points in inducing)
    for (lowest, highest), centre in zip(spans, (0.0, 10.0, 20.0), strict=True):
        assert centre - 1.0 < lowest <= highest < centre + 1.0
    assert lengthscales.max() < 5.0  # the region's, not the whole set's


@pytest.mark.parametrize(
    "features",
    [
        generator(3).normal(size=(1, 3)),
        generator(3).normal(size=(2, 3)),
        np.ones((40, 3)),
        np.repeat(np.eye(3)[:2], 20, axis=0),
        np.insert(generator(4).normal(size=(40, 2)), 1, 5.0, axis=1),
        1e-30 * generator(5).normal(size=(40, 3)),
    ],
    ids=["one point", "two points", "all equal", "two values", "constant feature", "tiny"],
)
def test_awkward_features_give_distinct_finite_inputs_and_positive_lengthscales(features):
    for inducing, lengthscales in (
        place_global(features, 5, generator()),
        place_experts(features, 4, 5, generator()),
    ):
        assert np.isfinite(inducing).all()
        assert np.all(lengthscales > 0.0)
        assert all(distinct(points) == 5 for points in inducing)


def test_same_seed_places_alike():
    for place in (place_global, lambda x, m, rng: place_experts(x, 3, m, rng)):
        for first, second in zip(
            place(clouds(), 4, generator()), place(clouds(), 4, generator()), strict=True
        ):
            np.testing.assert_array_equal(first, second)
