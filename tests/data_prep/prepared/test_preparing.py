"""Worker processes keep the order; what was skipped is listed."""

import os
import signal
from pathlib import Path

import pytest

from data_prep.errors import InputError, Skipped
from data_prep.prepared import preparing
from data_prep.prepared.preparing import (
    checksums,
    require_good,
    run_in_rounds,
    without_skipped,
    write_skipped,
)
from pipelines import cli


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_the_items(monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    monkeypatch.setattr(preparing, "ROUND", 3)
    calls: list[tuple[str, int, int]] = []
    results = run_in_rounds(
        "Powers",
        pow,
        [2, 3, 4, 5, 6, 7, 8],
        (2,),
        jobs=jobs,
        progress=lambda *call: calls.append(call),
        file_of=Path,
    )
    assert list(results) == [(n, n * n) for n in range(2, 9)]
    assert calls == [("Powers", n, 7) for n in range(1, 8)]


def length_or_death(path: Path) -> int:
    if path.name == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    return len(path.name)


@pytest.mark.slow
def test_a_file_that_ends_its_worker_is_left_out_and_the_others_are_done() -> None:
    names = ["one", "three", "deadly", "seven", "eleven"]
    results = run_in_rounds(
        "Lengths", length_or_death, list(map(Path, names)), (), jobs=2, progress=None, file_of=Path
    )
    found = [result for _, result in results]
    assert found[:2] + found[3:] == [3, 5, 5, 6]
    assert isinstance(found[2], Skipped)
    assert "deadly: every worker that opened it ended without an answer" in str(found[2])


def process(_: str) -> int:
    return os.getpid()


@pytest.mark.slow
def test_no_worker_outlives_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for work holds up the exit of a command, on a busy machine for minutes."""
    workers: set[int] = set()

    def command() -> None:
        found = run_in_rounds("Work", process, ["a", "b", "c"], (), jobs=2, progress=None, file_of=Path)
        workers.update(worker for _, worker in found)
        raise SystemExit(0)

    monkeypatch.setattr(cli, "make_app", lambda: command)
    with pytest.raises(SystemExit):
        cli.main()
    assert workers
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_ending_workers_starts_none_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    preparing.end_workers()
    monkeypatch.setattr(preparing, "get_reusable_executor", lambda **_: pytest.fail("It starts one."))
    preparing.end_workers()


def test_jobs_must_be_positive() -> None:
    with pytest.raises(InputError, match="jobs is 0; expected at least 1 process"):
        list(run_in_rounds("Powers", pow, [2], (2,), jobs=0, progress=None, file_of=Path))


def test_what_was_skipped_is_listed(tmp_path: Path) -> None:
    skipped: list[Skipped] = []
    bad = Skipped(Path("a.png"), 'a.png: "broken", empty')
    assert list(without_skipped([1, bad, 2], skipped)) == [1, 2]
    assert skipped == [bad]
    write_skipped(tmp_path, skipped)
    assert (tmp_path / "skipped.csv").read_text() == 'file,reason\na.png,"a.png: ""broken"", empty"\n'
    (tmp_path / "one").write_bytes(b"1")
    assert list(checksums(tmp_path, ["one", "one"])) == ["one", "skipped.csv"]
    with pytest.raises(InputError, match=r'here: no image can be used\.\n  a\.png: "broken"'):
        require_good([], "image", Path("here"), skipped)
    require_good([1], "image", Path("here"), skipped)


def test_relative_paths_are_those_of_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):  # the workers of the first folder work on for the second
        (tmp_path / name).mkdir()
        (tmp_path / name / "here").write_text(name)
        monkeypatch.chdir(tmp_path / name)
        results = run_in_rounds(
            "Reads", Path.read_text, [Path("here")] * 4, (), jobs=2, progress=None, file_of=Path
        )
        assert [text for _, text in results] == [name] * 4
