"""Features come in the order in which images would."""

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.feature_dataset import features_dataset
from data_prep.labelled import epoch_order


def test_batches_follow_the_order_that_clips_would_have():
    features, labels = np.arange(10, dtype=np.float32)[:, None], np.arange(10, dtype=np.int32)
    options = {"seed": 3, "epoch": 2, "shuffle": True}
    batches = list(features_dataset(features, labels, batch_size=4, steps=3, **options))
    seen = np.concatenate([label for _, label in batches])
    np.testing.assert_array_equal(seen, epoch_order(10, 3, 2, shuffle=True, length=12))
    np.testing.assert_array_equal(np.concatenate([x[:, 0] for x, _ in batches]), seen)
    assert [len(y) for _, y in features_dataset(features, labels, batch_size=4)] == [4, 4, 2]
    with pytest.raises(InputError, match="No examples"):
        features_dataset(features[:0], labels[:0], batch_size=4)
