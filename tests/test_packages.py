"""The three packages as a whole: what imports what, and how quickly the command line can answer."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

ROOMS = {
    "gpmodels": (
        *({"statistics"}, {"units"}, {"likelihoods"}, {"heads"}),
        {
            *("hgp", "dfgp", "ridge", "laplace", "dropout", "sngp", "gplvm"),
            *("deep_gp", "random_features", "autogp", "svdkl"),
        },
        *(
            {"transfer"},  # builds on the units of dfgp
            {"registry"},
            {"familiarity"},
            {"hybrid"},
            {"networks"},
            {"estimators"},
        ),
    ),
    "data_prep": (
        *({"errors"}, {"files"}, {"prepared"}, {"splits"}, {"labelled"}),
        {"lane", "classify", "measure", "sonar", "video", "histopathology", "cells", "explore"},
    ),
    "pipelines": (
        *(
            {"errors"},
            {"command"},
            {"scores"},
            {"training"},
            {"bundles"},
            {"runs"},
            {"evaluation"},
            {"labelled"},
            {"trunks"},
        ),
        {
            *("lane", "classify", "measure", "sonar", "video", "histopathology", "cells", "survival"),
            *("explore", "watch", "label"),
        },
        {"cli"},
    ),
}
"""Rooms of each package: one imports those before it, and never one beside it."""

INNER_ROOMS = {"gpmodels.estimators": ({"fitting"}, {"sparse"}, {"autogp", "deep", "latent", "transfer"})}
"""Rooms within a room, which import each other by the same rule; none of its files is outside them."""

FORBIDDEN = {
    "gpmodels": {"data_prep", "pipelines", "gpimaging"},
    "data_prep": {"gpmodels", "pipelines", "gpimaging"},
    "pipelines": {"gpimaging"},
}


def modules(package: str) -> dict[str, Path]:
    """Source of each module of a package by its dotted name."""
    sources = sorted((ROOT / package).rglob("*.py"))
    assert sources
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sources}


def imported(source: Path) -> set[str]:
    """Dotted names of the modules that a file imports anywhere, also inside functions and for types alone."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                is_module = (ROOT / f"{inner.replace('.', '/')}.py").exists()
                names.add(inner if is_module else node.module)
    return names


@pytest.mark.parametrize("package", ROOMS)
def test_imports_point_one_way(package):
    for name, source in modules(package).items():
        wrong = {module.partition(".")[0] for module in imported(source)} & FORBIDDEN[package]
        assert not wrong, f"{name} imports {sorted(wrong)}"


@pytest.mark.parametrize("package", ROOMS)
def test_a_room_imports_those_below_it_alone(package):
    """Hence no application imports another, and no family of heads imports another."""
    height = {room: number for number, rooms in enumerate(ROOMS[package]) for room in rooms}
    for name, source in modules(package).items():
        parts = name.split(".")
        if parts[1] in {"__init__", "__main__"}:
            continue
        assert parts[1] in height, f"{name}: the room {parts[1]} has no place in the order of rooms"
        for module in imported(source):
            other = module.split(".")
            assert module != package, f"{name} imports {package}, whose names its rooms define"
            if other[0] != package or other[1] == parts[1]:
                continue
            assert height[other[1]] < height[parts[1]], f"{name} imports {module}"


@pytest.mark.parametrize("room", INNER_ROOMS)
def test_an_inner_room_imports_those_below_it_alone(room):
    height = {inner: number for number, rooms in enumerate(INNER_ROOMS[room]) for inner in rooms}
    for path in sorted((ROOT / room.replace(".", "/")).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        inner = name.removeprefix(f"{room}.").partition(".")[0]
        if inner == "__init__":
            continue
        assert inner in height, f"{name}: {inner} has no place in the order of rooms of {room}"
        for module in imported(path):
            other = module.removeprefix(f"{room}.").partition(".")[0]
            if module.startswith(f"{room}.") and other != inner:
                assert height[other] < height[inner], f"{name} imports {module}"


@pytest.mark.parametrize("package", ROOMS)
def test_the_document_on_architecture_names_the_rooms_in_this_order(package):
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| `{package}` \| (`.*) \|$", page, re.MULTILINE)[1]
    named = re.findall(r"`(\w+)`", row)
    height = {
        room: number
        for number, rooms in enumerate(ROOMS[package])
        if len(rooms) == 1 or "applications" not in row  # which are not named there one by one
        for room in rooms
    }
    assert set(named) == set(height)
    assert [height[room] for room in named] == sorted(height.values())


@pytest.mark.parametrize("package", ROOMS)
def test_no_modules_import_each_other_in_a_circle(package):
    graph = {name: imported(source) for name, source in modules(package).items()}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name not in done:
            for other in sorted(graph.get(name, ())):
                visit(other, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_run_no_code_when_they_are_imported(package):
    rooms = defaultdict(list)
    for path in sorted((ROOT / package).rglob("*.py")):
        rooms[path.parent].append(path.name)
    for folder, names in rooms.items():
        assert "__init__.py" in names, f"{folder.relative_to(ROOT)} is no package"
        if folder != ROOT / package:
            body = ast.parse((folder / "__init__.py").read_text(encoding="utf-8")).body
            code = [
                node
                for node in body
                if not (isinstance(node, ast.Expr) and ast.get_docstring(ast.Module(body, [])))
            ]
            assert not code, f"{folder.relative_to(ROOT)}/__init__.py holds more than a docstring"


COMMANDS = [f"pipelines.{path.parent.name}.commands" for path in ROOT.glob("pipelines/*/commands.py")]


@pytest.mark.parametrize(
    "modules", ["data_prep", "pipelines", "pipelines, gpmodels.registry", ", ".join(COMMANDS)]
)
def test_importing_it_leaves_tensorflow_alone(modules):
    program = f"import sys, {modules}; sys.exit('tensorflow' in sys.modules or 'gpflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


ALIKE = {
    *("TrainSettings", "EvaluateSettings", "PredictSettings"),
    *("prepare", "predict", "explore", "fetch", "prepare_source", "survey_file", "make_predictor"),
}
"""Names that each application, or a command and what it calls, have alike."""


def test_a_name_is_defined_once():
    defined: dict[str, list[str]] = defaultdict(list)
    for package in ROOMS:
        for module, source in modules(package).items():
            for node in ast.parse(source.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                    defined[node.name].append(module)
    twice = {name: found for name, found in defined.items() if len(found) > 1}
    assert {name: found for name, found in twice.items() if name not in ALIKE} == {}
    assert twice.keys() == ALIKE
