"""Entropy and class selection of the likelihoods of C classes."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from gpmodels.likelihoods.categorical import categorical_entropy, of_label


@pytest.mark.parametrize("probability", [[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [1e-30, 0.5, 0.5]])
def test_entropy_equals_scipy(probability):
    value = categorical_entropy(tf.constant(probability, tf.float64))
    assert float(value) == pytest.approx(stats.entropy(probability), abs=1e-15)


def test_of_label_takes_each_points_own_class_and_0_where_there_is_none():
    values = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    np.testing.assert_array_equal(
        of_label(values, tf.constant([1.0, 0.0, 255.0, -1.0])), [2.0, 3.0, 0.0, 0.0]
    )
