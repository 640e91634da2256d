"""`gpimaging explore` from folders of every kind to its files, with good and with bad input."""

import csv
import json
import os
import re
import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from data_prep.errors import ClusterLost, InputError
from data_prep.prepared.workers import Cluster
from pipelines.cli import make_app
from pipelines.explore import reading
from pipelines.explore.latent import make_latent_model
from pipelines.explore.reading import read_examples
from pipelines.explore.settings import ExploreSettings
from pipelines.explore.steps import ExploredInputs, explore
from pipelines.trunks import features
from pipelines.trunks.weights import load_trunk, save_trunk

from .conftest import BROKEN, QUICK, WRONG

QUIET = Console(quiet=True)


def rows(path) -> list[dict]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def run(*arguments, expected=0):
    result = CliRunner().invoke(make_app(), ["explore", *map(str, arguments)])
    assert result.exit_code == expected, (result.output, result.exception)
    return result


@pytest.mark.slow
def test_the_folder_is_complete(explored):
    assert {path.name for path in explored.iterdir()} == {
        "explore.html",
        "embedding.csv",
        "metrics.json",
        "skipped.csv",
    }


@pytest.mark.slow
def test_the_table_has_a_row_for_each_example(explored):
    table = rows(explored / "embedding.csv")
    assert len(table) == 60
    assert sorted(int(row["oddness_rank"]) for row in table) == list(range(1, 61))
    scores = [float(row["score"]) for row in sorted(table, key=lambda row: int(row["oddness_rank"]))]
    assert scores == sorted(scores)
    assert all(float(row[f"std_{number}"]) > 0 for row in table for number in range(1, 5))
    positions = np.array([[float(row[f"position_{number}"]) for number in range(1, 5)] for row in table])
    assert np.isfinite(positions).all()
    wrong = {row["file"]: row for row in table if row["file"] in WRONG}
    assert wrong[WRONG[0]]["class"] == "three"
    assert wrong[WRONG[0]]["neighbours_class"] == "zero"
    assert all(float(row["suspicion"]) >= 0.5 for row in wrong.values())
    by_name = {row["file"]: row for row in table}
    assert by_name["zero/00.png"]["predicted"] == "zero"
    assert float(by_name["zero/00.png"]["model_error"]) == pytest.approx(0.1)
    assert by_name["zero/25.png"]["model_error"] == ""


def test_metrics_say_what_was_found(explored):
    metrics = json.loads((explored / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["examples"] == 60
    assert metrics["classes"] == 2
    assert metrics["skipped"] == 1
    assert metrics["features"] == "grey levels of 8 x 8 pixels"
    assert sorted(metrics["relevance"], reverse=True) == metrics["relevance"]
    assert set(WRONG) <= set(metrics["suspects"])
    assert metrics["neighbours_agree"] > 0.9
    assert metrics["settings"]["num_dimensions"] == 4


def test_unreadable_images_are_listed(explored):
    (entry,) = rows(explored / "skipped.csv")
    assert entry["file"].endswith(BROKEN)
    assert "unreadable or truncated" in entry["reason"]


@pytest.mark.slow
def test_the_command_takes_settings_and_says_what_it_found(digits, tmp_path):
    out = tmp_path / "out"
    options = ("--size", "4x4", "--set", "max_iterations=5", "--set", "num_dimensions=2", "--jobs", 1)
    result = run("--data", digits, "--out", out, *options)
    assert "explore.html" in result.output
    assert "1, see skipped.csv" in result.output
    assert "already exists" in run("--data", digits, "--out", out, *options, expected=2).output
    run("--data", digits, "--out", out, *options, "--overwrite")


@pytest.mark.slow
def test_prepared_images_are_looked_at_in_their_groups(digits, tmp_path, monkeypatch):
    source = shutil.copytree(digits, tmp_path / "images")
    (source / BROKEN).unlink()
    settings = ClassifyPrepareSettings(size=(8, 8), group_pattern=r"/(\w)", folds=2)
    prepare_classify(source, tmp_path / "prepared", settings)
    found = read_examples(tmp_path / "prepared", QUICK, jobs=1, console=QUIET)
    assert len(found.files) == 60
    assert set(found.classes) == {"three", "zero"}
    assert found.groups is not None
    assert found.features.values.shape == (60, 64)
    assert found.pictures[0].shape == (8, 8, 3)
    in_colour = read_examples(
        tmp_path / "prepared", QUICK.model_copy(update={"features": "colour"}), jobs=1, console=QUIET
    )
    assert in_colour.features.values.shape == (60, 192)
    monkeypatch.setenv("GPIMAGING_CACHE", str(tmp_path / "cache"))
    settings = ExploreSettings(features="efficientnet_lite0", weights="none", smallest_side=32)
    through_network = read_examples(tmp_path / "prepared", settings, jobs=1, console=QUIET)
    assert through_network.features.values.shape == (60, 1280)
    assert list((tmp_path / "cache").rglob("*.safetensors"))  # kept for the next look, and for training


@pytest.mark.slow
def test_a_folder_without_classes_has_no_label_errors(digits, tmp_path):
    out = tmp_path / "out"
    run("--data", digits / "three", "--out", out, "--size", "4x4", "--set", "max_iterations=3")
    page = (out / "explore.html").read_text(encoding="utf-8")
    assert 'id="labels"' not in page
    assert json.loads((out / "metrics.json").read_text(encoding="utf-8"))["num_suspects"] is None


@pytest.mark.slow
def test_noise_is_said_to_have_nothing_in_common(tmp_path, recwarn):
    rng = np.random.default_rng(0)
    for number in range(60):
        path = tmp_path / "noise" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8), np.uint8)).save(path)
    out = tmp_path / "out"
    options = ("--size", "8x8", "--set", "num_dimensions=3", "--set", "max_iterations=60", "--jobs", 1)
    output = " ".join(run("--data", tmp_path / "noise", "--out", out, *options).output.split())
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    page = (out / "explore.html").read_text(encoding="utf-8")
    for said in (output, page, metrics["notes"][0]):
        assert "nothing that the examples have in common" in said
    assert not [one for one in recwarn if issubclass(one.category, ConvergenceWarning)]
    assert metrics["relevance"] == [0, 0, 0]
    assert metrics["relevant_dimensions"] == 0
    assert metrics["num_suspects"] is None
    assert "turned off all of them" in page
    assert page.count('<div class="row low"') == 3


