"""Predicting files, folders and videos: what is written, what is left out, what is refused."""

import csv
import errno
import gc
import math
import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import psutil
import pytest
import tensorflow as tf
from PIL import Image

from data_prep.errors import InputError
from data_prep.files.images import read_image
from data_prep.files.videos import Frame
from pipelines.bundles import step
from pipelines.bundles.prediction import predict_files, summarise_predictions
from pipelines.bundles.prediction_lines import PredictionLine
from pipelines.bundles.saved_model import load_signatures
from pipelines.bundles.sources import Source, find_sources
from pipelines.lane import prediction as lane_prediction
from pipelines.lane.prediction import FOLDERS, LANE_PREDICTION, LanePrediction, LanePredictor
from pipelines.lane.settings import PredictSettings
from tests.pipelines.tiny_lane import quiet
from tests.pipelines.written import rows

COLUMNS = ["file", "height", "width", "lane_fraction", "mean_entropy", "referred", "seconds", "status"]


def redness(images: tf.Tensor) -> dict[str, tf.Tensor]:
    """Stands for a bundle: the probability is the red level / 255."""
    p = tf.cast(images[..., 0], tf.float32) / 255.0
    q = tf.clip_by_value(p, 1e-6, 1 - 1e-6)
    return {"probability": p, "predictive_entropy": -q * tf.math.log(q) - (1 - q) * tf.math.log(1 - q)}


def write_image(path: Path, size: tuple[int, int] = (8, 10), red: int = 200) -> Path:
    """The right half is red, the left half black."""
    image = np.zeros((*size, 3), np.uint8)
    image[:, size[1] // 2 :, 0] = red
    path.parent.mkdir(exist_ok=True, parents=True)
    Image.fromarray(image).save(path)
    return path


def write_video(path: Path, count: int = 5) -> Path:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 10, (48, 32))
    for number in range(count):
        writer.write(np.full((32, 48, 3), 40 * number, np.uint8))
    writer.release()
    return path


def table(out: Path) -> list[dict[str, str]]:
    return rows(out / "predictions.csv")


def predict_sources(
    signature: object,
    sources: list[Source],
    out: Path,
    *,
    on_done: Callable[[LanePrediction], None] = lambda _: None,
    **settings: object,
) -> list[LanePrediction]:
    predict = LanePredictor(signature, out, PredictSettings(**settings))
    return predict_files(LanePrediction, predict, sources, out, on_done=on_done)


def predict(inputs: list[Path], out: Path, **options: object) -> list[LanePrediction]:
    return predict_sources(redness, find_sources(inputs), out, **options)


def files(out: Path) -> set[str]:
    return {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}


def read_png(path: Path) -> np.ndarray:
    return cv2.imdecode(np.frombuffer(path.read_bytes(), np.uint8), cv2.IMREAD_UNCHANGED)


# What is written --------------------------------------------------------------------------------------------


def test_every_image_gets_four_files_and_a_line(tmp_path):
    lines = predict([write_image(tmp_path / "a.png"), write_image(tmp_path / "b.jpg")], tmp_path / "out")
    assert files(tmp_path / "out") == {
        "predictions.csv",
        *(f"{folder}/{stem}.png" for folder in ("masks", "probability", "uncertainty") for stem in "ab"),
        *(f"overlays/{stem}.jpg" for stem in "ab"),
    }
    assert [line.file for line in lines] == [str(tmp_path / "a.png"), str(tmp_path / "b.jpg")]


def test_the_table_has_exactly_the_agreed_columns(tmp_path):
    path = write_image(tmp_path / "a.png", red=255)
    predict([path], tmp_path / "out", refer_above=0.1)
    assert (tmp_path / "out" / "predictions.csv").read_text().splitlines()[0] == ",".join(COLUMNS)
    (row,) = table(tmp_path / "out")
    seconds = float(row.pop("seconds"))
    assert seconds > 0
    assert float(row.pop("mean_entropy")) < 1e-4
    assert row == {
        "file": str(path),
        "height": "8",
        "width": "10",
        "lane_fraction": "0.5",
        "referred": "false",
        "status": "ok",
    }


