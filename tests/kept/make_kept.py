"""How the files in ``data`` were made. Run only to ADD files of a kind that did not exist before.

The data was written by version 0.1.0, before the packages were divided into rooms, and is never to be made
again: a later version has to read what that one wrote, and to compute the same numbers from it. What is added
for a newer kind of file gets a function of its own here, and the files that exist stay as they are (the
script refuses to write where something is). It imports modules by the names that they had then, so of the
functions below only the newest ones need to run with the newest code.

    PYTHONPATH=<the code> python make_kept.py <out> lane sonar ...

The networks are as small as the applications allow, and `thinned` before their training: most of their
channels give nothing and so get no gradients, so that their weights and the optimiser's moments are zeros,
which take no room in an archive. Everything else is as a user's commands would write it.
"""

import csv
import json
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("MPLBACKEND", "agg")

import cv2
import keras
import numpy as np
from data_prep.cell_simulator import SimulationSettings, simulate_events, synthetic_frames, write_simulated
from data_prep.scenes import write_scenes
from data_prep.stains import REFERENCE_STAINS, from_density
from PIL import Image
from pipelines.head_application import HeadApplication
from pipelines.head_training import HeadTraining
from pipelines.video_application import VideoApplication
from typer.testing import CliRunner

from gpmodels import (
    DFGPClassifier,
    DFGPHead,
    DFGPRegressor,
    HGPClassifier,
    HGPHead,
    HGPRegressor,
    HybridModel,
    LinearHead,
    SVGPClassifier,
    SVGPHead,
    SVGPRegressor,
    VMGPClassifier,
    VMGPHead,
    VMGPRegressor,
)
from gpmodels.networks.batch_normalization import FusedBatchNormalization
from gpmodels.networks.densenet import DenseNet
from gpmodels.networks.encoder_decoder import EncoderDecoder
from gpmodels.networks.feature_scaling import FeatureScaling
from gpmodels.networks.res3d import Res3D
from gpmodels.networks.sonar_features import SonarFeatures
from gpmodels.networks.stain_towers import StainTowers
from gpmodels.networks.view_projection import ViewProjection
from pipelines.cli import make_app

LABELLED = {
    "pretraining_epochs": 2,
    "head_epochs": 2,
    "steps_per_epoch": 4,
    "batch_size": 8,
    "head_steps": 10,
    "num_experts": 2,
    "num_inducing": 5,
    "panel_images": 0,
}
"""Settings of a train step whose examples have one class each."""

LONGER = {**LABELLED, "steps_per_epoch": 20, "learning_rate": 0.01, "head_steps": 100}
"""The same where a network has to learn."""


# Commands ---------------------------------------------------------------------------------------------------


def run(*arguments: object, expected: int = 0) -> None:
    """Call a command in this process."""
    result = CliRunner(env={"COLUMNS": "200"}).invoke(make_app(), [str(argument) for argument in arguments])
    sys.stdout.write(result.output)
    assert result.exit_code == expected, (arguments, result.output, result.exception)


def options(**settings: object) -> list[str]:
    return [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]


@contextmanager
def interrupted_after(stage: str, epoch: int) -> Iterator[None]:
    """Ctrl-C, as soon as a stage has completed an epoch."""
    original = HeadTraining._say

    def interrupting(self, name):
        say = original(self, name)

        def hook(report):
            say(report)
            if (name, report.epoch) == (stage, epoch):
                raise KeyboardInterrupt

        return hook

    with mock.patch.object(HeadTraining, "_say", interrupting):
        yield


@contextmanager
def thin_networks(channels: int) -> Iterator[None]:
    """Networks of which only the first channels of each layer give anything, see `thinned`."""
    with ExitStack() as stack:
        for application in (HeadApplication, VideoApplication):
            original = application.start_network

            def start_network(self, network, settings, batches, original=original):
                original(self, network, settings, batches)
                thinned(network, channels)

            stack.enter_context(mock.patch.object(application, "start_network", start_network))
        yield


def thinned(network: keras.Model, channels: int) -> keras.Model:
    """Set the kernels of all further channels to 0: what follows gives 0 and has no gradient."""
    for weight in network.weights:
        if weight.path.endswith("kernel"):
            value = weight.numpy()
            value[..., channels:] = 0.0
            inputs = value.shape[-2]
            if inputs > 3:  # a dense layer sees its pixels after each other, 64 channels of each
                value[..., np.arange(inputs) % min(inputs, 64) >= channels, :] = 0.0
            weight.assign(value)
    return network


