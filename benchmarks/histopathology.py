"""Compare heads on patches of tissue: benign or malignant, breast and colon, over random splits of groups.

    python -m benchmarks.histopathology --data FOLDER --out benchmarks/results/histopathology

FOLDER has `ucsb_breast_histology` (58 images at the source, 48 here, 7 x 7 patches, 8 groups of the tissue
microarray) and `glas_colon_histology` (165 images, 112 here, 10 patients). A split divides groups at
random, so that nobody is on both sides; about half of the patches of each class train, or a quarter, as near
as the groups drawn allow: in colon a "quarter" is 5 to 44 % of a class. Draws that are alike count once.

Every method of a split has the same training, selection and test patches, and for the heads the same steps.
Selection patches, which choose the best epoch and fit temperatures, and the parts of the cross-validation of
the linear and the RBF-SVM are of groups of their own where the training side has enough of them for each
class, else of images of their own: two groups cannot be both. On handmade features three other models of
several kernels see the same views as DFGP-MKL; they have no use for selection patches and are trained on
these too, without the heads' weights for rare classes (`--set svms=[]` leaves them out). The SVM of
averaged kernels is cross-validated by patches, as scikit-learn does: with whole groups Platt's scaling
turned its classes round in some splits.

Settings are the defaults of `gpimaging histopathology train` but for those named in the report; none was
chosen on these data's test parts. One file for each training run in OUT/cells; a second call computes what is
missing, and again what was made of other features, splits or settings. The report is of the sets, shares and
features asked for: give other features an OUT of their own.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
import yaml
from rich.console import Console

from benchmarks.common import fingerprint
from benchmarks.peers.averaged_svm import AveragedKernelSVC
from benchmarks.peers.bemkl import BEMKLClassifier
from benchmarks.peers.mkgp import MKGPClassifier
from benchmarks.tabular.summary import paired_test
from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file
from data_prep.histopathology.features import EXTRACTOR
from data_prep.histopathology.manifest import HistopathologyExample, HistopathologyManifest
from data_prep.histopathology.prepare import prepare_histopathology
from data_prep.histopathology.settings import HistopathologyPrepareSettings
from data_prep.prepared.manifest import MANIFEST_NAME, file_sha256, load_manifest
from data_prep.splits.divide import manifest_splits
from data_prep.splits.stratified import stratified_parts
from gpmodels.likelihoods.categorical import categorical_entropy
from pipelines.bundles.serving import per_class
from pipelines.histopathology.application import (
    HISTOPATHOLOGY,
    POOL_OF,
    Judged,
    TissueApplication,
    is_of_one_class,
    tissue_application,
    tissue_judge,
)
from pipelines.histopathology.settings import TrainSettings
from pipelines.labelled.pools import mean_outputs
from pipelines.labelled.svms import TrainingFeatures
from pipelines.labelled.views import component_columns, features_shape, projection_by_view
from pipelines.runs.application import JudgedExample
from pipelines.runs.description import PRETRAINING
from pipelines.runs.job import Job, trained_job
from pipelines.runs.models import load_model, run_predictors
from pipelines.runs.predictors import Predictor
from pipelines.runs.train import train as train_run
from pipelines.trunks.settings import is_trunk, trunk_names

SETS: dict[str, tuple[str, HistopathologyPrepareSettings]] = {
    "breast": (
        "ucsb_breast_histology",
        HistopathologyPrepareSettings(grid=(7, 7), patient_column="tma_core"),
    ),
    "colon": (
        "glas_colon_histology",
        HistopathologyPrepareSettings(
            file_column="name", label_column="grade_glas", patient_column="patient_id"
        ),
    ),
}
TRUNK_SIZE = (160, 160)
"""Height and width at which patches are stored for trunks, which make more of them than small networks."""

SHARES = {"half": 0.5, "quarter": 0.25}
"""Share of the groups that trains."""

STEPS = {"pretraining_epochs": 5, "head_epochs": 5}
"""500 and 500 steps instead of 2000 and 2000, to have the many splits in an hour."""

KERNEL_METHODS = {
    "BEMKL": BEMKLClassifier,
    "MKGP": MKGPClassifier,
    "SVM, averaged kernels": AveragedKernelSVC,
}

_VERSION = 2
"""Of the splits."""

MOST_DRAWS = 50
"""Seeds that are tried for different splits."""

AT_ONCE = 64
"""Patches that are predicted at a time."""

Array = npt.NDArray[np.floating[Any]]

JUDGED: tuple[Judged, ...] = ("patch", "image", "patient")
REFERENCE = "Linear + temperature"
SCORES = {"accuracy": "accuracy", "nll": "NLL", "ece": "ECE", "auroc_predictive_entropy": "AUROC of entropy"}


@dataclass(frozen=True)
class Cell:
    """A training run."""

    data_set: str
    share: str
    features: str
    seed: int

    @property
    def name(self) -> str:
        """For files."""
        return f"{self.data_set}-{self.share}-{self.features}-{self.seed}"


def main() -> None:
    """Run what is asked for and is missing, then write the report."""
    arguments = _parse()
    logging.disable(logging.WARNING)
    changes = {
        **STEPS,
        **{key: yaml.safe_load(value) for key, _, value in (text.partition("=") for text in arguments.set)},
    }
    records = []
    for data_set, share in product(arguments.sets, arguments.shares):
        prepared = prepared_once(arguments.data, arguments.out, data_set, arguments.features)
        for seed in distinct_seeds(load_manifest(prepared, HistopathologyManifest), share, arguments.splits):
            cell = Cell(data_set, share, arguments.features, seed)
            path = arguments.out / "cells" / f"{cell.name}.json"
            made_of = fingerprint(_VERSION, file_sha256(prepared / MANIFEST_NAME), asdict(cell), changes)
            record = json.loads(path.read_text()) if path.exists() else {}
            if record.get("made_of") != made_of:
                record = {"made_of": made_of, **run_cell(cell, prepared, changes)}
                _keep(path, record)
            records.append(record)
        write_report(arguments.out, records)


def prepared_once(data: Path, out: Path, data_set: str, features: str) -> Path:
    """Return the prepared folder of a data set, whose features are computed once for all splits.

    Args:
        data: Folder of the data sets.
        out: Folder of the benchmark.
        data_set: Key of `SETS`.
        features: What the heads see; for a trunk the patches are stored at `TRUNK_SIZE`.
    """
    folder, settings = SETS[data_set]
    prepared = out / "prepared" / data_set
    if is_trunk(features):
        settings = settings.model_copy(update={"size": TRUNK_SIZE})
        prepared = out / "prepared" / f"{data_set}_for_trunks"
    if prepared.exists() and load_manifest(prepared, HistopathologyManifest).extractor == EXTRACTOR:
        return prepared
    prepared.parent.mkdir(parents=True, exist_ok=True)
    table = data / folder / "labels.csv"
    images = data / folder / "images"
    prepare_histopathology(images, prepared, settings, labels=table, jobs=1, overwrite=True)
    return prepared


def run_cell(cell: Cell, prepared: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Train on a split of its own and judge patches, images and patients of the test part."""
    keras.backend.clear_session()
    with tempfile.TemporaryDirectory() as folder:
        split = split_again(prepared, Path(folder) / "prepared", SHARES[cell.share], cell.seed)
        key = "network" if is_trunk(cell.features) else "features"
        settings = TrainSettings.model_validate({**changes, key: cell.features, "seed": cell.seed})
        console = Console(quiet=True)
        run = train_run(
            HISTOPATHOLOGY, settings, data=split, out=Path(folder) / "run", resume=False, console=console
        )
        manifest = load_manifest(split, HistopathologyManifest)
        bys = [by for by in JUDGED if is_of_one_class(manifest, by)]

        def predictors(application: TissueApplication) -> list[Predictor]:
            job = trained_job(application, Path(folder) / "run", console)
            trained = run_predictors(job)
            if cell.features == "handmade" and settings.svms:
                trained += kernel_predictors(job.on(application.inputs.open(split), fold=0))
            return trained

        application = tissue_application("cnn" if is_trunk(cell.features) else settings.features, "patch")
        data = application.inputs.encoded(
            application.inputs.open(split), settings, Path(folder) / "run", console
        )
        judged = judge(application, bys, data, predictors)
    return {
        "cell": asdict(cell),
        "settings": dict(changes),
        "counts": run.counts,
        "groups": num_groups(manifest, load_manifest(prepared, HistopathologyManifest)),
        "seconds": run.seconds,
        "view_weights": run.view_weights,
        "judged": judged,
    }


