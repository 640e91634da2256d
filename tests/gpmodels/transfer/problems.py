"""Small transfer problems, random parameters, and the models' densities written anew in NumPy."""

import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf

from gpmodels.transfer.bounds import best_posteriors, transfer_bound
from gpmodels.transfer.outputs import DomainData
from gpmodels.transfer.parameters import DomainParameters, ModelKind, TransferParameters
from gpmodels.transfer.rows import DomainRows, TransferRows, class_codes, mean_distance
from gpmodels.transfer.trained import with_parts

JITTER = 1e-6
LATENT_NOISE = 0.2


def domain_rows(x, codes, weight=None):
    return DomainRows(x, codes, np.ones(len(x)) if weight is None else weight, mean_distance(x))


def random_rows(rng, sizes=(5, 4), columns=2, classes=3, *, weighted=False):
    """Return rows of domains of these sizes, the target last; real targets where `classes` is 1."""
    domains = []
    for size in sizes:
        x = rng.normal(size=(size, columns))
        labels = rng.permutation(np.arange(size) % classes)
        codes = class_codes(labels, classes) if classes > 1 else rng.normal(size=(size, 1))
        domains.append(domain_rows(x, codes, rng.uniform(0.5, 2.0, size) if weighted else None))
    return TransferRows(tuple(domains[:-1]), domains[-1], is_classifier=classes > 1)


def random_parameters(rng, rows, kind, *, num_hidden=3, num_inducing=3, latent_noise=True, gain=0.7):
    """Return parameters of a model, all of them random."""
    blocks = len(rows.domains) if kind.is_symmetric else 1
    width = num_hidden * blocks
    domains = []
    for number, data in enumerate(rows.domains):
        size = (num_hidden, num_inducing)
        free = kind.form == "mean_field" and (kind.is_symmetric or number == rows.num_sources)
        domains.append(
            DomainParameters(
                inducing=rng.normal(size=(*size, data.x.shape[1])),
                log_lengthscales=rng.uniform(-0.3, 0.5, num_hidden),
                mean=rng.normal(size=size),
                root=np.tril(rng.normal(size=(*size, num_inducing)) * 0.2 + 0.6 * np.eye(num_inducing)),
                log_weights=rng.uniform(-1.5, 0.0, width),
                log_noise=np.array(rng.uniform(-1.0, 0.0)),
                log_latent_noise=np.log(LATENT_NOISE) + rng.uniform(0, 0.3) if latent_noise else None,
                latent_mean=rng.normal(size=(len(data), width)) if free else None,
                log_latent_variance=np.array(rng.uniform(-2, -1)) if kind.form == "mean_field" else None,
            )
        )
    mixes = not kind.is_symmetric and rows.num_sources > 0
    concentration = np.log(rng.uniform(1.0, 4.0, len(rows.domains))) if mixes else None
    fixed = np.full(len(rows.domains), 1.0 / len(rows.domains)) if not mixes else None
    return TransferParameters(tuple(domains), np.array(gain), concentration, fixed).as_arrays()


def tensors(parameters):
    return with_parts(parameters, lambda value: tf.constant(value, tf.float64))


def data_of(rows):
    return [
        DomainData(*(tf.constant(part, tf.float64) for part in (d.x, d.codes, d.weight)))
        for d in rows.domains
    ]


def bound(parameters, kind, rows, prior=None):
    prior = np.full(len(rows.domains), 2.0) if prior is None else prior
    return float(transfer_bound(tensors(parameters), kind, data_of(rows), tf.constant(prior, tf.float64)))


def best(parameters, kind, rows):
    outputs = best_posteriors(tensors(parameters), kind, data_of(rows))
    return [type(output)(*(part.numpy() for part in output)) for output in outputs]


def basis(domain, x):
    """Return whitened kernel vectors `[R, N, P]` of a domain's units at x."""
    result = []
    for inducing, log_lengthscale in zip(domain.inducing, domain.log_lengthscales, strict=True):
        scale = np.exp(log_lengthscale)

        def kernel(a, b, scale=scale):
            return np.exp(-0.5 * np.sum((a[:, None] - b) ** 2, axis=-1) / scale**2)

        root = np.linalg.cholesky(kernel(inducing, inducing) + JITTER * np.eye(len(inducing)))
        result.append(np.linalg.solve(root, kernel(inducing, x)).T)
    return np.stack(result)


def normal_log_density(value, mean, variance):
    return -0.5 * (np.log(2 * np.pi * variance) + (value - mean) ** 2 / variance)


def served_by(parameters, kind, num_outputs):
    num_hidden = len(parameters.target.mean)
    blocks = len(parameters.domains) if kind.is_symmetric else 1
    return (np.tile(np.arange(num_hidden) % num_outputs, blocks) == np.arange(num_outputs)[:, None]) * 1.0


def log_likelihood(kind, f, codes, weight, noise):
    """Return Σ_n ω_n log p(y_n | f_n) of samples of f `[S, N, C]`."""
    if kind.likelihood == "gaussian":
        terms = normal_log_density(codes, f, noise)
    else:
        terms = scipy.special.log_ndtr(np.where(codes > 0, 1.0, -1.0) * f / np.sqrt(1 + noise))
    return np.sum(weight[:, None] * terms, axis=(1, 2))


