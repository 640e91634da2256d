"""What the site adds to the pages: every room has a page, and links out of docs/ lead to copies."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("mkdocs")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site_hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def moved(hooks, markdown: str, page: str) -> str:
    return hooks.on_page_markdown(markdown, page=SimpleNamespace(file=SimpleNamespace(src_uri=page)))


def test_every_room_and_every_module_outside_one_has_a_page(hooks):
    assert {"gpmodels.heads", "gpmodels.registry", "gpmodels.hybrid"} <= set(hooks.rooms("gpmodels"))
    assert {"pipelines.runs", "pipelines.cli"} <= set(hooks.rooms("pipelines"))
    navigation = [{"Start": "index.md"}, {"Names": ["api.md"]}]
    hooks.on_config(SimpleNamespace(nav=navigation))
    assert {"heads": "api/gpmodels/heads.md"} in navigation[1]["Names"][1]["gpmodels"]


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("lane.md", "../examples/lane.sh", "project/examples/lane.sh"),
        ("lane.md", "heads.md#images-and-files", "heads.md#images-and-files"),
        ("project/README.md", "docs/lane.md#prepare", "../lane.md#prepare"),
        ("project/benchmarks/results/sonar/report.md", "../../../docs/results.md", "../../../../results.md"),
        ("lane.md", "https://example.org/a.md", "https://example.org/a.md"),
        ("lane.md", "#prepare", "#prepare"),
    ],
)
def test_links_lead_to_their_places_in_the_site(hooks, page, link, expected):
    assert moved(hooks, f"See [it]({link}).", page) == f"See [it]({expected})."


def test_code_is_left_alone_and_rooms_become_links(hooks):
    code = "```python\nx[0](../README.md)\n```\n"
    assert moved(hooks, code, "lane.md") == code
    assert "[`gpmodels.hgp`](api/gpmodels/hgp.md)" in moved(hooks, "| `gpmodels.hgp` | Experts. |", "api.md")
