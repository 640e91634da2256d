"""The networks that the search compares, how they are trained, and which one is chosen."""

import numpy as np
import pytest

from benchmarks.sonar_networks import CONVOLUTIONS, chosen, measured, network, table
from gpmodels.networks.convolution_unit import ConvolutionUnit


@pytest.mark.parametrize("convolutions", CONVOLUTIONS)
def test_a_network_has_its_convolutions_in_two_or_three_stages(convolutions):
    units = [layer for layer in network(convolutions, 3).layers if isinstance(layer, ConvolutionUnit)]
    assert sum(len(unit.channels) for unit in units) == convolutions
    assert len(units) == min(3, convolutions)
    assert [len(unit.channels) for unit in units] == sorted(len(unit.channels) for unit in units)


def test_kernels_are_of_the_side_that_is_asked_for():
    small, large = (network(2, kernel) for kernel in (3, 5))
    for own in (small, large):
        own.build((None, 32, 32, 3))
    assert large.count_params() - small.count_params() == (25 - 9) * (3 * 16 + 16 * 32)


def test_a_network_learns_what_it_is_shown():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (100.0 * y[:, None, None, None] + rng.uniform(0, 50, (60, 8, 8, 3))).astype("float32")
    scores = measured(dict.fromkeys(("train", "selection", "test"), (x, y)), 2, 3, seed=0)
    assert scores["test_accuracy"] == 1.0
    assert scores["test_nll"] == scores["selection_nll"] < 0.05  # 0.37 after two epochs


def cell(convolutions: int, seed: int, selection: float, test: float) -> dict:
    scores = {"selection_nll": selection, "test_nll": test, "test_accuracy": 0.9}
    return {"convolutions": convolutions, "kernel": 3, "seed": seed, "parameters": 7, **scores}


def test_the_choice_sees_selection_snapshots_alone():
    cells = [cell(2, seed, selection=0.1 + 0.1 * seed, test=1.0) for seed in (0, 1)]
    cells += [cell(3, seed, selection=0.15, test=0.5) for seed in (0, 1)]
    assert [one["convolutions"] for one in chosen(cells)] == [2, 3]
    rows = table(cells)
    assert [row["NLL"] for row in rows] == ["1.000 ± 0.000", "0.500 ± 0.000", "0.750 ± 0.354"]
    assert rows[1]["convolutions"] == "3 of 3 x 3, the shape of FE1"
