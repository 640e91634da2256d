"""How well scores tell unknown examples is said in a sentence."""

import math

from pipelines.scores.unfamiliar_scores import UnfamiliarResult, UnfamiliarScores, unfamiliar_sentences


def test_the_best_score_and_the_flags_are_said():
    entropy = {"predictive_entropy": UnfamiliarScores(0.7, 0.5)}
    scores = {**entropy, "latent_variance": UnfamiliarScores(0.93, 0.1)}
    results = {
        "HGP": UnfamiliarResult(40, scores, 0.04, 0.83),
        "Linear": UnfamiliarResult(40, entropy, math.nan, math.nan),
    }
    first, second = unfamiliar_sentences(results)
    assert first == (
        "HGP: 40 images of another kind are best separated from the judged ones by latent variance, "
        "AUROC 0.93; it calls 83% of them and 4% of the judged unfamiliar."
    )
    assert second.endswith("by entropy, AUROC 0.70.")
