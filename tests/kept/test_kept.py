"""Files that version 0.1.0 wrote load, predict, are judged and resumed, with the numbers of that version.

The data beside this file was written before the packages were divided into rooms (see `make_kept.py`) and is
never made again. The tests know what a user knows: the public names of `gpmodels`, Keras' loading, the
commands, and TensorFlow's loading of a bundle.
"""

import copy
import csv
import json
import pkgutil
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf
import yaml

import gpmodels
from tests.commands import as_a_process_of_its_own
from tests.kept.conftest import DATA, run

EXACT = {"rtol": 1e-5, "atol": 1e-6}
"""Of what is loaded and evaluated: no more than processors of one kind differ by."""

WRITTEN = {"rtol": 1e-5, "atol": 2e-6}
"""Of tables, which have six digits."""

TRAINED = {"rtol": 1e-3, "atol": 1e-4}
"""Of what is trained further: the kernels of another processor round differently in every step."""

BUNDLES = [
    ("lane", "bundle"),
    ("sonar", "bundle"),
    ("histopathology", "bundle"),
    ("cells", "bundle"),
    pytest.param("cells", "linear_bundle", marks=pytest.mark.slow),
    pytest.param("video", "bundle", marks=pytest.mark.slow),
    pytest.param("video", "clips_bundle", marks=pytest.mark.slow),
    pytest.param("histopathology", "towers_bundle", marks=pytest.mark.slow),
]

RUNS = [
    ("cells", "prepared", "run"),
    ("video", "features", "run"),
    pytest.param("histopathology", "prepared", "run", marks=pytest.mark.slow),
    pytest.param("lane", "prepared", "run", marks=pytest.mark.slow),
    pytest.param("sonar", "prepared", "run", marks=pytest.mark.slow),
    pytest.param("video", "prepared", "clips", marks=pytest.mark.slow),
    pytest.param("histopathology", "prepared", "towers", marks=pytest.mark.slow),
]

RESUMED = {
    "lane": ("prepared", ()),
    "sonar": ("prepared", ("--set", "heads=[linear, svgp, hgp]")),
    "video": ("features", ("--set", "heads=[svgp, hgp]")),
    "histopathology": ("prepared", ()),
    "cells": ("prepared", ("--set", "heads=[linear, dfgp_mkl]")),
}
"""Unfinished runs: their data and what is asked for beyond what they were started with.

Those of lane and histopathology were interrupted between two epochs of their last head."""

PREDICTING: dict[str, tuple[object, ...]] = {"cells": ("--threshold", 0.1)}
"""Options of predict steps."""


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)


def assert_same(found: Any, expected: Any, where: str, **tolerance: float) -> None:
    """Equal texts, counts and structure; nearly equal floating-point numbers."""
    assert type(found) is type(expected), (where, found, expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key, value in expected.items():
            assert_same(found[key], value, f"{where}/{key}", **tolerance)
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for number, value in enumerate(expected):
            assert_same(found[number], value, f"{where}/{number}", **tolerance)
    elif isinstance(expected, float):
        np.testing.assert_allclose(found, expected, err_msg=where, **tolerance)
    else:
        assert found == expected, where


# Keras files and estimators ---------------------------------------------------------------------------------

KERAS_FILES = (
    *("head_linear_of_3_classes", "head_svgp", "head_vmgp_regression", "head_hgp"),
    "head_dfgp_views_of_3_classes",
    *("network_encoder_decoder", "network_sonar_features", "network_densenet"),
    *("network_stain_towers", "layer_feature_scaling", "layer_view_projection"),
    "layer_batch_normalization",
)
MORE_KERAS_FILES = (
    *("head_linear", "head_svgp_of_3_classes", "head_svgp_regression", "head_vmgp_of_3_classes"),
    *("head_hgp_of_the_thesis", "head_hgp_of_3_classes", "head_hgp_robust_max", "head_hgp_regression"),
    *("head_dfgp", "head_dfgp_points", "head_dfgp_regression", "network_res3d"),
)


@pytest.mark.slow  # each starts TensorFlow in a process of its own
@pytest.mark.parametrize("imports", ["gpmodels, keras", "keras, gpmodels"])
def test_keras_knows_the_models_whichever_is_imported_first(imports, kept):
    file = kept("keras") / "head_linear.keras"
    program = f"import {imports}; keras.saving.load_model({str(file)!r})"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


@pytest.fixture(scope="session")
def _networks() -> None:
    """Keras knows a class by its registered name once its module is imported, wherever that is."""
    for module in pkgutil.walk_packages(gpmodels.__path__, "gpmodels."):
        if ".networks" in module.name:
            import_module(module.name)


@pytest.mark.usefixtures("_networks")
@pytest.mark.parametrize(
    "name", [*KERAS_FILES, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE_KERAS_FILES)]
)
def test_a_keras_file_gives_what_it_gave(name, kept):
    folder = kept("keras")
    with np.load(folder / "expected.npz", allow_pickle=False) as arrays:
        expected = {key.partition("/")[2]: arrays[key] for key in arrays.files if key.startswith(f"{name}/")}
    model = keras.saving.load_model(folder / f"{name}.keras")
    outputs = model(tf.constant(expected.pop("inputs")), training=False)
    outputs = outputs if isinstance(outputs, dict) else {"features": outputs}
    assert outputs.keys() == expected.keys()
    for key, value in expected.items():
        assert outputs[key].dtype == value.dtype, key
        np.testing.assert_allclose(outputs[key], value, err_msg=key, **EXACT)


