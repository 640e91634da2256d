"""Boxes from annotation files of three formats; bad files are named."""

import json
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.sonar.box_files import read_box_table, read_class_names, read_coco, read_voc, read_yolo
from data_prep.sonar.boxes import Box, Complaint, TakenPlaces, inside_image, spanned

VOC = """<?xml version="1.0"?>
<annotation><filename>a.png</filename><size><width>{width}</width><height>48</height><depth>1</depth></size>
  <object><name> mine </name><part><name>lid</name></part>
    <bndbox><xmin>11</xmin><ymin>6</ymin><xmax>20</xmax><ymax>8.0</ymax></bndbox></object>
  <object><name>rock</name><bndbox><xmax>64</xmax><xmin>1</xmin><ymin>1</ymin><ymax>48</ymax></bndbox></object>
</annotation>"""


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_voc_counts_from_one_and_its_last_pixels_belong_to_the_box(tmp_path: Path) -> None:
    path = written(tmp_path / "a.xml", VOC.format(width=64))
    assert read_voc(path, (48, 64)) == [Box("mine", 10, 5, 10, 3), Box("rock", 0, 0, 64, 48)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (VOC.format(width=32), r"a\.xml: annotates an image of 32 x 48 pixels, but the image has 64 x 48"),
        (VOC.format(width=64).replace("8.0", "nan"), r"a\.xml: bndbox/ymax is 'nan'; expected a number"),
        (VOC.format(width=64).replace("ymin", "top"), r"a\.xml: bndbox/ymin is None; expected a number"),
        (VOC.format(width=64).replace(" mine ", " "), r"a\.xml: an object has no name"),
        (VOC.format(width=64)[:-5], r"a\.xml: no complete XML file"),
        ("", r"a\.xml: no complete XML file"),
        ("<svg/>", r"a\.xml: the outermost element is 'svg'; expected 'annotation'"),
        (
            '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><annotation>&x;</annotation>',
            r"a\.xml: declares a document type",
        ),
    ],
)
def test_voc_files_that_cannot_be_used_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_voc(written(tmp_path / "a.xml", text), (48, 64))


def test_yolo_gives_shares_of_the_image(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "1 0.5 0.25 0.25 0.125\n\n0 0.5 0.5 1 1 0.93\n")
    expected = [Box("rock", 24, 9, 16, 6), Box("mine", 0, 0, 64, 48)]
    assert read_yolo(path, (48, 64), ("mine", "rock")) == expected
    assert read_yolo(written(tmp_path / "b.txt", ""), (48, 64), ("mine",)) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2 .5 .5 .1 .1", r"a\.txt, line 1: class number 2, but there are 2 class names \(mine, rock\)"),
        ("mine .5 .5 .1 .1", r"line 1: found 'mine \.5 .*expected a class number and four numbers"),
        ("0 .1 .1 .2 .1 .2 .2 .1 .2", "expected a class number and four numbers"),
        ("0 .5 .5 inf .1", "expected a class number and four numbers"),
        ("9" * 5000 + " .5 .5 .1 .1", "expected a class number and four numbers"),
    ],
)
def test_yolo_lines_that_cannot_be_used_are_refused(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_yolo(written(tmp_path / "a.txt", line), (48, 64), ("mine", "rock"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("classes.txt", "mine\nrock\n\n"),
        ("obj.names", "mine\nrock"),
        ("data.yaml", "names: [mine, rock]"),
        ("data.yaml", "nc: 2\nnames: {0: mine, 1: rock}"),
        ("data.yaml", "released: 2024-02-30\nnames: [mine, rock]"),
    ],
)
def test_class_names_beside_the_annotations(tmp_path: Path, name: str, text: str) -> None:
    written(tmp_path / name, text)
    assert read_class_names([tmp_path / "labels", tmp_path]) == ("mine", "rock")


def test_class_names_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"YOLO annotations, but no file .* Expected one of classes\.txt"):
        read_class_names([tmp_path])
    for names in ("!!python/object/apply:os.getcwd []", "[" * 5000, "9" * 5000):
        written(tmp_path / "data.yaml", f"names: {names}")
        with pytest.raises(InputError, match=r"data\.yaml: no names by class number found"):
            read_class_names([tmp_path])
    for names in ("mine", "5", "[mine, 5]", "{0: mine, 1: [rock]}"):
        written(tmp_path / "data.yaml", f"names: {names}")
        with pytest.raises(InputError, match=r"data\.yaml: names is .*; expected a list of texts"):
            read_class_names([tmp_path])
    written(tmp_path / "classes.txt", "\n")
    with pytest.raises(InputError, match=r"classes\.txt: no class names found"):
        read_class_names([tmp_path])
    written(tmp_path / "classes.txt", "mine\n\nwreck\n")  # the wreck is number 2
    with pytest.raises(InputError, match=r"classes\.txt: an empty class name found"):
        read_class_names([tmp_path])


