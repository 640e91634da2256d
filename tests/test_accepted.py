"""Inputs that are right: no check may refuse them, warn of them, or change the result.

They are of all kinds of silent faults: counts (1), signal (2), preconditions (3), arguments (4), levels (5),
folders and tables (6), poor images (7), Keras' habits (8), waiting (9), the console (10) and peers (11).
"""

from __future__ import annotations

import logging
import pickle
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from data_prep.lane.prepare import prepare_lane
from data_prep.lane.settings import LanePrepareSettings
from data_prep.sonar.prepare import prepare_sonar
from data_prep.sonar.settings import SonarPrepareSettings
from gpmodels import HGPClassifier, HybridModel, SVGPClassifier, SVGPHead, SVGPRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
SIDE = (X[:, 0] + 0.3 * X[:, 1] > 0.0).astype(int)
TARGET = np.sin(X[:, 0]) + 0.5 * X[:, 1]


def classifier() -> SVGPClassifier:
    return SVGPClassifier(num_inducing=8, max_iterations=20, temperature=1.0, random_state=0)


def regressor() -> SVGPRegressor:
    return SVGPRegressor(num_inducing=12, max_iterations=30, random_state=0)


@pytest.fixture(scope="module")
def usual() -> np.ndarray:
    return classifier().fit(X, SIDE).predict_proba(X)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize(
    ("x", "y"),
    [
        pytest.param(X.tolist(), SIDE.tolist(), id="lists"),
        pytest.param(np.asfortranarray(X), SIDE, id="columns first"),
        pytest.param(X, SIDE.astype(bool), id="booleans"),
        pytest.param(X, SIDE.astype(float), id="class numbers as floats"),
        pytest.param(X, np.where(SIDE, "yes", "no"), id="texts"),
        pytest.param(X, np.where(SIDE, 7, 3), id="numbers with gaps"),
        pytest.param(X, np.where(SIDE, 0, -5), id="negative numbers"),
        pytest.param(X, np.where(SIDE, "ja", "nein").astype(object), id="objects", marks=pytest.mark.slow),
    ],
)
def test_classes_are_what_the_user_calls_them(usual, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = classifier().fit(x, y)
    probability = fitted.predict_proba(x)
    if fitted.classes_[0] == "ja":  # the order of the classes is that of their names
        probability = probability[:, ::-1]
    np.testing.assert_allclose(probability, usual, atol=1e-5)
    assert set(fitted.predict(X[:5])) <= set(np.asarray(y).tolist())


def test_weights_of_any_unit_and_rows_of_no_weight(usual):
    x, y = np.concatenate([X, X + 100.0]), np.concatenate([SIDE, 1 - SIDE])
    weight = np.concatenate([np.ones(60), np.zeros(60)])
    np.testing.assert_allclose(
        classifier().fit(x, y, sample_weight=weight).predict_proba(X), usual, atol=0.05
    )


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_unit_of_targets_and_columns_does_not_matter(unit):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = regressor().fit(unit * X, 40.0 * unit + unit * TARGET)
    assert fitted.score(unit * X, 40.0 * unit + unit * TARGET) > 0.9


@pytest.mark.slow
def test_a_constant_column_beside_others_and_a_single_row_to_predict(usual):
    with_constant = np.column_stack([X, np.full(60, 3.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = classifier().fit(with_constant, SIDE)
    np.testing.assert_allclose(fitted.predict_proba(with_constant), usual, atol=1e-3)
    np.testing.assert_allclose(
        fitted.predict_proba(with_constant[:1]), fitted.predict_proba(with_constant)[:1], atol=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["column", "dataset", "ones"])
def test_labels_and_weights_of_keras_in_their_usual_shapes(kind, caplog):
    x, y = X.astype("float32"), SIDE.astype("float32")
    model = HybridModel(keras.layers.Dense(4), SVGPHead(num_inducing=5), num_data=60)
    model.compile(keras.optimizers.Adam(0.01))
    data = {
        "column": (x, y[:, None]),
        "dataset": (tf.data.Dataset.from_tensor_slices((x, y)).batch(20),),
        "ones": (x, y),
    }[kind]
    more = {"ones": {"sample_weight": np.ones(60)}, "dataset": {"shuffle": False}}.get(kind, {})
    history = model.fit(*data, epochs=2, verbose=0, **more)
    assert np.isfinite(history.history["loss"]).all()
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    # TensorFlow counts traces of Keras' function over all models, those of earlier tests among them.
    assert not [text for text in said if "multi_step_on_iterator" not in text or "retracing" not in text]


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "CMYK", "1"])
def test_colour_modes_of_images(tmp_path: Path, mode: str):
    suffix = ".JPG" if mode == "CMYK" else ".png"
    for number in range(6):
        folder = tmp_path / "Bilder 1" / ("Äpfel", "été & Birnen")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        levels = RNG.integers(0, 255, (20 + number, 24, 3), dtype=np.uint8)
        Image.fromarray(levels).convert(mode).save(folder / f"{number} (1){suffix}")
    result = prepare_classify(
        tmp_path / "Bilder 1", tmp_path / "out", ClassifyPrepareSettings(size=(16, 16), duplicate_distance=-1)
    )
    assert result.manifest.num_examples == 6
    assert result.skipped == ()


# Of the kinds that have no case above.


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Warnings of Python are errors, and none is logged."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def network(*, inputs: Sequence[str] = ()) -> keras.Model:
    if not inputs:
        return keras.Sequential([keras.layers.Dense(4, activation="relu")])
    columns = [keras.Input([3], name=name) for name in inputs]
    return keras.Model(columns, keras.layers.Dense(4)(keras.layers.Concatenate()(columns)))


def compiled(**more: object) -> HybridModel:
    model = HybridModel(network(), SVGPHead(num_inducing=5), num_data=60, **more)
    model.compile(keras.optimizers.Adam(0.01))
    return model


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("num_effective", [None, 60, 12.5])
def test_1_counts_that_agree_with_the_data(num_effective):
    compiled(num_effective=num_effective).fit(X, SIDE, epochs=1, verbose=0)


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
def test_2_a_wide_table_with_signal_is_learned():
    factors = RNG.normal(size=(120, 3))
    wide = factors @ RNG.normal(size=(3, 600)) + RNG.normal(size=(120, 600))
    label = (factors[:, 0] > 0).astype(int)
    fitted = SVGPClassifier(num_inducing=20, max_iterations=40, random_state=0).fit(wide[:80], label[:80])
    assert fitted.score(wide[80:], label[80:]) > 0.8


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("dtype", ["uint8", "float32", "int64"])
def test_3_inputs_of_any_number_type(dtype):
    levels = (X * 20 + 100).astype(dtype)
    compiled().fit(levels, SIDE, epochs=1, verbose=0)


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
def test_4_class_weights_and_sample_weights_in_their_usual_form():
    classifier().set_params(class_weight={0: 1.0, 1: 3.0}).fit(X, SIDE)
    classifier().set_params(class_weight="balanced").fit(X, SIDE, sample_weight=np.full(60, 2.0))
    compiled().fit(X, SIDE, class_weight={0: 1.0, 1: 3.0}, epochs=1, verbose=0)


def saved(path: Path, levels: np.ndarray, **more: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(levels).save(path, **more)


def noise(*shape: int, most: int = 255) -> np.ndarray:
    return RNG.integers(0, most + 1, shape).astype(np.uint8 if most < 256 else np.uint16)


SMALL_IMAGES = ClassifyPrepareSettings(size=(8, 8))


def test_5_an_image_turned_by_exif_is_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    for number in range(8):
        saved(tmp_path / "in" / "ab"[number % 2] / f"{number}.jpg", noise(20, 30, 3), exif=exif)
    result = prepare_classify(tmp_path / "in", tmp_path / "out", SMALL_IMAGES)
    assert {(example.height, example.width) for example in result.manifest.examples} == {(30, 20)}
    assert result.manifest.notes == ()


def test_5_deep_images_of_all_bits_keep_their_range(tmp_path):
    for number in range(8):
        saved(tmp_path / "in" / "ab"[number % 2] / f"{number}.png", noise(20, 30, most=65535))
    result = prepare_classify(tmp_path / "in", tmp_path / "out", SMALL_IMAGES)
    assert result.manifest.levels == (0, 65535)


@pytest.mark.parametrize("top", [1, 255])
def test_5_masks_of_two_levels_mark_the_upper_one(tmp_path, top):
    for number in range(6):
        mask = np.zeros((16, 16), np.uint8)
        mask[:, : 4 + number] = top
        saved(tmp_path / "images" / f"{number}.png", noise(16, 16, 3))
        saved(tmp_path / "masks" / f"{number}.png", mask)
    result = prepare_lane(
        tmp_path / "images", tmp_path / "masks", tmp_path / "out", LanePrepareSettings(size=(16, 16))
    )
    assert [example.lane_pixels for example in result.manifest.examples] == [16 * (4 + n) for n in range(6)]
    assert result.notes == result.skipped == ()


@pytest.mark.parametrize("form", ["table", "shares"])
def test_5_boxes_in_pixels_of_a_table_and_in_shares_of_yolo(tmp_path, form):
    boxes, rows = tmp_path / "boxes", []
    boxes.mkdir()
    for number in range(6):
        image = noise(64, 96, most=60)
        image[10:22, 20 + number : 32 + number] = 250
        saved(tmp_path / "images" / f"{number}.png", image)
        rows.append(f"{number}.png,{20 + number},10,12,12,mine")
        centre = (26 + number) / 96, 16 / 64
        text = f"0 {centre[0]:.6f} {centre[1]:.6f} {12 / 96:.6f} {12 / 64:.6f}\n"
        (boxes / f"{number}.txt").write_text(text)
    (boxes / "classes.txt").write_text("mine\n")
    (tmp_path / "boxes.csv").write_text("\n".join(["image,x,y,w,h,class", *rows]))
    result = prepare_sonar(
        tmp_path / "images",
        tmp_path / "out",
        SonarPrepareSettings(size=(8, 8)),
        annotations=boxes if form == "shares" else tmp_path / "boxes.csv",
    )
    assert result.manifest.class_names == ("background", "mine")
    assert sum(example.label for example in result.manifest.examples) == 6
    assert result.skipped == ()


@pytest.mark.parametrize("layout", ["split", "numbers", "signs"])
def test_6_folders_as_people_have_them(tmp_path, layout):
    """A given split; classes that are numbers; and names that differ in a sign alone."""
    parts = {"split": ("train", "val"), "numbers": ("",), "signs": ("",)}[layout]
    names = {"split": ("cat", "dog"), "numbers": ("10", "1.0"), "signs": ("a+", "a-")}[layout]
    for part in parts:
        for number in range(10):
            saved(tmp_path / "in" / part / names[number % 2] / f"{part}{number}.png", noise(12, 12, 3))
    result = prepare_classify(tmp_path / "in", tmp_path / "out", SMALL_IMAGES)
    assert result.manifest.class_names == tuple(sorted(names))
    judged = [example.split == "test" for example in result.manifest.examples]
    assert (sum(judged), result.skipped) == (10 if layout == "split" else 2, ())
    assert len(result.notes) + len(result.manifest.notes) == (
        layout == "split"
    )  # that it is taken as a split


def test_6_a_table_in_any_case_with_paths_and_groups(tmp_path):
    rows = []
    for number in range(12):
        saved(tmp_path / "in" / f"day {number // 4}" / f"{number}.png", noise(12, 12, 3))
        rows.append(f"day {number // 4}/{number}.png\t{'ab'[number % 2]}\t{number // 2}")
    (tmp_path / "table.tsv").write_text("\n".join(["Filename\tLabel\tGroup", *rows]))
    result = prepare_classify(tmp_path / "in", tmp_path / "out", SMALL_IMAGES, table=tmp_path / "table.tsv")
    assert (result.manifest.num_examples, result.skipped) == (12, ())
    assert len({example.group for example in result.manifest.examples}) == 6


def test_7_a_burst_of_one_class_is_no_contradiction(tmp_path):
    for number in range(12):
        image = np.kron(np.random.default_rng(number // 3).integers(0, 255, (6, 6, 3)), np.ones((4, 4, 1)))
        image += np.random.default_rng(number).integers(0, 3, image.shape)
        saved(tmp_path / "in" / "ab"[number // 6] / f"{number}.png", image.clip(0, 255).astype(np.uint8))
    result = prepare_classify(tmp_path / "in", tmp_path / "out", SMALL_IMAGES)
    assert len({example.group for example in result.manifest.examples}) == 4
    assert not (tmp_path / "out" / "contradictions.csv").exists()
    assert result.manifest.notes == ()


class _Batches(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        part = slice(20 * index, 20 * index + 20)
        return X[part].astype("float32"), SIDE[part]


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("kind", ["batches", "early stopping", "two inputs"])
def test_8_what_keras_takes(kind):
    if kind == "batches":
        model, data = compiled(), (_Batches(),)
    elif kind == "two inputs":
        model = HybridModel(network(inputs=("left", "right")), SVGPHead(num_inducing=5), num_data=60)
        model.compile(keras.optimizers.Adam(0.01))
        data = ({"left": X, "right": X}, SIDE)
    else:
        model, data = compiled(), (X, SIDE)
    stop = keras.callbacks.EarlyStopping("val_nll", patience=1)
    more = {"validation_split": 0.2, "callbacks": [stop]} if kind == "early stopping" else {}
    if kind == "early stopping":
        model.compares_num_data = False  # a fifth is held out
    history = model.fit(*data, epochs=2, verbose=0, **more)
    assert len(history.history["loss"]) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
def test_9_many_classes_of_few_rows_are_fitted_without_a_word():
    centres = 4 * RNG.normal(size=(20, 5))
    label = np.repeat(np.arange(20), 4)
    x = centres[label] + RNG.normal(size=(80, 5))
    assert (
        SVGPClassifier(num_inducing=20, max_iterations=20, random_state=0).fit(x, label).score(x, label) > 0.9
    )


def test_10_a_column_of_class_numbers_is_one_of_classes(tmp_path):
    rows = ["image,class"]
    for number in range(12):
        saved(tmp_path / "in" / f"{number}.png", noise(12, 12, 3))
        rows.append(f"{number}.png,{number % 3}")
    (tmp_path / "table.csv").write_text("\n".join(rows))
    result = prepare_classify(tmp_path / "in", tmp_path / "out", SMALL_IMAGES, table=tmp_path / "table.csv")
    assert result.manifest.class_names == ("0", "1", "2")
    assert result.notes == result.manifest.notes == ()


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
def test_11_what_scikit_learn_does_with_estimators(usual):
    search = GridSearchCV(classifier(), {"num_inducing": [4, 8]}, cv=GroupKFold(3))
    search.fit(X, SIDE, groups=np.arange(60) // 4)
    assert search.best_score_ > 0.7
    piped = make_pipeline(StandardScaler(), clone(classifier())).fit(X, SIDE)
    np.testing.assert_allclose(piped.predict_proba(X), usual, atol=0.02)
    copy = pickle.loads(pickle.dumps(piped))  # noqa: S301 - it was written here
    np.testing.assert_array_equal(copy.predict(X), piped.predict(X))
    mean, deviation = regressor().fit(X, TARGET).predict(X, return_std=True)
    assert mean.shape == deviation.shape == (60,)
    assert HGPClassifier(num_experts=2, num_inducing=5, max_iterations=5, random_state=0).fit(X, SIDE)
