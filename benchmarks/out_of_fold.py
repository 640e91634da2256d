"""What out-of-fold heads give folders of 150 images: guarantees, temperature and choice of the head.

    python -m benchmarks.out_of_fold --data FOLDER --out benchmarks/results/out_of_fold

Simulated: Gaussian classes whose distribution is known, a logistic regression as the head, many draws of the
folder. The selection part (15 %) chooses the threshold alone, or together with what the heads without a fifth
of the training examples predict of that fifth; a large sample shows what is wrong among what the head keeps
that saw all of them. A guarantee promises that this is too much in at most 5 of 100 draws.

Real: folders of 150 images are drawn from larger sets, trained on frozen features twice, with out-of-fold
heads and without, and judged on all other images. What is wrong among these is a sample, too, so that more
guarantees seem broken than are.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold

from benchmarks.class_guarantees import IMAGE_SUBJECTS, trained_on_images
from benchmarks.common import host, write_results
from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from gpmodels.registry import head_family
from pipelines.classify.settings import TrainSettings
from pipelines.runs.description import head_folder
from pipelines.runs.folds import NUM_FOLDS
from pipelines.runs.predictors import tempered_title
from pipelines.runs.selection import SelectedPoints, selection_temperature
from pipelines.scores.guarantee_thresholds import SelectiveErrors, referral_threshold
from pipelines.scores.held_out import HELD_OUT, read_held_out

MAX_ERRORS = (0.05, 0.1, 0.2, 0.3)
_WORLD = 40_000


@dataclass(frozen=True)
class World:
    """Gaussian classes, and how they are learned.

    Attributes:
        name: In the table.
        number: Images of a folder.
        columns: Features.
        apart: Distance of a class's mean from the origin, in standard deviations.
        classes: Number of classes.
        regularisation: C of the logistic regression; large ones overfit.
        per_group: Images of a group, which share half of their variance.
    """

    name: str
    number: int
    columns: int
    apart: float
    classes: int
    regularisation: float
    per_group: int = 1

    def draw(self, rng: np.random.Generator, number: int) -> tuple[NDArray, NDArray, NDArray]:
        """Return features `[N, D]`, classes `[N]` and groups `[N]`."""
        group = np.arange(number) // self.per_group
        label = rng.integers(0, self.classes, group[-1] + 1)[group]
        noise = rng.standard_normal((number, self.columns))
        if self.per_group > 1:
            shared = rng.standard_normal((group[-1] + 1, self.columns))[group]
            noise = np.sqrt(0.5) * (noise + shared)
        mean = self.apart * np.eye(self.classes, self.columns)
        return mean[label] + noise, label, group


WORLDS = (
    World("150 images, 20 columns", 150, 20, 2.5, 2, 1.0),
    World("150 images, 100 columns", 150, 100, 2.5, 2, 1.0),
    World("150 images, 100 columns, overfitted", 150, 100, 3.0, 3, 100.0),
    World("60 images, 20 columns", 60, 20, 3.0, 2, 1.0),
    World("300 images of 60 groups, 20 columns", 300, 20, 2.5, 2, 1.0, per_group=5),
)


@dataclass(frozen=True)
class FoldCounts:
    """What came of a guarantee over all draws of a folder.

    Attributes:
        data: Where the folders come from.
        head: Name of the head.
        held_out: What chose the threshold.
        max_error: What was guaranteed.
        draws: How many folders were drawn.
        given: How often it could be guaranteed.
        broken: How often more was wrong than guaranteed.
        kept: Mean share that is kept, where it was guaranteed.
        error: Mean error among what is kept.
    """

    data: str
    head: str
    held_out: str
    max_error: float
    draws: int
    given: int
    broken: int
    kept: float | None
    error: float | None


Outcome = tuple[str, float, float, float]
"""What chose the threshold, the guaranteed error, the share kept and the error there; NaN where refused."""


def entropy(probability: NDArray) -> NDArray:
    """Return the entropy of each row `[N]`, in nats."""
    return -(probability * np.log(np.clip(probability, 1e-12, 1.0))).sum(axis=1)


def outcomes(name: str, held_out: SelectiveErrors, judged: SelectiveErrors) -> Iterator[Outcome]:
    """Yield what came of each guarantee on the judged examples."""
    for max_error in MAX_ERRORS:
        threshold = referral_threshold(held_out, max_error).threshold
        kept, error = (np.nan, np.nan) if threshold is None else judged.reality(threshold)
        yield name, max_error, kept, 0.0 if kept == 0.0 else error


def temperature(fitted: LogisticRegression, x: NDArray, y: NDArray, g: NDArray) -> float:
    """Return the temperature of a layer by held-out examples, as runs fit it."""
    number = np.arange(len(y), dtype=np.int32)
    points = SelectedPoints(fitted.predict_log_proba(x), y, np.ones(len(y)), number)
    return selection_temperature(points, groups=g.astype(str).tolist())


def simulate(world: World, draws: int) -> Iterator[Outcome]:
    """Yield what came of guarantees in many draws of a folder."""
    rng = np.random.default_rng(41)
    features, label, group = world.draw(rng, _WORLD)
    for _ in range(draws):
        x, y, g = world.draw(rng, world.number)
        selected = g < round(0.15 * (g[-1] + 1))
        x_fit, y_fit, g_fit = x[~selected], y[~selected], g[~selected]

        def errors(
            fitted: LogisticRegression, x: NDArray, y: NDArray, g: NDArray, sharpness: float = 1.0
        ) -> tuple[NDArray, ...]:
            probability = softmax(sharpness * fitted.predict_log_proba(x), axis=1)
            return entropy(probability), (fitted.predict(x) != y).astype(float), g

        def fit(x: NDArray, y: NDArray) -> LogisticRegression:
            return LogisticRegression(C=world.regularisation, max_iter=300).fit(x, y)

        whole = fit(x_fit, y_fit)
        held_out = x[selected], y[selected], g[selected]
        parts = [errors(whole, *held_out)]
        for train, test in StratifiedGroupKFold(NUM_FOLDS).split(x_fit, y_fit, g_fit):
            own = fit(x_fit[train], y_fit[train])
            sharpness = temperature(whole, *held_out) / temperature(own, *held_out)
            parts.append(errors(own, x_fit[test], y_fit[test], g_fit[test], sharpness))
        judged = SelectiveErrors(*errors(whole, features, label, group))
        chosen = {"selection part": parts[:1], "and out of fold": parts}
        for name, those in chosen.items():
            uncertainty, error, unit = (np.concatenate(column) for column in zip(*those, strict=True))
            unit = np.unique(unit, return_inverse=True)[1]
            yield from outcomes(name, SelectiveErrors(uncertainty, error, unit), judged)


def counted(data: str, head: str, draws: int, found: list[Outcome]) -> Iterator[FoldCounts]:
    """Yield the counts of all outcomes."""
    for name in dict.fromkeys(row[0] for row in found):
        for max_error in MAX_ERRORS:
            values = np.array([row[2:] for row in found if row[:2] == (name, max_error)])
            given = values[np.isfinite(values[:, 0])]
            kept, error = np.round(given.mean(axis=0), 4).tolist() if len(given) else (None, None)
            broken = int((given[:, 1] > max_error).sum())
            yield FoldCounts(data, head, name, max_error, draws, len(given), broken, kept, error)


def trained(subject: str, data: Path, seed: int, *, out_of_fold: bool) -> tuple[str, list[Outcome], float]:
    """Train on 150 images of a set; return the named head, what came of guarantees, and its NLL."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        images, table = IMAGE_SUBJECTS[subject](data, work)
        number = sum(1 for _ in images.rglob("*.[jp][pn]g"))
        prepare = ClassifyPrepareSettings(test_fraction=1.0 - 150.0 / number, seed=seed)
        prepare_classify(images, work / "prepared", prepare, table=table)
        run, by_method, groups = trained_on_images(work, TrainSettings(out_of_fold=out_of_fold, seed=seed))
        if run.choice is None:
            raise ValueError("the run has chosen no head")
        head = run.choice.head
        judged = by_method[tempered_title(head_family(head).title)]
        held_out = read_held_out(head_folder(work / "run", head) / HELD_OUT)
    shown = judged.by(groups, "images")
    if shown is None:
        raise ValueError("nothing is judged")
    chooses = SelectiveErrors(held_out.uncertainty, held_out.error, held_out.unit)
    name = "and out of fold" if out_of_fold else "selection part"
    probability = judged.probability[np.arange(judged.truth.size), judged.truth]
    return head, list(outcomes(name, chooses, shown)), float(-np.log(np.maximum(probability, 1e-7)).mean())


