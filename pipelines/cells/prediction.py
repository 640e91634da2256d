"""What `cells predict` writes of sequences: a line for each, a table of all events, and marked frames."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np
import tensorflow as tf

from data_prep.cells.candidates import SurveyedSequence, survey_sequence
from data_prep.cells.sequences import CellSequence, find_sequences
from data_prep.cells.settings import CandidateSettings
from data_prep.cells.views import VIEWS, DescribedCandidate, candidates_of
from data_prep.errors import InputError, Skipped
from data_prep.files.atomic import atomic_file
from data_prep.files.tables import write_table
from pipelines.bundles.metadata import FAMILIARITY
from pipelines.bundles.prediction import (
    FAMILIARITY_COLUMNS,
    UNCERTAINTIES,
    PredictionLine,
    familiarity_fields,
    is_referred,
    printable,
    probability_column,
    reading,
)
from pipelines.bundles.saved_model import Signature
from pipelines.bundles.sources import Source
from pipelines.cells.events import FoundEvent, distinct_events, event_label
from pipelines.cells.pictures import write_marked
from pipelines.cells.settings import PredictSettings

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
    """

    own_columns = ("sequence", "frames", "candidates", "events", "referred_events")
    familiarity_columns = ()  # events have them, in their own table

    sequence: str | None = None
    frames: int | None = None
    candidates: int | None = None
    events: int | None = None
    referred_events: int | None = None


def sequence_sources(inputs: Sequence[Path]) -> tuple[dict[Source, CellSequence], list[Skipped]]:
    """The sequences of files and folders, each under a name of its own: that of `prepare` where it is free.

    Returns:
        the sequences, and what cannot be used.

    Raises:
        InputError: A path does not exist, or none has a sequence.
    """
    left_out: list[Skipped] = []
    found: dict[Source, CellSequence] = {}
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
            while name.replace("/", "_") in taken:
                name, number = f"{sequence.name}_{number}", number + 1
            stem = name.replace("/", "_")
            taken.add(stem)
            found[Source(sequence.path, stem)] = replace(sequence, name=name)
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
        sequences: To predict.
        settings: Of the step.
        out: Output folder.
        least_familiarity: The least familiarity of which the bundle is capable; None if it says none.
        found: Events of the sequences that are done, by the name of each; filled while predicting.
        left_out: Frames that cannot be used; filled while predicting.
    """

    signature: Signature
    class_names: tuple[str, ...]
    candidates: CandidateSettings
    sequences: Mapping[Source, CellSequence]
    settings: PredictSettings
    out: Path
    least_familiarity: float | None = None
    found: dict[str, list[FoundEvent]] = field(default_factory=dict)
    left_out: list[Skipped] = field(default_factory=list)

    def __call__(self, source: Source) -> Iterator[CellsPrediction]:
        """The line of a sequence, after its events and pictures are written.

        Raises:
            UnreadableSourceError: The sequence cannot be read.
            InputError: A file cannot be written.
        """
        started = time.perf_counter()
        with reading():
            surveyed = survey_sequence(self.sequences[source], self.candidates)
            events = self._events(surveyed)
        seconds = time.perf_counter() - started
        self.left_out.extend(surveyed.complaints)
        self.found[surveyed.sequence.name] = events
        self._write_events()
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
            sequence=surveyed.sequence.name,
            frames=surveyed.num_frames,
            candidates=len(surveyed.candidates),
            events=len(events),
            referred_events=referred,
            referred=referred > 0,
            seconds=seconds,
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

    def _write_events(self) -> None:
        """`events.csv`: the events of all sequences so far, with the columns that `prepare` reads.

        A sequence without events has a row with its name and nothing else, as `prepare` wants it.
        """
        header = ["sequence", "frame", "x", "y", "kind", "probability", *UNCERTAINTIES, "referred"]
        header += FAMILIARITY_COLUMNS if self.least_familiarity is not None else ()
        header += map(probability_column, self.class_names)
        rows: list[list[object]] = []
        for name, events in self.found.items():
            if not events:
                rows.append([name, *[None] * (len(header) - 1)])
            for event in events:
                place = event.candidate
                row = [name, place.frame + self.settings.first_frame, round(place.column, 1)]
                row += [round(place.row, 1), self.class_names[event.label], event.event_probability]
                row += [event.predictive_entropy, event.mutual_information, self._is_referred(event)]
                if self.least_familiarity is not None:
                    row += familiarity_fields(event.familiarity, self.least_familiarity).values()
                rows.append([*row, *event.probability.tolist()])
        write_table(self.out / EVENTS, header, rows)