def test_maps_have_sixteen_bits_and_fixed_ends(tmp_path):
    probability = tf.constant([[[0.0, 0.25, 0.5, 1.0]]])
    entropy = tf.constant([[[0.0, 0.1, math.log(2), math.log(2) + 1e-6]]])

    def maps(**_: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"probability": probability, "predictive_entropy": entropy}

    predict_sources(maps, find_sources([write_image(tmp_path / "a.png", (1, 4))]), tmp_path, threshold=0.4)
    written = {folder: read_png(tmp_path / folder / "a.png") for folder in FOLDERS[:3]}
    assert written["masks"].dtype == np.uint8
    assert written["masks"].tolist() == [[0, 0, 255, 255]]
    assert written["probability"].dtype == written["uncertainty"].dtype == np.uint16
    assert written["probability"].tolist() == [[0, 16384, 32768, 65535]]
    assert written["uncertainty"].tolist() == [[0, round(0.1 / math.log(2) * 65535), 65535, 65535]]


def test_the_overlay_tints_the_lane_of_the_image(tmp_path):
    predict([write_image(tmp_path / "a.png", (40, 40))], tmp_path / "out")
    overlay = read_image(tmp_path / "out" / "overlays" / "a.jpg").astype(int)
    assert overlay.shape == (40, 40, 3)
    assert overlay[20, 5].max() < 30
    assert overlay[20, 30, 1] > 50  # green over red


@pytest.mark.parametrize(("threshold", "fraction"), [(0.5, 0.5), (0.79, 0.0), (0.78, 0.5)])
def test_the_threshold(tmp_path, threshold, fraction):
    (line,) = predict([write_image(tmp_path / "a.png", red=200)], tmp_path / "out", threshold=threshold)
    assert line.lane_fraction == fraction
    assert (read_png(tmp_path / "out" / "masks" / "a.png") > 0).mean() == fraction


@pytest.mark.parametrize(("refer_above", "referred"), [(None, False), (0.2, True), (0.3, False)])
def test_referral_by_mean_entropy(tmp_path, refer_above, referred):
    (line,) = predict([write_image(tmp_path / "a.png", red=200)], tmp_path / "out", refer_above=refer_above)
    assert line.mean_entropy == pytest.approx(0.5 * 0.5216, abs=1e-3)
    assert line.referred is referred
    assert table(tmp_path / "out")[0]["referred"] == str(referred).lower()


def test_a_photograph_is_turned_upright(tmp_path):
    image = np.zeros((20, 40, 3), np.uint8)
    image[:, :10, 0] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise: the left edge becomes the upper one
    Image.fromarray(image).save(tmp_path / "a.jpg", exif=exif, quality=95)
    (line,) = predict([tmp_path / "a.jpg"], tmp_path / "out")
    assert (line.height, line.width) == (40, 20)
    mask = read_png(tmp_path / "out" / "masks" / "a.png")
    assert mask.shape == (40, 20)
    assert mask[:9].min() == 255
    assert mask[12:].max() == 0


@pytest.mark.parametrize(
    "name", ["Straße über München.png", "two words.JPG", "日本.webp", "a[b]{c}%d.bmp", "x.y.tiff"]
)
def test_names_of_all_kinds(tmp_path, name):
    path = write_image(tmp_path / "im ages" / name)
    (line,) = predict([path.parent], tmp_path / "out")
    assert line.file == str(path)
    assert table(tmp_path / "out")[0]["file"] == str(path)
    assert (tmp_path / "out" / "masks" / f"{path.stem}.png").is_file()