@pytest.mark.slow
def test_a_folder_whose_name_is_not_utf8_is_looked_at(digits, tmp_path):
    folder = shutil.copytree(digits / "three", os.fsdecode(os.fsencode(tmp_path) + b"/b\xe4d"))
    quick = QUICK.model_copy(update={"size": (2, 2), "max_iterations": 2})
    explore(quick, ExploredInputs(data=Path(folder)), out=tmp_path / "out", console=QUIET)
    assert "<h1>A look at b?d</h1>" in (tmp_path / "out" / "explore.html").read_text(encoding="utf-8")


def test_tables_that_are_too_large_are_refused_before_the_fit():
    with pytest.raises(InputError, match=r"20000 examples with 20000 numbers each take 3\.0 GiB"):
        make_latent_model((20_000, 20_000), "common", QUICK)


def test_of_many_examples_some_are_drawn(digits):
    few = QUICK.model_copy(update={"max_examples": 10})
    one, other = (read_examples(digits, few, jobs=1, console=QUIET) for _ in range(2))
    assert one.files == other.files
    assert 9 <= len(one.files) <= 10  # one of those drawn may be the damaged file
    assert "of 61 examples were drawn at random" in one.notes[0]


def test_coloured_images_are_compared_in_colour(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(6):
        image = Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8))
        image.save(tmp_path / f"{number}.png")
    found = read_examples(tmp_path, QUICK, jobs=1, console=QUIET)
    assert found.features.words == "colours of 8 x 8 pixels"
    assert found.features.values.shape == (6, 192)
    assert found.classes is None


@pytest.mark.slow
def test_a_network_describes_images_of_a_folder(digits):
    settings = ExploreSettings(features="efficientnet_lite0", weights="none", smallest_side=32)
    found = read_examples(digits / "three", settings, jobs=1, console=QUIET)
    assert found.features.values.shape == (30, 1280)
    assert found.features.words == "1280 features of efficientnet_lite0"


def test_bad_usage_is_refused_with_one_message(digits, tmp_path):
    out = tmp_path / "out"

    def refused(data, *options) -> str:
        return run("--data", data, "--out", out, *options, expected=2).output

    assert "does not exist; expected a folder" in refused(tmp_path / "nowhere")
    assert "is a file; expected a folder" in refused(digits / WRONG[1])
    assert "Did you mean 'neighbours'" in refused(digits, "--set", "neighbors=3")
    assert "has no handmade features" in refused(digits, "--features", "views")
    assert "expected sides from 2 to 256" in refused(digits, "--set", "size=[1,8]")
    assert "is in the input" in run("--data", digits, "--out", digits / "out", expected=2).output
    assert not out.exists()


WITHOUT_NETWORK = "explore --data PREPARED without --features efficientnet_lite0 or another network"


