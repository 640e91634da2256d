"""What `measure predict` makes of one image: a line of the table."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from pydantic import BaseModel, ConfigDict

from data_prep.errors import InputError
from data_prep.files.depth import read_at_levels
from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.fitting import fit_image
from data_prep.measure.scale import TargetScale
from gpmodels.statistics.conformal import groups_needed
from pipelines.bundles.image_preprocessing import ImagePreprocessing
from pipelines.bundles.line_rules import LineRules
from pipelines.bundles.metadata import Metadata
from pipelines.bundles.prediction import bundle_preprocessing
from pipelines.bundles.prediction_lines import PredictionLine, familiarity_fields, printable
from pipelines.bundles.saved_model import Signature
from pipelines.bundles.sources import Source, print_outside_levels
from pipelines.bundles.step import FinishedPrediction, PredictStep, files_with
from pipelines.bundles.unreadable import reading, run_signature
from pipelines.measure.settings import APPLICATION, PredictSettings
from pipelines.scores.costs import REFER
from pipelines.scores.guarantee_thresholds import SelectiveErrors, referral_threshold
from pipelines.scores.held_out import HELD_OUT
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
            referred=is_wide or (self.largest_sd is not None and sd > self.largest_sd),
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
    largest_sd, note = None, ""
    held_out = HeldOutNumbers.read(bundle / HELD_OUT)
    widening = held_out.factor(settings.coverage) / held_out.factor(COVERAGES[SHOWN])
    groups, needed = len(np.unique(held_out.unit)), groups_needed(settings.coverage)
    if groups < needed:
        note = (
            f"Warning: intervals of {100 * settings.coverage:g} % take {needed} held-out groups, but the "
            f"bundle has {groups}: they reach as far as its largest held-out error, and may hold fewer."
        )
    if settings.tolerance is not None:
        largest_sd = _largest_sd(held_out, found.scale, settings, metadata)
    return NumberPredictor(
        signature, metadata.network_size, found, widening, largest_sd, settings.max_width, note
    )


def _largest_sd(
    held_out: HeldOutNumbers, scale: TargetScale, settings: PredictSettings, metadata: Metadata
) -> float:
    """Return the largest standard deviation with which errors are small as often as is asked for.

    Raises:
        InputError: The held-out data cannot guarantee it.
    """
    mean, sd = scale.moments(held_out.mean, held_out.deviation)
    max_error = 0.05 if settings.max_error is None else settings.max_error
    is_off = np.abs(mean - scale.in_unit(held_out.truth)) > (settings.tolerance or 0.0)
    found = referral_threshold(SelectiveErrors(sd, is_off.astype(np.float64), held_out.unit), max_error)
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
        done.console.print(done.predictor.note, markup=False, soft_wrap=True)
    if (limit := done.predictor.largest_sd) is not None:
        done.console.print(
            f"Referred above a standard deviation of {limit:.4g}, by the guarantee", markup=False
        )


MEASURE_PREDICTION = PredictStep(
    application=APPLICATION,
    judged="images",
    line_class=lambda _: NumberPrediction,
    make=make_predictor,
    find=files_with(IMAGE_SUFFIXES, "image"),
    finish=_finish,
)
