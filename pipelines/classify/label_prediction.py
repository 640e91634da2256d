"""What `classify predict` makes of one image with several yes/no labels: a line of the table."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, Field

from data_prep.errors import InputError
from data_prep.files.depth import read_at_levels
from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.fitting import fit_image
from pipelines.bundles.line_rules import NO_RULES, LineRules
from pipelines.bundles.metadata import Metadata, load_metadata
from pipelines.bundles.prediction import bundle_preprocessing
from pipelines.bundles.prediction_lines import (
    PredictionLine,
    cost_fields,
    familiarity_fields,
    printable,
    probability_column,
)
from pipelines.bundles.preprocessing import ImagePreprocessing
from pipelines.bundles.runtime_settings import RuntimeSettings
from pipelines.bundles.runtimes import Signature
from pipelines.bundles.sources import Source, print_outside_levels
from pipelines.bundles.step import FinishedPrediction, PredictStep, files_with
from pipelines.bundles.unreadable import reading, run_signature
from pipelines.classify.prediction import CLASSIFY_PREDICTION
from pipelines.classify.settings import SEVERAL_LABELS, PredictSettings
from pipelines.command.console import say
from pipelines.command.referral import FamiliaritySettings
from pipelines.scores.costs import REFER, CostTable, given_label_costs
from pipelines.scores.definitions import format_share
from pipelines.scores.held_out import HELD_OUT
from pipelines.scores.labels import HeldOutLabels, answer_uncertainty

_OF_CLASSES = ("refer", "refer_above", "max_false", "coverage", "by")


class LabelPredictSettings(RuntimeSettings, FamiliaritySettings):
    """Settings of `classify predict` that go with several labels."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_error: float | None = Field(
        default=None, description="As `PredictSettings`, of the answers of each label."
    )
    costs: dict[str, CostTable] = Field(
        default={},
        description="What mistakes about each label cost; empty decides for the more probable answer.",
    )


def decision_column(label_name: str) -> str:
    """Return the name of the column with the answer of a label."""
    return f"decision of {label_name}"


@dataclass(frozen=True)
class LabelPrediction(PredictionLine):
    """A line of `predictions.csv`; `referred` says whether the answer of any label is.

    Attributes:
        probability: Of yes, of every label by name; the cells are `probability of <label>`.
        decision: `yes`, `no` or `refer` of every label; the cells are `decision of <label>`.
    """

    names_classes: ClassVar[bool] = True

    probability: dict[str, float] = field(default_factory=dict)
    decision: dict[str, str] = field(default_factory=dict)

    @classmethod
    def columns(cls, class_names: Iterable[str] = (), rules: LineRules = NO_RULES) -> list[str]:
        """Return the names of the cells in the order of the table, two for each label."""
        names = tuple(class_names)
        return [*super().columns(names, rules), *map(decision_column, names)]

    def ruled(self, rules: LineRules) -> Self:
        """Return this line as `PredictionLine.ruled` does; all answers on what is unfamiliar are referred."""
        line = super().ruled(rules)
        if line.unfamiliar and not rules.keep_unfamiliar:
            line = replace(line, decision=dict.fromkeys(line.decision, REFER))
        return line

    def cells(self) -> dict[str, object]:
        """Return the value of each column by its name, two for each label among them."""
        cells = super().cells()
        del cells["probability"], cells["decision"]
        cells |= {probability_column(name): value for name, value in self.probability.items()}
        return cells | {decision_column(name): value for name, value in self.decision.items()}


@dataclass(frozen=True)
class LabelPredictor:
    """Predicts files with a bundle.

    Attributes:
        signature: `serving_default` of the bundle.
        size: The network's height and width.
        label_names: Names of the labels.
        images: How training images were read and got that size.
        limits: Largest uncertainty of an answer that is kept, by the name of its label; infinite to keep all.
        costs: What mistakes about each label cost; empty where the more probable answer is given.
        said: What to say of the guarantees.
    """

    signature: Signature
    size: tuple[int, int]
    label_names: tuple[str, ...]
    images: ImagePreprocessing
    limits: dict[str, float]
    costs: dict[str, CostTable]
    said: tuple[str, ...]

    def __call__(self, source: Source) -> Iterator[LabelPrediction]:
        """The line of a file.

        Raises:
            UnreadableSourceError: The file cannot be read.
        """
        with reading():
            image = read_at_levels(source.path, self.images.levels)
        started = time.perf_counter()
        fitted = fit_image(image, self.size, self.images.fit)
        outputs = run_signature(self.signature, fitted, str(source.path))
        found = outputs["probability"]
        answers = dict(zip(self.label_names, ("yes" if one > 0.5 else "no" for one in found), strict=True))
        for name, uncertainty in zip(self.label_names, answer_uncertainty(found), strict=True):
            if uncertainty > self.limits[name]:
                answers[name] = REFER
        probability = dict(zip(self.label_names, found.tolist(), strict=True))
        for name, table in self.costs.items():
            both = (1.0 - probability[name], probability[name])
            answers[name] = str(cost_fields(table, both, referred=False)["decision"])
        yield LabelPrediction(
            file=printable(str(source.path)),
            referred=REFER in answers.values(),
            probability=probability,
            decision=answers,
            **familiarity_fields(float(outputs["familiarity"]) if "familiarity" in outputs else None),
            seconds=time.perf_counter() - started,
        )


