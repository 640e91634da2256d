"""KBTL against the same updates written out for each row, unit and class."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.peers.kbtl import KBTLClassifier, Start, mean_field

from .domains import shifted_domains

PRECISION = 25.0


def problem(seed: int = 0, sizes: tuple[int, ...] = (7, 5), num_classes: int = 3):
    rng = np.random.default_rng(seed)
    kernels = []
    for size in sizes:
        x = rng.normal(size=(size, 2))
        kernels.append(np.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(axis=-1)))
    signs = [2.0 * np.eye(num_classes)[rng.integers(0, num_classes, size)] - 1.0 for size in sizes]
    return kernels, signs, Start.random(list(sizes), 2, num_classes, rng)


def slow_twin(kernels, signs, start, rounds: int, margin: float = 0.0):  # noqa: C901, PLR0912 - all loops
    """The updates of Gönen and Margolin (2014), one number after the other where that is possible."""
    hidden, weights = [h.copy() for h in start.hidden], [a.copy() for a in start.weights]
    planes = start.hyperplanes.copy()
    num_hidden, num_classes = planes.shape[0] - 1, planes.shape[1]
    plane_covariance = [np.eye(num_hidden + 1) for _ in range(num_classes)]
    weight_covariance = [[np.eye(len(k)) for _ in range(num_hidden)] for k in kernels]
    scores = [(m + margin) * s for m, s in zip(start.magnitude, signs, strict=True)]
    for _ in range(rounds):
        old_planes, old_covariance = planes.copy(), [c.copy() for c in plane_covariance]
        for t, kernel in enumerate(kernels):
            size = len(kernel)
            for r in range(num_hidden):
                rate = [
                    1.0 + 0.5 * (weights[t][i, r] ** 2 + weight_covariance[t][r][i, i]) for i in range(size)
                ]
                precision = np.diag([1.5 / one for one in rate])
                for n in range(size):
                    precision = precision + PRECISION * np.outer(kernel[:, n], kernel[:, n])
                weight_covariance[t][r] = np.linalg.inv(precision)
                drive = sum(PRECISION * kernel[:, n] * hidden[t][r, n] for n in range(size))
                weights[t][:, r] = weight_covariance[t][r] @ drive
            precision = PRECISION * np.eye(num_hidden)
            for c in range(num_classes):
                precision = (
                    precision + np.outer(old_planes[1:, c], old_planes[1:, c]) + old_covariance[c][1:, 1:]
                )
            for n in range(size):
                drive = PRECISION * weights[t].T @ kernel[:, n]
                for c in range(num_classes):
                    drive = drive + old_planes[1:, c] * scores[t][n, c]
                    drive = drive - (old_planes[1:, c] * old_planes[0, c] + old_covariance[c][1:, 0])
                hidden[t][:, n] = np.linalg.solve(precision, drive)
            hidden_covariance = np.linalg.inv(precision)
        for c in range(num_classes):
            square = planes[:, c] ** 2 + np.diag(plane_covariance[c])
            precision = np.diag(1.5 / (1.0 + 0.5 * square))
            drive = np.zeros(num_hidden + 1)
            for t, kernel in enumerate(kernels):
                for n in range(len(kernel)):
                    design = np.r_[1.0, hidden[t][:, n]]
                    precision = precision + np.outer(design, design)
                    precision[1:, 1:] += hidden_covariance
                    drive += design * scores[t][n, c]
            plane_covariance[c] = np.linalg.inv(precision)
            planes[:, c] = plane_covariance[c] @ drive
        for t, kernel in enumerate(kernels):
            for n in range(len(kernel)):
                for c in range(num_classes):
                    mean = planes[0, c] + planes[1:, c] @ hidden[t][:, n]
                    low, high = (margin, np.inf) if signs[t][n, c] > 0 else (-np.inf, -margin)
                    scores[t][n, c] = stats.truncnorm.mean(low - mean, high - mean, loc=mean)
    return weights[-1], hidden[-1], planes, np.stack(plane_covariance)


@pytest.mark.parametrize(("rounds", "margin"), [(1, 0.0), (4, 0.0), (3, 0.5)])
def test_the_updates_are_those_written_out(rounds, margin):
    kernels, signs, start = problem()
    projection, planes, covariance = mean_field(
        kernels, signs, start=start, precision=PRECISION, margin=margin, rounds=rounds
    )
    weights, hidden, slow_planes, slow_covariance = slow_twin(kernels, signs, start, rounds, margin)
    np.testing.assert_allclose(projection.mean, weights, atol=1e-8)
    np.testing.assert_allclose(projection.hidden, hidden, atol=1e-8)
    np.testing.assert_allclose(planes, slow_planes, atol=1e-8)
    np.testing.assert_allclose(covariance, slow_covariance, atol=1e-8)


@pytest.mark.slow
def test_many_rounds_end_at_a_fixed_point():
    kernels, signs, start = problem(1)
    settings = {"start": start, "precision": PRECISION, "margin": 0.0}
    _, planes, _ = mean_field(kernels, signs, rounds=1500, **settings)
    _, later, _ = mean_field(kernels, signs, rounds=1501, **settings)
    np.testing.assert_allclose(later, planes, atol=1e-4)


def test_probabilities_divide_by_the_deviation():
    x, y, domain = shifted_domains(num_classes=2)
    model = KBTLClassifier(num_hidden=3, max_iterations=10, random_state=0, temperature_folds=None)
    model.fit(x, y, domain)
    hidden = model._projection.mean.T @ np.exp(
        -0.5 * ((model._target - x[0]) ** 2).sum(axis=1) / model._lengthscale**2
    )
    design = np.r_[1.0, hidden]
    sides = [
        stats.norm.cdf(
            design @ model.hyperplanes_[:, c] / np.sqrt(1.0 + design @ model._covariance[c] @ design)
        )
        for c in range(2)
    ]
    np.testing.assert_allclose(model.predict_proba(x[:1])[0], np.array(sides) / sum(sides), rtol=1e-8)


def test_settings_out_of_range_are_refused():
    x, y, domain = shifted_domains()
    with pytest.raises(ValueError, match="hidden_deviation positive"):
        KBTLClassifier(hidden_deviation=0.0).fit(x, y, domain)


def test_a_precision_without_a_factor_is_said_so():
    kernels, signs, start = problem()
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        mean_field(kernels, signs, start=start, precision=-PRECISION, margin=0.0, rounds=1)
