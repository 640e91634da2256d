"""The training loop: checkpoints, resuming, the best epoch, early stopping."""

import errno
import json
import os
import resource
import shutil
import signal
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_prep.errors import InputError
from gpmodels import HybridModel
from pipelines.training import stages as training
from pipelines.training.stages import (
    BEST,
    EpochReport,
    StageSettings,
    StageState,
    TwoRateAdam,
    load_checkpoint,
    make_deterministic,
    train_stage,
)
from tests.pipelines.tiny_lane import determinism_ends
from tests.pipelines.tiny_stage import batches, make_model, stage_data, train_first_epoch


def everything(model: HybridModel) -> list[np.ndarray]:
    return [np.asarray(v) for v in (*model.weights, *model.optimizer.variables)]


def assert_bitwise(left: list[np.ndarray], right: list[np.ndarray]) -> None:
    assert len(left) == len(right) > 0
    for a, b in zip(left, right, strict=True):
        assert a.tobytes() == b.tobytes()


def last_checkpoint(folder: Path, kind: str) -> list[np.ndarray]:
    """Weights and optimiser of the last epoch, read back from disk."""
    model = make_model(kind)
    model.compile(optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1.0, 1)))
    model.optimizer.build(model.trainable_variables)
    load_checkpoint(model, folder / StageState.load(folder).weights)
    return everything(model)


class Interrupt(keras.callbacks.Callback):
    """Ctrl-C at a batch of an epoch (both from 0)."""

    def __init__(self, epoch: int, batch: int) -> None:
        super().__init__()
        self._when, self._epoch = (epoch, batch), 0

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:  # noqa: ARG002 - Keras calls it so
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:  # noqa: ARG002 - Keras calls it so
        if (self._epoch, batch) == self._when:
            raise KeyboardInterrupt


SETTINGS = StageSettings(epochs=3, learning_rate=0.05)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[StageState, list, list]]:
    """State, best weights and last checkpoint of whole runs with each head."""
    results = {}
    with determinism_ends():
        make_deterministic(0)
        for kind in ("linear", "hgp"):
            folder, model = tmp_path_factory.mktemp(kind), make_model(kind)
            state = train_stage(model, SETTINGS, stage_data(), folder=folder)
            results[kind] = (state, everything(model), last_checkpoint(folder, kind))
    return results


def stop_after_second(report: EpochReport) -> None:
    if report.epoch == 2:
        raise KeyboardInterrupt


def interrupt_and_resume(kind: str, folder: Path, **interruption: object) -> tuple[StageState, HybridModel]:
    """Train until Ctrl-C, then resume with a new model."""
    make_deterministic(0)
    with pytest.raises(KeyboardInterrupt):
        train_stage(make_model(kind), SETTINGS, stage_data(), folder=folder, **interruption)
    assert StageState.load(folder).epochs_done < SETTINGS.epochs
    make_deterministic(7)  # nothing may depend on where the global generators stand
    model = make_model(kind)
    return train_stage(model, SETTINGS, stage_data(), folder=folder, resume=True), model


def assert_equals_uninterrupted(expected: tuple, state: StageState, model: HybridModel, folder: Path) -> None:
    whole, best, last = expected
    assert state.history == whole.history
    assert (state.best, state.best_epoch) == (whole.best, whole.best_epoch)
    assert_bitwise(everything(model), best)
    assert_bitwise(last_checkpoint(folder, "hgp" if "hgp" in model.head.name else "linear"), last)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "interruption"),
    [
        pytest.param("hgp", {"callbacks": [Interrupt(1, 1)]}, id="hgp, second epoch", marks=pytest.mark.slow),
        pytest.param("linear", {"callbacks": [Interrupt(0, 1)]}, id="linear, first epoch"),
        pytest.param("linear", {"hooks": [stop_after_second]}, id="linear, between epochs"),
    ],
)
def test_a_resumed_stage_repeats_an_uninterrupted_one_bit_for_bit(
    uninterrupted, tmp_path, kind, interruption
):
    with determinism_ends():
        state, model = interrupt_and_resume(kind, tmp_path, **interruption)
        assert_equals_uninterrupted(uninterrupted[kind], state, model, tmp_path)


