"""A folder of small images, and sessions about them."""

from pathlib import Path

import pytest

from pipelines.label import steps
from pipelines.label.answers import Answers
from pipelines.label.pool import find_pool
from pipelines.label.session import Session
from pipelines.label.settings import LabelSettings
from tests.pipelines.label.small_images import CLASSES, made_features, write_images
from tests.pipelines.label.test_encoding import MadeTrunk


@pytest.fixture
def images(tmp_path) -> Path:
    folder = tmp_path / "images"
    write_images(folder, [f"{number:02d}.png" for number in range(40)])
    return folder


@pytest.fixture
def out(tmp_path, monkeypatch) -> Path:
    """A folder for labels, whose features come from no network."""
    monkeypatch.setattr(steps, "loaded_trunk", lambda *_: MadeTrunk())
    return tmp_path / "labels"


@pytest.fixture
def open_session(tmp_path, images):
    """A function that starts a session, as a command that is run again does."""
    opened = []

    def start(settings=None, *, is_ready=True, **options):
        settings = settings or LabelSettings(classes=CLASSES)
        (tmp_path / "labels").mkdir(exist_ok=True)
        session = Session(
            find_pool(images, settings, **options), settings.classes, Answers(tmp_path / "labels")
        )
        opened.append(session)
        if is_ready:
            session.learn_from(made_features(session.pool))
        return session

    yield start
    for session in opened:
        session.close()
