"""The server: who may ask, and what is on the disk when it answers."""

import csv
import json

import pytest
from starlette.testclient import TestClient

from pipelines.label.answers import ANSWERS, LABELS
from pipelines.label.server import make_server
from tests.pipelines.label.small_images import CLASSES, truth, write_images

TOKEN = "a-token"  # noqa: S105 - of a server that lives as long as a test
BASE = "http://127.0.0.1:8000"
HOSTILE = [
    "<img src=x onerror=alert(1)>.png",
    '" onload="alert(1).png',
    "a,b;'c.png",
    "=cmd.png",
    "%2e%2e%2f.png",
    "ünï çødé 漢字.png",
    "x" * 200 + ".png",
]


def client_of(session):
    return TestClient(make_server(session, token=TOKEN, port=8000, who="me"), base_url=BASE)


def ask(client, path="question", **given):
    reply = client.post(f"/{TOKEN}/{path}", json={"tab": "1", **given})
    assert reply.status_code == 200, reply.text
    return reply.json()


def answer(client, question, class_name=None, **given):
    given = {"verdict": "class", "class_name": class_name or truth(question["name"]), **given}
    return ask(client, "answer", images=[question["number"]], **given)["question"]


def labels_of(folder):
    with (folder / LABELS).open(encoding="utf-8", newline="") as file:
        return {row["image"]: row["class"] for row in csv.DictReader(file)}


@pytest.fixture
def client(open_session):
    return client_of(open_session())


PATHS = (
    "",
    "page.js",
    "page.css",
    "icon.svg",
    "session",
    "progress",
    "image/0",
    "whole/0",
    "thumbnail/0",
    "alike/0",
)


@pytest.mark.parametrize("path", PATHS)
def test_each_address_needs_the_token(client, path):
    assert client.get(f"/{TOKEN}/{path}").status_code == 200
    for wrong in ("another", TOKEN[:-1], f"{TOKEN}x", "é"):
        assert client.get(f"/{wrong}/{path}").status_code == 403