def test_a_name_that_is_no_utf_8(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9.png")
    try:
        write_image(path)
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    (line,) = predict([tmp_path], tmp_path / "out")
    assert line.status == "ok"
    assert table(tmp_path / "out")[0]["file"].endswith("caf\\udce9.png")


def test_an_image_too_long_for_a_jpeg_gets_a_png(tmp_path):
    write_image(tmp_path / "a.png", (1, 65_600))
    predict([tmp_path / "a.png"], tmp_path / "out")
    assert read_png(tmp_path / "out" / "overlays" / "a.png").shape == (1, 65_600, 3)


def test_the_frames_of_a_video(tmp_path):
    path = write_video(tmp_path / "a walk.avi")
    lines = predict([path], tmp_path / "out", every=2, smoothing=0)
    assert [line.file for line in lines] == [f"{path}#{number}" for number in (0, 2, 4)]
    assert [line.lane_fraction for line in lines] == [0.0, 0.0, 1.0]
    assert {path.name for path in (tmp_path / "out" / "masks").iterdir()} == {
        f"a walk_{number:06d}.png" for number in (0, 2, 4)
    }


# Sources ----------------------------------------------------------------------------------------------------


def test_a_folder_gives_its_images_and_videos_by_name(tmp_path):
    for name in ("b.png", "a.JPEG", ".hidden.png"):
        write_image((tmp_path / name).with_suffix(".jpg")).rename(tmp_path / name)
    write_video(tmp_path / "c.avi")
    (tmp_path / "notes.txt").write_text("")
    write_image(tmp_path / "d.png" / "inside.png")
    assert [source.path.name for source in find_sources([tmp_path])] == ["a.JPEG", "b.png", "c.avi"]


def test_nothing_named_like_a_picture_is_passed_over(tmp_path):
    """Each is named with its reason, none waits, and the good one keeps its name."""
    folder = tmp_path / "photos"
    write_image(folder / "a.png")
    (folder / "a.gif").write_bytes(b"GIF89a")
    os.mkfifo(folder / "b.png")
    (folder / "gone.png").symlink_to(folder / "nowhere.png")
    sources = find_sources([folder])
    assert [(source.path.name, source.stem) for source in sources] == [
        ("a.png", "a"),
        ("a.gif", "a.gif"),
        ("b.png", "b.png"),
        ("gone.png", "gone.png"),
    ]
    predict([folder], tmp_path / "out")
    skipped = {row["file"]: row["reason"] for row in rows(tmp_path / "out" / "skipped.csv")}
    assert set(skipped) == {str(folder / name) for name in ("a.gif", "b.png", "gone.png")}
    assert "no known format" in skipped[str(folder / "a.gif")]
    assert "is no file, but a pipe" in skipped[str(folder / "b.png")]
    assert "cannot be opened" in skipped[str(folder / "gone.png")]
    write_video(folder / "walk.avi")
    assert find_sources([folder], suffixes={".avi"}) == [Source(folder / "walk.avi", "walk")]


def test_files_keep_their_order(tmp_path):
    paths = [write_image(tmp_path / name) for name in ("b.png", "a.png")]
    assert [source.path for source in find_sources(paths)] == paths


def test_equal_names_are_told_apart(tmp_path):
    paths = [write_image(tmp_path / name) for name in ("x/a.png", "x/a.jpg", "y/a.png", "y/b.png")]
    stems = [source.stem for source in find_sources([tmp_path / "x", tmp_path / "y"])]
    assert stems == ["a.jpg", "x_a.png", "y_a.png", "b"]
    predict(paths, tmp_path / "out")
    assert len(files(tmp_path / "out" / "masks")) == 4


def test_the_same_file_twice_is_predicted_once(tmp_path):
    path = write_image(tmp_path / "a.png")
    assert find_sources([path, tmp_path, path]) == [Source(path, "a")]


def test_equal_names_in_equal_folders_get_numbers(tmp_path):
    paths = [write_image(tmp_path / day / "left" / "a.png") for day in ("monday", "tuesday", "friday")]
    assert [source.stem for source in find_sources(paths)] == ["left_a.png", "a.png_2", "a.png_3"]


def test_stems_that_are_too_long_are_shortened_and_stay_apart(tmp_path: Path) -> None:
    long = "ä" * 120 + "x" * 11  # 251 bytes, with the suffix as many as a name may have
    paths = [tmp_path / folder / f"{long}.png" for folder in ("one", "two")]
    paths += [tmp_path / "one" / f"{long[:-1]}y.mp4"]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    stems = [source.stem for source in find_sources(paths)]
    assert len(set(stems)) == 3
    for stem in stems:
        (tmp_path / f"{stem}_00000012.geojson").touch()
    assert [source.stem for source in find_sources([paths[1], paths[0]])] == stems[1::-1]


@pytest.mark.parametrize(
    ("image", "stem"), [("walk_000002.png", "walk_000002.png"), ("walk_2.png", "walk_2"), ("b.png", "b")]
)
def test_an_image_named_like_a_frame_keeps_clear_of_it(tmp_path, image, stem):
    video, path = write_video(tmp_path / "walk.avi"), write_image(tmp_path / image)
    assert find_sources([path, video]) == [Source(path, stem), Source(video, "walk")]


def test_nothing_to_predict(tmp_path):
    with pytest.raises(
        InputError, match=r"nowhere does not exist\. Pass image files, video files, or a folder"
    ):
        find_sources([tmp_path / "nowhere"])
    with pytest.raises(
        InputError, match=rf"No image or video in {tmp_path}\. Expected files ending in .*\.jpg"
    ):
        find_sources([tmp_path])
    (tmp_path / "inner").mkdir()
    with pytest.raises(InputError, match=r"\.webp\.$"):
        find_sources([tmp_path])
    write_image(tmp_path / "inner" / "a.png")
    with pytest.raises(InputError, match=rf"pass them by name, such as {tmp_path / 'inner'}\.$"):
        find_sources([tmp_path])


# What cannot be read or written -----------------------------------------------------------------------------


def bad_files(folder: Path) -> list[Path]:
    good = write_image(folder / "whole.png", (50, 50))
    (folder / "torn.png").write_bytes(good.read_bytes()[:80])
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "text.avi").write_text("no video")
    (folder / "text.tif").write_text("no image")
    good.unlink()
    return sorted(folder.iterdir())


