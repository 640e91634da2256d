"""A process that is killed at any moment: what it confirmed is there."""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path

import numpy as np
import pytest

from pipelines.label.answers import ANSWERS, Answers

ROOT = Path(__file__).parents[3]

WRITER = """
import itertools, sys
from pathlib import Path
from pipelines.label.answers import Answers
answers = Answers(Path(sys.argv[1]))
for number in itertools.count(len(answers)):
    answers.add([f"{number}.png"], "class", class_name="rose", tab="1")
    print(number, flush=True)
"""

SERVER = """
import socket, sys
from pathlib import Path
import uvicorn
from pipelines.label.answers import Answers
from pipelines.label.pool import find_pool
from pipelines.label.server import make_server
from pipelines.label.session import Session
from pipelines.label.settings import LabelSettings
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen()
port = listening.getsockname()[1]
settings = LabelSettings(classes=("dark", "light"))
session = Session(find_pool(Path(sys.argv[1]), settings), settings.classes, Answers(Path(sys.argv[2])))
app = make_server(session, token="token", port=port)
print(port, flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off")).run(sockets=[listening])
"""


def started(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )


def test_a_killed_writer_has_kept_what_it_confirmed(tmp_path):
    rng = np.random.default_rng(0)
    confirmed = 0
    for _ in range(3):
        with started(WRITER, tmp_path) as process:
            for _ in range(rng.integers(1, 40)):
                confirmed = int(process.stdout.readline()) + 1
            process.send_signal(signal.SIGKILL)
        answers = Answers(tmp_path)
        assert all(answers.standing(f"{number}.png") for number in range(confirmed))
        assert len(answers) >= confirmed


def posted(port, path, given):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/token/{path}", json.dumps({"tab": "1", **given}).encode()
    )
    with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310
        return json.load(reply)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.exhaustive)])
def test_kills_of_the_server_lose_no_answer(tmp_path, images, kills):
    rng = np.random.default_rng(1)
    labels = tmp_path / "labels"
    labels.mkdir()
    confirmed = 0
    for _ in range(kills):
        with started(SERVER, images, labels) as process:
            port = int(process.stdout.readline())
            killed_at = time.monotonic() + rng.uniform(0.0, 0.3)
            try:
                while True:
                    given = {"images": [confirmed % 40], "verdict": "class", "class_name": "dark"}
                    posted(port, "answer", given)
                    confirmed += 1
                    if time.monotonic() > killed_at:
                        process.send_signal(signal.SIGKILL)
            except (OSError, HTTPException):
                pass  # it is dead
            finally:
                process.kill()
        kept = (labels / ANSWERS).read_bytes().splitlines() if (labels / ANSWERS).exists() else []
        complete = [json.loads(line)["image"] for line in kept if line.endswith(b"}")]
        assert complete[:confirmed] == [f"{number % 40:02d}.png" for number in range(confirmed)]
        confirmed = len(Answers(labels))
    assert confirmed > kills
