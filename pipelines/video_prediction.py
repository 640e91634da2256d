"""What `video predict` writes: tables of windows and segments, a plot and an annotated video for each."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import tensorflow as tf

from data_prep.atomic import atomic_file
from data_prep.errors import InputError
from data_prep.video_clips import VideoClip, video_windows
from data_prep.video_settings import ClipSettings
from pipelines.bundle import Signature
from pipelines.pooled_application import mean_outputs
from pipelines.prediction import (
    ClassPredictionLine,
    Source,
    UnreadableSourceError,
    cell_text,
    printable,
    probability_column,
)
from pipelines.video_pictures import timeline_plot, write_annotated
from pipelines.video_settings import PredictSettings
from pipelines.video_timeline import Timeline, Values, segments

_UNCERTAINTIES = ("predictive_entropy", "mutual_information")


@dataclass(frozen=True)
class VideoPrediction(ClassPredictionLine):
    """A line of ``predictions.csv``.

    Attributes:
        duration: Of the video, seconds.
        windows: Predicted.
        segments: Stretches of equal label.
    """

    duration: float | None = None
    windows: int | None = None
    segments: int | None = None


def columns(class_names: Sequence[str]) -> tuple[str, ...]:
    """Columns of ``predictions.csv``."""
    return (
        *("file", "duration", "windows", "segments", "label", *_UNCERTAINTIES),
        *("referred", "seconds", "status"),
        *map(probability_column, class_names),
    )


class VideoPredictor:
    """Predicts videos with a bundle; a few clips are in memory, whatever the length.

    Args:
        signature: ``serving_default`` of the bundle.
        clips: How clips are cut.
        class_names: In the order of the labels.
        settings: Of the step.
        out: Output folder.
    """

    def __init__(
        self,
        *,
        signature: Signature,
        clips: ClipSettings,
        class_names: tuple[str, ...],
        settings: PredictSettings,
        out: Path,
    ) -> None:
        self._signature, self._clips, self._names = signature, clips, class_names
        self._settings, self._out = settings, out
        self._film_seconds = self._decoding_seconds = self._network_seconds = 0.0

    def __call__(self, source: Source) -> Iterator[VideoPrediction]:
        """The line of a video, after its own files are written.

        Raises:
            UnreadableSourceError: The file cannot be read.
            InputError: A file cannot be written.
        """
        before = self._network_seconds
        try:
            timeline = self._timeline(source.path)
        except InputError as error:
            raise UnreadableSourceError(str(error)) from error
        except tf.errors.ResourceExhaustedError as error:
            raise UnreadableSourceError(
                f"{source.path}: clips need more memory than there is. Pass --set clips_at_once=1, or end "
                "other programs."
            ) from error
        seconds = self._network_seconds - before
        parts = segments(timeline)
        self._write_windows(source, timeline)
        self._write_segments(source, timeline)
        self._write_pictures(source, timeline)
        of_video = mean_outputs(timeline.probability, timeline.information)
        entropy = float(of_video["predictive_entropy"])
        yield VideoPrediction(
            file=printable(str(source.path)),
            duration=float(timeline.end[-1]),
            windows=len(timeline.start),
            segments=len(parts),
            label=self._names[int(of_video["label"])],
            predictive_entropy=entropy,
            mutual_information=float(of_video["mutual_information"]),
            probability=dict(zip(self._names, of_video["probability"].tolist(), strict=True)),
            referred=self._is_referred(entropy),
            seconds=seconds,
        )

    def speed(self) -> str:
        """How long decoding and the network took for all videos so far."""
        return (
            f"{self._film_seconds:.0f} s of film: {self._decoding_seconds:.1f} s to decode, "
            f"{self._network_seconds:.1f} s in the network"
        )

    def _timeline(self, path: Path) -> Timeline:
        step = self._settings.step or max(1, self._clips.frames // 2)
        windows = video_windows(path, self._clips, step=step)
        rows: list[tuple[float, float]] = []
        outputs: dict[str, list[Values]] = {}
        while batch := self._decoded(windows):
            rows += [(clip.start_seconds, clip.end_seconds) for clip in batch]
            for name, value in self._predicted(batch).items():
                outputs.setdefault(name, []).append(value)
        start, end = np.array(rows).T
        self._film_seconds += float(end[-1])
        values = {name: np.concatenate(parts) for name, parts in outputs.items()}
        return Timeline(
            start, end, values["probability"], values["predictive_entropy"], values["mutual_information"]
        )

    def _decoded(self, windows: Iterator[VideoClip]) -> list[VideoClip]:
        started = time.perf_counter()
        batch = list(islice(windows, self._settings.clips_at_once))
        self._decoding_seconds += time.perf_counter() - started
        return batch

    def _predicted(self, batch: Sequence[VideoClip]) -> dict[str, Values]:
        started = time.perf_counter()
        outputs = self._signature(clips=tf.constant(np.stack([clip.frames for clip in batch])))
        kept = {name: outputs[name].numpy() for name in ("probability", *_UNCERTAINTIES)}
        self._network_seconds += time.perf_counter() - started
        return kept

    def _is_referred(self, entropy: float) -> bool:
        return self._settings.refer_above is not None and entropy > self._settings.refer_above

    def _write_windows(self, source: Source, timeline: Timeline) -> None:
        """``windows/<stem>.csv``: every window, with the probability of each class."""
        header = ["start_seconds", "end_seconds", "label", *_UNCERTAINTIES, "referred"]
        rows = (
            [
                *(float(timeline.start[i]), float(timeline.end[i]), self._names[timeline.labels[i]]),
                *(float(timeline.entropy[i]), float(timeline.information[i])),
                self._is_referred(float(timeline.entropy[i])),
                *timeline.probability[i].tolist(),
            ]
            for i in range(len(timeline.start))
        )
        path = self._out / "windows" / f"{source.stem}.csv"
        _write_table(path, [*header, *map(probability_column, self._names)], rows)

    def _write_segments(self, source: Source, timeline: Timeline) -> None:
        """``segments/<stem>.csv``: neighbouring windows of one label."""
        header = ["label", "start_seconds", "end_seconds", "windows", "probability", *_UNCERTAINTIES]
        rows = (
            [
                *(self._names[part.label], part.start, part.end, part.windows, part.probability),
                *(part.entropy, part.information, self._is_referred(part.entropy)),
            ]
            for part in segments(timeline)
        )
        _write_table(self._out / "segments" / f"{source.stem}.csv", [*header, "referred"], rows)

    def _write_pictures(self, source: Source, timeline: Timeline) -> None:
        """``plots/<stem>.png`` and ``annotated/<stem>.mp4``."""
        refer_above = self._settings.refer_above
        with atomic_file(self._out / "plots" / f"{source.stem}.png") as temporary:
            temporary.parent.mkdir(exist_ok=True)
            temporary.write_bytes(timeline_plot(timeline, self._names, refer_above=refer_above))
        if self._settings.annotate:
            with atomic_file(self._out / "annotated" / f"{source.stem}.mp4") as temporary:
                temporary.parent.mkdir(exist_ok=True)
                write_annotated(
                    source.path,
                    temporary,
                    timeline,
                    self._names,
                    refer_above=refer_above,
                    longest_side=self._settings.annotated_side,
                )


def _write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with atomic_file(path) as temporary:
        temporary.parent.mkdir(exist_ok=True)
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows([cell_text(value) for value in row] for row in rows)
