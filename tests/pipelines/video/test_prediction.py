"""What is written of a video: its tables agree, long ones are streamed, bad ones are named."""

import resource
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import tensorflow as tf
from matplotlib.axes import Axes

from data_prep.errors import InputError
from data_prep.files.videos import Video
from data_prep.video.clips import VideoClip
from data_prep.video.settings import ClipSettings
from pipelines.bundles.line_rules import LineRules
from pipelines.bundles.sources import Source
from pipelines.bundles.unreadable import UnreadableSourceError
from pipelines.scores.costs import CostTable
from pipelines.scores.prediction_sets import PredictionSets
from pipelines.video.pictures import timeline_plot, write_annotated
from pipelines.video.prediction import VideoPrediction, VideoPredictor
from pipelines.video.settings import PredictSettings
from pipelines.video.timeline import Timeline
from tests.pipelines.written import rows

CLIP = VideoClip(np.zeros((4, 8, 8, 3), np.uint8), 0.0, 1.0)
NAMES = ("dark", "bright")
CLIPS = ClipSettings(frames=4, clip_seconds=0.4, size=(8, 8), resize=(8, 8))


class Brightness:
    """A bundle's signature: the probability of "bright" is the mean level; remembers what it was given."""

    def __init__(self) -> None:
        self.largest_batch = 0

    def __call__(self, clips: tf.Tensor) -> dict[str, tf.Tensor]:
        assert (clips.dtype, clips.shape[1:]) == (tf.uint8, (4, 8, 8, 3))
        self.largest_batch = max(self.largest_batch, clips.shape[0])
        bright = tf.clip_by_value(
            tf.reduce_mean(tf.cast(clips, tf.float32), axis=[1, 2, 3, 4]) / 255, 0.05, 0.95
        )
        probability = tf.stack([1 - bright, bright], axis=1)
        entropy = -tf.reduce_sum(probability * tf.math.log(probability), axis=1)
        return {
            "probability": probability,
            "predictive_entropy": entropy,
            "mutual_information": 0.5 * entropy,
        }


