"""Fill the generated parts of these pages: tables of settings, of scores and of the rooms of a package.

    python docs/generate.py

A part lies between `<!-- generated: KIND ARGUMENTS -->` and `<!-- end generated -->`; `tests/test_docs.py`
fails where one is out of date.
"""

# ruff: noqa: INP001 - a script, not a package

import ast
import re
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from pipelines.cells.scores import CELL_SCORES
from pipelines.cli import APPLICATIONS, own_commands
from pipelines.command.config import describe_settings
from pipelines.scores.classification import CLASSIFICATION_SCORES
from pipelines.scores.numbers import NUMBER_SCORES
from pipelines.scores.segmentation import SEGMENTATION_SCORES

DOCS = Path(__file__).parent
_PART = re.compile(
    r"(?P<start><!-- generated: (?P<kind>\w+) (?P<arguments>[^>]*?) -->\n).*?(?P<end><!-- end generated -->)",
    re.DOTALL,
)


def settings_class(application: str, step: str) -> type[BaseModel]:
    """Return the class of a step's settings; of the application gpimaging, those of a command of its own."""
    if application == "gpimaging":
        return own_commands()[step].settings
    found = next(each for each in APPLICATIONS if each.name == application)
    return found.commands()[step].settings


def settings_table(application: str, step: str) -> str:
    """Return every setting of a step as a Markdown table."""
    rows = describe_settings(settings_class(application, step))
    lines = ["| Key | Type | Default | Purpose |", "|---|---|---|---|"]
    for row in rows:
        cells = (f"`{row.key}`", row.type, f"`{row.default}`", row.description)
        lines.append("| " + " | ".join(_in_cell(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def scores_table(application: str) -> str:
    """Return every score of an application's evaluation, grouped, as Markdown tables."""
    own = {"lane": SEGMENTATION_SCORES, "cells": CELL_SCORES, "measure": NUMBER_SCORES}
    definitions = own.get(application, CLASSIFICATION_SCORES)
    lines: list[str] = []
    for group in dict.fromkeys(score.group for score in definitions):
        lines += ["", f"**{group}**", "", "| Key | Name | Better | Meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{score.key}` | {score.title} | {score.better} | {_in_cell(score.explanation)} |"
            for score in definitions
            if score.group == group
        ]
    return "\n".join(lines[1:]) + "\n"


def rooms_table(package: str) -> str:
    """Return the rooms of a package and its modules outside a room, with their purposes, as a table."""
    folder = DOCS.parent / package
    files = {path.stem: path for path in folder.glob("*.py") if not path.stem.startswith("__")}
    files |= {path.parent.name: path for path in folder.glob("*/__init__.py")}
    lines = ["| Room | What it holds |", "|---|---|"]
    for name, path in sorted(files.items()):
        purpose = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
        lines.append(f"| `{package}.{name}` | {_in_cell(' '.join(purpose.split()))} |")
    return "\n".join(lines) + "\n"


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")


_KINDS: dict[str, Callable[..., str]] = {
    "settings": settings_table,
    "scores": scores_table,
    "rooms": rooms_table,
}


def filled(page: str) -> str:
    """Return a page whose generated parts are up to date."""

    def part(match: re.Match[str]) -> str:
        content = _KINDS[match["kind"]](*match["arguments"].split())
        return f"{match['start']}{content}{match['end']}"

    return _PART.sub(part, page)


def main() -> None:
    """Rewrite every page."""
    for path in sorted(DOCS.rglob("*.md")):
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