class PressedWhileFinalised(keras.callbacks.Callback):
    """Presses Ctrl-C in a finaliser, in which Python prints `KeyboardInterrupt` and forgets it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:  # noqa: ARG002 - Keras calls it so
        self.steps += 1

        class Finalised:
            def __del__(self) -> None:
                os.kill(os.getpid(), signal.SIGINT)

        Finalised()


def test_ctrl_c_in_a_finaliser_ends_the_stage_after_its_step(tmp_path):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored
    pressed = PressedWhileFinalised()
    try:
        with pytest.raises(KeyboardInterrupt):
            train_stage(make_model("linear"), SETTINGS, stage_data(), folder=tmp_path, callbacks=[pressed])
    finally:
        signal.signal(signal.SIGINT, before)
    assert pressed.steps == 1
    assert StageState.load(tmp_path).epochs_done == 0


@pytest.mark.slow
def test_weights_and_state_cannot_part(uninterrupted, tmp_path, monkeypatch):
    """Ctrl-C after the weights of an epoch were written and before the state that names them."""
    save = StageState.save

    def interrupted(state: StageState, folder: Path) -> None:
        if state.epochs_done == 2:
            monkeypatch.setattr(StageState, "save", save)
            raise KeyboardInterrupt
        save(state, folder)

    monkeypatch.setattr(StageState, "save", interrupted)
    with determinism_ends():
        state, model = interrupt_and_resume("linear", tmp_path)
        assert_equals_uninterrupted(uninterrupted["linear"], state, model, tmp_path)


@pytest.mark.slow
def test_every_epoch_gets_its_own_batches(tmp_path):
    asked = []

    def recorded(epoch: int) -> tf.data.Dataset:
        asked.append(epoch)
        return batches(epoch)

    with pytest.raises(KeyboardInterrupt):
        train_stage(
            make_model(), SETTINGS, stage_data(batches=recorded), folder=tmp_path, hooks=[stop_after_second]
        )
    train_stage(make_model(), SETTINGS, stage_data(batches=recorded), folder=tmp_path, resume=True)
    assert asked == [0, 1, 2]


def scripted(monkeypatch: pytest.MonkeyPatch, losses: list[float]) -> None:
    """Replace the epochs' work: epoch e sets the first weight to e + 1 and reports the e-th loss."""

    def epoch(model, epoch, *_):
        weight = model.trainable_weights[0]
        weight.assign(tf.fill(weight.shape, epoch + 1.0))
        return {"loss": losses[epoch], "selection_nll": losses[epoch]}

    monkeypatch.setattr(training, "_one_epoch", epoch)


def trained_epoch(model: HybridModel) -> float:
    return float(np.ravel(model.trainable_weights[0])[0])


@pytest.mark.slow
def test_the_best_epoch_is_kept_and_restored(monkeypatch, tmp_path):
    scripted(monkeypatch, [0.3, 0.1, 0.2, 0.1])
    model = make_model()
    state = train_stage(model, StageSettings(4, 0.1), stage_data(), folder=tmp_path)
    assert (state.best_epoch, state.best, state.epochs_done) == (2, 0.1, 4)
    assert trained_epoch(model) == 2.0
    other = make_model()
    load_checkpoint(other, tmp_path / BEST)
    assert trained_epoch(other) == 2.0
    load_checkpoint(other, tmp_path / state.weights)
    assert trained_epoch(other) == 4.0


def test_a_start_that_no_epoch_betters_is_kept(monkeypatch, tmp_path):
    scripted(monkeypatch, [3.0, 2.0])
    model = make_model()
    before = [np.asarray(weight) for weight in model.weights]
    state = train_stage(model, StageSettings(2, 0.1), stage_data(), folder=tmp_path)
    kept = model.evaluate(stage_data().selection, verbose=0, return_dict=True)["nll"]
    assert (state.best_epoch, state.best) == (0, pytest.approx(kept, rel=1e-6))
    assert_bitwise([np.asarray(weight) for weight in model.weights], before)


def test_random_weights_do_not_stay(monkeypatch, tmp_path):
    scripted(monkeypatch, [3.0, 2.0])
    model = make_model()
    settings = StageSettings(2, 0.1, start_may_stay=False)
    assert train_stage(model, settings, stage_data(), folder=tmp_path).best_epoch == 2
    assert trained_epoch(model) == 2.0


