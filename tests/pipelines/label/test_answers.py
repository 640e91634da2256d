"""The store: what was confirmed is there again, whatever happens between."""

import csv
import json
import os
import threading

import pytest

from data_prep.errors import InputError
from pipelines.label.answers import ANSWERS, LABELS, REVIEW, Answers

KNOWN = [("a.png", "g", "", "test"), ("b.png", "h", "old", "train"), ('c,".png', "h", "", "train")]


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def add(answers, image, class_name, **options):
    return answers.add([image], "class", class_name=class_name, tab="1", **options)


def test_an_answer_is_there_again(tmp_path):
    (given,) = add(Answers(tmp_path), "a.png", "rose", who="me", groups={"a.png": "g"})
    assert Answers(tmp_path).standing("a.png") == given
    assert (given.number, given.class_name, given.group, given.who) == (1, "rose", "g", "me")


def test_the_last_answer_counts(tmp_path):
    answers = Answers(tmp_path)
    add(answers, "a.png", "rose")
    add(answers, "a.png", "tulip")
    assert answers.standing("a.png").class_name == "tulip"
    answers.add(["a.png"], "unsure", tab="1")
    assert answers.standing("a.png").verdict == "unsure"


def test_undo_takes_back_what_the_same_page_answered_last(tmp_path):
    answers = Answers(tmp_path)
    add(answers, "a.png", "rose")
    answers.add(["b.png"], "class", class_name="tulip", tab="other")
    assert [one.image for one in answers.undo("1")] == ["a.png"]
    assert answers.undo("1") == []
    again = Answers(tmp_path)
    assert again.standing("a.png") is None
    assert again.standing("b.png").class_name == "tulip"


def test_undo_after_undo_goes_further_back(tmp_path):
    answers = Answers(tmp_path)
    for name in ("rose", "tulip", "daisy"):
        add(answers, "a.png", name)
    answers.undo("1")
    answers.undo("1")
    assert answers.standing("a.png").class_name == "rose"


def test_images_that_were_answered_at_once_are_taken_back_at_once(tmp_path):
    answers = Answers(tmp_path)
    add(answers, "a.png", "rose")
    answers.add(["b.png", "c.png"], "class", class_name="tulip", tab="1")
    assert [one.image for one in answers.undo("1")] == ["b.png", "c.png"]
    assert answers.standing("a.png").class_name == "rose"


@pytest.mark.parametrize("length", [1, 40, 1000])
def test_a_torn_last_line_is_dropped_and_written_over(tmp_path, length):
    add(Answers(tmp_path), "a.png", "rose")
    path = tmp_path / ANSWERS
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-1][:length])
    answers = Answers(tmp_path)
    assert len(answers) == 1
    add(answers, "b.png", "tulip")
    assert path.read_bytes().startswith(whole)
    assert Answers(tmp_path).standing("b.png").number == 2


@pytest.mark.parametrize("wrong", ["{}", "not JSON", '{"number": 2, "image": "a", "verdict": "class"}', "[]"])
def test_a_line_between_that_is_no_answer_is_refused(tmp_path, wrong):
    add(Answers(tmp_path), "a.png", "rose")
    path = tmp_path / ANSWERS
    path.write_text(path.read_text() + wrong + "\n" + path.read_text())
    with pytest.raises(InputError, match=r"answers\.jsonl, line 2: is no answer"):
        Answers(tmp_path)


def test_lines_out_of_order_are_refused(tmp_path):
    add(Answers(tmp_path), "a.png", "rose")
    path = tmp_path / ANSWERS
    path.write_text(path.read_text() * 2)
    with pytest.raises(InputError, match="line 2: has the number 1"):
        Answers(tmp_path)


def test_it_is_on_the_disk_before_add_returns(tmp_path, monkeypatch):
    answers, synced = Answers(tmp_path), []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append((tmp_path / ANSWERS).read_text()))
    add(answers, "a.png", "rose")
    assert [json.loads(text)["image"] for text in synced] == ["a.png"]


def test_after_a_full_disk_nothing_is_kept_and_the_next_answer_is(tmp_path, monkeypatch):
    answers = Answers(tmp_path)
    add(answers, "a.png", "rose")

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(InputError, match=r"No space left on device.*is not kept"):
            add(answers, "b.png", "tulip")
    assert answers.standing("b.png") is None
    add(answers, "c.png", "tulip")
    again = Answers(tmp_path)
    assert again.standing("b.png") is None
    assert again.standing("c.png").number == 2


def test_many_threads_lose_nothing(tmp_path):
    answers = Answers(tmp_path)

    def work(thread):
        for number in range(20):
            answers.add([f"{thread}-{number}"], "class", class_name="rose", tab=str(thread))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = Answers(tmp_path)
    assert len(again) == 80
    assert all(again.standing(f"{thread}-{number}") for thread in range(4) for number in range(20))


def test_the_tables_hold_what_counts(tmp_path):
    answers = Answers(tmp_path)
    add(answers, 'c,".png', "ro,se", who="me")
    answers.add(["a.png"], "not usable", tab="1")
    answers.write_tables(KNOWN)
    labels = rows(tmp_path / LABELS)
    assert list(labels[0]) == ["image", "class", "group", "split", "who", "when"]
    assert [tuple(row.values())[:5] for row in labels] == [
        ("b.png", "old", "h", "train", "given"),
        ('c,".png', "ro,se", "h", "train", "me"),
    ]
    assert [(row["image"], row["answer"]) for row in rows(tmp_path / REVIEW)] == [("a.png", "not usable")]


def test_without_a_side_of_each_label_the_table_has_no_split(tmp_path):
    Answers(tmp_path).write_tables([("a.png", "g", "old", "test"), ("b.png", "h", "old", "")])
    assert rows(tmp_path / LABELS)[0] == {
        "image": "a.png",
        "class": "old",
        "group": "g",
        "who": "given",
        "when": "",
    }


def test_an_undone_correction_leaves_the_label_that_was_given(tmp_path):
    answers = Answers(tmp_path)
    add(answers, "b.png", "new")
    answers.undo("1")
    answers.write_tables(KNOWN)
    assert [row["class"] for row in rows(tmp_path / LABELS)] == ["old"]
