from pathlib import Path
from typing import Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from data_prep.errors import InputError
from data_prep.sonar.settings import SonarPrepareSettings
from pipelines.command.config import SettingDescription, describe_settings, dump_settings, load_settings


class Blur(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    width: float = Field(default=1.0, ge=0, description="Width in pixels.")
    share: float = Field(default=0.5, ge=0, le=1, description="Share of images.")

    @model_validator(mode="after")
    def _together(self):
        if self.width > 5 and self.share > 0.8:
            raise ValueError("so wide a blur is for few images")
        return self


class Example(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    learning_rate: float = Field(default=1e-3, gt=0, description="Adam's learning rate.")
    epochs: int = Field(default=10, ge=1, description="Passes over\nthe data.")
    heads: tuple[Literal["linear", "hgp"], ...] = Field(default=("hgp",), min_length=1, description="Heads.")
    size: tuple[int, int] = Field(default=(96, 128), description="Height and width.")
    points: int | None = Field(default=None, ge=1, description="Points.")
    name: str = Field(default="run", description="Name.")
    shuffle: bool = Field(default=True, description="Whether to shuffle.")
    folder: Path | None = Field(default=None, description="A folder.")
    blur: Blur | None = Field(default=Blur(width=2.0), description="Blur of the images.")
    seed: int = Field(default=0, description="Seed.")

    @model_validator(mode="after")
    def _together(self):
        if self.points is not None and self.epochs > 100:
            raise ValueError("points with more than 100 epochs make no sense")
        return self


def refused(**arguments) -> str:
    with pytest.raises(InputError) as caught:
        load_settings(Example, **arguments)
    return str(caught.value)


@pytest.fixture
def config(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "réglages.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_without_anything_the_defaults_hold():
    assert load_settings(Example) == Example()


def test_later_sources_win(config):
    path = config("epochs: 1\nseed: 1\nname: file\nlearning_rate: 0.1")
    settings = load_settings(
        Example,
        config=path,
        overrides=["seed=2", "name=override", "name=last"],
        options={"seed": 3, "epochs": None},
    )
    assert settings == Example(epochs=1, seed=3, name="last", learning_rate=0.1)


def test_settings_can_begin_with_those_of_a_run(config):
    base = Example(epochs=7, name="run", blur=None, folder=Path("a"))
    assert load_settings(Example, base=base) == base
    changed = load_settings(Example, base=base, config=config("epochs: 8"), overrides=["blur.share=0.25"])
    assert changed == Example(epochs=8, name="run", blur=Blur(share=0.25), folder=Path("a"))


def test_nested_settings_keep_the_other_fields_of_the_default(config):
    expected = Example(blur=Blur(width=2.0, share=0.25))
    assert load_settings(Example, config=config("blur:\n  share: 0.25")) == expected
    assert load_settings(Example, overrides=["blur.share=0.25"]) == expected
    assert load_settings(Example, overrides=["blur={share: 0.25}"]) == expected


def test_nested_settings_can_be_switched_off_and_on_again(config):
    path = config("blur: null")
    assert load_settings(Example, config=path).blur is None
    assert load_settings(Example, config=path, overrides=["blur.share=0.25"]).blur == Blur(share=0.25)


def test_lists_paths_and_options_of_the_command_line_are_taken():
    settings = load_settings(
        Example,
        overrides=["heads=[linear, hgp]", "folder=some/folder", "points=null", "shuffle=false"],
        options={"size": (3, 4)},
    )
    assert settings == Example(
        heads=("linear", "hgp"), folder=Path("some/folder"), shuffle=False, size=(3, 4)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("learning_rate: 1e-3", {"learning_rate": 1e-3}),  # a text in YAML 1.1
        ("learning_rate: 2", {"learning_rate": 2.0}),
        ("name: no", {"name": "no"}),  # false in YAML 1.1
        ("name: 12:30", {"name": "12:30"}),  # 750 in YAML 1.1
        ("name: 010", {"name": "010"}),  # 8 in YAML 1.1
        ("name: 2024-01-01", {"name": "2024-01-01"}),  # a date in YAML 1.1
        ("name: =", {"name": "="}),
        ("name: '3'", {"name": "3"}),
        ("name: größe", {"name": "größe"}),
        ("epochs: +5 # a comment", {"epochs": 5}),
        ("points: ~", {"points": None}),
        ("", {}),
        ("# nothing yet", {}),
        ("\ufeffepochs: 3", {"epochs": 3}),
    ],
)
def test_yaml_means_what_it_looks_like(config, text, expected):
    assert load_settings(Example, config=config(text)) == Example(**expected)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("epochs=three", "--set: epochs is three; expected whole number ≥ 1"),
        ("epochs='3'", "--set: epochs is 3; expected whole number ≥ 1"),
        ("epochs=true", "--set: epochs is true; expected whole number ≥ 1"),
        ("epochs=2.5", "--set: epochs is 2.5; expected whole number ≥ 1"),
        ("epochs=0", "--set: epochs is 0; expected whole number ≥ 1"),
        ("epochs=null", "--set: epochs is null; expected whole number ≥ 1"),
        ("points=0", "--set: points is 0; expected whole number ≥ 1 or null"),
        ("learning_rate=fast", "--set: learning_rate is fast; expected number > 0"),
        ("learning_rate=.inf", "--set: learning_rate is .inf; expected number > 0"),
        ("learning_rate=1e999", "--set: learning_rate is Infinity; expected finite numbers"),
        ("shuffle=yes", "--set: shuffle is yes; expected true or false"),
        ("name=3", "--set: name is 3; expected text"),
        ("heads=hgp", "--set: heads is hgp; expected list of linear | hgp (at least 1)"),
        (
            "heads=[hgp, softmax]",
            """["hgp", "softmax"]; expected list of linear | hgp (at least 1) ('softmax' is none of these)""",
        ),
        ("heads=[hgp, linaer]", "('linaer' is none of these; the nearest is 'linear')"),
        ("heads=[]", "--set: heads is []; expected list of linear | hgp (at least 1)"),
        ("size=[1]", "--set: size is [1]; expected list [whole number, whole number]"),
        ("blur=no", "--set: blur is no; expected mapping or null"),
        ("blur.share=2", "--set: blur.share is 2; expected number ≥ 0 and ≤ 1"),
        ("seed=", "--set seed=: expected key=value"),
        ("=3", "--set =3: expected key=value"),
        ("seed", "--set seed: expected key=value"),
        ("size=[1, 2", "--set size=[1, 2: expected ',' or ']'"),
        ("seed=!!int abc", "--set seed=!!int abc: the tag 'tag:yaml.org,2002:int' is not supported"),
        ("seed=!!float x", "--set seed=!!float x: the tag 'tag:yaml.org,2002:float' is not supported"),
        ("seed=" + "9" * 5000, "...: has a number with too many digits"),
    ],
)
def test_a_value_that_does_not_fit_is_shown_with_what_is_expected(override, message):
    assert message in refused(overrides=[override])


