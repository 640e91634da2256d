"""Reading all files of labelled examples once before the first example is made of them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from data_prep.errors import Skipped
from data_prep.files.class_folders import lost_classes
from data_prep.prepared.preparing import Progress, require_good, run_in_rounds, with_complaints
from data_prep.prepared.workers import Workers


class LabelledSource(Protocol):
    """A file whose class may be known before it is read."""

    @property
    def class_name(self) -> str | None:
        """Class of the whole file; None where what is in the file has classes of its own."""


class Surveyed(Protocol):
    """What must be known of a file before the first example is made."""

    @property
    def source(self) -> LabelledSource:
        """The file."""

    @property
    def complaints(self) -> Sequence[Skipped]:
        """What in the file cannot be used."""


Source = TypeVar("Source", bound=LabelledSource)
SurveyedKind = TypeVar("SurveyedKind", bound=Surveyed)


def survey_images(
    images: Path,
    sources: Sequence[Source],
    survey: Callable[..., SurveyedKind | Skipped],
    arguments: tuple[Any, ...],
    unmatched: Sequence[Skipped],
    *,
    jobs: Workers,
    progress: Progress | None,
    file_of: Callable[[Source], Path],
) -> tuple[list[SurveyedKind], list[Skipped]]:
    """Read all images once, in worker processes.

    Args:
        images: Folder of the images, for messages.
        sources: The files.
        survey: Function that is called with a file and `arguments`; it returns what is known of the file, or
            why it cannot be used.
        arguments: Arguments that are the same for all files.
        unmatched: What was found to be of no use before the files were read.
        jobs: Number of processes, or a cluster.
        progress: Function that is called after each file.
        file_of: Returns the path of a file.

    Returns:
        What is known of the files that can be read; and all that cannot be used: files, what is in them,
        `unmatched`, and classes none of whose files can be read.

    Raises:
        InputError: No file can be read.
    """
    results = run_in_rounds(
        "Reading images", survey, sources, arguments, jobs=jobs, progress=progress, file_of=file_of
    )
    skipped: list[Skipped] = []
    surveyed = with_complaints((result for _, result in results), skipped)
    skipped += unmatched  # last: there may be many without an annotation, and only the first are shown
    require_good(surveyed, "image", images, skipped)
    kept = {one.source.class_name for one in surveyed}
    lost = {s.class_name for s in sources if s.class_name is not None and s.class_name not in kept}
    return surveyed, [*skipped, *lost_classes(lost, images, "image")]
