import base64
import re
from datetime import UTC, datetime
from html.parser import HTMLParser

import cv2
import numpy as np
import pytest

from data_prep.errors import InputError
from pipelines.lane.pictures import LaneImage, gallery_image, lane_gallery, select_gallery
from pipelines.scores.classification import classification_record
from pipelines.scores.report import Gallery, GallerySection, render_report, write_report
from pipelines.scores.results import Evaluation, classification_result
from pipelines.scores.tables import format_number

CREATED = datetime(2026, 2, 3, 4, 5, tzinfo=UTC)
VOID = {"meta", "img", "br"}


class _Page(HTMLParser):
    """Checks that elements nest, and collects what the page refers to."""

    def __init__(self, text):
        super().__init__()
        self.open, self.references, self.identifiers, self.tags = [], [], set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        attributes = dict(attributes)
        self.references += [attributes[key] for key in ("src", "href") if key in attributes]
        self.identifiers.add(attributes.get("id"))
        assert tag != "img" or attributes["alt"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def gallery(evaluation, gallery_images):
    return lane_gallery(select_gallery(evaluation.results[-1], count=2), gallery_images)


@pytest.fixture(scope="module")
def page(evaluation, gallery):
    return render_report("Lanes & <kerbs>", evaluation, gallery, CREATED)


def test_the_page_is_well_formed_and_refers_to_nothing_outside(page):
    parsed = _Page(page)
    assert not parsed.open
    assert parsed.references
    for reference in parsed.references:
        assert reference.startswith("data:image/") or reference.removeprefix("#") in parsed.identifiers
    assert not {"script", "link", "iframe"} & set(parsed.tags)
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "http" not in re.sub(r"data:[^\"]*", "", page)


def test_text_from_outside_is_escaped(page):
    assert "Lanes &amp; &lt;kerbs&gt;" in page
    assert "&lt;scenes&gt; &amp; more" in page
    assert "2 files were skipped: &lt;i&gt;a&lt;/i&gt;.png" in page
    assert "<i>a" not in page


def test_the_page_holds_scores_comparisons_settings_and_warnings(page, evaluation):
    for result in evaluation.results:
        for value in result.scores.values():
            assert f">{format_number(value)}</td>" in page
    assert '<td class="best">' in page
    for score in evaluation.definitions:
        assert score.explanation.replace("'", "&#39;") in page
    assert "HGP against linear: better in " in page
    assert '<span class="no-clear-difference">no clear difference</span>' in page
    assert "<code>head.num_experts</code><span>9</span>" in page
    assert "<code>head.pixels</code><span>none</span>" in page
    assert "<code>size</code><span>16, 24</span>" in page
    assert "linear + temperature: temperature</th><td>2</td>" in page
    assert "With only 6 test examples" in page
    assert '<th scope="col">Peak memory of the process so far</th>' in page
    assert "do not compare methods by it" in page
    assert "The same groups of test examples" in page
    assert "03 February 2026, 04:05 UTC" in page


def test_gallery_shows_five_pictures_of_each_image(page, gallery):
    assert [section.title for section in gallery.sections] == [
        "Best images",
        "Worst images",
        "Most uncertain images",
    ]
    for section in gallery.sections:
        for image in section.images:
            for panel in ("Input", "Truth", "Prediction", "Probability", "Uncertainty"):
                assert f'alt="{panel} of {image.name}"' in page
    f_measures = [float(value) for value in re.findall(r"<span>F-measure ([0-9.]+)</span>", page)]
    best, worst = f_measures[:2], f_measures[2:4]
    assert best == sorted(best, reverse=True)
    assert worst == sorted(worst)
    assert min(best) >= max(worst)


def test_embedded_pictures_are_those_of_the_image(page, gallery_images):
    name = re.search(r'alt="Input of ([^"]+)"', page).group(1)
    source = re.search(rf'src="data:image/jpeg;base64,([^"]+)" alt="Input of {name}"', page).group(1)
    decoded = cv2.imdecode(np.frombuffer(base64.b64decode(source), np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    assert decoded.shape == gallery_images[name].image.shape
    difference = np.abs(decoded.mean(axis=(0, 1)) - gallery_images[name].image.mean(axis=(0, 1)))
    assert (
        difference.max() < 8.0
    )  # JPEG of noise; red and blue exchanged would be farther off in a real picture


@pytest.mark.slow
def test_an_image_without_truth_needs_none(evaluation, gallery_images):
    image = next(iter(gallery_images.values()))
    image = LaneImage("phone.jpg", image.image, None, image.probability, image.predictive_entropy)
    gallery = Gallery((GallerySection("Others", "Why.", (gallery_image(image),)),))
    page = render_report("t", evaluation, gallery, CREATED)
    assert 'alt="Prediction of phone.jpg"' in page
    assert 'alt="Truth of phone.jpg"' not in page
    assert "<span>F-measure" not in page


@pytest.mark.slow
def test_large_pictures_are_shrunk(evaluation):
    picture = np.random.default_rng(0).integers(0, 256, (600, 800, 3), np.uint8)
    maps = np.full((600, 800), 0.5)
    image = gallery_image(LaneImage("large", picture, np.ones((600, 800), np.uint8), maps, maps))
    page = render_report("t", evaluation, Gallery((GallerySection("s", "e", (image,) * 9),)), CREATED)
    assert len(page) < 5_000_000


def test_optional_parts_may_be_missing(perfect_evaluation):
    page = render_report("t", perfect_evaluation, Gallery(), CREATED)
    parsed = _Page(page)
    assert not parsed.open
    assert {"results", "calibration", "scores"} <= parsed.identifiers
    assert not {"comparison", "uncertainty", "images", "settings", "classes"} & parsed.identifiers


def test_other_applications_report_their_own_scores():
    records = [
        classification_record(name, np.array([0, 2]), np.array([[0.8, 0.1, 0.1], [0.3, 0.3, 0.4]]), {})
        for name in ("a", "b")
    ]
    page = render_report(
        "Sonar", Evaluation("sonar", (classification_result("SVGP", records),)), Gallery(), CREATED
    )
    assert not _Page(page).open
    assert "Share of predictions that are right." in page
    assert "lane" not in page.lower()


@pytest.mark.slow
def test_the_report_is_written_whole_or_not_at_all(evaluation, gallery, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    write_report(path, "t", evaluation, gallery)
    assert path.read_text("utf-8").endswith("</html>")
    written = path.read_bytes()

    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full_disk)
    with pytest.raises(InputError, match=r"report\.html: cannot be written"):
        write_report(path, "t", evaluation, gallery)
    assert path.read_bytes() == written
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
