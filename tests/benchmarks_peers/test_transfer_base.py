"""What the transfer classifiers share: whose a row is, who is left out, and the temperature."""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.base import clone

from benchmarks.peers.coregionalised_gp import CoregionalisedGPClassifier
from benchmarks.peers.geodesic_flow_kernel import GeodesicFlowKernelClassifier
from benchmarks.peers.kbtl import KBTLClassifier
from benchmarks.peers.mmdt import MMDTClassifier
from benchmarks.peers.transfer_base import Rows, domain_numbers, fit_score_scale, target_folds

from .domains import shifted_domains

PEERS = {
    "icm": CoregionalisedGPClassifier(),
    "gfk": GeodesicFlowKernelClassifier(num_components=2),
    "gfk, svm": GeodesicFlowKernelClassifier(num_components=2, machine="svm"),
    "mmdt": MMDTClassifier(temperature_folds=3),
    "kbtl": KBTLClassifier(num_hidden=4, max_iterations=30, random_state=0),
}
every_peer = pytest.mark.parametrize("name", PEERS)


@every_peer
def test_it_learns_more_with_the_source_than_by_chance(name):
    x, y, domain = shifted_domains()
    test_x, test_y, test_domain = shifted_domains(target_rows=300)
    is_judged = test_domain < 0
    # the same centres and shifts: rows of the target beyond those learned from
    model = clone(PEERS[name]).fit(x, np.array(["a", "b", "c"])[y], sample_domain=domain)
    labels = np.array(["a", "b", "c"])[test_y[is_judged]]
    assert model.score(test_x[is_judged], labels) > 0.6
    probability = model.predict_proba(test_x[is_judged])
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert model.classes_[probability[0].argmax()] == model.predict(test_x[is_judged][:1])[0]


@every_peer
def test_it_refuses_rows_of_no_target_or_of_two(name):
    x, y, domain = shifted_domains()
    with pytest.raises(ValueError, match="0 different negative"):
        clone(PEERS[name]).fit(x, y, sample_domain=np.abs(domain))
    with pytest.raises(ValueError, match="2 different negative"):
        clone(PEERS[name]).fit(x, y, sample_domain=np.where(np.arange(len(x)) == 45, -2, domain))
    with pytest.raises(ValueError, match="one class"):
        clone(PEERS[name]).fit(x, np.zeros(len(x)), sample_domain=domain)


def test_domains_are_numbered_with_the_target_last():
    domain, count = domain_numbers(np.array([5, -3, 2, 5]), 4)
    assert count == 2
    assert domain.tolist() == [1, 2, 0, 1]
    assert domain_numbers(None, 3)[0].tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="4 rows"):
        domain_numbers([0, -1], 4)


def test_folds_have_target_rows_alone_and_groups_together():
    domain = np.repeat([0, 1], [5, 6])
    rows = Rows(np.zeros((11, 1)), np.r_[np.zeros(5, int), 0, 0, 0, 1, 1, 1], domain, 1, 2)
    folds = target_folds(rows, 3)
    assert sorted(np.concatenate(folds).tolist()) == list(range(5, 11))
    assert all(sorted(rows.label[fold].tolist()) == [0, 1] for fold in folds)
    assert [fold.tolist() for fold in target_folds(rows, 0)] == [[k] for k in range(5, 11)]
    groups = np.r_[np.zeros(5), 1, 1, 2, 3, 3, 4]
    together = {tuple(fold.tolist()) for fold in target_folds(rows._replace(groups=groups), 0)}
    assert together == {(5, 6), (7,), (8, 9), (10,)}


def test_the_temperature_is_where_its_gradient_is_zero():
    rng = np.random.default_rng(0)
    scores, label = rng.normal(size=(50, 3)), rng.integers(0, 3, 50)
    scores[np.arange(50), label] += 1.0

    def loss(log_scale: float) -> float:
        own = log_softmax(np.exp(log_scale) * scores, axis=1)[np.arange(50), label]
        return -own.sum() + 0.5 * (log_scale - np.log(2.0)) ** 2

    found = np.log(fit_score_scale(scores, label, own=2.0))
    assert abs(loss(found + 1e-4) - loss(found - 1e-4)) < 1e-5 * loss(found)
    # rows that are all right would have no largest T without the prior
    sure = fit_score_scale(10.0 * np.eye(2), np.array([0, 1]), own=1.0)
    assert 1.0 <= sure < 2.0


def test_the_temperature_is_of_rows_that_were_left_out():
    x, y, domain = shifted_domains(seed=3)
    model = GeodesicFlowKernelClassifier(num_components=2, temperature_folds=0)
    model.fit(x, y, sample_domain=domain)
    scores, label = [], []
    for row in np.flatnonzero(domain < 0):
        kept = np.arange(len(x)) != row
        refit = clone(model).set_params(temperature_folds=None).fit(x[kept], y[kept], domain[kept])
        scores.append(refit.class_scores(x[[row]])[0])
        label.append(y[row])
    assert model.score_scale_ == pytest.approx(fit_score_scale(np.array(scores), np.array(label)), rel=1e-6)
