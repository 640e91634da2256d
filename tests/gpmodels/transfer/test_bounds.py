"""The bounds against sampling of the models, and the evidence above them."""

import numpy as np
import pytest
import tensorflow as tf

from gpmodels.transfer.bounds import transfer_bound
from gpmodels.transfer.hidden import mixed, mixing_moments, project
from gpmodels.transfer.mixing import dirichlet_nodes
from gpmodels.transfer.outputs import OutputPosterior, output_moments
from gpmodels.transfer.parameters import Layout, ModelKind
from gpmodels.transfer.training import Objective, _maximised
from tests.gpmodels.transfer.problems import (
    GAUSSIAN,
    KINDS,
    best,
    bound,
    data_of,
    random_parameters,
    random_rows,
    sampled_bound,
    sampled_evidence,
    tensors,
)

PRIORS = {1: np.array([2.0, 3.0]), 2: np.array([2.0, 1.5, 3.0])}


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("num_sources", [1, 2])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_bound_is_that_of_sampling(kind, num_sources):
    rng = np.random.default_rng(num_sources)
    rows = random_rows(rng, (4, 3, 4)[-1 - num_sources :], weighted=True)
    parameters = random_parameters(rng, rows, kind)
    prior = PRIORS[num_sources]
    mean, error = sampled_bound(parameters, kind, rows, prior, size=40_000, rng=rng)
    assert error < 0.4
    assert bound(parameters, kind, rows, prior) == pytest.approx(mean, abs=4 * error)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_bound_of_classes_is_below_that_of_sampling(kind):
    rng = np.random.default_rng(3)
    kind = kind._replace(likelihood="noisy_probit")
    rows = random_rows(rng, (4, 4))
    parameters = random_parameters(rng, rows, kind)
    mean, error = sampled_bound(parameters, kind, rows, PRIORS[1], size=20_000, rng=rng)
    value = bound(parameters, kind, rows, PRIORS[1])
    assert mean - 15.0 < value < mean - 4 * error