# Archives ---------------------------------------------------------------------------------------------------


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def keep_predictions(predictions: Path, expected: Path) -> None:
    """All tables; without the seconds, and of files only the names."""
    for path in sorted(predictions.rglob("*.csv")):
        if path.name == "skipped.csv":
            continue
        lines = [
            {key: Path(value).name if key == "file" else value for key, value in row.items()}
            for row in rows(path)
        ]
        lines = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
        target = (expected / path.relative_to(predictions)).with_suffix(".json")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(lines, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def keep_metrics(evaluation: Path, target: Path) -> None:
    """Every number of an evaluation but time and memory; no explanations."""
    content = json.loads((evaluation / "metrics.json").read_text(encoding="utf-8"))
    for method in content["methods"].values():
        del method["seconds_per_image"], method["peak_memory_bytes"]
    content["scores"] = sorted(content["scores"])
    del content["warnings"]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def pack(folder: Path, archive: Path) -> None:
    """Everything but logs and pictures in one archive; what repeats in it takes room once."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if "tensorboard" in Path(member.name).parts:
            return None
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() else 0o644
        return member

    with tarfile.open(archive, "x:xz", preset=9) as file:
        for path in sorted(folder.iterdir()):
            file.add(path, path.name, filter=plain)


class Kept:
    """The folder of an application before it is packed: its runs, bundles, inputs and what they must give."""

    def __init__(self, application: str, work: Path) -> None:
        self.application, self.work = application, work
        self.folder = work / "kept"
        self.folder.mkdir()

    def step(self, step: str, *arguments: object, expected: int = 0) -> None:
        run(self.application, step, *arguments, expected=expected)

    def train(self, data: str, out: str, *arguments: object, expected: int = 0) -> None:
        folders = ("--data", self.folder / data, "--out", self.folder / out)
        self.step("train", *folders, *arguments, expected=expected)

    def resume(self, data: str, unfinished: str, finished: str, *arguments: object) -> None:
        """Complete a copy of an unfinished run."""
        shutil.copytree(self.folder / unfinished, self.folder / finished)
        self.train(data, finished, "--resume", *arguments)

    def evaluate(self, data: str, model: str) -> Path:
        """Return the evaluation, which is not kept but for its numbers."""
        out = self.work / f"evaluation of {model}"
        self.step("evaluate", "--data", self.folder / data, "--model", self.folder / model, "--out", out)
        keep_metrics(out, self.folder / "expected" / f"{model}.metrics.json")
        return out

    def bundle(self, model: str, out: str, *arguments: object, predicting: tuple[object, ...] = ()) -> None:
        """Export, and predict the input."""
        self.step("export", "--model", self.folder / model, "--out", self.folder / out, *arguments)
        run("verify", self.folder / out)
        predictions = self.work / f"predictions of {out}"
        inputs = ("--input", self.folder / "input")
        self.step("predict", "--model", self.folder / out, *inputs, "--out", predictions, *predicting)
        keep_predictions(predictions, self.folder / "expected" / f"{out}.predictions")


# The applications -------------------------------------------------------------------------------------------


def lane(kept: Kept) -> None:
    """Heads linear and hgp, interrupted in the hgp head; a bundle of maps."""
    scenes = kept.work / "scenes"
    write_scenes(scenes, count=9, seed=0, lane_textures=["brick", "grass"], size=(32, 48))
    write_scenes(kept.work / "new", count=1, seed=5, lane_textures=["gravel"], size=(40, 30))
    shutil.copytree(kept.work / "new" / "images", kept.folder / "input")
    images = ("--images", scenes / "images", "--masks", scenes / "masks")
    kept.step("prepare", *images, "--out", kept.folder / "prepared", "--size", "16x24", "--jobs", 1)
    settings = options(
        network="C1K1",
        heads="[linear, hgp]",
        pretraining_epochs=8,
        learning_rate=0.02,
        head_epochs=2,
        head_epoch_learning_rate=0.002,
        head_rate_factor=10.0,
        head_steps=200,
        num_experts=2,
        num_inducing=5,
        points_per_image=200,
        panel_images=0,
    )
    with thin_networks(8), interrupted_after("hgp", 1):
        kept.train("prepared", "unfinished", *settings, expected=130)
    kept.resume("prepared", "unfinished", "run")
    evaluation = kept.evaluate("prepared", "run")
    kept.bundle("run", "bundle", "--metrics", evaluation / "metrics.json")


def sea_floor(rng: np.random.Generator) -> tuple[np.ndarray, list[tuple[str, int, int]]]:
    """A 16-bit image with speckle in few levels, and what lies where: bright discs and lines."""
    levels, objects = np.full((72, 120), 3000.0), []
    for name, row, column in (("ball", 8, 10), ("bar", 40, 14), ("ball", 42, 60), ("bar", 10, 90)):
        top, left = row + int(rng.integers(-4, 5)), column + int(rng.integers(-6, 7))
        objects.append((name, top, left))
        if name == "ball":
            cv2.circle(levels, (left + 8, top + 8), 5, 8000.0, -1)
        else:
            cv2.line(levels, (left + 1, top + 8), (left + 14, top + 8), 8000.0, 3)
    speckled = levels * (rng.exponential(1.0, levels.shape) * 0.5 + 0.5)
    return np.clip(np.round(speckled / 1500) * 1500, 0, 60000).astype(np.uint16), objects


def sonar(kept: Kept) -> None:
    """Three classes; heads linear and svgp, later also hgp; a bundle of svgp and one of the linear head."""
    rng, lines = np.random.default_rng(0), kept.work / "lines"
    lines.mkdir()
    (kept.folder / "input").mkdir()
    table = ["image,x,y,w,h,class"]
    for number in range(8):
        levels, objects = sea_floor(rng)
        cv2.imwrite(str(lines / f"line{number}.png"), levels)
        table += [f"line{number}.png,{left},{top},16,16,{kind}" for kind, top, left in objects]
    (kept.work / "boxes.csv").write_text("\n".join(table) + "\n")
    levels, ((kind, top, left), *_) = sea_floor(rng)
    cv2.imwrite(str(kept.folder / "input" / "full.png"), levels)
    cv2.imwrite(str(kept.folder / "input" / f"{kind}.png"), levels[top : top + 24, left : left + 24])
    folders = ("--images", lines, "--annotations", kept.work / "boxes.csv", "--out", kept.folder / "prepared")
    sizes = ("--window", "24x24", "--size", "8x8", "--group-pattern", "^(line[0-9]+)", "--jobs", 1)
    kept.step("prepare", *folders, *sizes, "--set", "background_ratio=1.0")
    with thin_networks(6):
        settings = options(**LONGER, heads="[linear, svgp]", head_rate_factor=10.0)
        kept.train("prepared", "unfinished", *settings)
    kept.resume("prepared", "unfinished", "run", "--set", "heads=[linear, svgp, hgp]")
    kept.evaluate("prepared", "run")
    kept.bundle("run", "bundle", "--set", "head=svgp")


def write_video(path: Path, kinds: tuple[str, ...], frames: int, phase: int) -> None:
    """A disc that moves across or stays as it is, on one grey."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (64, 48))
    for kind in kinds:
        for number in range(frames):
            frame = np.full((48, 64, 3), 30 + 3 * phase, np.uint8)
            shift = round(15 * np.sin(1.3 * number + phase)) if kind == "Across" else 0
            cv2.circle(frame, (24 + 2 * phase + shift, 20 + phase), 8, (230,) * 3, -1)
            writer.write(frame)
    writer.release()


def video(kept: Kept) -> None:
    """A run on clips, then one on the features of its network, with a support vector machine."""
    videos = kept.work / "videos"
    for kind in ("Across", "Still"):
        for group in range(1, 9):
            write_video(videos / kind / f"v_{kind}_g{group:02d}_c01.avi", (kind,), 10, group)
    write_video(kept.folder / "input" / "both.avi", ("Across", "Still"), 8, 4)
    sizes = ("--frames", 2, "--size", "16x16", "--resize", "16x20")
    folders = ("--videos", videos, "--out", kept.folder / "prepared")
    kept.step("prepare", *folders, *sizes, "--set", "clips=2", "--jobs", 1)
    settings = {**LONGER, "selection_fraction": 0.3}
    with thin_networks(3):
        kept.train("prepared", "clips", *options(**settings, width=1, heads="[linear, dfgp]"))
    clips = ("--data", kept.folder / "prepared", "--model", kept.folder / "clips")
    kept.step("features", *clips, "--out", kept.folder / "features")
    machines = options(**settings, heads="[svgp]", machines="[rbf_svm]")
    kept.train("features", "unfinished", *machines)
    kept.resume("features", "unfinished", "run", "--set", "heads=[svgp, hgp]")
    kept.evaluate("prepared", "clips")
    kept.evaluate("features", "run")
    kept.bundle("clips", "clips_bundle")
    kept.bundle("run", "bundle")


def tissue(seed: int, *, tumour: bool) -> np.ndarray:
    """Two stains in random amounts; a tumour has more haematoxylin, in finer grains; the corner is glass."""
    rng, grain = np.random.default_rng(seed), 4 if tumour else 8
    amounts = rng.uniform(0.1, 1.0, (32 // grain, 96 // grain, 2)) * ((1.4, 0.5) if tumour else (0.6, 1.0))
    amounts = np.kron(amounts, np.ones((grain, grain, 1)))
    amounts[:, :32] = 0
    return from_density(amounts @ REFERENCE_STAINS)


def histopathology(kept: Kept) -> None:
    """All five heads and a support vector machine on features; and towers with the head dfgp_mkl."""
    images, new = kept.work / "images", kept.folder / "input"
    images.mkdir()
    new.mkdir()
    table = ["file,label,patient"]
    for number in range(18):
        folder = images if number < 16 else new
        Image.fromarray(tissue(number, tumour=number % 2 == 1)).save(folder / f"slide {number}.png")
        if number < 16:
            table.append(f"slide {number}.png,{('benign', 'tumour')[number % 2]},P{number // 2}")
    (kept.work / "labels.csv").write_text("\n".join(table) + "\n")
    folders = ("--images", images, "--labels", kept.work / "labels.csv", "--out", kept.folder / "prepared")
    kept.step("prepare", *folders, "--patch-size", 32, "--set", "size=[16, 16]", "--jobs", 1)
    settings = {**LABELLED, "components": 3}
    with interrupted_after("dfgp_mkl", 1):
        machines = options(**settings, machines="[linear_svm]")
        kept.train("prepared", "unfinished", *machines, expected=130)
    kept.resume("prepared", "unfinished", "run")
    kept.evaluate("prepared", "run")
    kept.bundle("run", "bundle")
    heads = ("--features", "cnn", "--head", "dfgp-mkl")
    with thin_networks(4):
        kept.train("prepared", "towers", *heads, *options(**settings))
    kept.evaluate("prepared", "towers")
    kept.bundle("towers", "towers_bundle")


def cells(kept: Kept) -> None:
    """Heads linear and dfgp_mkl and a support vector machine on candidates of simulated sequences."""
    simulation = SimulationSettings(mitoses=1, apoptoses=1, roundings=0, round=(2, 2))
    sequences = {}
    for number in range(5):
        sequence = simulate_events(synthetic_frames(6, (120, 140), seed=number), simulation, seed=number)
        coarse = tuple((frame // 12 * 12).astype(np.uint8) for frame in sequence.frames)
        sequences[f"well_{number}"] = type(sequence)(coarse, sequence.events)
    simulated = kept.work / "simulated"
    write_simulated(simulated, sequences)
    (kept.work / "test.txt").write_text("well_4\n")
    shutil.copytree(simulated / "sequences" / "well_4", kept.folder / "input" / "well_4")
    folders = ("--sequences", simulated / "sequences", "--annotations", simulated / "events.csv")
    lists = ("--one-kind", "event", "--test-list", kept.work / "test.txt", "--jobs", 1)
    kept.step("prepare", *folders, *lists, "--out", kept.folder / "prepared")
    settings = {**LABELLED, "steps_per_epoch": 20, "batch_size": 64, "components": 3, "learning_rate": 0.02}
    settings |= {"class_balance": 1.0, "selection_fraction": 0.3}
    kept.train("prepared", "unfinished", *options(**settings, heads="[linear]", machines="[linear_svm]"))
    kept.resume("prepared", "unfinished", "run", "--set", "heads=[linear, dfgp_mkl]")
    kept.evaluate("prepared", "run")
    kept.bundle("run", "bundle", predicting=("--threshold", 0.1))  # else no event
    linear = ("--set", "head=linear")
    kept.bundle("run", "linear_bundle", *linear, predicting=("--threshold", 0.1))


APPLICATIONS: dict[str, Callable[[Kept], None]] = {
    "lane": lane,
    "sonar": sonar,
    "video": video,
    "histopathology": histopathology,
    "cells": cells,
}


def keep_application(name: str, out: Path) -> None:
    """Write ``<name>.tar.xz``."""
    with tempfile.TemporaryDirectory() as work:
        kept = Kept(name, Path(work))
        APPLICATIONS[name](kept)
        pack(kept.folder, out / f"{name}.tar.xz")


# Keras files ------------------------------------------------------------------------------------------------

HEADS: dict[str, Callable[[], keras.layers.Layer]] = {
    "linear": LinearHead,
    "linear_of_3_classes": lambda: LinearHead(num_classes=3),
    "svgp": lambda: SVGPHead(num_inducing=5),
    "svgp_of_3_classes": lambda: SVGPHead(num_inducing=5, num_classes=3),
    "svgp_regression": lambda: SVGPHead(num_inducing=5, likelihood="gaussian", kernel="matern32"),
    "vmgp_regression": lambda: VMGPHead(num_experts=3, num_inducing=5, likelihood="gaussian"),
    "vmgp_of_3_classes": lambda: VMGPHead(num_experts=2, num_inducing=4, num_classes=3, e_step="soft"),
    "hgp": lambda: HGPHead(num_experts=3, num_inducing=5, num_expert_inducing=4),
    "hgp_of_the_thesis": lambda: HGPHead(
        num_experts=2, num_inducing=4, kernel="matern52", global_weight=0.0, expert_variance="thesis"
    ),
    "hgp_of_3_classes": lambda: HGPHead(num_experts=2, num_inducing=5, num_classes=3),
    "hgp_robust_max": lambda: HGPHead(
        num_experts=2, num_inducing=4, num_classes=4, likelihood="robust_max", class_kernels="separate"
    ),
    "hgp_regression": lambda: HGPHead(num_experts=2, num_inducing=5, likelihood="gaussian"),
    "dfgp": lambda: DFGPHead(num_hidden=3, num_inducing=5, num_hidden_inducing=5),
    "dfgp_points": lambda: DFGPHead(num_hidden=3, num_inducing=5, hidden_posterior="point"),
    "dfgp_views_of_3_classes": lambda: DFGPHead(
        views=[[0, 1], [2], [3, 1, 0]], num_inducing=5, num_classes=3, output_kernel="full"
    ),
    "dfgp_regression": lambda: DFGPHead(
        num_hidden=3, num_inducing=5, likelihood="gaussian", output_kernel="linear"
    ),
}

NETWORKS: dict[str, tuple[Callable[[], keras.layers.Layer], tuple[int, ...]]] = {
    "encoder_decoder": (lambda: EncoderDecoder(units=1, kernel_size=1), (2, 6, 5, 3)),
    "sonar_features": (lambda: SonarFeatures(convolutions=1), (2, 8, 8, 3)),
    "densenet": (lambda: DenseNet(depth=7, growth=2), (2, 8, 8, 3)),
    "res3d": (lambda: Res3D(width=1), (2, 2, 16, 16, 3)),
    "stain_towers": (lambda: StainTowers(features=2), (2, 16, 16, 3)),
}
"""Networks of images and clips, and the shape of what they are given."""

LAYERS: dict[str, Callable[[], keras.layers.Layer]] = {
    "feature_scaling": FeatureScaling,
    "view_projection": lambda: ViewProjection([3, 2, 1], components=2, by_view=True),
}
"""Layers that adapt to features of six columns."""


def keep_keras(out: Path) -> None:
    """Write ``keras.tar.xz``: the files, and their inputs and outputs in ``expected.npz``."""
    with tempfile.TemporaryDirectory() as work:
        _keep_keras(Path(work))
        pack(Path(work), out / "keras.tar.xz")


def _keep_keras(folder: Path) -> None:
    expected: dict[str, np.ndarray] = {}
    rng = np.random.default_rng(0)

    def keep(name: str, model: keras.Model, inputs: np.ndarray) -> None:
        model.save(folder / f"{name}.keras")
        outputs = model(inputs, training=False)
        for key, value in (outputs if isinstance(outputs, dict) else {"features": outputs}).items():
            expected[f"{name}/{key}"] = np.asarray(value)
        expected[f"{name}/inputs"] = inputs

    for name, make in HEADS.items():
        keras.utils.set_random_seed(3)
        head, x = make(), rng.normal(size=(64, 4)).astype(np.float32)
        product = x[:, 0] * x[:, 1]
        steps = range(1, getattr(head, "num_classes", 2)) if head.is_classifier else ()
        y = sum((product > (step - 1) / 2).astype(np.float32) for step in steps) if steps else product
        network = keras.Sequential([keras.layers.Dense(4), keras.layers.BatchNormalization()])
        model = HybridModel(network, head, num_data=len(x))
        model.compile(optimizer=keras.optimizers.Adam(0.05))
        model.initialize((x, y))
        model.fit(x, y, batch_size=32, epochs=2, shuffle=False, verbose=0)
        keep(f"head_{name}", model, x[:8])
    for name, (make_network, shape) in NETWORKS.items():
        keras.utils.set_random_seed(3)
        network = make_network()
        images = (rng.integers(0, 8, shape) * 32).astype(np.float32)
        network(images)
        thinned(network, 5)
        for _ in range(3):
            network(images, training=True)  # moving averages
        keep(f"network_{name}", network, images)
    for name, make_layer in LAYERS.items():
        keras.utils.set_random_seed(3)
        features = (rng.normal(size=(30, 6)) * [1, 2, 3, 40, 5, 6] + 7).astype(np.float32)
        layer = make_layer()
        layer.build((None, 6))
        layer.adapt(features)
        keep(f"layer_{name}", keras.Sequential([keras.Input((6,)), layer]), features[:8])
    normalisation = FusedBatchNormalization(momentum=0.5)
    maps = rng.normal(size=(2, 4, 3, 2)).astype(np.float32)
    normalisation(3 * maps + 1, training=True)
    keep("layer_batch_normalization", keras.Sequential([keras.Input((4, 3, 2)), normalisation]), maps)
    np.savez_compressed(folder / "expected.npz", **expected)


# Estimators -------------------------------------------------------------------------------------------------

SMALL = {"num_inducing": 5, "max_iterations": 5, "random_state": 0}
EXPERTS = {**SMALL, "num_experts": 2}
ESTIMATORS = {
    "svgp_classifier": SVGPClassifier(**SMALL, class_weight={"cat": 1.0, "Hündin": 2.0}),
    "svgp_classifier_of_3_classes": SVGPClassifier(**SMALL, kernel="matern32", dtype="float32"),
    "hgp_classifier": HGPClassifier(**EXPERTS, num_expert_inducing=4),
    "hgp_classifier_of_3_classes": HGPClassifier(**EXPERTS),
    "vmgp_classifier": VMGPClassifier(**EXPERTS),
    "dfgp_classifier": DFGPClassifier(**SMALL, num_hidden=2),
    "dfgp_classifier_of_3_classes": DFGPClassifier(**SMALL, views=[[0, 1], [2]], output_kernel="full"),
    "svgp_regressor": SVGPRegressor(**SMALL),
    "hgp_regressor": HGPRegressor(**EXPERTS, expert_variance="thesis", global_weight=0.5),
    "vmgp_regressor": VMGPRegressor(**EXPERTS, e_step="soft"),
    "dfgp_regressor": DFGPRegressor(**SMALL, num_hidden=2, output_kernel="linear"),
}


def keep_estimators(out: Path) -> None:
    """Write ``estimators/*.npz``, and inputs and outputs in ``estimators/expected.npz``."""
    folder, expected = out / "estimators", {}
    folder.mkdir()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)) * [1.0, 30.0, 0.1] + [5.0, 0.0, 0.0]
    expected["inputs"] = x[:10]
    for name, estimator in ESTIMATORS.items():
        if "classifier" in name:
            classes = np.digitize(x[:, 0], [4.7, 5.3]) if "3" in name else (x[:, 0] > 5.0).astype(int)
            labels = np.array(["cat", "Hündin"])[classes] if name == "svgp_classifier" else classes
            estimator.fit(x, labels)
            expected[f"{name}/predict_proba"] = estimator.predict_proba(x[:10])
            expected[f"{name}/predict"] = estimator.predict(x[:10])
        else:
            estimator.fit(x, 100.0 * np.sin(x[:, 0]) + x[:, 1])
            mean, deviation = estimator.predict(x[:10], return_std=True)
            expected |= {f"{name}/predict": mean, f"{name}/deviation": deviation}
        for key, value in estimator.predict_distribution(x[:10]).items():
            expected[f"{name}/distribution/{key}"] = np.asarray(value)
        estimator.save(folder / f"{type(estimator).__name__}.{name}.npz")
    np.savez_compressed(folder / "expected.npz", **expected)


def main() -> None:
    out, *kinds = sys.argv[1:]
    Path(out).mkdir(parents=True, exist_ok=True)
    for kind in kinds or [*APPLICATIONS, "keras", "estimators"]:
        if kind in APPLICATIONS:
            keep_application(kind, Path(out))
        else:
            {"keras": keep_keras, "estimators": keep_estimators}[kind](Path(out))


if __name__ == "__main__":
    main()
