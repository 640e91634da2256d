"""Guarantees that belong to a run: what its heads can guarantee, found on the held-out part.

`train` computes them of each head with its temperatures, as `export` writes it, and keeps them in
`guarantees.json` of the run, so that a bundle has them without an evaluation. What the head predicts of that
part is kept beside its weights: a bundle finds thresholds for other wishes with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from rich.progress import track

from data_prep.errors import InputError
from data_prep.files.atomic import write_text
from data_prep.files.json_files import read_json
from data_prep.prepared.manifest import file_sha256
from gpmodels import HybridModel
from gpmodels.registry import head_family
from gpmodels.statistics.conformal import groups_needed
from pipelines.bundles.guarantees import GuaranteeRecord
from pipelines.runs.application import Judge, JudgedExample
from pipelines.runs.description import head_folder
from pipelines.runs.folds import held_out_names, trained_folds
from pipelines.runs.job import Job
from pipelines.runs.models import load_model
from pipelines.runs.predictors import Predictor, predictor
from pipelines.scores.cost_results import JudgedClasses
from pipelines.scores.definitions import FloatArray
from pipelines.scores.guarantee_sizes import TABLE_ERRORS, units_needed
from pipelines.scores.guarantees import ReferralErrors, method_guarantees
from pipelines.scores.held_out import HELD_OUT, HeldOut, read_held_out
from pipelines.scores.numbers import COVERAGES
from pipelines.scores.pictures import Outputs
from pipelines.training.stages import BEST

RUN_GUARANTEES: Final = "guarantees.json"


class HeadGuarantee(BaseModel):
    """What one head of a run can guarantee.

    Attributes:
        source: Which model it is, see `model_source`.
        record: What it can guarantee.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: dict[str, Any]
    record: GuaranteeRecord


