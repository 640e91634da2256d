"""Guarantees are of one model: its head, its temperatures and its weights."""

from pathlib import Path
from types import SimpleNamespace

from pipelines.evaluation.guarantees import guarantee_record
from pipelines.runs.guarantees import model_source


def test_a_model_whose_pools_have_another_temperature_is_another_one():
    job = SimpleNamespace(folder=Path("run"))
    before = model_source(job, "hgp", 1.25, {}, "0")
    assert before == {"head": "hgp", "temperature": 1.25, "weights_sha256": "0"}  # as earlier versions wrote
    now = model_source(job, "hgp", 1.25, {"images": 0.8}, "0")
    guarantee = {
        "source": now,
        "confidence": 0.95,
        "judged": "images",
        "units": 200,
        "noun": "images",
        "binomial": True,
        "table": [[0.02, 0.3]],
    }
    metrics = {"methods": {"HGP + temperature": {"guarantee": guarantee}}}
    assert guarantee_record(metrics, now).thresholds == ((0.02, 0.3),)
    assert guarantee_record(metrics, before) is None
    assert guarantee_record(metrics, model_source(job, "hgp", 1.25, {"images": 0.9}, "0")) is None
