"""What `measure predict` makes of one image: a line of the table."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import BaseModel, ConfigDict

from data_prep.errors import InputError
from data_prep.files.depth import read_at_levels
from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.fitting import fit_image
from data_prep.measure.scale import TargetScale
from gpmodels.familiarity.flags import pooled_familiarity
from gpmodels.statistics.conformal import groups_needed
from pipelines.bundles.group_answers import GroupAnswering, GroupLine, familiarities
from pipelines.bundles.line_rules import LineRules
from pipelines.bundles.metadata import Metadata
from pipelines.bundles.prediction import bundle_preprocessing
from pipelines.bundles.prediction_lines import PredictionLine, familiarity_fields, printable
from pipelines.bundles.preprocessing import ImagePreprocessing
from pipelines.bundles.runtimes import Signature
from pipelines.bundles.sources import Source, print_outside_levels
from pipelines.bundles.step import FinishedPrediction, PredictStep, files_with
from pipelines.bundles.unreadable import reading, run_signature
from pipelines.command.console import say
from pipelines.measure.settings import APPLICATION, PredictSettings
from pipelines.scores.costs import REFER
from pipelines.scores.guarantee_thresholds import SelectiveErrors, referral_threshold
from pipelines.scores.held_out import HELD_OUT
from pipelines.scores.held_out_groups import (
    GROUPS_JUDGED,
    NumberPooling,
    lacking_groups,
    least_size,
    pooled_numbers,
)
from pipelines.scores.numbers import COVERAGES, SHOWN, HeldOutNumbers


class NumberPreprocessing(BaseModel):
    """What a bundle says of its images and numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    images: ImagePreprocessing
    scale: TargetScale


@dataclass(frozen=True)
class NumberPrediction(PredictionLine):
    """A line of `predictions.csv`.

    Attributes:
        mean: Predicted number.
        sd: Standard deviation of what would be measured.
        lower: Lower end of the interval.
        upper: Upper end.
        decision: `keep`, or `refer` to a person.
    """

    own_columns: ClassVar[tuple[str, ...]] = ("mean", "sd", "lower", "upper", "decision")

    mean: float | None = None
    sd: float | None = None
    lower: float | None = None
    upper: float | None = None
    decision: str | None = None

    def ruled(self, rules: LineRules) -> Self:
        """Return this line as `PredictionLine.ruled` does, with the decision that follows."""
        line = super().ruled(rules)
        return line if line.status != "ok" else replace(line, decision=REFER if line.referred else "keep")


@dataclass(frozen=True)
class NumberPredictor:
    """Predicts files with a bundle.

    Attributes:
        signature: `serving_default` of the bundle.
        size: The network's height and width.
        bundle: What it says of images and numbers.
        widening: What half of an interval of the bundle is times, for the coverage that is asked for.
        largest_sd: Largest standard deviation that the guarantee keeps; None without one.
        max_width: Largest width of an interval that is kept; None for any.
        note: What to say of the coverage; empty for nothing.
    """

    signature: Signature
    size: tuple[int, int]
    bundle: NumberPreprocessing
    widening: float
    largest_sd: float | None
    max_width: float | None
    note: str

    def __call__(self, source: Source) -> Iterator[NumberPrediction]:
        """The line of a file.

        Raises:
            UnreadableSourceError: The file cannot be read.
        """
        with reading():
            image = read_at_levels(source.path, self.bundle.images.levels)
        started = time.perf_counter()
        outputs = run_signature(
            self.signature, fit_image(image, self.size, self.bundle.images.fit), str(source.path)
        )
        scale, ends = self.bundle.scale, np.array([outputs["lower"], outputs["upper"]], np.float64)
        if scale.transform == "log":  # 32 bits may round the lower end to where there is no logarithm
            ends = np.maximum(ends, np.nextafter(np.float32(-scale.offset), np.float32(np.inf)))
        ends = scale.transformed(ends)
        # The lower end of a count's interval may be cut at 0.
        middle = float(outputs["mean"]) if scale.transform == "count" else ends.mean()
        half = self.widening * (ends[1] - middle)
        plain = (np.array([middle - half, middle + half]) - scale.centre) / scale.spread
        lower, upper = scale.in_unit(plain).tolist()
        is_wide = self.max_width is not None and upper - lower > self.max_width
        sd = float(outputs["sd"])
        yield NumberPrediction(
            file=printable(str(source.path)),
            mean=float(outputs["mean"]),
            sd=sd,
            lower=lower,
            upper=upper,
            referred=is_wide or (self.largest_sd is not None and is_above(sd, self.largest_sd)),
            **familiarity_fields(float(outputs["familiarity"]) if "familiarity" in outputs else None),
            seconds=time.perf_counter() - started,
        )


