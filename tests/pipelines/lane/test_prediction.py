"""Videos of lanes: smoothed frames, the way ahead, a sheet of frames, and what a damaged video leaves out."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import tensorflow as tf
from pydantic import ValidationError

from pipelines.bundles.prediction import predict_files
from pipelines.bundles.sources import find_sources
from pipelines.bundles.unreadable import UnreadableSourceError
from pipelines.lane import maps
from pipelines.lane.maps import ImageMaps
from pipelines.lane.prediction import FOLDERS, SHEETS, LanePredictor, line_class, smoothed_maps
from pipelines.lane.settings import PredictSettings
from tests.pipelines.written import rows

SIZE = (32, 48)
DIRECTION = ["direction", "direction_low", "direction_high"]
WIDTH = ["corridor_width", "corridor_width_low", "corridor_width_high"]


def redness(images: tf.Tensor) -> dict[str, tf.Tensor]:
    """Stands for a bundle: the probability is the red level / 255."""
    p = tf.cast(images[..., 0], tf.float32) / 255.0
    q = tf.clip_by_value(p, 1e-6, 1 - 1e-6)
    return {"probability": p, "predictive_entropy": -q * tf.math.log(q) - (1 - q) * tf.math.log(1 - q)}


def write_video(path: Path, levels: list[int], rate: float = 10) -> Path:
    """Frames of one red level each."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), rate, SIZE[::-1])
    for level in levels:
        writer.write(np.full((*SIZE, 3), (0, 0, level), np.uint8))
    writer.release()
    return path


def predict(path: Path, out: Path, **settings: object) -> LanePredictor:
    chosen = PredictSettings(**settings)
    predictor = LanePredictor(redness, out, chosen)
    sources = find_sources([path])
    predict_files(line_class(chosen), predictor, sources, out, left_out=predictor.left_out)
    return predictor


def probability(out: Path, number: int) -> float:
    picture = cv2.imread(str(out / "probability" / f"a_{number:06d}.png"), cv2.IMREAD_UNCHANGED)
    return float(np.median(picture)) / 65535


def test_frames_of_a_video_are_smoothed_and_images_are_not(tmp_path):
    video = write_video(tmp_path / "a.avi", [250, 0, 0])
    predict(video, tmp_path / "smooth", smoothing=0.1, optical_flow=False)
    predict(video, tmp_path / "plain", smoothing=0)
    first = probability(tmp_path / "plain", 0)
    assert first > 0.9
    assert probability(tmp_path / "plain", 1) < 0.05
    kept = probability(tmp_path / "smooth", 1)
    assert kept == pytest.approx(np.exp(-1.0) * first, abs=0.03)  # one frame is the time constant
    assert probability(tmp_path / "smooth", 2) == pytest.approx(np.exp(-2.0) * first, abs=0.03)
    (entropy,) = [float(row["mean_entropy"]) for row in rows(tmp_path / "smooth" / "predictions.csv")[1:2]]
    assert entropy == pytest.approx(-kept * np.log(kept) - (1 - kept) * np.log(1 - kept), abs=0.01)
    image = cv2.imwrite(str(tmp_path / "b.png"), np.full((*SIZE, 3), (0, 0, 250), np.uint8))
    assert image
    predict(tmp_path / "b.png", tmp_path / "image", smoothing=10)
    assert not (tmp_path / "image" / SHEETS).exists()


def test_nothing_is_kept_of_an_image_that_memory_ends_in_between(tmp_path, monkeypatch):
    cv2.imwrite(str(tmp_path / "a.png"), np.full((*SIZE, 3), 200, np.uint8))
    cv2.imwrite(str(tmp_path / "b.png"), np.full((*SIZE, 3), 100, np.uint8))

    class Short(ImageMaps):
        def __getitem__(self, name):
            if name == "predictive_entropy" and self.file.endswith("b.png"):
                raise UnreadableSourceError(f"{self.file}: needs more memory")
            return super().__getitem__(name)

    monkeypatch.setattr(maps, "ImageMaps", Short)
    predict(tmp_path, tmp_path / "out")
    kept = {path.stem for path in (tmp_path / "out").rglob("*.*g") if path.parent != tmp_path / "out"}
    assert kept == {"a"}
    assert "b.png: needs more memory" in (tmp_path / "out" / "skipped.csv").read_text()


