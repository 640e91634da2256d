import inspect
from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

import pytest
from pydantic import BaseModel, ConfigDict, Field
from rich.markup import render

from data_prep.errors import InputError
from data_prep.measure.settings import MeasurePrepareSettings
from data_prep.splits.settings import SPLIT_OPTIONS, SplitSettings
from pipelines.cli import APPLICATIONS
from pipelines.command.options import read_options, setting_options
from pipelines.runs.settings import HeadName


class Example(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    options: ClassVar[dict[str, tuple[str, str]]] = {
        "size": ("HxW", "Size."),
        "lane_values": ("3,4", "Values."),
        "heads": ("NAME", "Heads."),
        "stain": ("none|macenko", "Stain."),
        "folds": ("", "Folds."),
        "train_list": ("", "List."),
    }

    folds: int | None = Field(default=None, description="Folds.")
    train_list: Path | None = Field(default=None, description="List.")
    stain: Literal["none", "macenko"] = Field(default="none", description="Stain.")
    size: tuple[int, int] = Field(default=(1, 2), description="Size.")
    lane_values: tuple[int, ...] | None = Field(default=None, description="Values.")
    heads: tuple[HeadName, ...] = Field(default=("hgp",), description="Heads.")
    not_an_option: int = Field(default=1, description="Only with --set.")


def test_an_option_takes_name_type_and_placeholder_from_its_field():
    parameters = setting_options(Example)
    assert list(parameters) == list(Example.options)
    taken = {}
    for name, parameter in parameters.items():
        assert (parameter.default, parameter.kind) == (None, inspect.Parameter.KEYWORD_ONLY)
        annotation, option = get_args(parameter.annotation)
        taken[name] = (annotation, option.default, option.metavar, option.help)  # typer takes it for the name
    assert taken == {
        "size": (str | None, "--size", "HxW", "Size."),
        "lane_values": (str | None, "--lane-values", "3,4", "Values."),
        "heads": (list[str] | None, "--head", "NAME", "Heads."),
        "stain": (str | None, "--stain", "none|macenko", "Stain."),
        "folds": (int | None, "--folds", None, "Folds."),
        "train_list": (Path | None, "--train-list", None, "List."),
    }


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("size", "306x20", (306, 20)),
        ("size", "3X4", (3, 4)),
        ("size", None, None),
        ("lane_values", "3, 4", (3, 4)),
        ("lane_values", "11", (11,)),
        ("heads", ["linear", "dfgp-mkl"], ("linear", "dfgp_mkl")),
        ("stain", "none", "none"),
        ("folds", 3, 3),
        ("train_list", Path("a.txt"), Path("a.txt")),
    ],
)
def test_what_the_user_wrote_becomes_the_value_of_the_setting(name, given, value):
    assert read_options(Example, {name: given}) == {name: value}


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("size", "96", "--size 96: expected HEIGHTxWIDTH in pixels, for example 306x306."),
        ("size", "best", "--size best: expected HEIGHTxWIDTH in pixels, for example 306x306."),
        ("size", "-1x3", "--size -1x3: expected HEIGHTxWIDTH in pixels, for example 306x306."),
        (
            "size",
            "9" * 5000 + "x3",
            f"--size {'9' * 80}: expected HEIGHTxWIDTH in pixels, for example 306x306.",
        ),
        (
            "lane_values",
            "9" * 5000,
            f"--lane-values {'9' * 80}: expected whole numbers separated by commas, for example 3,4.",
        ),
        (
            "lane_values",
            "3;4",
            "--lane-values 3;4: expected whole numbers separated by commas, for example 3,4.",
        ),
    ],
)
def test_a_text_of_another_form_is_refused(name, given, message):
    with pytest.raises(InputError) as caught:
        read_options(Example, {name: given})
    assert str(caught.value) == message


def test_settings_without_options_give_none():
    class Plain(BaseModel):
        seed: Annotated[int, Field(description="Seed.")] = 0

    assert setting_options(Plain) == {}
    assert read_options(Plain, {}) == {}


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda application: application.name)
def test_no_option_stands_for_two_things(application):
    for command in application.commands().values():
        own = set(inspect.signature(command.function).parameters)
        assert not own & set(setting_options(command.settings))


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda application: application.name)
def test_settings_of_the_split_are_options(application):
    for command in application.commands().values():
        if issubclass(command.settings, SplitSettings):
            assert SPLIT_OPTIONS.keys() <= setting_options(command.settings).keys()


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda application: application.name)
def test_help_says_the_default_of_the_application(application):
    for command in application.commands().values():
        if "test_fraction" in getattr(command.settings, "options", {}):
            _, option = get_args(setting_options(command.settings)["test_fraction"].annotation)
            default = command.settings.model_fields["test_fraction"].default
            assert option.help.endswith(f"without folds and lists; else {default}.")


def test_help_shows_square_brackets():
    _, option = get_args(setting_options(MeasurePrepareSettings)["unit"].annotation)
    assert render(option.help).plain.endswith("value [mm].")
