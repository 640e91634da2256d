"""The parameters of a transfer model as plain values, and as the one vector that an optimiser moves.

Nothing here holds state: a bound is a function of a `TransferParameters` of arrays or tensors. Hence one
compiled function serves all fits of equal shapes, in threads side by side too.

Axes: K sources, domains 1..K and the target; R hidden units of each domain, P_i inducing inputs of each unit
of domain i, D columns; R* units that an output function sees, R of them or, where all domains' units are
side by side, (K + 1) R; C output functions; N_i rows.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from gpmodels.transfer.rows import FloatArray

FORMS = ("integrated", "mean_field")
KINDS = ("asymmetric", "symmetric")
LIKELIHOODS = ("gaussian", "noisy_probit")

RANGES = {
    "log_lengthscales": (-7.0, 9.0),
    "log_weights": (-14.0, 6.0),
    "log_noise": (-12.0, 5.0),
    "log_latent_noise": (-12.0, 5.0),
    "log_latent_variance": (-14.0, 4.0),
    "log_concentration": (-7.0, 9.0),
}
"""Least and largest logarithms; a line search that leaves them runs into numbers that are not finite."""


class ModelKind(NamedTuple):
    """Which of the models this is.

    Attributes:
        form: `"integrated"`, in which the hidden layer's values D are integrated out, or `"mean_field"`, the
            paper's, with a Gaussian for each of them.
        kind: `"asymmetric"`, in which the sources' projections are mixed into the target's hidden layer, or
            `"symmetric"`, in which each domain has the projections of all domains side by side.
        likelihood: `"gaussian"` of the codes, or `"noisy_probit"`, one class against the rest.
    """

    form: str = "integrated"
    kind: str = "asymmetric"
    likelihood: str = "gaussian"

    def check(self) -> None:
        """Refuse a name that is not known.

        Raises:
            ValueError: The message names the argument and what it may be.
        """
        for name, value, allowed in zip(self._fields, self, (FORMS, KINDS, LIKELIHOODS), strict=True):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, but is {value!r}.")

    @property
    def is_symmetric(self) -> bool:
        """Whether each domain has the units of all domains side by side."""
        return self.kind == "symmetric"


class DomainParameters(NamedTuple):
    """What belongs to one domain, arrays or tensors.

    Attributes:
        inducing: W, inputs of the hidden units, `[R, P, D]`.
        log_lengthscales: log ℓ, one lengthscale for each hidden unit, `[R]`.
        mean: e, whitened, `[R, P]`.
        root: Lower triangular root of G, whitened, `[R, P, P]`.
        log_weights: log w, prior variances of the output functions' weights, `[R*]`.
        log_noise: log 1/β.
        log_latent_noise: log 1/λ, or log 1/α of the target; None where that is 0.
        latent_mean: η, means of the hidden layer's values under their mean-field posterior, `[N_i, R*]`; None
            where they are the projections' or integrated out.
        log_latent_variance: log 1/γ, their variance; None where they are integrated out.
    """

    inducing: Any
    log_lengthscales: Any
    mean: Any
    root: Any
    log_weights: Any
    log_noise: Any
    log_latent_noise: Any = None
    latent_mean: Any = None
    log_latent_variance: Any = None

    @property
    def num_hidden(self) -> int:
        """R."""
        return int(self.mean.shape[0])

    @property
    def num_inducing(self) -> int:
        """P_i."""
        return int(self.mean.shape[1])


class TransferParameters(NamedTuple):
    """All that a bound depends on besides the rows.

    Attributes:
        domains: The sources, then the target.
        gain: Mean of an output weight where the unit serves the output's class; elsewhere it is 0.
        log_concentration: log a of q(π) = Dir(a), `[K + 1]`; None of fixed mixing weights.
        mixing: π where it is fixed, `[K + 1]`; else None.
    """

    domains: tuple[DomainParameters, ...]
    gain: Any
    log_concentration: Any = None
    mixing: Any = None

    @property
    def target(self) -> DomainParameters:
        """The last domain."""
        return self.domains[-1]

    def leaves(self) -> Iterator[tuple[int, str, Any]]:
        """Yield the number of the domain (-1 of what they share), the name, and the value of each part."""
        for number, domain in enumerate(self.domains):
            for name, value in zip(domain._fields, domain, strict=True):
                if value is not None:
                    yield number, name, value
        for name in ("gain", "log_concentration", "mixing"):
            if getattr(self, name) is not None:
                yield -1, name, getattr(self, name)

    def as_arrays(self) -> "TransferParameters":
        """Return the same values as float64 arrays."""
        return gathered([(n, name, np.asarray(value, np.float64)) for n, name, value in self.leaves()])


def gathered(leaves: list[tuple[int, str, Any]]) -> TransferParameters:
    """Return parameters of parts as `TransferParameters.leaves` yields them."""
    parts: dict[int, dict[str, Any]] = {}
    for number, name, value in leaves:
        parts.setdefault(number, {})[name] = value
    shared = parts.pop(-1)
    return TransferParameters(tuple(DomainParameters(**parts[n]) for n in sorted(parts)), **shared)


class _Entry(NamedTuple):
    """One part of the parameters.

    Attributes:
        domain: Number of its domain, -1 of what the domains share.
        name: Its field.
        shape: Its shape.
        trained: Whether it is in the vector.
    """

    domain: int
    name: str
    shape: tuple[int, ...]
    trained: bool


@dataclass(frozen=True)
class Layout:
    """Where each part of the parameters is in the vector that an optimiser moves; a key for compiled code.

    Attributes:
        entries: The parts in order.
    """

    entries: tuple[_Entry, ...]

    @classmethod
    def of(cls, parameters: TransferParameters, fixed: Collection[str] = ()) -> "Layout":
        """Return the layout of some parameters.

        Args:
            parameters: Values of the right shapes.
            fixed: Names of the fields that stay as they are; inducing inputs and fixed mixing weights do in
                any case.
        """
        held = {"inducing", "mixing", *fixed}
        return cls(
            tuple(
                _Entry(number, name, tuple(map(int, np.shape(value))), name not in held)
                for number, name, value in parameters.leaves()
            )
        )

    def split(self, parameters: TransferParameters) -> tuple[FloatArray, list[FloatArray]]:
        """Return the vector of what is trained, and the parts that are not."""
        values = [np.asarray(value, np.float64) for _, _, value in parameters.leaves()]
        pairs = list(zip(self.entries, values, strict=True))
        trained = [value.ravel() for entry, value in pairs if entry.trained]
        return np.concatenate(trained), [value for entry, value in pairs if not entry.trained]

    def join(self, flat: Any, held: list[Any]) -> TransferParameters:
        """Return parameters from what `split` returned, of arrays or of tensors as `flat` is one."""
        leaves, start, rest = [], 0, iter(held)
        for entry in self.entries:
            if entry.trained:
                size = int(np.prod(entry.shape))
                piece = flat[start : start + size]
                start += size
                shaped = tf.reshape(piece, entry.shape) if tf.is_tensor(flat) else piece.reshape(entry.shape)
            else:
                shaped = next(rest)
            leaves.append((entry.domain, entry.name, shaped))
        return gathered(leaves)

    def ranges(self) -> tuple[FloatArray, FloatArray]:
        """Return the least and the largest value of each entry of the vector."""
        limits = [
            np.tile(RANGES.get(entry.name, (-np.inf, np.inf)), (int(np.prod(entry.shape)), 1))
            for entry in self.entries
            if entry.trained
        ]
        low, high = np.concatenate(limits).T
        return low, high
