"""The rivals of `benchmarks.measure`: noise, ensembles and what is held out."""

from functools import partial

import numpy as np
import pytest

from benchmarks.few_held_out import covered
from benchmarks.measure import Known, ensemble, held_out_predictions, linear, network, noise_variance


def known(number: int = 200) -> Known:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(number, 4))
    labels = features @ [1.0, 0.5, 0.0, 0.0] + 0.3 * rng.normal(size=number)
    return Known(features, labels, np.array([str(row // 2) for row in range(number)]))


def test_the_noise_is_what_errors_have_beyond_the_variance_of_members():
    rng, variance = np.random.default_rng(0), np.random.default_rng(1).uniform(0.0, 1.0, 20_000)
    errors = np.sqrt(variance + 0.5) * rng.normal(size=variance.size)
    assert noise_variance(errors, variance) == pytest.approx(0.5, rel=0.05)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("fit", [partial(network, 1.0), lambda _, drawn: linear(1.0, drawn)])
def test_members_of_an_ensemble_differ_and_are_right_on_average(fit):
    data = known()
    mean, variance = held_out_predictions(data, lambda part: ensemble(fit, part, 0))
    assert np.mean(np.square(mean - data.labels)) < 0.5 * data.labels.var()
    assert (variance > 0.0).all()


def test_what_is_held_out_never_trains_with_its_group():
    data, seen = known(), []

    def fit(part: Known):
        seen.append(set(part.groups))
        return lambda features: (features[:, 0], np.zeros(len(features)))

    mean, _ = held_out_predictions(data, fit)
    assert np.corrcoef(mean, data.features[:, 0])[0, 1] > 0.99
    assert {len(set(data.groups)) - len(groups) for groups in seen} == {20}


@pytest.mark.slow
def test_more_held_out_images_vary_less():
    data = known()
    shares = np.array([[one[1] for one in covered(data, seed).values()] for seed in range(60)])
    assert shares.mean(axis=0) == pytest.approx([0.9, 0.9], abs=0.03)
    assert shares[:, 1].std() < shares[:, 0].std()
