"""Workers of a cluster write what `predict` writes in one process, with bundles that were kept."""

import asyncio
import io
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pytest
from rich.console import Console
from typer.testing import CliRunner

from data_prep.errors import InputError
from data_prep.prepared import workers
from data_prep.prepared.workers import Cluster
from pipelines.bundles.prediction_run import RECORDS
from pipelines.cli import make_app
from pipelines.command import remote

ROOT = Path(__file__).parents[2]

BUNDLES = [
    ("lane", "bundle"),
    ("sonar", "bundle"),
    ("histopathology", "bundle"),
    ("cells", "bundle"),
    pytest.param("histopathology", "towers_bundle", marks=pytest.mark.slow),
    pytest.param("video", "clips_bundle", marks=pytest.mark.slow),
]


SETTINGS = {"cells": {"threshold": 0.1}}
"""Other settings than the default ones, with which nothing would be found."""


def predict(application: str, inputs: Path, model: Path, out: Path, cluster: Cluster | None) -> str:
    """Predict a folder; return what was said."""
    settings = import_module(f"pipelines.{application}.settings").PredictSettings(
        **SETTINGS.get(application, {})
    )
    console = Console(file=io.StringIO(), width=200)
    place = (
        "predict_command:predict"
        if application == "sonar"
        else f"prediction:{application.upper()}_PREDICTION"
    )
    step = resolve_name(f"pipelines.{application}.{place}")
    step(settings, inputs=[inputs], model=model, out=out, console=console, cluster=cluster)
    return console.file.getvalue()


def assert_same_files(one: Path, other: Path) -> None:
    """Equal to the byte, but for the column of seconds and the records that repeat it."""
    names = [sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()) for out in (one, other)]
    assert names[0] == names[1]
    assert "predictions.csv" in names[0]
    for name in names[0]:
        if name == "predictions.csv":
            assert without_seconds(one / name) == without_seconds(other / name)
        elif name != RECORDS:
            assert (one / name).read_bytes() == (other / name).read_bytes(), name


def without_seconds(table: Path) -> list[list[str]]:
    rows = [line.split(",") for line in table.read_text().splitlines()]
    seconds = rows[0].index("seconds")
    return [row[:seconds] + row[seconds + 1 :] for row in rows]


@pytest.fixture
def inputs(kept, tmp_path: Path):
    """A function that returns a folder with three copies of what was kept, and a broken file."""

    def copied(application: str) -> Path:
        folder = tmp_path / "inputs"
        folder.mkdir()
        for path in sorted((kept(application) / "input").iterdir()):
            copy = shutil.copytree if path.is_dir() else shutil.copyfile
            for number in range(3):
                copy(path, folder / f"{path.stem} {number}{path.suffix}")
            (folder / f"broken{path.suffix or '.avi'}").write_bytes(b"broken")
        return folder

    return copied


@pytest.mark.slow
@pytest.mark.parametrize(("application", "bundle"), BUNDLES)
def test_a_cluster_writes_what_one_process_writes(application, bundle, inputs, kept, cluster, tmp_path):
    folder, model = inputs(application), kept(application) / bundle
    predict(application, folder, model, tmp_path / "one", None)
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / ".partial-0-of-a-killed-worker").touch()
    said = predict(application, folder, model, tmp_path / "cluster", cluster)
    assert_same_files(tmp_path / "one", tmp_path / "cluster")
    assert said.count("Left out: ") == 1


@pytest.mark.slow
def test_a_cluster_goes_on_where_a_process_stopped_and_a_worker_opens_the_bundle_once(
    inputs, kept, cluster, tmp_path, monkeypatch
):
    folder, model, out = inputs("lane"), kept("lane") / "bundle", tmp_path / "out"
    (folder / "broken.jpg").unlink()
    predict("lane", folder, model, tmp_path / "one", None)
    rest = sorted(folder.iterdir())[1:]
    for path in rest:
        path.rename(tmp_path / path.name)
    predict("lane", folder, model, out, None)
    for path in rest:
        (tmp_path / path.name).rename(path)
    predicted = []  # TensorFlow is started before each file
    start = remote.start_tensorflow
    monkeypatch.setattr(
        remote, "start_tensorflow", lambda threads: predicted.append(threads) or start(threads)
    )
    before = remote.made.cache_info().misses
    predict("lane", folder, model, out, cluster)
    assert predicted == [1] * len(rest)
    assert remote.made.cache_info().misses <= before + 2  # the two workers are threads of one process
    assert_same_files(tmp_path / "one", out)


