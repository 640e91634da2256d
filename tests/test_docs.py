"""Commands, options, links, tables and programs in the documentation are true of the code."""

import ast
import importlib
import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest
import typer
from typer.main import get_command

from pipelines.cli import APPLICATIONS, make_app, own_commands
from pipelines.command.config import load_settings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
GENERATED = [page for page in PAGES if "<!-- generated: " in page.read_text(encoding="utf-8")]
# What the command line raises for a wrong command; typer's own copy of click has no public name for it.
UsageError = typer.BadParameter.__base__
REGENERATE = "run `python docs/generate.py` and commit the result"


def fenced(page: Path, language: str) -> list[str]:
    """Contents of the page's code blocks of a language."""
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def commands() -> list:
    """Every command in a bash block that calls gpimaging, continued lines joined."""
    found = []
    for page in PAGES:
        for block in fenced(page, "bash"):
            lines = block.replace("\\\n", " ").splitlines()
            found += [(page, line) for line in lines if line.startswith("gpimaging ")]
    return [pytest.param(line, id=f"{name_of(page)}: {' '.join(line.split())[:70]}") for page, line in found]


def imported(script: Path) -> ModuleType:
    """The script as a module, of which nothing is run."""
    spec = importlib.util.spec_from_file_location(f"docs_{script.stem}", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return imported(DOCS / "generate.py")


SCRIPTS = [path for path in sorted(DOCS.glob("*.py")) if "__main__" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_every_script_finds_the_names_that_it_imports(script):
    imported(script)


def parse(line: str) -> typer.Context:
    """What the command line makes of a command, without running it."""
    _, *arguments = shlex.split(line, comments=True)
    command = get_command(make_app())
    context = typer.Context(command, info_name="gpimaging")
    while hasattr(command, "resolve_command"):
        name, command, arguments = command.resolve_command(context, arguments)
        context = typer.Context(command, parent=context, info_name=name)
    if "--help-settings" in arguments:  # shows them and leaves
        assert arguments == ["--help-settings"]
        return context
    return command.make_context(context.info_name, arguments, parent=context.parent)


@pytest.mark.parametrize("line", commands())
def test_command_parses_and_its_settings_exist(line, generate):
    context = parse(line)
    if overrides := context.params.get("overrides"):
        cls = generate.settings_class(context.parent.info_name, context.info_name)
        load_settings(cls, overrides=overrides)


def test_commands_are_found_and_wrong_ones_fail():
    assert len(commands()) > 15
    with pytest.raises(UsageError, match="No such option"):
        parse("gpimaging lane predict --model bundle --input photos --out predictions --treshold 0.5")
    with pytest.raises(UsageError, match="Missing parameter: out"):
        parse("gpimaging lane train --data prepared")
    with pytest.raises(UsageError, match="No such command"):
        parse("gpimaging lane explain")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_linked_files_and_headings_exist(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.is_relative_to(ROOT), f"{target} leads out of the project"
        assert linked.is_file(), f"{target} does not exist"
        assert not heading or heading in headings(linked), f"{target}: no such heading"


def headings(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", GENERATED, ids=name_of)
def test_generated_parts_are_up_to_date(page, generate):
    text = page.read_text(encoding="utf-8")
    assert text == generate.filled(text), REGENERATE


def test_every_step_and_every_public_name_is_documented():
    assert {page.relative_to(DOCS).as_posix() for page in GENERATED} == {
        "api.md",
        "cells.md",
        "configuration.md",
        *(f"configuration/{application.name}.md" for application in APPLICATIONS),
        "lane.md",
        "measure.md",
        "sonar.md",
        "video.md",
    }
    for application in APPLICATIONS:
        page = (DOCS / "configuration" / f"{application.name}.md").read_text(encoding="utf-8")
        for step in application.commands():
            assert f"<!-- generated: settings {application.name} {step} -->" in page
    configuration = (DOCS / "configuration.md").read_text(encoding="utf-8")
    for command in own_commands():
        assert f"<!-- generated: settings gpimaging {command} -->" in configuration
    # Read, not imported: gpmodels takes TensorFlow along.
    tree = ast.parse((ROOT / "gpmodels" / "__init__.pyi").read_text(encoding="utf-8"))
    (public,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    api = (DOCS / "api.md").read_text(encoding="utf-8")
    assert public
    assert [name for name in public if not re.search(rf"`from gpmodels import .*\b{name}\b", api)] == []


def test_an_outdated_table_is_noticed(generate):
    page = "<!-- generated: settings lane predict -->\n| `threshold` | old |\n<!-- end generated -->\n"
    assert "| `refer_above` |" in generate.filled(page)
    rooms = generate.filled("<!-- generated: rooms gpmodels -->\n<!-- end generated -->")
    assert "| `gpmodels.registry` | The one list of head families" in rooms
    assert "| `gpmodels.heads` | What a head is" in rooms


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_yaml_files_shown_are_settings(page, generate, tmp_path):
    for block in fenced(page, "yaml"):
        application, step = re.match(r"# gpimaging (\w+) (\w+)\n", block).groups()
        path = tmp_path / "settings.yaml"
        path.write_text(block, encoding="utf-8")
        load_settings(generate.settings_class(application, step), config=path)


def programs() -> list:
    pages = (DOCS / "heads.md", DOCS / "estimators.md")
    return [
        pytest.param(block, id=f"{page.stem}, program {i}")
        for page in pages
        for i, block in enumerate(fenced(page, "python"), start=1)
    ]


def shortened(program: str) -> str:
    """The program with the least training: what it calls and prints stays, its numbers do not."""
    least = {"epochs": 1, "head_steps": 2, "max_iterations": 10}
    return re.sub(rf"\b({'|'.join(least)})=\d+", lambda found: f"{found[1]}={least[found[1]]}", program)


@pytest.mark.slow
@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("program", programs())
def test_program_runs(program, is_whole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = compile(program if is_whole else shortened(program), "program", "exec")
    exec(code, {"__name__": "__main__"})  # noqa: S102 - our own documentation
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_page_names_no_place_on_one_machine(page):
    found = re.findall(r"(?<![\w.])/(?:home|root|tmp|work|mnt|Users)/\S*", page.read_text(encoding="utf-8"))
    assert found == []
