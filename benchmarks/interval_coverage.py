r"""How often intervals of numbers hold in small folders, where out-of-fold heads say how wide they must be.

    python -m benchmarks.interval_coverage --draws 100 --out benchmarks/results/interval_coverage/stand_in
    python -m benchmarks.interval_coverage --heads svgp_one_start svgp --worlds "a wave" --images 65 \
        --draws 8 --out benchmarks/results/interval_coverage/heads

Simulated features of a frozen network, 300 tanh functions of six hidden facts of an image, and a number that
is a function of these with a known noise. Many folders are drawn; 15 % of each choose when training ends,
as the selection part of a run does. A head is trained on the rest, and without each fifth of it. Both
say how wide intervals must be, and 1,000 further images whether they hold: with the deviations of each fold's
head as they are, and as `measure train` takes them, no larger than those of the head of all examples.

The heads are those of a run, started and trained by its code (linear: as its pretraining is);
`svgp_one_start` always starts with its linear layer. `stand_in` is quick: of a constant,
ridge regression and a Gaussian process that is most probable on a grid it takes the one that predicts the
selection part best, so that folds often end elsewhere than the whole.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from benchmarks.common import host, write_results
from gpmodels import HybridModel
from gpmodels.heads.alone import AloneSchedule, HeadPoints, train_alone
from gpmodels.networks.view_projection import ViewProjection
from gpmodels.registry import HeadTask, head_family
from pipelines.measure.settings import TrainSettings
from pipelines.runs import head_start
from pipelines.runs.folds import NUM_FOLDS
from pipelines.runs.models import VARIANCE_BESIDE_MEAN
from pipelines.runs.selection import SelectedNumbers
from pipelines.scores.numbers import COVERAGES

Array = NDArray[np.float64]
Predict = Callable[[Array], Array]
"""Returns mean and variance `[N, 2]` of features."""

FEATURES, FACTS, JUDGED, NOISE = 300, 6, 1000, 0.3
ONE_START = "_one_start"
WORLDS: dict[str, Callable[[Array], Array]] = {
    "linear": lambda fact: fact[:, 0],
    "half linear": lambda fact: 0.7 * fact[:, 0] + np.sin(1.5 * fact[:, 1]),
    "a wave": lambda fact: 1.3 * np.sin(1.5 * fact[:, 0]),
    "noise alone": lambda fact: 0.0 * fact[:, 0],
}


def images(world: str, number: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return hidden facts and numbers of images."""
    fact = rng.standard_normal((number, FACTS))
    return fact, WORLDS[world](fact) + NOISE * rng.standard_normal(number)


def features_of(fact: Array, seed: int) -> Array:
    """Return what a frozen network sees of images; each folder has a network of its own."""
    rng = np.random.default_rng([seed, 1])
    weights = rng.standard_normal((FACTS, FEATURES)) / np.sqrt(FACTS)
    values = np.tanh(1.5 * fact @ weights + rng.uniform(-1.0, 1.0, FEATURES))
    return np.asarray(values + 0.1 * rng.standard_normal(values.shape))


def trained(name: str, x: Array, y: Array, selected: tuple[Array, Array], seed: int) -> Predict:
    """Return a head of a run, trained as on a frozen network."""
    settings = TrainSettings(num_experts=1)
    network = ViewProjection([x.shape[1]], components=settings.components)
    network.build((None, x.shape[1]))
    network.adapt(x.astype(np.float32))
    has_one_start = name.endswith(ONE_START)
    name = name.removesuffix(ONE_START)
    family, task = head_family(name), HeadTask(2, "gaussian", seed=seed, kernel_variance=VARIANCE_BESIDE_MEAN)
    model = HybridModel(network, family.make(family.settings_of(settings), task), num_data=len(x), seed=seed)
    model.build((None, x.shape[1]))

    def points(x: Array, y: Array) -> HeadPoints:
        features = network(tf.constant(x, tf.float32)).numpy()
        return HeadPoints(features, y.astype(np.float32), np.ones(len(y), np.float32))

    training, judged = points(x, y), points(*selected)
    if name == "linear":
        steps = settings.pretraining_epochs * settings.steps_per_epoch
        schedule = AloneSchedule(steps, settings.learning_rate, settings.batch_size)
        train_alone(model.head, training, judged, schedule, num_observations=len(x), seed=seed)
    else:
        schedule = AloneSchedule(settings.head_steps, settings.head_step_learning_rate)
        of_groups = [head_start.FeaturePoints(part, np.arange(len(part))) for part in (training, judged)]
        with mock.patch.object(
            head_start, "POORLY_DETERMINED", 0 if has_one_start else head_start.POORLY_DETERMINED
        ):
            head_start.start_head(model, None, *of_groups, schedule, seed=seed)

    def predict(x: Array) -> Array:
        outputs = model(tf.constant(x, tf.float32), training=False)
        return np.stack([outputs["mean"].numpy(), outputs["variance"].numpy()], axis=1).astype(np.float64)

    return predict


def stand_in(_: str, x: Array, y: Array, selected: tuple[Array, Array], __: int) -> Predict:
    """Return a constant, a ridge regression or a Gaussian process, whichever predicts the selection best."""
    found = (_constant(y), _ridge(x, y), _process(x, y))

    def loss(predict: Predict) -> float:
        mean, variance = predict(selected[0]).T
        return float(np.mean(np.square(selected[1] - mean) / variance + np.log(variance)))

    return min(found, key=loss)


def _constant(y: Array) -> Predict:
    return lambda x: np.tile([y.mean(), y.var(ddof=1)], (len(x), 1))


