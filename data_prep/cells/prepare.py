"""Prepare cell events: frame sequences with annotations become described candidates and a manifest."""

from collections.abc import Sequence
from pathlib import Path

from data_prep.cells.manifest import CellsManifest
from data_prep.cells.plan import CellPiece, plan_cells
from data_prep.cells.settings import CellsPrepareSettings
from data_prep.cells.views import EXTRACTOR, VIEWS, candidates_of, corner
from data_prep.errors import InputError, Skipped
from data_prep.labelled.examples import ExampleFacts, PreparedExample
from data_prep.labelled.preparing import PrepareResult, prepare_labelled
from data_prep.prepared.manifest import check_destination
from data_prep.prepared.preparing import Progress
from data_prep.prepared.workers import Workers


def prepare_cells(
    sequences: Path,
    annotations: Path,
    out: Path,
    settings: CellsPrepareSettings | None = None,
    *,
    jobs: Workers = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PrepareResult[CellsManifest]:
    """Turn frame sequences with annotated events into a prepared folder of labelled candidates.

    The folder has TFRecord shards of patches (previous frame, current frame and their difference side by
    side), `features.npz` with eight views of each candidate, `manifest.json` and `skipped.csv`;
    `data_prep.labelled.dataset` and `data_prep.labelled.views` read it. The result does not depend on `jobs`.
    What cannot be used is left out and reported; the rest is prepared. Each sequence is read twice, to find
    its candidates and to describe them, a few frames in memory at a time.

    Args:
        sequences: A video, a TIFF file of several pages, a folder of frames, or a folder of these.
        annotations: CSV file with the columns frame, x, y, kind, and sequence where there are several.
        out: Folder to write; it appears when complete.
        settings: Settings of candidates, matching, groups and splits.
        jobs: Number of processes, or a cluster.
        overwrite: Whether to replace `out`, if it was written by an earlier run.
        progress: Function that is called after each sequence, then after each piece of one.

    Returns:
        The manifest and what was left out; events without a candidate are among it.

    Raises:
        InputError: No sequence can be used, no event has a candidate, the splits cannot be made, or `out`
            exists or cannot be written.

    Example:
        >>> result = prepare_cells(Path("wells"), Path("events.csv"), Path("out"))  # doctest: +SKIP
        >>> result.manifest.class_names, sum(result.manifest.views.values())  # doctest: +SKIP
        (('none', 'apoptosis', 'mitosis'), 540)
    """
    settings = settings or CellsPrepareSettings()
    check_destination(out, (sequences, annotations), overwrite=overwrite)
    plan = plan_cells(sequences, annotations, settings, jobs=jobs, progress=progress)
    return prepare_labelled(
        plan.labelled,
        settings,
        out,
        stage="Describing candidates",
        what="candidate",
        origin=sequences,
        prepare_source=prepare_source,
        make_manifest=lambda fields: CellsManifest(
            size=(settings.patch, 3 * settings.patch),
            views=VIEWS,
            extractor=EXTRACTOR,
            sequences=plan.sequences,
            **fields,
        ),
        file_of=lambda piece: piece.surveyed.sequence.path,
        jobs=jobs,
        overwrite=overwrite,
        progress=progress,
    )


def prepare_source(
    piece: CellPiece, settings: CellsPrepareSettings, class_names: Sequence[str]
) -> list[PreparedExample] | Skipped:
    """Describe the candidates of some frames, or say why they cannot be read.

    Args:
        piece: Candidates of some consecutive frames.
        settings: Settings of `prepare`.
        class_names: Names of the classes, in the order of the labels.

    Returns:
        The examples in the order of the candidates, or why the frames cannot be read.
    """
    surveyed = piece.surveyed
    try:
        described = list(candidates_of(surveyed, settings))
    except InputError as error:
        return Skipped(surveyed.sequence.path, str(error))
    if len(described) != len(piece.names):
        return Skipped(
            surveyed.sequence.path,
            f"{surveyed.sequence.path}: changed while it was read: {len(described)} candidates instead of "
            f"{len(piece.names)} from frame {surveyed.candidates[0].frame} on. Run `prepare` again.",
        )
    examples = []
    for one, name, kind in zip(described, piece.names, piece.kinds, strict=True):
        row, column = corner(one.candidate, settings.patch)
        facts = ExampleFacts(
            name=name,
            source=surveyed.sequence.name,
            label=class_names.index(kind),
            height=settings.patch,
            width=settings.patch,
            others={
                "source": surveyed.sequence.name,
                "row": row,
                "column": column,
                "frame": one.candidate.frame + settings.first_frame,
                "x": one.candidate.column,
                "y": one.candidate.row,
                "area": one.candidate.area,
            },
        )
        examples.append(PreparedExample(facts, one.image, one.views))
    return examples
