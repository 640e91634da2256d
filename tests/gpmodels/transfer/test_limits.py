"""What must hold where a transfer model becomes a simpler one, and what must not change it."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels import DFGPHead
from gpmodels.dfgp.posterior import deep_collapsed_bound
from gpmodels.transfer.bounds import target_outputs
from gpmodels.transfer.hidden import hidden_kl, mixed, mixing_moments, project
from gpmodels.transfer.parameters import ModelKind
from gpmodels.transfer.rows import DomainRows, TransferRows
from tests.gpmodels.transfer.problems import (
    GAUSSIAN,
    KINDS,
    best,
    bound,
    random_parameters,
    random_rows,
    tensors,
)

MEAN_FIELD = ModelKind("mean_field")
ALL_KINDS = [*KINDS, GAUSSIAN._replace(likelihood="noisy_probit")]


def predictions(parameters, kind, rows, x):
    output = best(parameters, kind, rows)[-1]
    output = type(output)(*map(tf.constant, output))
    return [part.numpy() for part in target_outputs(tensors(parameters), kind, output, tf.constant(x))]


def fixed_mixing(parameters, *weights):
    return parameters._replace(log_concentration=None, mixing=np.array(weights))


def alone(parameters, rows, number):
    """Return parameters and rows of one domain, as a target without sources."""
    single = parameters._replace(domains=(parameters.domains[number],), log_concentration=None)
    return single._replace(mixing=np.ones(1)), TransferRows((), rows.domains[number], rows.is_classifier)


@pytest.mark.parametrize("likelihood", ["gaussian", "noisy_probit"])
def test_without_mixing_source_and_target_are_two_models(likelihood):
    rng = np.random.default_rng(0)
    kind = GAUSSIAN._replace(likelihood=likelihood)
    rows = random_rows(rng, (5, 4), weighted=True)
    parameters = fixed_mixing(random_parameters(rng, rows, kind), 0.0, 1.0)
    parts = [alone(parameters, rows, number) for number in range(2)]
    expected = sum(bound(p, kind, r) for p, r in parts)
    assert bound(parameters, kind, rows) == pytest.approx(expected, rel=1e-12)
    x = rng.normal(size=(6, 2))
    for mine, theirs in zip(
        predictions(parameters, kind, rows, x), predictions(parts[1][0], kind, parts[1][1], x), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)


@pytest.mark.parametrize("kind", [GAUSSIAN, MEAN_FIELD], ids=str)
def test_where_the_source_is_all_the_targets_own_units_have_no_influence(kind):
    rng = np.random.default_rng(1)
    rows = random_rows(rng, (5, 4))
    parameters = fixed_mixing(random_parameters(rng, rows, kind), 1.0, 0.0)
    target = parameters.target
    other = target._replace(mean=rng.normal(size=target.mean.shape), root=3.0 * target.root)
    changed = parameters._replace(domains=(parameters.domains[0], other))
    difference = bound(parameters, kind, rows) - bound(changed, kind, rows)
    of_prior = float(hidden_kl(other) - hidden_kl(target))
    assert abs(of_prior) > 1.0
    assert difference == pytest.approx(of_prior, rel=1e-9)
    x = rng.normal(size=(6, 2))
    for mine, theirs in zip(
        predictions(parameters, kind, rows, x), predictions(changed, kind, rows, x), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)


def test_units_that_are_copies_make_the_shares_of_no_account():
    rng = np.random.default_rng(2)
    rows = random_rows(rng, (5, 4))
    parameters = random_parameters(rng, rows, MEAN_FIELD)
    source, target = parameters.domains
    copied = ("inducing", "log_lengthscales", "mean", "root")
    target = target._replace(**{name: getattr(source, name) for name in copied})
    means, values = [], []
    for concentration in ([2.0, 5.0], [5.0, 2.0], [0.5, 1.0]):
        changed = parameters._replace(domains=(source, target), log_concentration=np.log(concentration))
        layer_of = tensors(changed)
        projections = [project(domain, tf.constant(rows.target.x)) for domain in layer_of.domains]
        means.append(mixed(projections, mixing_moments(layer_of)).mean.numpy())
        values.append(bound(changed, MEAN_FIELD, rows))
    np.testing.assert_allclose(means[1:], [means[0]] * 2, atol=1e-12)
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    assert values[0] != pytest.approx(values[2], rel=1e-6)


def test_a_source_without_weight_only_adds_its_own_terms():
    rng = np.random.default_rng(3)
    rows = random_rows(rng, (5, 3, 4))
    parameters = random_parameters(rng, rows, GAUSSIAN)._replace(log_concentration=np.log([1e-9, 2.0, 3.0]))
    rest = parameters._replace(domains=parameters.domains[1:], log_concentration=np.log([2.0, 3.0]))
    prior = np.array([1e-9, 1.0, 4.0])
    expected = bound(rest, GAUSSIAN, TransferRows(rows.sources[1:], rows.target), prior[1:])
    expected += bound(*_with_kind(alone(parameters, rows, 0)))
    assert bound(parameters, GAUSSIAN, rows, prior) == pytest.approx(expected, abs=1e-5)


def _with_kind(pair):
    return pair[0], GAUSSIAN, pair[1]


def test_identical_sources_share_the_weight_of_one():
    rng = np.random.default_rng(4)
    rows = random_rows(rng, (5, 4))
    twice = TransferRows((*rows.sources, *rows.sources), rows.target)
    parameters = random_parameters(rng, rows, GAUSSIAN)
    x = rng.normal(size=(6, 2))
    source, target = parameters.domains
    # The same function in both: independent copies have other variances, but the mean is the same.
    certain = source._replace(root=1e-6 * source.root, inducing=x[None, :3].repeat(3, axis=0))
    one = parameters._replace(domains=(certain, target), log_concentration=np.log([5e8, 4e8]))
    two = parameters._replace(domains=(certain, certain, target), log_concentration=np.log([2e8, 3e8, 4e8]))
    weights = best(one, GAUSSIAN, rows)[-1]
    weights = type(weights)(*map(tf.constant, weights))
    means = [
        target_outputs(tensors(values), GAUSSIAN, weights, tf.constant(x))[0].numpy() for values in (one, two)
    ]
    np.testing.assert_allclose(*means, atol=1e-7)
    assert twice.num_sources == 2


def test_a_domain_alone_is_a_deep_feed_forward_gp():
    rng = np.random.default_rng(5)
    kind = GAUSSIAN._replace(likelihood="noisy_probit")
    rows = random_rows(rng, (7, 6), weighted=True)
    parameters = random_parameters(rng, rows, kind, latent_noise=False, gain=0.0)
    expected = 0.0
    both = fixed_mixing(parameters, 0.0, 1.0)
    for domain, data in zip(both.domains, rows.domains, strict=True):
        head = DFGPHead(
            num_classes=3, num_hidden=3, num_hidden_inducing=3, output_kernel="linear", dtype="float64"
        )
        head.build((None, 2))
        head.outputs.jitter = 0.0  # K_ZZ is diagonal here and needs none
        units = head.hidden.units
        units.place(domain.inducing, np.exp(domain.log_lengthscales)[:, None].repeat(2, axis=1))
        units.q_mean.assign(domain.mean[:, None])
        units.q_sqrt.assign(domain.root[:, None])
        head.outputs.kernel.weights.assign(np.exp(domain.log_weights)[None])
        head.likelihood.noise_variance.assign(np.full(3, np.exp(domain.log_noise)))
        labels = tf.constant(np.argmax(data.codes, axis=1), tf.float64)
        expected += float(
            deep_collapsed_bound(head, *map(tf.constant, (data.x, labels.numpy(), data.weight)))
        )
    assert bound(both, kind, rows) == pytest.approx(expected, rel=1e-9)


def test_at_the_prior_nothing_diverges():
    rng = np.random.default_rng(6)
    rows = random_rows(rng, (5, 4))
    rows = TransferRows(tuple(_weightless(domain) for domain in rows.sources), _weightless(rows.target))
    parameters = random_parameters(rng, rows, GAUSSIAN)
    domains = tuple(
        domain._replace(mean=0.0 * domain.mean, root=np.tile(np.eye(3), (3, 1, 1)))
        for domain in parameters.domains
    )
    prior = np.array([2.0, 3.0])
    at_prior = parameters._replace(domains=domains, log_concentration=np.log(prior))
    assert bound(at_prior, GAUSSIAN, rows, prior) == pytest.approx(0.0, abs=1e-12)
    assert bound(parameters, GAUSSIAN, rows, prior) < -1.0


def _weightless(domain):
    return DomainRows(domain.x, domain.codes, np.zeros(len(domain)), domain.lengthscale)


def _permuted_rows(parameters, rows, rng):
    domains, data = [], []
    for domain, block in zip(parameters.domains, rows.domains, strict=True):
        order = rng.permutation(len(block))
        data.append(DomainRows(block.x[order], block.codes[order], block.weight[order], block.lengthscale))
        latent = None if domain.latent_mean is None else domain.latent_mean[order]
        domains.append(domain._replace(latent_mean=latent))
    return parameters._replace(domains=tuple(domains)), data


def _units_reordered(parameters, order, blocks):
    wide = np.concatenate([order + block * len(order) for block in range(blocks)])
    domains = []
    for domain in parameters.domains:
        parts = {
            name: getattr(domain, name)[order] for name in ("inducing", "log_lengthscales", "mean", "root")
        }
        latent = None if domain.latent_mean is None else domain.latent_mean[:, wide]
        domains.append(domain._replace(log_weights=domain.log_weights[wide], latent_mean=latent, **parts))
    return parameters._replace(domains=tuple(domains))


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
@pytest.mark.parametrize("what", ["rows", "units", "classes", "sources"])
def test_order_is_of_no_account(kind, what):
    rng = np.random.default_rng(7)
    rows = random_rows(rng, (4, 3, 5), weighted=True)
    num_hidden = 6 if what == "units" else 3
    parameters = random_parameters(rng, rows, kind, num_hidden=num_hidden)
    prior = np.array([2.0, 1.0, 3.0])
    expected = bound(parameters, kind, rows, prior)
    data, blocks = list(rows.domains), 3 if kind.is_symmetric else 1
    if what == "rows":
        parameters, data = _permuted_rows(parameters, rows, rng)
    elif what == "units":  # those that serve one class
        parameters = _units_reordered(parameters, np.array([3, 1, 5, 0, 4, 2]), blocks)
    elif what == "classes":  # with the units that serve them
        order = np.array([2, 0, 1])
        parameters = _units_reordered(parameters, order, blocks)
        data = [DomainRows(d.x, d.codes[:, order], d.weight, d.lengthscale) for d in data]
    else:
        parameters, data, prior = _sources_swapped(parameters, data, prior, kind)
    changed = TransferRows(tuple(data[:-1]), data[-1])
    assert bound(parameters, kind, changed, prior) == pytest.approx(expected, rel=1e-9)


def _sources_swapped(parameters, data, prior, kind):
    order = np.array([1, 0, 2])
    domains = [parameters.domains[number] for number in order]
    if kind.is_symmetric:
        wide = (order[:, None] * 3 + np.arange(3)).ravel()
        for number, domain in enumerate(domains):
            latent = None if domain.latent_mean is None else domain.latent_mean[:, wide]
            domains[number] = domain._replace(log_weights=domain.log_weights[wide], latent_mean=latent)
        return parameters._replace(domains=tuple(domains)), [data[n] for n in order], prior
    swapped = parameters._replace(
        domains=tuple(domains), log_concentration=parameters.log_concentration[order]
    )
    return swapped, [data[n] for n in order], prior[order]
