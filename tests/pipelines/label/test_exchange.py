"""Labels go to Label Studio and to class folders, and come back the same."""

import json
from dataclasses import replace

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.labelled.image_sources import find_images
from pipelines.label import steps
from pipelines.label.answers import Answers
from pipelines.label.exchange import (
    ExportedImage,
    with_label_studio,
    write_class_folders,
    write_label_studio,
)
from pipelines.label.pool import find_pool
from pipelines.label.session import Session
from pipelines.label.settings import LabelSettings
from tests.pipelines.label.small_images import CLASSES, truth, write_images

SETTINGS = LabelSettings(classes=CLASSES)


def task(file, *choices, **others):
    results = [{"type": "choices", "value": {"choices": [choice]}} for choice in choices]
    return {"id": 1, "data": {"image": file}, "annotations": [{"result": results, **others}]}


def labels_of(pool):
    return {image.name: image.label for image in pool.images if image.label}


def test_what_is_written_is_read_again(images, tmp_path):
    write_images(images, ["patient 1/a#b.png"])
    pool = find_pool(images, SETTINGS)
    labelled = [
        ExportedImage(image, CLASSES[number % 2] if number < 12 else "", None)
        for number, image in enumerate(pool.images)
    ]
    labelled[-1] = labelled[-1]._replace(label="dark")
    write_label_studio(tmp_path / "tasks.json", labelled, CLASSES)
    found = with_label_studio(pool, tmp_path / "tasks.json")
    assert labels_of(found) == {image.name: label for image, label, _ in labelled if label}
    assert "patient 1/a#b.png" in labels_of(found)


def test_a_prediction_has_a_score_and_a_label_needs_none(images, tmp_path):
    pool = find_pool(images, SETTINGS)
    probability = np.array([0.25, 0.75])
    labelled = [
        ExportedImage(pool.images[0], "dark", probability),
        ExportedImage(pool.images[1], "", probability),
    ]
    write_label_studio(tmp_path / "tasks.json", [*labelled, ExportedImage(pool.images[2], "", None)], CLASSES)
    first, second, third = json.loads((tmp_path / "tasks.json").read_text())
    choice = {"from_name": "class", "to_name": "image", "type": "choices"}
    assert first["annotations"] == [{"result": [{**choice, "value": {"choices": ["dark"]}}]}]
    assert "predictions" not in first
    (prediction,) = second["predictions"]
    assert prediction["score"] == 0.75
    assert prediction["result"] == [{**choice, "value": {"choices": ["light"]}}]
    assert third == {"data": {"image": "/data/local-files/?d=02.png"}}


def test_uploads_skipped_tasks_and_contradictions(images, tmp_path):
    tasks = [
        task("/data/upload/7/0a1b2c3d-00.png", "dark"),
        task("/data/local-files/?d=photos/01.png", "light"),
        task("https://example.org/02.png", "dark", was_cancelled=True),
        task("03.png", "dark", "light"),
        task("04.png"),
        task("another/99.png", "dark"),
        {"id": 2, "data": {"text": "no image"}},
    ]
    (tmp_path / "project.json").write_text(json.dumps(tasks))
    found = with_label_studio(find_pool(images, LabelSettings()), tmp_path / "project.json")
    assert labels_of(found) == {"00.png": "dark", "01.png": "light"}
    assert found.classes == CLASSES
    assert [entry.reason.rpartition("has the")[2] for entry in found.skipped] == [
        " classes dark, light. Expected one. Correct it there."
    ]


@pytest.mark.parametrize("content", ["{", "3", '[{"data": 5}]', '[{"image": "00.png", "choice": "dark"}]'])
def test_other_files_are_refused(images, tmp_path, content):
    (tmp_path / "project.json").write_text(content)
    with pytest.raises(InputError, match=r"no export of Label Studio. Export the project there as JSON"):
        with_label_studio(find_pool(images, SETTINGS), tmp_path / "project.json")
    (tmp_path / "project.json").write_text(json.dumps([task("x.png", "dark")]))
    with pytest.raises(InputError, match="none of its 1 tasks has an image"):
        with_label_studio(find_pool(images, SETTINGS), tmp_path / "project.json")


def test_class_folders_are_what_prepare_takes(images, tmp_path):
    write_images(images, ["day/00.png"])
    pool = find_pool(images, SETTINGS)
    labelled = [ExportedImage(image, truth(image.name), None) for image in pool.images]
    labelled[3] = labelled[3]._replace(label="")
    write_class_folders(tmp_path / "sorted", labelled)
    sources, _ = find_images(tmp_path / "sorted", None)
    assert len(sources) == 40
    assert {source.name for source in sources} >= {"dark/00", "dark/day__00", "light/05"}
    assert all(source.class_name == truth(source.path.name.rpartition("__")[2]) for source in sources)
    with pytest.raises(InputError, match="exists"):
        write_class_folders(tmp_path / "sorted", labelled)


def test_names_that_make_no_folder_are_refused(images, tmp_path):
    image = find_pool(images, SETTINGS).images[0]
    for label in ("../dark", "a/b", ".hidden", "a\\b"):
        with pytest.raises(InputError, match="cannot name a folder"):
            write_class_folders(tmp_path / "sorted", [ExportedImage(image, label, None)])
    twin = replace(image, name="00.png", path=image.path)
    with pytest.raises(InputError, match="would both be"):
        write_class_folders(tmp_path / "sorted", [ExportedImage(one, "dark", None) for one in (image, twin)])
    assert not (tmp_path / "sorted").exists()


def test_an_export_without_features_ends_with_the_reason(images, tmp_path):
    class Hindered:
        def encode(self, *_: object, **__: object) -> None:
            raise InputError("The disk is full.")

    (tmp_path / "labels").mkdir()
    session = Session(find_pool(images, SETTINGS), CLASSES, Answers(tmp_path / "labels"))
    with pytest.raises(InputError, match="The disk is full"):
        steps._encode(session, Hindered())
    steps._encode_in_background(session, Hindered())  # the page goes on, and shows it
    assert session.progress()["failure"] == "The disk is full."
    session.close()


def test_a_session_gives_labels_and_predictions_of_what_does_not_judge(open_session):
    session = open_session()
    for _ in range(20):
        question = session.question("1")
        session.answer([question["number"]], "class", class_name=truth(question["name"]), tab="1")
    found = session.labelled_images()
    assert sum(bool(one.label) for one in found) == 20
    judging = session._learned.learner.judging
    assert [one.probability is None for one in found] == judging.tolist()
    right = [
        CLASSES[int(one.probability.argmax())] == truth(one.image.name)
        for one in found
        if one.probability is not None
    ]
    assert np.mean(right) > 0.9
