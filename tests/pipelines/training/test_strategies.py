"""Runs of several processes from the command line: the example, a lost process, processes that differ."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

ROOT = Path(__file__).parents[3]

HEADS = "heads=[linear,laplace,svgp]"
OPTIONS = [
    *("--set", "network=FE1", "--set", HEADS, "--set", "steps_per_epoch=5", "--set", "batch_size=8"),
    *("--set", "pretraining_epochs=2", "--set", "head_epochs=2", "--set", "head_steps=20"),
]
"""Those of `examples/multi_worker.sh`, with a head that is fitted in one pass."""


def free_port() -> int:
    """The first of two free ports."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first:
            port = first.getsockname()[1]
            try:
                socket.create_server(("127.0.0.1", port + 1)).close()
            except OSError:
                continue
            return port


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}


def start(
    data: Path, outs: tuple[Path, Path], *options: str, of_worker: tuple[str, ...] = ()
) -> list[subprocess.Popen[str]]:
    """Start the chief and the worker of a training."""
    port = free_port()
    workers = [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]
    processes = []
    for index, out in enumerate(outs):
        task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        command = ["classify", "train", "--data", str(data), "--out", str(out), "--strategy", "multi_worker"]
        given = [*OPTIONS, *options, *(of_worker if index else ())]
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "pipelines", *command, *given],
                env=environment(TF_CONFIG=json.dumps(task)),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return processes


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the exit code and the last message of a process, which must end by itself."""
    try:
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    return process.returncode, errors[errors.rfind("Error: ") :]


def weights(run: Path) -> dict[str, np.ndarray]:
    """All that the checkpoints of a run hold, by file and name."""
    found: dict[str, np.ndarray] = {}

    def read(path: Path) -> None:
        def keep(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset):
                found[f"{path.relative_to(run)}:{name}"] = np.array(item)

        with h5py.File(path) as file:
            file.visititems(keep)

    for path in sorted(run.glob("heads/*/*.weights.h5")):
        read(path)
    assert found
    return found


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that `examples/multi_worker.sh` has written, with programs of this environment."""
    folder = tmp_path_factory.mktemp("example")
    programs = folder / "programs"
    programs.mkdir()
    for name, arguments in (("gpimaging", "-m pipelines "), ("python", "")):
        (programs / name).write_text(f'#!/bin/bash\nexec "{sys.executable}" {arguments}"$@"\n')
        (programs / name).chmod(0o755)
    subprocess.run(
        [ROOT / "examples" / "multi_worker.sh", folder],
        env=environment(
            PATH=f"{programs}:{os.environ['PATH']}", PORT=str(free_port()), TRAIN_OPTIONS=f"--set {HEADS}"
        ),
        check=True,
        timeout=900,
    )
    return folder


@pytest.mark.slow
def test_the_example_trains_all_heads_once(example):
    run = json.loads((example / "run" / "run.json").read_text())
    assert run["heads"] == ["linear", "laplace", "svgp"]
    assert set(run["temperatures"]) == {"laplace", "svgp"}


@pytest.mark.slow
def test_a_run_whose_worker_was_killed_ends_and_goes_on_to_the_same_weights(example, tmp_path):
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    chief, worker = start(example / "prepared", (run, elsewhere))
    state = run / "heads" / "pretraining" / "state.json"
    until = time.monotonic() + 300
    while not (state.exists() and json.loads(state.read_text())["epochs_done"]):
        assert time.monotonic() < until, "no epoch was completed"
        time.sleep(0.05)
    worker.kill()
    killed = time.monotonic()
    code, message = ended(chief)
    ended(worker)
    assert time.monotonic() - killed < 120
    assert code == 1
    assert "worker 0 (127.0.0.1:" in message
    assert "lost another process of the training" in message
    assert "--resume" in message
    assert not elsewhere.exists()  # the chief alone writes
    assert json.loads((run / "run.json").read_text())["heads"] == []

    assert [ended(process) for process in start(example / "prepared", (run, run), "--resume")] == [
        (0, ""),
        (0, ""),
    ]
    resumed, whole = weights(run), weights(example / "run")
    assert resumed.keys() == whole.keys()
    for name, value in whole.items():
        assert value.tobytes() == resumed[name].tobytes(), name


@pytest.mark.slow
def test_processes_with_other_settings_are_refused_in_all(example, tmp_path):
    run = tmp_path / "run"
    processes = start(example / "prepared", (run, run), of_worker=("--set", "seed=7"))
    for code, message in [ended(process) for process in processes]:
        assert code == 2
        assert "process 2 of 2 (127.0.0.1:" in message
        assert "has other settings" in message
        assert "than the chief. Start each of them with the same command" in message
    assert not run.exists()


WAITING = """
import time
from pathlib import Path
from rich.console import Console
from pipelines.command.strategies import StrategyName
from pipelines.training.strategies import training_context
with training_context(StrategyName.MULTI_WORKER, out=Path("out"), resume=False, console=Console(quiet=True)):
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_sigterm_ends_a_process_of_a_training(tmp_path):
    task = {"cluster": {"worker": [f"127.0.0.1:{free_port()}"]}, "task": {"type": "worker", "index": 0}}
    variables = environment(TF_CONFIG=json.dumps(task))
    command = [sys.executable, "-c", WAITING]
    with subprocess.Popen(command, env=variables, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(20) == -signal.SIGTERM