def test_unreadable_files_among_good_ones_are_listed(tmp_path):
    bad = bad_files(tmp_path / "images")
    good = [write_image(tmp_path / "images" / name) for name in ("a.png", "zz.png")]
    seen = []
    lines = predict([tmp_path / "images"], tmp_path / "out", on_done=seen.append)
    assert seen == lines
    status = {Path(row["file"]): row["status"] for row in table(tmp_path / "out")}
    assert set(status) == {*bad, *good}
    assert [status[path] for path in good] == ["ok", "ok"]
    for path in bad:
        assert status[path].startswith(f"{path}: ")
        assert len(status[path].split(". ")) >= 2  # what is wrong, and what to do
    with (tmp_path / "out" / "skipped.csv").open(newline="") as file:
        skipped = list(csv.reader(file))
    assert skipped == [["file", "reason"], *([str(path), status[path]] for path in bad)]
    row = next(row for row in table(tmp_path / "out") if row["file"] == str(bad[0]))
    assert all(row[column] == "" for column in COLUMNS[1:-1])


def test_a_prediction_that_is_no_number_is_left_out_by_name(tmp_path):
    inputs = [write_image(tmp_path / "in" / "dark.png", red=0), write_image(tmp_path / "in" / "red.png")]

    def overflowing(images: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = redness(images)
        scale = tf.constant(np.nan if float(tf.reduce_max(images)) > 0 else 1.0, tf.float32)
        return {**outputs, "predictive_entropy": outputs["predictive_entropy"] * scale}

    dark, red = predict_sources(overflowing, find_sources(inputs), tmp_path / "out")
    assert dark.status == "ok"
    assert "red.png: the prediction has numbers that are NaN or infinite" in red.status
    assert table(tmp_path / "out")[1]["mean_entropy"] == ""
    assert not [name for name in files(tmp_path / "out") if Path(name).stem == "red"]

    def lines(source: Source) -> Iterator[LanePrediction]:  # of an application that calls the model itself
        yield LanePrediction(str(source.path), mean_entropy=math.nan if source.stem == "red" else 0.5)

    last = predict_files(LanePrediction, lines, find_sources(inputs), tmp_path / "lines")[-1]
    assert "red.png: the prediction has numbers that are NaN or infinite" in last.status


@pytest.mark.usefixtures("without_bundle")
def test_the_summary_lists_what_was_left_out(tmp_path):
    (bad, *_) = bad_files(tmp_path / "images")
    write_image(tmp_path / "images" / "a.png")
    console = quiet()
    inputs = [tmp_path / "images"]
    (tmp_path / "metadata.json").write_text("{}")
    LANE_PREDICTION(PredictSettings(), inputs=inputs, model=tmp_path, out=tmp_path / "out", console=console)
    text = console.file.getvalue()
    assert f"1 predictions written to {tmp_path / 'out'}" in text
    assert text.index("1 predictions written") < text.index(f"Left out: {bad}: ")
    assert text.count("Left out") == 4


@pytest.mark.parametrize("flags", [(True, True, None), (False, None, False)])
def test_unfamiliar_inputs_are_counted_on_the_console(tmp_path, flags):
    console = quiet()
    lines = [PredictionLine(file=f"{n}.png", unfamiliar=flag, seconds=1.0) for n, flag in enumerate(flags)]
    summarise_predictions(lines, tmp_path, console)
    assert ("2 of 3 are unfamiliar" in console.file.getvalue()) == bool(flags[0])


@pytest.fixture
def without_bundle(monkeypatch) -> None:
    monkeypatch.setattr(
        step,
        "open_bundle",
        lambda *_: (
            redness,
            SimpleNamespace(
                class_names=(),
                costs=None,
                guarantee=None,
                least_familiarity=None,
                signatures={},
                preprocessing_settings={},
                kinds=(),
            ),
        ),
    )


def test_nothing_readable_is_an_error_and_leaves_only_the_list(tmp_path):
    bad = bad_files(tmp_path / "images")
    with pytest.raises(InputError, match=rf"None of 4 inputs could be predicted\. The first: {bad[0]}: "):
        predict([tmp_path / "images"], tmp_path / "out")
    assert files(tmp_path / "out") == {"skipped.csv"}
    write_image(tmp_path / "images" / "a.png")
    for path in bad:
        path.unlink()
    predict([tmp_path / "images"], tmp_path / "out")  # nothing is in the way of another try
    assert "skipped.csv" not in files(tmp_path / "out")


def test_predictions_are_not_overwritten(tmp_path):
    path = write_image(tmp_path / "a.png")
    predict([path], tmp_path / "out")
    with pytest.raises(InputError, match=r"out already holds predictions\. Give another --out"):
        predict([path], tmp_path / "out")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_disk_stops_the_run_without_torn_files(tmp_path, monkeypatch, number):
    images = [write_image(tmp_path / f"{name}.png") for name in "abc"]
    write, count = Path.write_bytes, []

    def failing(path: Path, content: bytes) -> int:
        count.append(path)
        if len(count) == 7:  # the third file of the second image
            write(path, content[:10])
            raise OSError(number, os.strerror(number))
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", failing)
    with pytest.raises(InputError, match=rf"uncertainty/b\.png: cannot be written \({os.strerror(number)}\)"):
        predict(images, tmp_path / "out")
    assert [line["file"] for line in table(tmp_path / "out")] == [str(images[0])]
    assert files(tmp_path / "out") == {
        "predictions.csv",
        "masks/a.png",
        "probability/a.png",
        "uncertainty/a.png",
        "overlays/a.jpg",
        "masks/b.png",
        "probability/b.png",
    }


def test_ctrl_c_leaves_complete_files_and_lines_only(tmp_path, caplog):
    images = [write_image(tmp_path / f"{name}.png") for name in "abc"]

    def interrupt(line: LanePrediction) -> None:
        if line.file.endswith("b.png"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict(images, tmp_path / "out", on_done=interrupt)
    pictures = files(tmp_path / "out") - {"predictions.csv"}
    assert {name.split("/")[1].split(".")[0] for name in pictures} == {"a", "b"}
    assert len(pictures) == 8
    assert [line["file"] for line in table(tmp_path / "out")] == [str(path) for path in images[:2]]
    assert "predictions.csv lists the 2 predictions that are complete" in caplog.text


def test_ctrl_c_in_the_first_image_leaves_no_table(tmp_path):
    def interrupted(**_: tf.Tensor) -> dict[str, tf.Tensor]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict_sources(interrupted, find_sources([write_image(tmp_path / "a.png")]), tmp_path / "out")
    assert files(tmp_path / "out") == set()


def test_an_image_too_large_for_the_memory_is_left_out(tmp_path):
    def limited(images: tf.Tensor) -> dict[str, tf.Tensor]:
        if images.shape[1] > 10:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
        return redness(images)

    large, small = write_image(tmp_path / "large.png", (20, 10)), write_image(tmp_path / "small.png")
    lines = predict_sources(limited, find_sources([large, small]), tmp_path / "out")
    assert "10 x 20 pixels need more memory than there is. Reduce the image" in lines[0].status
    assert lines[1].status == "ok"


def test_errors_of_the_model_are_not_taken_for_unreadable_images(tmp_path):
    def broken(**_: tf.Tensor) -> dict[str, tf.Tensor]:
        raise tf.errors.InternalError(None, None, "the model")

    with pytest.raises(tf.errors.InternalError):
        predict_sources(broken, find_sources([write_image(tmp_path / "a.png")]), tmp_path / "out")


# Size and memory --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size", [(1, 1), *(pytest.param(size, marks=pytest.mark.slow) for size in ((1, 30), (30, 1), (33, 21)))]
)
def test_a_bundle_predicts_images_of_any_size(lane_bundle, tmp_path, size):
    image = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    Image.fromarray(image).save(tmp_path / "a.png")
    signature = load_signatures(lane_bundle)["serving_default"]
    (line,) = predict_sources(signature, find_sources([tmp_path / "a.png"]), tmp_path / "out")
    assert (line.height, line.width) == size
    for folder in FOLDERS[:3]:
        assert read_png(tmp_path / "out" / folder / "a.png").shape == size


@pytest.mark.slow
def test_a_bundle_predicts_24_megapixels(lane_bundle, tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8).repeat(100, 0).repeat(100, 1)
    Image.fromarray(image).save(tmp_path / "a.jpg")
    signature = load_signatures(lane_bundle)["serving_default"]
    (line,) = predict_sources(signature, find_sources([tmp_path / "a.jpg"]), tmp_path / "out")
    assert (line.height, line.width) == (4000, 6000)
    assert read_png(tmp_path / "out" / "probability" / "a.png").shape == (4000, 6000)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_images(tmp_path):
    """200 images of 240 kB each: kept together they would be 48 MB, and four maps of each 270 MB."""
    path = write_image(tmp_path / "a.png", (200, 400))
    sources = [Source(path, f"{number:03d}") for number in range(220)]
    process, start = psutil.Process(), {}

    def watch(_: LanePrediction) -> None:
        if len(start) == 0 and (tmp_path / "out" / "overlays" / "020.jpg").exists():
            gc.collect()
            start.update(rss=process.memory_info().rss, python=tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        predict_sources(redness, sources, tmp_path / "out", on_done=watch)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - start["python"]
    finally:
        tracemalloc.stop()
    assert grown < 20_000_000  # Python itself may enlarge a table at any time
    assert process.memory_info().rss - start["rss"] < 30_000_000


def test_frames_of_a_video_are_predicted_as_they_are_read(tmp_path, monkeypatch):
    """Thousands of frames do not fit into memory."""
    order = []

    def frames(*_: object, **__: object) -> Iterator[Frame]:
        for number in range(3):
            order.append(f"read {number}")
            yield Frame(number, number / 10, np.zeros((4, 4, 3), np.uint8))

    monkeypatch.setattr(lane_prediction, "read_frames", frames)
    sources = [Source(Path("a.avi"), "a")]
    predict_sources(
        redness, sources, tmp_path / "out", on_done=lambda line: order.append(f"done {line.file[-1]}")
    )
    assert order == ["read 0", "done 0", "read 1", "done 1", "read 2", "done 2"]
