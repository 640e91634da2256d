"""Predicting with a bundle alone: the loop that writes the table of predictions and remembers what is done.

The application decides what is written of one file. A file that cannot be read is listed and left out while
the others go on; after an interruption the table lists what is complete.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.markup import escape

from data_prep.errors import ClusterLost, InputError, Skipped
from data_prep.files.atomic import atomic_file, files_written, remove_partial
from data_prep.files.tables import cell_text, write_table
from pipelines.bundles.line_rules import NO_RULES, LineRules
from pipelines.bundles.metadata import Metadata, load_metadata
from pipelines.bundles.prediction_lines import PredictionLine, decided_sentence, printable
from pipelines.bundles.prediction_run import PredictionRun, Record, source_sha256
from pipelines.bundles.runtimes import INT8, Signature, checked_metadata, litert_file, load_litert
from pipelines.bundles.sources import Source
from pipelines.bundles.unreadable import UnreadableSourceError, no_numbers, require_file
from pipelines.command.console import say
from pipelines.command.folders import METADATA, PREDICTIONS, require_no_predictions

SKIPPED = "skipped.csv"
UNCERTAINTIES = ("predictive_entropy", "mutual_information")

LOGGER = logging.getLogger(__name__)

Line = TypeVar("Line", bound=PredictionLine)
Preprocessing = TypeVar("Preprocessing", bound=BaseModel)

Remote = Callable[[Sequence[Source]], Iterator[Record | Skipped]]
"""Function that predicts sources elsewhere, see `pipelines.bundles.remote`."""


def predict_files(  # noqa: PLR0913 - each application gives all of them
    line_class: type[Line],
    predict: Callable[[Source], Iterable[Line]],
    sources: Sequence[Source],
    out: Path,
    *,
    class_names: Sequence[str] = (),
    rules: LineRules = NO_RULES,
    on_done: Callable[[Line], None] = lambda _: None,
    left_out: list[Skipped] | None = None,
    run: PredictionRun | None = None,
    remote: Remote | None = None,
    write_more: Callable[[Sequence[Line]], None] = lambda _: None,
) -> list[Line]:
    """Predict every source and write `predictions.csv`.

    Args:
        line_class: Class of the application's lines.
        predict: Writes the files of a source and yields its lines; raises `UnreadableSourceError` for
            what cannot be read or predicted.
        sources: Files to predict.
        out: Output folder; created, must not hold predictions yet, but for those of `run`.
        class_names: Classes whose probabilities are in the table.
        rules: What is done to each line.
        on_done: Called after each line, for progress.
        left_out: Further entries of `skipped.csv`, such as frames; `predict` may add to them.
        run: What an earlier command has done, and where to remember what is done now; None to begin anew and
            to remember nothing.
        remote: Predicts sources elsewhere, in their order, instead of `predict`; needs a run.
        write_more: Writes further tables from all lines, or from those that are complete when it is stopped.

    Returns:
        The lines.

    Raises:
        InputError: The folder holds predictions or cannot be written, or not one source could be read.
        ClusterLost: What predicts elsewhere no longer answers.
        KeyboardInterrupt: Ctrl-C. As after the other errors that stop in between, `predictions.csv` lists
            what is complete.
    """
    left_out = [] if left_out is None else left_out
    remember: Callable[[Source], Iterator[Line]]
    if run is None:
        require_no_predictions(out)
        remember = partial(_lines_of, line_class, predict)
    else:
        run.require_lines(line_class)
        remove_partial(out)  # of a process that was killed
        others = [source for source in sources if run.record_of(source) is None]
        records = None if remote is None else remote(others)
        remember = partial(_remembered_lines, line_class, predict, run, left_out, records)
    with atomic_file(out / PREDICTIONS) as temporary:
        out.mkdir(parents=True, exist_ok=True)
        lines: list[Line] = []
        with temporary.open("w", newline="", encoding="utf-8") as file:
            columns = line_class.columns(class_names, rules)
            writer = csv.DictWriter(file, columns)
            writer.writeheader()

            def write(source: Source) -> None:
                for found in remember(source):
                    line = found.ruled(rules)
                    cells = line.cells()
                    writer.writerow({key: cell_text(cells.get(key)) for key in columns})
                    lines.append(line)
                    on_done(line)

            stopped = _write_each(sources, write, run)
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
    try:
        write_more(lines)
    except InputError as error:
        if stopped is None:
            raise
        LOGGER.warning("%s", error)  # the error of the command is what stopped it
    if stopped is not None:
        LOGGER.warning(
            "Stopped: %s lists the %d predictions that are complete", out / PREDICTIONS, len(lines)
        )
        raise stopped
    if remote is not None:
        remove_partial(out)  # of workers that were killed
    return lines


def _write_each(
    sources: Sequence[Source], write: Callable[[Source], None], run: PredictionRun | None
) -> KeyboardInterrupt | InputError | ClusterLost | None:
    """Write the lines of each source; return what stopped it, after those that were done before."""
    rest = iter(sources)
    try:
        for source in rest:
            write(source)
    except (KeyboardInterrupt, InputError, ClusterLost) as error:
        for source in rest:
            if run is not None and run.record_of(source) is not None:
                write(source)
        return error
    return None


def predict_sources(  # noqa: PLR0913 - as `predict_files`
    line_class: type[Line],
    predict: Callable[[Source], Iterable[Line]],
    sources: Sequence[Source],
    out: Path,
    console: Console,
    *,
    class_names: Sequence[str] = (),
    rules: LineRules = NO_RULES,
    left_out: list[Skipped] | None = None,
    run: PredictionRun | None = None,
    remote: Remote | None = None,
    write_more: Callable[[Sequence[Line]], None] = lambda _: None,
) -> list[Line]:
    """Predict every source, show the last one's name on the console; arguments as `predict_files`.

    Raises:
        InputError: The folder holds predictions or cannot be written, or not one source could be read.
    """
    with console.status(f"Predicting {len(sources)} files") as status:

        def show(line: Line) -> None:
            status.update(escape(f"Predicted {line.file}"))  # a name may hold brackets

        lines = predict_files(
            line_class,
            predict,
            sources,
            out,
            class_names=class_names,
            rules=rules,
            on_done=show,
            left_out=left_out,
            run=run,
            remote=remote,
            write_more=write_more,
        )
    kept = 0 if run is None else sum(len(record.lines) for record in run.kept.values())
    summarise_predictions(lines, out, console, left_out or (), kept=kept)
    return lines


def open_bundle(
    bundle: Path,
    application: str,
    settings: BaseModel | None = None,
    console: Console | None = None,
    threads: int = 1,
) -> tuple[Signature, Metadata]:
    """Return what predicts, the signature `serving_default`, and the metadata of an application's bundle.

    Args:
        bundle: Folder of the bundle.
        application: The application that the bundle must be of.
        settings: Of the step, see `litert_file`; None for TensorFlow.
        console: Where to print that LiteRT predicts, and what int8 costs; None to print nothing.
        threads: For one image by LiteRT; TensorFlow has those that it was started with.

    Raises:
        InputError: As `pipelines.bundles.saved_model.load_signatures`, as `litert_file` or as `load_litert`.
    """
    file = None if settings is None else litert_file(bundle, settings)
    if file is None:
        from pipelines.bundles.saved_model import load_signatures  # noqa: PLC0415 - imports TensorFlow

        return load_signatures(bundle, application=application)["serving_default"], load_metadata(bundle)
    metadata = checked_metadata(bundle, application)
    if console is not None:
        said, loss = f"LiteRT runs {file.name} of the bundle.", metadata.int8_loss
        if file.name == INT8:
            said += f" {'What it costs is not known.' if loss is None else loss.sentence}"
        say(console, said)
    return load_litert(file, metadata, threads), metadata


def bundle_preprocessing(metadata: Metadata, bundle: Path, cls: type[Preprocessing]) -> Preprocessing:
    """Return how the examples of the training were made, from the metadata of a bundle.

    Raises:
        InputError: The metadata do not describe it.
    """
    try:
        return cls.model_validate(metadata.preprocessing_settings)
    except ValidationError as error:
        raise InputError(
            f"{bundle / METADATA} does not say how examples of `gpimaging {metadata.command}` are made. "
            f"Pass the --out of `gpimaging {metadata.command} export`."
        ) from error


def _lines_of(
    line_class: type[Line], predict: Callable[[Source], Iterable[Line]], source: Source
) -> Iterator[Line]:
    """Yield a source's lines, or one with the reason why it cannot be predicted."""
    try:
        require_file(source.path)
        for line in predict(source):
            if not line.is_finite:
                raise UnreadableSourceError(no_numbers(line.file))
            yield line
    except UnreadableSourceError as error:
        yield line_class(file=printable(str(source.path)), status=printable(str(error)))


