"""The geodesic flow kernel against its integral."""

import numpy as np
import pytest

from benchmarks.peers.geodesic_flow_kernel import (
    GeodesicFlowKernelClassifier,
    geodesic_flow_matrix,
    principal_basis,
)

from .domains import shifted_domains


def basis(seed: int, width: int = 8, size: int = 3) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(width, size)))[0]


def integral(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """∫ Φ(t)Φ(t)ᵀ dt by 40 nodes, Φ the geodesic that starts at P_s and ends at P_t."""
    left, cosine, right = np.linalg.svd(source.T @ target)
    angle = np.arccos(np.clip(cosine, -1.0, 1.0))
    start = source @ left
    across = (target @ right.T - start * cosine) / np.sin(angle)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    total = np.zeros((len(source), len(source)))
    for node, weight in zip(0.5 + 0.5 * nodes, 0.5 * weights, strict=True):
        flow = start * np.cos(node * angle) + across * np.sin(node * angle)
        total += weight * flow @ flow.T
    end = start * np.cos(angle) + across * np.sin(angle)
    np.testing.assert_allclose(end @ end.T, target @ target.T, atol=1e-12)  # it does end there
    return total


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_integral_along_the_geodesic(seed):
    source, target = basis(seed), basis(seed + 100)
    np.testing.assert_allclose(geodesic_flow_matrix(source, target), integral(source, target), atol=1e-12)


def test_identical_subspaces_give_the_projection():
    source = basis(0)
    turned = source @ basis(1, 3, 3)
    np.testing.assert_allclose(geodesic_flow_matrix(source, turned), source @ source.T, atol=1e-12)


def test_the_order_of_the_domains_does_not_matter():
    source, target = basis(0), basis(1)
    np.testing.assert_allclose(
        geodesic_flow_matrix(source, target), geodesic_flow_matrix(target, source), atol=1e-12
    )


def test_subspaces_at_right_angles():
    source, target = np.eye(4)[:, :1], np.eye(4)[:, 1:2]
    # ∫ cos² = ∫ sin² = ½ and ∫ cos sin = 1/π over a quarter turn
    expected = np.zeros((4, 4))
    expected[:2, :2] = [[0.5, 1.0 / np.pi], [1.0 / np.pi, 0.5]]
    np.testing.assert_allclose(geodesic_flow_matrix(source, target), expected, atol=1e-12)


def test_the_basis_is_that_of_the_largest_variances():
    x = np.random.default_rng(0).normal(size=(500, 3)) * [1.0, 5.0, 0.1] + 100.0
    assert abs(principal_basis(x, 1)[1, 0]) > 0.99


def test_the_nearest_row_is_by_the_flow():
    x, y, domain = shifted_domains()
    model = GeodesicFlowKernelClassifier(num_components=2, temperature_folds=None).fit(x, y, domain)
    flow = model.root_ @ model.root_
    new = np.random.default_rng(1).normal(size=(10, 4))
    difference = new[:, None] - x[None]
    distance = np.einsum("nmd,de,nme->nm", difference, flow, difference)
    assert model.predict(new).tolist() == y[distance.argmin(axis=1)].tolist()


def test_it_needs_a_source():
    x, y, _ = shifted_domains()
    with pytest.raises(ValueError, match="needs a source"):
        GeodesicFlowKernelClassifier().fit(x, y)
