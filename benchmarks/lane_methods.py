"""Every method of the thesis' table 5.4 on CamVid street scenes, equally trained (thesis 5.4.3).

    python -m benchmarks.lane_methods --data FOLDER --out benchmarks/results/lane_methods

FOLDER holds `camvid_segnet` (train, trainannot, val, valannot). The training part trains and chooses, the
validation part judges once. A run leaves one file in OUT/runs, and its models in OUT/trained; a second call
computes what is missing. SegNet has a quarter of its channels; `--width 1` gives it all of them, for ten
times the time. `--bundles FILE.json`, written by `benchmarks.lane_bundles`, adds the seconds an image.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import pstdev
from typing import Any

import numpy as np
import yaml
from rich.console import Console

from benchmarks.common import fingerprint, host
from benchmarks.honesty.data_sets import MOMENT
from benchmarks.peers.traditional.rivals import TraditionalDetectors
from data_prep.files.atomic import atomic_file
from data_prep.lane.prepare import prepare_lane
from data_prep.lane.settings import LanePrepareSettings
from pipelines.command.folders import METRICS
from pipelines.evaluation.evaluate import evaluate
from pipelines.lane.application import LANE
from pipelines.lane.settings import TrainSettings
from pipelines.runs.settings import EvaluateSettings
from pipelines.runs.train import train

SURFACES = {"walkable": (3, 4), "pavement": (4,)}
"""Values of the masks that are lane: road and pavement, or pavement alone."""

NETWORKS: Mapping[str, Mapping[str, Any]] = {
    "C3K3": {"network": "C3K3"},
    "segnet_basic": {"network": "segnet_basic"},
    "segnet": {"network": "segnet"},
    "bayesian_segnet_basic": {"network": "segnet_basic", "network_dropout": 0.5},
    "bayesian_segnet": {"network": "segnet", "network_dropout": 0.5},
    "C4K5": {"network": "C4K5"},
}

BESIDE_TRADITIONAL = "C3K3"
"""Network whose runs judge the traditional detectors too, which have none."""

SHARED = {
    "heads": ("linear", "hgp"),
    "batch_size": 3,
    "points_per_image": 4096,
    "pretraining_epochs": 6,
    "head_epochs": 2,
    "panel_images": 0,
}
"""Settings of all runs: six epochs with a linear head, then two more with each head."""

CONDITIONS = (
    "All networks learn equally: {pretraining_epochs} epochs with a linear head, then {head_epochs} more "
    "with each head, {batch_size} images a step. Share of its channels that SegNet has: {widths}. The thesis "
    "judged on 5000 images of its own (PLVP2), which are not at hand, after longer training, at 306 x 306 "
    "and on a graphics processor: its numbers show the order that it found, and cannot agree with these."
)
"""What the report says of all rows."""

THESIS = {
    "Edges": (60.46, 65.53, 68.31, 62.97, 3.016),
    "Borders and segmentation": (91.68, 91.50, 92.77, 90.26, 2.774),
    "segnet_basic Linear": (93.80, 93.17, 92.54, 93.81, 0.016),
    "segnet Linear": (96.03, 94.62, 93.40, 95.87, 0.033),
    "bayesian_segnet_basic Linear": (93.98, 91.97, 94.74, 89.34, 0.486),
    "bayesian_segnet Linear": (96.41, 94.99, 93.73, 96.31, 0.995),
    "C4K5 Linear": (96.02, 94.51, 93.36, 95.70, 0.037),
    "segnet_basic HGP": (96.09, 94.67, 94.40, 94.95, 0.157),
    "segnet HGP": (97.11, 96.03, 95.81, 96.26, 0.174),
    "bayesian_segnet_basic HGP": (96.01, 94.50, 93.75, 95.27, 4.74),
    "bayesian_segnet HGP": (96.71, 95.41, 94.22, 96.64, 5.22),
    "C4K5 HGP": (97.23, 96.18, 96.25, 96.13, 0.182),
}
"""Table 5.4 of the thesis: accuracy, F-measure, recall, precision in percent, and seconds an image."""

COLUMNS = {
    "accuracy": "accuracy",
    "f_measure": "F-measure",
    "recall": "recall",
    "precision": "precision",
    "nll": "NLL",
    "ece": "ECE",
    "auroc_predictive_entropy": "AUROC of errors",
}
"""Scores of the table by their key in `metrics.json`."""


def prepared(data: Path, out: Path, surface: str, part: str, size: tuple[int, int]) -> Path:
    """Return the prepared training or validation part of a surface, prepared once.

    Args:
        data: Folder of the data sets.
        out: Folder of the benchmark.
        surface: One of `SURFACES`.
        part: `"train"`, or `"val"`, all of which is judged.
        size: Height and width.
    """
    folder = out / "prepared" / f"{surface}_{part}_{size[0]}x{size[1]}"
    if not folder.exists():
        source = data / "camvid_segnet"
        settings = LanePrepareSettings(
            size=size,
            lane_values=SURFACES[surface],
            ignore_values=(11,),
            group_pattern=MOMENT,
            test_fraction=1.0 if part == "val" else 0.0,
        )
        prepare_lane(source / part, source / f"{part}annot", folder, settings)
    return folder


def run_folder(out: Path, task: Mapping[str, Any]) -> Path:
    """Return the folder of a task's trained run, which is kept."""
    return out / "trained" / run_name(task)