def _remembered_lines(
    line_class: type[Line],
    predict: Callable[[Source], Iterable[Line]],
    run: PredictionRun,
    left_out: list[Skipped],
    records: Iterator[Record | Skipped] | None,
    source: Source,
) -> Iterator[Line]:
    """Yield a source's lines: those that a run remembers, or new ones, which it then remembers."""
    record = run.record_of(source)
    if record is None and records is not None:
        found = next(records)
        if isinstance(found, Skipped):
            yield line_class(file=printable(str(found.file)), status=printable(found.reason))
            return
        record = found
        run.require_shared(record)
        run.add(record)
    if record is not None:
        left_out += [Skipped(Path(file), reason) for file, reason in record.left_out]
        yield from (line_class(**fields) for fields in record.lines)
        return
    before, lines = len(left_out), []
    with files_written() as files:
        for line in _lines_of(line_class, predict, source):
            lines.append(line)
            yield line
    run.add(record_of(source, lines, files, run.out, left_out[before:]))


def recorded(
    line_class: type[PredictionLine],
    predict: Callable[[Source], Iterable[PredictionLine]],
    out: Path,
    source: Source,
) -> Record:
    """Predict a source and return what a run remembers of it.

    Args:
        line_class: Class of the application's lines.
        predict: As for `predict_files`; its `left_out`, where it has one, is emptied.
        out: Output folder.
        source: File to predict.
    """
    left_out: list[Skipped] = getattr(predict, "left_out", [])
    with files_written() as files:
        lines = list(_lines_of(line_class, predict, source))
    record = record_of(source, lines, files, out, left_out)
    left_out.clear()
    return record


