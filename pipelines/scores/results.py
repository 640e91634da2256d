"""The results of one method on one test set, and how results are compared.

The caller goes through the test set once per method, makes one record per image, and hands over the list;
nothing else is kept of an image. The few images that a report shows are read again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

import numpy as np
import psutil

from pipelines.scores.bootstrap import RESAMPLES, PairedDifference, paired_bootstrap
from pipelines.scores.calibration import ReliabilityDiagram, reliability_diagram
from pipelines.scores.classification import (
    CLASSIFICATION_SCORES,
    ClassificationRecord,
    classification_statistics,
)
from pipelines.scores.cost_results import CostResults
from pipelines.scores.definitions import FloatArray, Score, Statistics, ratio
from pipelines.scores.guarantees import MethodGuarantees
from pipelines.scores.segmentation import (
    SEGMENTATION_SCORES,
    SegmentationRecord,
    image_counts,
    segmentation_statistics,
)
from pipelines.scores.shifts import ShiftedScores
from pipelines.scores.uncertainty import PREDICTIVE_ENTROPY, RiskCoverageCurve, risk_coverage_curve
from pipelines.scores.unfamiliar_scores import UnfamiliarResult

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

FEW_EXAMPLES = 20
"""With fewer test examples than this, reports warn."""

_FEW_SELECTED = 30
"""With fewer selection examples than this, reports warn."""

_MUCH_SELECTED = 2.0
"""With so many times the selection examples that were asked for, training warns."""


@dataclass(frozen=True)
class MethodResult:
    """How one method did on a test set.

    Attributes:
        name: Name in tables, for example "HGP".
        statistics: The rows that all numbers come from.
        definitions: What the scores are.
        scores: Value of each score by its key; NaN where it is undefined.
        counts: Numbers of examples, predictions and special cases.
        seconds_per_image: Prediction time, where it was measured.
        peak_memory_bytes: The largest resident memory that the process had until this method was judged,
            where it was measured. It includes all methods before, so it compares no methods.
        details: Further facts about this method, for example the fitted temperature.
    """

    name: str
    statistics: Statistics
    definitions: tuple[Score, ...]
    scores: Mapping[str, float]
    counts: Mapping[str, int]
    seconds_per_image: float | None = None
    peak_memory_bytes: int | None = None
    details: Mapping[str, float | int | str] = field(default_factory=dict)

    def total(self, key: str) -> FloatArray:
        """Return one quantity summed over all examples."""
        total: FloatArray = self.statistics.sums()[key][0]
        return total

    def confusion(self) -> FloatArray:
        """Return the numbers of predictions `[C, C]`, rows true class, columns predicted class."""
        return self.total("confusion")

    def recalls(self) -> FloatArray:
        """Return the recall of each class `[C]`; NaN for a class without examples."""
        confusion = self.confusion()
        return ratio(np.diagonal(confusion), confusion.sum(axis=1))

    def reliability(self) -> ReliabilityDiagram:
        """Return the reliability diagram of all predictions."""
        return reliability_diagram(
            *(self.total(f"calibration/{key}") for key in ("count", "confidence", "correct"))
        )

    def uncertainty_counts(self, measure: str = PREDICTIVE_ENTROPY) -> tuple[FloatArray, FloatArray] | None:
        """Return right and wrong predictions `[bins]` by ascending uncertainty; None if not recorded."""
        if f"{measure}/right" not in self.statistics.sparse:
            return None
        return self.total(f"{measure}/right"), self.total(f"{measure}/wrong")

    def risk_coverage(self) -> RiskCoverageCurve | None:
        """Return the risk-coverage curve by predictive entropy; None if the method has no entropy."""
        counts = self.uncertainty_counts()
        return None if counts is None else risk_coverage_curve(*counts)


class Measured(TypedDict, total=False):
    """What is known of a method besides its records; see `MethodResult`."""

    seconds_per_image: float
    peak_memory_bytes: int
    details: Mapping[str, float | int | str]


def segmentation_result(
    name: str, records: Sequence[SegmentationRecord], **measured: Unpack[Measured]
) -> MethodResult:
    """Return the result of a segmentation method from its records; arguments as `MethodResult`.

    Raises:
        ValueError: There are no records, or two have one name.
    """
    statistics = segmentation_statistics(records)
    values = score_values(SEGMENTATION_SCORES, statistics)
    return MethodResult(name, statistics, SEGMENTATION_SCORES, values, image_counts(statistics), **measured)


def classification_result(
    name: str, records: Sequence[ClassificationRecord], **measured: Unpack[Measured]
) -> MethodResult:
    """Return the result of a classification method from its records; arguments as `MethodResult`.

    Raises:
        ValueError: There are no records, or two have one name.
    """
    statistics = classification_statistics(records)
    values = score_values(CLASSIFICATION_SCORES, statistics)
    counts = {"examples": len(records), "predictions": int(statistics.dense["count"].sum())}
    return MethodResult(name, statistics, CLASSIFICATION_SCORES, values, counts, **measured)


def score_values(definitions: Sequence[Score], statistics: Statistics) -> dict[str, float]:
    """Return every score of a test set by its key, NaN where it is undefined."""
    sums = statistics.sums()
    return {score.key: float(score.from_sums(sums)[0]) for score in definitions}


@dataclass(frozen=True)
class Comparison:
    """How a method differs from a baseline on the same examples.

    Attributes:
        method: Name of the method.
        baseline: Name of the baseline.
        differences: The method's score minus the baseline's, by the key of the score.
    """

    method: str
    baseline: str
    differences: Mapping[str, PairedDifference]


def compare(
    method: MethodResult,
    baselines: Sequence[MethodResult],
    score_keys: Sequence[str] | None = None,
    *,
    groups: Mapping[str, str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Comparison]:
    """Compare a method with each of several baselines by paired bootstrap.

    Args:
        method: The method whose differences are wanted.
        baselines: The methods it is compared with, evaluated on the same examples.
        score_keys: Keys of the scores to compare; those of short tables by default.
        groups: The group of each example by name, resampled as a whole; None makes each example a group.
        resamples: How many resamples to draw.
        seed: Seed of the draws.

    Raises:
        ValueError: A score is unknown, or the examples differ.
    """
    definitions = {score.key: score for score in method.definitions}
    keys = [score.key for score in method.definitions if score.headline] if score_keys is None else score_keys
    unknown = [key for key in keys if key not in definitions]
    if unknown:
        raise ValueError(f"unknown score '{unknown[0]}'; there are: {', '.join(definitions)}")
    scores = [definitions[key] for key in keys]
    of_examples = None if groups is None else [groups[name] for name in method.statistics.names]
    draws: dict[str, Any] = {"groups": of_examples, "resamples": resamples, "seed": seed}
    return [
        Comparison(
            method.name, other.name, paired_bootstrap(method.statistics, other.statistics, scores, **draws)
        )
        for other in baselines
    ]


@dataclass(frozen=True)
class Evaluation:
    """What one run of `evaluate` found out: the content of its metrics file, tables and report.

    Attributes:
        application: Name of the application, for example "lane".
        results: The methods on the same examples, the baselines first.
        comparisons: The main method against the others.
        settings: How the models were trained; values that JSON has, nested or not.
        data: What they were judged on: names, counts, sizes.
        warnings: What a reader must know; `caveats` of the results are added to them.
        class_names: Names of the classes that the report tells apart; empty where that says nothing new.
        guarantees: What each method can guarantee of its errors, by its name.
        no_guarantee: Why no method guarantees anything; empty where some do.
        unfamiliar: How well each method tells images of another kind, by its name; empty if none were given.
        shifted: How each method does on shifted images, by its name; empty if none were judged.
        costs: What the decisions of each method cost; None if no costs were given.
        label_guarantees: What the main method can guarantee of several labels, by the name of each.
        label_costs: What decisions about several labels cost, by the name of each; empty without costs.
        choice: Which head to take, in a sentence; empty of a run that does not say.
        chosen: Name of the method of that head; empty where there is none.
    """

    application: str
    results: tuple[MethodResult, ...]
    comparisons: tuple[Comparison, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    data: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    guarantees: Mapping[str, MethodGuarantees] = field(default_factory=dict)
    no_guarantee: str = ""
    unfamiliar: Mapping[str, UnfamiliarResult] = field(default_factory=dict)
    shifted: Mapping[str, tuple[ShiftedScores, ...]] = field(default_factory=dict)
    costs: CostResults | None = None
    label_guarantees: Mapping[str, MethodGuarantees] = field(default_factory=dict)
    label_costs: Mapping[str, CostResults] = field(default_factory=dict)
    choice: str = ""
    chosen: str = ""

    def __post_init__(self) -> None:
        names = [result.name for result in self.results]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"an evaluation needs methods of different names, found {names}")
        if any(result.definitions is not self.results[0].definitions for result in self.results):
            raise ValueError("the methods of one evaluation must have the same scores")
        if len({(comparison.method, *comparison.differences) for comparison in self.comparisons}) > 1:
            raise ValueError("the comparisons of one evaluation must be of one method, by the same scores")

    @property
    def definitions(self) -> tuple[Score, ...]:
        """Return what the scores are."""
        return self.results[0].definitions

    @property
    def headline(self) -> tuple[Score, ...]:
        """Return the scores of short tables."""
        return tuple(score for score in self.definitions if score.headline)

    @property
    def main(self) -> MethodResult:
        """Return the result that comparisons and pictures are of: the chosen method's, or the last one."""
        return main_result(self.results, self.chosen)

    @property
    def chosen_guarantees(self) -> tuple[str, MethodGuarantees] | None:
        """Return name and guarantees of the chosen method, or of the last one that gives any; or None."""
        if self.chosen in self.guarantees:
            return self.chosen, self.guarantees[self.chosen]
        return list(self.guarantees.items())[-1] if self.guarantees else None

    @property
    def all_costs(self) -> Mapping[str, CostResults]:
        """Return what decisions cost, by the name of the label; of classes the name is empty."""
        return self.label_costs if self.costs is None else {"": self.costs}

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """Return the caller's warnings and the caveats of the results."""
        return (*self.warnings, *caveats(self.results))


