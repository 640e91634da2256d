import subprocess
import sys
from unittest.mock import Mock

import numpy as np
import pytest

from pipelines.scores import results
from pipelines.scores.classification import classification_record
from pipelines.scores.results import (
    Evaluation,
    caveats,
    classification_result,
    compare,
    peak_memory_bytes,
    segmentation_result,
)
from pipelines.scores.segmentation import segmentation_record


def _record(name, mask, probability, entropy):
    mask = np.array([mask], np.uint8)
    uncertainty = {"predictive_entropy": np.full(mask.shape, entropy)}
    return segmentation_record(name, mask, np.array([probability]), uncertainty, mask)


RECORDS = [
    _record("half", [1, 1, 0, 0], [0.9, 0.1, 0.1, 0.1], 0.3),
    _record("perfect", [1, 1, 0, 0], [0.9, 0.9, 0.1, 0.1], 0.1),
    _record("empty", [0, 0, 0, 0], [0.1, 0.1, 0.1, 0.1], 0.2),
    _record("missed", [1, 1, 0, 0], [0.1, 0.1, 0.1, 0.1], 0.6),
    _record("ignored", [255, 255, 255, 255], [0.1, 0.1, 0.1, 0.1], 0.69),
]


def test_segmentation_result():
    result = segmentation_result("HGP", RECORDS, seconds_per_image=0.5, details={"temperature": 1.5})
    assert result.scores["f_measure"] == pytest.approx((2 / 3 + 1 + 1 + 0) / 4)
    assert result.counts["images_no_true_lane"] == 1
    assert result.reliability().count.sum() == 16
    right, wrong = result.uncertainty_counts()
    assert (right.sum(), wrong.sum()) == (13, 3)
    assert result.risk_coverage().risk[-1] == pytest.approx(3 / 16)
    assert result.uncertainty_counts("mutual_information") is None


def test_classification_result_has_no_segmentation_in_it():
    records = [classification_record(name, np.array([1]), np.array([0.75]), {}) for name in "ab"]
    result = classification_result("SVGP", records)
    assert result.scores["accuracy"] == 1.0
    assert "f_measure" not in result.scores
    assert result.counts == {"examples": 2, "predictions": 2}
    assert result.risk_coverage() is None


def test_compare_names_its_methods():
    hgp = segmentation_result("HGP", RECORDS)
    linear = segmentation_result("linear", RECORDS)
    comparison = compare(hgp, [linear], ["f_measure", "ece"], resamples=10)[0]
    assert (comparison.method, comparison.baseline) == ("HGP", "linear")
    assert list(comparison.differences) == ["f_measure", "ece"]
    assert comparison.differences["ece"].p_value == 1.0


def test_an_unknown_score_is_refused():
    result = segmentation_result("HGP", RECORDS)
    with pytest.raises(ValueError, match="unknown score 'f1'; there are: accuracy, recall"):
        compare(result, [result], ["f1"])


def test_no_records_are_refused():
    with pytest.raises(ValueError, match="no examples to score"):
        segmentation_result("HGP", [])


def test_peak_memory_is_that_of_a_python_process():
    assert 10e6 < peak_memory_bytes() < 1e12


def test_peak_memory_where_the_system_has_another_way(monkeypatch):
    monkeypatch.setattr(results, "resource", None)  # as on Windows
    monkeypatch.setattr(
        results.psutil, "Process", lambda: Mock(**{"memory_info.return_value.peak_wset": 5e8})
    )
    assert peak_memory_bytes() == 5e8


def test_scoring_needs_no_tensorflow():
    code = "import sys, pipelines.scores.results; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_evaluation_must_be_consistent():
    hgp, linear = (segmentation_result(name, RECORDS) for name in ("HGP", "linear"))
    other = classification_result("SVGP", [classification_record("a", np.array([1]), np.array([0.75]), {})])
    with pytest.raises(ValueError, match=r"different names, found \['HGP', 'HGP'\]"):
        Evaluation("lane", (hgp, hgp))
    with pytest.raises(ValueError, match=r"different names, found \[\]"):
        Evaluation("lane", ())
    with pytest.raises(ValueError, match="must have the same scores"):
        Evaluation("lane", (hgp, other))
    mixed = (*compare(hgp, [linear], ["nll"], resamples=5), *compare(hgp, [linear], ["ece"], resamples=5))
    with pytest.raises(ValueError, match="of one method, by the same scores"):
        Evaluation("lane", (linear, hgp), mixed)


def test_caveats_tell_what_conventions_decided():
    notes = "\n".join(caveats([segmentation_result("HGP", RECORDS)]))
    assert "1 of 5 images has every pixel ignored" in notes
    assert "1 of 5 images has no lane in the truth" in notes
    assert "HGP finds no lane at all in 1 of the images that have one" in notes
    assert "only 5 test examples" in notes
    assert (
        caveats(
            [
                segmentation_result(
                    "HGP", [_record(str(i), [1, 0, 0], [0.9, 0.9, 0.1], 0.1) for i in range(20)]
                )
            ]
        )
        == ()
    )


def test_a_method_without_mistakes_is_named():
    notes = caveats([segmentation_result("HGP", RECORDS[1:2])])
    assert any("HGP makes no mistake" in note for note in notes)