def test_true_boxes_are_judged_in_one_process(inputs, kept, cluster, tmp_path):
    step = import_module("pipelines.sonar.predict_command")
    settings = import_module("pipelines.sonar.settings").PredictSettings()
    folder = inputs("sonar")
    table = tmp_path / "boxes.csv"
    table.write_text("image,x,y,w,h,class\nfull 0.png,0,0,4,4,ball\n")
    options = {"inputs": [folder], "model": kept("sonar") / "bundle", "out": tmp_path / "out"}
    with pytest.raises(InputError, match="leave --cluster out, or --annotations"):
        step.predict(settings, **options, console=Console(), annotations=table, cluster=cluster)


@pytest.mark.slow
def test_the_command_writes_the_same_with_processes_and_says_nothing_of_dask(inputs, kept, tmp_path):
    pytest.importorskip("distributed", reason="Dask is optional (gpimaging[cluster])")
    folder, model = inputs("lane"), kept("lane") / "bundle"
    for out, where in (("one", ("--jobs", "1")), ("cluster", ("--cluster", "local:2"))):
        command = [sys.executable, "-m", "pipelines", "lane", "predict", "--input", folder, "--model", model]
        ended = subprocess.run(
            [*command, "--out", tmp_path / out, *where],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "distributed" not in ended.stdout
    assert_same_files(tmp_path / "one", tmp_path / "cluster")


@contextmanager
def scheduler_process(port: int) -> Iterator[subprocess.Popen]:
    """`dask scheduler` in a process of its own, and a worker of it in this one, where TensorFlow is."""
    from distributed import Worker  # noqa: PLC0415 - optional

    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", str(port), "--no-dashboard"]
    scheduler = subprocess.Popen(
        [*command, "--host", "127.0.0.1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    started = threading.Event()

    async def work() -> None:
        async with Worker(f"tcp://127.0.0.1:{port}", nthreads=1, dashboard=False) as worker:
            started.set()
            await worker.finished()

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    try:
        assert started.wait(timeout=30), "the scheduler does not answer"
        yield scheduler
    finally:
        scheduler.kill()
        scheduler.wait()
        thread.join(timeout=10)


def wait_for_records(out: Path, number: int) -> None:
    """Wait until so many files are done."""
    ends = time.monotonic() + 20
    while not (out / RECORDS).is_file() or len((out / RECORDS).read_text().splitlines()) < number:
        assert time.monotonic() < ends, "the command has not kept what is done"
        time.sleep(0.05)


@pytest.mark.slow
def test_a_killed_scheduler_ends_the_command_and_the_same_command_goes_on(
    inputs, kept, tmp_path, monkeypatch
):
    pytest.importorskip("distributed", reason="Dask is optional (gpimaging[cluster])")
    monkeypatch.setattr(workers, "_CONNECT_SECONDS", 5.0)
    folder, model, out = inputs("lane"), kept("lane") / "bundle", tmp_path / "out"
    (folder / "broken.jpg").unlink()
    predict("lane", folder, model, tmp_path / "one", None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["lane", "predict", "--input", folder, "--model", model, "--out", out]
    command = [*map(str, arguments), "--cluster", f"tcp://127.0.0.1:{port}"]
    predicted: list[int] = []  # TensorFlow is started before each file
    with scheduler_process(port) as scheduler:

        def start_and_kill(threads: int) -> None:
            predicted.append(threads)
            if len(predicted) == 3:
                wait_for_records(out, 1)
                scheduler.kill()

        monkeypatch.setattr(remote, "start_tensorflow", start_and_kill)
        lost = CliRunner(env={"COLUMNS": "400"}).invoke(make_app(), command)
    assert (lost.exit_code, lost.output.count("the scheduler no longer answers")) == (1, 1), lost.output
    kept_before = len(without_seconds(out / "predictions.csv")) - 1
    assert 1 <= kept_before < len(list(folder.iterdir()))
    predicted.clear()
    monkeypatch.setattr(remote, "start_tensorflow", predicted.append)
    with scheduler_process(port):
        again = CliRunner(env={"COLUMNS": "400"}).invoke(make_app(), command)
    assert again.exit_code == 0, again.output
    assert f"{kept_before} kept from before" in again.output
    assert len(predicted) == len(list(folder.iterdir())) - kept_before
    assert_same_files(tmp_path / "one", out)