def record_of(
    source: Source,
    lines: Sequence[PredictionLine],
    files: Sequence[Path],
    out: Path,
    left_out: Sequence[Skipped],
) -> Record:
    """Return what a run remembers of a source; of one that cannot be read no digest is taken.

    Args:
        source: The source.
        lines: Its lines.
        files: What was written of it; only what is still there counts.
        out: Output folder, in which these are.
        left_out: Parts of it that could not be used.
    """
    is_good = all(line.status == "ok" for line in lines)
    return Record(
        file=str(source.path),
        stem=source.stem,
        sha256=source_sha256(source) if is_good else "",
        lines=[dict(vars(line)) for line in lines],
        files=[(path.relative_to(out).as_posix(), path.stat().st_size) for path in files if path.exists()],
        left_out=[(str(entry.file), entry.reason) for entry in left_out],
    )


def summarise_predictions(
    lines: Sequence[PredictionLine],
    out: Path,
    console: Console,
    left_out: Sequence[Skipped] = (),
    *,
    kept: int = 0,
) -> None:
    """Print how many files were predicted, how fast, and what was left out.

    Args:
        lines: All lines of the table.
        out: Output folder.
        console: Where it is printed.
        left_out: Parts of files that could not be used.
        kept: Number of lines that an earlier command has predicted.
    """
    good = [line for line in lines if line.status == "ok"]
    seconds = sum(line.seconds or 0.0 for line in good) / len(good)
    referred = sum(bool(line.referred) for line in good)
    written = "predictions written to" if kept == 0 else "predictions in"
    before = "" if kept == 0 else f"{kept} kept from before and {len(good) - kept} new, "
    say(
        console, f"{len(good)} {written} {out}, {before}{seconds:.2f} s each, {referred} referred to a person"
    )
    if unfamiliar := sum(bool(line.unfamiliar) for line in good):
        say(
            console,
            f"Warning: {unfamiliar} of {len(good)} are unfamiliar, unlike what the training held out: the "
            f"model knows little of them; the column unfamiliar of {PREDICTIONS} names each.",
        )
    if decided := decided_sentence(lines):
        say(console, decided)
    for line in lines:
        if line.status != "ok":
            say(console, f"Left out: {line.status}")
    for entry in left_out[:10]:
        say(console, f"Left out: {printable(entry.reason)}")
    if len(left_out) > 10:
        say(console, f"... and {len(left_out) - 10} more; see {out / SKIPPED}")
