"""The table of methods for lanes: its rows, means over seeds, and the thesis' numbers beside them."""

from benchmarks.lane_methods import COLUMNS, NETWORKS, THESIS, report
from pipelines.lane.settings import TrainSettings


def record(network: str, seed: int, score: float, *methods: str) -> dict:
    scores = {**dict.fromkeys(COLUMNS, score), "seconds": 0.5}
    return {
        "surface": "walkable",
        "network": network,
        "seed": seed,
        "methods": dict.fromkeys(methods, scores),
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
    lines = report(records).splitlines()
    (plain,) = [line for line in lines if line.startswith("| segnet | Linear |")]
    assert "| 2 | 0.9100 ± 0.0100 |" in plain
    assert plain.endswith("| 0.500 | 94.62 %, 0.033 |")
    (tempered,) = [line for line in lines if "Linear + temperature" in line]
    assert tempered.endswith("| 0.500 |  |")


def test_traditional_methods_have_no_network_and_undefined_scores_are_empty():
    one = record("C3K3", 0, 0.5, "Edges")
    one["methods"]["Edges"]["auroc_predictive_entropy"] = None
    (line,) = [line for line in report([one]).splitlines() if "Edges" in line]
    assert line.startswith("| none | Edges | 1 | 0.5000 |")
    assert "|  | 0.500 | 65.53 %, 3.016 |" in line
