import json
import math

import pytest

from data_prep.errors import InputError
from pipelines.scores.metrics import METRICS_SCHEMA_VERSION, metrics_content, write_metrics
from pipelines.scores.results import Evaluation
from pipelines.scores.segmentation import SEGMENTATION_SCORES


def test_the_file_has_every_number_under_its_key(evaluation, tmp_path):
    write_metrics(tmp_path / "metrics.json", evaluation)
    content = json.loads((tmp_path / "metrics.json").read_text("utf-8"), parse_constant=pytest.fail)
    assert list(content) == [
        "schema_version", "application", "data", "settings", "warnings", "scores", "costs", "labels",
        "no_guarantee", "choice", "chosen", "methods", "comparisons",
    ]  # fmt: skip
    assert content["schema_version"] == METRICS_SCHEMA_VERSION
    assert content["scores"]["nll"]["better"] == "lower"
    hgp = content["methods"]["HGP"]
    assert hgp["scores"]["f_measure"] == evaluation.results[-1].scores["f_measure"]
    assert hgp["counts"]["images"] == 6
    assert (hgp["seconds_per_image"], hgp["peak_memory_bytes"]) == (0.25, 1_500_000_000)
    assert content["methods"]["linear"]["seconds_per_image"] is None
    assert content["methods"]["linear + temperature"]["details"] == {"temperature": 2.0}
    assert sum(hgp["reliability_diagram"]["count"]) == hgp["counts"]["pixels"]
    assert hgp["risk_coverage_curve"]["coverage"][-1] == 1.0
    first = content["comparisons"][0]
    assert (first["method"], first["baseline"]) == ("HGP", "linear")
    assert set(first["scores"]["nll"]) == {"difference", "lower", "upper", "p_value", "resamples"}
    assert content["settings"] == {
        "head": {"num_experts": 9, "pixels": None},
        "size": [16, 24],
        "learning_rate": 0.001,
    }
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.json"]


def test_keys_of_scores_stay():
    """Files of users and acceptance checks read these: a change needs a new schema version."""
    overlap = ["accuracy", "recall", "precision", "f_measure", "iou"]
    assert [score.key for score in SEGMENTATION_SCORES] == [
        *overlap,
        *(f"pooled_{key}" for key in overlap),
        "nll",
        "brier",
        "ece",
        "auroc_predictive_entropy",
        "auroc_mutual_information",
        "referral_accuracy_5",
        "referral_accuracy_10",
        "referral_accuracy_20",
        "risk_coverage_area",
        *(f"original_{key}" for key in overlap),
        *(f"original_pooled_{key}" for key in overlap),
    ]


def test_undefined_numbers_are_null(perfect_evaluation):
    content = metrics_content(perfect_evaluation)
    linear = content["methods"]["linear"]
    assert linear["scores"]["auroc_predictive_entropy"] is None
    assert linear["risk_coverage_curve"] is None
    assert linear["reliability_diagram"]["accuracy"][0] is None
    json.dumps(content, allow_nan=False)


def test_infinite_settings_are_null_and_strange_ones_refused(evaluation):
    strange = Evaluation("lane", evaluation.results, settings={"limit": math.inf})
    assert metrics_content(strange)["settings"] == {"limit": None}
    with pytest.raises(TypeError, match=r"cannot hold .* of type object"):
        metrics_content(Evaluation("lane", evaluation.results, settings={"a": [object()]}))


def test_a_folder_that_is_not_there_is_named(evaluation, tmp_path):
    with pytest.raises(InputError, match=r"metrics\.json"):
        write_metrics(tmp_path / "missing" / "metrics.json", evaluation)