def _ridge(x: Array, y: Array) -> Predict:
    def ones(x: Array) -> Array:
        return np.column_stack([np.ones(len(x)), x])

    design, fits = ones(x), []
    for penalty in np.logspace(-2, 4, 13):
        inverse = np.linalg.solve(
            design.T @ design + penalty * np.diag([0.0, *np.ones(x.shape[1])]), design.T
        )
        left_out = (y - design @ inverse @ y) / (1.0 - np.sum(design * inverse.T, axis=1))
        fits.append((float(np.mean(np.square(left_out))), inverse @ y))
    variance, weights = min(fits, key=lambda fit: fit[0])
    return lambda x: np.column_stack([ones(x) @ weights, np.full(len(x), variance)])


def _process(x: Array, y: Array) -> Predict:
    square, centre = np.square(x[:, None] - x).sum(axis=2), y.mean()
    best: tuple[float, Any] = (-np.inf, None)
    for length in np.sqrt(x.shape[1]) * np.array([0.3, 0.6, 1.0, 2.0, 4.0]):
        values, vectors = np.linalg.eigh(np.exp(-0.5 * square / length**2))
        turned = vectors.T @ (y - centre)
        for variance in (0.3, 1.0, 3.0):
            for noise in (0.01, 0.03, 0.1, 0.3, 0.6, 1.0):
                spread = variance * np.maximum(values, 0.0) + noise
                evidence = -0.5 * float(np.sum(np.square(turned) / spread + np.log(spread)))
                best = max(
                    best, (evidence, (length, variance, noise, spread, vectors, turned)), key=lambda o: o[0]
                )
    length, variance, noise, spread, vectors, turned = best[1]

    def predict(new: Array) -> Array:
        near = variance * np.exp(-0.5 * np.square(new[:, None] - x).sum(axis=2) / length**2) @ vectors
        latent = variance - np.sum(np.square(near) / spread, axis=1)
        return np.column_stack([centre + near @ (turned / spread), np.maximum(latent, 0.0) + noise])

    return predict


def points_of(predict: Predict, x: Array, y: Array) -> SelectedNumbers:
    """Return predictions as a run keeps them."""
    return SelectedNumbers(predict(x), y, np.ones(len(y)), np.arange(len(y), dtype=np.int32))


def outcomes(head: str, world: str, number: int, seed: int) -> Iterator[tuple[str, float, float, float]]:
    """Yield what said how wide intervals are, their coverage, how many hold, and their mean width."""
    rng = np.random.default_rng([seed, 0])
    fact, y = images(world, number + JUDGED, rng)
    fit, x = (stand_in, fact) if head == "stand_in" else (trained, features_of(fact, seed))
    part = np.repeat([0, 1, 2], [round(0.15 * number), number - round(0.15 * number), JUDGED])
    y = (y - y[part == 1].mean()) / y[part == 1].std()
    selected, fold = (x[part == 0], y[part == 0]), rng.permutation(np.count_nonzero(part == 1)) % NUM_FOLDS
    x_fit, y_fit = x[part == 1], y[part == 1]
    whole = fit(head, x_fit, y_fit, selected, seed)
    own = points_of(whole, *selected)
    plain, as_sure = [own], [own]
    for place in range(NUM_FOLDS):
        out = fold == place
        without = fit(head, x_fit[~out], y_fit[~out], selected, seed)
        plain.append(points_of(without, x_fit[out], y_fit[out]))
        as_sure.append(plain[-1].no_less_sure(points_of(without, *selected), own))
    mean, variance = whole(x[part == 2]).T
    score = np.abs(y[part == 2] - mean) / np.sqrt(variance)
    for name, parts in {"folds as they are": plain, "no less sure": as_sure, "selection part": [own]}.items():
        logits, labels = (
            np.concatenate([getattr(one, key) for one in parts]) for key in ("logits", "labels")
        )
        count = np.arange(len(labels), dtype=np.int32)
        held_out = SelectedNumbers(logits, labels, np.ones(len(labels)), count).held_out(
            1.0, count.astype(np.intp)
        )
        for coverage in COVERAGES:
            factor = held_out.factor(coverage)
            yield (
                name,
                coverage,
                float(np.mean(score <= factor)),
                float(2.0 * factor * np.sqrt(variance).mean()),
            )


def main() -> None:
    """Draw folders, train, and write how often intervals held."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    parser.add_argument("--heads", nargs="*", default=["stand_in"], help="stand_in, linear, svgp, ...")
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS), choices=list(WORLDS))
    parser.add_argument("--images", nargs="*", type=int, default=[40, 65, 100], help="images of a folder")
    parser.add_argument("--draws", type=int, default=400, help="folders of each kind")
    given = parser.parse_args()
    rows = []
    for head in given.heads:
        for world in given.worlds:
            for number in given.images:
                found = [row for seed in range(given.draws) for row in outcomes(head, world, number, seed)]
                for key in dict.fromkeys(row[:2] for row in found):
                    held, width = np.array([row[2:] for row in found if row[:2] == key]).T
                    tenth = float(np.quantile(held, 0.1))
                    rows.append({"head": head, "world": world, "images": number, "widths by": key[0]})
                    rows[-1] |= {"coverage": key[1], "held": round(float(held.mean()), 4)}
                    rows[-1] |= {
                        "in the worst tenth below": round(tenth, 3),
                        "width": round(float(width.mean()), 3),
                    }
                print(*rows[-len(COVERAGES) * 3 :], sep="\n", flush=True)
    title = f"Intervals in small folders, {given.draws} draws of each"
    write_results(given.out, title=title, rows=rows, host=host())


if __name__ == "__main__":
    main()
