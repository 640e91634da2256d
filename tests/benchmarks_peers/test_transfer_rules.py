"""The rules of scikit-learn for the transfer models that can do without a source."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from benchmarks.peers.coregionalised_gp import CoregionalisedGPClassifier, CoregionalisedGPRegressor
from benchmarks.peers.kbtl import KBTLClassifier
from benchmarks.peers.mmdt import MMDTClassifier


@parametrize_with_checks(
    [
        CoregionalisedGPClassifier(),
        CoregionalisedGPRegressor(),
        MMDTClassifier(temperature_folds=2),
        KBTLClassifier(num_hidden=3, max_iterations=10, random_state=0, temperature_folds=2),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
