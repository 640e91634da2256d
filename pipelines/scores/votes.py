"""Scores of predictions by the votes of several people.

With shares s of the votes and probabilities p, the mean loss of a vote is -Σ s log p = H(s) + KL(s, p): no
model gets below the entropy of the votes, H(s), and the rest is what it does not know of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Unpack

import numpy as np
import scipy.special
from numpy.typing import NDArray

from pipelines.scores.classification import CLASSIFICATION_SCORES, ClassificationRecord, classification_record
from pipelines.scores.definitions import FloatArray, Score, ratio
from pipelines.scores.results import Measured, MethodResult, classification_result, score_values
from pipelines.scores.uncertainty import MUTUAL_INFORMATION, PREDICTIVE_ENTROPY

_EPSILON = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class VoteRecord:
    """The prediction of an example, judged by the class with most votes and by the votes.

    Attributes:
        of_most: By the class with most votes.
        loss: -Σ s log p, nats.
        brier: Σ (p - s)².
        disagreement: H(s), nats.
        expected_entropy: What the model says that more data would not remove, nats.
    """

    of_most: ClassificationRecord
    loss: float
    brier: float
    disagreement: float
    expected_entropy: float


def vote_record(
    name: str, shares: FloatArray, probability: NDArray[Any], outputs: Mapping[str, NDArray[Any]]
) -> VoteRecord:
    """Return the record of one prediction.

    Args:
        name: Of the example.
        shares: Of the votes, `[C]`.
        probability: Of each class, `[C]`.
        outputs: Of the model, with its uncertainties.

    Example:
        >>> outputs = {"predictive_entropy": np.array(0.69), "mutual_information": np.array(0.0)}
        >>> one = vote_record("a", np.array([0.5, 0.5]), np.array([0.5, 0.5]), outputs)
        >>> round(one.loss - one.disagreement, 6), one.brier
        (0.0, 0.0)
    """
    measures = {key: outputs[key][None] for key in (PREDICTIVE_ENTROPY, MUTUAL_INFORMATION)}
    of_most = classification_record(name, np.array([shares.argmax()]), probability[None], measures)
    p = np.clip(probability.astype(np.float64), _EPSILON, 1.0)
    return VoteRecord(
        of_most,
        float(-(shares * np.log(p)).sum()),
        float(np.square(probability - shares).sum()),
        float(scipy.special.entr(shares).sum()),
        float(outputs[PREDICTIVE_ENTROPY] - outputs[MUTUAL_INFORMATION]),
    )


def vote_result(name: str, records: Sequence[VoteRecord], **measured: Unpack[Measured]) -> MethodResult:
    """Return the result of a method from its records; arguments as `MethodResult`.

    Raises:
        ValueError: There are no records, or two have one name.
    """
    of_most = classification_result(name, [record.of_most for record in records], **measured)
    found = {
        key: np.array([getattr(record, key) for record in records])
        for key in ("loss", "brier", "disagreement", "expected_entropy")
    }
    told, said = found["disagreement"], found["expected_entropy"]
    moments = {"xx": told * told, "yy": said * said, "xy": told * said}
    dense = {f"votes/{key}": values for key, values in (found | moments).items()}
    statistics = replace(of_most.statistics, dense={**of_most.statistics.dense, **dense})
    values = score_values(VOTE_SCORES, statistics)
    return replace(of_most, statistics=statistics, definitions=VOTE_SCORES, scores=values)


Sums = Mapping[str, FloatArray]


def _mean(key: str) -> Any:
    return lambda sums: ratio(sums[f"votes/{key}"], sums["count"])


def _excess(sums: Sums) -> FloatArray:
    return _mean("loss")(sums) - _mean("disagreement")(sums)


def _correlation(sums: Sums) -> FloatArray:
    """Return Pearson's correlation of the entropy of the votes with the model's expected entropy."""
    x, y, xx, yy, xy = (_mean(key)(sums) for key in ("disagreement", "expected_entropy", "xx", "yy", "xy"))
    return ratio(xy - x * y, np.sqrt(np.maximum((xx - x * x) * (yy - y * y), 0.0)))


_GROUP = "Are the votes met?"

VOTE_SCORES: Final[tuple[Score, ...]] = (
    Score(
        "votes_nll",
        "NLL of votes",
        _GROUP,
        "lower",
        "Mean negative log-likelihood of a vote (nats): what people disagree on, and what is not known.",
        _mean("loss"),
        headline=True,
    ),
    Score(
        "votes_brier",
        "Brier score of shares",
        _GROUP,
        "lower",
        "Squared distance of the probabilities from the shares of the votes.",
        _mean("brier"),
        headline=True,
    ),
    Score(
        "votes_entropy",
        "Disagreement",
        _GROUP,
        "lower",
        "Entropy of the votes (nats), the same for all methods: the part of the NLL that no model removes.",
        _mean("disagreement"),
    ),
    Score(
        "votes_excess",
        "Not known",
        _GROUP,
        "lower",
        "The other part of the NLL (nats): how far the probabilities are from the shares of the votes.",
        _excess,
        headline=True,
    ),
    Score(
        "votes_told",
        "Disagreement told",
        _GROUP,
        "higher",
        "Correlation of the entropy of the votes with what the model says that no data would remove, its "
        "predictive entropy less the mutual information.",
        _correlation,
    ),
    *CLASSIFICATION_SCORES,
)