def test_every_wrong_key_gets_one_line():
    message = refused(overrides=["epochs=three", "heads=[softmax]", "size=[1, 2]", "blur.share=x"])
    assert [line.split(" is ")[0] for line in message.splitlines()] == [
        "--set: epochs",
        "--set: heads",
        "--set: blur.share",
    ]


def test_a_long_value_is_cut():
    assert len(refused(overrides=[f"epochs={'x' * 10_000}"])) < 300


def test_the_message_names_the_source(config):
    path = config("epochs: none")
    assert refused(config=path).startswith(f"{path}: epochs is none")
    assert refused(options={"epochs": 0}).startswith("--epochs: epochs is 0")


def test_rules_about_several_settings_are_explained(config):
    path = config("points: 5")
    message = refused(config=path, overrides=["epochs=200"])
    assert message == f"--set, {path}: points with more than 100 epochs make no sense."
    assert refused(overrides=["blur.width=9", "blur.share=0.9"]) == (
        "--set: blur: so wide a blur is for few images."
    )


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("learning_rte", "learning_rate"),
        ("learning-rate", "learning_rate"),
        ("Epochs", "epochs"),
        ("share", "blur.share"),
        ("blur.shar", "blur.share"),
        ("blur.width.more", "blur.width"),
        ("zzz", ""),
    ],
)
def test_an_unknown_key_names_the_nearest_and_lists_the_known_ones(key, nearest):
    message = refused(overrides=[f"{key}=1"])
    assert (
        f"--set: {key!r} is no setting of Example. Did you mean {nearest!r}"[: -1 if nearest else -2]
        in message
    )
    assert "Known settings: " in message
    assert "blur.share" in message


