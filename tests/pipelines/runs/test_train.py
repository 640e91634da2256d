"""A run: what it writes down, where its heads start, and what it may be resumed with."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from data_prep.errors import InputError
from data_prep.lane.dataset import lane_records
from data_prep.lane.manifest import LaneManifest
from data_prep.lane.prepare import prepare_lane
from data_prep.lane.settings import LaneAugmentation, LanePrepareSettings
from data_prep.prepared.manifest import file_sha256, load_manifest
from data_prep.splits.divide import manifest_splits
from gpmodels import HybridModel, LinearHead
from gpmodels.heads.base import Head
from gpmodels.statistics.effective_sample import effective_fraction
from pipelines.errors import TrainingDiverged
from pipelines.evaluation.warnings import evaluation_warnings, group_warnings, head_epochs
from pipelines.lane.application import LANE
from pipelines.lane.settings import LaneRun, TrainSettings
from pipelines.runs import models
from pipelines.runs import train as head_training
from pipelines.runs.description import load_run
from pipelines.runs.models import load_model, make_head
from pipelines.runs.train import HeadTraining
from pipelines.scores.calibration import LOG_ODDS_DEVIATION, fit_temperature
from pipelines.scores.results import much_selected_warnings, selection_warnings
from pipelines.training.stages import BEST, EpochReport, StageData, StageSettings, StageState
from tests.pipelines.tiny_lane import SETTINGS, SIZE, job, prepare, quiet, train


@pytest.fixture
def copy(lane_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(lane_run, tmp_path / "run"))


def state(run: Path, name: str) -> dict:
    return json.loads((run / "heads" / name / "state.json").read_text())


def contents(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): file_sha256(path) for path in files}


def small_training(data: Path, out: Path, *, resume: bool = False, **changes: object) -> HeadTraining:
    settings = SETTINGS.model_copy(update=changes)
    return HeadTraining(LANE, settings, data=data, out=out, resume=resume, console=quiet())


# What it writes down ----------------------------------------------------------------------------------------


def test_the_run_says_what_it_was_trained_on(lane_data, lane_run):
    run = load_run(lane_run, LaneRun)
    assert run.size == SIZE
    assert run.heads == ("linear", "hgp")
    assert run.counts == {"train": 6, "selection": 2, "test": 2}
    assert run.num_data == 6 * 14 * 24  # two of sixteen rows are ignored
    assert run.manifest_sha256 == file_sha256(lane_data / "manifest.json")
    assert set(run.seconds) == {"pretraining", "linear", "hgp"}
    assert all(seconds > 0 for seconds in run.seconds.values())
    assert yaml.safe_load((lane_run / "config.yaml").read_text()) == SETTINGS.model_dump(mode="json")


def test_every_stage_ran_its_epochs(lane_run):
    assert {name: state(lane_run, name)["epochs_done"] for name in ("pretraining", "linear", "hgp")} == {
        "pretraining": 1,
        "linear": 2,
        "hgp": 2,
    }


def test_the_temperature_is_fitted_on_the_selection_images_alone(lane_data, lane_run):
    run, manifest = load_run(lane_run, LaneRun), load_manifest(lane_data, LaneManifest)
    splits = manifest_splits(manifest, selection_fraction=SETTINGS.selection_fraction)
    model = load_model(job(lane_run), "linear")
    group_of = {example.name: example.group for example in manifest.examples}

    def fitted(names: tuple[str, ...]) -> float:
        logits, labels, weights = [], [], []
        for _, image, mask, _ in lane_records(lane_data, manifest, names):
            logits.append(model(image[None].astype(np.float32))["latent_mean"][0].numpy())
            labels.append(mask == 1)
            weights.append(mask != 255)
        flat = (np.ravel(part) for part in (logits, labels, weights))
        logit, label, weight = (np.asarray(part, np.float32) for part in flat)
        groups = np.repeat([group_of[name] for name in names], logit.size // len(names))
        weight = weight * effective_fraction(logit, label, weight, groups)
        return fit_temperature(logit, label, weight, prior_deviation=LOG_ODDS_DEVIATION)

    assert run.temperature == pytest.approx(fitted(splits.selection), rel=1e-4)
    for others in (splits.train, splits.test, splits.train + splits.selection):
        assert run.temperature != pytest.approx(fitted(others), rel=1e-3)


def test_the_run_says_which_head_to_take_by_its_selection_images(lane_data, lane_run):
    run, manifest = load_run(lane_run, LaneRun), load_manifest(lane_data, LaneManifest)
    splits = manifest_splits(manifest, selection_fraction=SETTINGS.selection_fraction)
    model = load_model(job(lane_run), "linear")
    model.set_temperature(run.temperature)
    losses = []
    for _, image, mask, _ in lane_records(lane_data, manifest, splits.selection):
        p = model(image[None].astype(np.float32))["probability"][0].numpy().astype(np.float64)
        losses.append(-np.log(np.where(mask == 1, p, 1 - p))[mask != 255])
    assert run.choice.nlls["linear"] == pytest.approx(np.concatenate(losses).mean(), rel=1e-4)
    assert list(run.choice.nlls) == ["linear", "hgp"]
    assert run.choice.nlls["hgp"] < 0.99 * run.choice.nlls["linear"]
    assert (run.choice.head, run.choice.judged, run.choice.groups) == ("hgp", "images", 2)
    assert (run.pool_temperatures, run.calibrates_pools) == ({}, True)


def test_selection_is_held_out_of_training_and_of_the_test(lane_data, tmp_path):
    training = small_training(lane_data, tmp_path)
    splits, data = training.job.splits, training._stage_data()
    assert not set(splits.train) & set(splits.selection)
    assert not set(splits.selection) & set(splits.test)
    assert sum(image.shape[0] for image, *_ in data.batches(0)) == len(splits.train)
    assert sum(image.shape[0] for image, *_ in data.selection) == len(splits.selection)
    images = {
        image.tobytes() for _, image, *_ in lane_records(lane_data, training.job.data.manifest, splits.train)
    }
    routed = {image.numpy().astype(np.uint8).tobytes() for batch, *_ in data.routing for image in batch}
    assert routed == images


@pytest.mark.slow
def test_epochs_differ_and_are_a_function_of_their_number(lane_data, tmp_path):
    data = small_training(lane_data, tmp_path)._stage_data()
    first, again, second = ([image.numpy() for image, *_ in data.batches(n)] for n in (0, 0, 1))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert any((a != b).any() for a, b in zip(first, second, strict=True))


# Where heads start ------------------------------------------------------------------------------------------


class Stages:
    """Stands for `train_stage`: remembers each stage's model, and changes it as training would."""

    def __init__(self) -> None:
        self.started: dict[str, tuple[list[np.ndarray], HybridModel, StageSettings, StageData]] = {}
        self.ended: dict[str, list[np.ndarray]] = {}

    def __call__(
        self, model: HybridModel, settings: StageSettings, data: StageData, *, folder: Path, **_: object
    ) -> StageState:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / BEST).touch()
        network = [np.array(weight) for weight in model.network.get_weights()]
        self.started[folder.name] = (network, model, settings, data)
        for weight in model.trainable_weights:
            weight.assign_add(0.01 * len(self.started) * np.ones(weight.shape, np.float32))
        self.ended[folder.name] = [np.array(weight) for weight in model.network.get_weights()]
        return StageState(seconds=1.0, best=0.5, best_epoch=1, epochs_done=1)