def run_name(task: Mapping[str, Any]) -> str:
    """Return the name of a task; it ends with a digest where settings or size are not the table's."""
    name = f"{task['surface']}-{task['network']}-{task['seed']}"
    usual = (list(task["size"]), task["changes"]) in (([96, 128], {}), ([96, 128], {"width": 0.25}))
    return name if usual else f"{name}-{fingerprint(list(task['size']), task['changes'])[:8]}"


def run_record(task: Mapping[str, Any]) -> dict[str, Any]:
    """Train a network with its heads, judge it, and return what the table needs.

    Args:
        task: `data` and `out`, folders; `surface`, `network`, `seed`, `size` and `changes` of the settings.
    """
    logging.disable(logging.WARNING)
    data, out, console = Path(task["data"]), Path(task["out"]), Console(quiet=True)
    size = (int(task["size"][0]), int(task["size"][1]))
    trained_on, judged = (prepared(data, out, task["surface"], part, size) for part in ("train", "val"))
    network = NETWORKS.get(task["network"], {"network": task["network"]})
    values = {**SHARED, **network, "seed": task["seed"], **task["changes"]}
    folder = run_folder(out, task)
    application = _application(task["network"])
    run = train(
        application,
        TrainSettings.model_validate(values),
        data=trained_on,
        out=folder,
        resume=folder.exists(),
        console=console,
    )
    with tempfile.TemporaryDirectory() as work:
        evaluation = Path(work) / "evaluation"
        evaluate(application, EvaluateSettings(), data=judged, model=folder, out=evaluation, console=console)
        metrics = json.loads((evaluation / METRICS).read_text(encoding="utf-8"))
    methods = {
        name: {key: method["scores"][key] for key in COLUMNS} for name, method in metrics["methods"].items()
    }
    told = {key: value for key, value in task.items() if key not in {"data", "out"}}
    return {**told, "methods": methods, "training_seconds": run.seconds}


def _application(network: str) -> Any:
    """Return the lane application, with the traditional detectors beside the heads of one network."""
    return replace(LANE, rivals=(TraditionalDetectors(),)) if network == BESIDE_TRADITIONAL else LANE


def report(records: Sequence[Mapping[str, Any]], seconds: Mapping[str, float]) -> str:
    """Return the tables of all runs as Markdown.

    Args:
        records: What `run_record` returned.
        seconds: Seconds an image by `<network> <method>`, or by the title of a traditional detector.
    """
    widths = sorted({str(record["changes"]["width"]) for record in records if "width" in record["changes"]})
    lines = ["# Methods for pedestrian lanes", ""]
    lines += [f"Host: {', '.join(f'{key} {value}' for key, value in host().items())}.", ""]
    others = {key: value for record in records for key, value in record["changes"].items() if key in SHARED}
    lines += [CONDITIONS.format(**{**SHARED, **others}, widths=", ".join(widths) or "all"), ""]
    for surface in SURFACES:
        of_surface = [record for record in records if record["surface"] == surface]
        if of_surface:
            lines += [f"## {surface}", "", *_table(of_surface, seconds), ""]
    return "\n".join(lines)


