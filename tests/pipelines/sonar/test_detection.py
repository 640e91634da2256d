"""Boxes are judged by true ones at each threshold, whatever threshold the boxes are written at."""

import csv
from pathlib import Path

import cv2
import numpy as np
import pytest
from rich.console import Console

from data_prep.errors import InputError
from data_prep.sonar.boxes import Box
from data_prep.sonar.settings import SpeckleNormalisation
from data_prep.sonar.sources import SonarSource
from pipelines.bundles.metadata import Metadata, SignatureDescription
from pipelines.sonar import predict_command as sonar
from pipelines.sonar import prediction as sonar_prediction
from pipelines.sonar.detection import DetectionJudge
from pipelines.sonar.settings import PredictSettings, SnapshotPreprocessing
from pipelines.sonar.windows import Find
from tests.pipelines.sonar.test_prediction import brightness
from tests.pipelines.tiny_lane import quiet


def find(left: float, score: float) -> Find:
    return Find(Box("mine", left, 0, 8, 8), score, np.array([1 - score, score]), 0.1, 0.0)


def test_counts_at_each_threshold(tmp_path: Path) -> None:
    marked = {
        tmp_path / name: SonarSource(name, tmp_path / name, boxes=tuple(boxes))
        for name, boxes in {
            "two": [Box("mine", 0, 0, 8, 8), Box("rock", 40, 0, 4, 4), Box("far", 400, 0, 4, 4)],
            "none": [],
        }.items()
    }
    judge = DetectionJudge(marked, (0.5, 0.2, 0.9))
    judge.add(tmp_path / "two", (8, 64), [find(0, 0.8), find(3, 0.7), find(38, 0.3), find(20, 0.6)])
    judge.add(tmp_path / "none", (8, 64), [find(0, 0.25)])
    judge.add(tmp_path / "without annotation", (8, 64), [find(0, 1.0)])
    low, middle, high = judge.scores()
    assert (low.threshold, low.boxes, low.right_boxes, low.found) == (0.2, 5, 3, 2)
    assert (low.objects, low.images) == (2, 2)  # one box lies outside the image
    assert (low.precision, low.recall, low.false_alarms_per_image) == (0.6, 1.0, 1.0)
    assert (middle.boxes, middle.right_boxes, middle.found) == (3, 2, 1)  # two boxes of one object
    assert (high.precision, high.recall, high.false_alarms_per_image) == (None, 0.0, 0.0)