def test_table_of_boxes(tmp_path: Path) -> None:
    path = written(
        tmp_path / "boxes.csv",
        'class, image,x,y,w,h,note\n"old\nmine",a.png,1,2,3,4,one\u2028line\n'
        "rock,a.png,5,6,7.5,8,!\n,b.png,,,,,\n",
    )
    assert read_box_table(path) == {
        "a.png": [Box("old\nmine", 1, 2, 3, 4), Box("rock", 5, 6, 7.5, 8)],
        "b.png": [],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "image,x,y,w,h\na,1,2,3,4",
            r"boxes\.csv: the first line is 'image,x,y,w,h', separated by ',', and has no column class",
        ),
        (
            "image\tx\ty\na\t1\t2",
            r"is 'image\\tx\\ty', separated by '\\t', and has no column w, h, class",
        ),
        ("image,x,y,w,h,class\na,1,2,3,,mine", r"boxes\.csv, line 2: found 'a,1,2,3,,mine'"),
        ("image,x,y,w,h,class\n,,,,,", r"line 2: found ',,,,,'\nExpected an image, four numbers and a class"),
        ("image,x,y,w,h,class\na,1,2,3,4", r"boxes\.csv, line 2: found"),
        ("image,x,y,w,h,class\n\n\na,1_0,2,3,4,mine", r"boxes\.csv, line 4: found 'a,1_0,2,3,4,mine'"),
        (
            'image,x,y,w,h,class\na,1,2,3,4,"mine' + 140_000 * "\n",
            r"boxes\.csv, line \d+: field larger than field limit .*quotation mark that is not closed",
        ),
    ],
)
def test_tables_that_cannot_be_used_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_box_table(written(tmp_path / "boxes.csv", text))


def test_all_wrong_rows_of_a_table_are_reported_at_once(tmp_path: Path) -> None:
    rows = [f"a,{x},2,3,4,mine\n" for x in ("abc", 1, *["?"] * 11)]
    with pytest.raises(InputError) as error:
        read_box_table(written(tmp_path / "boxes.csv", "image,x,y,w,h,class\n" + "".join(rows)))
    first, second, *_, more, expected = str(error.value).splitlines()
    assert first.endswith("boxes.csv, line 2: found 'a,abc,2,3,4,mine'")
    assert second.endswith("boxes.csv, line 4: found 'a,?,2,3,4,mine'")
    assert more == "... and 2 rows more"
    assert expected.startswith("Expected an image, four numbers and a class")


def test_columns_may_be_separated_by_semicolons(tmp_path: Path) -> None:
    path = written(tmp_path / "boxes.csv", 'image;x;y;w;h;class\na.png;1;2;3;4;"mine, old"\nb.png;;;;;\n')
    assert read_box_table(path) == {"a.png": [Box("mine, old", 1, 2, 3, 4)], "b.png": []}


def coco(**changes: object) -> str:
    content = {
        "images": [
            {"id": 7, "file_name": "in/a.png", "width": 64, "height": 48},
            {"id": 8, "file_name": "b.png"},
        ],
        "annotations": [{"image_id": 7, "category_id": 1, "bbox": [10, 5, 20.5, 8]}],
        "categories": [{"id": 1, "name": "mine"}],
    }
    return json.dumps(content | changes)


def test_coco_gives_boxes_in_pixels(tmp_path: Path) -> None:
    found = read_coco(written(tmp_path / "boxes.json", coco()))
    assert found.boxes == {"in/a.png": [Box("mine", 10, 5, 20.5, 8)], "b.png": []}
    assert found.sizes == {"in/a.png": (48, 64)}


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        coco(categories=[]),
        coco(images=[]),
        coco(annotations=[{"image_id": 7, "category_id": 1, "bbox": [1, 2, 3]}]),
        coco(annotations=[{"image_id": 7, "category_id": 1, "bbox": [1, 2, 3, "nan"]}]),
        coco(annotations={"a": 1}),
        coco(annotations=[{"image_id": [7], "category_id": 1, "bbox": [1, 2, 3, 4]}]),
        coco(images=[{"id": 7, "file_name": "a.png"}, {"id": 7, "file_name": "b.png"}]),
        coco(categories=[{"id": 1, "name": "mine"}, {"id": 1, "name": "rock"}]),
        coco(categories=[{"id": 1, "name": " "}]),
    ],
)
def test_files_that_are_no_coco_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"boxes\.json: no COCO file of boxes .* Expected images with id"):
        read_coco(written(tmp_path / "boxes.json", text))