def split_again(prepared: Path, folder: Path, share: float, seed: int) -> Path:
    """The same prepared examples under another split of their groups."""
    manifest = load_manifest(prepared, HistopathologyManifest)
    parts = divided(manifest, share, seed)
    examples = [e.model_copy(update={"split": ("train", "test")[parts[e.name]]}) for e in manifest.examples]
    changed = manifest.model_copy(update={"examples": tuple(examples)})
    if not has_groups_to_choose_by(changed):
        of_images = [by_image(example) if example.split == "train" else example for example in examples]
        changed = manifest.model_copy(update={"examples": tuple(of_images)})
    folder.mkdir()
    for name in manifest.sha256:
        (folder / name).symlink_to((prepared / name).resolve())
    (folder / MANIFEST_NAME).write_text(changed.model_dump_json())
    return folder


def divided(manifest: HistopathologyManifest, share: float, seed: int) -> dict[str, int]:
    """Side of each example, 0 to train on and 1 to judge: whole groups, drawn at random."""
    groups = {example.name: example.group for example in manifest.examples}
    labels = {example.name: example.label for example in manifest.examples}
    # In the order of their sizes groups would be divided in the same way whatever the seed.
    return stratified_parts(groups, labels, (share, 1.0 - share), seed, largest_first=False)


