"""What prepare and predict share where examples have one class each: summaries, and the bundle's facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.markup import escape

from data_prep.errors import InputError
from data_prep.labelled_manifest import LabelledExample, LabelledManifest
from data_prep.labelled_preparing import PrepareResult
from data_prep.pairing import Skipped
from pipelines.bundle_metadata import METADATA, Metadata
from pipelines.prediction import PredictionLine, Source, predict_files, summarise_predictions

ManifestKind = TypeVar("ManifestKind", bound=LabelledManifest)
Preprocessing = TypeVar("Preprocessing", bound=BaseModel)
Line = TypeVar("Line", bound=PredictionLine)


def say_prepared(
    result: PrepareResult[ManifestKind],
    examples: Iterable[LabelledExample],
    out: Path,
    console: Console,
    *,
    written: str,
    warnings: Iterable[str] = (),
) -> None:
    """Summary of `prepare`: what was written, what was left out.

    Args:
        result: Of the step.
        examples: To count by class: those of the manifest, or one for each that is judged as one.
        out: Prepared folder.
        console: To write on.
        written: What was, e.g. ``"40 snapshots of 32 x 32"``.
        warnings: Besides those about classes on one side of the split.
    """
    lines = [f"{written} written to {out}", *describe_classes(result.manifest, examples)]
    lines += [f"Warning: {warning}" for warning in (*result.one_sided, *warnings)]
    lines += [f"Left out: {entry.reason}" for entry in result.skipped[:10]]
    if len(result.skipped) > 10:
        lines.append(f"... and {len(result.skipped) - 10} more; see {out / 'skipped.csv'}")
    console.print("\n".join(lines), markup=False)


def describe_classes(manifest: LabelledManifest, examples: Iterable[LabelledExample]) -> list[str]:
    """How many examples each class has, and how they are divided."""
    examples = list(examples)
    counts = Counter(example.label for example in examples)
    tested = Counter(example.label for example in examples if example.split == "test")
    parts = [describe_groups(manifest, examples)]
    parts += [] if manifest.num_folds is None else [f"{manifest.num_folds} folds"]
    for label, name in enumerate(manifest.class_names):
        judged = "" if manifest.num_folds else f", {tested[label]} of them to judge by"
        parts.append(f"{name}: {counts[label]}{judged}")
    return parts


def describe_groups(manifest: LabelledManifest, examples: Sequence[LabelledExample]) -> str:
    """How many groups stay together, and how many of them are judged: the real size of a test."""
    sizes = Counter(example.group for example in examples)
    largest = f"the largest has {max(sizes.values())} of {sizes.total()}"
    tested = {example.group: example.split == "test" for example in examples}
    judged = "" if manifest.num_folds else f", {sum(tested.values())} of them to judge by"
    return f"{len(tested)} groups ({largest}), each on one side of every split{judged}"


def bundle_preprocessing(metadata: Metadata, bundle: Path, cls: type[Preprocessing]) -> Preprocessing:
    """How the training's examples were made, as a bundle says.

    Raises:
        InputError: It does not say so.
    """
    try:
        return cls.model_validate(metadata.preprocessing_settings)
    except ValidationError as error:
        raise InputError(
            f"{bundle / METADATA} does not say how examples of `gpimaging {metadata.application}` are made. "
            f"Pass the --out of `gpimaging {metadata.application} export`."
        ) from error


def predict_sources(
    line_class: type[Line],
    columns: Sequence[str],
    predict: Callable[[Source], Iterable[Line]],
    sources: Sequence[Source],
    out: Path,
    console: Console,
    left_out: Sequence[Skipped] = (),
) -> list[Line]:
    """Predict every source, with the last one's name on the console; arguments as :func:`predict_files`.

    Raises:
        InputError: The folder holds predictions or cannot be written, or not one source could be read.
    """
    with console.status(f"Predicting {len(sources)} files") as status:

        def say(line: Line) -> None:
            status.update(escape(f"Predicted {line.file}"))  # a name may hold brackets

        lines = predict_files(line_class, columns, predict, sources, out, on_done=say, left_out=left_out)
    summarise_predictions(lines, out, console, left_out)
    return lines
