"""The results of one method on one test set, and what results are compared and shown by.

The caller goes through the test set once per method, makes one record per image, and hands over the list;
nothing else is kept of an image. What is drawn of an image in the report is read again, for the few names
`select_gallery` picks.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipelines.bootstrap import RESAMPLES, PairedDifference, paired_bootstrap
from pipelines.calibration import ReliabilityDiagram, reliability_diagram
from pipelines.classification_scores import (
    CLASSIFICATION_SCORES,
    ClassificationRecord,
    classification_statistics,
)
from pipelines.scores import FloatArray, Score, Statistics, ratio
from pipelines.segmentation_scores import (
    SEGMENTATION_SCORES,
    SegmentationRecord,
    image_counts,
    segmentation_statistics,
)
from pipelines.uncertainty_scores import PREDICTIVE_ENTROPY, RiskCoverageCurve, risk_coverage_curve

FEW_EXAMPLES = 20
_FEW_SELECTED = 30
"""With fewer test examples than this, reports warn."""


@dataclass(frozen=True)
class MethodResult:
    """How one method did on a test set.

    Args:
        name: as in tables, for example "HGP".
        statistics: the rows all numbers come from.
        definitions: what the scores are.
        scores: score key to value; NaN where undefined.
        counts: of examples, predictions and special cases.
        seconds_per_image: prediction time, where measured.
        peak_memory_bytes: the process' largest resident memory, where measured.
        details: further facts of this method, for example the fitted temperature.
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
        """One quantity summed over all examples."""
        total: FloatArray = self.statistics.sums()[key][0]
        return total

    def confusion(self) -> FloatArray:
        """Numbers of predictions ``[C, C]``, rows true class, columns predicted class."""
        return self.total("confusion")

    def recalls(self) -> FloatArray:
        """Recall of each class ``[C]``; NaN for a class without examples."""
        confusion = self.confusion()
        return ratio(np.diagonal(confusion), confusion.sum(axis=1))

    def reliability(self) -> ReliabilityDiagram:
        """The reliability diagram over all predictions."""
        return reliability_diagram(
            self.total("calibration/count"),
            self.total("calibration/confidence"),
            self.total("calibration/correct"),
        )

    def uncertainty_counts(self, measure: str = PREDICTIVE_ENTROPY) -> tuple[FloatArray, FloatArray] | None:
        """Right and wrong predictions ``[bins]`` by ascending uncertainty; None if it was not recorded."""
        if f"{measure}/right" not in self.statistics.sparse:
            return None
        return self.total(f"{measure}/right"), self.total(f"{measure}/wrong")

    def risk_coverage(self) -> RiskCoverageCurve | None:
        """The risk-coverage curve by predictive entropy; None if the method has none."""
        counts = self.uncertainty_counts()
        return None if counts is None else risk_coverage_curve(*counts)


def segmentation_result(
    name: str,
    records: Sequence[SegmentationRecord],
    *,
    seconds_per_image: float | None = None,
    peak_memory_bytes: int | None = None,
    details: Mapping[str, float | int | str] | None = None,
) -> MethodResult:
    """The result of a segmentation method from its records; arguments as `MethodResult`.

    Raises:
        ValueError: no records, or two of one name.
    """
    statistics = segmentation_statistics(records)
    return MethodResult(
        name,
        statistics,
        SEGMENTATION_SCORES,
        score_values(SEGMENTATION_SCORES, statistics),
        image_counts(statistics),
        seconds_per_image,
        peak_memory_bytes,
        details or {},
    )


def classification_result(
    name: str,
    records: Sequence[ClassificationRecord],
    *,
    seconds_per_image: float | None = None,
    peak_memory_bytes: int | None = None,
    details: Mapping[str, float | int | str] | None = None,
) -> MethodResult:
    """The result of a classification method from its records; arguments as `MethodResult`.

    Raises:
        ValueError: no records, or two of one name.
    """
    statistics = classification_statistics(records)
    return MethodResult(
        name,
        statistics,
        CLASSIFICATION_SCORES,
        score_values(CLASSIFICATION_SCORES, statistics),
        {"examples": len(records), "predictions": int(statistics.dense["count"].sum())},
        seconds_per_image,
        peak_memory_bytes,
        details or {},
    )


def score_values(definitions: Sequence[Score], statistics: Statistics) -> dict[str, float]:
    """Every score of a test set, NaN where undefined."""
    sums = statistics.sums()
    return {score.key: float(score.from_sums(sums)[0]) for score in definitions}


