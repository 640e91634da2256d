"""Patients with several images each: judged, answered and guaranteed as one."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from data_prep.files.images import write_picture
from pipelines.cli import make_app

pytestmark = pytest.mark.slow

IMAGES = 3
"""Of each patient."""


def run(*arguments: object, expected: int = 0) -> str:
    """Call a command in this process; return what it said."""
    result = CliRunner(env={"COLUMNS": "400"}).invoke(make_app(), [str(argument) for argument in arguments])
    assert result.exit_code == expected, (result.output, result.exception)
    return result.output


def write_patients(folder: Path, patients: int, seed: int) -> list[list[str]]:
    """Write dark and light images; return a row of image, class and patient for each."""
    rng = np.random.default_rng(seed)
    rows = []
    for patient in range(patients):
        name = ("dark", "light")[patient % 2]
        for number in range(IMAGES):
            level = 60 + 50 * (patient % 2) + rng.integers(0, 80)
            image = rng.integers(level, level + 40, (32, 32, 3)).astype(np.uint8)
            file = Path(f"patient {patient}", f"{number}.png")
            write_picture(folder / file, image)
            rows.append([file.as_posix(), name, f"patient {patient}"])
    return rows


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("patients")
    rows = write_patients(folder / "images", 120, seed=0)
    with (folder / "table.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["image", "class", "group"], *rows])
    options = ("--images", folder / "images", "--table", folder / "table.csv", "--size", "32x32")
    run("classify", "prepare", *options, "--out", folder / "prepared")
    settings = ("heads=[linear]", "selection_fraction=0.5", "out_of_fold=false")
    set_options = [text for setting in settings for text in ("--set", setting)]
    run("classify", "train", "--data", folder / "prepared", "--out", folder / "run", *set_options)
    run("classify", "export", "--model", folder / "run", "--out", folder / "bundle")
    return folder


def test_an_evaluation_by_group_judges_patients(trained, tmp_path):
    write_patients(tmp_path / "others", 3, seed=7)
    said = run(
        *("classify", "evaluate", "--data", trained / "prepared", "--model", trained / "run"),
        *("--out", tmp_path / "evaluation", "--set", "by=group"),
        *("--unfamiliar", tmp_path / "others" / "patient 0"),
    )
    assert "24 test examples" in said  # a fifth of 120 patients
    metrics = json.loads((tmp_path / "evaluation" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["data"]["groups"] == 24
    method = metrics["methods"]["Linear + temperature"]
    assert method["details"]["temperature of groups"] < 1  # a mean over images is too even
    assert method["guarantee"]["judged"] == "groups"
    assert method["scores"]["accuracy"] > 0.8


def test_a_prediction_by_folder_answers_for_each_patient(trained, tmp_path):
    write_patients(tmp_path / "new", 10, seed=1)
    said = run(
        *("classify", "predict", "--model", trained / "bundle", "--input", tmp_path / "new"),
        *("--out", tmp_path / "out", "--by", "folder", "--max-error", "0.2"),
    )
    assert "of all groups below that at most 0.2 are wrong" in said
    assert "10 groups of 30 inputs" in said
    with (tmp_path / "out" / "groups.csv").open(encoding="utf-8") as file:
        rows = {Path(row["group"]).name: row for row in csv.DictReader(file)}
    assert {row["images"] for row in rows.values()} == {str(IMAGES)}
    right = [row["label"] == ("dark", "light")[int(name.split()[1]) % 2] for name, row in rows.items()]
    assert np.mean(right) > 0.8
    with (tmp_path / "out" / "predictions.csv").open(encoding="utf-8") as file:
        assert {row["referred"] for row in csv.DictReader(file)} <= {"false", ""}


def test_the_answers_do_not_replace_the_table_of_groups(trained, tmp_path):
    write_patients(tmp_path / "new", 2, seed=1)
    (tmp_path / "out").mkdir()
    table = tmp_path / "out" / "groups.csv"
    table.write_text("image,group\n", encoding="utf-8")
    said = run(
        *("classify", "predict", "--model", trained / "bundle", "--input", tmp_path / "new"),
        *("--out", tmp_path / "out", "--by", table),
        expected=2,
    )
    assert "the answers are written to this file. Move the table elsewhere." in said
    assert table.read_text(encoding="utf-8") == "image,group\n"


def test_groups_of_two_classes_are_not_judged(trained, tmp_path):
    rows = write_patients(tmp_path / "images", 10, seed=2)
    for row in rows:
        row[2] = "one" if row[2] in {"patient 0", "patient 1"} else row[2]
    with (tmp_path / "table.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["image", "class", "group"], *rows])
    options = ("--images", tmp_path / "images", "--table", tmp_path / "table.csv", "--size", "32x32")
    run("classify", "prepare", *options, "--out", tmp_path / "prepared")
    said = run(
        *("classify", "evaluate", "--data", tmp_path / "prepared", "--model", trained / "run"),
        *("--out", tmp_path / "evaluation", "--set", "by=group"),
        expected=2,
    )
    assert "by=group, but 1 of 9 groups, first one, have images of several classes" in said
