"""What a model referred and what contradicts labels is shown first, with the reason."""

import json
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.files.tables import read_table, write_table
from pipelines.label.answers import Answers
from pipelines.label.pool import find_pool
from pipelines.label.reviewing import (
    predicted_classes,
    predicted_folder,
    referred_first,
    trained_classes,
    with_prepared,
)
from pipelines.label.session import Session
from pipelines.label.settings import LabelSettings
from pipelines.label.steps import open_pool
from tests.pipelines.label.small_images import CLASSES, made_features, write_images

SETTINGS = LabelSettings(classes=CLASSES)


@pytest.fixture
def predictions(tmp_path, images) -> Path:
    """Three of forty images are referred, one of them as unlike all others; one could not be read."""
    columns = ("file", "label", "predictive_entropy", "referred", "familiarity", "unfamiliar", "status")
    rows = [[images / f"{number:02d}.png", "dark", 0.1, "false", 0.5, "false", "ok"] for number in range(40)]
    rows[7][2:4] = [0.4, "true"]
    rows[9][2:4] = [0.6, "true"]
    rows[11][2:6] = [0.2, "true", 0.01, "true"]
    rows[13][6] = "cannot be read"
    table = [[*row, 0.9, 0.1] for row in rows]
    (tmp_path / "predictions").mkdir()
    names = [f"probability of {name}" for name in CLASSES]
    write_table(tmp_path / "predictions" / "predictions.csv", (*columns, *names), table)
    return tmp_path / "predictions"


def test_unlike_images_come_first_and_then_the_least_certain(images, predictions, tmp_path):
    pool = referred_first(find_pool(images, SETTINGS), predictions)
    assert [image.name for image in pool.images[:4]] == ["11.png", "09.png", "07.png", "00.png"]
    assert pool.images[0].reason.startswith(
        "The model that predicted takes it for dark with probability 0.90 and"
    )
    assert "unlike" in pool.images[0].reason
    assert "not certain" in pool.images[1].reason
    (tmp_path / "labels").mkdir()
    session = Session(pool, pool.classes, Answers(tmp_path / "labels"))
    session.learn_from(made_features(pool))
    asked = []
    while (question := session.question("1")) is not None:
        asked.append(question["name"])
        session.answer([question["number"]], "class", class_name="light", tab="1")
    session.close()
    assert asked == ["11.png", "09.png", "07.png"]
    labels = read_table(tmp_path / "labels" / "labels.csv", ("image", "class"))
    assert sorted(row["image"] for row in labels.values()) == ["07.png", "09.png", "11.png"]


def test_folder_and_classes_are_those_of_the_predictions(images, predictions, tmp_path):
    assert predicted_folder(predictions) == images
    assert predicted_classes(predictions) == CLASSES
    pool = open_pool(LabelSettings(), None, tmp_path / "out", source=predictions)
    assert pool.classes == CLASSES
    assert pool.purpose == "referred"
    (images / "03.png").unlink()
    with pytest.raises(InputError, match=r"03\.png is not there. Give the folder of the images"):
        predicted_folder(predictions)


def test_predictions_of_other_images_or_without_anything_referred_are_refused(images, predictions, tmp_path):
    write_images(tmp_path / "others", ["x.png"])
    with pytest.raises(InputError, match=r"has no file of .*others, such as x\.png"):
        referred_first(find_pool(tmp_path / "others", SETTINGS), predictions)
    table = predictions / "predictions.csv"
    table.write_text(table.read_text().replace("true", "false"))
    with pytest.raises(InputError, match="refers no image"):
        referred_first(find_pool(images, SETTINGS), predictions)


@pytest.fixture
def prepared(tmp_path) -> Path:
    """All but the last image are labelled by their brightness, but for one of them; two look the same."""
    folder = tmp_path / "prepared"
    folder.mkdir()
    examples = [{"name": f"{number:02d}", "group": f"g{number // 2}"} for number in range(39)]
    for example in examples:
        example["label"] = int(example["name"]) % 2 ^ int(example["name"] == "10")
    content = {"class_names": CLASSES, "examples": examples, "application": "classify"}
    (folder / "manifest.json").write_text(json.dumps(content))
    columns = ("file", "class", "other file", "other class")
    write_table(folder / "contradictions.csv", columns, [("04", "dark", "05", "light")])
    return folder


def test_contradicted_labels_come_first_and_then_doubted_ones(images, prepared, tmp_path):
    pool = open_pool(LabelSettings(), images, tmp_path / "out", source=prepared, is_review=True)
    assert [image.label for image in pool.images[:3]] == ["dark", "light", "dark"]
    assert pool.images[3].group == "g1"
    (tmp_path / "labels").mkdir()
    session = Session(pool, pool.classes, Answers(tmp_path / "labels"))
    session.learn_from(made_features(pool))
    asked = []
    for _ in range(3):
        question = session.question("1", "review")
        asked.append(question["name"])
        assert not question["judges"]
        session.answer([question["number"]], "class", class_name=CLASSES[0], tab="1", mode="review")
    session.close()
    assert asked == ["04.png", "05.png", "10.png"]


def test_without_review_a_prepared_folder_says_what_is_labelled(images, prepared, tmp_path):
    pool = open_pool(LabelSettings(), images, tmp_path / "out", source=prepared)
    assert pool.purpose == "learn"
    assert [image.name for image in pool.images if not image.label] == ["39.png"]


@pytest.mark.parametrize("name", ["run.json", "metadata.json"])
def test_a_model_says_which_classes_there_are(images, tmp_path, name):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / name).write_text(json.dumps({"class_names": CLASSES, "heads": []}))
    assert trained_classes(tmp_path / "model") == CLASSES
    write_images(images, ["dark/1.png", "other/2.png"])
    pool = open_pool(LabelSettings(), images, tmp_path / "out", source=tmp_path / "model")
    assert [image.name for image in pool.images if image.label] == ["dark/1.png"]
    assert pool.classes == CLASSES
    (tmp_path / "model" / name).write_text("[]")
    with pytest.raises(InputError, match="names no classes"):
        trained_classes(tmp_path / "model")
    assert trained_classes(images) is None


def test_what_cannot_be_reviewed_is_refused(images, prepared, predictions, tmp_path):
    with pytest.raises(InputError, match="no image has a label that could be suspect"):
        open_pool(SETTINGS, images, tmp_path / "out", is_review=True)
    with pytest.raises(InputError, match="Leave one of them out"):
        open_pool(SETTINGS, images, tmp_path / "out", source=predictions, is_review=True)
    with pytest.raises(InputError, match="IMAGES is missing"):
        open_pool(SETTINGS, None, tmp_path / "out", source=prepared, is_review=True)
    write_images(tmp_path / "others", ["x.png"])
    with pytest.raises(InputError, match=r"none of its 39 examples \(such as 00\)"):
        with_prepared(find_pool(tmp_path / "others", SETTINGS), prepared)
    (prepared / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match="does not list images with one class each"):
        with_prepared(find_pool(images, SETTINGS), prepared)
