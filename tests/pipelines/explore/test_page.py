"""What the page of an exploration holds: complete in itself, escaped, with what was found."""

import base64
import csv
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from data_prep.explore.quality import Quality
from pipelines.command.folders import EXPLORE_PAGE
from pipelines.explore.examples import Examples, Features
from pipelines.explore.latent import LatentMap
from pipelines.explore.page import MOST_KINDS, Findings, _by_kind, filling, make_atlas, render_page
from pipelines.explore.steps import metrics, write_embedding
from pipelines.explore.suspects import find_suspects

from .conftest import QUICK, SPECIAL, WRONG


@pytest.fixture(scope="module")
def page(explored) -> str:
    return (explored / EXPLORE_PAGE).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def data(page) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


class Elements(HTMLParser):
    """Collects elements and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(page):
    for tag, attributes in Elements(page).found:
        assert tag not in {"link", "iframe", "object", "embed", "base"}
        for name in ("src", "href", "action", "srcset", "poster", "data"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:image/", "#")), (tag, name, value)
    assert "http://" not in page
    assert "https://" not in page
    assert "url(" not in page
    assert "@import" not in page
    (policy,) = (a["content"] for tag, a in Elements(page).found if tag == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert policy.endswith("base-uri 'none'; form-action 'none'")


@pytest.mark.slow
def test_names_of_files_are_text_and_no_markup(page, data):
    assert SPECIAL in data["files"]
    assert "<b>bold" not in page
    assert not [tag for tag, _ in Elements(page).found if tag == "b"]


def test_every_example_has_a_place_a_picture_and_facts(data):
    assert len(data["files"]) == 60
    for key in ("position", "std"):
        assert all(len(values) == 60 for values in data[key])
    assert sorted(data["rank"]) == list(range(1, 61))
    side, columns = data["atlas"]["side"], data["atlas"]["columns"]
    sheet = Image.open(io.BytesIO(base64.b64decode(data["sheet"].partition(",")[2])))
    assert sheet.size == (columns * side, -(-60 // columns) * side)
    facts = dict(data["facts"][data["files"].index("three/00.png")])
    assert facts["class"] == "three"
    assert facts["model"] == "zero, error 1.00"  # the table has no probability of three
    assert re.fullmatch(r"-?\d+\.\d nats", facts["score"])
    assert re.fullmatch(r"rank \d+ of 60", facts["oddness"])


def test_colourings_are_those_that_the_data_allow(data):
    ways = {way["key"]: way for way in data["colourings"]}
    assert list(ways) == ["class", "error", "oddness"]
    assert ways["class"]["kinds"] == ["three", "zero"]
    assert {data["files"][row] for row in ways["class"]["crossed"]} >= set(WRONG)
    assert {data["files"][row] for row in ways["error"]["crossed"]} == {"three/00.png", "three/01.png"}
    assert ways["error"]["values"][data["files"].index(WRONG[1])] == -1


def test_lists_relevance_and_what_they_mean_are_there_without_a_script(page):
    assert page.count('<div class="row') == 4
    odd = page[page.index('id="odd"') : page.index('id="labels"')]
    assert odd.count("<li>") == 6
    labels = page[page.index('id="labels"') : page.index('id="meaning"')]
    assert "zero/wrong.png" in labels
    assert "no proof" in labels
    assert "Odd is not wrong" in odd
    assert "Files left out: 1" in page
    assert "lacks 38 of the 60 examples" in page


def unlabelled(qualities: list[Quality] | None) -> Findings:
    """Return findings of six examples that have no classes and lie at random places."""
    picture, values = np.zeros((4, 4, 3), np.uint8), np.random.default_rng(0).normal(size=(6, 2))
    features = Features(values, "common", "numbers")
    examples = Examples(tuple("abcdef"), None, None, [picture] * 6, features, qualities)
    latent = LatentMap(
        position=values, std=np.ones((6, 2)), relevance=np.ones(2), score=np.arange(6.0), seconds=0.0
    )
    return Findings(examples, latent, None, None)


def test_poor_images_are_listed_on_the_page_and_in_the_table(tmp_path):
    good = Quality(100, 100, brightest=0.9, darkest=0.1, information=7.0, sharpness=0.5)
    dark_and_narrow = good._replace(brightest=0.2, width=30)
    findings = unlabelled([good, good, dark_and_narrow, good, good, good._replace(brightest=0.1)])
    page = render_page("Page", findings, QUICK)
    assert re.findall("<h3>(.*?)</h3>", page) == ["Dark: 2", "Odd shape: 1"]
    listed = page[page.index('id="poor"') : page.index('id="meaning"')]
    assert re.findall("#file=(.)", listed) == ["f", "c", "c"]
    assert metrics(findings, QUICK)["poor"] == {"dark": 2, "odd shape": 1}
    write_embedding(tmp_path / "embedding.csv", findings)
    with (tmp_path / "embedding.csv").open(encoding="utf-8", newline="") as file:
        poor = {row["file"]: row["poor"] for row in csv.DictReader(file)}
    assert poor == {**dict.fromkeys("abde", ""), "c": "dark; odd shape", "f": "dark"}
    for qualities in ([good] * 6, None):
        assert 'id="poor"' not in render_page("Page", unlabelled(qualities), QUICK)


def test_of_one_group_alone_the_page_says_that_there_are_no_others():
    rng = np.random.default_rng(0)
    files, classes = tuple("abcdef"), tuple("xyxyxy")
    picture = np.zeros((4, 4, 3), np.uint8)
    features = Features(rng.normal(size=(6, 2)), "common", "numbers")
    examples = Examples(files, classes, ("one",) * 6, [picture] * 6, features)
    latent = LatentMap(
        position=features.values, std=np.ones((6, 2)), relevance=np.ones(2), score=np.arange(6.0), seconds=0.0
    )
    suspicion = find_suspects(latent, classes, examples.groups, 3)
    page = render_page("Page", Findings(examples, latent, suspicion, None), QUICK)
    assert "There are no other groups" in page
    assert "None was found" not in page
    assert "at least half agree" not in page


def test_thumbnails_keep_their_proportions_in_their_squares():
    pictures = [np.full((10, 20, 3), 50, np.uint8), np.full((300, 100, 3), 90, np.uint8)]
    atlas = make_atlas(pictures)
    assert atlas.sizes == ((32, 64), (64, 21))
    assert (atlas.picture[:16, :64] == 255).all()
    assert (atlas.picture[16:48, :64] == 50).all()
    assert filling(pictures[0], 128).shape == (64, 128, 3)


def test_more_classes_than_marks_share_the_last_one():
    names = [f"class {number:02d}" for number in range(30) for _ in range(30 - number)]
    way = _by_kind("class", "Class", names, ())
    assert len(way.kinds) == MOST_KINDS
    assert way.kinds[-1] == "15 others"
    assert way.kinds[0] == "class 00"
    assert (way.values[-15:] == MOST_KINDS - 1).all()


@pytest.mark.parametrize("classes", [("a", "b", "a"), ("a", "a", "a"), None])
def test_a_picture_of_two_classes_is_listed(classes):
    rng = np.random.default_rng(0)
    picture, other = (np.kron(rng.integers(0, 255, (8, 8, 3)), np.ones((6, 6, 1))) for _ in range(2))
    near = picture[:, ::-1] + rng.integers(0, 4, picture.shape)  # mirrored, of another file
    pictures = [one.clip(0, 255).astype(np.uint8) for one in (picture, near, other)]
    features = Features(np.zeros((3, 1)), "common", "nothing")
    examples = Examples(tuple("xyz"), classes, None, pictures, features)
    assert examples.contradictions == ([(0, 1)] if classes == ("a", "b", "a") else [])