def test_every_keras_file_is_loaded(kept):
    assert {path.stem for path in kept("keras").glob("*.keras")} == {*KERAS_FILES, *MORE_KERAS_FILES}


ESTIMATORS = sorted(path.name for path in (DATA / "estimators").glob("*.*.npz"))
QUICK = {"svgp_classifier", "dfgp_classifier_of_3_classes", "vmgp_classifier", "hgp_regressor"}
"""Of each model one; the others are slow together."""


@pytest.mark.parametrize(
    "name",
    [
        name if name.split(".")[1] in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in ESTIMATORS
    ],
)
def test_an_estimator_predicts_what_it_did(name):
    estimator = predicts_what_it_did(DATA / "estimators" / name)
    # A later default, under which it was not fitted.
    assert estimator.get_params().get("lengthscale_spread") is None


def predicts_what_it_did(path):
    """Load an estimator, compare all its outputs with those kept beside it, and return it."""
    kind, key, _ = path.name.split(".")
    estimator = getattr(gpmodels, kind).load(path)
    with np.load(path.parent / "expected.npz", allow_pickle=False) as arrays:
        x = arrays["inputs"]
        expected = {
            path.partition("/")[2]: arrays[path] for path in arrays.files if path.startswith(f"{key}/")
        }
    found = {f"distribution/{part}": value for part, value in estimator.predict_distribution(x).items()}
    if kind.endswith("Classifier"):
        found |= {"predict": estimator.predict(x), "predict_proba": estimator.predict_proba(x)}
    else:
        found["predict"], found["deviation"] = estimator.predict(x, return_std=True)
    assert found.keys() == expected.keys()
    if estimator.head_settings_.get("likelihood") == "logistic":
        found |= by_former_nodes(found, estimator.temperature_)
    elif getattr(estimator, "temperature_", 1.0) < 1.0:
        entropy = found["distribution/predictive_entropy"]
        found["distribution/mutual_information"] = np.minimum(untempered_information(estimator, x), entropy)
    for part, value in expected.items():
        assert found[part].dtype == value.dtype, part
        if value.dtype.kind in "UO":
            np.testing.assert_array_equal(found[part], value)
        else:
            np.testing.assert_allclose(found[part], value, err_msg=part, **EXACT)
    return estimator


def untempered_information(estimator, x):
    """Return the mutual information without the temperature.

    At one below 1 it was cut at the entropy then; now it keeps its share of the entropy.
    """
    other = copy.deepcopy(estimator)
    other.temperature_ = 1.0
    return other.predict_distribution(x)["mutual_information"]


def by_former_nodes(found, temperature):
    """Return what depends on the nodes of a logistic likelihood, by the 128 of equal weight that it had."""
    mean, variance = found["distribution/latent_mean"], found["distribution/latent_variance"]
    nodes = scipy.special.ndtri((np.arange(128) + 0.5) / 128)
    nodes /= np.sqrt(np.mean(nodes**2))
    at_nodes = scipy.special.expit(mean[:, None] + np.sqrt(variance)[:, None] * nodes)
    both = np.stack([1.0 - at_nodes, at_nodes], axis=2)
    before = both.mean(axis=1)
    np.testing.assert_allclose(found["predict_proba"], tempered(before, temperature), atol=2e-3)
    information = scipy.special.entr(before).sum(axis=1) - scipy.special.entr(both).sum(axis=2).mean(axis=1)
    probability = tempered(before, temperature)
    entropy = scipy.special.entr(probability).sum(axis=1)
    if temperature < 1.0:
        information = np.minimum(information, entropy)
    return {
        "predict_proba": probability,
        "distribution/probability": probability,
        "distribution/predictive_entropy": entropy,
        "distribution/mutual_information": information,
    }