def test_a_frame_without_a_past_has_the_entropy_of_a_photograph():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=(4, 6)).astype(np.float32)
    maps = {"probability": p, "predictive_entropy": rng.uniform(0.1, 0.6, (4, 6)).astype(np.float32)}
    np.testing.assert_allclose(smoothed_maps(maps, p)["predictive_entropy"], maps["predictive_entropy"])
    certain = smoothed_maps(maps, np.zeros_like(p))["predictive_entropy"]
    assert (certain <= maps["predictive_entropy"]).all()
    assert (certain >= 0).all()


def test_a_direction_adds_columns_and_a_sheet_stands_beside_the_frames(tmp_path):
    out = tmp_path / "out"
    predictor = predict(write_video(tmp_path / "a.avi", [250] * 4), out, direction=True)
    lines = rows(out / "predictions.csv")
    names = list(lines[0])
    assert names[:2] == ["file", "time"]
    assert names[6:13] == ["corridor", *DIRECTION, *WIDTH]
    assert [float(line["time"]) for line in lines] == pytest.approx([0.0, 0.1, 0.2, 0.3], abs=1e-3)
    for line in lines:
        assert float(line["corridor"]) == pytest.approx(250 / 255, abs=0.02)
        assert float(line["direction"]) == pytest.approx(0.0, abs=1e-6)
        assert float(line["corridor_width"]) == pytest.approx(60.0, abs=1e-3)
    assert cv2.imread(str(out / SHEETS / "a.jpg")) is not None
    assert {path.name for path in out.iterdir()} == {*FOLDERS, SHEETS, "predictions.csv"}
    assert predictor.speed().startswith("Videos: ")


def test_the_time_between_predicted_frames_counts(tmp_path):
    video = write_video(tmp_path / "a.avi", [250, 0, 0, 0])
    predict(video, tmp_path / "out", smoothing=0.1, optical_flow=False, every=3)
    assert probability(tmp_path / "out", 3) == pytest.approx(np.exp(-3.0) * 0.98, abs=0.03)


def test_where_there_is_no_way_the_columns_are_empty(tmp_path):
    predict(write_video(tmp_path / "a.avi", [0]), tmp_path / "out", direction=True)
    (line,) = rows(tmp_path / "out" / "predictions.csv")
    assert (tmp_path / "out" / SHEETS / "a.jpg").exists()
    assert float(line["corridor"]) == 0.0
    assert [line[name] for name in (*DIRECTION, *WIDTH)] == [""] * 6


def test_a_video_that_ends_in_the_middle_of_a_frame_is_predicted_until_there_and_named(tmp_path):
    path = write_video(tmp_path / "a.avi", [40 * (n % 7) for n in range(30)])
    content = path.read_bytes()
    path.write_bytes(content[: int(0.85 * len(content))])
    predictor = predict(path, tmp_path / "out")
    found = rows(tmp_path / "out" / "predictions.csv")
    assert 0 < len(found) < 30
    (left_out,) = rows(tmp_path / "out" / "skipped.csv")
    assert left_out["file"] == str(path)
    assert "of 30 frames that the file announces. Expected all of them" in left_out["reason"]
    assert len(predictor.left_out) == 1


def test_smoothing_is_on_unless_a_guarantee_of_single_images_is_asked_for():
    assert PredictSettings().time_constant > 0
    assert PredictSettings(max_error=0.1).time_constant == 0
    assert PredictSettings(max_error=0.1, smoothing=0).time_constant == 0
    assert PredictSettings(smoothing=2.5).time_constant == 2.5
    with pytest.raises(ValidationError, match="max_error guarantees something of single images"):
        PredictSettings(max_error=0.1, smoothing=0.2)


@pytest.mark.parametrize(
    "setting", [{"smoothing": -1}, {"field_of_view": 0}, {"field_of_view": 180}, {"look_ahead": 1}]
)
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ValidationError):
        PredictSettings(**setting)