def main_result(results: Sequence[MethodResult], chosen: str) -> MethodResult:
    """Return the result of the chosen method, or the last one where none of the names is chosen."""
    return next((result for result in results if result.name == chosen), results[-1])


def caveats(results: Sequence[MethodResult]) -> tuple[str, ...]:
    """Return what a reader should know about scores that conventions or small numbers decided.

    Args:
        results: Results of methods on the same examples.
    """
    counts, examples = results[0].counts, len(results[0].statistics.names)
    notes = []
    if ignored := counts.get("images_all_ignored"):
        notes.append(f"{_of(ignored, examples)} every pixel ignored; no score counts that.")
    if empty := counts.get("images_no_true_lane"):
        notes.append(
            f"{_of(empty, examples)} no lane in the truth. Such an image counts 1 in recall, precision, "
            "F-measure and IoU if none is predicted in it either, and 0 otherwise."
        )
    for result in results:
        nothing_found = result.counts.get("images_no_predicted_lane", 0)
        if missed := nothing_found - result.counts.get("images_no_lane_in_either", 0):
            notes.append(f"{result.name} finds no lane at all in {missed} of the images that have one.")
        uncertainty = result.uncertainty_counts()
        if uncertainty is not None and not uncertainty[1].any():
            notes.append(f"{result.name} makes no mistake: how well its uncertainty finds them is undefined.")
    if examples < FEW_EXAMPLES:
        notes.append(f"With only {examples} test examples every score, range and p-value is rough.")
    return tuple(notes)


