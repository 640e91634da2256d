"""What else the linear mean of a GP head could be: variants on fixed features, compared with the layer alone.

    python -m benchmarks.linear_mean --data FOLDER --work out/linear_mean --out benchmarks/results/linear_mean

Features are standardised columns of small tables and those of the pretrained trunk. Each variant is an SVGP
head that is trained as in a run (`pipelines.runs.head_start`): alone, until the held-out groups are predicted
no better. All, and the linear layer, have a temperature fitted to the held-out groups. The parts are seeds'
own; none of them is one of `benchmarks.scoreboard`.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import json
import logging
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple
from unittest import mock

import gpflow
import keras
import numpy as np
import numpy.typing as npt
import scipy.special
import scipy.stats
import tensorflow as tf
from rich.console import Console
from sklearn.preprocessing import StandardScaler

from benchmarks.common import host, write_results
from benchmarks.scoreboard.data_sets import divided
from benchmarks.scoreboard.plan import SETTINGS, Cell
from benchmarks.small_tables import small_tables, split_rows
from data_prep.files.atomic import atomic_file
from gpmodels import SVGPClassifier, SVGPHead
from gpmodels.heads.alone import AloneSchedule, HeadPoints, train_alone
from gpmodels.heads.gp import GPHead
from gpmodels.heads.linear_layer import PROBIT_SCALE, LinearLayer, linear_layer_of
from gpmodels.units.linear_mean import LinearMean
from pipelines.runs.description import PRETRAINING
from pipelines.runs.head_start import FeaturePoints, feature_points
from pipelines.runs.job import trained_job
from pipelines.runs.models import (
    SOFTMAX_VARIANCE,
    SOFTMAX_VARIANCE_BESIDE_MEAN,
    VARIANCE_BESIDE_MEAN,
    load_model,
)
from pipelines.runs.train import train
from pipelines.scores.calibration import LOG_ODDS_DEVIATION, fit_temperature

FloatArray = npt.NDArray[np.floating[Any]]

SEEDS = (11, 12, 13)
TABLES = ("breast_cancer", "iris", "digits", "biodeg", "german_numeric", "splice")
ON_TRUNK = (
    "BUSI, trunk",
    "MHSMA head, trunk",
    "breast, trunk, 4 groups",
    "colon, trunk, 4 groups",
    "tiles, trunk",
)

LINEAR = "linear + T"
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""s: what g counts for beside the layer."""

TITLE = "Variants of the linear mean: NLL relative to the linear layer with its temperature"


class Parts(NamedTuple):
    """Points to learn from, to choose by and to judge, with standardised features."""

    train: FeaturePoints
    selection: FeaturePoints
    test: FeaturePoints

    @property
    def num_classes(self) -> int:
        """C."""
        return int(self.train.points.labels.max()) + 1


class Marginals(NamedTuple):
    """Of the latent functions at some points: the layer's m `[N, P]`, what g adds to it, and the variance."""

    mean: FloatArray
    residual: FloatArray
    variance: FloatArray


@dataclass(frozen=True)
class Fit:
    """A trained head with the linear layer of its points."""

    head: GPHead
    layer: LinearLayer
    parts: Parts

    def marginals(self, part: FeaturePoints) -> Marginals:
        """Return the marginals at points."""
        x = tf.constant(part.points.features, tf.float32)
        latent, mean = self.head.latent(x), self.head.linear_mean
        shift = tf.zeros_like(latent.mean) if mean is None else mean(x)
        values = (shift, latent.mean - shift, latent.variance)
        return Marginals(*(value.numpy().astype(np.float64) for value in values))

    def log_probabilities(self, marginals: Marginals) -> FloatArray:
        """Return log p `[N, C]` of marginals."""
        mean, variance = (
            tf.constant(values, tf.float32)
            for values in (marginals.mean + marginals.residual, marginals.variance)
        )
        latent = self.head.latent(tf.zeros([len(mean), self.parts.train.points.features.shape[1]]))
        latent = replace(latent, mean=mean, variance=variance)
        return np.asarray(self.head.class_log_probabilities(latent).numpy(), np.float64)

    def layer_variance(self, part: FeaturePoints) -> FloatArray:
        """Return a² φᵀ S φ `[N, P]`, S the inverse Hessian of each class' part of the layer (Laplace).

        S has the penalty that the held-out rows chose. Of several classes the blocks between two classes are
        left out.
        """
        points, layer, mean = self.parts.train.points, self.layer, self.head.linear_mean
        if mean is None:
            raise TypeError(f"{self.head.name} has no linear mean.")
        unit = PROBIT_SCALE if self.head.num_classes == 2 else 1.0
        x, at = _with_one(points.features), _with_one(part.points.features)
        logits = (points.features @ layer.kernel + layer.bias) / unit
        share = scipy.special.expit(logits) if logits.shape[1] == 1 else scipy.special.softmax(logits, axis=1)
        penalty = np.diag([layer.penalty] * (x.shape[1] - 1) + [1e-6])
        curvatures = points.weights[:, None] * share * (1.0 - share)
        inverses = [np.linalg.inv((x.T * curvature) @ x + penalty) for curvature in curvatures.T]
        variance = np.stack([np.sum((at @ inverse) * at, axis=1) for inverse in inverses], axis=1)
        return np.square(float(mean.scale.numpy()) * unit) * variance


