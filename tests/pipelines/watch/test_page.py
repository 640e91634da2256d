"""The page of a stream: complete in itself, escaped, with thumbnails where there are files."""

import re

import numpy as np
import pytest
from PIL import Image

from pipelines.watch.reading import NewImages
from pipelines.watch.state import WatchState
from pipelines.watch.watching import watch_page

SPECIAL = "<b>bold</b> & \udcff.png"


@pytest.fixture
def page(tmp_path) -> str:
    Image.fromarray(np.full((400, 30, 3), 90, np.uint8)).save(tmp_path / "tall.png")
    (tmp_path / "damaged.png").write_bytes(b"\x89PNG")
    (tmp_path / "secret.txt").write_text("secret")
    names = ["tall.png", "damaged.png", "secret.txt", "gone.png"]
    files = (*(str(tmp_path / name) for name in names), SPECIAL)
    state = WatchState(bundle="0" * 64, alpha=0.01, seed=0, held_out=300)
    images = NewImages(files, (1 / 301,) * len(files), (), 0)
    return watch_page(state.after(images), "<i>name</i>", "Alarm & more")


def test_nothing_is_loaded_from_elsewhere_and_names_are_text(page):
    assert "default-src 'none'; img-src data:" in page
    assert not re.search(r"(src|href)=\"(?!data:image/)", page)
    assert "<script" not in page
    assert "<b>bold" not in page
    assert "&lt;b&gt;bold&lt;/b&gt; &amp; \\udcff.png" in page
    assert "<i>name" not in page
    assert "Alarm &amp; more" in page
    page.encode("utf-8")


def test_images_that_can_be_read_are_shown(page):
    assert page.count("data:image/jpeg;base64,") == 1
    assert page.count("(the file cannot be read here)") == 4
    assert page.count("data:image/svg+xml;base64,") == 1
    assert "familiarity 0.00332" in page


def test_an_empty_stream_has_a_page():
    page = watch_page(WatchState(bundle="0" * 64, alpha=0.01, seed=0, held_out=0), "a", "No alarm")
    assert "<li>None.</li>" in page