@pytest.fixture
def stages(monkeypatch) -> Stages:
    recorder = Stages()
    monkeypatch.setattr(head_training, "train_stage", recorder)
    return recorder


@pytest.mark.slow
def test_every_head_starts_from_the_pretrained_network(stages, lane_data, tmp_path):
    changes = {"heads": ("linear", "svgp", "hgp"), "head_steps": 0, "learning_rate": 0.1, "patience": 3}
    small_training(lane_data, tmp_path / "run", **changes).train()
    assert list(stages.started) == ["pretraining", "linear", "svgp", "hgp"]
    first, _, settings, _ = stages.started["pretraining"]
    assert settings == StageSettings(1, 0.1, 3, start_may_stay=False)  # random weights are no model
    after = stages.ended["pretraining"]
    assert any((a != b).any() for a, b in zip(after, first, strict=True))
    for name in ("linear", "svgp", "hgp"):
        network, model, settings, _ = stages.started[name]
        for a, b in zip(network, after, strict=True):
            np.testing.assert_array_equal(a, b)
        assert model.head.name == name
        assert settings == StageSettings(
            2, SETTINGS.head_epoch_learning_rate, 3, learning_rate_setting="head_epoch_learning_rate"
        )


@pytest.mark.slow
@pytest.mark.usefixtures("stages")
def test_a_training_makes_each_head_once(lane_data, tmp_path, monkeypatch):
    made = []

    def counted(name: str, *arguments: Any, **options: Any) -> Head:
        made.append(name)
        return make_head(name, *arguments, **options)

    for module in (models, head_training):
        monkeypatch.setattr(module, "make_head", counted)
    small_training(lane_data, tmp_path / "run", heads=("linear", "svgp"), head_steps=0).train()
    assert sorted(made) == ["linear", "svgp"]