def test_boxes_as_shares_of_the_image_are_refused(tmp_path: Path) -> None:
    table = written(tmp_path / "boxes.csv", "image,x,y,w,h,class\na.png,.4,.3,.1,.2,mine\nb.png,,,,,\n")
    with pytest.raises(InputError, match=r"boxes\.csv: all 1 boxes .* as shares .* Expected pixels"):
        read_box_table(table)
    box = "<annotation><object><name>a</name><bndbox>{}</bndbox></object></annotation>"
    sides = "<xmin>0.1</xmin><ymin>0.2</ymin><xmax>0.5</xmax><ymax>0.6</ymax>"
    with pytest.raises(InputError, match=r"a\.xml: all 1 boxes lie between 0 and 1"):
        read_voc(written(tmp_path / "a.xml", box.format(sides)), (48, 64))
    # One among others, or the first pixel, is no such set.
    rows = "image,x,y,w,h,class\na.png,0.4,0.3,0.1,0.2,mine\na.png,9,9,9,9,mine\n"
    assert len(read_box_table(written(table, rows))["a.png"]) == 2
    small = Box("mine", 0.4, 0.3, 0.1, 0.2)
    assert inside_image([small], (48, 64)) == ([], [Complaint(small, "is smaller than a pixel")])


def test_boxes_inside_an_image() -> None:
    inside, complaints = inside_image(
        [
            Box("on the border", -1, 0, 65.5, 48),
            Box("far out", 100, 100, 5, 5),
            Box("half out", 60, 10, 8, 8),
            Box("thin", 5, 5, 0, 3),
            Box("just out", 64.5, 0, 0.5, 3),
            Box("corner", -1, -1, 1, 1),
            Box("on the border", 0, 0, 64, 48),
        ],
        (48, 64),
    )
    assert inside == [Box("on the border", 0, 0, 64, 48)]
    assert [(complaint.box.name, complaint.reason) for complaint in complaints] == [
        ("far out", "reaches outside the image"),
        ("half out", "reaches outside the image"),
        ("thin", "has no area"),
        ("just out", "reaches outside the image"),
        ("corner", "reaches outside the image"),
        ("on the border", "is there more than once"),
    ]


def test_boxes_that_touch_are_free_of_each_other() -> None:
    box = Box("mine", 10, 10, 5, 5)
    taken = TakenPlaces([box])
    assert taken.leave_free(Box("", 15, 10, 5, 5))
    assert taken.leave_free(Box("", 10, 4, 5, 6))
    assert not taken.leave_free(Box("", 14.9, 14.9, 5, 5))
    assert not taken.leave_free(Box("", 0, 0, 50, 50))
    assert TakenPlaces().leave_free(box)
    for number in range(40):  # more than there is room for at first
        taken.add(Box("", 100 + 10 * number, 0, 5, 5))
    assert not any(taken.leave_free(Box("", 104 + 10 * number, 4, 3, 3)) for number in range(40))
    assert taken.leave_free(Box("", 105, 0, 5, 5))
    assert spanned(Box("mine", 15, 15, -5, -5)) == box


def test_a_table_in_another_encoding_says_how_to_save_it(tmp_path: Path) -> None:
    (tmp_path / "boxes.csv").write_bytes("image,x,y,w,h,class\nBild.png,1,1,5,5,Fäule\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"boxes\.csv: byte 38 is no UTF-8 text\. .*CSV UTF-8"):
        read_box_table(tmp_path / "boxes.csv")


@pytest.mark.parametrize(
    "header",
    [
        "image,x1,y1,x2,y2,class",
        "filename,XMin,YMin,XMax,YMax,label",
        "image,left,top,right,bottom,class",
        "filename,width,height,class,xmin,ymin,xmax,ymax",  # of the image
    ],
)
def test_a_table_may_have_corners(tmp_path: Path, header: str) -> None:
    corners = "a.png,160,128,mine,10,20,40,45" if "height" in header else "a.png,10,20,40,45,mine"
    empty = "b.png" + "," * header.count(",")
    path = written(tmp_path / "a.csv", f"{header}\n{corners}\n{empty}\n")
    assert read_box_table(path) == {"a.png": [Box("mine", 10, 20, 30, 25)], "b.png": []}


def test_width_and_height_count_before_corners(tmp_path: Path) -> None:
    text = "image,x,y,w,h,class,xmin,ymin,xmax,ymax\na.png,10,20,30,25,mine,0,0,1,1\n"
    assert read_box_table(written(tmp_path / "a.csv", text)) == {"a.png": [Box("mine", 10, 20, 30, 25)]}
