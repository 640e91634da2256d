"""Predicting with a bundle alone: finding the files, and the loop that writes the table of predictions.

The application decides what is written of one file. A file that cannot be read is listed and left out while
the others go on; after an interruption the table lists what is complete.
"""

from __future__ import annotations

import csv
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import tensorflow as tf
from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.markup import escape

from data_prep.errors import InputError, Skipped
from data_prep.files.atomic import atomic_file
from data_prep.files.images import IMAGE_SUFFIXES
from data_prep.files.tables import cell_text, write_table
from data_prep.files.videos import VIDEO_SUFFIXES
from gpmodels.familiarity import is_unfamiliar
from pipelines.bundles.metadata import FAMILIARITY, Metadata, load_metadata
from pipelines.bundles.saved_model import Signature, load_signatures
from pipelines.command.folders import METADATA, PREDICTIONS, require_no_predictions
from pipelines.scores.pictures import Outputs, Picture

SKIPPED = "skipped.csv"
UNCERTAINTIES = ("predictive_entropy", "mutual_information")
FAMILIARITY_COLUMNS = ("familiarity", "unfamiliar")

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class PredictionLine:
    """A line of `predictions.csv`; an application adds fields of its own.

    Attributes:
        own_columns: Names of the application's cells, in the order of the table.
        familiarity_columns: Names of the cells of familiarity, where the bundle says it.
        familiarity_factor: What the least familiarity of an input is of the bundle's: 2 where it is pooled.
        file: The file that was predicted.
        referred: Whether a person should look.
        familiarity: Share of held-out examples of the training that look at least as strange; None where the
            bundle does not say.
        unfamiliar: Whether that is below `gpmodels.familiarity.UNFAMILIAR_BELOW`; None where nothing can be.
        seconds: Time for this line, without reading and writing.
        status: `ok`, or what was wrong.
    """

    own_columns: ClassVar[tuple[str, ...]] = ()
    familiarity_columns: ClassVar[tuple[str, ...]] = FAMILIARITY_COLUMNS
    familiarity_factor: ClassVar[int] = 1

    file: str
    referred: bool | None = None
    familiarity: float | None = None
    unfamiliar: bool | None = None
    seconds: float | None = None
    status: str = "ok"

    @classmethod
    def columns(cls, class_names: Iterable[str] = (), *, familiarity: bool = False) -> list[str]:
        """Return the names of the cells in the order of the table; each class has one, its probability.

        Args:
            class_names: Classes whose probabilities are in the table.
            familiarity: Whether the bundle says how familiar an input is.
        """
        familiar = cls.familiarity_columns if familiarity else ()
        probabilities = map(probability_column, class_names)
        return ["file", *cls.own_columns, "referred", *familiar, "seconds", "status", *probabilities]

    def cells(self) -> dict[str, object]:
        """Return the value of each column by its name."""
        return asdict(self)

    def with_possible_flags(self, least_familiarity: float) -> Self:
        """Return this line without flags that could never be raised.

        Args:
            least_familiarity: The least familiarity of which the bundle is capable.
        """
        possible = is_unfamiliar(self.familiarity_factor * least_familiarity)
        return self if possible else replace(self, unfamiliar=None)


@dataclass(frozen=True)
class ClassPredictionLine(PredictionLine):
    """A line for what is given a class.

    Attributes:
        label: The most probable class.
        predictive_entropy: Predictive entropy, nats.
        mutual_information: Mutual information, nats.
        probability: Probability of every class by name; the cells are `probability of <class>`.
    """

    label: str | None = None
    predictive_entropy: float | None = None
    mutual_information: float | None = None
    probability: dict[str, float] = field(default_factory=dict)

    def cells(self) -> dict[str, object]:
        """Return the value of each column by its name, one for each class among them."""
        cells = super().cells()
        del cells["probability"]
        return cells | {probability_column(name): value for name, value in self.probability.items()}


def class_fields(outputs: Outputs, class_names: Sequence[str], refer_above: float | None) -> dict[str, Any]:
    """Return the fields of a `ClassPredictionLine` that follow from the outputs for what is given a class.

    Args:
        outputs: `label`, `probability`, `predictive_entropy` and `mutual_information`, without a batch axis.
        class_names: Names of the classes in the order of the labels.
        refer_above: Entropy above which a person should look; None where nobody should.
    """
    entropy = float(outputs["predictive_entropy"])
    return {
        "label": class_names[int(outputs["label"])],
        "predictive_entropy": entropy,
        "mutual_information": float(outputs["mutual_information"]),
        "probability": dict(zip(class_names, outputs["probability"].tolist(), strict=True)),
        "referred": is_referred(entropy, refer_above),
        **familiarity_fields(None if FAMILIARITY not in outputs else float(outputs[FAMILIARITY])),
    }


