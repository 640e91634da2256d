"""Survival: divisions, scores with known values, models that find a signal, and the step end to end."""

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from pydantic import ValidationError
from rich.console import Console

from data_prep.errors import InputError
from data_prep.histopathology.prepare import prepare_histopathology
from data_prep.histopathology.settings import HistopathologyPrepareSettings
from data_prep.histopathology.stains import REFERENCE_STAINS, from_density
from pipelines.survival.compare import (
    compare_survival,
    cross_validate,
    scores_table,
    survival_figure,
    write_survival_report,
)
from pipelines.survival.data import Mask, SurvivalData, patient_splits
from pipelines.survival.models import Months, ProjectedPatches, average, predict_months, project_patches
from pipelines.survival.results import few_events, judged_months, summarise, write_predictions
from pipelines.survival.scores import (
    concordance,
    curve_distance,
    negative_log_density,
    predicted_curve,
    score,
    survival_curve,
)
from pipelines.survival.settings import SurvivalSettings

PATIENTS, PATCHES = 60, 4
FILES = {"report.md", "metrics.json", "predictions.csv", "kaplan_meier.svg"}


@pytest.fixture(scope="module")
def simulated() -> SurvivalData:
    """Months fall with one direction of the second view; a fifth of the patients are censored."""
    rng = np.random.default_rng(0)
    risk = rng.standard_normal(PATIENTS)
    patient = np.repeat(np.arange(PATIENTS), PATCHES)
    features = rng.standard_normal((PATIENTS * PATCHES, 9)).astype(np.float32)
    features[:, 4] = 3 * risk[patient] + 0.3 * features[:, 4]
    months = 40 - 10 * risk + rng.normal(0, 2, PATIENTS)
    event = rng.uniform(size=PATIENTS) > 0.2
    return SurvivalData(
        features=features,
        views={"a": 3, "b": 6},
        patient=patient,
        names=tuple(f"p{number:02d}" for number in range(PATIENTS)),
        groups=tuple(f"g{number // 2}" for number in range(PATIENTS)),
        months=np.where(event, months, 0.7 * months),
        event=event,
    )


@pytest.mark.parametrize("train_on_one", [False, True])
def test_divisions_keep_groups_whole_and_spread_events(simulated: SurvivalData, train_on_one: bool) -> None:
    settings = SurvivalSettings(folds=4, repeats=2, train_on_one=train_on_one)
    splits = list(patient_splits(simulated, settings))
    assert [(split.repeat, split.fold) for split in splits] == [(r, f) for r in (0, 1) for f in range(4)]
    chosen = np.stack([split.train if train_on_one else split.test for split in splits])
    assert (chosen.reshape(2, 4, -1).sum(axis=1) == 1).all()
    assert (chosen[:4] != chosen[4:]).any()
    for split in splits:
        assert (split.train ^ split.test).all()
        assert (split.train[::2] == split.train[1::2]).all()
        assert abs(simulated.event[split.test].mean() - simulated.event.mean()) < 0.15


def test_too_few_events_are_refused(simulated: SurvivalData) -> None:
    few = SurvivalData(**{**vars(simulated), "event": np.arange(PATIENTS) < 5})
    with pytest.raises(InputError, match="5 of 60 patients have an event"):
        list(patient_splits(few, SurvivalSettings()))
    with pytest.raises(ValidationError, match="twice"):
        SurvivalSettings(models=("cox", "cox"))


def test_the_curve_by_hand() -> None:
    months, event = np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, False, True, True])
    times = np.array([0, 1, 2.5, 3, 4])
    np.testing.assert_allclose(survival_curve(months, event, times), [1, 3 / 4, 3 / 4, 3 / 8, 0])
    np.testing.assert_allclose(predicted_curve(np.array([-1.0, 3.5]), times), [0.5, 0.5, 0.5, 0.5, 0])
    assert curve_distance(months, months, np.ones(4, bool)) == pytest.approx(0, abs=1e-12)
    assert curve_distance(np.full(2, 2.0), np.full(2, 4.0), np.ones(2, bool)) == pytest.approx(0.5, abs=0.01)