def test_an_unknown_key_of_a_file_names_the_file(config):
    path = config("blur: {shar: 1}")
    assert refused(config=path).startswith(
        f"{path}: 'blur.shar' is no setting of Example. Did you mean 'blur.share'?"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("epochs: 1\nseed: 2\nepochs: 3", "the key 'epochs' appears twice: remove one (line 3, column 1)"),
        ("blur:\n  share: 0\n  share: 1", "the key 'share' appears twice: remove one (line 3, column 3)"),
        ("1: 2", "'1' is no setting of Example"),
        ("1.5: 2", "found the key 1.5, expected a name (line 1, column 1)"),
        ("size: &a [1, 2]\nblur: *a", "aliases are not supported"),
        ("epochs: [1", "expected ',' or ']'"),
        (
            "epochs: !!python/object/apply:os.getcwd []",
            "the tag 'tag:yaml.org,2002:python/object/apply:os.getcwd' is not supported",
        ),
        ("seed: !!int abc", "the tag 'tag:yaml.org,2002:int' is not supported"),
        ("seed: " + "9" * 5000, "has a number with too many digits"),
        ("epochs: 1\n---\nepochs: 2", "is no YAML file of settings"),
        ("epochs:\t1\n\tseed: 1", "is no YAML file of settings"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("- epochs", 'holds ["epochs"]; expected lines of the form'),
        ("epochs", "holds epochs; expected lines of the form"),
        ("epochs: 3 #" + "x" * 1_000_000, "expected a file of settings, which is small"),
    ],
)
def test_files_that_cannot_be_used_are_refused_by_name(config, text, reason):
    path = config(text)
    message = refused(config=path)
    assert message.startswith(f"{path}: ")
    assert reason in message


def test_files_that_cannot_be_read_are_refused_by_name(tmp_path):
    missing = tmp_path / "a.yaml"
    assert refused(config=missing) == (
        f"{missing}: cannot be read (No such file or directory). Check the path given to --config."
    )
    assert "cannot be read (Is a directory)" in refused(config=tmp_path)
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x80")
    assert refused(config=binary).startswith(f"{binary}: is no YAML file of settings")


@pytest.mark.slow
@given(
    st.builds(
        Example,
        learning_rate=st.floats(1e-300, 1e300),
        epochs=st.integers(1, 100),
        heads=st.sampled_from([("hgp",), ("linear", "hgp")]),
        points=st.none() | st.integers(1, 10),
        name=st.text()
        | st.sampled_from(["no", "1e3", "010", "12:30", "null", "~", "", "2024-01-01", "=", "<<", "a\x85b"]),
        folder=st.none() | st.sampled_from([Path("a b/ü"), Path("1e3")]),
        blur=st.none() | st.builds(Blur, width=st.floats(0, 5)),
    )
)
def test_dumped_settings_are_read_back_equal(tmp_path_factory, settings):
    path = tmp_path_factory.mktemp("settings") / "config.yaml"
    dump_settings(settings, path)
    assert load_settings(Example, config=path) == settings
    # Other programs read it with the usual loader.
    usual = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert Example.model_validate(usual) == settings
    assert [file.name for file in path.parent.iterdir()] == ["config.yaml"]


def test_descriptions_name_type_default_and_purpose():
    rows = {row.key: row for row in describe_settings(Example)}
    assert list(rows)[-4:] == ["blur", "blur.width", "blur.share", "seed"]
    assert rows["epochs"] == SettingDescription("epochs", "whole number ≥ 1", "10", "Passes over the data.")
    assert rows["heads"].type == "list of linear | hgp (at least 1)"
    assert rows["heads"].default == '["hgp"]'
    assert rows["points"].type == "whole number ≥ 1 or null"
    assert rows["folder"].type == "path or null"
    assert rows["size"].type == "list [whole number, whole number]"
    assert rows["shuffle"].default == "true"
    assert (rows["blur"].type, rows["blur"].default) == ("mapping or null", "see below")
    assert rows["blur.width"].default == "2.0"


def test_whole_numbers_are_keys_of_a_mapping(config):
    expected = {1: "mine", 2: "rock"}
    settings = load_settings(SonarPrepareSettings, overrides=["mask_names={1: mine, 2: rock}"])
    assert settings.mask_names == expected
    settings = load_settings(SonarPrepareSettings, config=config("mask_names:\n  1: mine\n  2: rock\n"))
    assert settings.mask_names == expected
    with pytest.raises(InputError, match="'1' is no setting of SonarPrepareSettings"):
        load_settings(SonarPrepareSettings, config=config("1: mine\n"))


class Renamed(BaseModel):
    """A setting that had another name before."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    svms: tuple[str, ...] = Field(default=("a",), validation_alias=AliasChoices("svms", "machines"))


def test_the_former_name_of_a_setting_is_read_with_a_note(config, caplog):
    former = config("machines: [b, c]")
    assert load_settings(Renamed, config=former).svms == ("b", "c")
    assert "the setting machines is called svms now" in caplog.text
    assert load_settings(Renamed, config=former, overrides=["svms=[d]"]).svms == ("d",)
    assert [row.key for row in describe_settings(Renamed)] == ["svms"]
    assert Renamed(machines=("e",)).model_dump() == {"svms": ("e",)}
    with pytest.raises(InputError, match=r"--set: svms is 3; expected list of text"):
        load_settings(Renamed, overrides=["svms=3"])