def tiny(seed, kind):
    """One unit, one output, six real targets: what sampling from the prior can integrate."""
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, (3, 3), columns=1, classes=1)
    parameters = random_parameters(rng, rows, kind, num_hidden=1, gain=0.5)
    domains = []
    for number, domain in enumerate(parameters.domains):
        free = number == 1 and kind.form == "mean_field"
        domains.append(
            domain._replace(
                inducing=rows.domains[number].x[None],
                log_lengthscales=np.zeros(1),
                log_weights=np.array([np.log(0.5)]),
                log_noise=np.array(0.0),
                log_latent_noise=np.array(np.log(0.25)),
                latent_mean=np.zeros((3, 1)) if free else None,
            )
        )
    return rows, parameters._replace(domains=tuple(domains), log_concentration=np.log([2.0, 2.0]))


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_both_forms_are_below_the_evidence_and_the_integrated_one_is_the_tighter(seed):
    prior = np.array([2.0, 2.0])
    hyper = {"gain", "log_lengthscales", "log_weights", "log_noise", "log_latent_noise"}
    values = {}
    for form in ("integrated", "mean_field"):
        kind = ModelKind(form)
        rows, parameters = tiny(seed, kind)
        objective = Objective(parameters, kind, rows, prior, hyper)
        values[form] = objective.bound(_maximised(objective, parameters, 200, [], None))
    rng = np.random.default_rng(7)
    evidence, error = sampled_evidence(parameters, kind, rows, prior, size=200_000, rng=rng)
    assert error < 0.02
    assert values["integrated"] < evidence + 4 * error
    # 1.5 nats on these six targets, so that a bound without its constants would show.
    assert values["integrated"] > evidence - 2.5
    assert values["mean_field"] < values["integrated"] - 0.5


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("likelihood", ["gaussian", "noisy_probit"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_gradient_is_that_of_finite_differences(kind, likelihood):
    rng = np.random.default_rng(5)
    kind = kind._replace(likelihood=likelihood)
    rows = random_rows(rng, (3, 4))
    parameters = random_parameters(rng, rows, kind)
    layout = Layout.of(parameters)
    flat, held = layout.split(parameters)
    data, prior = data_of(rows), tf.constant(PRIORS[1])
    with tf.GradientTape() as tape:
        point = tf.constant(flat)
        tape.watch(point)
        value = transfer_bound(layout.join(point, [tf.constant(part) for part in held]), kind, data, prior)
    gradient = tape.gradient(value, point).numpy()
    direction = rng.normal(size=len(flat))
    mixing = np.array([entry.name == "log_concentration" for entry in layout.entries if entry.trained])
    sizes = [int(np.prod(entry.shape)) for entry in layout.entries if entry.trained]
    of_mixing = direction * np.repeat(mixing, sizes)
    for along in (direction, *([] if kind.is_symmetric else [of_mixing])):
        ends = [
            bound(layout.join(flat + step * along, held), kind, rows, PRIORS[1]) for step in (1e-5, -1e-5)
        ]
        finite = np.subtract(*ends) / 2e-5
        assert finite != 0.0
        assert gradient @ along == pytest.approx(finite, rel=1e-5)


def test_the_best_output_weights_are_the_best():
    """Moving q(u) of the target away from the best lowers data terms minus divergence."""
    rng = np.random.default_rng(6)
    rows = random_rows(rng, (5, 4), weighted=True)
    parameters = random_parameters(rng, rows, GAUSSIAN)
    output = best(parameters, GAUSSIAN, rows)[-1]
    target, data = parameters.target, rows.target
    values = tensors(parameters)
    projections = [project(domain, tf.constant(data.x)) for domain in values.domains]
    layer = mixed(projections, mixing_moments(values)).with_noise(np.exp(target.log_latent_noise))
    served = np.arange(3) == np.arange(3)[:, None]

    def value(mean, covariance):
        moments = output_moments(OutputPosterior(tf.constant(mean), tf.constant(covariance)), layer)
        mu, v = (part.numpy() for part in moments)
        noise, weights = np.exp(target.log_noise), np.exp(target.log_weights)
        terms = -0.5 * (np.log(2 * np.pi * noise) + ((data.codes - mu) ** 2 + v) / noise)
        away = mean - parameters.gain * served
        log_ratio = np.log(weights).sum() - np.linalg.slogdet(covariance)[1]
        kl = 0.5 * (np.trace(covariance / weights) - 3 + log_ratio) * 3 + 0.5 * np.sum(away**2 / weights)
        return np.sum(data.weight[:, None] * terms) - kl

    at_best = value(*output)
    for _ in range(5):
        assert value(output.mean + 0.05 * rng.normal(size=output.mean.shape), output.covariance) < at_best
        scale = np.diag(np.exp(0.1 * rng.normal(size=3)))
        assert value(output.mean, scale @ output.covariance @ scale) < at_best


@pytest.mark.parametrize("sizes", [(3, 4), (3, 2, 4)])
def test_moments_of_the_mixture_are_those_of_its_nodes(sizes):
    """A linear output sees of q(π) two moments, so that the bound needs no quadrature."""
    rng = np.random.default_rng(8)
    rows = random_rows(rng, sizes)
    values = tensors(random_parameters(rng, rows, GAUSSIAN))
    output = OutputPosterior(tf.constant(rng.normal(size=(3, 3))), tf.eye(3, dtype=tf.float64))
    projections = [project(domain, tf.constant(rows.target.x)) for domain in values.domains]
    mean, variance = output_moments(output, mixed(projections, mixing_moments(values)))
    nodes = dirichlet_nodes(np.exp(values.log_concentration.numpy()))
    first, second = 0.0, 0.0
    for mixing, share in zip(*nodes, strict=True):
        fixed = values._replace(log_concentration=None, mixing=tf.constant(mixing))
        mu, v = output_moments(output, mixed(projections, mixing_moments(fixed)))
        first, second = first + share * mu, second + share * (v + mu**2)
    np.testing.assert_allclose(mean, first, atol=1e-10)
    np.testing.assert_allclose(variance, second - first**2, atol=1e-10)
