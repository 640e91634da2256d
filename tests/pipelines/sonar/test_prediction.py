"""What is written of snapshots and of full images, and what is refused."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import cv2
import numpy as np
import pytest
import tensorflow as tf
import tifffile
from rich.console import Console

from data_prep.errors import InputError
from data_prep.sonar.box_files import read_box_table, read_voc
from data_prep.sonar.boxes import Box
from data_prep.sonar.images import cut_window
from data_prep.sonar.settings import SpeckleNormalisation
from pipelines.bundles.prediction import predict_files
from pipelines.bundles.sources import find_sources
from pipelines.sonar.predict_command import print_found, print_taken_for_snapshots
from pipelines.sonar.prediction import SonarPrediction, SonarPredictor, annotated, image_picture, write_voc
from pipelines.sonar.settings import PredictSettings, SnapshotPreprocessing
from pipelines.sonar.windows import Find
from tests.pipelines.written import rows

CLASSES = ("background", "Mine, <grün> & rot")


def brightness(images: tf.Tensor) -> dict[str, tf.Tensor]:
    """Stands for a bundle: the brighter, the more of an object."""
    level = tf.reduce_mean(tf.cast(images, tf.float32), axis=[1, 2, 3]) / 255.0
    return {
        "probability": tf.stack([1.0 - level, level], axis=1),
        "label": tf.cast(level > 0.5, tf.int32),
        "predictive_entropy": 1.0 - level,
        "mutual_information": 0.5 * (1.0 - level),
    }


def predictor(out: Path, *, backgrounds: tuple[str, ...] = CLASSES[:1], **settings: object) -> SonarPredictor:
    return SonarPredictor(
        signature=brightness,
        size=(4, 4),
        class_names=CLASSES,
        snapshots=SnapshotPreprocessing(
            normalisation=SpeckleNormalisation(method="none"), window=(8, 8), background_classes=backgrounds
        ),
        settings=PredictSettings(**settings),
        out=out,
    )


def predict(path: Path, out: Path, **settings: object) -> SonarPrediction:
    return predict_all(path, predictor(out, **settings), out)[0]


def predict_all(path: Path, predictor: SonarPredictor, out: Path) -> list[SonarPrediction]:
    return predict_files(SonarPrediction, predictor, find_sources([path]), out, class_names=CLASSES)


def write(path: Path, size: tuple[int, int]) -> Path:
    """A dark image with a bright square of 8 x 8 in the lower right corner."""
    levels = np.full(size, 26, np.uint8)
    levels[-8:, -8:] = 255
    cv2.imwrite(str(path), levels)
    return path


def test_a_snapshot_gets_a_line_with_every_probability(tmp_path):
    line = predict(write(tmp_path / "a.png", (8, 8)), tmp_path / "out", refer_above=0.1)
    assert (line.label, line.boxes, line.referred) == (CLASSES[1], None, False)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["predictions.csv"]
    (row,) = rows(tmp_path / "out" / "predictions.csv")
    assert row[f"probability of {CLASSES[1]}"] == "1"
    assert row["boxes"] == ""
    assert predict(tmp_path / "a.png", tmp_path / "b", refer_above=0.0, mode="full").boxes == 1


@pytest.mark.parametrize(
    ("size", "settings", "full"),
    [
        ((16, 16), {}, False),
        ((17, 8), {}, True),
        ((8, 17), {}, True),
        ((40, 40), {"mode": "snapshot"}, False),
        ((8, 8), {"mode": "full"}, True),
        ((40, 40), {"window": (20, 20)}, False),
    ],
)
def test_which_images_are_searched(tmp_path, size, settings, full):
    line = predict(write(tmp_path / "a.png", size), tmp_path / "out", **settings)
    assert (line.boxes is not None) == full
    assert (line.label is None) == full


def test_a_full_image_gets_boxes_in_two_formats_and_a_picture(tmp_path):
    line = predict(write(tmp_path / "a.png", (30, 40)), tmp_path / "out", refer_above=0.0, threshold=0.9)
    expected = Box(CLASSES[1], 32, 22, 8, 8)
    assert (line.boxes, line.predictive_entropy, line.referred) == (1, 0.0, False)
    assert read_box_table(tmp_path / "out" / "boxes" / "a.csv") == {"a.png": [expected]}
    assert read_voc(tmp_path / "out" / "voc" / "a.xml", (30, 40)) == [expected]
    (row,) = rows(tmp_path / "out" / "boxes" / "a.csv")
    assert (row["score"], row["referred"], row["probability of background"]) == ("1", "false", "0")
    assert cv2.imread(str(tmp_path / "out" / "overlays" / "a.png")).shape == (600, 800, 3)


def test_floating_point_levels_are_read_by_the_range_of_the_training(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.full((8, 8), 0.25, np.float32))
    out = tmp_path / "out"
    trained = predictor(out)
    with pytest.raises(InputError, match=r"floating-point samples; .* no range of levels is known"):
        predict_all(tmp_path / "a.tif", trained, out)
    trained = replace(trained, snapshots=trained.snapshots.model_copy(update={"levels": (0, 1)}))
    (line,) = predict_all(tmp_path / "a.tif", trained, out)
    assert line.probability[CLASSES[1]] == pytest.approx(0.25, abs=0.002)


def test_an_image_without_objects_is_told_from_one_without_annotation(tmp_path):
    cv2.imwrite(str(tmp_path / "a.png"), np.full((30, 40), 26, np.uint8))
    assert predict(tmp_path / "a.png", tmp_path / "out").boxes == 0
    assert read_box_table(tmp_path / "out" / "boxes" / "a.csv") == {"a.png": []}
    (row,) = rows(tmp_path / "out" / "boxes" / "a.csv")
    assert set(row.values()) == {"a.png", ""}


def test_boxes_stay_inside_an_image_narrower_than_the_window(tmp_path):
    predict(write(tmp_path / "a.png", (30, 6)), tmp_path / "out", threshold=0.9, mode="full")
    expected = Box(CLASSES[1], 0, 22, 6, 8)
    assert read_box_table(tmp_path / "out" / "boxes" / "a.csv") == {"a.png": [expected]}
    assert read_voc(tmp_path / "out" / "voc" / "a.xml", (30, 6)) == [expected]


def test_a_row_of_a_long_line_keeps_all_its_digits(tmp_path):
    box = Box("mine", 7, 1_234_567, 32, 32)
    find = Find(box, 0.123456789, np.array([0.9, 0.1]), 0.1, 0.0)
    write_voc(tmp_path / "a.xml", "a.xtf", (2_345_678, 512), [find])
    assert read_voc(tmp_path / "a.xml", (2_345_678, 512)) == [box]
    assert "<score>0.123457</score>" in (tmp_path / "a.xml").read_text()


def test_without_a_background_nothing_is_searched(tmp_path):
    path = write(tmp_path / "a.png", (30, 40))
    line = predict(path, tmp_path / "out", backgrounds=())
    assert (line.label, line.boxes, line.status) == (CLASSES[0], None, "ok")
    for backgrounds, said in (((), ["Note:", "1", "images"]), (CLASSES[:1], [])):
        console = Console(file=StringIO())
        print_taken_for_snapshots(predictor(tmp_path, backgrounds=backgrounds), [line], console)
        assert console.file.getvalue().split()[:3] == said
    with pytest.raises(InputError, match="no class of the bundle is background"):
        predict(path, tmp_path / "a", backgrounds=(), mode="full")
    assert predict(path, tmp_path / "b", backgrounds=(), background_classes=CLASSES[:1]).boxes == 1
    for wrong in (("seafloor",), CLASSES):
        with pytest.raises(InputError, match=r"expected some, not all, of the bundle's classes: background"):
            predict(path, tmp_path / "c", background_classes=wrong)


def test_an_unreadable_file_is_listed_and_the_others_go_on(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / "good.png", (8, 8))
    (folder / "bad.png").write_bytes(b"no image")
    lines = predict_all(folder, predictor(tmp_path / "out"), tmp_path / "out")
    assert [line.status == "ok" for line in lines] == [False, True]
    assert "unreadable or truncated" in rows(tmp_path / "out" / "skipped.csv")[0]["reason"]


def test_boxes_are_drawn_where_they_are():
    find = Find(Box("b", 10, 20, 6, 8), 0.9, np.array([0.1, 0.9]), 0.3, 0.1)
    for referred in (False, True):
        picture = annotated(np.zeros((90, 80, 3), np.uint8), 2.0, [find], [referred], ("a", "b"))
        lowest = np.nonzero(picture.any(axis=(1, 2)))[0].max()
        assert abs(lowest - 56) <= 2
        assert tuple(picture[56, 26].tolist()) == ((255, 40, 60) if referred else (240, 228, 66))


def test_pictures_of_very_large_images_are_made_in_small_pieces(monkeypatch):
    monkeypatch.setattr("pipelines.sonar.prediction._READ_AT_ONCE", 10_000)
    pieces = []

    def counted(levels, top, left, size):
        pieces.append((top, size[0]))
        return cut_window(levels, top, left, size)

    monkeypatch.setattr("pipelines.sonar.prediction.cut_window", counted)
    levels = np.broadcast_to(np.arange(12_288, dtype=np.uint16)[:, None], (12_288, 500))
    picture, _ = image_picture(levels)
    assert max(rows for _, rows in pieces) * 500 <= 10_000
    assert sum(rows for _, rows in pieces) == 12_288
    assert picture.shape == (4096, 167, 3)
    assert np.all(np.diff(picture[:, 0, 0].astype(int)) >= 0)


@pytest.mark.parametrize(
    ("size", "shape", "scale"),
    [((30, 40), (600, 800), 20), ((900, 10), (900, 10), 1), ((8192, 2), (4096, 1), 0.5)],
)
def test_pictures_are_large_enough_and_not_too_large(size, shape, scale):
    levels = np.zeros(size, np.uint16)
    levels[size[0] // 2 :] = 700
    picture, found = image_picture(levels)
    assert (picture.shape, found) == ((*shape, 3), scale)
    assert picture[:10].max() == 0
    assert picture[-10:].min() == 255


def test_boxes_under_a_guarantee_are_said_to_be_none_of_its_images():
    def said(boxes: int | None, **settings: float) -> str:
        console = Console(file=StringIO(), width=200)
        print_found([SonarPrediction(file="a.png", boxes=boxes)], PredictSettings(**settings), console)
        return console.file.getvalue()

    assert said(None, max_error=0.1) == ""
    assert said(2) == "2 objects found in 1 full images\n"
    assert "Note: guarantees are of snapshots, and none is given for boxes" in said(2, max_error=0.1)
