"""The mixture posterior: limits, Monte Carlo, and one inside the other."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from gpmodels.autogp.posterior import MixturePosterior, bhattacharyya_distances, log_overlap_densities


def random_posterior(seed, num_components, *, covariance="full", spread=1.0, p=2, m=3):
    rng = np.random.default_rng(seed)
    posterior = MixturePosterior(
        num_latents=p, num_components=num_components, num_inducing=m, covariance=covariance
    )
    k = num_components
    posterior.q_mean.assign(spread * rng.normal(size=(p, k, m)))
    scale = rng.uniform(0.3, 1.0, size=(p, k, m))
    if covariance == "diagonal":
        posterior.q_sqrt.assign(scale)
    else:
        roots = np.tril(0.3 * rng.normal(size=(p, k, m, m)), -1)
        roots[..., np.arange(m), np.arange(m)] = scale
        posterior.q_sqrt.assign(roots)
    if posterior.logits is not None:
        posterior.logits.assign(rng.normal(size=k))
    return posterior


def sampled_kl(posterior, size=200_000, seed=0):
    """KL(q ‖ N(0, I)) by samples, and its standard error."""
    rng = np.random.default_rng(seed)
    weight = np.exp(posterior.log_weights().numpy())
    mean, roots = posterior.q_mean.numpy(), posterior.dense_roots().numpy()
    p, k, m = mean.shape
    chosen = rng.choice(k, size=size, p=weight / weight.sum())
    v = np.stack(
        [
            mean[j][chosen] + np.einsum("nab,nb->na", roots[j][chosen], rng.normal(size=(size, m)))
            for j in range(p)
        ]
    )  # [P, n, M]
    log_q = np.stack(
        [
            np.log(weight[c])
            + sum(
                scipy.stats.multivariate_normal(mean[j, c], roots[j, c] @ roots[j, c].T).logpdf(v[j])
                for j in range(p)
            )
            for c in range(k)
        ]
    )
    log_prior = np.sum(scipy.stats.norm.logpdf(v), axis=(0, 2))
    terms = scipy.special.logsumexp(log_q, axis=0) - log_prior
    return terms.mean(), terms.std() / np.sqrt(size)


def test_one_component_is_the_gaussian_divergence_and_jensen_is_short_by_a_constant():
    posterior = random_posterior(0, 1)
    mean, roots = posterior.q_mean.numpy(), posterior.q_sqrt.numpy()
    covariance = roots @ np.swapaxes(roots, -1, -2)
    exact = 0.5 * (
        np.sum(mean**2) + np.trace(covariance, axis1=-2, axis2=-1).sum() - mean.size
    ) - 0.5 * np.sum(np.linalg.slogdet(covariance)[1])
    assert float(posterior.prior_kl("pairwise")) == pytest.approx(exact, rel=1e-12)
    short = 0.5 * mean.size * (1.0 - np.log(2.0))
    assert float(posterior.prior_kl("jensen")) - exact == pytest.approx(short, rel=1e-12)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_equal_components_are_one(covariance):
    one = random_posterior(1, 1, covariance=covariance)
    several = random_posterior(1, 3, covariance=covariance)
    for name in ("q_mean", "q_sqrt"):
        value = getattr(one, name).numpy()
        getattr(several, name).assign(np.repeat(value, 3, axis=1))
    assert float(several.prior_kl("pairwise")) == pytest.approx(float(one.prior_kl("pairwise")), rel=1e-12)


def test_equal_weights_far_apart_gain_the_logarithm_of_their_number():
    several = random_posterior(2, 4, spread=100.0)
    several.logits.assign(np.zeros(4))
    apart = np.mean(
        [float(single.prior_kl("pairwise")) for single in (component(several, c) for c in range(4))]
    )
    assert float(several.prior_kl("pairwise")) == pytest.approx(apart - np.log(4.0), rel=1e-10)


def component(posterior, c):
    single = random_posterior(0, 1)
    single.q_mean.assign(posterior.q_mean.numpy()[:, c : c + 1])
    single.q_sqrt.assign(posterior.q_sqrt.numpy()[:, c : c + 1])
    return single


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_both_bounds_of_the_entropy_hold(seed, covariance):
    posterior = random_posterior(seed, 3, covariance=covariance, spread=0.5 * (seed + 1))
    sampled, error = sampled_kl(posterior, size=40_000)
    for entropy in ("pairwise", "jensen"):  # an entropy too small is a divergence too large
        assert float(posterior.prior_kl(entropy)) > sampled - 4 * error, entropy
    # The components' number alone would allow log 3 nats more.
    assert float(posterior.prior_kl("pairwise")) < sampled + 0.4 + 4 * error


@pytest.mark.parametrize("entropy", ["pairwise", "jensen"])
def test_diagonal_lies_inside_the_full_family(entropy):
    diagonal = random_posterior(3, 3, covariance="diagonal")
    full = random_posterior(3, 3)
    full.q_mean.assign(diagonal.q_mean.numpy())
    full.q_sqrt.assign(diagonal.dense_roots().numpy())
    full.logits.assign(diagonal.logits.numpy())
    assert float(full.prior_kl(entropy)) == pytest.approx(float(diagonal.prior_kl(entropy)), rel=1e-10)


def test_gradients_are_finite_where_components_coincide():
    posterior = MixturePosterior(num_latents=2, num_components=3, num_inducing=4)
    with tf.GradientTape() as tape:
        value = posterior.prior_kl("pairwise")
    gradients = tape.gradient(value, posterior.trainable_variables)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_distances_of_sharp_posteriors_are_right_in_float32():
    """Little noise makes S ill-conditioned, here by 1e10, and components that start from it nearly equal."""
    rng = np.random.default_rng(4)
    m = 20
    shared = np.linalg.qr(rng.normal(size=(m, m)))[0] * np.logspace(-5, 0, m)
    roots = np.stack([np.linalg.cholesky(s * shared @ shared.T) for s in (1.0, 1.5)])[None]  # [1, 2, M, M]
    mean = 1e-3 * rng.normal(size=(1, 2, m))
    roots, mean = tf.constant(roots, tf.float32), tf.constant(mean, tf.float32)
    exact_roots = roots.numpy()[0].astype(np.float64)
    first, second = exact_roots @ np.swapaxes(exact_roots, -1, -2)
    pooled = 0.5 * (first + second)
    difference = np.diff(mean.numpy()[0].astype(np.float64), axis=0)[0]
    log_det = {name: np.linalg.slogdet(s)[1] for name, s in {"k": first, "l": second, "p": pooled}.items()}
    quadratic = difference @ np.linalg.solve(pooled, difference)
    distance = 0.125 * quadratic + 0.5 * log_det["p"] - 0.25 * (log_det["k"] + log_det["l"])
    found = bhattacharyya_distances(mean, roots, is_diagonal=False)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, distance * (1.0 - np.eye(2)), rtol=1e-4)
    density = -0.5 * (0.5 * quadratic + log_det["p"] + m * np.log(2.0) + m * np.log(2.0 * np.pi))
    overlaps = log_overlap_densities(mean, roots, is_diagonal=False).numpy()
    assert overlaps[0, 1] == overlaps[1, 0] == pytest.approx(density, rel=1e-4)
