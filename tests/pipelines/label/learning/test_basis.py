"""The basis gives the kernel that it names."""

import numpy as np
import pytest

from pipelines.label.learning.basis import BIAS, KernelScales, PoolBasis


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
def test_products_of_the_basis_are_the_kernel(shape):
    """As many landmarks as images make Nyström's approximation exact."""
    features = np.random.default_rng(0).normal(size=shape)
    basis = PoolBasis(features)
    scales = KernelScales(linear=2.0, smooth=1.5, length=0.8)
    standard = (features - features.mean(0)) / features.std(0)
    standard /= np.linalg.norm(standard, axis=1, keepdims=True)
    products = standard @ standard.T
    squared = np.diag(products)[:, None] + np.diag(products)[None] - 2 * products
    distance = np.sqrt(np.median(squared))
    expected = (
        BIAS**2
        + scales.linear**2 * products
        + scales.smooth**2 * np.exp(-squared / (2 * (scales.length * distance) ** 2))
    )
    phi = basis(scales)
    np.testing.assert_allclose(phi @ phi.T, expected, atol=2e-3)


def test_the_variance_of_a_large_pool_is_never_more_than_the_kernels():
    basis = PoolBasis(np.random.default_rng(0).normal(size=(400, 6)))
    smooth = basis(KernelScales(0.0, 1.0, 0.7))[:, 1:]
    variance = np.sum(smooth**2, axis=1)
    assert np.all(variance < 1.0 + 1e-6)
    assert variance.mean() > 0.7


def test_a_unit_of_a_feature_does_not_matter():
    features = np.random.default_rng(0).normal(size=(50, 5))
    scaled = PoolBasis(features * [1.0, 10.0, 0.1, 5.0, 1000.0])
    products = scaled.components @ scaled.components.T
    plain = PoolBasis(features).components
    np.testing.assert_allclose(products, plain @ plain.T, atol=1e-4)


def test_how_strongly_a_trunk_answers_does_not_matter():
    features = np.random.default_rng(0).normal(size=(50, 5))
    features -= features.mean(axis=0)
    strong = np.vstack([features, -features])  # whatever is scaled, the mean stays 0
    basis = PoolBasis(np.vstack([strong, 3.0 * strong]))
    np.testing.assert_allclose(basis.components[:100], basis.components[100:], atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(basis.components, axis=1), 1.0)