@pytest.mark.slow
def test_the_linear_head_goes_on_with_its_pretrained_weights(stages, lane_data, tmp_path, monkeypatch):
    kernels = []
    real = HeadTraining._stage

    def spy(self: HeadTraining, name: str, model: HybridModel, **arguments: Any) -> None:
        kernels.append(model.head.kernel.numpy())
        real(self, name, model, **arguments)
        kernels.append(model.head.kernel.numpy())

    monkeypatch.setattr(HeadTraining, "_stage", spy)
    small_training(lane_data, tmp_path / "run", heads=("linear",)).train()
    np.testing.assert_array_equal(kernels[1], kernels[2])
    assert isinstance(stages.started["linear"][1].head, LinearHead)


@pytest.mark.slow
def test_without_a_linear_head_there_is_no_temperature(stages, lane_data, tmp_path):
    run = small_training(lane_data, tmp_path / "run", heads=("svgp",), head_steps=0).train()
    assert run.temperature is None
    assert run.heads == ("svgp",)
    assert stages.started["svgp"][1].points_per_example is None


@pytest.mark.slow
def test_a_subset_of_pixels_is_for_the_gp_heads(stages, lane_data, tmp_path):
    changes = {"heads": ("linear", "svgp"), "head_steps": 0, "points_per_image": 50}
    small_training(lane_data, tmp_path / "run", **changes).train()
    subsets = {name: stage[1].points_per_example for name, stage in stages.started.items()}
    assert subsets == {"pretraining": None, "linear": None, "svgp": 50}


@pytest.mark.slow
@pytest.mark.usefixtures("stages")
def test_a_head_that_diverges_while_it_is_trained_alone(lane_data, tmp_path, monkeypatch):
    def diverge(_: object, model: HybridModel, __: object) -> None:
        (mean,) = [weight for weight in model.weights if weight.path.endswith("experts_q_mean")]
        value = np.array(mean)
        value[1] = np.inf
        mean.assign(value)

    monkeypatch.setattr(head_training, "start_in_run", diverge)
    expected = (
        r"Training stopped while the hgp head was trained alone: The KL divergence of expert_2 in hgp is not "
        r"finite\. Lower head_step_learning_rate and start again with --resume\."
    )
    with pytest.raises(TrainingDiverged, match=expected):
        small_training(lane_data, tmp_path / "run", heads=("linear", "hgp")).train()
    assert load_run(tmp_path / "run", LaneRun).heads == ("linear",)


# Resuming ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_resuming_a_complete_run_changes_nothing(lane_data, copy, monkeypatch):
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a head that has a checkpoint was placed again")

    monkeypatch.setattr(head_training, "start_in_run", never)
    before = contents(copy)
    (copy / "heads" / "hgp" / ".partial-0123abcd-best.weights.h5").write_bytes(b"half")  # of a killed process
    train(lane_data, copy, resume=True)
    assert contents(copy) == before


