"""Compare heads on patches of tissue: benign or malignant, breast and colon, over random splits of groups.

    python -m benchmarks.histopathology --data FOLDER --out benchmarks/results/histopathology

FOLDER has `ucsb_breast_histology` (58 images at the source, 48 here, 7 x 7 patches, 8 groups of the tissue
microarray) and `glas_colon_histology` (165 images, 16 patients). A split divides groups, so that nobody is on
both sides; half of the groups train, or a quarter. Every method of a split has the same training, selection
and test patches, and for the heads the same steps. On handmade features three other models of several kernels
see the same views as DFGP-MKL; they have no use for the selection patches. Settings are the defaults of
`gpimaging histopathology train` but for those named in the report; none was chosen on these data's test
parts. One file for each training run in OUT/cells; a second call computes what is missing.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
import yaml
from rich.console import Console

from benchmarks.tabular.summary import paired_test
from data_prep.atomic import atomic_file
from data_prep.errors import InputError
from data_prep.histopathology import prepare_histopathology
from data_prep.histopathology_manifest import HistopathologyManifest
from data_prep.histopathology_settings import HistopathologyPrepareSettings
from data_prep.labelled_splits import LabelledName, assign_labelled
from data_prep.manifest import MANIFEST_NAME, load_manifest
from data_prep.splits import manifest_splits
from gpmodels.comparison import AveragedKernelSVC, BEMKLClassifier, MKGPClassifier
from gpmodels.likelihoods.categorical import categorical_entropy
from pipelines import histopathology
from pipelines.histopathology_application import Features, Judged, TissueFeatures, tissue_application
from pipelines.histopathology_settings import TrainSettings
from pipelines.machines import TrainingFeatures
from pipelines.predictors import Predictor

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
SHARES = {"half": 0.5, "quarter": 0.25}
"""Share of the groups that trains."""

STEPS = {"pretraining_epochs": 5, "head_epochs": 5}
"""500 and 500 steps instead of 2000 and 2000, to have the many splits in an hour."""

KERNEL_METHODS = {
    "BEMKL": BEMKLClassifier,
    "MKGP": MKGPClassifier,
    "SVM, averaged kernels": AveragedKernelSVC,
}

JUDGED: tuple[Judged, ...] = ("patch", "image", "patient")
REFERENCE = "Linear + temperature"
SCORES = {"accuracy": "accuracy", "nll": "NLL", "ece": "ECE", "auroc_predictive_entropy": "AUROC of entropy"}


@dataclass(frozen=True)
class Cell:
    """A training run."""

    data_set: str
    share: str
    features: Features
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
    for seed in arguments.seeds:
        for data_set in arguments.sets:
            prepared = prepared_once(arguments.data, arguments.out, data_set)
            for share in arguments.shares:
                cell = Cell(data_set, share, arguments.features, seed)
                path = arguments.out / "cells" / f"{cell.name}.json"
                if not path.exists():
                    _keep(path, run_cell(cell, prepared, changes))
                elif json.loads(path.read_text())["settings"] != changes:
                    raise SystemExit(f"{path} was made with other settings. Choose another --out.")
    records = [json.loads(path.read_text()) for path in sorted((arguments.out / "cells").glob("*.json"))]
    write_report(arguments.out, records)


def prepared_once(data: Path, out: Path, data_set: str) -> Path:
    """The prepared folder of a data set, whose features are computed once for all splits."""
    folder, settings = SETS[data_set]
    prepared = out / "prepared" / data_set
    if not prepared.exists():
        prepared.parent.mkdir(parents=True, exist_ok=True)
        table = data / folder / "labels.csv"
        prepare_histopathology(data / folder / "images", prepared, settings, labels=table, jobs=1)
    return prepared


def run_cell(cell: Cell, prepared: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Train on a split of its own and judge patches, images and patients of the test part."""
    keras.backend.clear_session()
    with tempfile.TemporaryDirectory() as folder:
        split = split_again(prepared, Path(folder) / "prepared", SHARES[cell.share], cell.seed)
        settings = TrainSettings.model_validate({**changes, "features": cell.features, "seed": cell.seed})
        run = train(settings, split, Path(folder) / "run")
        manifest = load_manifest(split, HistopathologyManifest)
        application = tissue_application(cell.features)
        others: list[Predictor] = []
        if isinstance(application, TissueFeatures):
            others = kernel_predictors(application, split, Path(folder) / "run", settings, run)
        judged = {
            by: judge(cell.features, by, split, Path(folder) / "run", settings, run, others)
            for by in JUDGED
            if histopathology.is_of_one_class(manifest, by)
        }
    return {
        "cell": asdict(cell),
        "settings": dict(changes),
        "counts": run.counts,
        "seconds": run.seconds,
        "view_weights": run.view_weights,
        "judged": judged,
    }


