"""Training steps that several devices or processes share equal those of one device."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from pipelines.training.replicas import filled

CHECKS = "tests.pipelines.training.replicated_checks"
ROOT = Path(__file__).parents[3]


def start(strategy: str, out: Path, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", CHECKS, strategy, str(out)],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **variables},
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_equal_to_one_device(results: dict[str, dict[str, Any]]) -> None:
    assert sorted(results) == ["dfgp", "hgp", "linear", "svgp"]
    for kind, found in results.items():
        assert found["replicas"] == 2, kind
        assert found["moved"] > 1e-3, kind
        assert found["weights"] < 1e-5, kind
        assert found["optimizer"] < 1e-5, kind
        assert found["same_numbers"], kind
        assert found["numbers"] < 1e-5, kind
        assert found["occupancy"][0] == found["occupancy"][1], kind
    # The expert without a point is dropped by all data, once.
    assert results["hgp"]["experts"] == [[0, 1], [0, 1]]


@pytest.mark.slow
@pytest.mark.exhaustive  # two processes train as one below; contracts of heads have two devices
def test_two_devices_train_as_one(tmp_path):
    out = tmp_path / "results.json"
    process = start("mirrored", out)
    _, errors = process.communicate(timeout=900)
    assert process.returncode == 0, errors
    assert_equal_to_one_device(json.loads(out.read_text()))


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path):
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    workers = [f"127.0.0.1:{server.getsockname()[1]}" for server in servers]
    for server in servers:
        server.close()
    out = tmp_path / "results.json"
    processes = [
        start(
            "multi_worker",
            out,
            TF_CONFIG=json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": k}}),
        )
        for k in range(2)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=900)
        assert process.returncode == 0, errors
    assert_equal_to_one_device(json.loads(out.read_text()))


@pytest.mark.parametrize("weights", [None, [0.5]])
def test_copies_that_fill_a_batch_weigh_nothing(weights):
    batch = (tf.constant([[1.0, 2.0]]), tf.constant([3]))
    batch = batch if weights is None else (*batch, tf.constant(weights))
    x, y, w = filled(batch, 3)
    np.testing.assert_array_equal(x, [[1.0, 2.0]] * 3)
    np.testing.assert_array_equal(y, [3] * 3)
    np.testing.assert_array_equal(w, [1.0 if weights is None else 0.5, 0.0, 0.0])


def test_a_batch_with_enough_examples_stays_as_it_is():
    batch = (tf.zeros([2, 1]), tf.zeros([2]))
    assert filled(batch, 2) is batch
