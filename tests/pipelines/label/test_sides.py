"""Sides stay: what trained never judges, what judged never trains, whatever is added or run again."""

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.files.tables import read_table, write_table
from pipelines.label.answers import BOTH_SIDES, Answers
from pipelines.label.pool import find_pool
from pipelines.label.session import Session
from pipelines.label.settings import LabelSettings
from pipelines.label.sides import assigned_sides, with_former_labels
from tests.pipelines.label.small_images import CLASSES, made_features, truth, write_images

SETTINGS = LabelSettings(classes=CLASSES)


def opened(images, labels, *, seed=0, is_ready=True, **options):
    """A session as the command opens it, in a folder that may hold labels."""
    labels.mkdir(exist_ok=True)
    answers = Answers(labels)
    pool = with_former_labels(find_pool(images, SETTINGS, **options), labels, answers.images())
    session = Session(pool, CLASSES, answers, seed=seed)
    if is_ready:
        session.learn_from(made_features(pool))
    return session


def label_some(session, count):
    asked = []
    for _ in range(count):
        question = session.question("1")
        session.answer([question["number"]], "class", class_name=truth(question["name"]), tab="1")
        asked.append(question)
    return asked


def sides(labels):
    rows = read_table(labels / "labels.csv", ("image", "class"), ("split",))
    return {row["image"]: row.get("split") for row in rows.values()}


def test_groups_follow_what_is_known_of_them():
    groups, known = ["a", "a", "b", "b", "b", "c"], ["test", "", "test", "train", "", "train"]
    assert assigned_sides(groups, known, 0) == ["test", "test", "test", "train", BOTH_SIDES, "train"]


@pytest.mark.parametrize("seed", [0, 5])
def test_images_that_are_added_and_other_seeds_move_nothing(images, tmp_path, seed):
    session = opened(images, tmp_path / "labels")
    label_some(session, 25)
    session.close()
    before = sides(tmp_path / "labels")
    assert set(before.values()) == {"train", "test"}
    for number, name in enumerate(sorted(before)[:6]):  # copies that come first, and take the group's name
        (images / f"!{number}.png").write_bytes((images / name).read_bytes())
    session = opened(images, tmp_path / "labels", seed=seed)
    by_name = dict(zip((image.name for image in session.pool.images), session._sides, strict=True))
    assert {name: by_name[name] for name in before} == before
    copied = [before[name] for name in sorted(before)[:6]]
    assert [by_name[f"!{number}.png"] for number in range(6)] == copied
    learner = session._learned.learner
    assert learner.judging.tolist() == [side == "test" for side in session._sides]
    session.close()
    assert sides(tmp_path / "labels") == before


def test_before_near_duplicates_are_known_nothing_judges_and_no_side_is_written(images, tmp_path):
    session = opened(images, tmp_path / "labels", is_ready=False)
    label_some(session, 15)
    assert set(sides(tmp_path / "labels").values()) == {None}
    answered = {image.name for image, one in zip(session.pool.images, session._standing, strict=True) if one}
    session.learn_from(made_features(session.pool))
    by_name = dict(zip((image.name for image in session.pool.images), session._sides, strict=True))
    assert {by_name[name] for name in answered} == {"train"}
    assert set(sides(tmp_path / "labels").values()) == {"train"}
    session.close()


def test_an_image_like_both_sides_is_never_asked(images, tmp_path):
    rows = [("00.png", "dark", "g", "train"), ("02.png", "dark", "g", "test"), ("04.png", "", "g", "")]
    write_table(tmp_path / "table.csv", ("image", "class", "group"), [row[:3] for row in rows])
    (tmp_path / "labels").mkdir()
    columns = ("image", "class", "group", "split", "who")
    write_table(tmp_path / "labels" / "labels.csv", columns, [(*row, "given") for row in rows[:2]])
    session = opened(images, tmp_path / "labels", table=tmp_path / "table.csv")
    assert session._sides == ["train", "test", BOTH_SIDES]
    assert session.question("1") is None
    session.close()


def test_given_labels_stay_where_the_table_is_not_given_again(images, tmp_path):
    write_table(tmp_path / "table.csv", ("image", "class"), [("00.png", "dark"), ("01.png", "light")])
    session = opened(images, tmp_path / "labels", table=tmp_path / "table.csv")
    session.write_tables()
    session.close()
    session = opened(images, tmp_path / "labels")
    assert {image.name: image.label for image in session.pool.images if image.label} == {
        "00.png": "dark",
        "01.png": "light",
    }
    session.close()


def test_a_folder_of_other_labels_is_refused(images, tmp_path):
    session = opened(images, tmp_path / "labels")
    label_some(session, 3)
    session.close()
    write_images(tmp_path / "others", ["x.png", "y.png"])
    with pytest.raises(InputError, match=r"its 3 labels are of other images than those of"):
        opened(tmp_path / "others", tmp_path / "labels")
    assert len(sides(tmp_path / "labels")) == 3


def test_the_learner_sees_what_the_table_says(images, tmp_path):
    session = opened(images, tmp_path / "labels")
    label_some(session, 20)
    table = sides(tmp_path / "labels")
    judging = session._learned.learner.judging
    names = np.array([image.name for image in session.pool.images])
    assert {name for name, side in table.items() if side == "test"} == set(names[judging]) & set(table)
    session.close()
