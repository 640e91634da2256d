"""Which candidates of which sequences to describe, their classes, and what belongs together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from data_prep.cells.annotations import CellEvent, Matching, events_of_sequences, match_events
from data_prep.cells.candidates import SurveyedSequence, survey_sequence
from data_prep.cells.manifest import SequenceFacts
from data_prep.cells.sequences import CellSequence, find_sequences
from data_prep.cells.settings import CellsPrepareSettings
from data_prep.errors import InputError, Skipped
from data_prep.files.entries import PLAIN_IMAGE_SUFFIXES
from data_prep.files.videos import VIDEO_SUFFIXES
from data_prep.labelled.preparing import LabelledPlan
from data_prep.prepared.preparing import Progress, require_good, run_in_rounds, with_complaints
from data_prep.prepared.workers import Workers
from data_prep.splits.divide import read_lists, read_name_list
from data_prep.splits.groups import joined_groups, settings_groups

_LARGEST_PIECE = 512  # candidates; their patches wait in memory until they are written


@dataclass(frozen=True)
class CellPiece:
    """Candidates of some consecutive frames, to be described by one process.

    Attributes:
        surveyed: The sequence, with these candidates alone.
        names: Names of the examples.
        kinds: Class of each example.
    """

    surveyed: SurveyedSequence
    names: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class CellsPlan:
    """What to describe, and what is known of each sequence before.

    Attributes:
        labelled: Pieces, classes and groups.
        sequences: Facts of the sequences in the order of their names.
    """

    labelled: LabelledPlan[CellPiece]
    sequences: tuple[SequenceFacts, ...]


def plan_cells(
    path: Path,
    annotations: Path,
    settings: CellsPrepareSettings,
    *,
    jobs: Workers,
    progress: Progress | None,
) -> CellsPlan:
    """Read all sequences once, find their candidates and match them with the annotations.

    Args:
        path: File or folder of the sequences; see `data_prep.cells.sequences.find_sequences`.
        annotations: CSV file; see `data_prep.cells.annotations.read_annotations`.
        settings: Settings of `prepare`.
        jobs: Number of processes, or a cluster.
        progress: Function that is called after each sequence.

    Raises:
        InputError: No sequence can be used, the annotations are not as expected, no event has a candidate, or
            the groups cannot be made.
    """
    sequences, skipped = find_sequences(path)
    names = [sequence.name for sequence in sequences]
    read = partial(
        read_name_list,
        folders=max(name.count("/") for name in names),
        suffixes=PLAIN_IMAGE_SUFFIXES | VIDEO_SUFFIXES,
    )
    train, test = read_lists(settings.train_list, settings.test_list, read)
    groups = joined_groups(names, settings_groups(names, settings))  # may fail: before the long part
    results = run_in_rounds(
        "Finding candidates",
        survey_file,
        sequences,
        (settings,),
        jobs=jobs,
        progress=progress,
        file_of=lambda sequence: sequence.path,
    )
    surveyed = with_complaints((result for _, result in results), skipped)
    require_good(surveyed, "sequence", path, skipped)
    events, complaints = events_of_sequences(annotations, settings, surveyed)
    skipped += complaints
    planned: list[CellPiece] = []
    facts: list[SequenceFacts] = []
    for one in surveyed:
        name = one.sequence.name
        if name not in events:
            skipped.append(_without_annotation(one, annotations))
            continue
        matching = match_events(one.candidates, events[name], settings)
        skipped += [_without_candidate(annotations, events[name][i], one) for i in matching.unmatched]
        skipped += [_without_kind(annotations, event, one) for event in events[name] if not event.kind]
        facts.append(_facts(one, events[name], matching))
        planned += _pieces(one, events[name], matching, settings)
    require_good(facts, "annotated sequence", path, skipped)
    labelled = LabelledPlan(
        sources=tuple(planned),
        class_names=_class_names(planned, annotations, settings),
        groups=groups,
        skipped=tuple(skipped),
        train=train,
        test=test,
        needed=(settings.none_name,),
    )
    return CellsPlan(labelled, tuple(facts))


def survey_file(sequence: CellSequence, settings: CellsPrepareSettings) -> SurveyedSequence | Skipped:
    """Read a sequence once, or say why it cannot be used."""
    try:
        return survey_sequence(sequence, settings)
    except InputError as error:
        return Skipped(sequence.path, str(error))


def _pieces(
    surveyed: SurveyedSequence,
    events: Sequence[CellEvent],
    matching: Matching,
    settings: CellsPrepareSettings,
) -> list[CellPiece]:
    """Return all candidates but those left out, as pieces of work."""
    kept = [i for i in range(len(surveyed.candidates)) if i not in matching.left_out]
    frames = [surveyed.candidates[i].frame for i in kept]
    kinds = {i: events[event].kind for i, event in matching.event_of.items()}
    # Numbered from the first of its frame on, so that a name is the same whatever is left out.
    first = {candidate.frame: i for i, candidate in reversed([*enumerate(surveyed.candidates)])}
    names = [
        f"{surveyed.sequence.name}/{frame:05d}_{i - first[frame]:04d}"
        for i, frame in zip(kept, frames, strict=True)
    ]
    return [
        CellPiece(
            replace(surveyed, candidates=tuple(surveyed.candidates[i] for i in kept[piece])),
            tuple(names[piece]),
            tuple(kinds.get(i, settings.none_name) for i in kept[piece]),
        )
        for piece in whole_frames(frames, _LARGEST_PIECE)
    ]


def whole_frames(frames: Sequence[int], largest: int) -> list[slice]:
    """Divide entries in the order of their frames, each frame in one piece.

    Args:
        frames: Frame of each entry.
        largest: Number of entries of a piece, where not one frame has more.

    Returns:
        The pieces, one after another, as slices of the entries.

    Example:
        >>> whole_frames([1, 1, 2, 3, 3, 3, 3], largest=3)
        [slice(0, 3, None), slice(3, 7, None)]
    """
    ends = [i for i in range(1, len(frames) + 1) if i == len(frames) or frames[i] != frames[i - 1]]
    found: list[slice] = []
    start = end = 0
    for following in ends:
        if following - start > largest and end > start:
            found.append(slice(start, end))
            start = end
        end = following
    return [*found, slice(start, end)] if end else found


def _class_names(
    planned: Iterable[CellPiece], annotations: Path, settings: CellsPrepareSettings
) -> tuple[str, ...]:
    """Return the names of the classes: that of no event, then the kinds in alphabetical order."""
    found = {kind for piece in planned for kind in piece.kinds}
    kinds = sorted(found - {settings.none_name})
    if not kinds or settings.none_name not in found:
        missing = "event has a candidate" if not kinds else "candidate is without an event"
        raise InputError(
            f"{annotations}: no {missing}. Expected both, to tell them apart. Check that frames count from "
            "first_frame, and that x and y are columns and rows in pixels; see the settings radius, window "
            "and threshold."
        )
    return (settings.none_name, *kinds)


def _facts(surveyed: SurveyedSequence, events: Sequence[CellEvent], matching: Matching) -> SequenceFacts:
    return SequenceFacts(
        name=surveyed.sequence.name,
        frames=surveyed.num_frames,
        height=surveyed.size[0],
        width=surveyed.size[1],
        candidates=len(surveyed.candidates),
        annotations=sum(bool(event.kind) for event in events),
        matched=len(matching.event_of),
        left_out=len(matching.left_out),
    )


def _without_annotation(surveyed: SurveyedSequence, annotations: Path) -> Skipped:
    name = surveyed.sequence.name
    return Skipped(
        surveyed.sequence.path,
        f"{surveyed.sequence.path}: {annotations} has no row of the sequence {name!r}. Add its events; if it "
        "shows none, a row with its name and nothing else.",
    )


def _without_candidate(annotations: Path, event: CellEvent, surveyed: SurveyedSequence) -> Skipped:
    return Skipped(
        annotations,
        f"{annotations}, line {event.line}: no candidate near the {event.kind} of {surveyed.sequence.name} "
        f"in frame {event.frame} (from 0) at x {event.x:g}, y {event.y:g}. No classifier can find it; lower "
        "values of threshold and smallest_area give more candidates.",
    )


def _without_kind(annotations: Path, event: CellEvent, surveyed: SurveyedSequence) -> Skipped:
    return Skipped(
        annotations,
        f"{annotations}, line {event.line}: no kind in frame {event.frame} (from 0) of "
        f"{surveyed.sequence.name} at x {event.x:g}, y {event.y:g}. The candidate there is left out.",
    )
