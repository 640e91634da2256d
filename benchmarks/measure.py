"""Numbers from images: our heads against ridge regression, scikit-learn's Gaussian process and ensembles.

    python -m benchmarks.measure --data FOLDER --out benchmarks/results/measure --seeds 3

FOLDER holds glas_colon_histology and bccd_blood_cells. A simulated set counts bright spots with a known
noise, and the solar cells come with `pip install elpv-dataset`. Every set is prepared, trained and judged
by the steps of `gpimaging measure`, on a frozen EfficientNet-Lite0, with other groups to judge by for each
seed. The rivals see the same features of the training and the selection part: ridge regression, the Gaussian
process of scikit-learn on components, and two ensembles of five members, linear ones or networks of one
hidden layer on components. Each member has another start and another bootstrap sample of groups; an ensemble
predicts mean and variance of its members. What a rival predicts of five parts held out by groups gives the
variance of the noise that is added, by maximum likelihood, and how wide intervals are, as for our heads. With
`--likelihood poisson --only blood` our heads learn the cells as counts, and the linear one is their only
rival. `--rivals` judges the rivals alone, on the same splits, and keeps the rows of heads in OUT.
"""

import argparse
import csv
import json
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console
from scipy.optimize import minimize_scalar
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.common import host, write_results
from data_prep.measure.prepare import prepare_measure
from data_prep.measure.settings import MeasurePrepareSettings
from data_prep.splits.divide import manifest_splits
from pipelines.evaluation.evaluate import evaluate
from pipelines.measure.application import MEASURE
from pipelines.measure.settings import EvaluateSettings, TrainSettings
from pipelines.runs.train import train
from pipelines.scores.numbers import (
    COVERAGES,
    SHOWN,
    HeldOutNumbers,
    NumberResult,
    number_record,
    number_result,
)

Rows = Iterator[tuple[str, float, str]]
COMPONENTS = 64
PENALTIES = np.logspace(0, 6, 13).tolist()
DECAYS = (1.0, 10.0, 100.0, 1000.0)
NOISE = 1.0
"""Standard deviation of the simulated counts."""


