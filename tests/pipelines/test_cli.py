import errno
import logging
import os
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, ClassVar

import pytest
import typer
from pydantic import BaseModel, ConfigDict, Field
from typer.testing import CliRunner

import pipelines
from data_prep.errors import ClusterLost, InputError
from data_prep.files.sole_writer import sole_writer
from data_prep.lane.settings import LanePrepareSettings
from data_prep.splits.settings import LARGEST_SEED
from pipelines.cli import APPLICATIONS, make_app
from pipelines.command.config import dump_settings
from pipelines.command.steps import Command, StepCall, make_command
from pipelines.errors import TrainingDiverged
from pipelines.lane import commands as lane

STEPS = ("prepare", "train", "evaluate", "predict", "export")


class TrainSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = Field(default=10, ge=1, description="Passes over the data.")
    seed: int = Field(default=0, description="Seed.")


class PredictSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "threshold": ("", "Threshold."),
        "refer_above": ("", "Mean entropy."),
    }

    threshold: float = Field(default=0.5, description="Threshold.")
    refer_above: float | None = Field(default=None, description="Mean entropy.")


class ExportSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Recorder:
    """Stands for the modules of the steps: remembers calls, or raises what a test wants."""

    def __init__(self):
        self.calls: list[tuple[str, tuple, dict]] = []
        self.error: BaseException | None = None

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*args, **kwargs):
            self.calls.append((name, args, kwargs))
            if self.error is not None:
                raise self.error
            written = SimpleNamespace(num_examples=0, size=(8, 8), describe_examples=lambda: "")
            return SimpleNamespace(
                differences={"serving_default/label": 0.0},
                not_run=("network.onnx",),
                manifest=written,
                without_lane=[],
                notes=[],
                skipped=[],
            )

        return call


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch, tmp_path) -> None:
    """Give every test folders of its own behind relative names: commands lock what they write to."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def steps(monkeypatch) -> Recorder:
    import_module("pipelines.bundles.runtimes")  # takes from the metadata what is not replaced here
    recorder = Recorder()
    replaced: dict[str, object] = {
        "runs.train": recorder,
        "evaluation.evaluate": recorder,
        "evaluation.export": recorder,
        "lane.application": SimpleNamespace(LANE="the application"),
        "lane.prediction": SimpleNamespace(LANE_PREDICTION=recorder.predict),
        "lane.demo": recorder,
        "bundles.saved_model": recorder,
        "bundles.metadata": SimpleNamespace(load_metadata=lambda _: None),
    }
    for path, module in replaced.items():
        room, _, name = path.partition(".")
        monkeypatch.setitem(sys.modules, f"pipelines.{path}", module)
        monkeypatch.setattr(import_module(f"pipelines.{room}"), name, module, raising=False)
    monkeypatch.setitem(sys.modules, "data_prep.lane.prepare", recorder)
    settings = {
        "train": TrainSettings,
        "evaluate": TrainSettings,
        "predict": PredictSettings,
        "export": ExportSettings,
    }
    faked = {name: replace(lane.COMMANDS[name], settings=cls) for name, cls in settings.items()}
    monkeypatch.setattr(lane, "COMMANDS", {**lane.COMMANDS, **faked})
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace())  # counts as started
    monkeypatch.setattr(
        "pipelines.command.steps.check_paths", lambda *_: None
    )  # the folders exist by name alone
    return recorder


def run(*arguments: object, expected: int = 0):
    result = CliRunner().invoke(make_app(), [str(argument) for argument in arguments])
    assert result.exit_code == expected, (result.output, result.exception)
    return result


@pytest.mark.parametrize("step", ["evaluate", "predict", "export"])
def test_help_says_which_steps_take_a_run_and_which_a_bundle(step, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    shown = run("lane", step, "--help").stdout
    assert "Run folder of a train step; predict takes the bundle folder of an export step." in shown


def test_train_gets_settings_folders_and_console(steps, tmp_path):
    run("lane", "train", "--data", tmp_path, "--out", tmp_path / "run", "--seed", 3, "--set", "epochs=2")
    ((name, (application, settings), options),) = steps.calls
    assert (name, application) == ("train", "the application")
    assert settings == TrainSettings(epochs=2, seed=3)
    console = options.pop("console")
    assert callable(console.print)
    strategy = options.pop("strategy")
    assert strategy == "none"
    folders = {"data": tmp_path, "out": tmp_path / "run"}
    assert options == {**folders, "resume": False, "former": None, "cluster": None}


@pytest.mark.usefixtures("steps")
def test_a_seed_that_libraries_do_not_take_is_refused():
    result = run("lane", "train", "--data", "d", "--out", "o", "--seed", LARGEST_SEED + 1, expected=2)
    assert str(LARGEST_SEED) in result.output


def test_precedence_of_file_set_and_option(steps, tmp_path):
    config = tmp_path / "train.yaml"
    config.write_text("epochs: 5\nseed: 5")
    run("lane", "train", "--data", "d", "--out", "o", "--config", config)
    run(
        "lane",
        "train",
        "--data",
        "d",
        "--out",
        "o",
        "--config",
        config,
        "--set",
        "epochs=6",
        "--set",
        "seed=6",
    )
    run("lane", "train", "--data", "d", "--out", "o", "--config", config, "--set", "seed=6", "--seed", 7)
    assert [args[-1] for _, args, _ in steps.calls] == [
        TrainSettings(epochs=5, seed=5),
        TrainSettings(epochs=6, seed=6),
        TrainSettings(epochs=5, seed=7),
    ]


def test_a_resumed_run_keeps_the_settings_it_was_started_with(steps, tmp_path):
    dump_settings(TrainSettings(epochs=4), tmp_path / "config.yaml")
    run("lane", "train", "--data", "d", "--out", tmp_path, "--resume", "--set", "seed=9")
    run("lane", "train", "--data", "d", "--out", tmp_path)
    assert [args[-1] for _, args, _ in steps.calls] == [TrainSettings(epochs=4, seed=9), TrainSettings()]
    assert [options["resume"] for _, _, options in steps.calls] == [True, False]
    assert [options["former"] for _, _, options in steps.calls] == [TrainSettings(epochs=4), None]


def test_a_resumed_run_takes_other_settings_from_a_file(steps, tmp_path):
    dump_settings(TrainSettings(epochs=4), tmp_path / "config.yaml")
    config = tmp_path / "other.yaml"
    config.write_text("seed: 5")
    run("lane", "train", "--data", "d", "--out", tmp_path, "--resume", "--config", config)
    ((_, (_, settings), options),) = steps.calls
    assert settings == TrainSettings(seed=5)
    assert options["former"] == TrainSettings(epochs=4)


def test_evaluate_and_export_get_their_arguments(steps):
    run("lane", "evaluate", "--data", "d", "--model", "m", "--out", "o", "--seed", 1)
    run("lane", "export", "--model", "m", "--out", "o", "--metrics", "metrics.json", "--overwrite")
    (_, (_, evaluate), evaluate_options), (_, (_, export), export_options) = steps.calls
    assert evaluate == TrainSettings(seed=1)
    assert (evaluate_options["data"], evaluate_options["model"]) == (Path("d"), Path("m"))
    assert isinstance(export, ExportSettings)
    assert (export_options["metrics"], export_options["overwrite"]) == (Path("metrics.json"), True)


def test_predict_takes_several_inputs_as_a_wildcard_gives_them(steps):
    common = ("lane", "predict", "--model", "m", "--threshold", 0.7, "--refer-above", 0.2)
    run(*common, "--input", "a.jpg", "b.jpg", "c.jpg", "--out", "o")
    run(*common, "--out", "o", "--input", "a.jpg", "--input", "folder")
    assert [options["inputs"] for _, _, options in steps.calls] == [
        [Path("a.jpg"), Path("b.jpg"), Path("c.jpg")],
        [Path("a.jpg"), Path("folder")],
    ]
    assert steps.calls[0][1][0] == PredictSettings(threshold=0.7, refer_above=0.2)


def test_demo_and_verify(steps, tmp_path):
    run("demo", "--out", tmp_path, "--seed", 2)
    result = run("verify", tmp_path)
    (demo, demo_args, demo_options), (verify, verify_args, _) = steps.calls
    assert (demo, demo_args, demo_options["seed"]) == ("run_demo", (tmp_path,), 2)
    assert (verify, verify_args) == ("verify_bundle", (tmp_path,))
    assert "serving_default/label" in result.stdout
    assert "network.onnx was not run" in result.stdout


@pytest.mark.parametrize(
    ("step", "own", "ignored"),
    [
        ("prepare", ["--images", "i", "--masks", "m"], ["data", "model", "resume"]),
        ("train", [], ["model", "cluster"]),
        ("evaluate", [], ["resume", "cluster"]),
        ("predict", ["--input", "i"], ["data", "resume", "seed"]),
        ("export", [], ["resume", "seed", "cluster"]),
    ],
)
def test_every_step_accepts_every_shared_option(steps, tmp_path, step, own, ignored):
    config = tmp_path / "empty.yaml"
    config.write_text("")
    shared = ["--data", "d", "--model", "m", "--out", "o", "--config", config, "--seed", 1, "--jobs", 1]
    if "cluster" in ignored:
        shared += ["--cluster", "local:2"]
    result = run("lane", step, *shared, "--resume", *own)
    assert [name for name, _, _ in steps.calls] == ["prepare_lane" if step == "prepare" else step]
    notes = [line for line in result.stderr.splitlines() if line.startswith("Note: ")]
    assert notes == [f"Note: `lane {step}` has no use for --{name}; it is ignored." for name in ignored]


@pytest.mark.parametrize(
    "arguments",
    [
        ("lane", "train", "--out", "o"),
        ("lane", "train", "--data", "d", "--out", "o", "--jobs", 0),
        ("lane", "train", "--data", "d", "--out", "o", "--seed", "x"),
        ("lane", "train", "--data", "d", "--out", "o", "extra"),
        ("lane", "walk"),
        ("sonnar", "train"),
        ("verify",),
        ("lane", "train", "--data", "d", "--out", "o", "--set", "epoch=1"),
        ("lane", "train", "--data", "d", "--out", "o", "--set", "epochs"),
        ("lane", "train", "--data", "d", "--out", "o", "--config", "no.yaml"),
        ("lane", "prepare", "--images", "i", "--masks", "m", "--out", "o", "--size", "96"),
        ("lane", "prepare", "--images", "i", "--masks", "m", "--out", "o", "--size", "0x96"),
        ("lane", "prepare", "--images", "i", "--masks", "m", "--out", "o", "--lane-values", "3;4"),
        ("lane", "prepare", "--images", "i", "--masks", "m", "--out", "o", "--group-pattern", "("),
    ],
)
def test_bad_usage_ends_with_2_without_a_traceback_or_a_step(steps, arguments):
    result = run(*arguments, expected=2)
    assert "Traceback" not in result.output
    assert result.stderr
    assert not steps.calls


@pytest.mark.usefixtures("steps")
def test_an_unknown_setting_names_the_nearest():
    result = run("lane", "train", "--data", "d", "--out", "o", "--set", "epoch=1", expected=2)
    assert "Error: --set: 'epoch' is no setting of TrainSettings. Did you mean 'epochs'?" in result.stderr


TRAIN = ("lane", "train", "--data", "the data", "--out", "run")


def test_bad_input_ends_with_2_and_one_message(steps):
    steps.error = InputError("mask.png: no lane. Check it.")
    result = run(*TRAIN, expected=2)
    assert result.stderr == "Error: mask.png: no lane. Check it.\n"
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            OSError(errno.ENOSPC, "full", "run/last.h5"),
            "Error: run/last.h5: No space left on device. Free some space, or choose another --out.\n",
        ),
        (
            PermissionError(errno.EACCES, "denied", "run"),
            "Error: run: Permission denied. Check the permissions, or choose another path.\n",
        ),
        (
            OSError(errno.ENOSPC, "file write failed"),
            (
                "Error: No space left on device ([Errno 28] file write failed). "
                "Free some space, or choose another --out.\n"
            ),
        ),
    ],
)
def test_what_the_system_refuses_ends_with_1_and_one_message(steps, error, message):
    steps.error = error
    assert run(*TRAIN, expected=1).stderr == message


def test_a_loss_that_is_no_number_ends_with_1_and_one_message(steps):
    steps.error = TrainingDiverged("Training stopped in epoch 3: the loss is nan. The checkpoint is kept.")
    assert run(*TRAIN, expected=1).stderr == f"Error: {steps.error}\n"


def test_a_lost_cluster_ends_with_1_and_the_command_to_go_on_with(steps):
    steps.error = ClusterLost("--cluster tcp://head:8786: the scheduler no longer answers.")
    assert run(*TRAIN, expected=1).stderr == (
        f"Error: {steps.error} Nothing complete was written. Run the command again.\n"
    )
    Path("run").mkdir()
    dump_settings(TrainSettings(), Path("run/config.yaml"))
    assert run(*TRAIN, expected=1).stderr == (
        f"Error: {steps.error} Continue with: gpimaging lane train --data 'the data' --out run --resume\n"
    )


def test_ctrl_c_ends_with_130_and_says_how_to_go_on(steps):
    steps.error = KeyboardInterrupt()
    nothing = "Error: Interrupted. Nothing complete was written. Run the command again.\n"
    assert run(*TRAIN, expected=130).stderr == nothing
    Path("run").mkdir()
    dump_settings(TrainSettings(), Path("run/config.yaml"))
    assert run(*TRAIN, expected=130).stderr == (
        "Error: Interrupted. Continue with: gpimaging lane train --data 'the data' --out run --resume\n"
    )
    assert "Run the command again" in run("lane", "export", "--model", "m", "--out", "o", expected=130).stderr
    assert "Run the command again" in run("demo", expected=130).stderr
    predict = ("lane", "predict", "--model", "m", "--input", "i", "--out", "predicted")
    assert run(*predict, expected=130).stderr == nothing
    Path("predicted").mkdir()
    Path("predicted/predict_run.json").touch()
    assert "Run the same command again to go on with" in run(*predict, expected=130).stderr
    Path("predicted/predict_run.json").unlink()
    Path("predicted/predictions.csv").touch()
    assert (
        "are kept in predicted. Predict the others into another --out." in run(*predict, expected=130).stderr
    )


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), OSError("a bug"), ValueError("a bug")])
def test_an_unexpected_error_keeps_its_traceback(steps, error):
    steps.error = error
    result = run(*TRAIN, expected=1)
    assert result.exception is error


def test_what_the_project_logs_is_printed_and_a_log_has_whole_lines(steps, monkeypatch):
    def train(*_, **__):
        logging.getLogger("pipelines.training.stages").info("Dropped experts [4] %s", "x" * 150)
        logging.getLogger("somebody.else").info("hidden")

    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(steps, "train", train, raising=False)
    assert run(*TRAIN).stdout == f"Dropped experts [4] {'x' * 150}\n"


def test_every_application_has_every_step():
    for application in APPLICATIONS:
        commands = run(application.name, "--help").stdout
        for step in STEPS:
            assert step in commands


def test_options_of_a_step_become_its_parameters(tmp_path):
    (tmp_path / "manifest.json").touch()
    seen = {}

    def count(call: StepCall, data: Path, times: Annotated[int, typer.Option(help="How often.")] = 2) -> None:
        """Count."""
        seen.update(data=data, times=times, jobs=call.jobs, settings=call.settings)

    app = typer.Typer()
    app.command()(make_command("numbers count", Command(TrainSettings, count)))
    result = CliRunner().invoke(
        app, ["--data", str(tmp_path), "--times", "4", "--jobs", "3", "--set", "seed=1"]
    )
    assert result.exit_code == 0, result.output
    assert seen == {"data": tmp_path, "times": 4, "jobs": 3, "settings": TrainSettings(seed=1)}
    assert "How often." in CliRunner().invoke(app, ["--help"]).stdout
    assert CliRunner().invoke(app, []).exit_code == 2


def test_a_second_command_is_kept_out_of_a_folder(tmp_path):
    out, met = tmp_path / "out", []

    def features(call: StepCall, out: Path) -> None:
        """Count."""
        met.append(call.jobs)
        (out / "features.npz").touch()

    app = typer.Typer()
    app.command()(make_command("numbers features", Command(TrainSettings, features)))
    with sole_writer(out):
        refused = CliRunner().invoke(app, ["--out", str(out)])
        (out / "log").touch()
    assert refused.exit_code == 2
    assert f"{out}: another command is writing to this folder." in refused.stderr
    assert not met
    assert CliRunner().invoke(app, ["--out", str(out)]).exit_code == 0
    assert met


def test_the_settings_of_a_step_can_be_shown_without_its_required_options(steps):
    shown = run("lane", "train", "--help-settings").stdout
    assert "epochs" in shown
    assert "whole number ≥ 1" in shown
    assert "Passes over the data." in shown
    assert not steps.calls


PREPARE = ("lane", "prepare", "--images", "i", "--masks", "m", "--out", "o")


def test_options_of_prepare_become_its_settings(steps, tmp_path):
    config = tmp_path / "prepare.yaml"
    config.write_text("size: [10, 10]\nexamples_per_shard: 5")
    own = ("--size", "16x24", "--lane-values", "3, 4", "--ignore-values", "11", "--folds", 3, "--overwrite")
    run(*PREPARE, *own, "--config", config, "--jobs", 2, "--seed", 4, "--group-pattern", "^[a-z]+")
    run(*PREPARE, "--train-list", "a.txt", "--test-list", "b.txt")
    (name, (images, masks, out, first), options), (_, (*_, second), defaults) = steps.calls
    assert (name, images, masks, out) == ("prepare_lane", Path("i"), Path("m"), Path("o"))
    assert first == LanePrepareSettings(
        size=(16, 24),
        lane_values=(3, 4),
        ignore_values=(11,),
        folds=3,
        group_pattern="^[a-z]+",
        examples_per_shard=5,
        seed=4,
    )
    assert second == LanePrepareSettings(train_list=Path("a.txt"), test_list=Path("b.txt"))
    assert (options["jobs"], options["overwrite"]) == (2, True)
    assert defaults["jobs"] >= 1
    assert defaults["overwrite"] is False


def outcome_in_a_fresh_process(code: str) -> str:
    root = Path(pipelines.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, cwd=root
    ).stdout


def test_neither_import_nor_help_imports_anything_heavy():
    code = (
        "import sys; from typer.testing import CliRunner; from pipelines.cli import make_app\n"
        "for words in ('--help', 'lane --help', 'lane train --help', 'lane prepare --help'):\n"
        "    assert CliRunner().invoke(make_app(), words.split()).exit_code == 0\n"
        "heavy = {'tensorflow', 'keras', 'gpflow', 'tensorflow_probability', 'sklearn', 'scipy'}\n"
        "heavy |= {'matplotlib', 'cv2', 'skimage', 'joblib', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert outcome_in_a_fresh_process(code).strip() == "[]"


def test_slips_in_paths_show_before_anything_heavy_is_imported(tmp_path):
    (tmp_path / "written").mkdir()
    for name in ("run.json", "metrics.json", "predictions.csv", "manifest.json"):
        (tmp_path / "written" / name).touch()
    code = (
        f"import os, sys; os.chdir({str(tmp_path)!r})\n"
        "from typer.testing import CliRunner; from pipelines.cli import make_app\n"
        "def tell(words):\n"
        "    result = CliRunner().invoke(make_app(), words.split())\n"
        "    print(result.exit_code, result.stderr.strip())\n"
        "tell('sonar prepare --images no --out out')\n"
        "tell('lane prepare --images written --masks written --out written')\n"
        "tell('sonar prepare --images written --annotations no.csv --out out')\n"
        "tell('video prepare --videos written --test-list no.txt --out out')\n"
        "tell('cells train --data no --out out')\n"
        "tell('lane train --data written --out written')\n"
        "tell('histopathology evaluate --data written --model no --out out')\n"
        "tell('video evaluate --data written --model written --out written')\n"
        "tell('sonar export --model written --out written')\n"
        "tell('video export --model written --metrics no.json --out out')\n"
        "tell('lane predict --model written --input no --out out')\n"
        "tell('lane predict --model written --input written --out out')\n"
        "tell('histopathology survival --data written --out written')\n"
        "tell('verify written')\n"
        "heavy = {'tensorflow', 'keras', 'gpflow', 'sklearn', 'scipy', 'cv2', 'joblib'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    *messages, heavy = outcome_in_a_fresh_process(code).splitlines()
    exists = "already exists. Choose another output folder, or replace it with --overwrite."
    no_bundle = "is no bundle: metadata.json or saved_model.pb is missing. Pass the --out of an export."
    no_folder = "no does not exist. Check the path: pass"
    assert messages == [
        "2 Error: --images no: does not exist. Check the path.",
        f"2 Error: written: {exists}",
        "2 Error: --annotations no.csv: does not exist. Check the path.",
        "2 Error: --test-list no.txt: does not exist. Check the path.",
        f"2 Error: {no_folder} a folder written by `prepare`.",
        "2 Error: written already holds a run. Continue it with --resume, or give another --out.",
        f"2 Error: {no_folder} the --out folder of a train step.",
        "2 Error: written already holds an evaluation. Give another --out, or remove that folder.",
        f"2 Error: written: {exists}",
        "2 Error: --metrics no.json: does not exist. Check the path.",
        "2 Error: --input no: does not exist. Check the path.",
        f"2 Error: written {no_bundle}",
        f"2 Error: written: {exists}",
        f"2 Error: written {no_bundle}",
    ]
    assert heavy == "[]"


def test_a_folder_that_may_not_be_read_is_left_to_the_step(tmp_path, monkeypatch):
    """Typer would end the command in words of its own, which do not say what to do."""
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path and real(path, mode))
    result = CliRunner().invoke(make_app(), ["lane", "train", "--data", str(tmp_path), "--out", "out"])
    assert result.exit_code == 2
    said = " ".join(result.output.split())
    assert "not readable" not in said
    assert "manifest.json: cannot be read" in said


@pytest.mark.parametrize("module", ["pipelines", "pipelines.cli"])
def test_the_module_is_the_same_command(module):
    code = (
        "import runpy, sys; sys.argv = ['pipelines', '--version']\n"
        f"try:\n    runpy.run_module({module!r}, run_name='__main__')\n"
        "except SystemExit as stop:\n    print(stop.code)"
    )
    version, exit_code = outcome_in_a_fresh_process(code).split("\n")[:2]
    assert version.startswith("gpimaging ")
    assert exit_code == "0"


def test_start_up_notes_are_hidden_and_other_messages_are_not():
    code = (
        "import os, sys\nfrom pipelines.command.tensorflow_start import start_up_notes_hidden\n"
        "os.dup2(1, 2)\n"
        "with start_up_notes_hidden():\n"
        "    os.write(2, b'I0000 00:00:17.3 1 port.cc:153] oneDNN\\n')\n"
        "    os.write(2, b'E0000 00:00:17.3 1 x.cc:5] UNKNOWN ERROR (303)\\n')\n"
        "    os.write(2, b'E0000 00:00:17.3 1 x.cc:5] the disk burns\\n')\n"
        "    print('a warning', file=sys.stderr)\n"
        "print('after', file=sys.stderr, flush=True)"
    )
    assert outcome_in_a_fresh_process(code).splitlines() == [
        "E0000 00:00:17.3 1 x.cc:5] the disk burns",
        "a warning",
        "after",
    ]
