"""The multiple-kernel classifiers: rules they share, cases with known answers, and each one's mathematics."""

import pickle

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from benchmarks.peers.averaged_svm import AveragedKernelSVC
from benchmarks.peers.bemkl import BEMKLClassifier
from benchmarks.peers.mean_field import truncated_mean
from benchmarks.peers.mkgp import MKGPClassifier, SpikeAndSlabPosterior
from benchmarks.peers.multiple_kernels import ViewKernels
from tests.gpmodels.scikit_learn_checks import checks_of_a_family

VIEWS = [[0, 1], [2, 3], [4, 5]]
CLASSIFIERS = {
    "bemkl": BEMKLClassifier(views=VIEWS, random_state=0),
    "mkgp": MKGPClassifier(views=VIEWS, random_state=0),
    "svm": AveragedKernelSVC(views=VIEWS, random_state=0),
}
every_classifier = pytest.mark.parametrize("name", CLASSIFIERS)


def data(size: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes of the second view alone: inside or outside of a circle."""
    x = np.random.default_rng(seed).normal(size=(size, 6))
    return x, np.where(np.hypot(x[:, 2], x[:, 3]) > 1.18, "outside", "inside")


@every_classifier
def test_it_learns_from_the_view_that_knows(name):
    model = clone(CLASSIFIERS[name]).fit(*data())
    x, y = data(300, 1)
    assert model.score(x, y) > 0.85
    alone = clone(model).set_params(views=[[2, 3]]).fit(*data())
    assert alone.score(x, y) > 0.9
    probability = model.predict_proba(x)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(x), model.classes_[probability.argmax(axis=1)])


def test_the_view_that_knows_has_the_weight():
    weights = np.abs(clone(CLASSIFIERS["bemkl"]).fit(*data()).kernel_weights_)
    assert weights[1] > 3 * weights[[0, 2]].max()
    switches = clone(CLASSIFIERS["mkgp"]).fit(*data()).switch_probabilities_
    assert switches[1] > 0.99
    assert switches[[0, 2]].max() < 0.5


@every_classifier
def test_order_of_views_and_names_of_classes_do_not_matter(name):
    x, y = data(80)
    model = clone(CLASSIFIERS[name]).fit(x, y)
    expected = model.predict_proba(x)
    turned = clone(model).set_params(views=VIEWS[::-1]).fit(x, y)
    np.testing.assert_allclose(turned.predict_proba(x), expected, atol=0.02)
    swapped = clone(model).fit(x, np.where(y == "inside", "z", "a"))
    np.testing.assert_allclose(swapped.predict_proba(x)[:, ::-1], expected, atol=0.02)


@every_classifier
def test_it_survives_pickling(name):
    x, y = data(60)
    model = clone(CLASSIFIERS[name]).fit(x, y)
    restored = pickle.loads(pickle.dumps(model))  # noqa: S301 - of this test's own making
    np.testing.assert_array_equal(restored.predict_proba(x), model.predict_proba(x))


@every_classifier
def test_bad_input_is_refused(name):
    x, y = data(20)
    model = clone(CLASSIFIERS[name])
    with pytest.raises(ValueError, match=r"two classes, but y has 3 classes\. .*OneVsRestClassifier"):
        model.fit(x, np.arange(20) % 3)
    with pytest.raises(ValueError, match="column 9, but X has 6 features"):
        clone(model).set_params(views=[[0], [9]]).fit(x, y)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(x > 2.0, np.nan, x), y)


@every_classifier
def test_a_failed_refit_leaves_no_old_model(name):
    x, y = data(20)
    model = clone(CLASSIFIERS[name]).fit(x, y)
    with pytest.raises(ValueError, match="3 classes"):
        model.fit(x, np.arange(20) % 3)
    with pytest.raises(NotFittedError):
        model.predict(x)


@pytest.mark.slow
@parametrize_with_checks([BEMKLClassifier(max_iterations=30)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@checks_of_a_family(MKGPClassifier(), AveragedKernelSVC())
def test_scikit_learn_checks_of_the_others(estimator, check):
    check(estimator)


def test_kernels_of_views():
    x, _ = data(30)
    kernels = ViewKernels.fitted(10.0 * x + 3.0, [[0, 1], [4]], np.random.default_rng(0))
    between = kernels.between(10.0 * x[:4] + 3.0)
    assert between.shape == (2, 4, 30)
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    squared = ((scaled[2, :2] - scaled[9, :2]) ** 2).sum()
    assert between[0, 2, 9] == pytest.approx(np.exp(-0.5 * squared / kernels.lengthscales[0] ** 2))
    np.testing.assert_allclose(np.diag(between[1, :, :4]), 1.0)


@pytest.mark.parametrize("mean", [-40.0, -1.0, 0.0, 3.0, 40.0])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_mean_beyond_the_margin(mean, sign):
    exact = sign * stats.truncnorm(1.0 - sign * mean, np.inf, loc=sign * mean).mean()
    ours = truncated_mean(np.array([mean]), np.array([sign]), 1.0)
    np.testing.assert_allclose(ours, exact, rtol=1e-3)


def small_posterior(size: int = 6) -> tuple[SpikeAndSlabPosterior, np.ndarray]:
    x = np.linspace(-1.0, 1.0, size)
    kernel = np.exp(-0.5 * (x[:, None] - x) ** 2)
    return SpikeAndSlabPosterior.start(kernel[None], np.sin(2 * x)), kernel


def test_function_factor_is_a_gaussian_process_for_a_certain_weight():
    posterior, kernel = small_posterior()
    posterior.weight_mean[:], posterior.weight_variance[:], posterior.switch[:] = 0.7, 0.0, 1.0
    posterior._update_function(0, posterior.y)
    # y/w = φ + ε/w
    noisy = kernel + posterior.noise / 0.49 * np.eye(6)
    gain = np.linalg.solve(noisy, kernel).T
    np.testing.assert_allclose(posterior._means()[0], gain @ posterior.y / 0.7, atol=1e-7)
    mean, variance = posterior.predict(kernel[None])
    np.testing.assert_allclose(mean, gain @ posterior.y, atol=1e-7)
    own = 0.49 * np.diag(kernel - gain @ kernel)
    np.testing.assert_allclose(variance, own + posterior.noise, atol=1e-6)


def test_spike_and_slab_bound_rises_and_stays_below_the_evidence():
    posterior, kernel = small_posterior()
    bounds = []
    for _ in range(40):
        posterior.update()
        bounds.append(posterior.bound())
    assert np.all(np.diff(bounds) > -1e-9)
    y, noise, eye = posterior.y, posterior.noise, np.eye(6)

    def slab(w):
        return stats.norm.pdf(w) * stats.multivariate_normal(np.zeros(6), w**2 * kernel + noise * eye).pdf(y)

    evidence = posterior.share * integrate.quad(slab, -10.0, 10.0)[0]
    evidence += (1.0 - posterior.share) * stats.multivariate_normal(np.zeros(6), noise * eye).pdf(y)
    assert np.log(evidence) - 4.0 < bounds[-1] < np.log(evidence)


def test_averaged_svm_of_one_view_is_scikit_learns():
    x, y = data(100)
    model = AveragedKernelSVC(views=[[2, 3]], random_state=0).fit(x, y)
    kernel = model.kernels_.between(x)[0]
    theirs = SVC(kernel="precomputed", C=model.cost_).fit(kernel, y)
    signs = model.machine_.calibrated_classifiers_[0].estimator.decision_function(kernel) > 0
    np.testing.assert_array_equal(model.classes_[signs.astype(int)], theirs.predict(kernel))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (BEMKLClassifier(margin=-1.0), "margin must not be negative"),
        (BEMKLClassifier(intermediate_deviation=0.0), "intermediate_deviation must be positive"),
        (BEMKLClassifier(max_iterations=0), "max_iterations is 0"),
        (MKGPClassifier(max_iterations=0), "max_iterations is 0"),
    ],
)
def test_arguments_out_of_range_are_refused(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*data(10))