def _table(records: Sequence[Mapping[str, Any]], seconds: Mapping[str, float]) -> list[str]:
    header = [
        "network",
        "method",
        "seeds",
        *COLUMNS.values(),
        "seconds an image",
        "thesis: accuracy, F-measure, recall, precision in %, seconds",
    ]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for network in NETWORKS:
        runs = [record for record in records if record["network"] == network]
        for method in runs[0]["methods"] if runs else ():
            found = [run["methods"][method] for run in runs]
            cells = [_mean([one[key] for one in found]) for key in COLUMNS]
            key = method if method in THESIS else f"{network} {method}"
            taken = f"{seconds[key]:.3f}" if key in seconds else ""
            thesis = ", ".join(f"{value:g}" for value in THESIS.get(key, ()))
            name = "none" if method in THESIS else network
            lines.append(f"| {' | '.join([name, method, str(len(runs)), *cells, taken, thesis])} |")
    return lines


def read_seconds(path: Path | None) -> dict[str, float]:
    """Return the seconds an image that `benchmarks.lane_bundles` measured; none without a file."""
    if path is None:
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    titles = {"linear": "Linear", "hgp": "HGP"}
    return {
        (row["head"] if row["network"] == "none" else f"{row['network']} {titles[row['head']]}"): row[
            "seconds"
        ]
        for row in rows
    }


def _mean(values: Sequence[float | None]) -> str:
    defined = [value for value in values if value is not None]
    if not defined:
        return ""
    spread = f" ± {pstdev(defined):.4f}" if len(defined) > 1 else ""
    return f"{np.mean(defined):.4f}{spread}"


def _run(task: Mapping[str, Any], path: Path) -> str:
    """Compute a run in a process of its own, since TensorFlow keeps something of every graph."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "task.json"
        file.write_text(json.dumps(dict(task)))
        command = [sys.executable, "-m", "benchmarks.lane_methods", "--task", str(file), str(path)]
        done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"{path.stem}: failed\n{done.stderr[-3000:]}"
    return f"{path.stem}: done"


def main() -> None:
    """Compute what is missing, then write the tables."""
    arguments = _parse()
    if arguments.task:
        task, path = (Path(text) for text in arguments.task)
        record = run_record(json.loads(task.read_text(encoding="utf-8")))
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        return
    runs = arguments.out / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    changes = {
        key: yaml.safe_load(value) for key, _, value in (text.partition("=") for text in arguments.set)
    }
    tasks = {}
    for seed, surface, network in product(arguments.seeds, arguments.surfaces, arguments.networks):
        narrow = {"width": arguments.width} if NETWORKS[network]["network"] == "segnet" else {}
        task = {
            "data": str(arguments.data.resolve()),
            "out": str(arguments.out.resolve()),
            "surface": surface,
            "network": network,
            "seed": seed,
            "size": arguments.size,
            "changes": {**narrow, **changes},
        }
        tasks[runs / f"{run_name(task)}.json"] = task
        for part in ("train", "val"):  # before several processes ask for it
            prepared(arguments.data, arguments.out, surface, part, tuple(arguments.size))
    missing = [path for path in tasks if not path.exists()]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for line in pool.map(lambda path: _run(tasks[path], path), missing):
            print(line, flush=True)
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(tasks) if path.exists()]
    text = report(records, read_seconds(arguments.bundles))
    (arguments.out / "report.md").write_text(text, encoding="utf-8")
    (arguments.out / "report.json").write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", nargs=2, metavar=("TASK", "RECORD"), help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--out", type=Path, help="folder for runs and report")
    parser.add_argument("--surfaces", nargs="*", default=list(SURFACES), choices=SURFACES)
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--size", type=int, nargs=2, default=[96, 128], help="height and width")
    parser.add_argument("--width", type=float, default=0.25, help="share of SegNet's channels")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the training")
    parser.add_argument(
        "--bundles", type=Path, metavar="FILE.json", help="results of benchmarks.lane_bundles"
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    arguments = parser.parse_args()
    if not arguments.task and not (arguments.data and arguments.out):
        parser.error("--data and --out are needed")
    return arguments


if __name__ == "__main__":
    main()