def familiarity_fields(familiarity: float | None, least: float = 0.0) -> dict[str, Any]:
    """Return the fields of a line that say how familiar an input is.

    Args:
        familiarity: Of the input; None of a bundle that does not say.
        least: The least that there can be; where even this is not unfamiliar, it is not said.
    """
    unfamiliar = None if familiarity is None or not is_unfamiliar(least) else is_unfamiliar(familiarity)
    return {FAMILIARITY: familiarity, "unfamiliar": unfamiliar}


def is_referred(entropy: float, refer_above: float | None) -> bool:
    """Return whether a person should look at what has this entropy; None refers nothing."""
    return refer_above is not None and entropy > refer_above


def probability_column(class_name: str) -> str:
    """Return the name of the column with the probability of a class."""
    return f"probability of {class_name}"


Line = TypeVar("Line", bound=PredictionLine)
Preprocessing = TypeVar("Preprocessing", bound=BaseModel)


@dataclass(frozen=True)
class Source:
    """A file to predict and the stem of its outputs."""

    path: Path
    stem: str

    @property
    def is_video(self) -> bool:
        """Return whether the file is read frame by frame."""
        return self.path.suffix.lower() in VIDEO_SUFFIXES


def find_sources(
    inputs: Sequence[Path],
    *,
    suffixes: Collection[str] = IMAGE_SUFFIXES | VIDEO_SUFFIXES,
    kind: str = "image or video",
) -> list[Source]:
    """Return the files given and the known files in folders given, each path once.

    They are in the order given, those of a folder by name.

    Args:
        inputs: Files and folders.
        suffixes: Suffixes of the files that are taken from a folder, in lower case.
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
            f"{', '.join(sorted(suffixes))}.{_filled_folders(inputs, suffixes)}"
        )
    return _unique_sources(list(dict.fromkeys(paths)))


def _filled_folders(inputs: Sequence[Path], suffixes: Collection[str]) -> str:
    """Return a sentence on sub-folders that hold such files, which nothing descends into; "" without any."""
    filled = [
        str(folder)
        for path in inputs
        for folder in sorted(path.iterdir())
        if _holds_known_files(folder, suffixes)
    ]
    if not filled:
        return ""
    return f" Folders within a folder are not searched: pass them by name, such as {', '.join(filled[:3])}."


def _holds_known_files(folder: Path, suffixes: Collection[str]) -> bool:
    """Whether it is a folder, neither hidden nor closed to the user, with such files directly in it."""
    if folder.name.startswith(".") or not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        return False
    return any(_is_known_file(file, suffixes) for file in folder.iterdir())


def _is_known_file(path: Path, suffixes: Collection[str]) -> bool:
    return path.suffix.lower() in suffixes and not path.name.startswith(".") and path.is_file()


def _unique_sources(paths: Sequence[Path]) -> list[Source]:
    """Return sources whose outputs cannot replace each other; a video's frames are its stem and a number."""
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
    """Yield names for a source's outputs, the shortest first."""
    if stems[path.stem] == 1:
        yield path.stem
    if names[path.name] == 1:
        yield path.name
    yield f"{path.parent.name}_{path.name}"
    yield from (f"{path.name}_{number}" for number in count(2))


