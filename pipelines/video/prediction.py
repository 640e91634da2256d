"""What `video predict` writes: tables of windows and segments, a plot and an annotated video for each."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import tensorflow as tf

from data_prep.files.atomic import atomic_file
from data_prep.files.tables import write_table
from data_prep.files.videos import VIDEO_SUFFIXES
from data_prep.video.clips import VideoClip, video_windows
from data_prep.video.settings import ClipSettings
from gpmodels.familiarity.flags import POOLED_FACTOR
from pipelines.bundles.metadata import FAMILIARITY, Metadata
from pipelines.bundles.pooled_outputs import mean_outputs
from pipelines.bundles.prediction import UNCERTAINTIES, bundle_preprocessing
from pipelines.bundles.prediction_lines import (
    ClassPredictionLine,
    class_fields,
    is_referred,
    printable,
    probability_column,
)
from pipelines.bundles.runtimes import Signature
from pipelines.bundles.sources import Source
from pipelines.bundles.step import FinishedPrediction, PredictStep, files_with
from pipelines.bundles.unreadable import UnreadableSourceError, reading
from pipelines.command.console import say
from pipelines.video.pictures import timeline_plot, write_annotated
from pipelines.video.settings import APPLICATION, PredictSettings
from pipelines.video.timeline import Segment, Timeline, Values, segments


@dataclass(frozen=True)
class VideoPrediction(ClassPredictionLine):
    """A line of `predictions.csv`.

    Attributes:
        duration: Of the video, seconds.
        windows: Predicted.
        segments: Stretches of equal label.
    """

    own_columns = ("duration", "windows", "segments", "label", *UNCERTAINTIES)
    familiarity_factor = POOLED_FACTOR

    duration: float | None = None
    windows: int | None = None
    segments: int | None = None


@dataclass
class VideoPredictor:
    """Predicts videos with a bundle; a few clips are in memory, whatever the length.

    Attributes:
        signature: `serving_default` of the bundle.
        clips: How clips are cut.
        class_names: In the order of the labels.
        settings: Of the step.
        out: Output folder.
        pool_temperature: Temperature of videos, after the mean over their clips.
    """

    signature: Signature
    clips: ClipSettings
    class_names: tuple[str, ...]
    settings: PredictSettings
    out: Path
    pool_temperature: float = 1.0

    _film_seconds = _decoding_seconds = _network_seconds = 0.0

    def __call__(self, source: Source) -> Iterator[VideoPrediction]:
        """The line of a video, after its own files are written.

        Raises:
            UnreadableSourceError: The file cannot be read.
            InputError: A file cannot be written.
        """
        before = self._network_seconds
        try:
            with reading():
                timeline = self._timeline(source.path)
        except tf.errors.ResourceExhaustedError as error:
            raise UnreadableSourceError(
                f"{source.path}: clips need more memory than there is. Pass --set clips_at_once=1, or end "
                "other programs."
            ) from error
        seconds = self._network_seconds - before
        parts = segments(timeline)
        if self.settings.annotate:  # first: where the video cannot be read again, nothing of it stays
            self._write_annotated(source, timeline)
        self._write_windows(source, timeline)
        self._write_segments(source, parts)
        self._write_plot(source, timeline)
        of_video = mean_outputs(
            timeline.probability,
            timeline.information,
            timeline.familiarity,
            temperature=self.pool_temperature,
        )
        yield VideoPrediction(
            file=printable(str(source.path)),
            duration=float(timeline.end[-1]),
            windows=len(timeline.start),
            segments=len(parts),
            **class_fields(of_video, self.class_names, self.settings.refer_above),
            seconds=seconds,
        )

    def speed(self) -> str:
        """How long decoding and the network took for all videos so far."""
        return (
            f"{self._film_seconds:.0f} s of film: {self._decoding_seconds:.1f} s to decode, "
            f"{self._network_seconds:.1f} s in the network"
        )

    def _timeline(self, path: Path) -> Timeline:
        step = self.settings.step or max(1, self.clips.frames // 2)
        windows = video_windows(path, self.clips, step=step)
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
            start,
            end,
            values["probability"],
            values["predictive_entropy"],
            values["mutual_information"],
            values.get(FAMILIARITY),
        )

    def _decoded(self, windows: Iterator[VideoClip]) -> list[VideoClip]:
        started = time.perf_counter()
        batch = list(islice(windows, self.settings.clips_at_once))
        self._decoding_seconds += time.perf_counter() - started
        return batch

    def _predicted(self, batch: Sequence[VideoClip]) -> dict[str, Values]:
        started = time.perf_counter()
        outputs = self.signature(clips=tf.constant(np.stack([clip.frames for clip in batch])))
        wanted = ("probability", *UNCERTAINTIES, FAMILIARITY)
        kept = {name: outputs[name].numpy() for name in wanted if name in outputs}
        self._network_seconds += time.perf_counter() - started
        return kept

    def _write_windows(self, source: Source, timeline: Timeline) -> None:
        """`windows/<stem>.csv`: every window, with the probability of each class."""
        refer_above = self.settings.refer_above
        familiar = () if timeline.familiarity is None else (FAMILIARITY,)
        header = ["start_seconds", "end_seconds", "label", *UNCERTAINTIES, "referred", *familiar]
        rows = (
            [
                *(float(timeline.start[i]), float(timeline.end[i]), self.class_names[timeline.labels[i]]),
                *(float(timeline.entropy[i]), float(timeline.information[i])),
                is_referred(float(timeline.entropy[i]), refer_above),
                *([] if timeline.familiarity is None else [float(timeline.familiarity[i])]),
                *timeline.probability[i].tolist(),
            ]
            for i in range(len(timeline.start))
        )
        path = self.out / "windows" / f"{source.stem}.csv"
        write_table(path, [*header, *map(probability_column, self.class_names)], rows)

    def _write_segments(self, source: Source, parts: Sequence[Segment]) -> None:
        """`segments/<stem>.csv`: neighbouring windows of one label."""
        refer_above = self.settings.refer_above
        header = ["label", "start_seconds", "end_seconds", "windows", "probability", *UNCERTAINTIES]
        rows = (
            [
                *(self.class_names[part.label], part.start, part.end, part.windows, part.probability),
                *(part.entropy, part.information, is_referred(part.entropy, refer_above)),
            ]
            for part in parts
        )
        write_table(self.out / "segments" / f"{source.stem}.csv", [*header, "referred"], rows)

    def _write_plot(self, source: Source, timeline: Timeline) -> None:
        """`plots/<stem>.png`."""
        with atomic_file(self.out / "plots" / f"{source.stem}.png") as temporary:
            temporary.parent.mkdir(exist_ok=True)
            plot = timeline_plot(timeline, self.class_names, refer_above=self.settings.refer_above)
            temporary.write_bytes(plot)

    def _write_annotated(self, source: Source, timeline: Timeline) -> None:
        """`annotated/<stem>.mp4`."""
        with atomic_file(self.out / "annotated" / f"{source.stem}.mp4") as temporary:
            temporary.parent.mkdir(parents=True, exist_ok=True)
            write_annotated(
                source.path,
                temporary,
                timeline,
                self.class_names,
                refer_above=self.settings.refer_above,
                longest_side=self.settings.annotated_side,
            )


def make_predictor(
    signature: Signature, metadata: Metadata, bundle: Path, settings: PredictSettings, out: Path
) -> VideoPredictor:
    """Return what predicts with an opened bundle, here or on a worker of a cluster.

    Raises:
        InputError: The bundle does not say how clips are cut.
    """
    return VideoPredictor(
        signature=signature,
        clips=bundle_preprocessing(metadata, bundle, ClipSettings),
        class_names=metadata.class_names,
        settings=settings,
        out=out,
        pool_temperature=metadata.pool_temperature or 1.0,
    )


def _finish(done: FinishedPrediction[VideoPredictor, VideoPrediction]) -> None:
    """Say how fast this process was."""
    if done.cluster is None:
        say(done.console, done.predictor.speed())


VIDEO_PREDICTION = PredictStep(
    application=APPLICATION,
    judged="videos",
    line_class=lambda _: VideoPrediction,
    make=make_predictor,
    find=files_with(VIDEO_SUFFIXES, "video"),
    finish=_finish,
)