def test_an_existing_run_is_not_overwritten(lane_data, copy):
    before = contents(copy)
    with pytest.raises(
        InputError, match=r"run already holds a run\. Continue it with --resume, or give another"
    ):
        train(lane_data, copy)
    assert contents(copy) == before


@pytest.mark.slow
def test_resuming_where_there_is_no_run_starts_one(stages, lane_data, tmp_path):
    assert small_training(lane_data, tmp_path / "new", heads=("linear",), resume=True).train().heads
    assert list(stages.started) == ["pretraining", "linear"]


def test_changed_data_are_refused(copy, tmp_path):
    other = prepare(tmp_path / "other", seed=1)
    before = contents(copy)
    with pytest.raises(
        InputError, match=r"run cannot be resumed: manifest_sha256 changed since it was started"
    ):
        train(other, copy, resume=True)
    assert contents(copy) == before


@pytest.mark.parametrize(
    "changes",
    [
        {"network": "C2K3"},
        {"batch_size": 2},
        {"seed": 1},
        {"augmentation": None},
        {"augmentation": LaneAugmentation(flip_probability=0.1)},
        {"selection_fraction": 0.2},
        {"pretraining_epochs": 2},
        {"learning_rate": 1e-4},
        {"num_experts": 3},
        {"num_inducing": 6},
        {"global_weight": 0.5},
        {"expert_variance": "thesis"},
        {"mean": "none"},
        {"points_per_image": 7},
        {"kernel": "matern52"},
        {"hidden_kl_weight": 0.1},
    ],
)
def test_settings_on_which_the_trained_part_depends_are_refused(lane_data, copy, changes):
    before = contents(copy)
    with pytest.raises(InputError, match=rf"cannot be resumed: (.*, )?{next(iter(changes))} changed"):
        small_training(lane_data, copy, resume=True, **changes)
    assert contents(copy) == before


@pytest.mark.parametrize(
    ("heads_begun", "changes", "allowed"),
    [
        ([], {"pretraining_epochs": 9, "learning_rate": 0.1}, True),
        ([], {"network": "C2K3"}, False),
        (["linear"], {"num_experts": 3, "kernel": "matern52"}, True),
        (["linear"], {"learning_rate": 0.1}, False),
        (["svgp"], {"num_inducing": 6}, False),
        (["svgp"], {"pretraining_epochs": 9}, False),
        (["linear", "svgp", "hgp"], {"heads": ("hgp",), "head_epochs": 9, "patience": 1}, True),
        (["linear", "svgp", "hgp"], {"head_epoch_learning_rate": 1e-5, "panel_images": 9}, True),
    ],
)
def test_settings_of_what_has_not_begun_may_change(lane_data, copy, heads_begun, changes, allowed):
    for name in ("pretraining", "linear", "svgp", "hgp"):
        shutil.rmtree(copy / "heads" / name, ignore_errors=True)
    for name in heads_begun:
        (copy / "heads" / name).mkdir()
        (copy / "heads" / name / "state.json").write_text("{}")
    if allowed:
        small_training(lane_data, copy, resume=True, **changes)
    else:
        with pytest.raises(InputError, match=f"{next(iter(changes))} changed"):
            small_training(lane_data, copy, resume=True, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head_epochs": 9}, "heads/linear has 2 complete epochs of 2, and cannot go on to 9"),
        ({"head_epoch_learning_rate": 1.0}, "with head_epoch_learning_rate 0.0003, and cannot go on with 1"),
        ({"head_epochs": 9, "heads": ("hgp",)}, "heads/hgp has 2 complete epochs of 2"),
        ({"head_epochs": 9, "heads": ("svgp",)}, None),
        ({"head_epoch_learning_rate": 1e-5}, None),
    ],
)
def test_the_schedule_of_a_head_that_has_begun(lane_data, copy, changes, message):
    before = contents(copy)
    if message is None:
        small_training(lane_data, copy, resume=True, **changes)
    else:
        with pytest.raises(InputError, match=re.escape(message)):
            small_training(lane_data, copy, resume=True, **changes)
    assert contents(copy) == before