def main() -> None:
    """Simulate, train and write the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    parser.add_argument("--simulated", type=int, default=1000, help="draws of each simulation")
    parser.add_argument("--draws", type=int, default=5, help="folders drawn of each real set")
    parser.add_argument("--subjects", nargs="*", default=tuple(IMAGE_SUBJECTS), choices=tuple(IMAGE_SUBJECTS))
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    rows: list[FoldCounts] = []
    cells = []
    for world in WORLDS:
        found = list(simulate(world, arguments.simulated))
        rows += counted(world.name, "logistic regression", arguments.simulated, found)
    for subject in arguments.subjects:
        found = []
        for seed in range(arguments.draws):
            for out_of_fold in (False, True):
                head, those, loss = trained(subject, arguments.data, 8100 + seed, out_of_fold=out_of_fold)
                found += those
                cell = {"data": subject, "seed": 8100 + seed, "out of fold": out_of_fold}
                cells.append({**cell, "head": head, "nll": round(loss, 4)})
                print(cells[-1], flush=True)
        rows += counted(subject, "named head", arguments.draws, found)
    write_results(
        arguments.out,
        title="Guarantees of small folders, with out-of-fold heads and without",
        rows=[asdict(row) for row in rows],
        host=host(),
        cells=cells,
    )


if __name__ == "__main__":
    main()
