"""How many observations patches of tissue are worth to a Gaussian process, by patients that never train it.

    python -m benchmarks.effective_observations --data FOLDER --out benchmarks/results/effective_observations

FOLDER has `ucsb_breast_histology` and `glas_colon_histology`, as for `benchmarks.histopathology`, whose
prepared features and divisions of patients are taken. Of the patients that train, a quarter fits
temperatures. An SVGP is trained on the 50 principal components of the 657 features, the divergence weighed
by N, N/3, N/10, N/30, by what the residuals of a logistic regression on the same patches say (`auto`), and
by the one of the four that is best in a cross-validation over the training patients. Judged on the patches
of the other patients, and on their images by the mean probability of the patches: mean NLL over the
divisions, plain and tempered.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy import special
from sklearn.linear_model import LogisticRegression

from benchmarks.common import host, write_results
from benchmarks.histopathology import SETS, SHARES, distinct_seeds, divided, prepared_once
from data_prep.histopathology.manifest import HistopathologyManifest
from data_prep.labelled.views import read_views
from data_prep.prepared.manifest import load_manifest
from data_prep.splits.stratified import stratified_parts
from gpmodels import HybridModel, SVGPHead
from gpmodels.networks.view_projection import ViewProjection
from gpmodels.statistics.effective_sample import effective_fraction, effective_observations
from pipelines.scores.calibration import LOG_ODDS_DEVIATION, fit_temperature

COMPONENTS, STEPS, BATCH = 50, 250, 512
DIVISORS = (1, 3, 10, 30)
MOST_FOLDS = 4

Array = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Patches:
    """Components `[N, 50]`, labels `[N]`, and patients and images `[N]` of patches."""

    features: Array
    labels: npt.NDArray[np.int64]
    patients: npt.NDArray[np.str_]
    images: npt.NDArray[np.str_]

    def of(self, rows: npt.NDArray[np.integer | np.bool_]) -> Patches:
        """Some of the patches."""
        return Patches(self.features[rows], self.labels[rows], self.patients[rows], self.images[rows])

    def parts(self, shares: tuple[float, ...], seed: int) -> npt.NDArray[np.int64]:
        """Part of each patch where whole patients are divided by shares."""
        names = [str(row) for row in range(len(self.labels))]
        patients = dict(zip(names, self.patients.tolist(), strict=True))
        part = stratified_parts(patients, dict(zip(names, self.labels.tolist(), strict=True)), shares, seed)
        return np.array([part[name] for name in names])


def divisions(data: Path, out: Path, splits: int) -> Iterator[tuple[Patches, Patches, Patches]]:
    """Training, temperature and judged patches of every division of every data set."""
    for data_set in SETS:
        prepared = prepared_once(data, out, data_set, "handmade")
        manifest = load_manifest(prepared, HistopathologyManifest)
        views = read_views(prepared, manifest)
        features = np.concatenate([views[name] for name in manifest.views], axis=1)
        every = Patches(
            features,
            np.array([example.label for example in manifest.examples]),
            np.array([example.group for example in manifest.examples]),
            np.array([example.source for example in manifest.examples]),
        )
        for seed in distinct_seeds(manifest, "half", splits):
            side = divided(manifest, SHARES["half"], seed)
            judged = np.array([side[example.name] == 1 for example in manifest.examples])
            own = np.flatnonzero(~judged)
            held_out = every.of(own).parts((0.75, 0.25), seed) == 1
            projection = ViewProjection(
                [views[name].shape[1] for name in manifest.views], components=COMPONENTS
            )
            projection.build((None, features.shape[1]))
            projection.adapt(features[own[~held_out]])
            seen = np.asarray(projection(tf.constant(features, tf.float32)))
            part = Patches(seen, every.labels, every.patients, every.images)
            yield part.of(own[~held_out]), part.of(own[held_out]), part.of(judged)


def fitted(train: Patches, count: float) -> HybridModel:
    """An SVGP trained on patches as so many observations."""
    keras.utils.set_random_seed(0)
    head = SVGPHead()
    model = HybridModel(keras.layers.Identity(), head, num_data=len(train.labels), num_effective=count)
    model.build((None, COMPONENTS))
    head.initialize(train.features.astype(float))
    model.compile(optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-2, STEPS)))
    points = tf.data.Dataset.from_tensor_slices((train.features, train.labels.astype(np.float32)))
    points = points.shuffle(len(train.labels), seed=0).repeat().batch(min(BATCH, len(train.labels)))
    model.fit(points, steps_per_epoch=STEPS, shuffle=False, verbose=0)
    return model


def log_odds(model: HybridModel, patches: Patches) -> Array:
    """Log-odds of the second class."""
    probability = model.predict(patches.features, batch_size=4096, verbose=0)["probability"]
    return np.asarray(special.logit(np.clip(probability.astype(np.float64), 1e-6, 1 - 1e-6)))


def nll(logits: Array, patches: Patches) -> tuple[float, float]:
    """NLL of patches, and of images by the mean probability of their patches."""
    _, image = np.unique(patches.images, return_inverse=True)
    size = np.bincount(image)
    pooled = np.clip(np.bincount(image, special.expit(logits)) / size, 1e-6, 1 - 1e-6)
    truth = np.bincount(image, patches.labels) / size > 0.5
    by_patch = np.logaddexp(0.0, logits) - patches.labels * logits
    return float(by_patch.mean()), float(-np.log(np.where(truth, pooled, 1 - pooled)).mean())


def scores(model: HybridModel, held_out: Patches, judged: Patches) -> list[float]:
    """NLL of patches and images, plain, then tempered as a run does it."""
    logits, labels = log_odds(model, held_out), held_out.labels
    weights = np.ones(len(labels))
    weights *= effective_fraction(logits, labels, weights, held_out.patients)
    temperature = fit_temperature(logits, labels, weights, prior_deviation=LOG_ODDS_DEVIATION)
    found = log_odds(model, judged)
    return [*nll(found, judged), *nll(found / temperature, judged)]


def best_by_patients(train: Patches) -> int:
    """The divisor of N with the least NLL of patches in a cross-validation over patients."""
    number = min(MOST_FOLDS, len(set(train.patients)))
    part = train.parts((1 / number,) * number, 0)
    losses = dict.fromkeys(DIVISORS, 0.0)
    for fold in np.unique(part):
        rest, left_out = train.of(part != fold), train.of(part == fold)
        if len(set(rest.labels.tolist())) < 2:
            continue  # nothing to tell apart
        for divisor in DIVISORS:
            logits = log_odds(fitted(rest, len(rest.labels) / divisor), left_out)
            losses[divisor] += nll(logits, left_out)[0] * len(left_out.labels)
    return min(losses, key=losses.__getitem__)


def main() -> None:
    """Train every way on every division and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=4, help="divisions of each data set")
    arguments = parser.parse_args()

    found: dict[str, list[list[float]]] = {}
    for train, held_out, judged in divisions(arguments.data, arguments.out, arguments.splits):
        keras.backend.clear_session()
        number = len(train.labels)
        linear = LogisticRegression(max_iter=2000).fit(train.features, train.labels)
        residuals = train.labels - linear.predict_proba(train.features)[:, 1]
        ways = {f"N/{divisor}": number / divisor for divisor in DIVISORS}
        ways["auto"] = effective_observations(train.patients, residuals)
        of_division = {way: scores(fitted(train, count), held_out, judged) for way, count in ways.items()}
        of_division["cross-validation"] = of_division[f"N/{best_by_patients(train)}"]
        for way, values in of_division.items():
            found.setdefault(way, []).append(values)
        print({way: np.round(values, 3).tolist() for way, values in of_division.items()}, flush=True)
    columns = ("patches", "images", "patches, tempered", "images, tempered")
    rows = [
        {"counted": way, **dict(zip(columns, np.round(np.mean(values, axis=0), 3).tolist(), strict=True))}
        for way, values in found.items()
    ]
    title = f"NLL of tissue by what a patch counts, mean over {len(found['auto'])} divisions of patients"
    write_results(arguments.out / "report", title=title, rows=rows, host=host())


if __name__ == "__main__":
    main()