@dataclass(frozen=True)
class Comparison:
    """A method against a baseline, on the same examples.

    Args:
        method: name of the method.
        baseline: name of the baseline.
        differences: score key to the method's score less the baseline's.
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
    """Paired bootstrap of a method against each of several baselines.

    Args:
        method: whose differences are wanted.
        baselines: what it is compared with, evaluated on the same examples.
        score_keys: which scores; those of short tables by default.
        groups: group of each example by name, resampled as a whole; None takes each example for one.
        resamples: how many resamples to draw.
        seed: seed of the draws.

    Raises:
        ValueError: an unknown score, or different examples.
    """
    definitions = {score.key: score for score in method.definitions}
    keys = [score.key for score in method.definitions if score.headline] if score_keys is None else score_keys
    unknown = [key for key in keys if key not in definitions]
    if unknown:
        raise ValueError(f"unknown score '{unknown[0]}'; there are: {', '.join(definitions)}")
    scores = [definitions[key] for key in keys]
    of_examples = None if groups is None else [groups[name] for name in method.statistics.names]
    return [
        Comparison(
            method.name,
            baseline.name,
            paired_bootstrap(
                method.statistics,
                baseline.statistics,
                scores,
                groups=of_examples,
                resamples=resamples,
                seed=seed,
            ),
        )
        for baseline in baselines
    ]


@dataclass(frozen=True)
class Evaluation:
    """What one run of `evaluate` found out: the content of its metrics file, tables and report.

    Args:
        application: for example "lane".
        results: the methods, the baselines first, all on the same examples.
        comparisons: the last method against the others.
        settings: how the models were trained; values that JSON has, nested or not.
        data: what they were judged on: names, counts, sizes.
        warnings: what a reader must know; `caveats` of the results are added to them.
        class_names: of the classes that the report tells apart; none where that says nothing new.
    """

    application: str
    results: tuple[MethodResult, ...]
    comparisons: tuple[Comparison, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    data: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()

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
        """What the scores are."""
        return self.results[0].definitions

    @property
    def headline(self) -> tuple[Score, ...]:
        """The scores of short tables."""
        return tuple(score for score in self.definitions if score.headline)

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """The caller's warnings and the caveats of the results."""
        return (*self.warnings, *caveats(self.results))


def caveats(results: Sequence[MethodResult]) -> tuple[str, ...]:
    """What a reader should know about scores that conventions or small numbers decided.

    Args:
        results: of methods on the same examples.
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
    """What to say where few examples chose the best epochs and fitted the temperature.

    Args:
        num_selected: How many did.
    """
    if not 0 < num_selected < _FEW_SELECTED:
        return ()
    warning = (
        f"So few selection examples ({num_selected}) leave the best epochs and the temperature of the linear "
        "head to chance, and that may do harm. Train with a larger selection_fraction, or let `prepare` keep "
        "fewer examples to judge by."
    )
    return (warning,)


def _of(count: int, examples: int) -> str:
    return f"{count} of {examples} images {'has' if count == 1 else 'have'}"


@dataclass(frozen=True)
class GallerySelection:
    """Names of the images worth looking at.

    Args:
        best: highest F-measure first, among images with lane in the truth.
        worst: lowest F-measure first.
        most_uncertain: highest mean predictive entropy first.
    """

    best: tuple[str, ...]
    worst: tuple[str, ...]
    most_uncertain: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((*self.best, *self.worst, *self.most_uncertain)))


def select_gallery(result: MethodResult, count: int = 3) -> GallerySelection:
    """Picks the images to show of a segmentation result; equal ones in name order.

    Args:
        result: of the method whose predictions will be shown.
        count: how many of each kind.
    """
    rows = result.statistics.dense
    names = np.array(result.statistics.names)
    scored = rows["scored_images"] > 0
    has_lane = scored & (rows["pixels"][:, 1, :].sum(axis=-1) > 0)
    f_measure = rows["image_f_measure"]
    entropy = rows[f"{PREDICTIVE_ENTROPY}/total"] / np.maximum(rows["count"], 1.0)

    def first(key: FloatArray, allowed: NDArray[np.bool_]) -> tuple[str, ...]:
        candidates = np.flatnonzero(allowed)
        order = np.lexsort((names[candidates], key[candidates]))
        return tuple(names[candidates[order[:count]]].tolist())

    return GallerySelection(first(-f_measure, has_lane), first(f_measure, scored), first(-entropy, scored))


def peak_memory_bytes() -> int:
    """The largest resident memory this process has had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