def write(path: Path, levels: list[int], size: tuple[int, int] = (32, 48)) -> Source:
    """A video of 10 frames a second."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, size[::-1])
    for level in levels:
        writer.write(np.full((*size, 3), level, np.uint8))
    writer.release()
    return Source(path, path.stem)


def predictor(out: Path, signature: Brightness | None = None, **settings: object) -> VideoPredictor:
    out.mkdir(exist_ok=True)
    return VideoPredictor(
        signature=signature or Brightness(),
        clips=CLIPS,
        class_names=NAMES,
        settings=PredictSettings(**settings),
        out=out,
    )


def test_tables_tell_when_it_becomes_bright(tmp_path):
    source = write(tmp_path / "dawn.avi", [10] * 20 + [245] * 20)
    (line,) = predictor(tmp_path / "out", refer_above=0.4)(source)
    windows = rows(tmp_path / "out" / "windows" / "dawn.csv")
    assert [float(row["start_seconds"]) for row in windows] == pytest.approx(np.arange(0, 3.7, 0.2))
    for row in windows:
        p = float(row["probability of bright"])
        assert row["label"] == ("bright" if p > 0.5 else "dark")
        assert row["referred"] == str(float(row["predictive_entropy"]) > 0.4).lower()
    dark, bright = rows(tmp_path / "out" / "segments" / "dawn.csv")
    assert (dark["label"], bright["label"]) == ("dark", "bright")
    assert float(dark["end_seconds"]) == float(bright["start_seconds"]) == pytest.approx(2.0, abs=0.21)
    assert float(bright["end_seconds"]) == pytest.approx(4.0, abs=0.05)
    assert (dark["referred"], int(dark["windows"]) + int(bright["windows"])) == ("false", len(windows))
    mean = np.mean([float(row["probability of bright"]) for row in windows])
    assert line.probability["bright"] == pytest.approx(mean, abs=1e-5)
    assert (line.windows, line.segments, line.referred) == (len(windows), 2, True)
    costs = CostTable(classes=tuple(NAMES), decisions=tuple(NAMES), values=((0, 1), (1, 0)))
    every_rule = LineRules(0.01, costs=costs, sets=PredictionSets(0.9, np.ones(2), np.ones(2, bool)))
    assert set(line.cells()) == set(VideoPrediction.columns(NAMES, every_rule))


@pytest.mark.slow
def test_a_video_has_the_temperature_of_videos_and_its_windows_have_not(tmp_path):
    source = write(tmp_path / "dawn.avi", [10] * 10 + [200] * 20)
    (plain,) = predictor(tmp_path / "plain")(source)
    (line,) = replace(predictor(tmp_path / "sharp"), pool_temperature=0.5)(source)
    p = plain.probability["bright"]
    assert line.probability["bright"] == pytest.approx(p**2 / (p**2 + (1 - p) ** 2), abs=1e-5)
    assert line.predictive_entropy < plain.predictive_entropy
    windows = [rows(tmp_path / name / "windows" / "dawn.csv") for name in ("plain", "sharp")]
    assert windows[0] == windows[1]


def test_annotated_video_keeps_length_and_shows_the_label(tmp_path):
    source = write(tmp_path / "dusk.avi", [200] * 15 + [20] * 15, size=(121, 161))  # odd sides
    list(predictor(tmp_path / "out", refer_above=2.0)(source))
    with Video(tmp_path / "out" / "annotated" / "dusk.mp4") as video:
        frames = [video.frame() for _ in video]
        assert video.end == pytest.approx(3.0, abs=0.15)
    assert frames[0].shape == (240, 320, 3)  # enlarged, for letters to have room
    corner = [
        np.mean(frame[:14, :80].astype(int)) - np.mean(frame[120:]) for frame in (frames[2], frames[-2])
    ]
    assert abs(corner[0]) > 5
    assert corner[1] > 50  # a bright strip on a dark picture
    assert cv2.imread(str(tmp_path / "out" / "plots" / "dusk.png")).shape[1] > 500


def test_without_annotation_the_video_is_read_once_in_small_batches(tmp_path, monkeypatch):
    signature, capture, opened = Brightness(), cv2.VideoCapture, []
    monkeypatch.setattr(cv2, "VideoCapture", lambda *a: opened.append(a) or capture(*a))
    source = write(tmp_path / "long.avi", [100] * 300)
    predict = predictor(tmp_path / "out", signature, annotate=False, clips_at_once=3, step=1)
    (line,) = predict(source)
    assert line.windows == 297
    assert signature.largest_batch == 3
    assert len(opened) == 1
    assert not (tmp_path / "out" / "annotated").exists()
    assert predict.speed().startswith("30 s of film")


def test_every_class_name_can_be_drawn(monkeypatch):
    legends = []
    monkeypatch.setattr(Axes, "legend", lambda self, **_: legends.append(self.get_legend_handles_labels()[1]))
    ends = (np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    line = Timeline(*ends, np.full((2, 2), 0.5), *(np.array([0.1, 0.2]),) * 2)
    assert timeline_plot(line, ("$5_$ bills", "_other"), refer_above=None).startswith(b"\x89PNG")
    assert [name.lstrip("\N{ZERO WIDTH SPACE}") for name in legends[0]] == ["$5_$ bills", "_other"]


def test_plot_and_annotated_video_have_the_same_colours(monkeypatch, tmp_path):
    drawn, entries = {}, []

    def stairs(*_: object, color: object, label: str, **__: object) -> None:
        drawn[label] = color

    monkeypatch.setattr(Axes, "stairs", stairs)
    monkeypatch.setattr(Axes, "legend", lambda self, **_: entries.append(self.get_legend_handles_labels()[1]))
    probability = np.full((3, 8), 0.01)
    probability[range(3), (1, 7, 0)] = 0.93  # 1 and 7 would have one colour by their numbers
    ends = (np.arange(3.0), np.arange(1.0, 4.0))
    line = Timeline(*ends, probability, np.array([0.5, 0.1, 0.5]), np.zeros(3))
    names = [f"class {label}" for label in range(8)]
    timeline_plot(line, names, refer_above=0.4)
    assert entries == [["referred"], ["refer above 0.4"]]
    colours = {tuple(color) for name, color in drawn.items() if name.startswith("class")}
    assert len(colours) == 6
    source = write(tmp_path / "film.avi", [250] * 30, size=(240, 320))
    write_annotated(source.path, tmp_path / "a.mp4", line, names, refer_above=None, longest_side=640)
    with Video(tmp_path / "a.mp4") as video:
        frames = [video.frame() for _ in video]
    for label, frame in ((1, frames[3]), (7, frames[15]), (0, frames[27])):
        strip = np.median(frame[1:10, :60].reshape(-1, 3), axis=0) / 255
        np.testing.assert_allclose(strip, drawn[names[label]], atol=0.2)


def test_a_video_shorter_than_a_window_is_one_window(tmp_path):
    (line,) = predictor(tmp_path / "out", annotate=False)(write(tmp_path / "short.avi", [240] * 2))
    assert (line.windows, line.label) == (1, "bright")


def test_an_annotated_video_is_whole_or_refused(tmp_path, monkeypatch):
    source = write(tmp_path / "film.avi", [50, 150] * 10)
    line = Timeline(
        *(np.array([value]) for value in (0.0, 2.0)), np.array([[0.3, 0.7]]), *(np.array([0.1]),) * 2
    )
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, allowed[1]))  # as on a full disk, OpenCV says nothing
    try:
        with pytest.raises(InputError, match="only 0 of 20 annotated frames could be written") as raised:
            write_annotated(source.path, tmp_path / "a.mp4", line, NAMES, refer_above=None, longest_side=640)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
    assert f"to {tmp_path}. Free some space there" in str(raised.value)
    shapes = iter([(240, 320, 3), (240, 320, 3), *[(360, 480, 3)] * 18])
    monkeypatch.setattr(Video, "frame", lambda _: np.zeros(next(shapes), np.uint8))
    write_annotated(source.path, tmp_path / "whole.mp4", line, NAMES, refer_above=None, longest_side=640)
    monkeypatch.undo()
    with Video(tmp_path / "whole.mp4") as video:
        assert {video.frame().shape for _ in video} == {(240, 320, 3)}
        assert video.num_frames == 20


def test_errors_of_one_video_leave_the_others_alone(tmp_path, monkeypatch):
    source = write(tmp_path / "film.avi", [50] * 10)

    def exhausted(**_: object) -> dict[str, tf.Tensor]:
        raise tf.errors.ResourceExhaustedError(None, None, "OOM")

    with pytest.raises(UnreadableSourceError, match="need more memory than there is"):
        list(predictor(tmp_path / "out", exhausted)(source))
    monkeypatch.setattr("pipelines.video.pictures.Video.frame", lambda _: None)
    monkeypatch.setattr("pipelines.video.prediction.video_windows", lambda *_, **__: iter([CLIP]))
    with pytest.raises(UnreadableSourceError, match="a second time"):
        list(predictor(tmp_path / "out")(source))
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_a_video_writer_is_closed_when_a_frame_fails(tmp_path, monkeypatch):
    source = write(tmp_path / "film.avi", [50] * 10)
    line = Timeline(
        *(np.array([value]) for value in (0.0, 1.0)), np.array([[0.3, 0.7]]), *(np.array([0.1]),) * 2
    )
    closed = []
    writer = SimpleNamespace(write=lambda _: None, release=lambda: closed.append(True))
    monkeypatch.setattr("pipelines.video.pictures._writer", lambda *_: writer)
    monkeypatch.setattr("pipelines.video.pictures._labelled", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_annotated(source.path, tmp_path / "a.mp4", line, NAMES, refer_above=None, longest_side=640)
    assert closed == [True]


def test_what_is_no_video_is_named(tmp_path):
    (tmp_path / "text.mp4").write_bytes(b"no video")
    with pytest.raises(UnreadableSourceError, match=r"text\.mp4: no frame can be decoded"):
        list(predictor(tmp_path / "out")(Source(tmp_path / "text.mp4", "text")))
    assert list((tmp_path / "out").iterdir()) == []