def test_scores_by_hand() -> None:
    observed, event = np.array([10.0, 20.0, 30.0, 15.0]), np.array([True, True, True, False])
    right = score(Months(observed, np.ones(4)), observed, event)
    assert (right["nmse"], right["concordance"]) == (0, 1)
    assert right["nll"] == pytest.approx(0.5 * math.log(2 * math.pi))
    mean = score(Months(np.full(4, 20.0), None), observed, event)
    assert (mean["nmse"], mean["concordance"]) == (1, 0.5)
    assert math.isnan(mean["nll"])
    # Known are 10 < 15, 10 < 20, 10 < 30, 20 < 30; the patient seen until 15 may outlive 20 and 30.
    assert concordance(np.array([1.0, 3.0, 2.0, 9.0]), observed, event) == 3 / 4
    assert concordance(20 + 1e-12 * observed, observed, event) == 0.5
    assert math.isnan(concordance(observed, observed, np.zeros(4, bool)))
    density = negative_log_density(np.array([1.0]), np.array([2.0]), np.array([3.0]))
    assert density == pytest.approx(0.5 + math.log(2) + 0.5 * math.log(2 * math.pi))


def test_patches_are_averaged_as_a_mixture(simulated: SurvivalData) -> None:
    rng = np.random.default_rng(1)
    mean, deviation = rng.normal(30, 5, (2, PATIENTS * PATCHES))
    months = average(simulated, mean, np.abs(deviation))
    of_first = mean[:PATCHES]
    assert months.mean[0] == pytest.approx(of_first.mean())
    assert months.deviation is not None
    variance = np.mean(deviation[:PATCHES] ** 2) + of_first.var()
    assert months.deviation[0] == pytest.approx(np.sqrt(variance))


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("model", ["linear", "svgp", "hgp", "dfgp", "dfgp_mkl", "cox"])
def test_every_model_finds_the_signal_in_patients_it_has_not_seen(
    simulated: SurvivalData, model: str
) -> None:
    settings = SurvivalSettings(models=(model,), components=4, max_iterations=30, cox_penalty=0.1)
    split = next(patient_splits(simulated, settings))
    projected = project_patches(simulated, split.train, settings.components)
    months = predict_months(model, simulated, projected, split.train, settings)
    test = split.test
    own = None if months.deviation is None else months.deviation[test]
    scores = score(Months(months.mean[test], own), simulated.months[test], simulated.event[test])
    assert scores["nmse"] < 0.3
    assert scores["concordance"] > 0.85
    if model == "dfgp_mkl":
        assert months.view_weights["b"] > 0.8
        assert sum(months.view_weights.values()) == pytest.approx(1.0)
    else:
        assert not months.view_weights


def test_nothing_of_the_judged_patients_reaches_the_models(simulated: SurvivalData) -> None:
    settings = SurvivalSettings(models=("linear", "cox"), components=3)
    split = next(patient_splits(simulated, settings))
    months = np.where(split.test, 1.0, simulated.months)
    features = simulated.features.copy()
    features[split.test[simulated.patient]] *= 100
    other = SurvivalData(
        **{
            **vars(simulated),
            "months": months,
            "features": features,
            "event": simulated.event ^ (split.test & (np.arange(PATIENTS) % 2 == 0)),
        }
    )
    for name in settings.models:
        expected, found = (
            predict_months(name, data, project_patches(data, split.train, 3), split.train, settings)
            for data in (simulated, other)
        )
        np.testing.assert_allclose(found.mean[split.train], expected.mean[split.train], rtol=1e-5)


def test_censored_patients_are_no_targets_of_regression(simulated: SurvivalData) -> None:
    settings = SurvivalSettings(models=("constant", "cox"), folds=3)
    split = next(patient_splits(simulated, settings))
    projected = project_patches(simulated, split.train, 4)
    constant = predict_months("constant", simulated, projected, split.train, settings)
    assert constant.mean[0] == pytest.approx(simulated.months[split.train & simulated.event].mean())
    longer = np.where(simulated.event, simulated.months, 200.0)
    other = SurvivalData(**{**vars(simulated), "months": longer})
    cox = [predict_months("cox", data, projected, split.train, settings) for data in (simulated, other)]
    assert (cox[1].mean > cox[0].mean + 1).mean() > 0.5  # Cox' model knows that they live longer