def hidden_values(parameters, kind, rows, latents, mixing, rng):
    """Return, of each domain, samples of what its hidden layer's values have as their mean, `[S, N, R*]`."""
    layers = []
    for i, data in enumerate(rows.domains):
        values = []
        for domain, z in zip(parameters.domains, latents, strict=True):
            k = basis(domain, data.x)  # [R, N, P]
            mean = np.einsum("rnp,srp->snr", k, z)
            open_variance = np.maximum(1.0 - np.sum(k**2, axis=2).T, 0.0)
            values.append(mean + np.sqrt(open_variance) * rng.normal(size=mean.shape))
        if kind.is_symmetric:
            layers.append(np.concatenate(values, axis=2))
        elif i < rows.num_sources:
            layers.append(values[i])
        else:
            layers.append(np.einsum("sj,jsnr->snr", mixing, np.stack(values)))
    return layers


def sampled_bound(parameters, kind, rows, prior, *, size, rng):
    """Return mean and standard error of log p(y, all) - log Q(all) under Q, the best q(u) in it."""
    value = np.zeros(size)
    latents = []
    for domain in parameters.domains:
        noise = rng.normal(size=(size, *domain.mean.shape))
        latents.append(domain.mean + np.einsum("rpq,srq->srp", domain.root, noise))
        log_det = np.sum(np.log(np.abs(np.diagonal(domain.root, axis1=1, axis2=2))))
        value += log_det + 0.5 * np.sum(noise**2 - latents[-1] ** 2, axis=(1, 2))
    mixing = None
    if parameters.log_concentration is not None:
        a = np.exp(parameters.log_concentration)
        mixing = rng.dirichlet(a, size)
        value += scipy.stats.dirichlet(prior).logpdf(mixing.T) - scipy.stats.dirichlet(a).logpdf(mixing.T)
    elif not kind.is_symmetric:
        mixing = np.tile(parameters.mixing, (size, 1))
    layers = hidden_values(parameters, kind, rows, latents, mixing, rng)
    outputs = best(parameters, kind, rows)
    for i, (domain, data, layer) in enumerate(zip(parameters.domains, rows.domains, layers, strict=True)):
        latent = 0.0 if domain.log_latent_noise is None else np.exp(domain.log_latent_noise)
        if kind.form == "integrated":
            d = layer + np.sqrt(latent) * rng.normal(size=layer.shape)
        else:
            mean = domain.latent_mean
            if mean is None:  # a source's values have the means of its units
                mean = np.einsum("rnp,rp->nr", basis(parameters.domains[i], data.x), domain.mean)
            variance = np.exp(domain.log_latent_variance)
            d = mean + np.sqrt(variance) * rng.normal(size=layer.shape)
            terms = normal_log_density(d, layer, latent) - normal_log_density(d, mean, variance)
            value += np.sum(terms, axis=(1, 2))
        u, log_ratio = sampled_weights(parameters, kind, domain, outputs[i], size, rng)
        value += log_ratio
        f = np.einsum("snr,scr->snc", d, u)
        value += log_likelihood(kind, f, data.codes, data.weight, np.exp(domain.log_noise))
    return value.mean(), value.std() / np.sqrt(size)


def sampled_weights(parameters, kind, domain, output, size, rng):
    """Return samples of u `[S, C, R*]` and log p(u) - log q(u)."""
    root = np.linalg.cholesky(output.covariance)
    noise = rng.normal(size=(size, *output.mean.shape))
    u = output.mean + noise @ root.T
    log_q = -0.5 * np.sum(noise**2 + np.log(2 * np.pi), axis=(1, 2))
    log_q -= len(output.mean) * np.sum(np.log(np.diag(root)))
    prior = parameters.gain * served_by(parameters, kind, len(output.mean))
    log_p = np.sum(normal_log_density(u, prior, np.exp(domain.log_weights)), axis=(1, 2))
    return u, log_p - log_q


def sampled_evidence(parameters, kind, rows, prior, *, size, rng):
    """Return log p(y) by sampling the model's prior, and its standard error."""
    latents = [rng.normal(size=(size, *domain.mean.shape)) for domain in parameters.domains]
    mixing = None if kind.is_symmetric else rng.dirichlet(prior, size)
    layers = hidden_values(parameters, kind, rows, latents, mixing, rng)
    value = np.zeros(size)
    for domain, data, layer in zip(parameters.domains, rows.domains, layers, strict=True):
        latent = 0.0 if domain.log_latent_noise is None else np.exp(domain.log_latent_noise)
        d = layer + np.sqrt(latent) * rng.normal(size=layer.shape)
        mean = parameters.gain * served_by(parameters, kind, data.codes.shape[1])
        u = mean + np.exp(0.5 * domain.log_weights) * rng.normal(size=(size, *mean.shape))
        f = np.einsum("snr,scr->snc", d, u)
        value += log_likelihood(kind, f, data.codes, data.weight, np.exp(domain.log_noise))
    weights = np.exp(value - value.max())
    return np.log(weights.mean()) + value.max(), weights.std() / weights.mean() / np.sqrt(size)


GAUSSIAN = ModelKind()
KINDS = [
    ModelKind(form, kind, "gaussian")
    for form in ("integrated", "mean_field")
    for kind in ("asymmetric", "symmetric")
]