def make_predictor(
    signature: Signature,
    metadata: Metadata,
    bundle: Path,
    settings: LabelPredictSettings,
    out: Path,  # noqa: ARG001 - other applications write files
) -> LabelPredictor:
    """Return what predicts with an opened bundle, here or on a worker of a cluster.

    Raises:
        InputError: The bundle does not say how images are fitted, or can guarantee nothing of any label.
    """
    names = metadata.class_names
    limits = dict.fromkeys(names, float("inf"))
    said: tuple[str, ...] = ()
    if settings.max_error is not None:
        limits, said = _limits(HeldOutLabels.read(bundle / HELD_OUT), names, settings.max_error)
    images = bundle_preprocessing(metadata, bundle, ImagePreprocessing)
    return LabelPredictor(signature, metadata.network_size, names, images, limits, settings.costs, said)


def _limits(
    held_out: HeldOutLabels, names: Sequence[str], max_error: float
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the largest uncertainty of each label's kept answers, and what to say of it.

    Raises:
        InputError: Nothing can be guaranteed of any label.
    """
    found = dict(zip(names, held_out.thresholds(max_error), strict=True))
    reasons = [f"{name}: {one.reason}" for name, one in found.items() if one.threshold is None]
    if len(reasons) == len(names):
        raise InputError(
            f"--max-error {max_error:g} can be guaranteed of no label ({'; '.join(reasons)}). Prepare more "
            "data and train with a larger selection_fraction, or allow a larger share."
        )
    kept = [f"{name} {format_share(one.kept)}" for name, one in found.items() if one.threshold is not None]
    said = (
        f"Answers are referred until at most {format_share(max_error)} of the kept ones of each label are "
        "wrong, with 95 % confidence for all labels together, if images are like those held out. Of these "
        f"would be kept: {', '.join(kept)}"
    )
    warning = f"Warning: nothing can be guaranteed, and all answers are referred, of {'; '.join(reasons)}"
    limits = {name: -1.0 if one.threshold is None else one.threshold for name, one in found.items()}
    return limits, (said, warning) if reasons else (said,)


def _finish(done: FinishedPrediction[LabelPredictor, LabelPrediction]) -> None:
    """Say which images have other levels than the training's, and what is guaranteed."""
    print_outside_levels(done.sources, done.predictor.images.levels, done.console)
    for text in done.predictor.said:
        say(done.console, text)
    for name in done.predictor.costs:
        counts = Counter(line.decision[name] for line in done.lines if line.decision)
        listed = ", ".join(f"{number} {answer}" for answer, number in counts.most_common())
        say(done.console, f"Decided by the costs of {name}: {listed}")


LABEL_PREDICTION = PredictStep(
    application=SEVERAL_LABELS,
    judged="images",
    line_class=lambda _: LabelPrediction,
    make=make_predictor,
    find=files_with(IMAGE_SUFFIXES, "image"),
    finish=_finish,
)


def predict_classes_or_labels(settings: PredictSettings, *, model: Path, **options: Any) -> Any:
    """Predict files with a bundle of classes or of several labels; arguments and errors as `PredictStep`."""
    metadata, console = load_metadata(model), options["console"]
    if metadata.application != SEVERAL_LABELS:
        return CLASSIFY_PREDICTION(settings, model=model, **options)
    shares = [limit.share for limit in settings.max_error if limit.class_name is None]
    given = [
        *(f"--{name.replace('_', '-')}" for name in _OF_CLASSES if getattr(settings, name) not in (None, ())),
        *(["--max-error CLASS=SHARE"] if len(shares) < len(settings.max_error) else []),
    ]
    if given:
        raise InputError(
            f"{', '.join(given)} cannot be used: {model} predicts several labels an image, not one class. "
            "Predict without. --max-error SHARE and --costs decide which answers of each label are referred."
        )
    if shares and settings.costs is not None:
        raise InputError(
            "--costs refer more than a guarantee does, and of the rest a larger share may be wrong than was "
            "guaranteed. Pass --costs or --max-error."
        )
    tell = partial(say, console)
    costs = given_label_costs(settings, metadata.class_names, tell) or metadata.label_costs
    if shares and costs:
        tell("The costs of the bundle are left out beside what is guaranteed")
    own = LabelPredictSettings(
        keep_unfamiliar=settings.keep_unfamiliar,
        runtime=settings.runtime,
        max_error=shares[0] if shares else None,
        costs={} if shares else costs,
    )
    return LABEL_PREDICTION(own, model=model, **options)
