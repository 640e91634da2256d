"""How well a score tells unknown examples from known ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pipelines.scores.definitions import FloatArray

FAMILIARITY_DISTANCE = "familiarity_distance"
"""Output of a model, see `gpmodels.familiarity.nearest`; bundles have the familiarity alone."""

SCORE_TITLES: Mapping[str, str] = {
    "predictive_entropy": "Entropy",
    "mutual_information": "Mutual information",
    "latent_variance": "Latent variance",
    FAMILIARITY_DISTANCE: "Distance from the training",
}
"""What can tell unknown examples, larger where these are unknown; familiarity is the rank of distance."""


@dataclass(frozen=True)
class UnfamiliarScores:
    """How well one score tells unknown examples.

    Attributes:
        auroc: How often an unknown example has a larger score than a known one, ties counting one half.
        fpr95: Share of known examples that are taken for unknown where 95 % of the unknown ones are found.
    """

    auroc: float
    fpr95: float


def unfamiliar_scores(known: FloatArray, unknown: FloatArray) -> UnfamiliarScores:
    """Return how well a score tells unknown examples.

    Args:
        known: Score of the known examples `[N]`.
        unknown: Score of the unknown examples `[M]`.

    Raises:
        ValueError: One of them is empty.

    Example:
        >>> found = unfamiliar_scores(np.array([0.0, 1.0, 2.0, 3.0]), np.array([2.5, 4.0]))
        >>> found.auroc, found.fpr95
        (0.875, 0.25)
    """
    if not known.size or not unknown.size:
        raise ValueError(f"found {known.size} known and {unknown.size} unknown examples; need both")
    import scipy.stats  # noqa: PLC0415 - takes .4 s, and predict does without

    ranks = scipy.stats.rankdata(np.concatenate([known, unknown]))[known.size :]
    auroc = (ranks.sum() - unknown.size * (unknown.size + 1) / 2) / (known.size * unknown.size)
    # The largest threshold above or at which 95 % of the unknown ones lie.
    limit = np.sort(unknown)[int(np.floor(0.05 * unknown.size))]
    return UnfamiliarScores(float(auroc), float(np.mean(known >= limit)))


@dataclass(frozen=True)
class UnfamiliarResult:
    """How well each score of a method tells the unknown images of a folder from the judged examples.

    Attributes:
        number: Of unknown images.
        scores: By the keys of `SCORE_TITLES`, as far as the method has them.
        flagged_known: Share of the judged examples that are flagged as unfamiliar; NaN without familiarity.
        flagged_unknown: Share of the unknown images that are.
    """

    number: int
    scores: Mapping[str, UnfamiliarScores]
    flagged_known: float
    flagged_unknown: float


def unfamiliar_sentences(results: Mapping[str, UnfamiliarResult]) -> list[str]:
    """Return a sentence for each method about the images of another kind.

    Args:
        results: How each method tells them from the judged ones, by its name.
    """
    sentences = []
    for title, result in results.items():
        key, best = max(result.scores.items(), key=lambda entry: entry[1].auroc)
        flags = ""
        if not np.isnan(result.flagged_unknown):
            of_both = f"{result.flagged_unknown:.0%} of them and {result.flagged_known:.0%} of the judged"
            flags = f"; it calls {of_both} unfamiliar"
        sentences.append(
            f"{title}: {result.number} images of another kind are best separated from the judged ones by "
            f"{SCORE_TITLES[key].lower()}, AUROC {best.auroc:.2f}{flags}."
        )
    return sentences
