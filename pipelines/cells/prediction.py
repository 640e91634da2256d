"""What `cells predict` writes of sequences: a line for each, a table of all events, and marked frames.

The rows of the table are part of a sequence's line, so that sequences are predicted each for itself, here or
on the workers of a cluster, and the table of all is written at the end.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

import cv2
import numpy as np
import tensorflow as tf
import tifffile

from data_prep.cells.candidates import SurveyedSequence, survey_sequence
from data_prep.cells.sequences import CellSequence, find_sequences, read_sequence
from data_prep.cells.settings import CandidateSettings
from data_prep.cells.views import EXTRACTOR, VIEWS, DescribedCandidate, candidates_of, grey_levels
from data_prep.errors import InputError, Skipped
from data_prep.files.atomic import atomic_file
from data_prep.files.tables import write_table
from pipelines.bundles.line_rules import LineRules
from pipelines.bundles.metadata import FAMILIARITY, Metadata
from pipelines.bundles.prediction import UNCERTAINTIES
from pipelines.bundles.prediction_lines import (
    COST_COLUMNS,
    FAMILIARITY_COLUMNS,
    PredictionLine,
    cost_fields,
    familiarity_fields,
    is_referred,
    printable,
    probability_column,
)
from pipelines.bundles.preprocessing import load_preprocessing
from pipelines.bundles.runtimes import Signature
from pipelines.bundles.sources import Source, fitting_stem
from pipelines.bundles.step import FinishedPrediction, PredictStep
from pipelines.bundles.unreadable import reading
from pipelines.cells.events import FoundEvent, distinct_events, event_label
from pipelines.cells.settings import APPLICATION, PredictSettings
from pipelines.command.console import say
from pipelines.scores.pictures import CLASS_COLOURS, REFERRED_COLOUR, Picture, write_label

EVENTS = "events.csv"


@dataclass(frozen=True)
class CellsPrediction(PredictionLine):
    """A line of `predictions.csv`.

    Attributes:
        sequence: Its name in `events.csv`.
        frames: Of the sequence.
        candidates: Predicted.
        events: Found among them.
        referred_events: Of these, which a person should look at.
        rows: Of `events.csv`, by the names of its columns.
    """

    own_columns = ("sequence", "frames", "candidates", "events", "referred_events")
    familiarity_columns = ()  # events have them, in their own table

    sequence: str | None = None
    frames: int | None = None
    candidates: int | None = None
    events: int | None = None
    referred_events: int | None = None
    rows: Sequence[Mapping[str, Any]] = ()

    def ruled(self, rules: LineRules) -> Self:
        """Return this line with what is referred and decided of its events; as it is if it has none."""
        if not self.events:
            return self
        rows = [_ruled_event(row, rules) for row in self.rows]
        referred = sum(bool(row["referred"]) for row in rows)
        return replace(self, rows=rows, referred_events=referred, referred=referred > 0)


def _ruled_event(row: Mapping[str, Any], rules: LineRules) -> dict[str, Any]:
    """Return the row of an event, referred where it is unfamiliar, with its decision by costs."""
    referred = bool(row["referred"] or (row.get("unfamiliar") and not rules.keep_unfamiliar))
    if rules.costs is None:
        return {**row, "referred": referred}
    probability = [row[probability_column(name)] for name in rules.costs.classes]
    fields = cost_fields(rules.costs, probability, referred=referred)
    if rules.is_guaranteed and fields["decision"] != row["kind"]:
        fields = cost_fields(rules.costs, probability, referred=True)
    return {**row, **fields}


def sequence_sources(inputs: Sequence[Path]) -> tuple[list[Source], list[Skipped]]:
    """Return the sequences of files and folders, each under a name of its own.

    That is the name which `prepare` gives it, where that is free.

    Args:
        inputs: Videos, TIFF files, and folders as `find_sequences` takes them.

    Returns:
        The sequences, and what cannot be used.

    Raises:
        InputError: A path does not exist, or none has a sequence.
    """
    left_out: list[Skipped] = []
    found: list[Source] = []
    taken: set[str] = set()
    for path in inputs:
        try:
            sequences, skipped = find_sequences(path)
        except InputError as error:
            if not path.exists():
                raise
            left_out.append(Skipped(path, str(error)))
            continue
        left_out += skipped
        for sequence in sequences:
            name, number = sequence.name, 2
            while (stem := fitting_stem(name.replace("/", "_"))) in taken:
                name, number = f"{sequence.name}_{number}", number + 1
            taken.add(stem)
            found.append(Source(sequence.path, stem, name, sequence.frames))
    if not found:
        raise InputError("\n".join(entry.reason for entry in left_out))
    return found, left_out


@dataclass(frozen=True)
class CellsPredictor:
    """Predicts sequences with a bundle; a few frames and candidates are in memory, whatever the length.

    Attributes:
        signature: `serving_default` of the bundle.
        class_names: In the order of the labels; the first one is that of no event.
        candidates: How candidates are found and described.
        settings: Of the step.
        out: Output folder.
        least_familiarity: The least familiarity of which the bundle is capable; None if it says none.
        left_out: Frames that cannot be used; filled while predicting.
    """

    signature: Signature
    class_names: tuple[str, ...]
    candidates: CandidateSettings
    settings: PredictSettings
    out: Path
    least_familiarity: float | None = None
    left_out: list[Skipped] = field(default_factory=list)

    def __call__(self, source: Source) -> Iterator[CellsPrediction]:
        """The line of a sequence, after its marked frames are written.

        Raises:
            UnreadableSourceError: The sequence cannot be read.
            InputError: A file cannot be written.
        """
        started = time.perf_counter()
        with reading():
            sequence = CellSequence(source.name, source.path, source.files)
            surveyed = survey_sequence(sequence, self.candidates)
            events = self._events(surveyed)
        seconds = time.perf_counter() - started
        self.left_out.extend(surveyed.complaints)
        if self.settings.annotate:
            with atomic_file(self.out / "marked" / f"{source.stem}.tif") as temporary:
                temporary.parent.mkdir(exist_ok=True)
                write_marked(
                    surveyed,
                    temporary,
                    events,
                    self.class_names,
                    radius=self.candidates.patch // 2,
                    refer_above=self.settings.refer_above,
                )
        referred = sum(self._is_referred(event) for event in events)
        yield CellsPrediction(
            file=printable(str(source.path)),
            sequence=source.name,
            frames=surveyed.num_frames,
            candidates=len(surveyed.candidates),
            events=len(events),
            referred_events=referred,
            referred=referred > 0,
            seconds=seconds,
            rows=[self._row(source.name, event) for event in events] or [{"sequence": source.name}],
        )

    def _events(self, surveyed: SurveyedSequence) -> list[FoundEvent]:
        described = candidates_of(surveyed, self.candidates)
        events: list[FoundEvent] = []
        while batch := list(islice(described, self.settings.candidates_at_once)):
            predicted = self._predicted(batch)
            events += [event for event in predicted if event.event_probability > self.settings.threshold]
        return distinct_events(events, self.settings.radius, self.settings.window)

    def _predicted(self, batch: Sequence[DescribedCandidate]) -> Iterator[FoundEvent]:
        """Each candidate as the event that it may be."""
        inputs = {name: tf.constant(np.stack([one.views[name] for one in batch])) for name in VIEWS}
        outputs = {name: value.numpy() for name, value in self.signature(**inputs).items()}
        for row, one in enumerate(batch):
            probability = outputs["probability"][row]
            yield FoundEvent(
                candidate=one.candidate,
                label=event_label(probability),
                probability=probability,
                predictive_entropy=float(outputs["predictive_entropy"][row]),
                mutual_information=float(outputs["mutual_information"][row]),
                familiarity=float(outputs[FAMILIARITY][row]) if FAMILIARITY in outputs else None,
            )

    def _is_referred(self, event: FoundEvent) -> bool:
        return is_referred(event.predictive_entropy, self.settings.refer_above)

    def _row(self, sequence: str, event: FoundEvent) -> dict[str, Any]:
        """Return the row of `events.csv` of an event, with the columns that `prepare` reads."""
        place = event.candidate
        least = self.least_familiarity
        return {
            "sequence": sequence,
            "frame": place.frame + self.settings.first_frame,
            "x": round(place.column, 1),
            "y": round(place.row, 1),
            "kind": self.class_names[event.label],
            "probability": event.event_probability,
            "predictive_entropy": event.predictive_entropy,
            "mutual_information": event.mutual_information,
            "referred": self._is_referred(event),
            **({} if least is None else familiarity_fields(event.familiarity, least)),
            **dict(zip(map(probability_column, self.class_names), event.probability.tolist(), strict=True)),
        }


def write_events(
    lines: Sequence[CellsPrediction],
    out: Path,
    class_names: Sequence[str],
    *,
    familiarity: bool,
    costs: bool = False,
) -> None:
    """Write `events.csv`, the events of all sequences, which `prepare` reads.

    A sequence without events has a row with its name and nothing else, as `prepare` wants it. Without a
    sequence that could be predicted nothing is written.

    Args:
        lines: Of the sequences, in the order of the table.
        out: Output folder.
        class_names: In the order of the labels; the first one is that of no event.
        familiarity: Whether the bundle says how familiar an input is.
        costs: Whether decisions are made by costs.

    Raises:
        InputError: The table cannot be written.
    """
    rows = [row for line in lines for row in line.rows]
    if not rows:
        return
    header = ["sequence", "frame", "x", "y", "kind", "probability", *UNCERTAINTIES, "referred"]
    header += COST_COLUMNS if costs else ()
    header += FAMILIARITY_COLUMNS if familiarity else ()
    header += map(probability_column, class_names)
    write_table(out / EVENTS, header, ([row.get(name) for name in header] for row in rows))


def make_predictor(
    signature: Signature, metadata: Metadata, bundle: Path, settings: PredictSettings, out: Path
) -> CellsPredictor:
    """Return what predicts with an opened bundle, here or on a worker of a cluster.

    Raises:
        InputError: The bundle does not say how candidates are found and described, or with features of
            another version.
    """
    _, candidates = load_preprocessing(bundle, CandidateSettings, extractor=EXTRACTOR)
    return CellsPredictor(
        signature=signature,
        class_names=metadata.class_names,
        candidates=candidates,
        settings=settings,
        out=out,
        least_familiarity=metadata.least_familiarity,
    )


def _finish(done: FinishedPrediction[CellsPredictor, CellsPrediction]) -> None:
    """Say how many events were found."""
    found = sum(line.events or 0 for line in done.lines)
    referred = sum(line.referred_events or 0 for line in done.lines)
    say(
        done.console,
        f"{found} events found, {referred} of them referred to a person, listed in {done.out / EVENTS}",
    )
    if unfamiliar := sum(bool(row.get("unfamiliar")) for line in done.lines for row in line.rows):
        say(
            done.console,
            f"Warning: {unfamiliar} of {found} events are unfamiliar, unlike what the training held out: the "
            f"model knows little of them; the column unfamiliar of {EVENTS} names each.",
        )


CELLS_PREDICTION = PredictStep(
    application=APPLICATION,
    judged="candidates",
    line_class=lambda _: CellsPrediction,
    make=make_predictor,
    find=lambda inputs, _out, _console: sequence_sources(inputs),
    left_out=lambda predictor: predictor.left_out,
    write_more=lambda lines, out, metadata, rules: write_events(
        lines,
        out,
        metadata.class_names,
        familiarity=metadata.least_familiarity is not None,
        costs=rules.costs is not None,
    ),
    finish=_finish,
)


_SHOWN_FRAMES = 2  # before and after its own in which an event is circled
_BIG = 2**31  # bytes from which a TIFF file needs larger numbers inside
_LEGIBLE = 3  # thickness that makes letters legible


def write_marked(
    surveyed: SurveyedSequence,
    out: Path,
    events: Sequence[FoundEvent],
    class_names: Sequence[str],
    *,
    radius: int,
    refer_above: float | None,
) -> None:
    """Write a sequence as pages of a TIFF file with its events circled; one frame is in memory.

    Frames that cannot be read are black, so that pages keep their numbers.

    Args:
        surveyed: The sequence.
        out: File to write.
        events: Events of the sequence.
        class_names: Names of the classes in the order of the labels.
        radius: Radius of the circles, pixels.
        refer_above: Entropy above which a circle is red.
    """
    size = surveyed.num_frames * surveyed.size[0] * surveyed.size[1] * 3
    with tifffile.TiffWriter(out, bigtiff=size > _BIG) as file:
        for number, levels in read_sequence(surveyed.sequence):
            if isinstance(levels, Skipped) or not surveyed.fits(levels):
                picture = np.zeros((*surveyed.size, 3), np.uint8)
            else:
                grey = grey_levels(levels, surveyed.level_range)
                picture = np.repeat(grey[:, :, None], 3, axis=2)
            near = [event for event in events if abs(event.candidate.frame - number) <= _SHOWN_FRAMES]
            for event in near:
                _mark(picture, event, number, class_names, radius, refer_above)
            file.write(picture, photometric="rgb", compression="zlib", contiguous=False, metadata=None)


def _mark(
    picture: Picture,
    event: FoundEvent,
    number: int,
    class_names: Sequence[str],
    radius: int,
    refer_above: float | None,
) -> None:
    """Circle an event, and write its kind in its own frame."""
    referred = is_referred(event.predictive_entropy, refer_above)
    colour = REFERRED_COLOUR if referred else CLASS_COLOURS[(event.label - 1) % len(CLASS_COLOURS)]
    middle = round(event.candidate.column), round(event.candidate.row)
    own = event.candidate.frame == number
    cv2.circle(picture, middle, radius, colour, 2 if own else 1, cv2.LINE_AA)
    if own:
        text = f"{class_names[event.label]} {event.probability[event.label]:.2f}"
        write_label(picture, text, (middle[0] - radius, middle[1] - radius), colour, thickness=_LEGIBLE)
