"""Kept scores of the comparison with the deep feed-forward GP: only those of the same data and estimators."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from benchmarks import dfgp_accuracy
from benchmarks.dfgp_accuracy import scores_of
from benchmarks.tabular.datasets import load_dataset


def test_kept_scores_are_of_the_same_data_and_estimators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dfgp_accuracy, "NUM_ROWS", 40)
    runs: list[str] = []
    run = dfgp_accuracy.run_split
    monkeypatch.setattr(
        dfgp_accuracy, "run_split", lambda data, split: (runs.append(data.name), run(data, split))[1]
    )

    def scores(seed: int, penalty: float) -> dict[str, dict[str, float]]:
        rng = np.random.default_rng(seed)
        np.savez(tmp_path / "set.npz", X=rng.normal(size=(50, 2)), y=np.arange(50) % 2)
        monkeypatch.setattr(dfgp_accuracy, "CLASSIFIERS", {"linear": lambda _: LogisticRegression(C=penalty)})
        return scores_of(load_dataset(tmp_path, "set"), 0, tmp_path / "set-0.json")

    first = scores(0, 1.0)
    assert (scores(0, 1.0), len(runs)) == (first, 1)
    assert scores(0, 1e-3)["linear"]["nll"] != first["linear"]["nll"]
    assert scores(1, 1e-3)["linear"]["nll"] != first["linear"]["nll"]
    assert len(runs) == 3
