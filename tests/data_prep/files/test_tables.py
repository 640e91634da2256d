"""Tables are written as a whole, equal values with equal texts, and read as spreadsheets write them."""

import csv
import errno
from pathlib import Path

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_folder
from data_prep.files.tables import cell_text, read_table, read_text, table_header, table_number, write_table


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("a.png,rose, red\n", "line 2: more fields than the 2 of the first line"),
        ('a.png,"rose\nb.png,rose"\nc.png,x\n', "line 3: the class holds a whole line more"),
    ],
)
def test_rows_that_would_lose_a_field_or_swallow_another_row_are_refused(
    tmp_path: Path, rows: str, fault: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"image,class\n{rows}")
    with pytest.raises(InputError, match=fault):
        read_table(path, ("image", "class"))
    path.write_text('image,class,,\na.png,"rose, red",,\nb.png,x,\n')  # as spreadsheets end rows
    assert [row["class"] for row in read_table(path, ("image", "class")).values()] == ["rose, red", "x"]


def test_rows_are_given_in_the_order_of_the_columns_or_by_name(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "table.csv"
    write_table(path, ["name", "score", "good"], [["a, b", 1 / 3, True], {"good": False, "name": "ü"}])
    assert path.read_bytes() == 'name,score,good\r\n"a, b",0.333333,true\r\nü,,false\r\n'.encode()
    write_table(path, ("name",), iter([("c",)]))
    assert rows_of(path) == [["name"], ["c"]]
    write_table(path, ("name",), ())
    assert rows_of(path) == [["name"]]


def test_cells_show_values_as_people_read_them() -> None:
    values = [0.1234567, 9999.99951, 12345.678, -1e5, 1e-9, np.float64(0.5), float("nan")]
    assert [cell_text(value) for value in values] == [
        "0.123457",
        "10000",
        "12345.68",
        "-100000.00",
        "1e-09",
        "0.5",
        "nan",
    ]
    assert [cell_text(value) for value in (True, False, None, 12, "1.0")] == ["true", "false", "", 12, "1.0"]


def test_unknown_columns_are_refused_and_the_former_table_stays(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_table(path, ["name"], [["a"]])
    with pytest.raises(ValueError, match="score"):
        write_table(path, ["name"], [{"name": "b", "score": 1}])
    assert rows_of(path) == [["name"], ["a"]]
    assert list(tmp_path.iterdir()) == [path]


def test_a_table_appears_when_its_last_row_is_computed(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"

    def rows() -> object:
        yield ["a"]
        assert not path.exists()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_table(path, ["name"], rows())
    assert not any(tmp_path.iterdir())


def test_bytes_of_names_that_are_not_utf_8_are_escaped(tmp_path: Path) -> None:
    write_table(tmp_path / "table.csv", ["file"], [[b"\xff.png".decode("utf-8", "surrogateescape")]])
    assert (tmp_path / "table.csv").read_bytes() == b"file\r\n\\udcff.png\r\n"


def test_a_table_of_a_folder_under_way_blames_the_folder(tmp_path: Path) -> None:
    def rows() -> object:
        raise OSError(errno.ENOSPC, "No space left on device")
        yield

    with (
        pytest.raises(InputError, match=r"^\S+/out: cannot be written \(No space left on device\)"),
        atomic_folder(tmp_path / "out") as folder,
    ):
        write_table(folder / "table.csv", ["name"], rows())
    with pytest.raises(InputError, match=r"^\S+/table\.csv: cannot be written"):
        write_table(tmp_path / "table.csv", ["name"], rows())


def test_some_columns_of_a_table_by_line(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('\ufeff x ;y;other\n 1 ;"2\n";3\n4\n', encoding="utf-8")
    assert read_table(path, ("x",), optional=("y", "z")) == {3: {"x": "1", "y": "2"}, 4: {"x": "4", "y": ""}}
    with pytest.raises(InputError, match=r"has no column z\. .* Correct the first line\. Or name another\."):
        read_table(path, ("z",), remedy="Or name another.")
    with pytest.raises(InputError, match=r"gone\.csv: cannot be read .*Expected a UTF-8 text file"):
        read_text(tmp_path / "gone.csv")


@pytest.mark.parametrize("text", ["1_2", "٣", "", "a"])
def test_numbers_are_those_of_tables(text: str) -> None:
    assert table_number(" 1e3 ") == 1000.0
    with pytest.raises(ValueError, match="could not convert string to float"):
        table_number(text)


def test_a_wanted_column_that_is_there_twice_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("image,class,class,note,note\na.png,x,y,,\n")
    with pytest.raises(InputError, match=r"a\.csv: 2 columns are called class\. Expected one"):
        read_table(path, ("image", "class"))
    assert read_table(path, ("image",)) == {2: {"image": "a.png"}}


def test_the_header_of_a_table_is_given_with_its_separator(tmp_path):
    path = tmp_path / "a.csv"
    for text, delimiter in (("a, b\n1,2\n", ","), ("a;b\n", ";"), ("a\tb", "\t"), ("a b", ",")):
        path.write_text(text)
        assert table_header(path) == (["a b"] if text == "a b" else ["a", "b"], delimiter)
    path.write_text("")
    assert table_header(path) == ([], ",")