def tempered(probability, temperature):
    powers = probability ** (1.0 / temperature)
    return powers / powers.sum(axis=1, keepdims=True)


MINI_BATCH = sorted(path.name for path in (DATA / "mini_batch").glob("*.*.npz"))


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("name", MINI_BATCH)
def test_an_estimator_that_learns_by_mini_batches_predicts_what_it_did(name):
    predicts_what_it_did(DATA / "mini_batch" / name)


TRANSFER = sorted(path.name for path in (DATA / "transfer").glob("*.*.npz"))


@pytest.mark.parametrize("name", TRANSFER)
def test_an_estimator_that_learns_from_sources_predicts_what_it_did(name):
    kind, key, _ = name.split(".")
    estimator = getattr(gpmodels, kind).load(DATA / "transfer" / name)
    with np.load(DATA / "transfer" / "expected.npz", allow_pickle=False) as arrays:
        x = arrays["inputs"]
        expected = {
            path.partition("/")[2]: arrays[path] for path in arrays.files if path.startswith(f"{key}/")
        }
    if kind.endswith("Classifier"):
        found = {f"distribution/{part}": value for part, value in estimator.predict_distribution(x).items()}
        found |= {"predict": estimator.predict(x), "predict_proba": estimator.predict_proba(x)}
    else:
        found = dict(zip(("predict", "deviation"), estimator.predict(x, return_std=True), strict=True))
    attributes = ("mixing_", "mixing_std_", "transfer_weight_", "leave_one_out_")
    found |= {part: np.array(getattr(estimator, part)) for part in attributes}
    assert found.keys() == expected.keys()
    for part, value in expected.items():
        assert found[part].dtype == value.dtype, part
        if value.dtype.kind in "UO":
            np.testing.assert_array_equal(found[part], value)
        else:
            np.testing.assert_allclose(found[part], value, err_msg=part, **EXACT)


def test_every_estimator_is_kept():
    public = {name for name in gpmodels.__all__ if name.endswith(("Classifier", "Regressor"))}
    assert {name.split(".")[0] for name in (*ESTIMATORS, *TRANSFER, *MINI_BATCH)} >= public


# Bundles ----------------------------------------------------------------------------------------------------


def assert_same_tables(predictions: Path, expected: Path) -> None:
    """Every table but for the seconds; of files the names."""
    tables = {path.relative_to(predictions) for path in predictions.rglob("*.csv")} - {Path("skipped.csv")}
    wanted = {path.relative_to(expected).with_suffix(".csv") for path in expected.rglob("*.json")}
    assert tables == wanted
    for table in tables:
        with (predictions / table).open(newline="", encoding="utf-8") as file:
            found = [
                {key: _value(key, text) for key, text in row.items() if key != "seconds"}
                for row in csv.DictReader(file)
            ]
        lines = [
            {key: _value(key, text) for key, text in row.items()}
            for row in read((expected / table).with_suffix(".json"))
        ]
        assert_same(found, lines, str(table), **WRITTEN)


def _value(key: str, text: str) -> str | float:
    """A cell of a table: the name of a file, a number, or a text."""
    if key == "file":
        return Path(text).name
    try:
        return float(text)
    except ValueError:
        return text


@pytest.mark.slow
@pytest.mark.parametrize(("application", "bundle"), BUNDLES)
def test_a_bundle_predicts_what_it_did(application, bundle, kept, tmp_path):
    """By the commands on a new file, and by TensorFlow alone on the sample inside."""
    folder = kept(application)
    assert "is good" in run("verify", folder / bundle)
    out, options = tmp_path / "predictions", PREDICTING.get(application, ())
    inputs = ("--input", folder / "input")
    run(application, "predict", "--model", folder / bundle, *inputs, "--out", out, *options)
    assert_same_tables(out, folder / "expected" / f"{bundle}.predictions")
    signature = tf.saved_model.load(str(folder / bundle)).signatures["serving_default"]
    with np.load(folder / bundle / "sample.npz", allow_pickle=False) as sample:
        outputs = signature(**{name: tf.constant(sample[name]) for name in read_inputs(folder / bundle)})
        for name, value in outputs.items():
            np.testing.assert_allclose(value, sample[f"serving_default/{name}"], err_msg=name, **EXACT)


