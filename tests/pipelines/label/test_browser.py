"""The page in a real browser, which `make test-browser` runs: Debian's chromium, by Playwright's client.

Tests are skipped where either is missing: `apt-get install chromium`, `pip install playwright`.
"""

import csv
import shutil
import threading

import numpy as np
import pytest

from pipelines.label.answers import LABELS, Answers
from pipelines.label.encoding import EncodedPool
from pipelines.label.pool import Pool, PoolImage
from pipelines.label.server import make_server
from pipelines.label.session import Session
from pipelines.label.steps import _listening
from tests.pipelines.label.small_images import CLASSES, truth, write_images

playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright's client")
uvicorn = pytest.importorskip("uvicorn")
CHROMIUM = shutil.which("chromium")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs the browser chromium"),
]


class Served:
    """A session that a server of its own answers for."""

    def __init__(self, session, port=0):
        self._listening = _listening("127.0.0.1", port)
        self.port = self._listening.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}/token/"
        app = make_server(session, token="token", port=self.port, who="tester")  # noqa: S106
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listening]})
        self._thread.start()

    def stop(self):
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()
        self._listening.close()


@pytest.fixture
def serve():
    served = []

    def start(session, **options):
        served.append(Served(session, **options))
        return served[-1]

    yield start
    for one in served:
        one.stop()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as client:
        started = client.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser):
    """A function that opens a page; what goes wrong in any of them fails the test."""
    problems, contexts = [], []

    def start(address, width=1400, context=None, *, has_features=True):
        if context is None:
            context = browser.new_context(viewport={"width": width, "height": 900})
            contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: request.url.startswith(address) or problems.append(request.url))
        page.goto(address)
        if has_features:
            wait(page)
        page.locator("body[aria-busy=false]").wait_for()
        return page

    yield start
    for context in contexts:
        context.close()
    assert problems == []


def wait(page):
    page.locator("body[aria-busy=false]").wait_for()
    page.locator("#encoding").wait_for(state="hidden")
    page.locator("body[aria-busy=false]").wait_for()


def press(page, key):
    page.keyboard.press(key)
    wait(page)


def name_of(page):
    return page.text_content("#name")


def label(page, count):
    """Label some images by keys alone, and return what was answered."""
    given = {}
    for _ in range(count):
        name = name_of(page)
        given[name] = truth(name)
        press(page, str(1 + CLASSES.index(given[name])))
        assert name_of(page) != name
    return given


def labels_of(folder):
    with (folder / LABELS).open(encoding="utf-8", newline="") as file:
        return {row["image"]: row["class"] for row in csv.DictReader(file)}


def test_thirty_labels_undo_reload_and_a_second_page(open_session, serve, open_page, tmp_path):
    page = open_page(serve(open_session()).address)
    given = label(page, 30)
    assert labels_of(tmp_path / "labels") == given
    last = list(given)[-1]
    press(page, "z")
    assert name_of(page) == last
    page.reload()
    wait(page)
    assert name_of(page) == last
    press(page, "z")
    assert labels_of(tmp_path / "labels") == dict(list(given.items())[:-2])
    second = open_page(page.url, context=page.context)
    assert name_of(second) != name_of(page)
    more = label(second, 3) | label(page, 2)
    assert labels_of(tmp_path / "labels") == dict(list(given.items())[:-2]) | more


def test_the_page_shows_why(open_session, serve, open_page):
    page = open_page(serve(open_session()).address)
    notes = []
    for _ in range(10):
        label(page, 1)
        notes.append(page.text_content("#note"))
        is_hidden = "judge" in notes[-1]
        assert page.locator("#similar img").count() == (0 if is_hidden else min(len(notes), 3))
        assert page.locator("#classes .value").first.is_hidden() == is_hidden
    assert sum("judge" in note for note in notes) == 2
    shares = [text.removesuffix(" %") for text in page.locator("#classes .value").all_text_contents()]
    assert page.locator("#classes .class-name").all_text_contents() == list(CLASSES)
    assert sum(map(float, shares)) == pytest.approx(100, abs=1)
    assert "Familiarity: like" in page.text_content("#familiarity")
    assert "images of" in page.text_content("#sentence")


def test_the_grid_confirms_by_keys(open_session, serve, open_page, tmp_path):
    page = open_page(serve(open_session()).address)
    given = label(page, 10)
    press(page, "g")
    names = page.locator("#cells .mark").all_text_contents()
    assert len(names) > 2
    press(page, "ArrowRight")
    page.keyboard.press(" ")
    press(page, "Enter")
    page.locator("#grid").wait_for(state="hidden")
    found = labels_of(tmp_path / "labels")
    assert found.keys() == given.keys() | set(names) - {names[1]}
    press(page, "z")
    assert labels_of(tmp_path / "labels") == given


def test_it_works_by_the_tab_key_and_buttons_have_names(open_session, serve, open_page, tmp_path):
    page = open_page(serve(open_session()).address)
    name = name_of(page)
    page.locator("#classes button").nth(1).focus()
    press(page, "Enter")
    assert labels_of(tmp_path / "labels") == {name: CLASSES[1]}
    assert all(text.strip() for text in page.locator("button").all_text_contents())
    assert page.locator("img:not([alt])").count() == 0


