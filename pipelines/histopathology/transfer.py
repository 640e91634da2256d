"""`gpimaging histopathology transfer`: what a source gives where the data have few labels.

Each repeat keeps whole groups of the data apart, draws labels from the others, and judges four methods. Its
record is a file of its own below `runs` in the output folder, so that a second call computes what is missing.
No model is kept.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file
from data_prep.histopathology.manifest import HistopathologyManifest
from pipelines.command.config import CONFIG_NAME, dump_settings, load_settings
from pipelines.command.console import stage_bars
from pipelines.command.folders import METRICS
from pipelines.histopathology.settings import TransferSettings
from pipelines.histopathology.transfer_draws import Draw, Tissue, draws, projected
from pipelines.histopathology.transfer_methods import (
    SOURCE,
    is_of_one_class,
    scored,
    source_probability,
    target_probabilities,
)
from pipelines.histopathology.transfer_report import CURVE, REPORT, Curves, said_lines, write_results
from pipelines.runs.learned import input_digests
from pipelines.runs.sources import joined_classes, require_known
from pipelines.scores.metrics import plain
from pipelines.tasks.data import PreparedViews, open_views
from pipelines.tasks.sources import require_alike

RUNS = "runs"
RECORD_VERSION = 1

TissueViews = PreparedViews[HistopathologyManifest]


def transfer(
    settings: TransferSettings,
    *,
    source: Path,
    data: Path,
    out: Path,
    console: Console,
    resume: bool = False,  # noqa: ARG001 - the settings of an earlier call are taken by it
) -> Curves:
    """Judge transfer along numbers of labels; write a report, a picture of the curves and metrics.

    Args:
        settings: What is drawn.
        source: Prepared folder with many labels.
        data: Prepared folder that has few, or is to be treated so: its labels are drawn and judge.
        out: Folder to write to. Repeats that are there are kept.
        console: Where progress and findings are shown.
        resume: Whether the settings are those of an earlier call; every call goes on with what is there.

    Returns:
        What was found.

    Raises:
        InputError: The folders cannot be compared, have too few patches, or `out` holds other results.
    """
    lender, target = opened(source, data, settings)
    inputs = {"source": lender.sha256, "data": target.sha256}
    _require_same(out, settings, inputs)
    names = target.manifest.class_names
    lent, own = tissues(lender, target, settings)
    if settings.by == "image" and not is_of_one_class(own).all():
        raise InputError(
            f"{data} has images with patches of several classes, which by=image cannot label whole. Set "
            "by=patch."
        )
    drawn = draws(lent, own, settings, names, data)
    _say(lent, own, drawn[0], lender, target, console)
    _begin(out, settings, console)
    records = []
    with stage_bars(console) as advance:
        for repeat, draw in enumerate(drawn):
            path = out / RUNS / f"repeat_{repeat:03d}.json"
            if not path.is_file():
                record = {
                    "version": RECORD_VERSION,
                    "inputs": inputs,
                    "repeat": repeat,
                    **judged(lent, own, draw, len(names), repeat),
                }
                _write(path, record)
            records.append(json.loads(path.read_text(encoding="utf-8")))
            advance("Judging draws of labels", repeat + 1, len(drawn))
    curves = Curves(
        settings=settings,
        source=source.name,
        data=data.name,
        inputs=inputs,
        patches={"source": len(lent.label), "data": len(own.label)},
        class_names=names,
        lacking=tuple(name for k, name in enumerate(names) if k not in lent.label),
        groups=own.group_names,
        records=records,
    )
    write_results(out, curves)
    for line in said_lines(curves):
        console.print(line, markup=False, soft_wrap=True)
    console.print(
        f"Report, curves and scores of all repeats are in {out}: {REPORT}, {CURVE}, {METRICS}.",
        markup=False,
        soft_wrap=True,
    )
    return curves


def opened(source: Path, data: Path, settings: TransferSettings) -> tuple[TissueViews, TissueViews]:
    """Return source and data, checked against each other.

    Raises:
        InputError: They cannot be read, are the same, share an image, were prepared in other ways, or have
            no class in common.
    """
    lender = open_views(source, HistopathologyManifest)
    target = open_views(data, HistopathologyManifest)
    if lender.sha256 == target.sha256:
        raise InputError(
            f"--source {source} holds the same prepared data as {data}. Name another prepared folder."
        )
    require_alike(target, lender)
    names = lender.manifest.class_names, target.manifest.class_names
    require_known(settings.source_classes, [names[0]], names[1])
    joined_classes(*names, settings.source_classes, source)
    shared = len(set(input_digests(lender.features)) & set(input_digests(target.features)))
    if shared:
        raise InputError(
            f"--source {source} has {shared} patches that are in {data} too, so that methods would learn "
            "from what they are judged by. Prepare a source without these images."
        )
    return lender, target


def tissues(lender: TissueViews, target: TissueViews, settings: TransferSettings) -> tuple[Tissue, Tissue]:
    """Return the patches of the source whose class the data have, and all of the data, as components.

    Raises:
        InputError: The source has no patch of a class of the data.
    """
    table = joined_classes(
        lender.manifest.class_names, target.manifest.class_names, settings.source_classes, lender.folder
    )
    x, own_x = projected(lender.features, target.features, settings.components)
    label = np.array([table.get(one.label, -1) for one in lender.manifest.examples], np.intp)
    used = np.flatnonzero(label >= 0)
    if not len(used):
        raise InputError(
            f"--source {lender.folder} has no patch of a class that the data have. Prepare some."
        )
    own_label = np.array([one.label for one in target.manifest.examples], np.intp)
    return _tissue(lender.manifest, x, label, used), _tissue(
        target.manifest, own_x, own_label, np.arange(len(own_label))
    )


def _tissue(manifest: HistopathologyManifest, x: Any, label: Any, used: Any) -> Tissue:
    examples = [manifest.examples[row] for row in used]
    groups, group = np.unique([one.group for one in examples], return_inverse=True)
    _, image = np.unique([one.source for one in examples], return_inverse=True)
    return Tissue(x[used], label[used], image, group, tuple(map(str, groups)))


def judged(source: Tissue, target: Tissue, draw: Draw, num_classes: int, repeat: int) -> dict[str, Any]:
    """Return the scores of all methods in one repeat, as JSON has them.

    Args:
        source: Patches of the source.
        target: Patches of the data.
        draw: What is learned from and judged by.
        num_classes: Number of classes of the data.
        repeat: Number of the repeat, the seed of the models.
    """
    x = target.x[draw.judged]

    def of(probability: Any) -> dict[str, Any]:
        found = scored(probability, target, draw.judged)
        return {"scores": found.scores, "groups": found.shares}

    alone = source_probability(source, draw.source, x, num_classes)
    by_labels = {}
    for count, rows in draw.labelled.items():
        found, said = target_probabilities(source, draw.source, target, rows, x, num_classes, repeat)
        methods = {name: of(probability) for name, probability in found.items()}
        by_labels[str(count)] = {"patches": len(rows), "transfer": said, "methods": methods}
    return {
        "source_patches": len(draw.source),
        "judged_patches": len(draw.judged),
        "labels": by_labels,
        SOURCE: None if alone is None else of(alone),
    }


def _require_same(out: Path, settings: TransferSettings, inputs: dict[str, str]) -> None:
    """Raise `InputError` where a folder holds results of other settings or of other folders."""
    path = out / CONFIG_NAME
    if not path.is_file():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise InputError(f"{out} holds something else than learning curves. Give another --out.")
        return
    former = load_settings(TransferSettings, config=path)
    changed = [
        f"{name} was {getattr(former, name)!r} and is {getattr(settings, name)!r}"
        for name in TransferSettings.model_fields
        if name != "repeats" and getattr(former, name) != getattr(settings, name)
    ]
    if changed:
        raise InputError(
            f"{out} holds learning curves of other settings: {'; '.join(changed)}. Give another --out, or go "
            "on with the former settings by --resume. Only repeats may change."
        )
    for record in sorted((out / RUNS).glob("repeat_*.json")):
        try:
            content = json.loads(record.read_text(encoding="utf-8"))
            known = content["version"], content["inputs"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{record} cannot be read ({error}). Delete it; the command computes it again."
            ) from error
        if known != (RECORD_VERSION, inputs):
            raise InputError(
                f"{out} holds learning curves of another source or other data, or of another version. Give "
                "another --out."
            )


def _begin(out: Path, settings: TransferSettings, console: Console) -> None:
    out.mkdir(parents=True, exist_ok=True)
    dump_settings(settings, out / CONFIG_NAME)
    (out / RUNS).mkdir(exist_ok=True)
    there = sum((out / RUNS / f"repeat_{repeat:03d}.json").is_file() for repeat in range(settings.repeats))
    if there:
        console.print(f"{there} of {settings.repeats} repeats are there already", markup=False)


def _say(
    lent: Tissue, own: Tissue, first: Draw, lender: TissueViews, target: TissueViews, console: Console
) -> None:
    """Say what there is of each class, and what the source lacks."""
    names = target.manifest.class_names

    def counts(label: Any) -> str:
        numbers = np.bincount(label, minlength=len(names))
        return ", ".join(f"{name}: {number}" for name, number in zip(names, numbers, strict=True))

    drawn = f"; each repeat draws {counts(lent.label[first.source])}"
    console.print(
        f"Source {lender.folder.name}: {len(lent.label)} patches ({counts(lent.label)})"
        f"{drawn if len(first.source) < len(lent.label) else ''}",
        markup=False,
        soft_wrap=True,
    )
    judging = len(np.unique(own.group[first.judged]))
    console.print(
        f"Data {target.folder.name}: {len(own.label)} patches ({counts(own.label)}) of "
        f"{len(own.group_names)} groups, of which each repeat keeps {judging} apart to judge by",
        markup=False,
        soft_wrap=True,
    )
    left = len(lender.manifest.examples) - len(lent.label)
    if left:
        console.print(
            f"{left} patches of the source are of classes that the data lack, and are left out", markup=False
        )


def _write(path: Path, record: dict[str, Any]) -> None:
    text = json.dumps(plain(record), ensure_ascii=False, allow_nan=False)
    with atomic_file(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
