"""Where training of a transfer model starts: one ridge regression for the units of all domains together.

Unit r serves class r mod C in every domain, which aligns the domains' hidden layers. For given mixing weights
all its inducing values, of all domains, are solved for at once, whitened, so that each row's code of that
class is met by what the output will see of it:

    source rows    code ≈ kᵀe_k                     target rows    code ≈ Σ_j π_j k_jᵀe_j

The normal equations' matrix is the posterior precision of the inducing values for outputs that read the units
directly, so that the inverse of a domain's block of it is the best G of a posterior that keeps domains apart.
Fitting each domain by itself and mixing afterwards, as the paper's program does, costs 3 points of accuracy.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpmodels.transfer.hidden import hidden_basis, joined_units, project
from gpmodels.transfer.parameters import DomainParameters, ModelKind, TransferParameters
from gpmodels.transfer.rows import DomainRows, FloatArray, TransferRows

RIDGE = 0.1
"""Noise variance of the least squares, relative to the prior variance of a unit."""

START_NOISE = 0.3
"""1/β of codes relative to their variance: the part of the codes that few rows cannot explain."""

START_WEIGHT_VARIANCE = 1e-2
"""w of the output's weights relative to the squared gain: they start near their mean."""

START_PROBIT_NOISE = 1.0
START_PROBIT_VARIANCE = 2.0
"""Of noisy probit: 1/β, and the prior variance of the output functions, where Φ tells classes apart."""

START_LATENT_SHARE = 0.1
"""1/γ of form B relative to 1/λ."""


def start_parameters(  # noqa: PLR0913 - so many things make a start
    rows: TransferRows,
    kind: ModelKind,
    *,
    mixing: FloatArray,
    concentration: FloatArray | None,
    num_hidden: int,
    num_inducing: int,
    latent_noise: float,
    rng: np.random.Generator,
    output_prior: str = "identity",
) -> TransferParameters:
    """Return where training starts.

    Args:
        rows: Rows of all domains.
        kind: Which model.
        mixing: π for which the units are fitted, `[K + 1]`.
        concentration: a of q(π); None where the mixing weights stay as they are.
        num_hidden: R.
        num_inducing: P; a domain with fewer distinct rows takes those.
        latent_noise: 1/λ and 1/α; 0 for none.
        rng: Chooses rows.
        output_prior: `"identity"`, or `"zero"` for outputs without a prior mean.
    """
    served = np.arange(num_hidden) % rows.num_outputs
    blocks = len(rows.domains) if kind.is_symmetric else 1
    width = num_hidden * blocks
    spread = _code_variance(rows)
    # An output is the sum of its class's units of variance 1: it starts with the variance of the codes.
    per_class = width / rows.num_outputs
    is_probit = kind.likelihood == "noisy_probit"
    gain = np.sqrt((START_PROBIT_VARIANCE if is_probit else spread) / per_class)
    noise = START_PROBIT_NOISE if is_probit else START_NOISE * spread
    domains = [_placed(domain, served, num_inducing, rows.is_classifier, rng) for domain in rows.domains]
    scale = 1.0 / np.sqrt(spread * per_class)
    domains = _fitted(domains, rows, served, mixing, scale, symmetric=kind.is_symmetric)
    completed = []
    for domain in domains:
        parts = {
            "log_weights": np.full(width, np.log(START_WEIGHT_VARIANCE * gain**2)),
            "log_noise": np.array(np.log(noise)),
            "log_latent_noise": np.array(np.log(latent_noise)) if latent_noise > 0.0 else None,
        }
        if kind.form == "mean_field":
            parts["log_latent_variance"] = np.array(np.log(START_LATENT_SHARE * latent_noise))
        completed.append(domain._replace(**parts))
    if kind.form == "mean_field":
        completed = _with_latent_means(completed, rows, mixing, symmetric=kind.is_symmetric)
    return TransferParameters(
        domains=tuple(completed),
        gain=np.array(gain if output_prior == "identity" else 0.0),
        log_concentration=None if concentration is None else np.log(concentration),
        mixing=np.array(mixing) if concentration is None else None,
    )