def make_predictor(
    signature: Signature,
    metadata: Metadata,
    bundle: Path,
    settings: PredictSettings,
    out: Path,  # noqa: ARG001 - other applications write files
) -> NumberPredictor:
    """Return what predicts with an opened bundle, here or on a worker of a cluster.

    Raises:
        InputError: The bundle does not say how images and numbers are made, or cannot do what is asked for.
    """
    found = bundle_preprocessing(metadata, bundle, NumberPreprocessing)
    largest_sd = None
    held_out = HeldOutNumbers.read(bundle / HELD_OUT)
    widening = held_out.factor(settings.coverage) / held_out.factor(COVERAGES[SHOWN])
    note = coverage_note(held_out, settings.coverage)
    if settings.tolerance is not None:
        largest_sd = guaranteed_sd(held_out, found.scale, settings, metadata)
    return NumberPredictor(
        signature, metadata.network_size, found, widening, largest_sd, settings.max_width, note
    )


def coverage_note(held_out: HeldOutNumbers, coverage: float) -> str:
    """Return a warning where the held-out groups are too few for intervals; empty where they are enough."""
    groups, needed = len(np.unique(held_out.unit)), groups_needed(coverage)
    if groups >= needed:
        return ""
    return (
        f"Warning: intervals of {100 * coverage:g} % take {needed} held-out groups, but the "
        f"bundle has {groups}: they reach as far as its largest held-out error, and may hold fewer."
    )


ROUNDING = 1e-6
"""Difference of two standard deviations, of their size, that the 32 bits of a bundle may make."""


def is_above(sd: float, largest: float) -> bool:
    """Return whether a standard deviation is above a held-out one, and not the same but for rounding.

    A head may have one deviation for all, which is then the largest that is kept.
    """
    return sd > largest * (1.0 + ROUNDING)


def guaranteed_sd(
    held_out: HeldOutNumbers,
    scale: TargetScale,
    settings: PredictSettings,
    metadata: Metadata,
    *,
    noun: str = "examples",
) -> float:
    """Return the largest standard deviation with which errors are small as often as is asked for.

    Args:
        held_out: Predictions of what was held out.
        scale: How numbers are standardised.
        settings: With the tolerance.
        metadata: Of the bundle.
        noun: What was held out, in the plural.

    Raises:
        InputError: The held-out data cannot guarantee it.
    """
    mean, sd = scale.moments(held_out.mean, held_out.deviation)
    max_error = settings.most_off
    is_off = np.abs(mean - scale.in_unit(held_out.truth)) > (settings.tolerance or 0.0)
    errors = SelectiveErrors(sd, is_off.astype(np.float64), held_out.unit, noun)
    found = referral_threshold(errors, max_error)
    if found.threshold is None:
        raise InputError(
            f"--tolerance {settings.tolerance} with --max-error {max_error} cannot be guaranteed: "
            f"of the held-out data of {metadata.name}, {found.reason}. Allow more, or pass --max-width."
        )
    return found.threshold


def _finish(done: FinishedPrediction[NumberPredictor, NumberPrediction]) -> None:
    """Say which images are unlike those of the training, and what is guaranteed or is not."""
    print_outside_levels(done.sources, done.predictor.bundle.images.levels, done.console)
    if done.predictor.note:
        say(done.console, done.predictor.note)
    if (limit := done.predictor.largest_sd) is not None:
        say(done.console, f"Referred above a standard deviation of {limit:.4g}, by the guarantee")


@dataclass(frozen=True)
class NumberGroupAnswer(GroupLine, NumberPrediction):
    """The number of a group."""

    own_columns = ("images", "left_out", *NumberPrediction.own_columns)


