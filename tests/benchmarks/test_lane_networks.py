"""The table of encoder-decoders: their parameters are the thesis', and its numbers stand beside."""

import pytest

from benchmarks.lane_networks import THESIS, parameters, row_of
from pipelines.lane.settings import TrainSettings

HEAD = 18_360
"""Parameters that the thesis counts for its HGP, the same for all networks (docs/theory.md)."""


@pytest.mark.parametrize(
    ("network", "thesis"), [("C2K3", 575_160), ("C3K5", 6_479_160), ("C4K5", 13_035_832)]
)
def test_networks_have_the_parameters_of_the_thesis(network, thesis):
    assert parameters(network, (32, 48)) + HEAD == thesis


def test_all_fifteen_networks_are_known():
    assert len(THESIS) == 15
    for network in THESIS:
        TrainSettings(network=network)


def test_a_row_has_the_scores_with_temperature_and_the_thesis_beside():
    scores = {"accuracy": 0.9, "f_measure": 0.8, "nll": 0.3, "auroc_predictive_entropy": 0.7}
    record = {
        "network": "C2K3",
        "size": [32, 48],
        "training_seconds": {"pretraining": 60.0, "hgp": 30.0},
        "methods": {"HGP": dict.fromkeys(scores, 0.0), "HGP + temperature": scores},
    }
    row = row_of(record)
    assert (row["F-measure"], row["NLL"], row["minutes of training"]) == ("0.8000", "0.3000", "1.5")
    assert row["thesis: accuracy, F-measure in %"] == "92.87, 92.93"
