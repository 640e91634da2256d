"""Run the fast tests that a change can break: `make test-changed`, or `python tests/changed.py [revision]`.

The change is what differs from the last commit that is in the revision too (`main` unless one is given),
whether it is committed or not. What it can break is found by imports, those inside functions and modules
named in strings included: the test files that need a changed file run, the nearest first, for three minutes
at most.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 180
FOLDERS = ("gpmodels", "data_prep", "pipelines", "benchmarks", "examples", "tests")
PEERS = "tests/benchmarks_peers/"  # they have a command of their own
EVERYTHING = {"pyproject.toml", "gpmodels/__init__.pyi", "constraints.txt", "tests/conftest.py"}


def git(*arguments: str) -> list[str]:
    """Return the lines that git answers."""
    command = [shutil.which("git") or "git", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def changed_files(revision: str) -> set[str]:
    """Return what differs from where this branch left another."""
    (base,) = git("merge-base", revision, "HEAD")
    return {*git("diff", "--name-only", base), *git("ls-files", "--others", "--exclude-standard")}


def handed_on(stub: Path) -> dict[str, str]:
    """Return the module of each name that the roof of a package hands on, by the stub that lists them."""
    body = ast.parse(stub.read_text(encoding="utf-8")).body if stub.exists() else []
    imports = [node for node in body if isinstance(node, ast.ImportFrom)]
    return {name.name: f"{stub.parent.name}.{node.module}" for node in imports for name in node.names}


class Imports:
    """What each Python file of a checkout needs of the others."""

    def __init__(self, root: Path = ROOT) -> None:
        paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
        self.texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}
        self.files = {name.removesuffix(".py").replace("/", "."): name for name in self.texts}
        # Where the names live that the roof of a package hands on.
        self.handed_on = {folder: handed_on(root / folder / "__init__.pyi") for folder in FOLDERS}
        self.needed = {name: self._needed(name) for name in self.texts}

    def _file(self, dotted: str) -> str | None:
        """Return the file of a module, of a name in a module, or of a package."""
        while dotted:
            for name in (dotted, f"{dotted}.__init__"):
                if name in self.files:
                    return self.files[name]
            dotted = dotted.rpartition(".")[0]
        return None

    def _needed(self, name: str) -> set[str]:
        dotted = set()
        parents = Path(name).parent.parts
        for node in ast.walk(ast.parse(self.texts[name])):
            if isinstance(node, ast.Import):
                dotted |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                above = ".".join(parents[: len(parents) - node.level + 1]) if node.level else ""
                module = ".".join(filter(None, (above, node.module)))
                handed_on = self.handed_on.get(module, {})
                dotted |= {handed_on.get(alias.name, f"{module}.{alias.name}") for alias in node.names}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                # Of a string such as "pipelines.lane.application:LANE": registries, commands, `monkeypatch`.
                dotted |= set(re.findall(r"^(\w+(?:\.\w+)+)(?::\w+)?$", node.value))
        needed = {self._file(one) for one in dotted if one.partition(".")[0] in FOLDERS}
        if name.startswith("tests/"):
            conftests = (f"{folder.as_posix()}/conftest.py" for folder in Path(name).parents)
            needed |= {one for one in conftests if one not in EVERYTHING and self._uses(name, one)}
        return {one for one in needed if one is not None and one != name}

    def _uses(self, test: str, conftest: str) -> bool:
        """Return whether there is a conftest.py that has hooks, or a fixture that a test names."""
        functions = re.findall(r"^def (\w+)", self.texts.get(conftest, ""), re.MULTILINE)
        return any(name.startswith("pytest_") or name in self.texts[test] for name in functions)

    def touched(self, path: str) -> set[str]:
        """Return the Python files that a changed file is, or that lie beside it or name it."""
        if path in self.texts:
            return {path}
        folder, name = Path(path).parent.as_posix(), Path(path).name
        if path.endswith(".py"):  # which is gone: whatever still needs it named it
            module = path.removesuffix(".py").replace("/", ".")
            return {one for one, text in self.texts.items() if module in text}
        beside = {one for one in self.texts if Path(one).parent.as_posix() == folder}
        documentation = {one for one in self.texts if one.startswith(("tests/docs/", "tests/test_docs"))}
        named = {one for one, text in self.texts.items() if name in text}
        return beside | named | (documentation if path.endswith((".md", ".yml")) else set())

    def distances(self, changed: set[str]) -> dict[str, int]:
        """Return how many imports lie between each file that needs a changed one and the nearest of these."""
        users: dict[str, set[str]] = {}
        for name, needed in self.needed.items():
            for one in needed:
                users.setdefault(one, set()).add(name)
        found: dict[str, int] = {}
        nearest = {one for path in changed for one in self.touched(path)}
        while nearest:
            found |= dict.fromkeys(nearest, max(found.values(), default=-1) + 1)
            nearest = {user for one in nearest for user in users.get(one, ())} - set(found)
        return found


def files_to_run(changed: set[str], root: Path = ROOT) -> list[str]:
    """Return the test files that a change can break, those of the fewest imports between first."""
    distances = Imports(root).distances(changed)
    tests = [name for name in distances if Path(name).name.startswith("test_") and not name.startswith(PEERS)]
    return sorted(tests, key=lambda name: (distances[name], name))


def main() -> int:
    """Run them."""
    changed = changed_files(sys.argv[1] if len(sys.argv) > 1 else "main")
    if changed & EVERYTHING:
        sys.stdout.write(
            f"Every test needs {', '.join(sorted(changed & EVERYTHING))}: run `make test` too.\n"
        )
    tests = files_to_run(changed - EVERYTHING)
    if not tests:
        sys.stdout.write(f"No test needs any of the {len(changed)} changed files.\n")
        return 0
    sys.stdout.write(f"{len(tests)} test files need what changed; they run for at most {SECONDS} seconds.\n")
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", "-m", "not slow", "-n", "2", "--dist", "loadfile"]
    command += ["--no-loadscope-reorder", "-rs", *tests]  # the nearest first, and how many were left
    environment = os.environ | {"TEST_SECONDS": str(SECONDS)}
    return subprocess.run(command, cwd=ROOT, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