def glas(folder: Path) -> Rows:
    """Yield image, share of glands and patient."""
    with (folder / "glas_colon_histology" / "labels.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            image = f"glas_colon_histology/images/{row['name']}.jpg"
            yield image, float(row["gland_fraction"]), row["patient_id"]


def blood(folder: Path) -> Rows:
    """Yield image, annotated red cells and the image itself as its group."""
    for path in sorted((folder / "bccd_blood_cells" / "annotations").glob("*.xml")):
        boxes = ET.parse(path)  # noqa: S314 - our own copy
        names = [one.text for one in boxes.iterfind("object/name")]
        image = f"bccd_blood_cells/images/{path.stem}.jpg"
        if (folder / image).exists():
            yield image, float(names.count("RBC")), path.stem


def spots(folder: Path, number: int = 400) -> Rows:
    """Draw bright spots; yield image, their noisy number and the pair of images that it belongs to."""
    rng = np.random.default_rng(0)
    (folder / "spots").mkdir()
    for place in range(number):
        count = int(rng.integers(2, 30))
        picture = rng.normal(60.0, 8.0, (128, 128))
        for y, x in rng.integers(6, 122, (count, 2)):
            picture[y - 3 : y + 4, x - 3 : x + 4] += 110.0
        Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8)).save(folder / "spots" / f"{place}.png")
        yield f"spots/{place}.png", count + float(rng.normal(0.0, NOISE)), str(place // 2)


def cells(folder: Path) -> Rows:
    """Yield solar cell and the share of experts who see a defect; `prepare` groups near-duplicates."""
    for line in (folder / "labels.csv").read_text(encoding="utf-8").splitlines():
        image, share, *_ = line.split()
        yield image, float(share), ""


SETS: dict[str, Callable[[Path], Rows]] = {"glas": glas, "blood": blood, "spots": spots, "cells": cells}


def images_of(name: str, folder: Path, work: Path) -> Path:
    """Return where the paths of a set's table go from.

    Args:
        name: Of the set.
        folder: Of the data sets.
        work: Where what is drawn is written.
    """
    if name == "cells":
        return Path(str(files("elpv_dataset"))) / "data"
    return work if name == "spots" else folder


class Known(NamedTuple):
    """Features `[N, D]`, standardised numbers `[N]` and groups `[N]` of what rivals are fitted to."""

    features: NDArray[Any]
    labels: NDArray[Any]
    groups: NDArray[Any]

    def rows(self, places: NDArray[np.intp]) -> "Known":
        """Return some of the rows."""
        return Known(*(one[places] for one in self))


Predict = Callable[[NDArray[Any]], tuple[NDArray[Any], NDArray[Any]]]
"""Function of features `[N, D]` that returns means and variances, each `[N]`."""


def ensemble(fit: Callable[[int, Known], Predict], known: Known, seed: int) -> Predict:
    """Return mean and variance of five members, each fitted to a bootstrap sample of the groups."""
    rng, members = np.random.default_rng(seed), []
    places = [np.flatnonzero(known.groups == group) for group in np.unique(known.groups)]
    for member in range(5):
        drawn = np.concatenate([places[one] for one in rng.integers(len(places), size=len(places))])
        members.append(fit(seed + member, known.rows(drawn)))

    def predict(features: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        means = np.stack([one(features)[0] for one in members])
        return means.mean(axis=0), means.var(axis=0)

    return predict


def linear(penalty: float, known: Known) -> Predict:
    """Return a fitted ridge regression."""
    return _sure(Ridge(penalty), known)


def network(penalty: float, seed: int, known: Known) -> Predict:
    """Return a fitted network of one hidden layer on components."""
    options = {"alpha": penalty, "solver": "lbfgs", "max_iter": 200, "random_state": seed}
    components = PCA(min(COMPONENTS, *known.features.shape), random_state=seed)
    one = MLPRegressor(hidden_layer_sizes=(64,), **options)
    return _sure(make_pipeline(components, one), known)


def standardised(fit: Callable[[Known], Predict], known: Known) -> Predict:
    """Return what is fitted to features that all rows standardise, not those that a member drew."""
    scaler = StandardScaler().fit(known.features)
    predict = fit(known._replace(features=scaler.transform(known.features)))
    return lambda features: predict(scaler.transform(features))


def best_penalty(penalties: Sequence[float], known: Known, fit: Callable[[float, Known], Predict]) -> float:
    """Return the penalty with the least squared error of what is held out."""
    held_out = {one: held_out_predictions(known, partial(fit, one))[0] for one in penalties}
    return min(penalties, key=lambda one: float(np.mean(np.square(known.labels - held_out[one]))))


def _sure(model: Any, known: Known) -> Predict:
    model.fit(known.features, known.labels)
    return lambda features: (model.predict(features), np.zeros(len(features)))


def process(known: Known, seed: int, kernel: Any = None) -> Any:
    """Return a fitted Gaussian process on components, with a kernel as it is or, of None, a learned one."""
    start = ConstantKernel() * RBF(np.sqrt(COMPONENTS), (1e-1, 1e4)) + WhiteKernel(0.1, (1e-4, 1e1))
    learns: dict[str, Any] = {"optimizer": None} if kernel else {"n_restarts_optimizer": 2}
    gp = GaussianProcessRegressor(kernel or start, random_state=seed, **learns)
    components = min(COMPONENTS, len(known.labels))
    pipeline = make_pipeline(PCA(components, whiten=True, random_state=seed), gp)
    return pipeline.fit(known.features, known.labels)


def process_prediction(pipeline: Any) -> Predict:
    """Return mean and variance of a fitted Gaussian process."""

    def predict(features: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        mean, deviation = pipeline.predict(features, return_std=True)
        return mean, np.square(deviation)

    return predict


def rivals(data: Any, seed: int) -> list[NumberResult]:
    """Return how rivals do that see the features of a folder."""
    splits = manifest_splits(data.manifest, selection_fraction=0.15)
    part = data.part((*splits.train, *splits.selection))
    known = Known(part.features, part.labels, np.asarray(part.groups))
    judged = data.part(splits.test)

    def five_linear(penalty: float, part: Known) -> Predict:
        return ensemble(lambda _, drawn: linear(penalty, drawn), part, seed)

    def five_networks(decay: float, part: Known) -> Predict:
        return ensemble(partial(network, decay), part, seed)

    scaled = known._replace(features=StandardScaler().fit_transform(known.features))
    kernel = process(scaled, seed)[-1].kernel_

    methods: dict[str, Callable[[Known], Predict]] = {
        "ridge on features": partial(linear, best_penalty(PENALTIES, known, linear)),
        "scikit-learn GP": lambda part: process_prediction(process(part, seed, kernel)),
        "five linear": partial(five_linear, best_penalty(PENALTIES, known, five_linear)),
        "five networks": partial(five_networks, best_penalty(DECAYS, known, five_networks)),
    }
    found = []
    for name, fit in methods.items():
        mean, variance = held_out_predictions(known, fit)
        noise = noise_variance(known.labels - mean, variance)
        unit = np.unique(known.groups, return_inverse=True)[1]
        held_out = HeldOutNumbers(mean, np.sqrt(variance + noise), known.labels, unit)
        factors = [held_out.factor(coverage) for coverage in COVERAGES]
        mean, variance = standardised(fit, known)(judged.features)
        rows = zip(data.manifest.select(splits.test), mean, variance + noise, strict=True)
        scale = data.manifest.scale
        records = [
            number_record(one.name, one.group, one.value, (m, v), factors, scale) for one, m, v in rows
        ]
        found.append(number_result(name, records))
    return found


def held_out_predictions(known: Known, fit: Callable[[Known], Predict]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return mean and variance of each number by a model that did not see its part of the groups."""
    mean, variance = np.zeros(len(known.labels)), np.zeros(len(known.labels))
    parts = GroupKFold(min(5, len(np.unique(known.groups))))
    for learned, rest in parts.split(known.features, groups=known.groups):
        mean[rest], variance[rest] = standardised(fit, known.rows(learned))(known.features[rest])
    return mean, variance


def noise_variance(error: NDArray[Any], variance: NDArray[Any]) -> float:
    """Return the variance to add with which held-out errors are the most probable."""

    def loss(log_noise: float) -> float:
        total = variance + np.exp(log_noise)
        return float(np.mean(np.log(total) + np.square(error) / total))

    return float(np.exp(minimize_scalar(loss, bounds=(-14.0, 4.0), method="bounded").x))


def judged_set(
    name: str, folder: Path, seed: int, settings: TrainSettings, *, rivals_alone: bool
) -> list[dict[str, Any]]:
    """Return the scores of every method on one set, or of the rivals alone."""
    console = Console(quiet=True)
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        images = images_of(name, folder, work)
        rows = list(SETS[name](images))
        with (work / "table.csv").open("w", encoding="utf-8", newline="") as file:
            columns = ("image", "value", "group") if rows[0][2] else ("image", "value")
            csv.writer(file).writerows([columns, *(row[: len(columns)] for row in rows)])
        split = MeasurePrepareSettings(seed=seed, test_fraction=0.3)
        prepare_measure(images, work / "prepared", split, table=work / "table.csv")
        seeded = settings.model_copy(update={"seed": seed})
        options: dict[str, Any] = {"data": work / "prepared", "console": console}
        results: list[Any] = []
        chosen = ""
        if not rivals_alone:
            train(MEASURE, seeded, out=work / "run", resume=False, **options)
            options |= {"model": work / "run", "out": work / "evaluation"}
            found = evaluate(MEASURE, EvaluateSettings(), **options)
            results, chosen = [*found.results], found.chosen
        if settings.likelihood == "gaussian":
            data = MEASURE.inputs.encoded(MEASURE.inputs.open(work / "prepared"), seeded, None, console)
            results += rivals(data, seed)
    counts = {"set": name, "seed": seed, "judged": results[0].counts["examples"]}
    counts["groups"] = len(results[0].groups)
    return [
        {
            **counts,
            "method": one.name,
            "chosen": one.name == chosen,
            **{key: round(one.scores[key], 4) for key in ("rmse", "r2", "nll", "crps", "width_90")},
            "covered_90": round(one.intervals()[SHOWN]["covered"], 4),
            "covered_90_groups": round(float(np.mean([group["covered"] for group in one.groups])), 4),
        }
        for one in results
    ]


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=SETS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--likelihood", default="gaussian", help="Of counts: poisson, negative_binomial.")
    parser.add_argument("--no-folds", action="store_true", help="Without out-of-fold heads.")
    parser.add_argument("--rivals", action="store_true", help="Judge the rivals alone.")
    given = parser.parse_args()
    settings = TrainSettings(out_of_fold=not given.no_folds, likelihood=given.likelihood)
    of_counts = "" if given.likelihood == "gaussian" else f"_{given.likelihood}"
    for name in [given.only] if given.only else SETS:
        rows = [
            row
            for seed in range(given.seeds)
            for row in judged_set(name, given.data, seed, settings, rivals_alone=given.rivals)
        ]
        of = f"{name}{of_counts}"
        title = f"Numbers of {of}, {given.seeds} splits{', without out-of-fold heads' * given.no_folds}"
        if given.rivals:
            kept = json.loads((given.out / of).with_suffix(".json").read_text(encoding="utf-8"))
            judged, title = {row["method"] for row in rows}, kept["title"]
            empty = dict.fromkeys(rows[0], "")
            rows = [*({**empty, **row} for row in kept["rows"] if row["method"] not in judged), *rows]
        write_results(given.out / of, title=title, rows=rows, host=host())


if __name__ == "__main__":
    main()