def _with_one(x: FloatArray) -> FloatArray:
    return np.column_stack([x.astype(np.float64), np.ones(len(x))])


class PerClassMean(LinearMean):
    """The mean with a scale a_p of its own for each latent function."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        dtype = self.kernel.dtype
        self.scale = gpflow.Parameter(np.ones(self.bias.shape), dtype=dtype, name="mean_scales")

    def scale_penalty(self) -> tf.Tensor:
        """Return the sum of what the priors of all a_p subtract."""
        return tf.reduce_sum(super().scale_penalty())

    def start_from(self, kernel: npt.ArrayLike, bias: npt.ArrayLike, scale: float = 1.0) -> None:
        """Take over a trained linear layer, with one scale for all at first."""
        scales = self.scale
        self.scale = gpflow.Parameter(1.0)
        super().start_from(kernel, bias, scale)
        self.scale = scales
        scales.assign(np.full(scales.shape, scale))


def fitted(
    parts: Parts, seed: int, *, mean: str = "linear", cross_fits: bool = True, per_class: bool = False
) -> Fit:
    """Train a head alone, as a run does on a frozen network.

    Args:
        parts: Its points.
        seed: Of placing and of the order of the points.
        mean: As of the head.
        cross_fits: Whether g learns beside logits of layers that did not see a point's group.
        per_class: Whether each class has a scale of its own.
    """
    keras.utils.set_random_seed(seed)
    points, classes = parts.train.points, parts.num_classes
    wide = SOFTMAX_VARIANCE_BESIDE_MEAN if classes > 2 else VARIANCE_BESIDE_MEAN
    if mean == "none":
        wide = SOFTMAX_VARIANCE if classes > 2 else 1.0
    x = points.features.astype(np.float64)
    with mock.patch("gpmodels.heads.gp.LinearMean", PerClassMean if per_class else LinearMean):
        heads = [SVGPHead(num_classes=classes, mean=name, kernel_variance=wide) for name in (mean, "linear")]
        for head in heads:
            head.build((None, x.shape[1]))
    head = heads[0]
    head.initialize(x, seed=seed)
    labels, weights = points.labels.astype(np.float64), points.weights.astype(np.float64)
    layer = linear_layer_of(heads[1], x, labels, weights, parts.train.groups.astype(np.intp))
    if layer is None:
        raise TypeError(f"{heads[1].name} has no linear mean.")
    if head.linear_mean is not None:
        head.linear_mean.start_from(layer.kernel, layer.bias)
        points = replace(points, logits=layer.logits.astype(np.float32)) if cross_fits else points
    schedule = AloneSchedule(holds_linear_layer=True)
    train_alone(head, points, parts.selection.points, schedule, num_observations=len(x), seed=seed)
    return Fit(head, layer, parts)


LogProbabilities = tuple[FloatArray, FloatArray]
"""Of the selection and of the test points, `[N, C]` each."""


def of_linear_layer(fit: Fit) -> LogProbabilities:
    """Return those of the regularised layer alone."""

    def at(part: FeaturePoints) -> FloatArray:
        logits = part.points.features @ fit.layer.kernel + fit.layer.bias
        both = np.concatenate([np.zeros_like(logits), logits], axis=1) if logits.shape[1] == 1 else logits
        return np.asarray(scipy.special.log_softmax(both, axis=1))

    return at(fit.parts.selection), at(fit.parts.test)


def of_head(
    fit: Fit, change: Callable[[Marginals, FeaturePoints], Marginals] | None = None
) -> LogProbabilities:
    """Return those of a head, whose marginals may be changed."""

    def at(part: FeaturePoints) -> FloatArray:
        marginals = fit.marginals(part)
        return fit.log_probabilities(marginals if change is None else change(marginals, part))

    return at(fit.parts.selection), at(fit.parts.test)


def with_uncertain_weights(fit: Fit) -> LogProbabilities:
    """Return those with q(w): the variance of the layer is added to that of g."""
    return of_head(fit, lambda old, part: old._replace(variance=old.variance + fit.layer_variance(part)))


def with_chosen_share(fit: Fit) -> LogProbabilities:
    """Return those of m + s g, s chosen by the selection points, each with its temperature."""
    labels = fit.parts.selection.points.labels.astype(np.intp)

    def shared(share: float) -> LogProbabilities:
        return of_head(
            fit,
            lambda old, _: old._replace(
                residual=share * old.residual, variance=share**2 * old.variance + 1e-6
            ),
        )

    tried = [shared(share) for share in SHARES]
    return min(tried, key=lambda found: tempered_nll(found[0], labels, fit_temperature(found[0], labels)))


def of_all_rows(fit: Fit, seed: int) -> LogProbabilities:
    """Return those of the estimator, whose q is the best one for the mean and kernel at every step."""
    points = fit.parts.train.points
    model = SVGPClassifier(random_state=seed, temperature=1.0, effective_observations="all")
    model.fit(
        points.features,
        points.labels.astype(int),
        sample_weight=points.weights,
        groups=fit.parts.train.groups,
    )
    found = (model.predict_proba(part.points.features) for part in (fit.parts.selection, fit.parts.test))
    first, second = (np.log(np.maximum(probability, 1e-30)) for probability in found)
    return first, second


def tempered_nll(log_probability: FloatArray, labels: npt.NDArray[np.intp], temperature: float) -> float:
    """Return the mean NLL at a temperature, nats."""
    logs = scipy.special.log_softmax(log_probability / temperature, axis=1)
    return float(-logs[np.arange(len(labels)), labels].mean())


def nlls(parts: Parts, seed: int) -> dict[str, float]:
    """Return the test NLL of each variant, at the temperature that its selection points chose."""
    today = fitted(parts, seed)
    tried = {
        LINEAR: of_linear_layer(today),
        "cross-fitted (today)": of_head(today),
        "no mean": of_head(fitted(parts, seed, mean="none")),
        "layer's own logits": of_head(fitted(parts, seed, cross_fits=False)),
        "uncertain weights": with_uncertain_weights(today),
        "share s of g": with_chosen_share(today),
        "best q at every step": of_all_rows(today, seed),
    }
    if parts.num_classes > 2:
        tried["a scale for each class"] = of_head(fitted(parts, seed, per_class=True))
    chosen, judged = (part.points.labels.astype(np.intp) for part in (parts.selection, parts.test))
    return {
        name: tempered_nll(
            test, judged, fit_temperature(selection, chosen, prior_deviation=LOG_ODDS_DEVIATION)
        )
        for name, (selection, test) in tried.items()
    }


def standardised(*parts: FeaturePoints) -> Parts:
    """Return the parts with features scaled by the first one."""
    scaler = StandardScaler().fit(parts[0].points.features)

    def scaled(part: FeaturePoints) -> FeaturePoints:
        features = scaler.transform(part.points.features).astype(np.float32)
        return replace(part, points=replace(part.points, features=features))

    return Parts(*map(scaled, parts))


def table_parts(name: str, seed: int, data: Path) -> Parts:
    """Return a split of a table; a quarter of its training rows chooses."""
    train, test = split_rows(dict(small_tables(data / "tabular"))[name], seed)
    order = np.random.default_rng(seed).permutation(len(train[1]))
    held, kept = np.split(order, [len(order) // 4])

    def points(x: FloatArray, y: npt.NDArray[Any]) -> FeaturePoints:
        ones = np.ones(len(y), np.float32)
        return FeaturePoints(HeadPoints(x.astype(np.float32), y.astype(np.float32), ones), np.arange(len(y)))

    return standardised(
        *(
            points(*rows)
            for rows in ((train[0][kept], train[1][kept]), (train[0][held], train[1][held]), test)
        )
    )


def trunk_parts(name: str, seed: int, data: Path, shared: Path) -> Parts:
    """Return the pretrained network's features of a data set, divided anew by groups."""
    setting = SETTINGS[name]
    application: Any = resolve_name(f"pipelines.{setting.kind}.application:{setting.kind.upper()}")
    kind = resolve_name(f"pipelines.{setting.kind}.settings:TrainSettings")
    console = Console(quiet=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        judged = divided(Cell(setting, seed), data, shared, work)
        changes = {
            **judged.training,
            **setting.changes,
            "seed": seed,
            "heads": ["linear"],
            "pretraining_epochs": 1,
        }
        train(
            application,
            kind.model_validate(changes),
            data=judged.folder,
            out=work / "run",
            resume=False,
            console=console,
        )
        job = trained_job(application, work / "run", console)
        inputs = job.application.inputs
        data_seen = inputs.encoded(inputs.open(judged.folder), job.settings, job.folder, console, None)
        job = job.on(data_seen, fold=job.settings.fold)
        model = load_model(job, PRETRAINING)
        return standardised(
            *(
                feature_points(model, job.batches(part), job.groups(part), 10**6, seed=0)
                for part in ("train", "selection", "test")
            )
        )


def main() -> None:
    """Compute what is missing and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--work", type=Path, default=Path("out/linear_mean"), help="folder of the cells")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/linear_mean"))
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    cells = []
    for seed in SEEDS:
        for name in (*TABLES, *ON_TRUNK):
            path = arguments.work / f"{name.replace(' ', '_').replace(',', '')}--{seed}.json"
            if not path.exists():
                if name in TABLES:
                    parts = table_parts(name, seed, arguments.data)
                else:
                    parts = trunk_parts(name, seed, arguments.data, arguments.work / "data")
                record = {"data": name, "seed": seed, "nll": nlls(parts, seed)}
                path.parent.mkdir(parents=True, exist_ok=True)
                with atomic_file(path) as temporary:
                    temporary.write_text(json.dumps(record), encoding="utf-8")
                print(record, flush=True)
            cells.append(json.loads(path.read_text(encoding="utf-8")))
    write_results(arguments.out, title=TITLE, rows=list(report(cells)), host=host(), cells=cells)


def report(cells: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return a row for each data set, of mean NLLs relative to the layer's, and two of all data sets.

    The last one compares each variant with the first over all splits: the geometric mean of the ratios, and
    the p of Wilcoxon's test.
    """
    cells = list(cells)
    variants = list(dict.fromkeys(name for cell in cells for name in cell["nll"] if name != LINEAR))
    rows, ratios = [], []
    for data in dict.fromkeys(cell["data"] for cell in cells):
        own = [cell["nll"] for cell in cells if cell["data"] == data]
        layer = float(np.mean([one[LINEAR] for one in own]))
        of_data = [float(np.mean([one.get(name, np.nan) for one in own])) / layer for name in variants]
        ratios.append(of_data)
        shown = ["" if np.isnan(ratio) else f"{ratio:.3f}" for ratio in of_data]
        rows.append(_row(data, f"{layer:.4f}", variants, shown))
    means = [f"{mean:.3f}" for mean in np.nanmean(ratios, axis=0)]
    rows.append(_row("mean", "", variants, means))
    first, *others = variants
    against = [_against(cells, name, first) for name in others]
    rows.append(_row(f"against {first} (p)", "", variants, ["", *against]))
    return rows


def _against(cells: Iterable[Mapping[str, Any]], name: str, first: str) -> str:
    """Return the geometric mean of a variant's NLL over that of the first, and the p of the difference."""
    nlls = [cell["nll"] for cell in cells if name in cell["nll"]]
    logs = np.log([nll[name] / nll[first] for nll in nlls])
    return f"{np.exp(logs.mean()):.3f} ({scipy.stats.wilcoxon(logs).pvalue:.2g})"


def _row(name: str, layer: str, variants: Iterable[str], shown: Iterable[str]) -> dict[str, str]:
    return {"data": name, f"NLL of {LINEAR}": layer, **dict(zip(variants, shown, strict=True))}


if __name__ == "__main__":
    main()