def _code_variance(rows: TransferRows) -> float:
    """Return the mean square of the codes of all domains, or 1 where they are all 0."""
    square = float(np.mean(np.concatenate([np.square(domain.codes) for domain in rows.domains])))
    return square if square > 0.0 else 1.0


def _placed(
    domain: DomainRows, served: npt.NDArray[np.intp], size: int, is_classifier: bool, rng: np.random.Generator
) -> DomainParameters:
    """Return a domain's units with inducing inputs and lengthscales, all else empty."""
    _, first = np.unique(domain.x, axis=0, return_index=True)
    first = np.sort(first)
    labels = np.argmax(domain.codes[first], axis=1) if is_classifier else None
    size = min(size, len(first))
    chosen = [first[_choice(labels, label, size, len(first), rng)] for label in served]
    inducing = np.asarray(domain.x, np.float64)[np.stack(chosen)]
    return DomainParameters(
        inducing=inducing,
        log_lengthscales=np.full(len(served), np.log(domain.lengthscale)),
        mean=np.zeros(inducing.shape[:2]),
        root=np.tile(np.eye(size), (len(served), 1, 1)),
        log_weights=None,
        log_noise=None,
    )


def _choice(
    labels: npt.NDArray[np.intp] | None, label: int, size: int, count: int, rng: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Return indices of different rows, a third of them of the class if there are so many."""
    order = rng.permutation(count)
    if labels is None or size == count:
        return np.sort(order[:size])
    own = order[labels[order] == label]
    others = order[labels[order] != label]
    share = min(max(size // 3, size - len(others)), len(own))
    # Where the other classes have too few rows, more of the class.
    return np.sort(np.concatenate([own[:share], others[: size - share]]))


def _fitted(
    domains: Sequence[DomainParameters],
    rows: TransferRows,
    served: npt.NDArray[np.intp],
    mixing: FloatArray,
    scale: float,
    *,
    symmetric: bool,
) -> list[DomainParameters]:
    """Return the domains with e and the roots of G from the ridge regression of each unit on scaled codes."""
    sizes = [domain.num_inducing for domain in domains]
    ends = np.cumsum(sizes)
    slices = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    precision = np.tile(np.eye(ends[-1]), (len(served), 1, 1))
    side = np.zeros([len(served), ends[-1]])
    for i, data in enumerate(rows.domains):
        x = tf.constant(data.x, tf.float64)
        is_mixed = symmetric or i == len(domains) - 1
        design = np.zeros([len(served), len(data), ends[-1]])
        for j, (domain, part) in enumerate(zip(domains, slices, strict=True)):
            share = mixing[j] if is_mixed else float(i == j)
            if share:
                design[:, :, part] = share * hidden_basis(domain, x).numpy()
        weighted = np.swapaxes(design * data.weight[:, None], 1, 2) / RIDGE  # [R, L, N]
        precision += weighted @ design
        side += np.einsum("rln,nr->rl", weighted, scale * data.codes[:, served])
    solved = np.linalg.solve(precision, side[..., None])[..., 0]
    return [
        domain._replace(
            mean=solved[:, part], root=np.linalg.cholesky(np.linalg.inv(precision[:, part, part]))
        )
        for domain, part in zip(domains, slices, strict=True)
    ]


def _with_latent_means(
    domains: Sequence[DomainParameters], rows: TransferRows, mixing: FloatArray, *, symmetric: bool
) -> list[DomainParameters]:
    """Return the domains with the free η of form B at the means of their hidden layers."""
    completed = list(domains)
    for i, data in enumerate(rows.domains):
        if not symmetric and i < len(domains) - 1:
            continue
        projections = [project(domain, tf.constant(data.x, tf.float64)) for domain in domains]
        if symmetric:
            mean = joined_units(projections).mean.numpy()
        else:
            means = [projection.mean.numpy() for projection in projections]
            mean = np.tensordot(mixing, np.stack(means), 1)
        completed[i] = completed[i]._replace(latent_mean=mean)
    return completed