class RunGuarantees(BaseModel):
    """Contents of `guarantees.json`: an entry for each trained head."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    heads: tuple[HeadGuarantee, ...] = ()

    def of(self, source: Mapping[str, Any]) -> GuaranteeRecord | None:
        """Return what a model can guarantee; None where the entries are of other models."""
        return next((entry.record for entry in self.heads if entry.source == source), None)


def read_guarantees(run: Path) -> RunGuarantees:
    """Return the guarantees of a run; none where there is no such file, as an earlier version left none.

    Args:
        run: Folder of the run.

    Raises:
        InputError: The file cannot be read, or holds something else.

    Example:
        >>> read_guarantees(Path("a run of an earlier version")).heads
        ()
    """
    path = run / RUN_GUARANTEES
    if not path.exists():
        return RunGuarantees()
    try:
        return RunGuarantees.model_validate(read_json(path))
    except (OSError, ValueError, ValidationError) as error:
        raise InputError(
            f"{path} cannot be read as the guarantees of a run ({error}). Remove it, and continue the run "
            "with --resume, which computes them again."
        ) from error


def possible_guarantee(job: Job[Any, Any, Any]) -> str:
    """Return a sentence on the best guarantee that the held-out part allows, before any head is trained.

    Args:
        job: Job on the run, with a selection part.
    """
    judge_by = _judge_of(job).application.judge
    groups = judge_by.groups(job.data, held_out_names(job))
    units = len(set(groups.values()))
    # A map is seldom right in every pixel, so that its share of wrong ones needs the bound for groups.
    is_binomial = units == len(groups) and judge_by.refers_classes
    noun = judge_by.judged if units == len(groups) else f"groups of {judge_by.judged}"
    if job.has_real_targets:
        largest = [one for one in COVERAGES if groups_needed(one) <= units]
        checked = f"intervals of up to {100 * largest[-1]:g} %" if largest else "no intervals"
        return f"{units} {noun} are held out: they can check {checked}"
    if job.has_several_labels:
        return f"{units} {noun} are held out, by which `predict --max-error` refers answers of each label"
    possible = [error for error in TABLE_ERRORS if units_needed(error, binomial=is_binomial) <= units]
    least = f"an error of {100 * possible[0]:g} % at best" if possible else "nothing"
    parts, more = "", "; a larger selection_fraction holds out more"
    if job.run.refitted_folds:
        folds = f"{job.run.refitted_folds} folds"
        parts = f", training examples included, judged by heads that do not see them ({folds})"
        more = ""
    return (
        f"{units} {noun} are held out{parts}: if all of them are right, they can guarantee {least} with "
        f"--max-error{_of_rarest_class(job, groups)}{more}"
    )


def _of_rarest_class(job: Job[Any, Any, Any], groups: Mapping[str, str]) -> str:
    """Return a clause on the best guarantee for the class with the fewest held-out groups; may be empty."""
    if not job.application.judge.refers_classes:
        return ""
    examples = job.data.manifest.select(held_out_names(job))
    units = Counter(label for label, _ in {(example.label, example.group) for example in examples})
    names = job.data.manifest.class_names
    label = min(range(len(names)), key=lambda place: units[place])
    is_binomial = len(set(groups.values())) == len(groups)
    possible = [error for error in TABLE_ERRORS if units_needed(error, binomial=is_binomial) <= units[label]]
    least = f"{100 * possible[0]:g} %" if possible else "no share"
    return f", and of {names[label]} ({units[label]} held out), {least} missed at best"


def _judge_of(job: Job[Any, Any, Any]) -> Job[Any, Any, Any]:
    """Return the job with the judge that needs no setting, if the application has several judges."""
    if (judge_for := job.application.judge_for) is None:
        return job
    return replace(job, application=replace(job.application, judge=judge_for(None, job.data)))


def keep_guarantee(job: Job[Any, Any, Any], head: str, model: HybridModel) -> None:
    """Compute what a trained head can guarantee from the held-out examples, and write it to the run.

    What is known of a head whose weights and temperatures have not changed is kept. Where an application has
    several judges, the one that judges without any setting is asked.

    Args:
        job: Job on the run and the data that it is trained with.
        head: Name of the head.
        model: The head with its network, as it is written; its temperature is put back.

    Raises:
        InputError: The guarantees of an earlier command are damaged.
    """
    if not job.splits.selection:
        return
    job = _judge_of(job)
    temperature, of_pools = job.run.temperature_of(head), job.run.pool_temperatures.get(head, {})
    source, known = model_source(job, head, temperature, of_pools), read_guarantees(job.folder)
    record, held_out = known.of(source), head_folder(job.folder, head) / HELD_OUT
    if record is None or (record.units and not _is_readable(held_out)):
        before = model.head.prediction_temperature
        model.set_temperature(before if temperature is None else temperature)
        method = replace(
            predictor(head_family(head).title, model),
            head=head,
            temperature=temperature,
            pool_temperatures=of_pools,
        )
        record, predicted = _record(job, method, source)
        model.set_temperature(before)
        if predicted is not None:
            predicted.write(held_out)
        others = (entry for entry in known.heads if entry.source.get("head") != head)
        kept = RunGuarantees(heads=(*others, HeadGuarantee(source=source, record=record)))
        write_text(job.folder / RUN_GUARANTEES, kept.model_dump_json(indent=1) + "\n")
    least = f"{100 * record.thresholds[0][0]:g} %" if record.thresholds else "none"
    judged_by = f"by the {record.units} {record.noun} that were held out"
    job.say(f"Least error that the {head} head can guarantee for --max-error, {judged_by}: {least}")


def _is_readable(held_out: Path) -> bool:
    """Whether a head's predictions for the held-out part exist and are valid."""
    try:
        read_held_out(held_out)
    except InputError:
        return False
    return True


def _record(
    job: Job[Any, Any, Any], method: Predictor, source: dict[str, Any]
) -> tuple[GuaranteeRecord, HeldOut | None]:
    judge_by = job.application.judge
    groups = judge_by.groups(job.data, held_out_names(job))
    held_out = held_out_errors(job, method)
    errors = held_out.by(groups, judge_by.judged)
    found = method_guarantees(errors, None, judged_noun=judge_by.judged, max_errors=(), source=source)
    return GuaranteeRecord.of(found), held_out.held_out(groups)


