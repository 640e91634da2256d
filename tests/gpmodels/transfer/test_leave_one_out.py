"""Leave-one-out in closed form against solving without the row."""

import numpy as np
import pytest

from gpmodels.transfer.leave_one_out import leave_one_out
from gpmodels.transfer.mixing import dirichlet_nodes
from gpmodels.transfer.parameters import ModelKind
from gpmodels.transfer.rows import TransferRows
from tests.gpmodels.transfer.problems import GAUSSIAN, basis, random_parameters, random_rows

SYMMETRIC = ModelKind(kind="symmetric")


def design(parameters, kind, weights, number, rows, mixing):
    """Return how the codes of a domain's rows depend on all whitened inducing values, `[N, C, values]`."""
    parts = []
    for j, domain in enumerate(parameters.domains):
        k = basis(domain, rows.domains[number].x)  # [R, N, P]
        num_hidden = len(domain.mean)
        if kind.is_symmetric:
            share, columns = 1.0, weights[number][:, j * num_hidden : (j + 1) * num_hidden]
        else:
            share = mixing[j] if number == rows.num_sources else float(j == number)
            columns = weights[number]
        part = share * np.einsum("cr,rnp->ncrp", columns, k)
        parts.append(part.reshape(*part.shape[:2], -1))
    return np.concatenate(parts, axis=2)


def open_variance(parameters, kind, weights, x, mixing):
    """Return the variance `[N, C]` of the target's outputs that all inducing values leave open."""
    total = np.exp(parameters.target.log_latent_noise) * np.sum(weights**2, axis=1)
    total = np.tile(total, (len(x), 1))
    for j, domain in enumerate(parameters.domains):
        rest = 1.0 - np.sum(basis(domain, x) ** 2, axis=2).T  # [N, R]
        num_hidden = len(domain.mean)
        columns = weights[:, j * num_hidden : (j + 1) * num_hidden] if kind.is_symmetric else weights
        share = 1.0 if kind.is_symmetric else mixing[j]
        total += share**2 * rest @ (columns**2).T
    return total


def refitted(parameters, kind, weights, rows, mixing):
    """Return means and variances from a Gaussian conditional for each row that knows nothing of the row."""
    designs = [design(parameters, kind, weights, i, rows, mixing) for i in range(len(rows.domains))]
    noises = [
        np.repeat(np.exp(domain.log_noise) / data.weight, rows.num_outputs)
        for domain, data in zip(parameters.domains, rows.domains, strict=True)
    ]
    means, variances = [], []
    for n in range(len(rows.target)):
        keep = np.arange(len(rows.target)) != n
        kept = [*(part.reshape(-1, part.shape[2]) for part in designs[:-1])]
        kept.append(designs[-1][keep].reshape(-1, designs[-1].shape[2]))
        phi = np.concatenate(kept)
        noise = np.concatenate([*noises[:-1], noises[-1].reshape(len(rows.target), -1)[keep].ravel()])
        codes = np.concatenate([*(d.codes.ravel() for d in rows.sources), rows.target.codes[keep].ravel()])
        across = designs[-1][n] @ phi.T
        covariance = phi @ phi.T + np.diag(noise)
        means.append(across @ np.linalg.solve(covariance, codes))
        own = designs[-1][n] @ designs[-1][n].T
        variances.append(np.diag(own - across @ np.linalg.solve(covariance, across.T)))
    left = open_variance(parameters, kind, weights[-1], rows.target.x, mixing)
    return np.array(means), np.array(variances) + left


@pytest.mark.parametrize("sizes", [(5,), (6, 5), (4, 5, 6)])
@pytest.mark.parametrize("kind", [GAUSSIAN, SYMMETRIC], ids=str)
def test_it_is_what_a_fit_without_the_row_predicts(kind, sizes):
    rng = np.random.default_rng(len(sizes))
    rows = random_rows(rng, sizes, weighted=True)
    parameters = random_parameters(rng, rows, kind)
    width = 3 * (len(sizes) if kind.is_symmetric else 1)
    weights = [rng.normal(size=(3, width)) for _ in sizes]
    if len(sizes) == 3:  # one node instead of 64
        parameters = parameters._replace(log_concentration=None, mixing=np.array([0.2, 0.5, 0.3]))
    if parameters.log_concentration is None:
        nodes = [(parameters.mixing, 1.0)]
    else:
        nodes = list(zip(*dirichlet_nodes(np.exp(parameters.log_concentration)), strict=True))
    mean, square = 0.0, 0.0
    for mixing, share in nodes:
        means, variances = refitted(parameters, kind, weights, rows, mixing)
        mean = mean + share * means
        square = square + share * (variances + means**2)
    result = leave_one_out(parameters, kind, weights, rows)
    np.testing.assert_allclose(result[0], mean, atol=1e-8)
    np.testing.assert_allclose(result[1], square - mean**2, atol=1e-8)


def test_the_rows_own_label_has_no_influence():
    rng = np.random.default_rng(8)
    rows = random_rows(rng, (6, 5))
    parameters = random_parameters(rng, rows, GAUSSIAN)
    weights = [rng.normal(size=(3, 3)) for _ in range(2)]
    codes = rows.target.codes.copy()
    codes[2] = [5.0, -3.0, 1.0]
    data = rows.target
    changed = TransferRows(rows.sources, type(data)(data.x, codes, data.weight, data.lengthscale))
    mean, moved = (leave_one_out(parameters, GAUSSIAN, weights, part)[0] for part in (rows, changed))
    np.testing.assert_allclose(mean[2], moved[2], atol=1e-9)
    assert np.abs(mean[1] - moved[1]).max() > 1e-3