def test_zoom_shows_a_part_and_the_whole_again(open_session, serve, open_page):
    page = open_page(serve(open_session()).address)
    box = page.locator("#image").bounding_box()
    assert box == page.locator("#view").bounding_box()
    for _ in range(3):
        page.keyboard.press("+")
    assert page.locator("#image").bounding_box()["width"] == pytest.approx(3.375 * box["width"])
    before = page.locator("#image").bounding_box()["x"]
    page.keyboard.press("ArrowLeft")
    assert page.locator("#image").bounding_box()["x"] > before
    page.keyboard.press("f")
    assert page.locator("#image").bounding_box() == box


def test_a_large_image_comes_with_all_pixels_where_somebody_looks_closer(
    open_session, images, serve, open_page
):
    for path in images.iterdir():
        path.unlink()
    write_images(images, ["00.png", "01.png"], size=(300, 3000))
    session = open_session(is_ready=False)
    session.fail("No features in this test.")
    page = open_page(serve(session).address, has_features=False)
    width = "document.getElementById('image').naturalWidth"
    assert page.evaluate(width) == 2048
    with page.expect_response(lambda reply: "/whole/" in reply.url):
        page.keyboard.press("+")
        page.keyboard.press("+")
    page.locator("#image[src^='http'][src*='/whole/']").wait_for()
    assert page.evaluate(width) == 3000
    page.keyboard.press("1")
    page.locator("body[aria-busy=false]").wait_for()
    assert page.evaluate(width) == 2048


def test_typing_a_name_answers_nothing(open_session, serve, open_page, tmp_path):
    page = open_page(serve(open_session()).address)
    page.fill("#who", "")
    page.locator("#who").press_sequentially("ux12")
    assert labels_of(tmp_path / "labels") == {}
    page.locator("#note").click()
    page.locator("#who").blur()
    label(page, 1)
    assert "ux12" in (tmp_path / "labels" / LABELS).read_text()


@pytest.mark.parametrize("width", [1400, 400])
def test_nothing_is_wider_than_the_window(open_session, serve, open_page, width):
    session = open_session()
    page = open_page(serve(session).address, width=width)
    label(page, 6)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for button in page.locator("#classes button, #unsure, #unusable, #undo").all():
        assert button.bounding_box()["height"] >= 36
    press(page, "g")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_names_and_images_are_text_and_a_placeholder(open_session, images, serve, open_page):
    name = "<img src=x onerror=document.title='hacked'>.png"
    write_images(images, [name])
    (images / "damaged.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    for number in range(40):
        (images / f"{number:02d}.png").unlink()
    session = open_session(is_ready=False)
    session.fail("No features in this test.")
    page = open_page(serve(session).address, has_features=False)
    seen = {name_of(page): page.locator("#placeholder").is_visible()}
    page.keyboard.press("x")
    page.locator("body[aria-busy=false]").wait_for()
    seen[name_of(page)] = page.locator("#placeholder").is_visible()
    assert seen == {name: False, "damaged.png": True}
    assert page.title() == "Label images"


def test_a_stopped_server_is_said_and_a_new_one_goes_on(open_session, serve, open_page, tmp_path):
    first = serve(open_session())
    page = open_page(first.address)
    given = label(page, 4)
    name = name_of(page)
    first.stop()
    page.keyboard.press("1")
    page.locator("#message").wait_for()
    assert "The server does not answer" in page.text_content("#message")
    wait(page)
    assert name_of(page) == name
    assert labels_of(tmp_path / "labels") == given
    page = open_page(serve(open_session()).address)
    given |= label(page, 2)
    assert labels_of(tmp_path / "labels") == given


def test_ten_thousand_images_stay_fluid_as_the_page_gets_what_it_shows(images, tmp_path, serve, open_page):
    files = sorted(images.iterdir())
    number = 10_000
    pool = Pool(
        images,
        tuple(PoolImage(f"{row:05d}.png", files[row % 40], f"group {row // 2}") for row in range(number)),
    )
    (tmp_path / "labels").mkdir()
    session = Session(pool, CLASSES, Answers(tmp_path / "labels"))
    rng = np.random.default_rng(0)
    features = rng.normal(size=(number, 64)) + 3.0 * (np.arange(number) % 2)[:, None]
    nothing = np.zeros((number, 4, 64), bool), np.zeros((number, 16, 16), np.float32)
    session.learn_from(EncodedPool(np.arange(number), features.astype(np.float32), *nothing, unreadable={}))
    try:
        page = open_page(serve(session).address)
        sizes = []
        page.on("response", lambda reply: sizes.append(int(reply.headers.get("content-length", 0))))
        label(page, 20)
        assert page.evaluate("document.querySelectorAll('*').length") < 200
        assert sum(sizes) < 20 * 30_000
        assert max(sizes) < 20_000
    finally:
        session.close()