def test_the_schedule_of_the_pretraining_that_has_begun(lane_data, copy):
    shutil.rmtree(copy / "heads" / "linear")
    shutil.rmtree(copy / "heads" / "hgp")
    with pytest.raises(InputError, match="pretraining has 1 complete epochs of 1, and cannot go on to 3"):
        small_training(lane_data, copy, resume=True, pretraining_epochs=3)
    small_training(lane_data, copy, resume=True, learning_rate=1e-5)


def test_a_run_whose_settings_are_gone(lane_data, copy):
    (copy / "config.yaml").unlink()
    with pytest.raises(InputError, match=r"run cannot be resumed: its config\.yaml, .* is gone\. Put"):
        small_training(lane_data, copy, resume=True)


@pytest.mark.slow
def test_a_resumed_run_keeps_what_it_had_reached(stages, lane_data, copy):
    before = load_run(copy, LaneRun)
    shutil.rmtree(copy / "heads" / "hgp")
    (copy / "run.json").write_text(before.model_copy(update={"heads": ("linear",)}).model_dump_json())
    training = small_training(lane_data, copy, resume=True, head_steps=0)
    assert training.job.run.temperature == before.temperature
    assert training.job.run.seconds == before.seconds
    run = training.train()
    assert run.heads == ("linear", "hgp")
    assert list(run.choice.nlls) == ["linear", "hgp"]
    assert set(run.seconds) == set(before.seconds)
    assert stages.started["hgp"][3].steps_per_epoch == 2


@pytest.mark.slow
def test_heads_of_an_earlier_command_are_judged_too(lane_data, copy):
    before = load_run(copy, LaneRun).choice
    (copy / "run.json").write_text(
        load_run(copy, LaneRun).model_copy(update={"choice": None}).model_dump_json()
    )
    run = small_training(lane_data, copy, resume=True, heads=("hgp",)).train()
    assert run.heads == ("linear", "hgp")
    assert run.choice.nlls == pytest.approx(before.nlls, rel=1e-4)


def test_heads_with_different_epochs_are_no_fair_comparison(copy):
    path = copy / "heads" / "hgp" / "state.json"
    run = load_run(copy, LaneRun)
    assert head_epochs(copy, run) == {"linear": 2, "hgp": 2}
    path.write_text(json.dumps({**json.loads(path.read_text()), "epochs": 9}))
    epochs = head_epochs(copy, run)
    (warning,) = evaluation_warnings("test", seen_fold=None, head_epochs=epochs)
    assert "different numbers of epochs (linear 2, hgp 9)" in warning
    assert evaluation_warnings("test", seen_fold=None, head_epochs={"linear": 2, "hgp": 2}) == ()
    path.write_text(json.dumps({**json.loads(path.read_text()), "epochs": 0}))  # trained alone
    assert head_epochs(copy, run) == {"linear": 2}


# Data that cannot be used -----------------------------------------------------------------------------------


