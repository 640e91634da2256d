"""A head family that is registered in one line goes the whole way: trained, resumed, judged, exported."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field

from data_prep.errors import InputError
from gpmodels import SVGPHead
from gpmodels.registry import HeadFamily, HeadTask, head_family, register, starting_head, unregister
from pipelines.bundles.saved_model import verify_bundle
from pipelines.command.config import describe_settings, load_settings
from pipelines.evaluation.evaluate import evaluate as evaluate_run
from pipelines.lane.application import LANE
from pipelines.lane.settings import LaneRun, TrainSettings
from pipelines.runs.description import load_run
from pipelines.runs.settings import EvaluateSettings
from pipelines.runs.train import train as train_run
from tests.pipelines.tiny_lane import SETTINGS, determinism_ends, export, quiet


class ToySettings(BaseModel):
    """Settings of the family."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    points: int = Field(default=4, ge=1, description="Inducing points of the toy.")


def make_toy(settings: ToySettings, task: HeadTask) -> SVGPHead:
    return SVGPHead(
        num_inducing=settings.points, num_classes=task.num_classes, likelihood=task.likelihood, name="toy"
    )


@pytest.fixture
def toy() -> Iterator[HeadFamily]:
    yield register(HeadFamily("toy", "Toy", "toy for a test", make=make_toy, settings=ToySettings))
    unregister("toy")


def settings_with(toy_points: int, **changes: object) -> TrainSettings:
    """The settings of a tiny lane run with the toy's own table."""
    overrides = ["heads=[linear, toy]", f"toy.points={toy_points}", f"head_epochs={changes.get('epochs', 1)}"]
    base = SETTINGS.model_dump(mode="json")
    return load_settings(
        TrainSettings,
        overrides=[
            *(
                f"{key}={json.dumps(base[key])}"
                for key in (
                    "network",
                    "pretraining_epochs",
                    "batch_size",
                    "head_steps",
                    "panel_images",
                    "selection_fraction",
                )
            ),
            *overrides,
        ],
    )


@pytest.mark.usefixtures("toy")
def test_its_settings_are_a_table_and_its_name_is_a_choice():
    rows = {row.key: row for row in describe_settings(TrainSettings)}
    assert rows["toy.points"].type == "whole number ≥ 1"
    assert rows["heads"].type.startswith("list of linear | ")
    assert rows["heads"].type.endswith(
        " | svgp | autogp | svdkl | hgp | random_features | deep_gp | dfgp | dfgp_mkl | atl_dgp | toy "
        "(at least 1)"
    )
    chosen = load_settings(TrainSettings, overrides=["heads=[toy, linear]", "toy.points=9"])
    assert chosen.heads == ("linear", "toy")
    assert head_family("toy").settings_of(chosen).points == 9


def test_a_head_that_is_no_gaussian_process_is_no_linear_head(toy):
    """The network is pretrained with the linear head alone, whatever other families there are."""
    unregister(toy.name)
    register(replace(toy, is_gaussian_process=False))
    assert starting_head() == "linear"
    assert not head_family("toy").starts_network


def test_it_is_gone_when_it_is_unregistered(toy):
    unregister(toy.name)
    with pytest.raises(InputError, match=r"\| atl_dgp \(at least 1\) \('toy' is none of these\)"):
        load_settings(TrainSettings, overrides=["heads=[toy]"])
    with pytest.raises(ValueError, match="There is no head family 'toy'"):
        head_family("toy")
    register(toy)


@pytest.mark.slow  # three trainings
@pytest.mark.usefixtures("toy")
def test_it_is_trained_resumed_judged_exported_and_verified(lane_data: Path, tmp_path: Path):
    run, chosen = tmp_path / "run", settings_with(3)
    with determinism_ends():
        train_run(
            LANE,
            chosen.model_copy(update={"heads": ("linear",)}),
            data=lane_data,
            out=run,
            resume=False,
            console=quiet(),
        )
        assert not (run / "heads" / "toy").exists()
        train_run(LANE, chosen, data=lane_data, out=run, resume=True, console=quiet())
        with pytest.raises(InputError, match="cannot be resumed: toy changed since it was started"):
            train_run(LANE, settings_with(5), data=lane_data, out=run, resume=True, console=quiet())
    assert load_run(run, LaneRun).heads == ("linear", "toy")
    evaluation = evaluate_run(
        LANE,
        EvaluateSettings(resamples=100),
        data=lane_data,
        model=run,
        out=tmp_path / "judged",
        console=quiet(),
    )
    titles = ["Linear", "Linear + temperature", "Toy", "Toy + temperature"]
    assert [result.name for result in evaluation.results] == titles
    bundle = export(run, tmp_path / "bundle", head="toy")
    assert json.loads((bundle / "metadata.json").read_text())["head"] == "toy for a test"
    assert verify_bundle(bundle).worst < 1e-3