def predict_files(
    line_class: type[Line],
    predict: Callable[[Source], Iterable[Line]],
    sources: Sequence[Source],
    out: Path,
    *,
    class_names: Sequence[str] = (),
    least_familiarity: float | None = None,
    on_done: Callable[[Line], None] = lambda _: None,
    left_out: Sequence[Skipped] = (),
) -> list[Line]:
    """Predict every source and write `predictions.csv`.

    Args:
        line_class: Class of the application's lines.
        predict: Writes the files of a source and yields its lines; raises `UnreadableSourceError` for
            what cannot be read or predicted.
        sources: Files to predict.
        out: Output folder; created, must not hold predictions yet.
        class_names: Classes whose probabilities are in the table.
        least_familiarity: The least familiarity of which the bundle is capable; None if it says none.
        on_done: Called after each line, for progress.
        left_out: Further entries of `skipped.csv`, such as frames; `predict` may add to them.

    Returns:
        The lines.

    Raises:
        InputError: The folder holds predictions or cannot be written, or not one source could be read.
        KeyboardInterrupt: Ctrl-C. As after an error of writing, `predictions.csv` lists what is complete.
    """
    require_no_predictions(out)
    with atomic_file(out / PREDICTIONS) as temporary:
        out.mkdir(parents=True, exist_ok=True)
        lines: list[Line] = []
        stopped: KeyboardInterrupt | InputError | None = None
        with temporary.open("w", newline="", encoding="utf-8") as file:
            columns = line_class.columns(class_names, familiarity=least_familiarity is not None)
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            try:
                for source in sources:
                    for found in _lines_of(line_class, predict, source):
                        line = (
                            found
                            if least_familiarity is None
                            else found.with_possible_flags(least_familiarity)
                        )
                        cells = line.cells()
                        writer.writerow({key: cell_text(cells.get(key)) for key in columns})
                        lines.append(line)
                        on_done(line)
            except (KeyboardInterrupt, InputError) as error:
                stopped = error
        failed = [line for line in lines if line.status != "ok"]
        reasons = [(str(entry.file), entry.reason) for entry in left_out]
        reasons += [(line.file, line.status) for line in failed]
        if reasons:
            write_table(out / SKIPPED, ["file", "reason"], [list(map(printable, row)) for row in reasons])
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


def predict_sources(
    line_class: type[Line],
    predict: Callable[[Source], Iterable[Line]],
    sources: Sequence[Source],
    out: Path,
    console: Console,
    *,
    class_names: Sequence[str] = (),
    least_familiarity: float | None = None,
    left_out: Sequence[Skipped] = (),
) -> list[Line]:
    """Predict every source, show the last one's name on the console; arguments as `predict_files`.

    Raises:
        InputError: The folder holds predictions or cannot be written, or not one source could be read.
    """
    with console.status(f"Predicting {len(sources)} files") as status:

        def say(line: Line) -> None:
            status.update(escape(f"Predicted {line.file}"))  # a name may hold brackets

        lines = predict_files(
            line_class,
            predict,
            sources,
            out,
            class_names=class_names,
            least_familiarity=least_familiarity,
            on_done=say,
            left_out=left_out,
        )
    summarise_predictions(lines, out, console, left_out)
    return lines


def open_bundle(bundle: Path, application: str) -> tuple[Signature, Metadata]:
    """Return what predicts, the signature `serving_default`, and the metadata of an application's bundle.

    Raises:
        InputError: As `pipelines.bundles.saved_model.load_signatures`.
    """
    return load_signatures(bundle, application=application)["serving_default"], load_metadata(bundle)


def bundle_preprocessing(metadata: Metadata, bundle: Path, cls: type[Preprocessing]) -> Preprocessing:
    """Return how the examples of the training were made, from the metadata of a bundle.

    Raises:
        InputError: The metadata do not describe it.
    """
    try:
        return cls.model_validate(metadata.preprocessing_settings)
    except ValidationError as error:
        raise InputError(
            f"{bundle / METADATA} does not say how examples of `gpimaging {metadata.application}` are made. "
            f"Pass the --out of `gpimaging {metadata.application} export`."
        ) from error


def _lines_of(
    line_class: type[Line], predict: Callable[[Source], Iterable[Line]], source: Source
) -> Iterator[Line]:
    """Yield a source's lines, or one with the reason why it cannot be predicted."""
    try:
        yield from predict(source)
    except UnreadableSourceError as error:
        yield line_class(file=printable(str(source.path)), status=printable(str(error)))


class UnreadableSourceError(Exception):
    """A source cannot be decoded or predicted; errors of writing, which stop the run, are others."""


@contextmanager
def reading() -> Iterator[None]:
    """Turn the `InputError` of what reads a source into an `UnreadableSourceError`."""
    try:
        yield
    except InputError as error:
        raise UnreadableSourceError(str(error)) from error


def run_signature(signature: Signature, image: Picture, file: str) -> Outputs:
    """Return the outputs of one image.

    Args:
        signature: The signature `serving_default` of a bundle.
        image: `[H, W, 3]`, uint8.
        file: Name of the image's file, for messages.

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
    """Return the text of a path, even if its bytes are not UTF-8, as tables and terminals can take it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def summarise_predictions(
    lines: Sequence[PredictionLine], out: Path, console: Console, left_out: Sequence[Skipped] = ()
) -> None:
    """Print how many files were predicted, how fast, and what was left out."""
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