@dataclass
class ClassCollector:
    """Collects the class probabilities that a method predicts."""

    _rows: list[tuple[str, int, FloatArray]] = field(default_factory=list)

    def add(self, example: JudgedExample, outputs: Outputs) -> None:
        """Add an example and its probabilities; of two classes a method may give the second one's only."""
        found = np.asarray(outputs["probability"], np.float64)
        probability = found if found.ndim else np.array([1.0 - found, found])
        self._rows.append((example.name, int(example.truth), probability))

    def classes(self) -> JudgedClasses:
        """Return what was collected."""
        names, truth, probability = zip(*self._rows, strict=True)
        return JudgedClasses(names, np.array(truth), np.stack(probability))


@dataclass
class ReferralCollector:
    """Collects what referral needs to know about each example that a method predicts.

    Attributes:
        judge_by: Knows the uncertainty and the error of an example.
    """

    judge_by: Judge[Any]
    _rows: list[tuple[str, float, float]] = field(default_factory=list)
    _classes: ClassCollector = field(default_factory=ClassCollector)

    def add(self, example: JudgedExample, outputs: Outputs) -> None:
        """Add an example and a method's prediction for it."""
        found = self.judge_by.referral(example, outputs)
        if found is not None:
            self._rows.append((example.name, *found))
            if self.judge_by.refers_classes:
                self._classes.add(example, outputs)

    def errors(self) -> ReferralErrors:
        """Return uncertainties and errors of the examples added so far."""
        names = tuple(name for name, *_ in self._rows)
        values = np.array([row[1:] for row in self._rows], np.float64).reshape(-1, 2)
        if not (names and self.judge_by.refers_classes):
            return ReferralErrors(names, values[:, 0], values[:, 1])
        said = self._classes.classes()
        return ReferralErrors(names, values[:, 0], values[:, 1], said.truth, said.probability)


def model_source(
    job: Job[Any, Any, Any],
    head: str,
    temperature: float | None,
    pool_temperatures: Mapping[str, float],
    weights_sha256: str | None = None,
) -> dict[str, Any]:
    """Return what distinguishes a head of a run from all others: its name, temperatures and weights.

    Args:
        job: Job on the run.
        head: Name of the head.
        temperature: Temperature of its predictions; None for none.
        pool_temperatures: Temperatures of its pools; those of a run without any are not mentioned.
        weights_sha256: Checksum of its weights, where it is known already.
    """
    digest = weights_sha256 or file_sha256(head_folder(job.folder, head) / BEST)
    of_pools = {"pool_temperatures": dict(pool_temperatures)} if pool_temperatures else {}
    return {"head": head, "temperature": temperature, **of_pools, "weights_sha256": digest}


def held_out_errors(job: Job[Any, Any, Any], method: Predictor) -> ReferralErrors:
    """Return the errors of a head on the held-out examples; in a fold, those of the head trained without it.

    Args:
        job: Job on the run and the data that it was trained with.
        method: The head, with its temperatures or without.

    Raises:
        InputError: A fold has no such head, or it is damaged.
    """
    judge_by = job.application.judge
    collector = ReferralCollector(judge_by)
    parts = [(method, job.splits.selection)]
    folds = trained_folds(job)
    sharpness = job.run.fold_sharpness.get(method.head or "", (1.0,) * len(folds))
    parts += [
        (_on_fold(fold, method, by), fold.splits.test) for fold, by in zip(folds, sharpness, strict=True)
    ]
    for judged, names in parts:
        examples: Iterable[JudgedExample] = track(
            judge_by.examples(job.data, names),
            f"{method.title}: guarantees",
            total=judge_by.count(job.data, names),
            console=job.console,
            transient=True,
            disable=not job.console.is_terminal,
        )
        for example in examples:
            collector.add(example, judge_by.outputs(judged, example))
    return collector.errors()


def _on_fold(fold: Job[Any, Any, Any], method: Predictor, sharpness: float) -> Predictor:
    """Return the head of a fold, as sure as a head of the run is with its temperatures."""
    if method.head is None:
        raise TypeError(f"{method.title} is no head of the run.")
    model = load_model(fold, method.head)
    temperature = 1.0 if method.temperature is None else method.temperature
    model.set_temperature(temperature / sharpness)
    return replace(predictor(method.title, model), pool_temperatures=method.pool_temperatures)