@dataclass(frozen=True)
class NumberGroupRules(GroupAnswering):
    """How groups are given a number; see `pipelines.scores.held_out_groups`.

    Attributes:
        pooling: Of the numbers of images.
        scale: How numbers are standardised.
        factor: What the standard deviation of a group is times at half the width of an interval.
        largest_sd: Largest standard deviation that the guarantee keeps; infinite without one.
        max_width: Largest width of an interval that is kept.
    """

    line_class = NumberGroupAnswer

    pooling: NumberPooling
    scale: TargetScale
    factor: float
    largest_sd: float
    max_width: float
    rules: LineRules
    usual_size: float
    least_size: int

    def answer(self, name: str, members: Sequence[NumberPrediction]) -> NumberGroupAnswer:
        """Return the answer for a group, referred where it is not that of all its images or of too few."""
        good = [line for line in members if line.status == "ok"]
        left_out = len(members) - len(good)
        if not good:
            return NumberGroupAnswer(file=name, left_out=left_out, referred=True, decision=REFER)
        moments = np.array([(line.mean, line.sd) for line in good], np.float64).T
        mean, deviation = self.pooling.pooled(*self.scale.standard_moments(*moments))
        lower, upper = self.scale.in_unit(mean + self.factor * deviation * np.array([-1.0, 1.0])).tolist()
        of_group, sd = map(float, self.scale.moments(np.asarray(mean), np.asarray(deviation)))
        found = familiarities(good)
        wrong = left_out > 0 or len(good) < self.least_size or not upper - lower <= self.max_width
        answer = NumberGroupAnswer(
            file=name,
            images=len(good),
            left_out=left_out,
            mean=of_group,
            sd=sd,
            lower=lower,
            upper=upper,
            referred=wrong or is_above(sd, self.largest_sd),
            **familiarity_fields(None if found is None else pooled_familiarity(found)),
        )
        return self.ruled(answer, good)


def number_group_rules(
    settings: PredictSettings, metadata: Metadata, *, bundle: Path, judged: str, console: Any
) -> NumberGroupRules:
    """Return how the groups of new images are given a number; arguments as `group_rules` of classes.

    Raises:
        InputError: The bundle has no held-out groups of several images, or cannot guarantee what is asked.
    """
    scale = bundle_preprocessing(metadata, bundle, NumberPreprocessing).scale
    held_out = HeldOutNumbers.read(bundle / HELD_OUT)
    if lacking := lacking_groups(held_out, f"held-out {judged} of {bundle}"):
        raise InputError(f"--by: the interval of a group cannot be found, since {lacking}")
    pooling, groups, sizes = pooled_numbers(held_out)
    say(
        console,
        f"The errors of a group's images have the correlation {pooling.correlation:.2f}, by {sizes.size} "
        f"held-out groups. {coverage_note(groups, settings.coverage)}",
    )
    is_guaranteed, largest_sd = settings.tolerance is not None, np.inf
    if is_guaranteed:
        largest_sd = guaranteed_sd(groups, scale, settings, metadata, noun=GROUPS_JUDGED)
        kept = np.mean(scale.moments(groups.mean, groups.deviation)[1] <= largest_sd)
        say(
            console,
            f"Groups are kept up to a standard deviation of {largest_sd:.4g}, as {kept:.0%} of the held-out "
            f"ones have it: at most {settings.most_off:g} of what is kept is then off by more than "
            f"{settings.tolerance:g}, with 95 % confidence",
        )
    return NumberGroupRules(
        pooling,
        scale,
        groups.factor(settings.coverage),
        largest_sd,
        np.inf if settings.max_width is None else settings.max_width,
        LineRules(metadata.least_familiarity, settings.keep_unfamiliar),
        float(sizes.mean()),
        least_size(sizes) if is_guaranteed else 0,
    )


MEASURE_PREDICTION = PredictStep(
    application=APPLICATION,
    judged="images",
    line_class=lambda _: NumberPrediction,
    make=make_predictor,
    find=files_with(IMAGE_SUFFIXES, "image"),
    group_rules=number_group_rules,
    finish=_finish,
)
