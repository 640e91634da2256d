"""What the prepare steps say of what they wrote."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from data_prep.classify.manifest import MultilabelManifest, VoteManifest
from data_prep.errors import Skipped
from data_prep.labelled.preparing import PrepareResult
from data_prep.prepared.manifest import LabelledExample
from pipelines.command.console import say


def print_prepared(
    written: str, facts: Iterable[str], skipped: Sequence[Skipped], out: Path, console: Console
) -> None:
    """Print the summary of `prepare`: what was written, what was left out.

    Args:
        written: What was written, e.g. `"40 snapshots of 32 x 32"`.
        facts: Further lines about it, such as `describe_classes` returns.
        skipped: What was left out.
        out: Prepared folder.
        console: Where to print.
    """
    lines = [f"{written} written to {out}", *facts, *(f"Left out: {entry.reason}" for entry in skipped[:10])]
    if len(skipped) > 10:
        lines.append(f"... and {len(skipped) - 10} more; see {out / 'skipped.csv'}")
    say(console, "\n".join(lines))


def describe_labels(manifest: MultilabelManifest) -> list[str]:
    """Return what was understood of a table with several yes/no labels an image, and how many there are."""
    names, rows = manifest.label_names, [example.labels for example in manifest.examples]
    counts = [Counter(row[place] for row in rows) for place in range(len(names))]
    return [
        f"Read as {len(names)} yes/no labels an image, each known or empty by itself: "
        + "; ".join(
            f"{name} {of[1]} yes, {of[0]} no{f', {of[None]} unknown' * bool(of[None])}"
            for name, of in zip(names, counts, strict=True)
        ),
        "Split evenly by the rarest label of each image:",
    ]


def describe_votes(manifest: VoteManifest) -> list[str]:
    """Return what was understood of a table of votes, and of how many images people disagree."""
    divided = sum(max(example.labels) < 1.0 for example in manifest.examples)
    chosen = {example.label for example in manifest.examples}
    never = [name for label, name in enumerate(manifest.class_names) if label not in chosen]
    lines = [
        f"Read as votes for {', '.join(manifest.class_names)}",
        f"{divided} of {manifest.num_examples} images have votes for more than one class",
        "Counted below by the class with most votes:",
    ]
    if never:
        lines.insert(2, f"Warning: no image has most votes for {', '.join(never)}. Is it a class?")
    return lines


def describe_classes(
    result: PrepareResult[Any], examples: Iterable[LabelledExample], warnings: Iterable[str] = ()
) -> list[str]:
    """Return how many examples each class has, how they are divided, and warnings.

    The number of groups that are judged is the real size of a test.

    Args:
        result: Result of the step.
        examples: Examples to count: those of the manifest, or one for each that is judged as one.
        warnings: Warnings besides those about classes on one side of the split and about the files.
    """
    examples, num_folds = list(examples), result.manifest.num_folds

    def judged(number: int) -> str:
        return "" if num_folds else f", {number} of them to judge by"

    counts = Counter(example.label for example in examples)
    tested = Counter(example.label for example in examples if example.split == "test")
    sizes = Counter(example.group for example in examples)
    tested_groups = {example.group: example.split == "test" for example in examples}
    largest = f"the largest has {max(sizes.values())} of {sizes.total()}"
    each = f"each on one side of every split{judged(sum(tested_groups.values()))}"
    parts = [f"{len(sizes)} groups ({largest}), {each}"]
    parts += [] if num_folds is None else [f"{num_folds} folds"]
    for label, name in enumerate(result.manifest.class_names):
        parts.append(f"{name}: {counts[label]}{judged(tested[label])}")
    return [
        *parts,
        *result.kept,
        *(f"Warning: {warning}" for warning in (*result.one_sided, *result.notes, *warnings)),
    ]