@pytest.mark.parametrize(
    ("file", "options", "called"),
    [
        ("manifest.json", [], WITHOUT_NETWORK),
        ("trunk.safetensors", [], WITHOUT_NETWORK),
        (
            "manifest.json",
            ["--features", "efficientnet_lite0", "--set", "weights=none"],
            "explore --data PREPARED --set weights=none",
        ),
    ],
)
def test_a_cluster_without_work_is_named_and_not_asked_for(tmp_path, file, options, called):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / file).write_text("{}")
    cluster = ["--cluster", "tcp://127.0.0.1:1"]  # where nothing answers
    said = run("--data", tmp_path / "data", "--out", tmp_path / "out", *options, *cluster, expected=2).stderr
    assert f"Note: `{called}` has no use for --cluster; it is ignored." in said
    assert "no Dask scheduler" not in said


@pytest.mark.parametrize("file", ["manifest.json", "0.png"])
def test_a_cluster_is_asked_where_a_network_computes(tmp_path, file):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / file).write_text("{}")
    options = ("--features", "efficientnet_lite0", "--cluster", "nowhere")
    said = run("--data", tmp_path / "data", "--out", tmp_path / "out", *options, expected=2).stderr
    assert "--cluster nowhere: expected tcp://HOST:PORT of a Dask scheduler" in " ".join(said.split())


@pytest.mark.slow
def test_a_lost_cluster_ends_with_1_and_writes_nothing(digits, tmp_path, monkeypatch):
    def lost(*_arguments, **_options):
        raise ClusterLost("--cluster tcp://head:8786: the scheduler no longer answers.")
        yield

    read = reading.read_fitted_images

    def read_here(*arguments, **options):
        return read(*arguments, **{**options, "jobs": 1})

    cluster = Cluster("tcp://head:8786", None)
    monkeypatch.setattr("pipelines.command.steps.open_cluster", lambda _: nullcontext(cluster))
    monkeypatch.setattr(reading, "read_fitted_images", read_here)
    monkeypatch.setattr(features, "work_with_tensorflow", lost)
    weights = tmp_path / "weights.safetensors"
    save_trunk(load_trunk("efficientnet_lite0", "none"), weights)
    options = (
        "--features",
        "efficientnet_lite0",
        "--set",
        f"weights={weights}",
        "--cluster",
        "tcp://head:8786",
    )
    said = run("--data", digits, "--out", tmp_path / "out", *options, expected=1).stderr
    assert said.split("Error: ")[1] == (
        "--cluster tcp://head:8786: the scheduler no longer answers. Nothing complete was written. "
        "Run the command again.\n"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["thesis.txt", "metrics.json"])  # evaluations have metrics too
def test_a_folder_that_it_did_not_write_is_not_replaced(digits, tmp_path, name):
    (tmp_path / name).write_text("years of work")
    result = run("--data", digits, "--out", tmp_path, "--overwrite", expected=2)
    assert "was not written by `explore`" in result.output
    with pytest.raises(InputError, match="was not written by `explore`"):
        explore(QUICK, ExploredInputs(data=digits), out=tmp_path, overwrite=True, console=QUIET)
    assert (tmp_path / name).exists()


def test_a_folder_that_holds_input_or_lies_in_it_is_not_replaced(digits, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "explore.html").write_text("an earlier exploration")
    table = out / "predictions.csv"
    table.write_text("file,label\n")

    def refused(folder, *options) -> str:
        arguments = ("--data", digits, "--out", folder, *options, "--overwrite")
        return " ".join(run(*arguments, expected=2).output.split())

    assert "or holds it" in refused(out, "--predictions", table)
    with pytest.raises(InputError, match="or holds it"):
        explore(QUICK, ExploredInputs(data=digits, predictions=table), out=out, overwrite=True, console=QUIET)
    assert table.exists()


@pytest.mark.parametrize("application", ["lane", []])
def test_folders_of_other_applications_are_refused(tmp_path, application):
    (tmp_path / "manifest.json").write_text(json.dumps({"application": application}))
    said = re.escape(f"prepared for the application {application!r}; expected one of cells, classify")
    with pytest.raises(InputError, match=said):
        read_examples(tmp_path, QUICK, jobs=1, console=QUIET)


@pytest.mark.parametrize(
    ("number", "message"), [(3, "3 examples can be used"), (6, "All 6 examples are equal")]
)
def test_data_in_which_nothing_can_be_seen_are_refused(tmp_path, number, message):
    for index in range(number):
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / f"{index}.png")
    result = run("--data", tmp_path, "--out", tmp_path.parent / "no_out", "--jobs", 1, expected=2)
    assert message in result.output
