"""Scores by votes against NumPy."""

import numpy as np
import pytest
import scipy.special

from pipelines.scores.votes import vote_record, vote_result

RNG = np.random.default_rng(0)


def test_scores_are_those_of_numpy():
    shares = RNG.dirichlet(np.ones(3), size=50)
    probability = RNG.dirichlet(np.ones(3), size=50)
    entropy = scipy.special.entr(probability).sum(axis=1)
    known = 0.3 * entropy
    outputs = [
        {"predictive_entropy": total, "mutual_information": own}
        for total, own in zip(entropy, known, strict=True)
    ]
    rows = zip(shares, probability, outputs, strict=True)
    records = [vote_record(str(i), s, p, o) for i, (s, p, o) in enumerate(rows)]
    scores = vote_result("a", records).scores
    disagreement = scipy.special.entr(shares).sum(axis=1)
    loss = -(shares * np.log(probability)).sum(axis=1)
    assert scores["votes_nll"] == pytest.approx(loss.mean())
    assert scores["votes_brier"] == pytest.approx(np.square(probability - shares).sum(axis=1).mean())
    assert scores["votes_entropy"] == pytest.approx(disagreement.mean())
    kl = scipy.special.rel_entr(shares, probability).sum(axis=1).mean()
    assert scores["votes_excess"] == pytest.approx(kl)
    assert scores["votes_told"] == pytest.approx(np.corrcoef(disagreement, entropy - known)[0, 1])
    assert scores["accuracy"] == pytest.approx((shares.argmax(axis=1) == probability.argmax(axis=1)).mean())