def split_again(prepared: Path, folder: Path, share: float, seed: int) -> Path:
    """The same prepared examples under another split of their groups."""
    manifest = load_manifest(prepared, HistopathologyManifest)
    names = [LabelledName(e.name, e.source, e.group, e.label) for e in manifest.examples]
    settings = HistopathologyPrepareSettings(test_fraction=1.0 - share, seed=seed)
    assigned = assign_labelled(names, settings)
    examples = tuple(e.model_copy(update=asdict(assigned[e.name])) for e in manifest.examples)
    folder.mkdir()
    for name in manifest.sha256:
        (folder / name).symlink_to((prepared / name).resolve())
    text = manifest.model_copy(update={"examples": examples}).model_dump_json()
    (folder / MANIFEST_NAME).write_text(text)
    return folder


def train(settings: TrainSettings, data: Path, out: Path) -> Any:
    """Train, without support vector machines where the training groups are too few to choose C by."""
    console = Console(quiet=True)
    try:
        return histopathology.train(settings, data=data, out=out, resume=False, console=console)
    except InputError as error:
        if "support vector machines" not in str(error):
            raise
        without = settings.model_copy(update={"machines": ()})
        return histopathology.train(without, data=data, out=out, resume=False, console=console)


def kernel_predictors(
    application: TissueFeatures, data: Path, out: Path, settings: TrainSettings, run: Any
) -> list[Predictor]:
    """The other models of several kernels, on what DFGP-MKL sees of the training patches."""
    prepared = application.prepared(data)
    names = manifest_splits(prepared.manifest, selection_fraction=settings.selection_fraction).train
    network = application.head_network("dfgp_mkl", settings, run)
    network.build(application.input_shape(run))
    network.set_weights(application.projection(out, settings, run).get_weights())
    train = prepared.part(names).through(network)
    views = list(application.views(settings, run).values())
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
    features: Features,
    by: Judged,
    data: Path,
    out: Path,
    settings: TrainSettings,
    run: Any,
    others: Sequence[Predictor],
) -> dict[str, dict[str, float]]:
    """Scores of each method on the test part."""
    application = tissue_application(features, by)
    prepared = application.prepared(data)
    examples = list(application.examples(prepared, manifest_splits(prepared.manifest).test))
    scores = {}
    for predictor in [*application.predictors(out, settings, run), *others]:
        records = [application.record(one, application.outputs(predictor, one)) for one in examples]
        found = application.result(predictor.title, records).scores
        scores[predictor.title] = {key: float(found[key]) for key in SCORES}
    return scores


def write_report(out: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Write ``report.md``: a table for each data set, share and what is judged."""
    settings = {json.dumps(record["settings"]) for record in records}
    heading = (
        f"Mean ± standard deviation over random splits of groups; settings changed: {', '.join(settings)}. "
        f"p is that of a paired test of the NLL against {REFERENCE} (Wilcoxon, two-sided)."
    )
    parts = ["# Heads on patches of tissue", heading]
    keys = sorted({tuple(record["cell"][k] for k in ("data_set", "share", "features")) for record in records})
    for key in keys:
        members = [
            r for r in records if tuple(r["cell"][k] for k in ("data_set", "share", "features")) == key
        ]
        for by in members[0]["judged"]:
            title = f"## {key[0]}, {key[2]} features, {key[1]} of the groups train, by {by}"
            title += f" ({len(members)} splits)"
            parts += [title, _table([record["judged"][by] for record in members])]
        parts.append(_weights(members))
    with atomic_file(out / "report.md") as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print("\n\n".join(parts))


def _table(judged: Sequence[Mapping[str, Mapping[str, float]]]) -> str:
    lines = ["| method | " + " | ".join(SCORES.values()) + " | p |", "|" + "---|" * (len(SCORES) + 2)]
    methods = [name for name in judged[0] if all(name in one for one in judged)]
    for name in methods:
        cells = [_spread([one[name][key] for one in judged]) for key in SCORES]
        ours, theirs = (
            {split: one[method]["nll"] for split, one in enumerate(judged)} for method in (name, REFERENCE)
        )
        test = None if name == REFERENCE else paired_test(ours, theirs)
        p = "" if test is None or np.isnan(test.p_value) else f"{test.p_value:.3f}"
        lines.append(f"| {name} | {' | '.join(cells)} | {p} |")
    return "\n".join(lines)


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
    parser.add_argument("--features", default="handmade", choices=["handmade", "cnn"])
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(10)))
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the training")
    return parser.parse_args()


if __name__ == "__main__":
    main()
