"""What the site adds to the pages of docs/: names of each room, and files of the project that pages link to.

MkDocs calls these functions (`hooks` in mkdocs.yml). A page links to a file outside docs/ as it does in the
repository, for example to `../examples/lane.sh`; the site holds a copy of that file under `project/`.
"""

# ruff: noqa: INP001 - a script, not a package

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from griffe import Extension, Object
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[1]
PACKAGES = ("gpmodels", "data_prep", "pipelines")
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")


class ExampleSections(Extension):
    """Lets `Example:` in docstrings be the section that the parser knows as `Examples:`."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)


def rooms(package: str) -> list[str]:
    """Return the dotted names of a package's rooms, and of its modules outside a room."""
    folder = ROOT / package
    names = [path.stem for path in folder.glob("*.py") if not path.stem.startswith("__")]
    names += [path.parent.name for path in folder.glob("*/__init__.py")]
    return [f"{package}.{name}" for name in sorted(names)]


def _page_of(name: str) -> str:
    return f"api/{name.replace('.', '/')}.md"


def _place(path: Path) -> PurePosixPath:
    """Return where a file of the project is in the site."""
    inside = path.is_relative_to(ROOT / "docs")
    return PurePosixPath(path.relative_to(ROOT / "docs") if inside else "project" / path.relative_to(ROOT))


def _linked(text: str, source: Path) -> list[Path]:
    """Return the files outside docs/ that a page links to."""
    found = [(source.parent / target).resolve() for target in _LINK.findall(_without_code(text))]
    return [path for path in found if path.is_file() and not path.is_relative_to(ROOT / "docs")]


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Add a page for each room to the navigation, under `Names`."""
    names = next(entry["Names"] for entry in config.nav if "Names" in entry)
    for package in PACKAGES:
        names.append({package: [{name.partition(".")[2]: _page_of(name)} for name in rooms(package)]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the rooms, and the files outside docs/ that pages lead to, directly or not."""
    for name in (name for package in PACKAGES for name in rooms(package)):
        files.append(File.generated(config, _page_of(name), content=f"# {name}\n\n::: {name}\n"))
    waiting = [Path(config.docs_dir) / file.src_uri for file in files if file.src_uri.endswith(".md")]
    seen: set[Path] = set()
    while waiting:
        source = waiting.pop()
        if not source.is_file():
            continue
        for path in _linked(source.read_text(encoding="utf-8"), source):
            if path not in seen:
                seen.add(path)
                files.append(_copy(config, path))
                waiting += [path] if path.suffix == ".md" else []
    return files


def _copy(config: Any, path: Path) -> File:
    """Return a file outside docs/ as one of the site; it has no place in the navigation."""
    place = str(_place(path))
    return File.generated(config, place, abs_src_path=str(path), inclusion=InclusionLevel.NOT_IN_NAV)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links out of docs/, and those of files outside it, lead to their places in the site."""
    here = PurePosixPath(page.file.src_uri)
    source = ROOT / here.relative_to("project") if here.parts[0] == "project" else ROOT / "docs" / here

    def moved(match: re.Match[str]) -> str:
        path = (source.parent / match[1]).resolve()
        if not path.is_file():
            return match[1]
        return os.path.relpath(_place(path), here.parent)

    parts = re.split(r"(^```.*?^```)", markdown, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [_LINK.sub(moved, part) for part in parts[::2]]
    text = "".join(parts)
    if here != PurePosixPath("api.md"):
        return text
    return re.sub(r"(?<=^\| )`([\w.]+)`", lambda m: f"[{m[0]}]({_page_of(m[1])})", text, flags=re.MULTILINE)
