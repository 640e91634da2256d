"""Lines of classified images, and the contact sheet of the least certain ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tifffile
from PIL import Image
from rich.console import Console

from data_prep.files.fitting import fit_image
from pipelines.bundles.line_rules import LineRules
from pipelines.bundles.preprocessing import ImagePreprocessing
from pipelines.bundles.sources import Source, print_outside_levels, print_unlike_kinds
from pipelines.bundles.step import FinishedPrediction
from pipelines.bundles.unreadable import UnreadableSourceError
from pipelines.classify.prediction import (
    CLASSIFY_PREDICTION,
    SHEET_NAME,
    ContactSheet,
    ImagePrediction,
    ImagePredictor,
    contact_sheet,
)
from pipelines.classify.settings import PredictSettings
from pipelines.scores.costs import CostTable
from pipelines.scores.pictures import REFERRED_COLOUR
from pipelines.scores.prediction_sets import PredictionSets
from tests.data_prep.dicom_files import write_dicom

NAMES = ("apfel", "Dörrobst")


def signature(images: tf.Tensor) -> dict[str, tf.Tensor]:
    """Says the mean level of the image as the probability of the second class."""
    second = tf.reduce_mean(tf.cast(images, tf.float64), axis=[1, 2, 3]) / 255
    probability = tf.stack([1 - second, second], axis=1)
    return {
        "probability": probability,
        "label": tf.argmax(probability, axis=1),
        "predictive_entropy": -tf.reduce_sum(probability * tf.math.log(probability), axis=1),
        "mutual_information": tf.zeros_like(second),
    }


def predictor(**settings) -> ImagePredictor:
    return ImagePredictor(
        signature, (8, 8), NAMES, ImagePreprocessing(fit="pad", levels=(0, 4095)), PredictSettings(**settings)
    )


def test_a_line_is_of_the_image_as_training_saw_it(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (30, 50, 3), np.uint8)
    Image.fromarray(image).save(tmp_path / "a.png")
    (line,) = predictor(refer_above=0.5)(Source(tmp_path / "a.png", "a"))
    second = fit_image(image, (8, 8), "pad").mean() / 255
    assert (line.height, line.width, line.label) == (30, 50, NAMES[int(second > 0.5)])
    assert line.probability == pytest.approx({"apfel": 1 - second, "Dörrobst": second})
    assert line.referred is True
    costs = CostTable(classes=NAMES, decisions=NAMES, values=((0, 1), (1, 0)))
    every_rule = LineRules(0.01, costs=costs, sets=PredictionSets(0.9, np.ones(2), np.ones(2, bool)))
    assert line.cells().keys() == set(ImagePrediction.columns(NAMES, every_rule))


def test_deep_images_are_stretched_as_those_of_the_training(tmp_path):
    Image.fromarray(np.full((9, 9), 1024, np.uint16)).save(tmp_path / "deep.png")
    (line,) = predictor()(Source(tmp_path / "deep.png", "deep"))
    assert line.probability["Dörrobst"] == pytest.approx(64 / 255)


def test_images_are_read_as_the_training_kept_it(tmp_path):
    """A range of each image, or its window; one that the range does not suit is named."""
    levels = np.linspace(0, 1000, 81).reshape(9, 9).astype(np.uint16)
    dicom = write_dicom(tmp_path / "a.dcm", levels, WindowCenter=750.5, WindowWidth=501)
    tifffile.imwrite(tmp_path / "b.tif", levels * np.float32(1e6))
    expected = {"each": 0.5, "window": 0.25, (0.0, 500.0): 0.75}
    for kept, mean in expected.items():
        images = ImagePreprocessing.model_validate_json(
            ImagePreprocessing(fit="pad", levels=kept).model_dump_json()
        )
        follows = replace(predictor(), images=images, size=(9, 9))
        (line,) = follows(Source(dicom, "a"))
        assert line.probability["Dörrobst"] == pytest.approx(mean, abs=0.005)
        if kept == "window":
            with pytest.raises(UnreadableSourceError, match=r"b\.tif: no linear window"):
                list(follows(Source(tmp_path / "b.tif", "b")))
    console = Console(record=True, width=200)
    print_outside_levels([Source(dicom, "a"), Source(tmp_path / "b.tif", "b")], (0.0, 1000.0), console)
    assert (
        "1 of 2 images have more than 1 % of their samples outside the levels 0 to 1000"
        in console.export_text()
    )


def test_a_damaged_file_has_no_line(tmp_path):
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(UnreadableSourceError, match=r"a\.png: unreadable"):
        list(predictor()(Source(tmp_path / "a.png", "a")))


def line(name: str, entropy: float, referred: bool = False) -> ImagePrediction:
    return ImagePrediction(
        file=name,
        label="Dörrobst",
        predictive_entropy=entropy,
        probability={"Dörrobst": 0.7},
        referred=referred,
    )


def test_the_sheet_keeps_the_least_certain_images_in_their_order(tmp_path):
    sheet = ContactSheet(3, (8, 8), "crop")
    assert sheet.write(tmp_path) is None
    for level, entropy in ((10, 0.1), (40, 0.4), (30, 0.3), (41, 0.4), (20, 0.2)):
        sheet.add(np.full((20, 30, 3), level, np.uint8), line(f"{level}.png", entropy, referred=level == 40))
    picture = sheet.drawn()
    assert picture.shape[1] == 3 * 176
    centres = [picture[88, 88 + 176 * place].tolist() for place in range(3)]
    assert centres == [[40] * 3, [41] * 3, [30] * 3]
    framed = (picture == REFERRED_COLOUR).all(-1).reshape(len(picture), 3, 176).any((0, 2))
    assert framed.tolist() == [True, False, False]
    assert sheet.write(tmp_path) == tmp_path / SHEET_NAME
    assert np.array_equal(np.asarray(Image.open(tmp_path / SHEET_NAME)), picture)


def test_letters_of_other_alphabets_are_drawn_and_long_names_shortened():
    def drawn(name: str) -> np.ndarray:
        sheet = ContactSheet(1, (8, 4), "crop")
        sheet.add(np.zeros((20, 30, 3), np.uint8), line(name, 0.5))
        return sheet.drawn()

    assert not np.array_equal(drawn("Größe"), drawn("Gr??e"))
    long = drawn("IMG_20240131_121314_a_very_long_name_of_a_camera.jpg")
    assert long.shape == drawn("a").shape
    assert (long[176:, :4] == 255).all()
    assert (long[176:, -4:] == 255).all()


def test_no_sheet_is_made_where_none_is_wanted(tmp_path):
    sheet = ContactSheet(0, (8, 8), "crop")
    sheet.add(np.zeros((8, 8, 3), np.uint8), line("a.png", 0.5))
    assert sheet.write(tmp_path) is None


def test_the_sheet_costs_the_table_nothing(tmp_path):
    Image.fromarray(np.full((9, 9, 3), 90, np.uint8)).save(tmp_path / "a.png")
    one = predictor(sheet_images=1)
    source = Source(Path(tmp_path / "a.png"), "a")
    lines = [line for _ in range(3) for line in one(source)]
    assert contact_sheet(one, [source] * 3, lines).drawn().shape[1] == 176


def test_images_of_another_kind_than_the_trainings_are_named(tmp_path):
    """Colours, where all were grey, and 8 bits, where all had more; in all applications alike."""
    Image.fromarray(np.eye(9, dtype=np.uint8)[..., None] * np.array([9, 99, 0], np.uint8)).save(
        tmp_path / "colours.png"
    )
    console = Console(record=True, width=200)
    print_unlike_kinds([Source(tmp_path / "colours.png", "colours")], ("grey", "deep"), console)
    said = console.export_text()
    assert "1 of 1 images have colours (colours.png)" in said
    assert "1 of 1 images have 8 bits per sample (colours.png)" in said


def test_a_long_image_that_is_mostly_cut_off_is_named(tmp_path):
    Image.new("RGB", (9, 9)).save(tmp_path / "colours.png")
    images = ImagePreprocessing(fit="crop", levels=(0, 4095))
    console = Console(record=True, width=200)
    done = FinishedPrediction(
        replace(predictor(sheet_images=0), images=images),
        [Source(tmp_path / "colours.png", "colours")],
        [ImagePrediction(file="a.png", height=9, width=90), ImagePrediction(file="bad.png", status="bad")],
        tmp_path,
        console,
        None,
    )
    CLASSIFY_PREDICTION.finish(done)
    said = console.export_text()
    assert "1 of 1 images lose more than half of their area (a.png: 90%)" in said