@pytest.fixture
def bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle that takes what is bright for an object."""
    serving = SignatureDescription(inputs={}, outputs={})
    facts_of_bundle = {
        "network_size": (4, 4),
        "class_names": ("background", "mine"),
        "signatures": {"serving_default": serving},
    }
    facts = SnapshotPreprocessing(
        normalisation=SpeckleNormalisation(method="none"), window=(8, 8), background_classes=("background",)
    )
    metadata = Metadata.model_construct(**facts_of_bundle)
    monkeypatch.setattr(sonar, "open_bundle", lambda *_: (brightness, metadata))
    monkeypatch.setattr(sonar_prediction, "bundle_preprocessing", lambda *_: facts)


def predict(folder: Path, out: Path, annotations: Path, console: Console) -> None:
    settings = PredictSettings(threshold=0.9)
    sonar.predict(settings, inputs=[folder], model=folder, out=out, console=console, annotations=annotations)


@pytest.mark.usefixtures("bundle")
def test_predict_judges_below_the_threshold_that_it_writes_boxes_at(tmp_path: Path) -> None:
    levels = np.full((32, 40), 3, np.uint8)
    levels[:8, :8], levels[24:, 32:] = 255, 128
    cv2.imwrite(str(tmp_path / "a.png"), levels)
    truth = tmp_path / "truth.csv"
    truth.write_text("image,x,y,w,h,class\na.png,1,1,6,6,mine\na.png,33,25,6,6,mine\n")
    console = quiet()
    predict(tmp_path, tmp_path / "out", truth, console)
    with (tmp_path / "out" / "detection.csv").open() as file:
        found = {row["threshold"]: (row["recall"], row["boxes"]) for row in csv.DictReader(file)}
    assert (found["0.4"], found["0.9"]) == (("1", "2"), ("0.5", "1"))
    assert len((tmp_path / "out" / "boxes" / "a.csv").read_text().splitlines()) == 2
    assert "0.9 (used)" in console.file.getvalue()


@pytest.mark.usefixtures("bundle")
def test_annotations_of_other_images_are_refused(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((8, 8), np.uint8))
    truth = tmp_path / "truth.csv"
    truth.write_text("image,x,y,w,h,class\nb.png,1,1,6,6,mine\n")
    with pytest.raises(InputError, match=r"truth\.csv has no annotation of any of 1 images"):
        predict(tmp_path, tmp_path / "out", truth, quiet())


@pytest.mark.usefixtures("bundle")
def test_images_of_one_name_are_refused_and_what_has_no_counterpart_is_said(tmp_path: Path) -> None:
    for folder, names in (("one", "ab"), ("two", "a")):
        (tmp_path / folder).mkdir()
        for name in names:
            cv2.imwrite(str(tmp_path / folder / f"{name}.png"), np.zeros((32, 40), np.uint8))
    (tmp_path / "one" / "a.gif").write_bytes(b"GIF")  # is not read, and does not take the place of a.png
    truth = tmp_path / "truth.csv"
    truth.write_text("image,x,y,w,h,class\na.png,1,1,6,6,mine\nc.png,1,1,6,6,mine\n")
    console = quiet()
    both = [tmp_path / "one", tmp_path / "two"]
    with pytest.raises(
        InputError, match=r"one/a\.png and .*two/a\.png: the same name 'a'.*in one folder, keep or rename"
    ):
        sonar.predict(
            PredictSettings(),
            inputs=both,
            model=tmp_path,
            out=tmp_path / "out",
            console=console,
            annotations=truth,
        )
    predict(tmp_path / "one", tmp_path / "out", truth, console)
    said = console.file.getvalue()
    not_judged, not_used = (line for line in said.splitlines() if line.startswith("Not "))
    assert not_judged.startswith(f"Not judged: {tmp_path / 'one' / 'b.png'}: no annotation in")
    assert not_used.startswith(f"Not used: {truth}: boxes of 'c', but no such image")
    assert "1 marked objects in 1 full images" in " ".join(said.split())


@pytest.mark.usefixtures("bundle")
def test_images_and_annotations_without_a_counterpart_are_counted_apart(tmp_path: Path) -> None:
    for number in range(13):
        cv2.imwrite(str(tmp_path / f"{number}.png"), np.zeros((32, 40), np.uint8))
    truth = tmp_path / "truth.csv"
    rows = "".join(f"{name}.png,1,1,6,6,mine\n" for name in [0, *"abcdefghijklmno"])
    truth.write_text(f"image,x,y,w,h,class\n{rows}")
    console = quiet()
    predict(tmp_path, tmp_path / "out", truth, console)
    said = [line for line in console.file.getvalue().splitlines() if line.startswith("Not ")]
    assert [line.split(":")[0] for line in said] == ["Not judged"] * 11 + ["Not used"] * 11
    assert (said[10], said[-1]) == ("Not judged: 2 more", "Not used: 5 more")


@pytest.mark.usefixtures("bundle")
@pytest.mark.parametrize("known", [True, False])
def test_masks_mean_what_they_meant_in_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    facts = SnapshotPreprocessing(
        normalisation=SpeckleNormalisation(method="none"),
        window=(8, 8),
        background_classes=("background",),
        **({"mask_names": {1: "mine"}, "smallest_area": 10} if known else {}),
    )
    monkeypatch.setattr(sonar_prediction, "bundle_preprocessing", lambda *_: facts)
    cv2.imwrite(str(tmp_path / "a.png"), np.full((32, 40), 3, np.uint8))
    (tmp_path / "masks").mkdir()
    mask = np.zeros((32, 40), np.uint8)
    mask[:6, :6], mask[20:23, :3], mask[24:, 32:] = 1, 1, 2  # a mine, a small one, and the sea floor
    cv2.imwrite(str(tmp_path / "masks" / "a.png"), mask)
    console = quiet()
    predict(tmp_path, tmp_path / "out", tmp_path / "masks", console)
    said = " ".join(console.file.getvalue().split())
    assert f"Boxes against {1 if known else 3} marked objects" in said
    assert ("does not say how `prepare` read masks" in said) is not known