def selection_warnings(num_selected: int) -> tuple[str, ...]:
    """Return a warning where few examples chose the best epochs and fitted the temperature.

    Args:
        num_selected: The number of these examples.
    """
    if not 0 < num_selected < _FEW_SELECTED:
        return ()
    warning = (
        f"So few selection examples ({num_selected}) leave the best epochs and the temperature of the linear "
        "head to chance, and that may do harm. Train with a larger selection_fraction, or let `prepare` keep "
        "fewer examples to judge by."
    )
    return (warning,)


def much_selected_warnings(num_selected: int, num_trained: int, asked: float) -> tuple[str, ...]:
    """Return a warning where so few groups made the selection part much larger than asked for.

    Args:
        num_selected: Number of examples that choose the best epochs.
        num_trained: Number of examples that the training is fitted to.
        asked: Share of both that was to be selected.

    Example:
        >>> much_selected_warnings(15, 85, 0.15), len(much_selected_warnings(22, 23, 0.15))
        ((), 1)
    """
    share = num_selected / (num_selected + num_trained)
    if share <= _MUCH_SELECTED * asked:
        return ()
    warning = (
        f"{num_selected} of {num_selected + num_trained} training examples ({share:.0%}) choose the best "
        f"epoch, not {asked:.0%}, for there are few groups. More and smaller groups leave more to train on."
    )
    return (warning,)


def _of(count: int, examples: int) -> str:
    return f"{count} of {examples} images {'has' if count == 1 else 'have'}"


def peak_memory_bytes() -> int:
    """Return the largest resident memory that this process has had so far."""
    if resource is None:
        return int(psutil.Process().memory_info().peak_wset)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
