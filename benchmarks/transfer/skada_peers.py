"""Domain adaptation by skada: source rows are moved to the target, then a machine learns from all rows.

The adaptation is done once for a split. Where the temperature of the machine is fitted, target rows that are
left out have had their part in it, as judged rows have in the transductive protocol, but not their labels;
optimal transport alone has seen these.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from benchmarks.peers.transfer_base import fit_score_scale
from benchmarks.transfer.office import FloatArray, Split
from gpmodels.transfer.rows import mean_distance

SOURCE, TARGET = 1, -2
"""Domain numbers as skada has them."""

SETTINGS: dict[str, dict[str, Any]] = {
    "SubspaceAlignmentAdapter": {"n_components": 15},
    "TransferComponentAnalysisAdapter": {"n_components": 15},
}
JDOT_ITERATIONS = 20


def adapted(split: Split, adapter: str, seed: int) -> Split:
    """Return a split whose principal components are adapted by a class of skada.

    Args:
        split: Rows; the judged ones are seen, without labels, where the protocol allows it.
        adapter: Name of skada's class.
        seed: Of the adapter, if it wants one.
    """
    import skada  # noqa: PLC0415 - an optional package

    settings = dict(SETTINGS.get(adapter, {}))
    if adapter == "SubspaceAlignmentAdapter":
        settings["random_state"] = seed
    model = getattr(skada, adapter)(**settings)
    # skada's RBF kernels have γ = 1/D: these units make that 1/(2 ℓ²), ℓ the mean distance
    unit = np.sqrt(0.5 * split.x.shape[1]) / mean_distance(split.x)
    x, test = unit * split.x, unit * split.test_x
    domain = np.where(split.sample_domain < 0, TARGET, SOURCE)
    label = np.where(domain == SOURCE, split.label, -1)
    if adapter == "OTMappingAdapter":
        label = split.label
    judged = np.full(len(test), TARGET)
    if split.unlabelled:
        both, domains = np.concatenate([x, test]), np.concatenate([domain, judged])
        labels = np.concatenate([label, np.full(len(test), -1)])
        moved = model.fit_transform(both, labels, sample_domain=domains)
        return replace(split, x=moved[: len(x)], test_x=moved[len(x) :])
    moved = model.fit_transform(x, label, sample_domain=domain)
    return replace(split, x=moved, test_x=model.transform(test, sample_domain=judged))


def jdot_probability(split: Split, seed: int) -> FloatArray:  # noqa: ARG001 - all methods take a seed
    """Return probabilities of JDOT, which knows no label of the target; its temperature is of these.

    Args:
        split: Rows; the judged ones are seen, without labels, where the protocol allows it.
        seed: Not used.
    """
    import skada  # noqa: PLC0415 - an optional package

    unit = 1.0 / mean_distance(split.x)
    target = split.sample_domain < 0
    rows = [split.x[target], split.test_x] if split.unlabelled else [split.x[target]]
    x = unit * np.concatenate([split.x[~target], *rows])
    count = int((~target).sum())
    domain = np.repeat([SOURCE, TARGET], [count, len(x) - count])
    label = np.concatenate([split.label[~target], np.full(len(x) - count, -1)])
    model = skada.JDOTClassifier(
        LogisticRegression(C=100.0, max_iter=1000), alpha=0.1, n_iter_max=JDOT_ITERATIONS
    )
    model.fit(x, label, sample_domain=domain)
    estimator = model.estimator_

    def scores(inputs: FloatArray) -> FloatArray:
        return log_softmax(np.asarray(estimator.decision_function(unit * inputs)), axis=1)

    scale = fit_score_scale(scores(split.x[target]), split.label[target])
    return np.asarray(softmax(scale * scores(split.test_x), axis=1))
