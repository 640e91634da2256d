"""A fit that takes long says so in one line, and one that shows itself, or is short, does not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpmodels import HybridModel, SVGPHead
from gpmodels.estimators.fitting.fitted import all_or_nothing
from gpmodels.hybrid import model as hybrid
from gpmodels.hybrid.waiting import said_when_long


class Clock:
    """Timers whose time passes when the test says so."""

    def __init__(self) -> None:
        self.running: list[Clock] = []

    def __call__(self, seconds: float, function: Callable[..., None], arguments: list[Any]) -> Clock:
        timer = Clock()
        timer.start = lambda: self.running.append(timer)
        timer.cancel = lambda: self.running.remove(timer)
        timer.fire = lambda: function(*arguments)
        assert seconds == 20.0
        return timer

    def pass_time(self) -> None:
        for timer in self.running:
            timer.fire()


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(threading, "Timer", clock)
    return clock


class Sleeper:
    """An estimator whose fit does what it is told."""

    verbose = 0

    @all_or_nothing
    def fit(self, work: Callable[[], None], *, callback: object = None) -> Sleeper:
        del callback
        work()
        return self


def test_a_long_fit_is_said_once_and_a_short_one_is_not(clock, caplog):
    Sleeper().fit(lambda: None)
    with pytest.raises(ZeroDivisionError):
        Sleeper().fit(lambda: 1 / 0)
    clock.pass_time()
    assert not caplog.records
    with said_when_long("More"):  # of work within work the outer speaks
        Sleeper().fit(clock.pass_time)
    Sleeper().fit(clock.pass_time)
    assert [record.getMessage() for record in caplog.records] == [
        "More has taken 20 s and goes on.",
        "Sleeper.fit has taken 20 s and goes on. verbose=1 shows a bar.",
    ]
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_a_fit_that_shows_a_bar_or_is_watched_says_nothing(clock, caplog):
    Sleeper().fit(clock.pass_time, callback=print)
    talkative = Sleeper()
    talkative.verbose = 1
    talkative.fit(clock.pass_time)
    assert not caplog.records


def test_a_head_that_is_placed_for_long_says_so(clock, monkeypatch, caplog):
    slow = hybrid.sample_points
    monkeypatch.setattr(hybrid, "sample_points", lambda *given: (clock.pass_time(), slow(*given))[1])
    x = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    model = HybridModel(hybrid.keras.layers.Identity(), SVGPHead(num_inducing=4), num_data=20)
    model.initialize((x, (x[:, 0] > 0).astype(np.float32)))
    assert "Placing the head on a sample of the data has taken 20 s and goes on." in caplog.messages
