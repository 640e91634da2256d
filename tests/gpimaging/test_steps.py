import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import gpimaging
from data_prep.errors import InputError
from gpimaging.steps import Steps
from pipelines.cli import APPLICATIONS


@pytest.mark.parametrize("group", APPLICATIONS, ids=lambda group: group.name)
def test_every_command_of_an_application_is_a_function(group):
    steps = getattr(gpimaging, group.name)
    assert group.name in gpimaging.__all__
    for name, command in group.commands().items():
        parameters = inspect.signature(getattr(steps, name)).parameters
        assert set(command.settings.model_fields) <= set(parameters)
        assert {"jobs", "quiet"} <= set(parameters)
        assert name in dir(steps)


def test_the_import_waits_for_no_tensorflow():
    code = "import sys, gpimaging; dir(gpimaging.lane); sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_help_has_the_text_of_the_command_and_its_defaults():
    train = gpimaging.classify.train
    assert train.__name__ == "train"
    assert train.__doc__.startswith("Train the network with each head")
    assert inspect.signature(train).parameters["resume"].default is False
    assert "OptionInfo" not in str(inspect.signature(train))
    assert inspect.signature(train).parameters["data"].default is inspect.Parameter.empty


def test_an_unknown_application_and_an_unknown_step_are_named():
    with pytest.raises(ValueError, match="no application 'tissue'; there are lane, classify"):
        Steps("tissue")
    with pytest.raises(AttributeError, match=r"no step 'fit', but <gpimaging.classify: prepare, train"):
        gpimaging.classify.fit  # noqa: B018 - the attribute is the test


def test_a_misspelt_argument_names_the_nearest_one():
    with pytest.raises(TypeError, match=r"no argument 'seeds'. Did you mean seed?"):
        gpimaging.classify.prepare(images="images", out="out", seeds=3)


def test_what_is_missing_is_named():
    with pytest.raises(TypeError, match=r"gpimaging.classify.prepare\(\) needs images="):
        gpimaging.classify.prepare(out="out")


def test_a_wrong_path_ends_with_the_sentence_of_the_command(tmp_path):
    with pytest.raises(InputError, match=r"--images .*nowhere: does not exist"):
        gpimaging.classify.prepare(images=tmp_path / "nowhere", out=tmp_path / "out")


def test_a_wrong_value_names_its_setting(tmp_path):
    (tmp_path / "images").mkdir()
    with pytest.raises(InputError, match="test_fraction"):
        gpimaging.classify.prepare(
            images=str(tmp_path / "images"), out=str(tmp_path / "out"), test_fraction=2
        )
    assert not (tmp_path / "out").exists()


def test_a_step_returns_what_it_made(tmp_path, write_classes):
    manifest = gpimaging.classify.prepare(
        images=str(write_classes(tmp_path / "images")), out=str(tmp_path / "out"), size=(16, 24), quiet=True
    )
    assert manifest.size == (16, 24)
    assert (tmp_path / "out" / "manifest.json").is_file()


def test_numbers_are_prepared_too(tmp_path, write_classes):
    images: Path = write_classes(tmp_path / "images")
    files = sorted(path.relative_to(images).as_posix() for path in images.rglob("*.png"))
    rows = [f"{file},{number}" for number, file in enumerate(files)]
    (tmp_path / "table.csv").write_text("\n".join(["image,value", *rows]), encoding="utf-8")
    manifest = gpimaging.measure.prepare(
        images=images, table=tmp_path / "table.csv", out=tmp_path / "out", size=(16, 24), quiet=True
    )
    assert sorted(one.value for one in manifest.examples) == list(range(len(files)))


def test_nothing_is_printed_quietly(tmp_path, write_classes, capsys):
    images: Path = write_classes(tmp_path / "images")
    gpimaging.classify.prepare(images=images, out=tmp_path / "out", jobs=1, quiet=True)
    assert capsys.readouterr().out == ""
    gpimaging.classify.prepare(images=images, out=tmp_path / "loud", jobs=1)
    assert "images of" in capsys.readouterr().out
