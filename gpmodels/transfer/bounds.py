"""The bounds on the evidence that transfer models maximise, at the best q(u).

Form A, `"integrated"`. With the values D of the hidden layers kept as the model has them given B and π,
Q = p(D | B, π) p(B | V) q(V) q(π) q(U), they drop out of log p - log Q:

    ℒ_A = Σ_i ℓ_i - Σ KL(u) - Σ KL(v) - KL(π)

with the data terms ℓ_i of `gpmodels.transfer.outputs` under the hidden layer's own moments. Where 1/λ and
1/α are 0 as well, a source is a deep feed-forward GP and nothing else.

Form B, `"mean_field"`. The paper's Q has a Gaussian for each value, q(d_n^t) = N(η_n, I/γ_t) and
q(d_n^k) = N(b̄_n^k, I/γ_k). The data terms are those under these Gaussians, and there come

    H_i = (N_i R*/2)(1 + log 2π - log γ_i)
    T_i = (N_i R*/2) log(λ/2π) - (λ/2)[N_i R*/γ_i + Σ_n E|E_q[d_n] - d̄_n|²],   α for λ where i is the target

where the last expectation is that of the squared distance between η_n (or b̄_n) and the hidden layer's mean,
with the moments of `gpmodels.transfer.hidden`. It is a lower bound too, but looser: by 3 nats on six labels.

Both hold for units that are mixed (ATL-DGP) and for units side by side (STL-DGP), where each η is free.
Weights of rows multiply the data terms alone.

Source:
    docs/theory.md; the paper's bound lacks -E[log Q] and several constants, so that it exceeds the evidence.
"""

from collections.abc import Sequence

import tensorflow as tf
from check_shapes import check_shapes

from gpmodels.transfer.hidden import (
    LayerMoments,
    hidden_kl,
    latent_noise,
    layers,
    served_classes,
    target_layer,
)
from gpmodels.transfer.mixing import dirichlet_kl
from gpmodels.transfer.outputs import (
    DomainData,
    OutputPosterior,
    best_outputs,
    collapsed_outputs,
    output_moments,
    prior_mean,
)
from gpmodels.transfer.parameters import DomainParameters, ModelKind, TransferParameters


@check_shapes("prior: [J]", "return: []")
def transfer_bound(
    parameters: TransferParameters, kind: ModelKind, data: Sequence[DomainData], prior: tf.Tensor
) -> tf.Tensor:
    """Return the bound on the log evidence of all rows' codes, nats, at the best q(u) of each domain.

    Args:
        parameters: All else, tensors.
        kind: Which model and which form of the bound.
        data: Rows of each domain, the target last.
        prior: a⁰ of the mixing weights; not used where they are fixed or where there are none.
    """
    moments = layers(parameters, [rows.x for rows in data], symmetric=kind.is_symmetric)
    bound = tf.constant(0.0, tf.float64)
    for domain, layer, rows in zip(parameters.domains, moments, data, strict=True):
        seen = _as_outputs_see(domain, layer, kind)
        mean = _prior_mean(parameters, kind, rows.codes.shape[1])
        bound += collapsed_outputs(domain, seen, rows, mean, kind.likelihood) - hidden_kl(domain)
        if kind.form == "mean_field":
            bound += _latent_terms(domain, layer, seen)
    if parameters.log_concentration is not None:
        bound -= dirichlet_kl(tf.exp(parameters.log_concentration), prior)
    return bound


def best_posteriors(
    parameters: TransferParameters, kind: ModelKind, data: Sequence[DomainData]
) -> tuple[OutputPosterior, ...]:
    """Return the best q(u) of each domain; arguments as for `transfer_bound`."""
    moments = layers(parameters, [rows.x for rows in data], symmetric=kind.is_symmetric)
    return tuple(
        best_outputs(
            domain,
            _as_outputs_see(domain, layer, kind),
            rows,
            _prior_mean(parameters, kind, rows.codes.shape[1]),
            kind.likelihood,
        )
        for domain, layer, rows in zip(parameters.domains, moments, data, strict=True)
    )


@check_shapes("x: [N, D]", "return[0]: [N, C]", "return[1]: [N, C]")
def target_outputs(
    parameters: TransferParameters, kind: ModelKind, outputs: OutputPosterior, x: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return mean and variance of the target's output functions at any rows of the target.

    A new row has no Gaussian of its own in its hidden layer, so that both forms predict from its moments.

    Args:
        parameters: Of the model.
        kind: Which model.
        outputs: q(u) of the target.
        x: Scaled rows.
    """
    layer = target_layer(parameters, x, symmetric=kind.is_symmetric)
    return output_moments(outputs, layer.with_noise(latent_noise(parameters.target)))


def _prior_mean(parameters: TransferParameters, kind: ModelKind, num_outputs: int) -> tf.Tensor:
    blocks = len(parameters.domains) if kind.is_symmetric else 1
    served = served_classes(parameters.target.num_hidden, blocks, num_outputs)
    return prior_mean(tf.convert_to_tensor(parameters.gain), served, num_outputs)


def _as_outputs_see(domain: DomainParameters, layer: LayerMoments, kind: ModelKind) -> LayerMoments:
    """Return the moments of d under Q at the domain's own rows."""
    if kind.form == "integrated":
        return layer.with_noise(latent_noise(domain))
    mean = layer.mean if domain.latent_mean is None else tf.convert_to_tensor(domain.latent_mean)
    variance = tf.exp(tf.convert_to_tensor(domain.log_latent_variance))
    return LayerMoments(mean, layer.spread[:0], variance + tf.zeros_like(mean))


def _latent_terms(domain: DomainParameters, layer: LayerMoments, seen: LayerMoments) -> tf.Tensor:
    """Return H_i + T_i of form B; 2π cancels between them."""
    log_noise, log_variance = map(tf.convert_to_tensor, (domain.log_latent_noise, domain.log_latent_variance))
    count = tf.cast(tf.size(layer.mean), tf.float64)  # N_i R*
    apart = tf.reduce_sum(tf.square(seen.mean - layer.mean)) + tf.reduce_sum(tf.square(layer.spread))
    apart += tf.reduce_sum(layer.variance) + count * tf.exp(log_variance)
    return 0.5 * count * (1.0 + log_variance - log_noise) - 0.5 * apart * tf.exp(-log_noise)
