"""Predicting with a bundle alone: finding the files, and the loop that writes the table of predictions.

What is written of one file is the application's matter. A file that cannot be read is listed and left out
while the others go on; after an interruption the table lists what is complete.
"""

from __future__ import annotations

import csv
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeVar

import tensorflow as tf
from rich.console import Console

from data_prep.atomic import atomic_file
from data_prep.errors import InputError
from data_prep.images import IMAGE_SUFFIXES
from data_prep.pairing import Skipped
from data_prep.videos import VIDEO_SUFFIXES
from pipelines.bundle import Signature
from pipelines.overlays import Picture
from pipelines.path_checks import PREDICTIONS, require_no_predictions
from pipelines.predictors import Outputs

SKIPPED = "skipped.csv"

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class PredictionLine:
    """A line of ``predictions.csv``; an application adds fields of its own.

    Attributes:
        file: What was predicted.
        referred: Whether a person should look.
        seconds: For this line, without reading and writing.
        status: ``ok``, or what was wrong.
    """

    file: str
    referred: bool | None = None
    seconds: float | None = None
    status: str = "ok"

    def cells(self) -> dict[str, object]:
        """Values of the columns."""
        return asdict(self)


@dataclass(frozen=True)
class ClassPredictionLine(PredictionLine):
    """A line for what is given a class.

    Attributes:
        label: The most probable class.
        predictive_entropy: Nats.
        mutual_information: Nats.
        probability: Of every class, by name; its cells are ``probability of <class>``.
    """

    label: str | None = None
    predictive_entropy: float | None = None
    mutual_information: float | None = None
    probability: dict[str, float] = field(default_factory=dict)

    def cells(self) -> dict[str, object]:
        """One cell for each class besides the others."""
        cells = super().cells()
        del cells["probability"]
        return cells | {probability_column(name): value for name, value in self.probability.items()}


def probability_column(class_name: str) -> str:
    """Name of the column with the probability of a class."""
    return f"probability of {class_name}"


Line = TypeVar("Line", bound=PredictionLine)


@dataclass(frozen=True)
class Source:
    """A file to predict and the stem of its outputs."""

    path: Path
    stem: str

    @property
    def is_video(self) -> bool:
        """Whether it is read frame by frame."""
        return self.path.suffix.lower() in VIDEO_SUFFIXES


def find_sources(
    inputs: Sequence[Path],
    *,
    suffixes: Collection[str] = IMAGE_SUFFIXES | VIDEO_SUFFIXES,
    kind: str = "image or video",
) -> list[Source]:
    """Files given, and known files in folders given, in the order given and by name, each path once.

    Args:
        inputs: Files and folders.
        suffixes: Of the files that are taken from a folder, in lower case.
        kind: What these files are, for messages.

    Raises:
        InputError: A path does not exist, or nothing is there to predict.
    """
    paths: list[Path] = []
    for path in inputs:
        if path.is_dir():
            paths += sorted(file for file in path.iterdir() if _is_known_file(file, suffixes))
        elif path.exists():
            paths.append(path)
        else:
            raise InputError(f"{path} does not exist. Pass image files, video files, or a folder of them.")
    if not paths:
        raise InputError(
            f"No {kind} in {', '.join(map(str, inputs))}. Expected files ending in "
            f"{', '.join(sorted(suffixes))}."
        )
    return _unique_sources(list(dict.fromkeys(paths)))


def _is_known_file(path: Path, suffixes: Collection[str]) -> bool:
    return path.suffix.lower() in suffixes and not path.name.startswith(".") and path.is_file()


def _unique_sources(paths: Sequence[Path]) -> list[Source]:
    """Sources whose outputs cannot replace each other; a video's frames are its stem and a number."""
    stems = Counter(path.stem for path in paths)
    names = Counter(path.name for path in paths)
    chosen: dict[Path, Source] = {}
    taken: set[str] = set()
    videos: set[str] = set()
    # Videos choose first: then an image can keep clear of their frames.
    for path in sorted(paths, key=lambda path: path.suffix.lower() not in VIDEO_SUFFIXES):
        source = next(
            Source(path, stem)
            for stem in _possible_stems(path, stems, names)
            if stem not in taken and re.sub(r"_\d{6,}$", "", stem) not in videos
        )
        chosen[path] = source
        taken.add(source.stem)
        if source.is_video:
            videos.add(source.stem)
    return [chosen[path] for path in paths]


def _possible_stems(path: Path, stems: Counter[str], names: Counter[str]) -> Iterator[str]:
    """Names for a source's outputs, the shortest that tells it from the others first."""
    if stems[path.stem] == 1:
        yield path.stem
    if names[path.name] == 1:
        yield path.name
    yield f"{path.parent.name}_{path.name}"
    yield from (f"{path.name}_{number}" for number in count(2))