def read_inputs(bundle: Path) -> list[str]:
    return list(read(bundle / "metadata.json")["signatures"]["serving_default"]["inputs"])


# Runs -------------------------------------------------------------------------------------------------------


PRESENT_NAMES = {"machines": "svms", "promise": "guarantee", "no_promise": "no_guarantee"}
"""Names that settings and facts of version 0.1.0 have now."""


def only_known(found: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The settings that were there before, by the names of then, also of those inside another one."""
    now = {key: found[PRESENT_NAMES.get(key, key)] for key in before}
    return {
        key: only_known(now[key], value) if isinstance(value, dict) else now[key]
        for key, value in before.items()
    }


def assert_same_metrics(evaluation: Path, expected: Path, **tolerance: float) -> None:
    """Every number that was kept, which time and memory were not; facts and settings may be added."""
    found, before = read(evaluation / "metrics.json"), read(expected)
    added = found["methods"].keys() - before["methods"].keys()
    assert all(name.endswith(" + temperature") for name in added), added
    if added:  # a resumed run has temperatures of all its heads, and the last row is another
        del before["comparisons"]
    found["scores"] = sorted(found["scores"])
    assert_same(only_known(found, before), before, expected.name, **tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(("application", "data", "model"), RUNS)
def test_a_run_is_judged_as_it_was(application, data, model, kept, tmp_path):
    folder, out = kept(application), tmp_path / "evaluation"
    run(application, "evaluate", "--data", folder / data, "--model", folder / model, "--out", out)
    assert_same_metrics(out, folder / "expected" / f"{model}.metrics.json", **EXACT)


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("application", RESUMED)
def test_an_unfinished_run_is_resumed_as_it_was(application, kept, tmp_path):
    """Finished stages are not repeated, and the end is that of the version that began."""
    folder, out = kept(application), tmp_path / "run"
    data, options = RESUMED[application]
    shutil.copytree(folder / "unfinished", out)
    done = {path.parent.name: read(path) for path in (out / "heads").glob("*/state.json")}
    with as_a_process_of_its_own():
        run(application, "train", "--data", folder / data, "--out", out, "--resume", *options)
    stages = {path.parent.name for path in (folder / "run" / "heads").glob("*/state.json")}
    assert {path.parent.name for path in (out / "heads").glob("*/state.json")} == stages
    for stage in stages:
        found, expected = (read(run / "heads" / stage / "state.json") for run in (out, folder / "run"))
        if stage in done and done[stage]["epochs_done"] == expected["epochs_done"]:
            assert found == done[stage], stage
        del found["seconds"], expected["seconds"]
        assert_same(only_known(found, expected), expected, stage, **TRAINED)
    found, expected = (read(run / "run.json") for run in (out, folder / "run"))
    assert found.pop("seconds").keys() == expected.pop("seconds").keys()
    # Facts and settings may be added.
    assert_same(only_known(found, expected), expected, "run.json", **TRAINED)
    now, before = (yaml.safe_load((run / "config.yaml").read_text()) for run in (out, folder / "run"))
    assert_same(only_known(now, before), before, "config.yaml")
    assert (out / "learned.txt").read_text() == (folder / "run" / "learned.txt").read_text()
    evaluation = tmp_path / "evaluation"
    run(application, "evaluate", "--data", folder / data, "--model", out, "--out", evaluation)
    assert_same_metrics(evaluation, folder / "expected" / "run.metrics.json", **TRAINED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("application", "model", "bundle", "options"),
    [
        ("lane", "run", "bundle", ()),
        ("sonar", "run", "bundle", ("--set", "head=svgp")),
        ("video", "clips", "clips_bundle", ()),
        ("video", "run", "bundle", ()),
        ("histopathology", "run", "bundle", ()),
        ("histopathology", "towers", "towers_bundle", ()),
        ("cells", "run", "bundle", ()),
        ("cells", "run", "linear_bundle", ("--set", "head=linear")),
    ],
)
def test_an_exported_run_predicts_as_the_bundle_of_that_version(
    application, model, bundle, options, kept, tmp_path
):
    folder, out = kept(application), tmp_path / "bundle"
    run(application, "export", "--model", folder / model, "--out", out, *options)
    assert "is good" in run("verify", out)
    with np.load(out / "sample.npz") as found, np.load(folder / bundle / "sample.npz") as expected:
        assert set(found.files) == set(expected.files)
        for name in expected.files:
            np.testing.assert_allclose(found[name], expected[name], err_msg=name, **EXACT)
