"""Which rule keeps probabilities honest on spoilt images: temperatures by how strange an image is.

    python -m benchmarks.shift_calibration --data FOLDER --out benchmarks/results/shift_calibration

Heads on a frozen EfficientNet-Lite0 are trained as in `benchmarks.honesty`, and judged without shift and
under the strongest shift of each kind (`pipelines.scores.shifts`). Held-out images, as they are and spoilt in
other ways than those that judge (gamma, colour cast, pixels, speckle), each half of the weight, fit

- one temperature T for all;
- log T = a + b max(0, log(s / median s)), b >= 0, of the distance s that familiarity is made of;
- the same of the distance of the trunk's early maps (mean and deviation of each channel), where noise and
  blur show before the network has learned to overlook them;
- the second rule from the held-out images as they are alone.

The linear head gets the same rules. FOLDER is as for `benchmarks.honesty`.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from rich.console import Console
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from benchmarks.common import host, write_results
from benchmarks.honesty.cell import ROOMS, train_settings
from benchmarks.honesty.data_sets import divided, share
from benchmarks.honesty.plan import PRETRAINED, Cell
from gpmodels.familiarity.nearest import Familiarity, refer_to
from pipelines.evaluation.evaluate import run_predictors, spread
from pipelines.histopathology.application import tissue_judge
from pipelines.runs.application import JudgedExample
from pipelines.runs.job import Job, trained_job
from pipelines.runs.train import train
from pipelines.scores.calibration import calibration_counts, expected_calibration_error
from pipelines.scores.shifts import SHIFTS, STRENGTHS, shifted
from pipelines.scores.unfamiliar_scores import FAMILIARITY_DISTANCE

SIZES = {"debris": 80, "side-scan": 80, "colon": 6, "breast": 6}
HEADS = ("linear", "svgp", "hgp")
RULES = (
    "as fitted by the run",
    "one T",
    "T by distance",
    "T by early distance",
    "T by distance, unspoilt",
)
_MOST = {"debris": 100, "side-scan": 100, "colon": 12, "breast": 12}
_TITLE = "Calibration under the strongest shift"
_EARLY_LEVEL = 1  # of the trunk's pyramid: a quarter of the image's height and width

FloatArray = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Judged:
    """Some examples as a method sees them.

    Attributes:
        probability: `{method: [N, C]}`.
        strange: Distance of the trunk's features `[N]`.
        early: Distance of its early maps `[N]`.
        truth: Labels `[N]`.
    """

    probability: dict[str, FloatArray]
    strange: FloatArray
    early: FloatArray
    truth: NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Row:
    """Scores of a rule on a method, `clean` without shift, `shifted` under the strongest, mean over kinds."""

    subject: str
    seed: int
    method: str
    rule: str
    clean_nll: float
    clean_ece: float
    shifted_nll: float
    shifted_ece: float


def spoilt(image: NDArray[np.uint8], kind: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return an image `[H, W, 3]` spoilt in one of four ways that no shift of the evaluation has."""
    levels = image.astype(np.float64)
    if kind == 0:
        levels = 255 * (levels / 255) ** rng.choice([0.4, 2.5])
    elif kind == 1:
        levels = levels * rng.uniform(0.4, 1.6, 3)
    elif kind == 2:
        height, width = image.shape[:2]
        small = cv2.resize(image, (max(1, width // 4), max(1, height // 4)), interpolation=cv2.INTER_AREA)
        levels = cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST).astype(np.float64)
    else:
        levels = levels * rng.gamma(4.0, 0.25, image.shape)
    return np.clip(np.rint(levels), 0, 255).astype(np.uint8)


class Subject:
    """A trained run, ready to judge images however they are spoilt."""

    def __init__(self, cell: Cell, data: Path, out: Path, work: Path) -> None:
        prepared, console = divided(cell, data, out, work), Console(quiet=True)
        settings = train_settings(cell, {"heads": HEADS, "ensemble": 0})
        application = ROOMS[cell.subject].application
        train(application, settings, data=prepared, out=work / "run", resume=False, console=console)
        job: Job[Any, Any, Any] = trained_job(application, work / "run", console)
        if cell.subject in ("colon", "breast"):
            job = replace(job, application=replace(job.application, judge=tissue_judge("image")))
        inputs = job.application.inputs
        opened = inputs.encoded(inputs.open(prepared), job.settings, work / "run", console)
        self.job = job.on(opened, fold=job.settings.fold)
        self.predictors = run_predictors(self.job)
        self._early = self._early_familiarity()

    def examples(self, part: str, most: int) -> list[JudgedExample]:
        """Return some examples of a part, spread evenly."""
        judge, names = self.job.application.judge, getattr(self.job.splits, part)
        every = tuple(judge.groups(self.job.data, names))
        return list(judge.examples(self.job.data, judge.members(self.job.data, names, spread(every, most))))

    def judged(self, examples: Sequence[JudgedExample], images: Sequence[NDArray[np.uint8]]) -> Judged:
        """Return what the methods predict of the examples with other images."""
        judge, data = self.job.application.judge, self.job.data
        seen = [
            replace(one, image=features, source=image)
            for one, image, features in zip(examples, images, data.encode_all(images), strict=True)
        ]
        probability, strange = {}, []
        for predictor in self.predictors:
            outputs = [judge.outputs(predictor, one) for one in seen]
            probability[predictor.title] = np.stack([one["probability"] for one in outputs]).astype(
                np.float64
            )
            strange = [
                float(np.mean(one[FAMILIARITY_DISTANCE])) for one in outputs if FAMILIARITY_DISTANCE in one
            ] or strange
        early = [
            float(np.mean(self._early.distance(tf.constant(self._early_features(image))))) for image in images
        ]
        truth = np.array([int(np.ravel(one.truth)[0]) for one in examples])
        return Judged(probability, np.array(strange), np.array(early), truth)

    def _early_features(self, image: NDArray[np.uint8]) -> FloatArray:
        stack = image.reshape(-1, *image.shape[-3:])
        maps = self.job.data.trunk.network.pyramid(tf.constant(stack, tf.float32))[_EARLY_LEVEL]
        mean, variance = tf.nn.moments(maps, axes=[1, 2])
        return tf.concat([mean, tf.sqrt(variance)], axis=-1).numpy()

    def _early_familiarity(self) -> Familiarity:
        examples = self.examples("train", 60)
        return refer_to(
            np.concatenate([self._early_features(one.original) for one in examples]), of_inputs=True
        )


def fitted(rule: str, method: str, clean: Judged, bad: Judged) -> tuple[float, float]:
    """Return a and b of log T = a + b max(0, log(s / median s)) with the least NLL and a weak prior."""
    parts = [(clean, 1.0)] if rule.endswith("unspoilt") else [(clean, 0.5), (bad, 0.5)]

    def loss(parameters: FloatArray) -> float:
        a, b = float(parameters[0]), abs(float(parameters[1]))
        total = 0.02 * (a**2 + b**2)
        for part, weight in parts:
            p = tempered(rule, method, part, clean, (a, b))
            total -= weight * float(np.mean(np.log(p[np.arange(len(p)), part.truth] + 1e-12)))
        return total

    found = minimize(loss, np.array([0.1, 0.1]), method="Nelder-Mead").x
    return float(found[0]), abs(float(found[1]))


def tempered(rule: str, method: str, part: Judged, clean: Judged, fit: tuple[float, float]) -> FloatArray:
    """Return the probabilities of a method `[N, C]` by a rule."""
    if rule == RULES[0]:
        return part.probability[method]
    a, b = fit
    key = "early" if "early" in rule else "strange"
    ratio = np.maximum(getattr(part, key), 1e-9) / max(float(np.median(getattr(clean, key))), 1e-9)
    slope = 0.0 if rule == "one T" else b
    temperature = np.exp(a + slope * np.maximum(0.0, np.log(ratio)))
    logits = log_softmax(np.log(part.probability[method] + 1e-12), axis=-1)
    return np.asarray(softmax(logits / temperature[:, None], axis=-1))


def scores(p: FloatArray, truth: NDArray[np.integer[Any]]) -> tuple[float, float]:
    """Return NLL and ECE."""
    counts = calibration_counts(p.max(axis=1), p.argmax(axis=1) == truth)
    nll = -np.mean(np.log(np.maximum(p[np.arange(len(p)), truth], 1e-12)))
    error = expected_calibration_error(
        counts.count.astype(np.float64), counts.confidence, counts.correct.astype(np.float64)
    )
    return float(nll), float(error)


def rows_of(cell: Cell, data: Path, out: Path) -> list[Row]:
    """Train a run and return the scores of every method by every rule."""
    with tempfile.TemporaryDirectory() as folder:
        subject = Subject(cell, data, out, Path(folder))
        rng = np.random.default_rng(cell.seed)
        held_out = subject.examples("selection", _MOST[cell.subject])
        originals = [one.original for one in held_out]
        clean = subject.judged(held_out, originals)
        worse = [(one, _spoilt(one.original, kind, rng)) for kind in range(4) for one in held_out]
        bad = subject.judged([one for one, _ in worse], [image for _, image in worse])
        test = subject.examples("test", _MOST[cell.subject])
        unshifted = subject.judged(test, [one.original for one in test])
        shifts = [
            subject.judged(
                test, [shifted(kind, one.original, STRENGTHS[-1], seed=n) for n, one in enumerate(test)]
            )
            for kind in SHIFTS
        ]
    rows = []
    for method, rule in product(clean.probability, RULES):
        if not (method.endswith("+ temperature") or rule == RULES[0]):
            continue
        fit = (0.0, 0.0) if rule == RULES[0] else fitted(rule, method, clean, bad)
        before = scores(tempered(rule, method, unshifted, clean, fit), unshifted.truth)
        after = np.mean(
            [scores(tempered(rule, method, one, clean, fit), one.truth) for one in shifts], axis=0
        )
        values = np.round([*before, *after], 4).tolist()
        rows.append(Row(cell.subject, cell.seed, method, rule, *values))
    return rows


def _spoilt(images: NDArray[np.uint8], kind: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    stack = images.reshape(-1, *images.shape[-3:])
    return np.stack([spoilt(image, kind, rng) for image in stack]).reshape(images.shape)


def main() -> None:
    """Train, judge and write the scores."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    parser.add_argument("--subjects", nargs="*", default=list(SIZES), choices=SIZES)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    cells = [
        Cell(subject, PRETRAINED, SIZES[subject], seed)
        for seed, subject in product(arguments.seeds, arguments.subjects)
    ]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as shared:
        share(cells, arguments.data, Path(shared))
        for cell in cells:
            rows += [asdict(row) for row in rows_of(cell, arguments.data, Path(shared))]
            write_results(arguments.out, title=_TITLE, rows=rows, host=host())


if __name__ == "__main__":
    main()
