"""Alterations are of all kinds and always the same, and what is accepted or crashes is noticed."""

import json
import shutil

import numpy as np
import pytest

from benchmarks.reliability import altered_readers
from benchmarks.reliability.alterations import leaving, lying_json, npy
from benchmarks.reliability.altered_cases import REFUSED, SAME, SUBJECTS, draw_case, write_case
from benchmarks.reliability.altered_readers import outcome
from benchmarks.reliability.hostile_bundles import rows_of
from data_prep.errors import InputError

CASE = next(case for case in (draw_case(n, 0) for n in range(50)) if case.subject == "run")


def test_cases_are_of_all_kinds_and_always_the_same():
    cases = [draw_case(number, 0) for number in range(300)]
    assert cases == [draw_case(number, 0) for number in range(300)]
    kinds = {(subject, kind) for subject, (_, kinds, _) in SUBJECTS.items() for kind in kinds}
    assert {(case.subject, case.kind) for case in cases} == kinds


def test_one_place_is_altered(tmp_path):
    content = {"size": [2, 3], "examples": [{"offset": 1}, {"offset": 5}]}
    for number in range(10):
        (tmp_path / "a.json").write_text(json.dumps(content))
        lying_json("a.json", {"size": (7,), "examples.*.offset": (-1, None)})(
            tmp_path, np.random.default_rng(number)
        )
        found = json.loads((tmp_path / "a.json").read_text())
        places = [found["size"], *(each["offset"] for each in found["examples"])]
        assert sum(a != b for a, b in zip(places, [[2, 3], 1, 5], strict=True)) == 1


def test_names_that_leave_the_folder_are_added(tmp_path):
    (tmp_path / "a.json").write_text('{"sha256": {"b": "0"}}')
    leaving("a.json", "sha256")(tmp_path, np.random.default_rng(0))
    assert len(json.loads((tmp_path / "a.json").read_text())["sha256"]) == 2


def test_an_array_may_claim_any_shape(tmp_path):
    (tmp_path / "a.npy").write_bytes(npy((2, 2), "<f8", np.arange(4.0).tobytes()))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), [[0, 1], [2, 3]])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (InputError("{}: damaged"), REFUSED),
        (InputError("something is damaged"), "the message does not name it"),
        (KeyError("serving_default"), "KeyError"),
        (ValueError("{}: damaged"), "ValueError"),
        (altered_readers.WaitedError(""), "not done after 60 s"),
        (None, SAME),
    ],
)
def test_what_comes_of_a_case_is_told(tmp_path, monkeypatch, error, expected):
    folder = CASE.folder(tmp_path)
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    def read(path):
        if error is not None:
            raise type(error)(str(error.args[0]).format(path))
        return {"run": 1}

    monkeypatch.setitem(altered_readers.READERS, "run", read)
    assert outcome(CASE, tmp_path, {"run": 1}).startswith(expected)
    if error is None:
        assert outcome(CASE, tmp_path, {"run": 2}) == "accepted with another run"
        (folder.parent / "outside").touch()
        assert outcome(CASE, tmp_path, {"run": 1}) == "something was written beside it"


def test_rows_count_outcomes():
    records = [
        {"number": 0, "subject": "run", "kind": "no JSON", "outcome": REFUSED},
        {"number": 1, "subject": "run", "kind": "no JSON", "outcome": SAME},
        {"number": 2, "subject": "run", "kind": "no JSON", "outcome": "KeyError"},
    ]
    (row,) = rows_of(records)
    assert (row["cases"], row["refused"], row["accepted, all the same"], row["with faults"]) == (3, 1, 1, 1)
    assert row["faults"] == "2: KeyError"


@pytest.mark.slow
def test_altered_estimators_are_refused_or_the_same(tmp_path):
    """The other subjects need a trained run, of which the tests of bundles, runs and manifests alter some."""
    good = tmp_path / "classify" / "estimator"
    good.parent.mkdir()
    altered_readers.fit_estimator(good)
    expected = altered_readers.read_estimator(good)
    cases = [case for case in (draw_case(n, 1) for n in range(200)) if case.subject == "estimator file"]
    for case in cases:
        write_case(case, 1, tmp_path)
        assert outcome(case, tmp_path, expected) in (REFUSED, SAME), case
        shutil.rmtree(case.folder(tmp_path))