def distinct_seeds(manifest: HistopathologyManifest, share: str, count: int) -> list[int]:
    """The first seeds whose training sides are of different groups: of few groups some draws are alike.

    Raises:
        ValueError: So many different sides were not found.
    """
    groups = {example.name: example.group for example in manifest.examples}
    seeds: dict[frozenset[str], int] = {}
    for seed in range(MOST_DRAWS):
        parts = divided(manifest, SHARES[share], seed)
        seeds.setdefault(frozenset(groups[name] for name, part in parts.items() if part == 0), seed)
        if len(seeds) == count:
            return list(seeds.values())
    raise ValueError(
        f"{MOST_DRAWS} draws of {len(set(groups.values()))} groups gave {len(seeds)} different divisions, "
        f"but {count} were asked for. Ask for fewer splits."
    )


def by_image(example: HistopathologyExample) -> HistopathologyExample:
    """The same patch, kept together with those of its image alone."""
    return example.model_copy(update={"group": example.source})


def has_groups_to_choose_by(manifest: HistopathologyManifest) -> bool:
    """Whether each class has a group to select by, and two others for a cross-validation."""
    try:
        splits = manifest_splits(manifest, selection_fraction=TrainSettings().selection_fraction)
    except InputError:  # no selection part can be taken out of whole groups
        return False
    return all(
        len({example.group for example in manifest.select(names) if example.label == label}) >= least
        for names, least in ((splits.train, 2), (splits.selection, 1))
        for label in range(len(manifest.class_names))
    )


def num_groups(split: HistopathologyManifest, prepared: HistopathologyManifest) -> dict[str, int]:
    """How many groups train and test, and how many parts of the training groups stay together."""
    of = {example.name: example.group for example in prepared.examples}
    return {
        "train": len({of[e.name] for e in split.examples if e.split == "train"}),
        "test": len({of[e.name] for e in split.examples if e.split == "test"}),
        "kept together": len({e.group for e in split.examples if e.split == "train"}),
    }


def kernel_predictors(job: Job[Any, TrainSettings, Any]) -> list[Predictor]:
    """Return the other models of several kernels, on what DFGP-MKL sees of the training patches."""
    settings, run = job.settings, job.run
    network = projection_by_view(settings, run)
    network.build(features_shape(run))
    network.set_weights(load_model(job, PRETRAINING).network.get_weights())
    train = job.data.part((*job.splits.train, *job.splits.selection)).through(network)
    views = list(component_columns(settings, run).values())
    return [
        kernel_predictor(title, kind(views=views, random_state=settings.seed), train, network)
        for title, kind in KERNEL_METHODS.items()
    ]


