"""What comes next, what is said of it, and what an answer changes."""

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.files.tables import read_table, write_table
from pipelines.label.answers import Answers
from pipelines.label.pool import Pool, PoolImage
from pipelines.label.session import ALIKE_IMAGES, Session
from pipelines.label.settings import LabelSettings
from tests.pipelines.label.small_images import CLASSES, made_features, truth, write_images


def label_some(session, count, tab="1"):
    asked = []
    for _ in range(count):
        question = session.question(tab)
        asked.append(question)
        session.answer([question["number"]], "class", class_name=truth(question["name"]), tab=tab)
    return asked


def test_every_fifth_question_judges_and_its_prediction_is_hidden(open_session):
    asked = label_some(open_session(), 20)
    assert [question["judges"] for question in asked] == [False, False, False, False, True] * 4
    assert all((question["prediction"] is None) == question["judges"] for question in asked)


def test_the_prediction_follows_the_answers(open_session):
    session = open_session()
    label_some(session, 20)
    question = next(one for one in (session.question(tab) for tab in "abcdef") if not one["judges"])
    prediction = question["prediction"]
    assert sum(prediction["probability"]) == pytest.approx(1.0)
    assert CLASSES[int(np.argmax(prediction["probability"]))] == truth(question["name"])
    assert [one["label"] for one in prediction["similar"]] == [truth(question["name"])] * 3
    likenesses = [one["similarity"] for one in prediction["similar"]]
    assert likenesses == sorted(likenesses, reverse=True)
    assert prediction["familiarity"]


def test_before_the_features_images_come_at_random(open_session):
    session = open_session(is_ready=False)
    asked = label_some(session, 10)
    names = [question["name"] for question in asked]
    assert names != sorted(names)
    assert all(question["prediction"] is None for question in asked)
    session.learn_from(made_features(session.pool))
    assert session.progress()["learned"]["num_training"] > 0
    assert session.question("1")["name"] not in names


def test_all_is_asked_once_and_then_nothing(open_session):
    session = open_session()
    asked = label_some(session, len(session.pool.images))
    assert len({question["name"] for question in asked}) == len(asked)
    assert session.question("1") is None


def test_the_grid_holds_unlabelled_training_images_of_one_prediction(open_session):
    session = open_session()
    label_some(session, 12)
    question = next(one for one in (session.question(tab) for tab in "abcdef") if not one["judges"])
    grid = session.alike(question["number"])
    numbers = [one["number"] for one in grid["images"]]
    assert numbers[0] == question["number"]
    assert 1 < len(numbers) <= ALIKE_IMAGES
    assert {truth(one["name"]) for one in grid["images"]} == {grid["class"]}
    session.answer(numbers, "class", class_name=grid["class"], tab="1")
    assert session.progress()["answered"] == 12 + len(numbers)
    session.undo("1")
    assert session.progress()["answered"] == 12


def test_the_grid_says_nothing_of_an_image_that_judges(open_session):
    session = open_session()
    label_some(session, 4)
    question = session.question("1")
    assert question["judges"]
    assert session.alike(question["number"]) == {"class": "", "images": []}


def test_a_wrong_label_comes_up_for_review_once(open_session):
    session = open_session()
    asked = label_some(session, 30)
    wrong = next(question for question in asked if not question["judges"])
    other = CLASSES[1 - CLASSES.index(truth(wrong["name"]))]
    session.answer([wrong["number"]], "class", class_name=other)
    question = session.question("r", "review")
    assert question["name"] == wrong["name"]
    assert f"labelled {other}" in question["reason"]
    session.answer([wrong["number"]], "class", class_name=other, tab="r", mode="review")
    following = session.question("r", "review")
    assert following is None or following["name"] != wrong["name"]


def test_what_is_unsure_comes_up_for_review(open_session):
    session = open_session()
    label_some(session, 10)
    unsure = session.question("1")
    session.answer([unsure["number"]], "unsure", who="me", tab="1")
    assert session.question("r", "review")["reason"] == "me was not sure."


def test_class_folders_are_labels_that_are_not_asked_again(open_session, images):
    write_images(images, [f"{name}/{number}.png" for number in range(4) for name in CLASSES])
    session = open_session()
    assert session.progress()["labelled"] == {"dark": 4, "light": 4}
    assert len(session.pool.images) == 48
    for tab in map(str, range(40)):
        assert session.question(tab)["label"] == ""
    assert session.question("40") is None


def test_progress_counts_and_says_what_it_has_bought(open_session):
    session = open_session()
    label_some(session, 38)
    found = session.progress()
    assert found["answered"] == sum(found["labelled"].values()) == 38
    learned = found["learned"]
    assert learned["num_training"] + learned["num_judging"] == 38
    assert learned["sentence"]


def test_near_duplicates_are_of_one_group(open_session, images):
    copies = [f"copy {number}.png" for number in range(3)]
    for name in copies:
        (images / name).write_bytes((images / "00.png").read_bytes())
    session = open_session()
    numbers = [n for n, image in enumerate(session.pool.images) if image.name in {"00.png", *copies}]
    assert len({session._groups[number] for number in numbers}) == 1


def test_what_judges_is_the_test_part_of_the_table_and_keeps_a_split_that_is_known(open_session, tmp_path):
    rows = [(f"{number:02d}.png", "dark", "test" if number < 3 else "train") for number in range(6)]
    write_table(tmp_path / "known.csv", ("image", "class", "split"), rows)
    session = open_session(LabelSettings(classes=CLASSES), table=tmp_path / "known.csv")
    assert session._learned.learner.judging.tolist() == [True] * 3 + [False] * 3
    session = open_session()
    label_some(session, 20)
    judging = {
        image.name for image, one in zip(session.pool.images, session._sides, strict=True) if one == "test"
    }
    table = read_table(tmp_path / "labels" / "labels.csv", ("image", "split")).values()
    assert {row["image"] for row in table if row["split"] == "test"} == judging & {
        row["image"] for row in table
    }
    assert {row["split"] for row in table} == {"train", "test"}


def test_a_pool_with_an_order_is_asked_in_it(tmp_path, images):
    files = [(f"{number:02d}.png", f"reason {number}") for number in (7, 3, 11)]
    pool = Pool(
        images,
        tuple(PoolImage(name, images / name, name, "dark", reason=reason) for name, reason in files),
        purpose="referred",
    )
    (tmp_path / "labels").mkdir()
    session = Session(pool, CLASSES, Answers(tmp_path / "labels"))
    found = []
    for _ in files:
        question = session.question("1")
        found.append((question["name"], question["reason"]))
        session.answer([question["number"]], "class", class_name="light", tab="1")
    assert found == files
    assert session.question("1") is None


def test_one_class_is_too_few(open_session):
    with pytest.raises(InputError, match=r"1 classes are known \(one\); expected two at least"):
        open_session(LabelSettings(classes=("one",)))


def test_without_features_images_still_come(open_session):
    session = open_session(is_ready=False)
    session.fail("The disk is full.")
    label_some(session, 3)
    assert session.progress()["failure"] == "The disk is full."


def test_the_page_knows_when_no_image_is_left_to_judge(open_session):
    session = open_session()
    tests = [number for number, side in enumerate(session._sides) if side == "test"]
    assert session.progress()["judges_left"] == len(tests) > 2
    session.answer(tests[:1], "unsure", tab="1")
    session.answer(tests[1:], "class", class_name=CLASSES[0], tab="1")
    assert session.progress()["judges_left"] == 0
    assert session.progress()["learned"]["num_judging"] == len(tests) - 1
