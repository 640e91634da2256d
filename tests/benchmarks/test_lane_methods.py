"""The table of methods for lanes: its rows, means over seeds, and the thesis' numbers beside them."""

import json

from benchmarks.lane_methods import COLUMNS, NETWORKS, THESIS, read_seconds, report, run_name
from pipelines.lane.settings import TrainSettings


def record(network: str, seed: int, score: float, *methods: str) -> dict:
    scores = dict.fromkeys(COLUMNS, score)
    return {
        "surface": "walkable",
        "network": network,
        "seed": seed,
        "methods": {method: dict(scores) for method in methods},
        "changes": {"width": 0.25} if network == "segnet" else {},
    }


def test_settings_of_all_networks_are_known():
    for settings in NETWORKS.values():
        TrainSettings.model_validate(settings)


def test_every_learned_method_of_the_thesis_has_a_network():
    learned = [method.split()[0] for method in THESIS if method.endswith((" Linear", " HGP"))]
    assert set(learned) <= set(NETWORKS)
    assert len(THESIS) == 12


def test_a_row_has_the_mean_over_seeds_and_the_thesis_beside_it():
    records = [record("segnet", seed, 0.9 + 0.02 * seed, "Linear", "Linear + temperature") for seed in (0, 1)]
    text = report(records, {"segnet Linear": 0.5})
    assert "Share of its channels that SegNet has: 0.25." in text
    lines = text.splitlines()
    (plain,) = [line for line in lines if line.startswith("| segnet | Linear |")]
    assert "| 2 | 0.9100 ± 0.0100 |" in plain
    assert plain.endswith("| 0.500 | 96.03, 94.62, 93.4, 95.87, 0.033 |")
    (tempered,) = [line for line in lines if "Linear + temperature" in line]
    assert tempered.endswith("|  |  |")


def test_traditional_methods_have_no_network_and_undefined_scores_are_empty():
    one = record("C3K3", 0, 0.5, "Edges")
    one["methods"]["Edges"]["auroc_predictive_entropy"] = None
    (line,) = [line for line in report([one], {}).splitlines() if "Edges" in line]
    assert line.startswith("| none | Edges | 1 | 0.5000 |")
    assert "|  |  | 60.46, 65.53, 68.31, 62.97, 3.016 |" in line


def test_seconds_are_read_by_network_and_method(tmp_path):
    assert read_seconds(None) == {}
    rows = [
        {"network": "none", "head": "Edges", "seconds": 0.1},
        {"network": "C3K3", "head": "hgp", "seconds": 0.2},
    ]
    path = tmp_path / "bundles.json"
    path.write_text(json.dumps({"rows": rows}))
    assert read_seconds(path) == {"Edges": 0.1, "C3K3 HGP": 0.2}


def test_runs_with_other_settings_have_other_names():
    task = {
        "surface": "walkable",
        "network": "segnet",
        "seed": 1,
        "size": [96, 128],
        "changes": {"width": 0.25},
    }
    assert run_name(task) == "walkable-segnet-1"
    names = {
        run_name(task | other)
        for other in ({}, {"size": [24, 32]}, {"changes": {"width": 1.0}}, {"changes": {"head_epochs": 5}})
    }
    assert len(names) == 4
