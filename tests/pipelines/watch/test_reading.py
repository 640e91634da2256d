"""Tables of predictions as a stream: each image once, and nothing that the bundle cannot have said."""

import json

import pytest

from data_prep.errors import InputError
from pipelines.watch.reading import new_images, require_predictions_of

LEAST = 1 / 301


def test_images_come_in_the_order_of_tables_and_lines(place):
    tables = [place.predictions("b", [0.5, 0.25]), place.predictions("a", [1.0])]
    images = new_images(tables, (), least=LEAST)
    assert images.files == ("b/0.png", "b/1.png", "a/0.png")
    assert images.familiarity == (0.5, 0.25, 1.0)
    assert [table.rows for table in images.read] == [2, 1]


def test_a_table_is_counted_once_also_where_it_was_predicted_again(place, capsys):
    table = place.predictions("a", [0.5, 0.25])
    first = new_images([table], (), least=LEAST)
    place.predictions("a", [0.5, 0.25], seconds=3.0)
    again = new_images([table, table], first.read, least=LEAST)
    assert again.files == ()
    assert again.read == first.read
    assert "was counted before" in capsys.readouterr().err


def test_of_a_table_that_has_grown_only_the_end_is_new(place):
    table = place.predictions("a", [0.5, 0.25])
    first = new_images([table], (), least=LEAST)
    place.predictions("a", [0.5, 0.25, 0.125])
    later = new_images([table], first.read, least=LEAST)
    assert later.files == ("a/2.png",)
    assert [part.rows for part in later.read] == [2, 3]
    assert new_images([table], later.read, least=LEAST).files == ()
    shorter = table.parent / "noon.csv"
    shorter.write_text("".join(table.read_text().splitlines(keepends=True)[:3]))
    assert new_images([shorter, table], later.read, least=LEAST).files == ()  # also each time anew
    place.predictions("a", [0.5, 0.3, 0.125])  # another one
    assert len(new_images([table], later.read, least=LEAST).files) == 3


def test_lines_of_no_order_are_shuffled_in_the_same_way_each_time(place):
    table = place.predictions("a", [(1 + number) / 301 for number in range(50)])
    plain, *shuffled = (new_images([table], (), least=LEAST, shuffle=seed) for seed in (None, 1, 1, 2))
    assert shuffled[0] == shuffled[1] != shuffled[2]
    assert shuffled[0].files != plain.files
    assert set(shuffled[0].files) == set(plain.files)


def test_lines_without_a_prediction_are_left_out(place):
    table = place.predictions("a", [0.5, 0.25, 0.125])
    lines = table.read_text().splitlines()
    lines[1] = lines[1].replace(",ok,", ",is truncated,")
    lines[2] = lines[2].replace(",0.25,", ",,")
    table.write_text("\n".join(lines))
    images = new_images([table], (), least=LEAST)
    assert (images.files, images.left_out) == (("a/2.png",), 2)


@pytest.mark.parametrize("text", ["0.001", "1.5", "nan", "inf", "-1", "half", "1_0", "0"])
def test_a_familiarity_that_the_bundle_cannot_report(place, text):
    table = place.predictions("a", [0.5])
    table.write_text(table.read_text().replace(",0.5,", f",{text},"))
    with pytest.raises(
        InputError, match=rf"line 2: the familiarity is '{text}'; expected a number from 0.0033"
    ):
        new_images([table], (), least=LEAST)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column file, familiarity, status"),
        (
            "file,label,status\na.png,cat,ok\n",
            "no column familiarity.* reports no familiarity of whole images",
        ),
        ("file,familiarity,status\n", "none of its 0 lines"),
        ("file,familiarity,status\na.png,,ok\n", "none of its 1 lines has a familiarity"),
        ("file,familiarity,status\na.png,0.5,ok,more\n", "more fields"),
        ('file,familiarity,status\n"a.png,0.5,ok\nb.png,0.5,ok\n', "none of its|quotation mark"),
        ("file,familiarity,familiarity,status\na.png,0.5,0.5,ok\n", "2 columns are called familiarity"),
    ],
)
def test_what_is_no_table_of_predictions(tmp_path, text, message):
    table = tmp_path / "predictions.csv"
    table.write_text(text)
    with pytest.raises(InputError, match=message):
        new_images([table], (), least=LEAST)


def test_a_table_that_cannot_be_read(tmp_path):
    table = tmp_path / "predictions.csv"
    with pytest.raises(InputError, match="cannot be read"):
        new_images([table], (), least=LEAST)
    table.write_bytes(b"file,familiarity,status\n\xff\xfe,0.5,ok\n")
    with pytest.raises(InputError, match="no UTF-8 text"):
        new_images([table], (), least=LEAST)


def test_predictions_of_another_bundle(place, capsys):
    table = place.predictions("a", [0.5])
    require_predictions_of(place.bundle, [table])
    assert capsys.readouterr().err == ""
    record = table.parent / "predict_run.json"
    record.write_text(json.dumps({"bundle": "0" * 64}))
    with pytest.raises(InputError, match="by another bundle than"):
        require_predictions_of(place.bundle, [table])
    for text in ("{", "[]", "null"):
        record.write_text(text)
        with pytest.raises(InputError, match=r"is no JSON|another bundle"):
            require_predictions_of(place.bundle, [table])
    record.unlink()
    require_predictions_of(place.bundle, [table])
    assert "no predict_run.json beside it" in capsys.readouterr().err
