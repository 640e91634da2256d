"""What `sonar prepare` adds to the preparation itself."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from rich.console import Console

from data_prep.sonar.prepare import prepare_sonar
from data_prep.sonar.settings import SonarPrepareSettings
from gpmodels import HybridModel
from gpmodels.heads.alone import HeadPoints
from gpmodels.heads.base import Head
from pipelines.bundles.saved_model import verify_bundle
from pipelines.command.config import load_settings
from pipelines.evaluation.evaluate import evaluate as evaluate_run
from pipelines.evaluation.export import export as export_run
from pipelines.runs import head_start
from pipelines.runs.settings import EvaluateSettings, ExportSettings
from pipelines.runs.train import train as train_run
from pipelines.sonar.application import SONAR
from pipelines.sonar.settings import TrainSettings
from tests.gpmodels.layered_contract import operation_kinds


def test_settings_that_do_nothing_are_named(tmp_path: Path) -> None:
    table = tmp_path / "boxes.csv"
    table.touch()
    changed = SonarPrepareSettings(window=(20, 20), context=2.0, clutter_ratio=1.0, mask_names={1: "mine"})
    for annotations, names in (
        (None, "window, context, clutter_ratio, mask_names"),
        (table, "context, mask_names"),
        (tmp_path, "context"),
    ):
        assert [text.split(":")[0] for text in changed.unused_warnings(annotations)] == [names]
    for annotations in (None, table, tmp_path):
        assert SonarPrepareSettings(size=(8, 8)).unused_warnings(annotations) == []


@pytest.mark.slow
def test_classes_count_alike_wherever_a_head_is_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        folder = tmp_path / "images" / ("rare" if number % 4 == 0 else "usual")
        folder.mkdir(parents=True, exist_ok=True)
        image = np.random.default_rng(number).integers(0, 255, (16, 16), np.uint8)
        Image.fromarray(image).save(folder / f"{number}.png")
    quiet, weights = Console(quiet=True), {}

    def recorded(name: str) -> None:
        original = getattr(HybridModel, name)

        def method(model: HybridModel, data: tf.data.Dataset, **options: object) -> None:
            seen = [(label, weight) for _, label, weight in data]
            labels, weighed = (np.concatenate(part) for part in zip(*seen, strict=True))
            weights[name, model.head.name] = [weighed[labels == label].sum() for label in (0, 1)]
            original(model, data, **options)

        monkeypatch.setattr(HybridModel, name, method)

    alone = head_start.train_alone

    def recorded_alone(head: Head, points: HeadPoints, *arguments: object, **options: object) -> object:
        weights["alone", head.name] = [points.weights[points.labels == label].sum() for label in (0, 1)]
        return alone(head, points, *arguments, **options)

    recorded("fit_to")
    monkeypatch.setattr(head_start, "train_alone", recorded_alone)
    settings = SonarPrepareSettings(size=(16, 16))
    prepare_sonar(tmp_path / "images", tmp_path / "prepared", settings)
    chosen = {"heads": ("linear", "ridge_linear", "laplace", "svgp"), "class_balance": 1.0}
    short = {
        "pretraining_epochs": 1,
        "head_epochs": 1,
        "steps_per_epoch": 1,
        "head_steps": 1,
        "batch_size": 4,
    }
    train_settings = TrainSettings.model_validate({**chosen, **short, "selection_fraction": 0.25})
    train_run(
        SONAR, train_settings, data=tmp_path / "prepared", out=tmp_path / "run", resume=False, console=quiet
    )
    assert set(weights) == {("fit_to", "ridge_linear"), ("fit_to", "laplace"), ("alone", "svgp")}
    for rare, usual in weights.values():
        assert rare == pytest.approx(usual, rel=1e-5)
        assert rare > 1.0


@pytest.mark.slow  # trains three heads
@pytest.mark.parametrize(
    "titles",
    [
        {"autogp": "AutoGP", "deep_gp": "Deep GP"},
        pytest.param({"svdkl": "SVDKL", "random_features": "Random features"}, marks=pytest.mark.exhaustive),
    ],
    ids=" ".join,
)
def test_deep_heads_are_trained_judged_exported_and_verified(titles: dict[str, str], tmp_path: Path) -> None:
    for number in range(40):
        folder = tmp_path / "images" / ("dark" if number % 2 else "light")
        folder.mkdir(parents=True, exist_ok=True)
        low = 0 if number % 2 else 120
        image = np.random.default_rng(number).integers(low, low + 130, (16, 16), np.uint8)
        Image.fromarray(image).save(folder / f"{number}.png")
    quiet, data, run = Console(quiet=True), tmp_path / "prepared", tmp_path / "run"
    prepare_sonar(tmp_path / "images", data, SonarPrepareSettings(size=(16, 16)))
    overrides = [f"heads=[linear, {', '.join(titles)}]", "selection_fraction=0.25"]
    overrides += [
        f"{name}=2" for name in ("pretraining_epochs", "head_epochs", "steps_per_epoch", "head_steps")
    ]
    overrides += ["batch_size=4", "autogp.num_inducing=6", "svdkl.num_inducing=4", "svdkl.num_gps=3"]
    overrides += ["deep_gp.num_inducing=6", "deep_gp.width=3", "random_features.num_features=5"]
    settings = load_settings(TrainSettings, overrides=overrides)
    train_run(SONAR, settings, data=data, out=run, resume=False, console=quiet)
    judged = evaluate_run(
        SONAR, EvaluateSettings(resamples=100), data=data, model=run, out=tmp_path / "judged", console=quiet
    )
    assert set(titles.values()) <= {result.name for result in judged.results}
    for head in titles:
        bundle = tmp_path / head
        export_run(
            SONAR,
            ExportSettings(head=head),
            model=run,
            out=bundle,
            metrics=None,
            overwrite=False,
            console=quiet,
        )
        verify_bundle(bundle)
        graph = tf.saved_model.load(str(bundle)).signatures["serving_default"].graph
        kinds = operation_kinds(graph)
        assert {"MatMul", "BatchMatMulV2"} & kinds
        assert not any("Random" in kind or "Cholesky" in kind for kind in kinds)