def test_a_cox_model_without_penalty_of_too_many_components_is_refused(simulated: SurvivalData) -> None:
    settings = SurvivalSettings(folds=12, train_on_one=True, components=9, cox_penalty=0)
    train = np.arange(PATIENTS) < 6
    with pytest.raises(InputError, match="6 patients with 9 components did not converge with cox_penalty 0"):
        predict_months("cox", simulated, project_patches(simulated, train, 9), train, settings)


@pytest.mark.parametrize(
    "error",
    [
        FloatingPointError("No bound.\nMore."),
        tf.errors.InvalidArgumentError(None, None, "No bound."),
        np.linalg.LinAlgError("No bound."),
    ],
)
def test_a_regression_that_fails_numerically_is_told(
    simulated: SurvivalData, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class Failing:
        def fit(self, inputs: Any, targets: Any) -> None:  # noqa: ARG002 - as regressors have it
            raise error

    monkeypatch.setattr("pipelines.survival.models.make_regressor", lambda *_: Failing())
    settings = SurvivalSettings(components=3)
    split = next(patient_splits(simulated, settings))
    projected = project_patches(simulated, split.train, 3)
    with pytest.raises(InputError, match=r"svgp of \d+ patches could not be fitted: No bound\. Use fewer"):
        predict_months("svgp", simulated, projected, split.train, settings)


def test_predictions_of_unseen_patients_are_averaged_over_repeats(simulated: SurvivalData) -> None:
    settings = SurvivalSettings(models=("constant",), folds=3, repeats=2)
    results = cross_validate(simulated, settings)
    expected = np.zeros(PATIENTS)
    for result in results["constant"]:
        expected += np.where(result.split.test, result.months.mean, 0) / 2
    np.testing.assert_allclose(judged_months(simulated, results)["constant"], expected)


@pytest.mark.slow
def test_a_model_that_cannot_be_fitted_in_a_division_ends_nothing(
    simulated: SurvivalData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SurvivalSettings(models=("constant", "cox"), folds=3, components=3)
    second = list(patient_splits(simulated, settings))[1]

    def fail_once(
        name: str, data: SurvivalData, projected: ProjectedPatches, train: Mask, *others: Any
    ) -> Months:
        if name == "cox" and (train == second.train).all():
            raise InputError("did not converge")
        return predict_months(name, data, projected, train, *others)

    monkeypatch.setattr("pipelines.survival.compare.predict_months", fail_once)
    results = cross_validate(simulated, settings)
    content = summarise(simulated, results)
    assert content["warnings"][1:] == [
        "cox has no scores in fold 1 of repeat 0, and its means are of the other divisions: did not converge"
    ]
    first, failed, last = content["methods"]["cox"]["splits"]
    assert failed["not_fitted"] == "did not converge"
    assert failed["nmse"] is None
    assert first["not_fitted"] is None
    mean = content["methods"]["cox"]["scores"]["nmse"]["mean"]
    assert mean == pytest.approx((first["nmse"] + last["nmse"]) / 2)
    months = judged_months(simulated, results)
    np.testing.assert_array_equal(np.isnan(months["cox"]), second.test)
    assert np.isfinite(months["constant"]).all()
    assert survival_figure(simulated, months).count("cox") >= 1
    assert "cox" not in survival_figure(simulated, {"cox": np.full(PATIENTS, np.nan)})
    write_predictions(tmp_path / "predictions.csv", simulated, results)
    with (tmp_path / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(row["model"] == "cox" for row in rows) == (~second.test).sum()
    assert "cox" in str(list(scores_table(simulated, results).columns[0].cells))


@pytest.mark.slow
def test_the_report_shows_the_weights_of_the_views(simulated: SurvivalData, tmp_path: Path) -> None:
    settings = SurvivalSettings(models=("constant", "dfgp_mkl"), folds=3, components=3, max_iterations=3)
    results = cross_validate(simulated, settings)
    weights = [one.months.view_weights["b"] for one in results["dfgp_mkl"]]
    write_survival_report(tmp_path / "report.md", simulated, settings, results)
    expected = f"| b | {np.mean(weights):.2f} ± {np.std(weights, ddof=1):.2f} |"
    assert expected in (tmp_path / "report.md").read_text()
    content = summarise(simulated, results)["methods"]
    assert content["dfgp_mkl"]["view_weights"]["b"]["mean"] == pytest.approx(np.mean(weights))
    assert content["constant"]["view_weights"] == {}


def test_divisions_that_test_few_events_are_told(simulated: SurvivalData) -> None:
    """NMSE divides by the variance of the months of these patients."""
    settings = SurvivalSettings(models=("constant",), folds=3)
    assert not few_events(simulated, cross_validate(simulated, settings))
    rare = SurvivalData(**{**vars(simulated), "event": np.arange(PATIENTS) < 13})
    (warning,) = few_events(rare, cross_validate(rare, settings))
    assert "of the 3 divisions test fewer than 5 patients with an event" in warning


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """Twelve patients with an image each; the darker the stain, the fewer the months."""
    images = tmp_path / "images"
    images.mkdir()
    rng = np.random.default_rng(0)
    lines = ["file,months,event,patient"]
    for number in range(12):
        amounts = (0.2 + 0.1 * number + rng.uniform(0, 0.2, (8, 12, 2))).repeat(4, axis=0).repeat(4, axis=1)
        Image.fromarray(from_density(amounts @ REFERENCE_STAINS)).save(images / f"i{number}.png")
        lines.append(f"i{number},{60 - 4 * number},{int(number % 6 > 0)},p{number}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    settings = HistopathologyPrepareSettings(patch_size=16, size=(8, 8))
    prepare_histopathology(images, tmp_path / "prepared", settings, labels=tmp_path / "labels.csv")
    return tmp_path / "prepared"


@pytest.mark.slow
def test_the_step_from_a_prepared_folder_to_its_files(prepared: Path, tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=100)
    settings = SurvivalSettings(models=("constant", "linear"), folds=3, components=10)
    out = tmp_path / "out"
    compare_survival(settings, data=prepared, out=out, console=console)
    assert {path.name for path in out.iterdir()} == FILES
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["data"] == {"patients": 12, "events": 10, "patches": 72}
    assert metrics["settings"]["folds"] == 3
    assert metrics["methods"]["linear"]["scores"]["concordance"]["mean"] > 0.8
    assert metrics["methods"]["constant"]["scores"]["nll"] == {"mean": None, "deviation": None}
    assert "fitted to patients with an event" in metrics["warnings"][0]
    assert "3 of the 3 divisions test fewer than 5" in metrics["warnings"][1]
    with (out / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["patient"] for row in rows if row["model"] == "linear") == sorted(
        f"p{number}" for number in range(12)
    )
    assert float(rows[-1]["predicted_deviation"]) > 0
    picture = (out / "kaplan_meier.svg").read_text()
    assert picture.startswith("<?xml")
    assert "Concordance" in console.file.getvalue()
    report = (out / "report.md").read_text()
    shown = metrics["methods"]["linear"]["scores"]["concordance"]
    assert f"{shown['mean']:.2f} ± {shown['deviation']:.2f}" in report
    assert "12 patients, 10 of them with an event; 3 parts, each part tests once" in report
    assert "](kaplan_meier.svg)" in report
    assert all(warning in report for warning in metrics["warnings"])
    with pytest.raises(InputError, match="already exists"):
        compare_survival(settings, data=prepared, out=out, console=console)
    (out / "earlier").touch()
    compare_survival(settings, data=prepared, out=out, overwrite=True, console=console)
    assert {path.name for path in out.iterdir()} == FILES


def test_what_cannot_be_written_leaves_no_folder(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pipelines.survival.compare.survival_figure", full)
    settings = SurvivalSettings(models=("constant",), folds=3, components=2)
    before = set(tmp_path.iterdir())
    with pytest.raises(InputError, match="No space left"):
        compare_survival(settings, data=prepared, out=tmp_path / "out", console=Console(quiet=True))
    assert set(tmp_path.iterdir()) == before


def test_folders_without_survival_times_are_refused(tmp_path: Path) -> None:
    for number in range(4):
        path = tmp_path / "images" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        amounts = np.random.default_rng(number).uniform(0.2, 1, (16, 16, 2))
        Image.fromarray(from_density(amounts @ REFERENCE_STAINS)).save(path)
    settings = HistopathologyPrepareSettings(patch_size=16, size=(8, 8))
    prepare_histopathology(tmp_path / "images", tmp_path / "prepared", settings)
    with pytest.raises(InputError, match="without survival times"):
        compare_survival(
            SurvivalSettings(), data=tmp_path / "prepared", out=tmp_path / "out", console=Console(quiet=True)
        )
