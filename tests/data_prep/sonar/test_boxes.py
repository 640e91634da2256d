"""`prepare_sonar` with boxes that do not fit their images."""

import json
from pathlib import Path

import pytest

from data_prep.errors import InputError
from data_prep.sonar.prepare import prepare_sonar
from data_prep.sonar.settings import SonarPrepareSettings
from tests.data_prep.sonar.sonar_files import MINES, box_table

SMALL = SonarPrepareSettings(size=(8, 8))


def test_boxes_that_all_lie_outside_say_so(full_images: Path, tmp_path: Path) -> None:
    """As those of YOLO files do that have pixels for shares."""
    (tmp_path / "boxes").mkdir()
    (tmp_path / "boxes" / "classes.txt").write_text("mine\nrock\n")
    for image in sorted(full_images.glob("*.png")):
        (tmp_path / "boxes" / f"{image.stem}.txt").write_text("0 100 100 20 20\n")
    said = r"no object in any of 3 images(.|\n)*3 of 3 boxes were left out \(reaches outside the image: 3\)"
    with pytest.raises(InputError, match=said):
        prepare_sonar(full_images, tmp_path / "out", SMALL, annotations=tmp_path / "boxes")


def test_corners_that_are_called_width_and_height_are_suspected(full_images: Path, tmp_path: Path) -> None:
    table = box_table(full_images)
    as_corners = [
        f"{name}.png,{x},{y},{x + 6},{y + 6},mine" for name, corners in MINES.items() for x, y in corners
    ]
    table.write_text("\n".join(["image,x,y,w,h,class", *as_corners]))
    result = prepare_sonar(full_images, tmp_path / "wrong", SMALL, annotations=table)
    assert [
        note for note in result.notes if "boxes were left out" in note and "in columns x1,y1,x2,y2" in note
    ]
    table.write_text(table.read_text().replace("x,y,w,h", "x1,y1,x2,y2"))
    result = prepare_sonar(full_images, tmp_path / "right", SMALL, annotations=table)
    assert not [note for note in result.notes if "left out" in note]
    assert result.manifest.class_names == ("background", "mine")


def test_coco_boxes_of_images_of_another_size_are_left_out(full_images: Path, tmp_path: Path) -> None:
    images = [{"id": name, "file_name": f"{name}.png", "height": 64, "width": 96} for name in MINES]
    images[1]["height"] = 65
    boxes = [
        {"image_id": name, "category_id": 3, "bbox": [x, y, 6, 6]}
        for name, corners in MINES.items()
        for x, y in corners
    ]
    boxes[0]["iscrowd"] = 1
    content = {"images": images, "annotations": boxes, "categories": [{"id": 3, "name": "mine"}]}
    (tmp_path / "boxes.json").write_text(json.dumps(content))
    result = prepare_sonar(full_images, tmp_path / "out", SMALL, annotations=tmp_path / "boxes.json")
    expected = sum(len(corners) for corners in MINES.values()) - len(MINES["line_2"])
    mine = result.manifest.class_names.index("mine")
    assert sum(example.label == mine for example in result.manifest.examples) == expected
    assert any("but annotated with" in entry.reason for entry in result.skipped)
    assert any(note.startswith("1 boxes have iscrowd=1") for note in result.notes)