def test_a_shard_that_does_not_match_the_manifest(lane_data, tmp_path):
    data = Path(shutil.copytree(lane_data, tmp_path / "data"))
    shard = next(data.glob("*.tfrecord"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(bytes(content))
    with pytest.raises(InputError, match=rf"{shard.name}: does not match manifest\.json"):
        train(data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_data_for_the_test_alone(lane_data, tmp_path):
    scenes = lane_data.parent / "scenes"
    settings = LanePrepareSettings(size=SIZE, test_fraction=1.0, lane_values=(255,), ignore_values=(77,))
    prepare_lane(scenes / "images", scenes / "masks", tmp_path / "data", settings)
    with pytest.raises(
        InputError, match=r"holds no training example for fold 0\. Prepare it with more images"
    ):
        train(tmp_path / "data", tmp_path / "run")


def test_a_fold_that_does_not_exist(lane_data, tmp_path):
    with pytest.raises(InputError, match="Fold 3 was asked for"):
        small_training(lane_data, tmp_path / "run", fold=3)


def test_what_a_user_sees(lane_data, tmp_path, monkeypatch):
    numbers = {
        "loss": 0.5,
        "selection_loss": 0.25,
        "selection_nll": 0.2,
        "selection_accuracy": 0.9,
        "selection_f_measure": 0.8,
        "selection_ece": 0.01,
    }

    best_epochs = iter((1, 0))

    def stage(model: HybridModel, *_: object, folder: Path, hooks: list, **__: object) -> StageState:
        folder.mkdir(parents=True)
        (folder / BEST).touch()
        hooks[1](EpochReport(1, numbers, True, model))
        return StageState(best=0.25, best_epoch=next(best_epochs), epochs_done=1)

    monkeypatch.setattr(head_training, "train_stage", stage)
    training = small_training(lane_data, tmp_path / "run", heads=("linear",))
    training.train()
    unheeded, *lines = training.job.console.file.getvalue().splitlines()
    assert unheeded.startswith("Warning: num_inducing, num_experts: without effect, since no head of linear")
    epoch = "loss 0.5000, selection loss 0.2500, NLL 0.2000, accuracy 0.9000, F-measure 0.8000, ECE 0.0100 *"
    assert lines[0].startswith("Warning: So few selection examples (2) leave the best epochs")
    assert lines[1].startswith("2 images are held out: if all of them are right, they can guarantee")
    explained, *stages = lines[2:8]
    assert explained.endswith(" 2 to choose the best epoch: * marks the lowest selection NLL until then")
    assert stages == [
        f"pretraining epoch 1: {epoch}",
        "pretraining: best epoch 1, selection NLL 0.2500",
        f"linear epoch 1: {epoch}",
        "linear: stopped early, after 10 epochs without a lower NLL",
        "linear: best epoch 0 (as it started), selection NLL 0.2500",
    ]
    assert lines[-2].startswith("Temperature of the linear head, fitted on the held-out examples: ")
    assert lines[-1].startswith(
        "Least error that the linear head can guarantee for --max-error, by the 2 images"
    )


@pytest.mark.slow
def test_train_returns_the_description_it_wrote(stages, lane_data, tmp_path):
    settings = TrainSettings(**{**SETTINGS.model_dump(), "heads": ("linear",)})
    console = quiet()
    with pytest.MonkeyPatch.context() as patch:
        seeds = []
        patch.setattr(head_training, "make_deterministic", seeds.append)
        run = head_training.train(
            LANE,
            settings.model_copy(update={"seed": 5}),
            data=lane_data,
            out=tmp_path,
            resume=False,
            console=console,
        )
    assert seeds == [5]
    said = console.file.getvalue().splitlines()[-1]
    command = f"gpimaging lane evaluate --data {lane_data} --model {tmp_path} --out evaluation"
    assert said == f"Run written to {tmp_path}. Judge it with: {command}"
    assert run == load_run(tmp_path, LaneRun)
    assert list(stages.started) == ["pretraining", "linear"]


def test_few_groups_that_give_much_to_the_selection_are_told_of():
    assert much_selected_warnings(20, 80, 0.15) == ()
    (warning,) = much_selected_warnings(22, 23, 0.15)
    assert "22 of 45 training examples (49%) choose the best epoch, not 15%" in warning


def test_few_selection_examples_are_warned_of():
    assert [len(selection_warnings(number)) for number in (0, 1, 29, 30)] == [0, 1, 1, 0]


def test_few_groups_are_warned_of():
    (warning,) = group_warnings(240, 3, "candidates")
    assert "240 candidates are of 3 groups" in warning
    assert group_warnings(12, 12, "images") == ()
    assert group_warnings(240, 80, "images") == ()


def test_settings_choose_the_application_before_anything_is_read(tmp_path):
    called = []
    variant = replace(LANE, before_training=lambda: called.append("variant"))
    chooses = replace(LANE, variant=lambda settings, _: (variant, settings))
    with pytest.raises(InputError):
        head_training.train(
            chooses, SETTINGS, data=tmp_path / "none", out=tmp_path / "run", resume=False, console=quiet()
        )
    assert called == ["variant"]