@pytest.mark.slow
def test_early_stopping_counts_epochs_without_progress(monkeypatch, tmp_path):
    scripted(monkeypatch, [0.3, 0.2, 0.25, 0.2, 0.1, 0.0])
    settings = StageSettings(6, 0.1, patience=2)
    state = train_stage(make_model(), settings, stage_data(), folder=tmp_path)
    assert (state.epochs_done, state.best_epoch) == (4, 2)
    again = train_stage(make_model(), settings, stage_data(), folder=tmp_path, resume=True)
    assert again == state
    patient = StageSettings(6, 0.1, patience=0)
    assert train_stage(make_model(), patient, stage_data(), folder=tmp_path, resume=True).epochs_done == 6


def test_only_the_checkpoints_in_use_stay(monkeypatch, tmp_path):
    scripted(monkeypatch, [3.0, 2.0, 2.5])
    train_stage(make_model(), StageSettings(3, 0.1), stage_data(), folder=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [BEST, "epoch_3.weights.h5", "state.json"]


@pytest.mark.slow
def test_without_resume_a_stage_starts_anew(monkeypatch, tmp_path):
    scripted(monkeypatch, [3.0, 2.0])
    train_stage(make_model(), StageSettings(2, 0.1), stage_data(), folder=tmp_path)
    scripted(monkeypatch, [5.0])
    state = train_stage(make_model(), StageSettings(1, 0.1), stage_data(), folder=tmp_path)
    assert [numbers["loss"] for numbers in state.history] == [5.0]


def test_an_untrained_stage_leaves_a_checkpoint(tmp_path):
    model = make_model()
    before = [np.asarray(weight) for weight in model.weights]
    state = train_stage(model, StageSettings(0, 0.1), stage_data(), folder=tmp_path)
    assert (state.epochs_done, state.best_epoch) == (0, 0)
    assert_bitwise([np.asarray(weight) for weight in model.weights], before)
    assert (tmp_path / BEST).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (StageSettings(4, 0.1), r"has 1 complete epochs of 3, and cannot go on to 4: .* Resume with 3, or"),
        (StageSettings(2, 0.1), "of 3, and cannot go on to 2"),
        (
            StageSettings(3, 0.2, learning_rate_setting="speed"),
            r"speed 0\.1, and cannot go on with 0\.2",
        ),
    ],
)
def test_a_stage_that_has_begun_keeps_its_schedule(monkeypatch, tmp_path, settings, message):
    scripted(monkeypatch, [3.0, 2.0, 1.0])
    train_first_epoch(make_model(), StageSettings(3, 0.1), tmp_path)
    before = (tmp_path / "state.json").read_bytes()
    with pytest.raises(InputError, match=message):
        train_stage(make_model(), settings, stage_data(), folder=tmp_path, resume=True)
    assert (tmp_path / "state.json").read_bytes() == before


@pytest.mark.slow
def test_a_stage_may_go_on_with_a_lower_learning_rate(monkeypatch, tmp_path):
    scripted(monkeypatch, [3.0, 2.0, 1.0])
    train_first_epoch(make_model(), StageSettings(3, 0.1), tmp_path)
    lower = StageSettings(3, 0.02)
    state = train_stage(make_model(), lower, stage_data(), folder=tmp_path, resume=True)
    assert (state.epochs_done, state.learning_rate) == (3, 0.02)
    assert all(numbers["learning_rate"] <= 0.02 for numbers in state.history[1:])
    with pytest.raises(InputError, match=r"learning_rate 0\.02, and cannot go on with 0\.1"):
        train_stage(make_model(), StageSettings(3, 0.1), stage_data(), folder=tmp_path, resume=True)


@pytest.mark.slow
def test_a_stage_interrupted_in_its_first_epoch_may_change(monkeypatch, tmp_path):
    scripted(monkeypatch, [3.0, 2.0])
    train_stage(make_model(), StageSettings(0, 0.1), stage_data(), folder=tmp_path)
    changed = StageSettings(2, 0.5)
    assert train_stage(make_model(), changed, stage_data(), folder=tmp_path, resume=True).epochs == 2


@pytest.mark.slow
def test_a_run_of_an_earlier_version_resumes(monkeypatch, tmp_path):
    """Before checkpoints were named by epoch, state.json named none and they were last.weights.h5."""
    scripted(monkeypatch, [3.0, 2.0, 1.0])
    train_first_epoch(make_model(), StageSettings(3, 0.1), tmp_path)
    (tmp_path / "epoch_1.weights.h5").rename(tmp_path / "last.weights.h5")
    state = json.loads((tmp_path / "state.json").read_text())
    del state["weights"], state["seconds"], state["epochs"], state["learning_rate"]
    (tmp_path / "state.json").write_text(json.dumps(state))
    resumed = train_stage(make_model(), StageSettings(3, 0.1), stage_data(), folder=tmp_path, resume=True)
    assert [numbers["loss"] for numbers in resumed.history] == [3.0, 2.0, 1.0]
    assert not (tmp_path / "last.weights.h5").exists()