def predict_files(
    line_class: type[Line],
    columns: Sequence[str],
    predict: Callable[[Source], Iterable[Line]],
    sources: Sequence[Source],
    out: Path,
    *,
    on_done: Callable[[Line], None] = lambda _: None,
    left_out: Sequence[Skipped] = (),
) -> list[Line]:
    """Predict every source and write ``predictions.csv``.

    Args:
        line_class: The application's lines.
        columns: Names of the cells of a line in the order of the table.
        predict: Writes the files of a source and yields its lines; raises :class:`UnreadableSourceError` for
            what cannot be read or predicted.
        sources: What to predict.
        out: Output folder; created, must not hold predictions yet.
        on_done: Called after each line, for progress.
        left_out: What else ``skipped.csv`` lists, such as frames; ``predict`` may add to it.

    Returns:
        The lines.

    Raises:
        InputError: The folder holds predictions or cannot be written, or not one source could be read.
        KeyboardInterrupt: Ctrl-C. As after an error of writing, ``predictions.csv`` lists what is complete.
    """
    require_no_predictions(out)
    with atomic_file(out / PREDICTIONS) as temporary:
        out.mkdir(parents=True, exist_ok=True)
        lines: list[Line] = []
        stopped: KeyboardInterrupt | InputError | None = None
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            try:
                for source in sources:
                    for line in _lines_of(line_class, predict, source):
                        writer.writerow({key: cell_text(value) for key, value in line.cells().items()})
                        lines.append(line)
                        on_done(line)
            except (KeyboardInterrupt, InputError) as error:
                stopped = error
        failed = [line for line in lines if line.status != "ok"]
        reasons = [(str(entry.file), entry.reason) for entry in left_out]
        reasons += [(line.file, line.status) for line in failed]
        if reasons:
            write_skipped(out / SKIPPED, reasons)
        else:
            (out / SKIPPED).unlink(missing_ok=True)  # of an earlier try
        if len(failed) == len(lines):
            raise stopped or InputError(
                f"None of {len(lines)} inputs could be predicted. The first: {failed[0].status}"
            )
    if stopped is not None:
        LOGGER.warning("Stopped: %s lists the %d predictions until then", out / PREDICTIONS, len(lines))
        raise stopped
    return lines


def write_skipped(path: Path, reasons: Sequence[tuple[str, str]]) -> None:
    """List the files that were left out, each with why."""
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "reason"])
        writer.writerows([printable(file), printable(reason)] for file, reason in reasons)


def _lines_of(
    line_class: type[Line], predict: Callable[[Source], Iterable[Line]], source: Source
) -> Iterator[Line]:
    """A source's lines, or one with the reason why it cannot be predicted."""
    try:
        yield from predict(source)
    except UnreadableSourceError as error:
        yield line_class(file=printable(str(source.path)), status=printable(str(error)))


class UnreadableSourceError(Exception):
    """A source cannot be decoded or predicted; kept apart from errors of writing, which stop the run."""


def run_signature(signature: Signature, image: Picture, file: str) -> Outputs:
    """Outputs of one image.

    Args:
        signature: ``serving_default`` of a bundle.
        image: ``[H, W, 3]``, uint8.
        file: Where it is from, for messages.

    Raises:
        UnreadableSourceError: There is not enough memory.
    """
    try:
        outputs = signature(images=tf.constant(image[None]))
        return {name: value.numpy()[0] for name, value in outputs.items()}
    except tf.errors.ResourceExhaustedError as error:
        raise UnreadableSourceError(
            f"{file}: {image.shape[1]} x {image.shape[0]} pixels need more memory than there is. Reduce the "
            "image, or end other programs."
        ) from error


def printable(text: str) -> str:
    """Text of a path whose bytes are not UTF-8, as a table or a terminal can take it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def cell_text(value: object) -> object:
    """A value as tables show it: six digits, two decimals at least, ``true``, ``false``, nothing for None."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e4 else f"{value:.2f}"
    return "" if value is None else value


def summarise_predictions(
    lines: Sequence[PredictionLine], out: Path, console: Console, left_out: Sequence[Skipped] = ()
) -> None:
    """Summary of `predict`: how many, how fast, what was left out."""
    good = [line for line in lines if line.status == "ok"]
    seconds = sum(line.seconds or 0.0 for line in good) / len(good)
    referred = sum(bool(line.referred) for line in good)
    console.print(
        f"{len(good)} predictions written to {out}, {seconds:.2f} s each, {referred} referred to a person",
        markup=False,
    )
    for line in lines:
        if line.status != "ok":
            console.print(f"Left out: {line.status}", markup=False)
    for entry in left_out[:10]:
        console.print(f"Left out: {printable(entry.reason)}", markup=False)
    if len(left_out) > 10:
        console.print(f"... and {len(left_out) - 10} more; see {out / SKIPPED}", markup=False)
