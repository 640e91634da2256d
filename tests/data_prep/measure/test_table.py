"""Tables of images and numbers, most of them as nobody should write them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_prep.errors import InputError
from data_prep.measure.settings import MeasurePrepareSettings
from data_prep.measure.table import MeasuredTable, read_measured


def read(folder: Path, rows: list[str], header: str = "image,value", **settings: object) -> MeasuredTable:
    for row in rows:
        Image.new("RGB", (4, 4)).save(folder / row.replace(";", ",").partition(",")[0])
    table = folder / "table.csv"
    table.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return read_measured(folder, table, MeasurePrepareSettings(**settings))


def rows_of(*texts: str) -> list[str]:
    return [f"{number:02d}.png,{text}" for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("header", "settings", "unit"),
    [
        ("image,value", {}, ""),
        ("image,Value (mm)", {}, "mm"),
        ("image,value [mm]", {"unit": "mm"}, "mm"),
        ("image,value [mm]", {"column": "value [mm]"}, "mm"),
        ("image,area [µm²]", {"column": "area"}, "µm²"),
        ("image,value", {"unit": "g"}, "g"),
    ],
)
def test_the_unit_is_in_the_header_or_an_option(tmp_path, header, settings, unit):
    table = read(tmp_path, rows_of("1", "2.5", "-3e1", "1e6"), header, **settings)
    assert table.unit == unit
    assert [source.value for source in table.sources] == [1.0, 2.5, -30.0, 1e6]
    assert all(source.class_name.endswith(unit) for source in table.sources)


@pytest.mark.parametrize("unit", ["mm", "ppm", "kPa", "min", "%", "°C", "m2"])
def test_a_unit_in_every_cell_is_the_unit(tmp_path, unit):
    table = read(tmp_path, rows_of(f"1 {unit}", f"2{unit}", f"3.5  {unit}"))
    assert (table.unit, [source.value for source in table.sources]) == (unit, [1.0, 2.0, 3.5])


@pytest.mark.parametrize(
    ("texts", "header", "settings", "said"),
    [
        (("1 mm", "2 cm"), "image,value", {}, r"mixes units \(00 mm; 01 cm\). Expected one unit"),
        (("1 mm", "2"), "image,value", {}, r"mixes units \(00 mm; 01 none\)"),
        (("1 cm", "2 cm"), "image,value [mm]", {}, "mixes units"),
        (("1", "2"), "image,value [mm]", {"unit": "cm"}, "--unit cm: the header of .* says mm"),
        (('"1,5"', "2"), "image,value", {}, "'1,5', a decimal comma. Expected a number with a decimal point"),
        (('"1.234,5 mm"', "2"), "image,value", {}, "'1.234,5 mm', a decimal comma"),
        (('"1,5 mm2"', "2"), "image,value", {}, "'1,5 mm2', a decimal comma"),
        (('"1,5e3"', "2"), "image,value", {}, "'1,5e3', a decimal comma"),
        (('"1,234.5 m2"', "2"), "image,value", {}, "'1,234.5 m2', a comma for thousands"),
        (('"1,234.5"', "2"), "image,value", {}, "'1,234.5', a comma for thousands"),
        (('"1,234,567"', "2"), "image,value", {}, "'1,234,567', a comma for thousands"),
        (('"-1,234,567.5 mm"', "2"), "image,value", {}, "'-1,234,567.5 mm', a comma for thousands"),
        (('"1,234"', "2"), "image,value", {}, "'1,234', a decimal comma"),
        (("2024-05-01 10:30", "2"), "image,value", {}, "'2024-05-01 10:30', a date"),
        (("05/2024", "2"), "image,value", {}, "'05/2024', a date"),
        (("May 24", "2"), "image,value", {}, "'May 24', a date"),
        (("2024-05-01", "2"), "image,value", {}, "'2024-05-01', a date"),
        (("1.5.2024", "2"), "image,value", {}, "a date"),
        (("5-May", "2"), "image,value", {}, "a date"),
        (("5. Mai", "2"), "image,value", {}, "a date"),
        (("3", "3.0"), "image,value", {}, "all 2 images have the value 3. Expected numbers that differ"),
        (("1e200", "-1e200", "0"), "image,value", {}, "too far apart to be computed with. Take another unit"),
        (("3", "4"), "image,class", {}, "found 0 columns 'value', of image, class"),
        ((), "", {}, "found 0 columns 'value', of none at all"),
    ],
)
def test_what_would_be_guessed_wrongly_is_refused(tmp_path, texts, header, settings, said):
    with pytest.raises(InputError, match=said):
        read(tmp_path, rows_of(*texts), header, **settings)


def test_a_comma_in_a_table_of_semicolons_is_refused(tmp_path):
    with pytest.raises(InputError, match="'1,5', a decimal comma"):
        read(tmp_path, ["a.png;1,5", "b.png;2,5"], "image;value")


def test_what_is_no_number_is_left_out_with_a_reason(tmp_path):
    table = read(tmp_path, rows_of("1", "n/a", "nan", "inf", "", "2"))
    assert [source.value for source in table.sources] == [1.0, 2.0]
    assert sorted(entry.reason.partition(": ")[2] for entry in table.skipped) == [
        "no value. Complete the row or remove it.",
        "the value of 01 is 'n/a', no finite number. Correct it.",
        "the value of 02 is 'nan', no finite number. Correct it.",
        "the value of 03 is 'inf', no finite number. Correct it.",
    ]


@pytest.mark.parametrize("ending", ["'000", "±1", ":30", " e5", "x10", " 000"])
def test_what_follows_a_number_and_is_no_unit_is_left_out(tmp_path, ending):
    table = read(tmp_path, rows_of("1", "2", f"3{ending}", f"4{ending}"))
    assert (table.unit, [source.value for source in table.sources]) == ("", [1.0, 2.0])
    assert len(table.skipped) == 2


def test_what_a_person_should_know_is_noted(tmp_path):
    zeros = read(tmp_path, rows_of(*["0"] * 18, "1", "2"))
    assert zeros.notes[0].startswith("18 of 20 images have the value 0:")
    spread = [str(value) for value in np.linspace(1.0, 2.0, 19)]
    (note,) = read(tmp_path, rows_of(*spread, "1e6")).notes
    assert note.startswith("1 of 20 values are farther than 10 interquartile ranges")
    assert "1e+06 of 19" in note
    assert read(tmp_path, rows_of(*spread)).notes == ()
    skewed = np.exp(np.random.default_rng(0).normal(0.0, 2.0, 60))  # learned as logarithms
    assert read(tmp_path, rows_of(*map(str, skewed))).notes == ()


@pytest.mark.parametrize(("within", "is_noted"), [(0.0, True), (0.5, False)])
def test_numbers_that_depend_on_the_group_alone_are_noted(tmp_path, within, is_noted):
    rows = [f"{i:02d}.png,{i // 4 + within * (i % 4)},patient {i // 4}" for i in range(16)]
    notes = read(tmp_path, rows, "image,value,group").notes
    assert any("depend on the group alone: the 16 images count as 4" in note for note in notes) == is_noted


@pytest.mark.parametrize(
    "texts", [("0", "1"), (*["0"] * 9, "1"), (*["1"] * 9, "0"), ("1", "2", "3", "4", "5")]
)
def test_numbers_have_at_least_two_ranges(tmp_path, texts):
    names = {source.class_name for source in read(tmp_path, rows_of(*texts)).sources}
    assert 2 <= len(names) <= 4
