"""`gpimaging watch` as a user calls it."""

import json
import subprocess
import sys
import time
from importlib import import_module

import numpy as np
import pytest

from pipelines.bundles.group_answers import GroupLine
from pipelines.bundles.metadata import class_signatures, with_familiarity
from pipelines.cli import APPLICATIONS
from pipelines.watch.commands import watch
from pipelines.watch.state import load_state
from pipelines.watch.watching import _POOLED

from .conftest import HELD_OUT, write_bundle


@pytest.fixture
def usual(place, draw):
    return [
        place.predictions(name, draw(np.random.default_rng(seed), 120)) for seed, name in enumerate("abc")
    ]


def test_usual_images_end_with_0_and_a_page(place, usual, tmp_path):
    done = place.run("watch", *usual, state=tmp_path / "watch.json", out=tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert "No alarm: 360 images" in done.output
    assert "Watch of lesions" in (tmp_path / "page.html").read_text()
    assert load_state(tmp_path / "watch.json").wealth.number == 360


def test_an_alarm_ends_with_3_and_stays(place, usual, tmp_path):
    state = tmp_path / "watch.json"
    assert place.run("watch", *usual, state=state).exit_code == 0
    strange = place.predictions("new", [1 / (HELD_OUT + 1)] * 30)
    done = place.run("watch", strange, state=state)
    assert done.exit_code == 3
    assert "Alarm at image 36" in done.output
    assert "new/" in done.output
    again = place.run("watch", *usual, strange, state=state, out=tmp_path / "page.html")
    assert again.exit_code == 3
    assert "390, 0 of them new" in again.output
    assert load_state(state).wealth.number == 390
    assert 'class="warnings"' in (tmp_path / "page.html").read_text()


def test_several_calls_leave_the_file_of_one(place, usual, tmp_path):
    for table in usual:
        place.run("watch", table, state=tmp_path / "parts.json", seed=4)
    place.run("watch", *usual, state=tmp_path / "whole.json", seed=4)
    assert (tmp_path / "parts.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


def test_compared_with_each_other_alone(place, usual, tmp_path):
    state = tmp_path / "watch.json"
    table = place.predictions(
        "darker", np.full(120, 0.2) + np.arange(120) / 900
    )  # all unlike the held-out ones
    first = place.run("watch", table, state=tmp_path / "bundle.json")
    assert first.exit_code == 3
    assert load_state(tmp_path / "bundle.json").held_out == HELD_OUT
    own = place.run("watch", *usual, state=state, baseline="stream")
    assert own.exit_code == 0
    assert "Compared with  │ each other" in own.output
    assert load_state(state).held_out == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.05}, "was begun with --alpha 0.01 --baseline bundle, which must not change"),
        ({"baseline": "stream"}, "was begun with --alpha 0.01 --baseline bundle"),
        ({"alpha": 0}, "alpha"),
        ({"baseline": "mine"}, "baseline"),
    ],
)
def test_a_stream_keeps_to_what_it_was_begun_with(place, usual, tmp_path, options, message):
    state = tmp_path / "watch.json"
    place.run("watch", usual[0], state=state)
    before = state.read_bytes()
    done = place.run("watch", usual[1], state=state, **options)
    assert done.exit_code == 2
    assert message in done.output
    assert state.read_bytes() == before
    assert place.run("watch", usual[1], state=state, alpha=0.01, baseline="bundle").exit_code == 0


def test_nothing_but_a_page_or_a_state_is_overwritten(place, usual, tmp_path):
    before = usual[0].read_bytes()
    done = place.run("watch", usual[0], state=tmp_path / "watch.json", out=usual[0])
    assert done.exit_code == 2
    assert "expected the name of a page" in done.output
    done = place.run("watch", usual[0], state=usual[0])
    assert done.exit_code == 2
    assert "is no state of `gpimaging watch`" in done.output
    assert usual[0].read_bytes() == before


def test_a_state_of_another_bundle(place, usual, tmp_path):
    state = tmp_path / "watch.json"
    place.run("watch", usual[0], state=state)
    content = json.loads(state.read_text()) | {"bundle": "1" * 64}
    state.write_text(json.dumps(content))
    done = place.run("watch", usual[1], state=state)
    assert done.exit_code == 2
    assert "is of another bundle. Give each bundle a --state of its own" in done.output


def test_an_error_in_a_later_table_counts_nothing(place, usual, tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("file,familiarity,status\n")
    done = place.run("watch", usual[0], empty, state=tmp_path / "watch.json")
    assert done.exit_code == 2
    assert not (tmp_path / "watch.json").exists()


def test_a_bundle_without_familiarity(place, usual, tmp_path):
    place.bundle.rename(tmp_path / "other")
    write_bundle(place.bundle, signatures=class_signatures(("benign", "malignant"), single_latent=True))
    for table in usual:
        (table.parent / "predict_run.json").unlink()
    done = place.run("watch", *usual, state=tmp_path / "watch.json")
    assert done.exit_code == 2
    assert "reports no familiarity. Train with a selection part" in done.output


def test_few_held_out_groups_are_said(place, draw, tmp_path):
    place.bundle.rename(tmp_path / "other")
    signatures = with_familiarity(class_signatures(("benign", "malignant"), single_latent=True), 1 / 21)
    write_bundle(place.bundle, signatures=signatures)
    table = place.predictions("a", draw(np.random.default_rng(0), 40, 20))
    done = place.run("watch", table, state=tmp_path / "watch.json")
    assert "By 20 held-out groups a few unfamiliar images among many cannot be found" in done.output


def test_medians_of_parts_are_compared_with_each_other_alone(place, usual, tmp_path):
    place.bundle.rename(tmp_path / "other")
    write_bundle(place.bundle, application="video")
    for table in usual:
        (table.parent / "predict_run.json").unlink()
    done = place.run("watch", *usual, state=tmp_path / "watch.json", baseline="bundle")
    assert done.exit_code == 2
    assert "reports the median of parts of an image" in done.output
    assert place.run("watch", *usual, state=tmp_path / "watch.json").exit_code == 0
    assert load_state(tmp_path / "watch.json").held_out == 0


def test_applications_with_medians_are_those_whose_lines_have_a_factor():
    found = set()
    for application in APPLICATIONS:
        module = import_module(f"pipelines.{application.name}.prediction")
        lines = [each for each in vars(module).values() if isinstance(each, type)]
        of_images = [each for each in lines if not issubclass(each, GroupLine)]  # groups have a table apart
        factors = {getattr(each, "familiarity_factor", 1) for each in of_images}
        found |= {application.name} if 2 in factors else set()
    assert found == _POOLED


def test_help_answers_without_tensorflow_and_matplotlib():
    program = (
        "import sys\nfrom typer.testing import CliRunner\nfrom pipelines.cli import make_app\n"
        "done = [CliRunner().invoke(make_app(), [name, '--help']) for name in ('watch', 'recheck')]\n"
        "heavy = {'tensorflow', 'matplotlib', 'scipy'} & sys.modules.keys()\n"
        "sys.exit(bool(heavy) or any(each.exit_code for each in done))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert watch.__doc__


@pytest.mark.slow
def test_a_hundred_thousand_predictions_take_seconds(place, draw, tmp_path):
    table = place.predictions("a", draw(np.random.default_rng(0), 100_000))
    begin = time.process_time()
    assert place.run("watch", table, state=tmp_path / "watch.json", out=tmp_path / "page.html").exit_code == 0
    assert time.process_time() - begin < 10