@pytest.mark.slow
def test_seconds_add_up_over_interruptions(monkeypatch, tmp_path):
    clock = iter(np.arange(100.0))
    monkeypatch.setattr(training.time, "perf_counter", lambda: next(clock))
    scripted(monkeypatch, [3.0, 2.0, 1.0])
    train_first_epoch(make_model(), StageSettings(3, 0.1), tmp_path)
    state = train_stage(make_model(), StageSettings(3, 0.1), stage_data(), folder=tmp_path, resume=True)
    assert state.seconds == 3.0


@pytest.mark.parametrize(
    "damage", ["{", '{"epochs_done": "many"}', '{"weights": "../else.weights.h5"}', "[]"]
)
def test_a_damaged_state_is_refused(tmp_path, damage):
    (tmp_path / "state.json").write_text(damage)
    with pytest.raises(InputError, match=r"(?s)state\.json cannot be read .* Train into another --out"):
        train_stage(make_model(), SETTINGS, stage_data(), folder=tmp_path, resume=True)


@pytest.mark.sweep("slow")
@pytest.mark.parametrize("damage", ["missing", "truncated", "empty", "another model"])
def test_a_checkpoint_that_does_not_fit_is_refused(monkeypatch, tmp_path, damage):
    scripted(monkeypatch, [3.0])
    train_stage(make_model(), StageSettings(1, 0.1), stage_data(), folder=tmp_path)
    path = tmp_path / BEST
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "another model":
        path = shutil.copyfile(path, tmp_path / "other.weights.h5")
    else:
        path.write_bytes(content[: len(content) // 2] if damage == "truncated" else b"")
    model = make_model("hgp" if damage == "another model" else "linear")
    with pytest.raises(InputError, match=rf"{path.name} cannot be loaded into this model"):
        load_checkpoint(model, path)


@pytest.mark.parametrize("where", ["head", "network", "optimiser"])
def test_a_checkpoint_with_nan_is_refused_with_the_remedy(tmp_path, where):
    """A head that predicts NaN, or whose factorisation fails, would be met only later."""
    model = make_model("hgp")
    model.compile(optimizer=keras.optimizers.Adam())
    model.optimizer.build(model.trainable_variables)
    spoilt = {
        "head": model.head.trainable_variables,
        "network": model.network.trainable_variables,
        "optimiser": [one for one in model.optimizer.variables if one.dtype == "float32"],
    }[where][-1]
    spoilt.assign(np.full(spoilt.shape, np.nan))
    model.save_weights(tmp_path / BEST)
    with pytest.raises(InputError, match=rf"{BEST} holds NaN .* Remove the folder {tmp_path} and train with"):
        load_checkpoint(model, tmp_path / BEST)


@pytest.mark.parametrize("part", [pytest.param("weights", marks=pytest.mark.slow), "state"])
def test_a_full_disk_keeps_the_last_checkpoint(monkeypatch, tmp_path, part):
    scripted(monkeypatch, [3.0, 2.0])
    train_first_epoch(make_model(), StageSettings(2, 0.1), tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    method = "write_bytes" if part == "weights" else "write_text"
    write = getattr(Path, method)

    def full(path: Path, content: Any, **_: object) -> None:
        write(path, content[: len(content) // 2])  # something is there already when the disk is full
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, method, full)
        with pytest.raises(InputError, match=r"cannot be written \(No space left on device\)"):
            train_stage(make_model(), StageSettings(2, 0.1), stage_data(), folder=tmp_path, resume=True)
    after = {path.name for path in tmp_path.iterdir()}
    assert not any("partial" in name for name in after)
    assert after >= before
    assert StageState.load(tmp_path).epochs_done == 1
    state = train_stage(make_model(), StageSettings(2, 0.1), stage_data(), folder=tmp_path, resume=True)
    assert state.epochs_done == 2


def test_hdf5_never_meets_a_full_disk(monkeypatch, tmp_path):
    """It cannot close a file that it could not write, and ends the process when that process ends."""
    scripted(monkeypatch, [3.0])
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, allowed[1]))
    try:
        with pytest.raises(InputError, match=r"epoch_0\.weights\.h5: cannot be written"):
            train_stage(make_model(), StageSettings(1, 0.1), stage_data(), folder=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
    assert not list(tmp_path.rglob("*partial*"))


# Adam with two rates is two Adams side by side.

RATE, FACTOR, STEPS = 0.05, 7.0, 20


def descend(optimizers: list[tuple[keras.optimizers.Optimizer, list[keras.Variable]]]) -> None:
    """Minimise a quadratic of two variables, each moved by the optimiser it is listed with."""
    variables = [variable for _, some in optimizers for variable in some]

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            first, second = (variable.value for variable in variables)
            loss = tf.reduce_sum(first**2) + 3.0 * tf.reduce_sum((second - first) ** 2)
        gradients = iter(tape.gradient(loss, [variable.value for variable in variables]))
        for optimizer, some in optimizers:
            optimizer.apply([next(gradients) for _ in some], some)

    for _ in range(STEPS):
        step()


def start() -> list[keras.Variable]:
    return [keras.Variable([1.0, -2.0], name="network"), keras.Variable([0.5, 4.0], name="head")]


def test_each_variable_moves_at_its_rate() -> None:
    schedule = keras.optimizers.schedules.CosineDecay(RATE, STEPS)
    faster = keras.optimizers.schedules.CosineDecay(FACTOR * RATE, STEPS)
    together, apart = start(), start()
    both = TwoRateAdam(schedule, faster=together[1:], factor=FACTOR)
    both.build(together)
    singles = [keras.optimizers.Adam(schedule), keras.optimizers.Adam(faster)]
    for optimizer, variable in zip(singles, apart, strict=True):
        optimizer.build([variable])
    descend([(both, together)])
    descend([(optimizer, [variable]) for optimizer, variable in zip(singles, apart, strict=True)])
    for one, other in zip(together, apart, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5)


def test_it_is_kept_with_the_weights_of_a_compiled_model() -> None:
    model = keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(1)])
    model.build((None, 3))
    head = model.layers[1].trainable_variables
    model.compile(optimizer=TwoRateAdam(0.01, faster=head, factor=10.0), loss="mse")
    before = [variable.numpy() for variable in model.trainable_variables]
    model.fit(np.ones((4, 3)), np.ones((4, 1)), verbose=0)
    moved = [np.abs(v.numpy() - b).max() for v, b in zip(model.trainable_variables, before, strict=True)]
    # Adam's first step is its rate.
    np.testing.assert_allclose(moved, [0.01, 0.01, 0.1, 0.1], rtol=1e-3)


def test_the_state_of_another_stage_is_refused(tmp_path):
    for name in ("svgp", "hgp"):
        (tmp_path / name).mkdir()
        StageState(epochs=3).save(tmp_path / name)
    assert StageState.load(tmp_path / "svgp") == StageState(epochs=3)
    shutil.copy(tmp_path / "hgp" / "state.json", tmp_path / "svgp" / "state.json")
    with pytest.raises(InputError, match="is the state of the stage hgp, not of svgp: files of the run were"):
        StageState.load(tmp_path / "svgp")


def test_the_state_of_the_same_head_in_another_fold_is_refused(tmp_path):
    """A run may be renamed, whatever the folders above it are called; its folds keep their numbers."""
    run = tmp_path / "folds" / "2"
    folders = [*(run / "folds" / number / "heads" / "svgp" for number in "12"), run / "heads" / "svgp"]
    run.mkdir(parents=True)
    (run / "run.json").touch()
    for folder in folders:  # the folds are trained before the run has a head
        folder.mkdir(parents=True)
        StageState(epochs=3).save(folder)
    shutil.copytree(run, tmp_path / "best")
    assert StageState.load(tmp_path / "best" / "heads" / "svgp") == StageState(epochs=3)
    assert StageState.load(tmp_path / "best" / "folds" / "1" / "heads" / "svgp") == StageState(epochs=3)
    shutil.copy(folders[0] / "state.json", folders[1] / "state.json")
    with pytest.raises(InputError, match="of the stage folds/1/svgp, not of folds/2/svgp: files of the run"):
        StageState.load(folders[1])
    shutil.copy(folders[2] / "state.json", folders[1] / "state.json")
    with pytest.raises(InputError, match="of the stage svgp, not of folds/2/svgp"):
        StageState.load(folders[1])
