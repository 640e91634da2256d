"""A small pool that linear functions divide into classes."""

from typing import NamedTuple

import numpy as np
import pytest


class MadePool(NamedTuple):
    features: np.ndarray
    label: np.ndarray
    group: list[str]


def made_pool(count=160, num_classes=3, seed=0, in_group=2):
    rng = np.random.default_rng(seed)
    centre = 2.5 * rng.normal(size=(num_classes, 8))
    label = rng.integers(num_classes, size=count)
    features = np.hstack([centre[label] + rng.normal(size=(count, 8)), rng.normal(size=(count, 8))])
    return MadePool(features, label, [f"group {row // in_group}" for row in range(count)])


@pytest.fixture(scope="session")
def pool():
    return made_pool()
