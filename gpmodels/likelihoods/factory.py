"""Likelihoods by name."""

from collections.abc import Callable

from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.counts import NegativeBinomialLikelihood, PoissonLikelihood
from gpmodels.likelihoods.gaussian import GaussianLikelihood
from gpmodels.likelihoods.logistic import LogisticLikelihood
from gpmodels.likelihoods.multilabel import MultilabelLikelihood
from gpmodels.likelihoods.names import COUNT_LIKELIHOODS, MULTILABEL, VOTES
from gpmodels.likelihoods.noisy_probit import NoisyProbitLikelihood
from gpmodels.likelihoods.probit import ProbitLikelihood
from gpmodels.likelihoods.robust_max import RobustMaxLikelihood
from gpmodels.likelihoods.softmax import SoftmaxLikelihood
from gpmodels.likelihoods.votes import VotesLikelihood

LIKELIHOODS = (
    "bernoulli",
    "logistic",
    "robust_max",
    "softmax",
    "noisy_probit",
    "gaussian",
    *COUNT_LIKELIHOODS,
    MULTILABEL,
    VOTES,
)

_BY_NUMBER: dict[str, Callable[[int], Likelihood]] = {
    "robust_max": RobustMaxLikelihood,
    "softmax": SoftmaxLikelihood,
    MULTILABEL: MultilabelLikelihood,
    VOTES: VotesLikelihood,
}


def make_likelihood(name: str, *, num_classes: int, num_units: int, dtype: str) -> Likelihood:
    """Return the likelihood of a name.

    Args:
        name: `"bernoulli"` (probit) or `"logistic"` of two classes, `"robust_max"`, `"softmax"`,
            `"noisy_probit"` (one class against the rest), `"gaussian"`, of counts `"poisson"` or
            `"negative_binomial"`, `"multilabel"` (several yes/no labels of a point), or `"votes"` (shares of
            the votes for each class).
        num_classes: C, or the number of labels; targets ignore it.
        num_units: GP units, the global one included; only targets have parameters for each.
        dtype: `"float32"` or `"float64"`.

    Raises:
        ValueError: The name is unknown, or the number of classes does not go with it.

    Example:
        >>> make_likelihood("softmax", num_classes=4, num_units=1, dtype="float32").num_latents
        4
    """
    if name not in LIKELIHOODS:
        raise ValueError(f"likelihood must be one of {LIKELIHOODS}, but is {name!r}.")
    if name == "gaussian":
        return GaussianLikelihood(num_units, dtype)
    if name in COUNT_LIKELIHOODS:
        return PoissonLikelihood(dtype) if name == "poisson" else NegativeBinomialLikelihood(num_units, dtype)
    if name in _BY_NUMBER:
        return _BY_NUMBER[name](num_classes)
    if name == "noisy_probit":
        return NoisyProbitLikelihood(num_classes, dtype)
    if num_classes != 2:
        raise ValueError(
            f"The likelihood {name!r} is for 2 classes, but num_classes is {num_classes}. "
            "Use 'robust_max' or 'softmax'."
        )
    return LogisticLikelihood() if name == "logistic" else ProbitLikelihood()
