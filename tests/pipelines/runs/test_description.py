"""A run's description: written, read back, and refused where it does not fit."""

import json
from pathlib import Path

import pytest

from data_prep.errors import InputError
from pipelines.lane.settings import LaneRun
from pipelines.runs.description import RunDescription, head_folder, load_run

RUN = LaneRun(
    application="lane",
    size=(16, 24),
    num_data=1234,
    batch_norm_momentum=1.0 - 5.0 / 51.0,
    heads=("linear", "hgp"),
    temperature=1.0 / 3.0,
    counts={"train": 5, "selection": 1, "test": 2},
    manifest_sha256="abc",
    seconds={"linear": 2.5},
)


def test_a_description_is_read_back_equal(tmp_path):
    RUN.save(tmp_path)
    assert load_run(tmp_path, LaneRun) == RUN
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_folder_without_description_is_no_run(tmp_path):
    with pytest.raises(InputError, match=r"is no training run: it has no run\.json\. Pass the --out folder"):
        load_run(tmp_path, LaneRun)


@pytest.mark.parametrize("content", ["[" * 100_000, "9" * 10_000, "[]", "{"])
def test_what_is_no_description_is_refused(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError, match=r"run\.json (cannot be read|has schema version None)"):
        load_run(tmp_path, LaneRun)


def change(folder: Path, **changes: object) -> None:
    RUN.save(folder)
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_another_schema_version_is_named_before_its_unknown_fields(tmp_path):
    change(tmp_path, schema_version=2, something_new=1)
    with pytest.raises(InputError, match=r"has schema version 2, but this gpimaging reads 1\. Train again"):
        load_run(tmp_path, LaneRun)


@pytest.mark.parametrize(
    "changes",
    [
        {"heads": ["linear", "forest"]},
        {"num_data": "many"},
        {"num_data": 0},
        {"num_data": 10**400},
        {"temperature": -1.0},
        {"something_new": 1},
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, changes):
    change(tmp_path, **changes)
    with pytest.raises(
        InputError, match=rf"(?s)run\.json cannot be read .*{next(iter(changes))}.* Train again"
    ):
        load_run(tmp_path, LaneRun)


def test_a_run_of_another_application_is_named(tmp_path):
    change(tmp_path, application="sonar")
    with pytest.raises(
        InputError, match=r"run\.json is of a run of `gpimaging sonar`, but a run of 'lane' is expected"
    ):
        load_run(tmp_path, LaneRun)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'"text"', b"[]"])
def test_damage_is_refused_without_a_traceback(tmp_path, content):
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(InputError, match=r"run\.json"):
        load_run(tmp_path, RunDescription)


def test_heads_have_folders_of_their_own(tmp_path):
    assert head_folder(tmp_path, "hgp") == tmp_path / "heads" / "hgp"
