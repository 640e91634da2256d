"""Fill the generated parts of these pages: tables of settings and of scores, and the public names.

    python docs/generate.py

A part lies between `<!-- generated: KIND ARGUMENTS -->` and `<!-- end generated -->`; `tests/test_docs.py`
fails where one is out of date.
"""

# ruff: noqa: INP001 - a script, not a package

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from pipelines.cells_scores import CELL_SCORES
from pipelines.classification_scores import CLASSIFICATION_SCORES
from pipelines.cli import APPLICATIONS
from pipelines.config import describe_settings
from pipelines.segmentation_scores import SEGMENTATION_SCORES
from pipelines.steps import SettingsClass

DOCS = Path(__file__).parent
_PART = re.compile(
    r"(?P<start><!-- generated: (?P<kind>\w+) (?P<arguments>[^>]*?) -->\n).*?(?P<end><!-- end generated -->)",
    re.DOTALL,
)

_KERAS_PLUMBING = {"build", "compute_output_shape", "from_config", "get_config", "test_step", "train_step"}
"""Methods that Keras calls, not the user."""


def settings_class(application: str, step: str) -> SettingsClass:
    """Where the settings of a step are."""
    found = next(each for each in APPLICATIONS if each.name == application)
    if step == "prepare":
        return found.prepare_settings
    return SettingsClass(found.settings, f"{step.capitalize()}Settings")


def settings_table(application: str, step: str) -> str:
    """Every setting of a step as a Markdown table."""
    rows = describe_settings(settings_class(application, step).load())
    lines = ["| Key | Type | Default | Purpose |", "|---|---|---|---|"]
    for row in rows:
        cells = (f"`{row.key}`", row.type, f"`{row.default}`", row.description)
        lines.append("| " + " | ".join(_in_cell(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def scores_table(application: str) -> str:
    """Every score of an application's evaluation, grouped, as Markdown tables."""
    own = {"lane": SEGMENTATION_SCORES, "cells": CELL_SCORES}
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


def public_names(module: str, *names: str) -> str:
    """Public functions and classes of a module with signatures and purposes, as a Markdown list.

    Read from the source: nothing is imported, and annotations stand as they were written.

    Args:
        module: dotted name.
        names: those to list; without them all public ones.

    Raises:
        ValueError: the module lacks one of the names.
    """
    source = DOCS.parent.joinpath(*module.split(".")).with_suffix(".py")
    tree = ast.parse(source.read_text(encoding="utf-8"))
    listed = [node for node in tree.body if _is_public(node) and (not names or node.name in names)]
    if missing := set(names) - {node.name for node in listed}:
        raise ValueError(
            f"{source}: has no public {', '.join(sorted(missing))}; correct the marker in the page"
        )
    lines = []
    for node in listed:
        if isinstance(node, ast.FunctionDef):
            lines.append(f"- `{node.name}{_signature(node)}`: {_purpose(node)}")
        else:
            lines.append(f"- `{node.name}{_class_signature(node)}`: {_purpose(node)}")
            lines += [f"    - {line}" for line in _methods(node)]
    return "\n".join(lines) + "\n"


def _methods(node: ast.ClassDef) -> Iterator[str]:
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and _is_public(member) and member.name not in _KERAS_PLUMBING:
            is_property = any("property" in ast.unparse(decorator) for decorator in member.decorator_list)
            shown = "" if is_property else _signature(member, bound=True)
            yield f"`{member.name}{shown}`: {_purpose(member)}"


def _is_public(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")


def _signature(node: ast.FunctionDef, *, bound: bool = False) -> str:
    arguments = ast.parse(f"def f({ast.unparse(node.args)}): ...").body[0].args  # a copy to cut from
    if bound and not any(ast.unparse(each) == "staticmethod" for each in node.decorator_list):
        arguments.args = arguments.args[1:]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(arguments)}){returns}"


def _class_signature(node: ast.ClassDef) -> str:
    """Arguments of the constructor; of a settings class or a named tuple, its fields."""
    bases = [ast.unparse(base) for base in node.bases]
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__init__":
            return _signature(member, bound=True).removesuffix(" -> None")
    fields = [m for m in node.body if isinstance(m, ast.AnnAssign) and isinstance(m.target, ast.Name)]
    if "BaseModel" in bases:
        return f"({', '.join(each.target.id for each in fields)})"
    return f"({', '.join(ast.unparse(each) for each in fields)})" if fields else ""


def _purpose(node: ast.FunctionDef | ast.ClassDef) -> str:
    """The docstring's first sentence, in Markdown."""
    text = (ast.get_docstring(node) or "").split("\n\n")[0]
    sentence = re.split(r"(?<=\.)\s+(?=[A-Z`:])", " ".join(text.split()))[0]
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", sentence).replace("``", "`")


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")


_KINDS: dict[str, Callable[..., str]] = {
    "settings": settings_table,
    "scores": scores_table,
    "api": public_names,
}


def filled(page: str) -> str:
    """A page with its generated parts made anew."""

    def part(match: re.Match[str]) -> str:
        content = _KINDS[match["kind"]](*match["arguments"].split())
        return f"{match['start']}{content}{match['end']}"

    return _PART.sub(part, page)


def main() -> None:
    """Rewrite every page."""
    for path in sorted(DOCS.glob("*.md")):
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