def kernel_predictor(title: str, model: Any, train: TrainingFeatures, network: Any) -> Predictor:
    """A trained model with the outputs of a head."""
    model.fit(train.features.astype(np.float64), train.labels)

    def predict(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        probability = tf.constant(model.predict_proba(np.asarray(network(inputs), np.float64)), tf.float32)
        entropy = categorical_entropy(probability)
        return {
            "probability": probability,
            "label": tf.argmax(probability, axis=1, output_type=tf.int32),
            "predictive_entropy": entropy,
            "mutual_information": tf.zeros_like(entropy),
        }

    return Predictor(title, predict, {})


def judge(
    application: TissueApplication,
    bys: Sequence[Judged],
    prepared: Any,
    predictors: Callable[[TissueApplication], Sequence[Predictor]],
) -> dict[str, dict[str, dict[str, float]]]:
    """Scores on the test part, by what is judged and by method; each patch is predicted once."""
    patches = list(application.judge.examples(prepared, manifest_splits(prepared.manifest).test))
    inputs = np.concatenate([patch.image for patch in patches])
    entries = {example.name: example for example in prepared.manifest.examples}
    judged: dict[str, dict[str, dict[str, float]]] = {by: {} for by in bys}
    for predictor in predictors(application):
        probability, information = predicted(predictor, inputs)
        for by in bys:
            pooled = tissue_judge(by)
            rows: dict[str, list[int]] = defaultdict(list)
            for row, patch in enumerate(patches):
                rows[POOL_OF[by](entries[patch.name])].append(row)
            records = [
                pooled.record(
                    JudgedExample(pool, inputs[of_pool], patches[of_pool[0]].truth),
                    mean_outputs(probability[of_pool], information[of_pool]),
                )
                for pool, of_pool in sorted(rows.items())
            ]
            found = pooled.result(predictor.title, records).scores
            judged[by][predictor.title] = {key: float(found[key]) for key in SCORES}
    return judged


def predicted(predictor: Predictor, inputs: np.ndarray[Any, Any]) -> tuple[Array, Array]:
    """Probability `[N, C]` and mutual information `[N]` of N patches."""
    batches = [
        predictor.predict(tf.constant(inputs[start : start + AT_ONCE], tf.float32))
        for start in range(0, len(inputs), AT_ONCE)
    ]
    probability = np.concatenate([per_class(batch["probability"]).numpy() for batch in batches])
    return probability, np.concatenate([batch["mutual_information"].numpy() for batch in batches])


def write_report(out: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Write `report.md`: a table for each data set, share and what is judged."""
    settings = {json.dumps(record["settings"]) for record in records}
    heading = (
        f"Mean ± standard deviation over random splits of groups; settings changed: {', '.join(settings)}. "
        f"p is that of a paired two-sided test of the NLL against {REFERENCE}: Wilcoxon's from six splits "
        "on, below a t-test. Splits share groups, so it takes them for more independent than they are; small "
        "differences with a small p are not proved."
    )
    parts = ["# Heads on patches of tissue", heading]
    keys = sorted({tuple(record["cell"][k] for k in ("data_set", "share", "features")) for record in records})
    for key in keys:
        members = [
            r for r in records if tuple(r["cell"][k] for k in ("data_set", "share", "features")) == key
        ]
        for by in members[0]["judged"]:
            title = f"## {key[0]}, {key[2]} features, {key[1]} to train on, by {by} ({len(members)} splits)"
            parts += [title, _table([record["judged"][by] for record in members])]
        parts += [_counts(members), *([_weights(members)] if members[0]["view_weights"] else [])]
    with atomic_file(out / "report.md") as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print("\n\n".join(parts))


def _table(judged: Sequence[Mapping[str, Mapping[str, float]]]) -> str:
    lines = ["| method | " + " | ".join(SCORES.values()) + " | p |", "|" + "---|" * (len(SCORES) + 2)]
    for name in judged[0]:
        cells = [_spread([one[name][key] for one in judged]) for key in SCORES]
        ours, theirs = (
            {split: one[method]["nll"] for split, one in enumerate(judged)} for method in (name, REFERENCE)
        )
        test = None if name == REFERENCE else paired_test(ours, theirs)
        p = "" if test is None or np.isnan(test.p_value) else f"{test.p_value:.3f}"
        lines.append(f"| {name} | {' | '.join(cells)} | {p} |")
    return "\n".join(lines)


def _counts(records: Sequence[Mapping[str, Any]]) -> str:
    patches = ", ".join(
        f"{part} {_spread([r['counts'][part] for r in records], 0)}"
        for part in ("train", "selection", "test")
    )
    groups = ", ".join(
        f"{side} {_spread([r['groups'][side] for r in records], 1)}" for side in ("train", "test")
    )
    whole = sum(r["groups"]["kept together"] == r["groups"]["train"] for r in records)
    return (
        f"Patches: {patches}. Groups: {groups}. "
        "Selection, and cross-validation of the linear and the RBF-SVM, "
        f"by whole groups in {whole} of {len(records)} splits, by whole images in the others."
    )


def _weights(records: Sequence[Mapping[str, Any]]) -> str:
    names = list(records[0]["view_weights"])
    shares = [f"{name} {_spread([r['view_weights'][name] for r in records], 2)}" for name in names]
    return f"Weights of the views: {', '.join(shares)}."


def _spread(values: Sequence[float], digits: int = 3) -> str:
    known = [value for value in values if np.isfinite(value)]
    if not known:
        return "-"
    return f"{np.mean(known):.{digits}f} ± {np.std(known, ddof=min(1, len(known) - 1)):.{digits}f}"


def _keep(path: Path, record: Mapping[str, Any]) -> None:
    with atomic_file(path) as temporary:
        temporary.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    nll = {name: round(scores["nll"], 3) for name, scores in record["judged"]["image"].items()}
    print(f"{path.stem}: NLL by image {nll}", flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--out", type=Path, required=True, help="folder for cells and report")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--shares", nargs="*", default=list(SHARES), choices=SHARES)
    parser.add_argument("--features", default="handmade", choices=["handmade", "cnn", *trunk_names()])
    parser.add_argument("--splits", type=int, default=10, help="different divisions of the groups")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the training")
    return parser.parse_args()


if __name__ == "__main__":
    main()
