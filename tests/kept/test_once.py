"""One job a command: nothing is hashed, read, divided or built twice."""

import hashlib
import shutil
import sys
from collections import Counter
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image

from gpmodels import HybridModel
from pipelines.command import config
from tests.commands import as_a_process_of_its_own
from tests.kept.conftest import Kept, run

pytestmark = pytest.mark.slow

DATA = {
    "lane": "prepared",
    "sonar": "prepared",
    "video": "features",
    "histopathology": "prepared",
    "cells": "prepared",
    "classify": "prepared",
}
ADDED = {
    "classify": "linear, svgp",
    "sonar": "linear, svgp, hgp",
    "video": "svgp, hgp",
    "cells": "linear, dfgp_mkl",
}
"""Heads that an unfinished run is resumed with, where it was interrupted between two heads."""


@pytest.fixture(scope="session")
def classified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the archives of the other applications hold, of one that is younger than they are."""
    folder, generator = tmp_path_factory.mktemp("classify"), np.random.default_rng(0)
    for number in range(24):
        level = (60, 180)[number % 2]
        image = generator.integers(level, level + 40, (10, 12, 3), np.uint8)
        path = folder / "images" / ("dark", "light")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    shutil.copytree(folder / "images" / "dark", folder / "input")
    run("classify", "prepare", "--images", folder / "images", "--out", folder / "prepared", "--size", "8x8")
    tiny: dict[str, object] = {
        "network": "FE1",
        "pretraining_epochs": 1,
        "head_epochs": 1,
        "steps_per_epoch": 2,
        "head_steps": 5,
        "num_inducing": 5,
    }
    options = [text for key, value in tiny.items() for text in ("--set", f"{key}={value}")]
    data = ("--data", folder / "prepared")
    with as_a_process_of_its_own():
        run("classify", "train", *data, "--out", folder / "unfinished", *options, "--set", "heads=[linear]")
        run("classify", "train", *data, "--out", folder / "run", *options, "--set", "heads=[linear, svgp]")
    run("classify", "export", "--model", folder / "run", "--out", folder / "bundle")
    return folder


@pytest.fixture(scope="session")
def kept(kept: Kept, classified: Path) -> Kept:
    """Where the folders of an application are: kept ones, or those of `classified`."""
    return lambda name: classified if name == "classify" else kept(name)


class Counts:
    """How often each file is hashed, settings are read, examples are divided, and networks are built."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.hashed: Counter[str] = Counter()
        self.read: Counter[str] = Counter()
        self.divided = 0
        self.built: Counter[str] = Counter()
        file_digest, read_file, build = hashlib.file_digest, config._read_file, HybridModel.__init__

        def counted_digest(file, *arguments, **keywords):
            self.hashed["/".join(Path(file.name).parts[-2:])] += 1  # heads' weights have one name
            return file_digest(file, *arguments, **keywords)

        def counted_read(path: Path):
            self.read[path.name] += 1
            return read_file(path)

        def counted_build(model, network, head, **keywords):
            # Without a network a head is only trained alone, on features.
            self.built[head.name] += not isinstance(network, keras.layers.Identity)
            build(model, network, head, **keywords)

        patch.setattr(hashlib, "file_digest", counted_digest)
        patch.setattr(config, "_read_file", counted_read)
        patch.setattr(HybridModel, "__init__", counted_build)
        for module in [module for name, module in sys.modules.items() if name.startswith("pipelines.")]:
            if hasattr(module, "manifest_splits"):
                self._count_divisions(patch, module)

    def _count_divisions(self, patch: pytest.MonkeyPatch, module) -> None:
        divide = module.manifest_splits

        def counted(*arguments, **keywords):
            self.divided += 1
            return divide(*arguments, **keywords)

        patch.setattr(module, "manifest_splits", counted)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    import pipelines.evaluation.evaluate  # noqa: PLC0415 - the commands import it only when they run
    import pipelines.runs.train  # noqa: F401, PLC0415

    return Counts(monkeypatch)


@pytest.mark.sweep
@pytest.mark.parametrize("application", DATA)
def test_train_does_everything_once(application, kept, counts, tmp_path):
    folder, out = kept(application), tmp_path / "run"
    shutil.copytree(folder / "unfinished", out)
    options = ("--set", f"heads=[{ADDED[application]}]") if application in ADDED else ()
    with as_a_process_of_its_own():
        run(application, "train", "--data", folder / DATA[application], "--out", out, "--resume", *options)
    assert counts.hashed
    assert set(counts.hashed.values()) == {1}, counts.hashed
    assert counts.read == {"config.yaml": 1}
    assert counts.divided == 1
    assert counts.built
    assert set(counts.built.values()) == {1}, counts.built


@pytest.mark.parametrize("application", DATA)
def test_evaluate_does_everything_once(application, kept, counts, tmp_path):
    folder = kept(application)
    run(
        *(application, "evaluate", "--data", folder / DATA[application]),
        *("--model", folder / "run", "--out", tmp_path / "evaluation"),
    )
    assert counts.hashed
    assert set(counts.hashed.values()) == {1}, counts.hashed
    assert counts.read == {"config.yaml": 1}
    assert counts.divided == 1
    assert set(counts.built.values()) == {1}, counts.built


@pytest.mark.parametrize("application", DATA)
def test_export_reads_the_run_once_and_builds_one_model(application, kept, counts, tmp_path):
    run(application, "export", "--model", kept(application) / "run", "--out", tmp_path / "bundle")
    assert counts.read == {"config.yaml": 1}
    assert counts.divided == 0
    assert set(counts.built.values()) <= {
        1 if application != "video" else 2
    }  # with the network of the features


@pytest.mark.parametrize("application", DATA)
def test_predict_needs_nothing_of_the_training(application, kept, counts, tmp_path):
    folder = kept(application)
    run(
        *(application, "predict", "--input", folder / "input"),
        *("--model", folder / "bundle", "--out", tmp_path / "predictions"),
    )
    assert set(counts.hashed.values()) <= {1}
    assert counts.read == {}
    assert counts.divided == 0
    assert counts.built == {}