@pytest.mark.parametrize("path", ["/", "/favicon.ico", "/question", f"//{TOKEN}/"])
def test_nothing_is_there_without_it(client, path):
    assert client.get(path).status_code in {403, 404}


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:8001"},
        {"Origin": "https://127.0.0.1:8000"},
        {"Host": "evil.example:8000"},
        {"Host": "127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("method", ["get", "post"])
def test_requests_of_other_pages_are_refused(client, headers, method):
    path = f"/{TOKEN}/progress" if method == "get" else f"/{TOKEN}/question"
    options = {} if method == "get" else {"json": {"tab": "1"}}
    assert getattr(client, method)(path, **options).status_code == 200
    assert getattr(client, method)(path, headers=headers, **options).status_code == 403


def test_own_origins_are_let_in(client):
    for host in ("127.0.0.1:8000", "localhost:8000"):
        headers = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        assert client.get(f"/{TOKEN}/progress", headers=headers).status_code == 200


@pytest.mark.parametrize("path", [f"/{TOKEN}/", "/other/"])
def test_the_page_may_load_nothing_from_outside(client, path):
    headers = client.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


def test_no_file_of_the_page_names_another_address(client):
    for name in ("", "page.js", "page.css"):
        text = client.get(f"/{TOKEN}/{name}").text
        assert "//" not in text.replace("// ", "")
        assert "innerHTML" not in text


def test_an_answer_is_on_the_disk_when_the_next_question_comes(client, tmp_path):
    question = ask(client)["question"]
    for number in range(1, 8):
        before, question = question, answer(client, question)
        lines = (tmp_path / "labels" / ANSWERS).read_text(encoding="utf-8").splitlines()
        assert len(lines) == number
        assert json.loads(lines[-1])["image"] == before["name"]
        assert labels_of(tmp_path / "labels")[before["name"]] == truth(before["name"])
        assert question["name"] != before["name"]


def test_the_same_question_comes_again_until_it_is_answered(client):
    first = ask(client)["question"]
    assert ask(client)["question"]["number"] == first["number"]
    assert answer(client, first)["number"] != first["number"]


def test_undo_asks_again_and_takes_the_label_out(client, tmp_path):
    first = ask(client)["question"]
    second = answer(client, first)
    answer(client, second)
    for expected in (second, first):
        found = ask(client, "undo")
        assert found["undone"]
        assert found["question"]["number"] == expected["number"]
    assert labels_of(tmp_path / "labels") == {}
    assert not ask(client, "undo")["undone"]


def test_two_pages_get_different_images_and_lose_nothing(client, tmp_path):
    questions = {tab: ask(client, tab=tab)["question"] for tab in "ab"}
    given = {}
    for _ in range(10):
        assert questions["a"]["number"] != questions["b"]["number"]
        for tab in "ab":
            given[questions[tab]["name"]] = truth(questions[tab]["name"])
            questions[tab] = answer(client, questions[tab], tab=tab)
    assert labels_of(tmp_path / "labels") == given
    assert len(given) == 20


def test_it_goes_on_where_it_ended(open_session, tmp_path):
    client = client_of(open_session())
    question = ask(client)["question"]
    for _ in range(5):
        question = answer(client, question)
    labels = labels_of(tmp_path / "labels")
    again = client_of(open_session())
    assert again.get(f"/{TOKEN}/progress").json()["answered"] == 5
    assert labels_of(tmp_path / "labels") == labels
    asked = ask(again)["question"]
    assert asked["name"] not in labels


def test_unsure_and_not_usable_are_no_labels(client, tmp_path):
    question = ask(client)["question"]
    for verdict in ("unsure", "not usable"):
        question = ask(client, "answer", images=[question["number"]], verdict=verdict)["question"]
    assert labels_of(tmp_path / "labels") == {}
    review = (tmp_path / "labels" / "review.csv").read_text()
    assert "unsure" in review
    assert "not usable" in review


@pytest.mark.parametrize(
    "given",
    [
        {"images": [0], "verdict": "class", "class_name": "neither"},
        {"images": [0], "verdict": "class"},
        {"images": [4000], "verdict": "unsure"},
        {"images": [-1], "verdict": "unsure"},
        {"images": [], "verdict": "unsure"},
        {"images": [0], "verdict": "undo"},
        {"images": ["0; drop"], "verdict": "unsure"},
        {"images": [0], "verdict": "unsure", "tab": ""},
        {"images": list(range(101)), "verdict": "unsure"},
        {"images": [0], "verdict": "unsure", "path": "/etc/passwd"},
        {"images": [0], "verdict": "unsure", "who": "x" * 200_000},
    ],
)
def test_what_is_no_answer_is_refused_and_not_kept(client, tmp_path, given):
    reply = client.post(f"/{TOKEN}/answer", json={"tab": "1", **given})
    assert reply.status_code == 422
    assert reply.json()["error"]
    assert not (tmp_path / "labels" / ANSWERS).exists()


@pytest.mark.parametrize(
    "path", ["image/40", "image/-1", "image/../0", "thumbnail/99999", "alike/40", "image/a"]
)
def test_there_are_no_other_images(client, path):
    assert client.get(f"/{TOKEN}/{path}").status_code == 404


def test_hostile_names_are_shown_as_they_are(open_session, images, tmp_path):
    write_images(images, HOSTILE)
    session = open_session(is_ready=False)
    session.fail("The disk is full.")
    client = client_of(session)
    question, given = ask(client)["question"], {}
    while question is not None:
        picture = client.get(f"/{TOKEN}/image/{question['number']}")
        assert (picture.status_code, picture.headers["content-type"]) == (200, "image/jpeg")
        given[question["name"]] = CLASSES[0]
        question = answer(client, question, CLASSES[0])
    assert set(HOSTILE) <= given.keys()
    assert labels_of(tmp_path / "labels") == given


def test_an_image_that_cannot_be_read_is_no_crash(open_session, images):
    (images / "damaged.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    session = open_session()
    client = client_of(session)
    number = next(n for n, image in enumerate(session.pool.images) if image.name == "damaged.png")
    reply = client.get(f"/{TOKEN}/image/{number}")
    assert (reply.status_code, reply.headers["content-type"]) == (415, "text/plain; charset=utf-8")
    assert client.get(f"/{TOKEN}/progress").json()["unreadable"] == 1
    assert client.get(f"/{TOKEN}/alike/{number}").json()["images"] == []


def test_a_full_disk_is_said_and_the_question_stays(client, monkeypatch):
    question = ask(client)["question"]

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        given = {"images": [question["number"]], "verdict": "class", "class_name": "dark", "tab": "1"}
        reply = client.post(f"/{TOKEN}/answer", json=given)
    assert reply.status_code == 422
    assert "is not kept" in reply.json()["error"]
    assert ask(client)["question"]["number"] == question["number"]
