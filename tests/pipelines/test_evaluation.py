import subprocess
import sys

import numpy as np
import pytest

from pipelines.classification_scores import classification_record
from pipelines.evaluation import (
    classification_result,
    compare,
    peak_memory_bytes,
    segmentation_result,
    select_gallery,
)
from pipelines.segmentation_scores import segmentation_record


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


def test_gallery_shows_the_best_with_lane_the_worst_and_the_most_uncertain():
    gallery = select_gallery(segmentation_result("HGP", RECORDS), count=2)
    assert gallery.best == ("perfect", "half")
    assert gallery.worst == ("missed", "half")
    assert gallery.most_uncertain == ("missed", "half")
    assert gallery.names == ("perfect", "half", "missed")


def test_gallery_takes_what_there_is():
    gallery = select_gallery(segmentation_result("HGP", RECORDS[1:2]), count=3)
    assert gallery.names == ("perfect",)


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


def test_scoring_needs_no_tensorflow():
    code = "import sys, pipelines.evaluation; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
