"""The command `gpimaging fetch`, and what other commands say of an address."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from data_prep.errors import InputError
from data_prep.files import fetching
from pipelines.cli import make_app
from pipelines.command.folders import check_paths

pytest.importorskip("fsspec", reason="fsspec is optional")


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    for name in ("a.tif", "b.tif", "notes.txt"):
        (folder / name).write_bytes(name.encode() * 1000)
    return folder


def run(*arguments: object, expected: int = 0):
    result = CliRunner().invoke(make_app(), [str(argument) for argument in arguments])
    assert result.exit_code == expected, (result.output, result.exception)
    return result


def rows(text: str) -> dict[str, str]:
    return dict(re.findall(r"│ (\S.*?\S) +│ (\S.*?\S) +│", text))


def test_files_are_fetched_once(source, tmp_path):
    out = tmp_path / "the files"
    command = ("fetch", f"file://{source}", "--out", out, "--pattern", "*.tif", "--pattern", "*.png")
    first = run(*command, "--jobs", 2).stdout
    assert rows(first) == {
        "Fetched": "2 files, 10,000 bytes",
        "There already": "0 files",
        "Failed": "0 files",
    }
    assert f"gpimaging explore --data '{out}' --out look" in first
    assert sorted(path.name for path in out.iterdir()) == ["a.tif", "b.tif"]
    assert (out / "a.tif").read_bytes() == (source / "a.tif").read_bytes()
    assert rows(run(*command).stdout)["There already"] == "2 files"


def test_it_imports_no_tensorflow(source, tmp_path):
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom pipelines.cli import make_app\n"
        "assert CliRunner().invoke(make_app(), sys.argv[1:]).exit_code == 0\n"
        "assert {'tensorflow', 'keras', 'numpy', 'cv2'}.isdisjoint(sys.modules)"
    )
    arguments = ("fetch", f"file://{source}", "--out", str(tmp_path / "out"))
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, cwd=Path(__file__).parents[2])


def test_files_that_fail_are_named_and_end_it_with_1(source, tmp_path):
    for number in range(12):
        (source / f"{number:02}.lnk").symlink_to(tmp_path)
    result = run("fetch", f"file://{source}", "--out", tmp_path / "out", expected=1)
    assert rows(result.stdout)["Fetched"] == "3 files, 19,000 bytes"
    assert rows(result.stdout)["Failed"] == "12 files"
    first, *others, last = result.stderr.splitlines()
    assert first.startswith(
        f"Error: file://{source}: '00.lnk' is no file, but a link to a folder, or a device."
    )
    assert len(others) == 9
    assert last == "Error: ... and 2 more."
    assert (tmp_path / "out" / "a.tif").is_file()


def test_a_wrong_address_ends_it_with_2(source, tmp_path):
    assert "is no address" in run("fetch", source, "--out", tmp_path / "out", expected=2).stderr
    assert (
        "cannot be listed"
        in run("fetch", f"file://{source}/no", "--out", tmp_path / "out", expected=2).stderr
    )
    run("fetch", f"file://{source}", expected=2)
    assert sorted(tmp_path.iterdir()) == [source]


def test_ctrl_c_says_how_to_go_on(monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(fetching, "fetch", interrupted)
    result = run("fetch", "memory://x", "--out", tmp_path, expected=130)
    assert result.stderr == (
        "Error: Interrupted. Complete files are kept. Run the same command again to go on.\n"
    )


@pytest.mark.parametrize(
    ("step", "values", "option"),
    [
        ("prepare", {"images": Path("s3://bucket/my slides")}, "--images s3:/bucket/my slides"),
        ("predict", {"inputs": [Path("s3://bucket/my slides")]}, "--input s3:/bucket/my slides"),
        ("explore", {"data": Path("s3://bucket/my slides")}, "--data s3:/bucket/my slides"),
    ],
)
def test_other_commands_name_it_for_an_address(step, values, option):
    with pytest.raises(InputError) as refused:
        check_paths(step, values)
    message = str(refused.value)
    assert message.startswith(f"{option}: does not exist")
    assert message.endswith(
        "Copy it first: gpimaging fetch 's3://bucket/my slides' --out FOLDER. Then give that folder."
    )


def test_a_path_is_no_address(tmp_path):
    for path in (Path("no/such"), Path("c:/no"), Path("file:/no"), tmp_path / "x:" / "y"):
        with pytest.raises(InputError, match=r"does not exist. Check the path\."):
            check_paths("prepare", {"images": path})


def test_no_command_writes_to_an_address():
    with pytest.raises(InputError, match="--out s3:/bucket/run: is an address; expected a folder of this"):
        check_paths("train", {"out": Path("s3://bucket/run")})
