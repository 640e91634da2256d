"""Several examples as one: the mean, at a temperature."""

import numpy as np
import pytest

from pipelines.bundles.pooled_outputs import mean_outputs


def test_a_pool_is_the_mean_of_its_examples():
    probability = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    outputs = mean_outputs(probability, np.array([0.1, 0.3]))
    np.testing.assert_allclose(outputs["probability"], [0.5, 0.5, 0.0])
    # Examples that are sure of different classes make the pool unsure.
    assert outputs["predictive_entropy"] == pytest.approx(np.log(2))
    assert outputs["mutual_information"] == pytest.approx(0.2)


def test_the_temperature_of_pools_changes_the_mean_and_the_entropy_with_it():
    probability = np.array([[0.9, 0.1, 0.0], [0.5, 0.3, 0.2]])
    plain, sharp, even = (
        mean_outputs(probability, np.array([0.1, 0.3]), temperature=t) for t in (1.0, 0.5, 2.0)
    )
    powers = probability.mean(axis=0) ** 2
    np.testing.assert_allclose(sharp["probability"], powers / powers.sum())
    assert sharp["predictive_entropy"] == pytest.approx(-(p := sharp["probability"]) @ np.log(p))
    assert sharp["predictive_entropy"] < plain["predictive_entropy"] < even["predictive_entropy"]
    assert sharp["label"] == plain["label"] == even["label"] == 0
    # As for examples: what is not known falls with the entropy, and does not rise with it.
    share = plain["mutual_information"] / plain["predictive_entropy"]
    assert sharp["mutual_information"] / sharp["predictive_entropy"] == pytest.approx(share)
    assert even["mutual_information"] == plain["mutual_information"]
    certain = mean_outputs(np.array([[1.0, 0.0]]), np.array([0.0]), temperature=0.5)
    assert max(certain["predictive_entropy"], certain["mutual_information"]) < 1e-12
