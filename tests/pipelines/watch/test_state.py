"""A stream over several calls: false alarms, delays, and a state that nobody else wrote."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from data_prep.errors import InputError
from pipelines.watch.reading import NewImages
from pipelines.watch.state import WatchState, load_state

BUNDLE = "0" * 64


def stream(familiarity, name="a") -> NewImages:
    files = tuple(f"{name}{number}.png" for number in range(len(familiarity)))
    return NewImages(files, tuple(map(float, familiarity)), (), 0)


def begun(**changes) -> WatchState:
    return WatchState(**{"bundle": BUNDLE, "alpha": 0.01, "seed": 0, "held_out": 300, **changes})


def false_alarms(draw, number: int, length: int, alpha: float, **changes) -> int:
    rng = np.random.default_rng(0)
    alarms = 0
    for seed in range(number):
        state = begun(alpha=alpha, seed=seed, **changes)
        familiarity = draw(rng, length, state.held_out or 1000)
        alarms += state.after(stream(familiarity)).course.alarm_at is not None
    return alarms


@pytest.mark.parametrize("held_out", [0, 20, 300])
def test_few_streams_alarm_without_a_change(draw, held_out):
    alarms = false_alarms(draw, 60, 150, 0.1, held_out=held_out)
    assert scipy.stats.binomtest(alarms, 60, 0.1, "greater").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [0, 50, 300])
@pytest.mark.parametrize("alpha", [0.01, 0.1])
def test_at_most_a_share_alpha_of_streams_ever_alarms(draw, held_out, alpha):
    alarms = false_alarms(draw, 1000, 400, alpha, held_out=held_out)
    assert scipy.stats.binomtest(alarms, 1000, alpha, "greater").pvalue > 1e-3
    assert alarms > 0.1 * alpha * 1000  # or the bets would be timid


@pytest.mark.parametrize(
    ("share", "power", "before", "latest"),
    [
        (1, None, 0, 6),  # images of another kind altogether
        (1, None, 1000, 12),
        (0.2, None, 0, 60),
        (0.05, None, 1000, 500),  # one new class among twenty
        (1, 0.6, 0, 200),  # each a little less familiar
        (1, 1 / 0.6, 300, 300),  # each a little more familiar
    ],
)
def test_a_change_is_found(draw, share, power, before, latest):
    late = []
    for seed in range(9):
        rng = np.random.default_rng(seed)
        strange = rng.random(before + 2 * latest)
        changed = np.flatnonzero(rng.random(2 * latest) < share) + before
        strange[changed] = 2 if power is None else strange[changed] ** power
        state = begun(seed=seed).after(stream(draw(rng, strange.size, strange=strange)))
        found = state.course.alarm_at
        late.append(np.inf if found is None else found - before)
        if found is not None and found > before and share == 1:
            assert abs(state.course.low_at - before) < latest
    assert np.median(late) <= latest
    assert min(late) > -before  # nothing before the first image


def test_several_calls_are_as_one(draw):
    familiarity = np.round(draw(np.random.default_rng(3), 700), 6)
    familiarity[500:] = np.round(familiarity[500:] ** 3, 6)
    images = stream(familiarity)
    whole = begun().after(images)
    state = begun()
    for begin, end in ((0, 100), (100, 100), (100, 511), (511, 700)):
        part = NewImages(images.files[begin:end], images.familiarity[begin:end], (), 0)
        state = WatchState.model_validate_json(state.after(part).model_dump_json())
    assert state.model_dump_json() == whole.model_dump_json()
    assert whole.course.alarm_at is not None
    assert whole.alarm


def test_the_least_familiar_images_since_the_rise_are_remembered():
    familiarity = np.full(100, 0.5)
    familiarity[3] = 1 / 301  # before the rise
    familiarity[60:] = 1 / 301
    rng = np.random.default_rng(0)
    familiarity[4:60] = rng.integers(150, 300, 56) / 301
    state = begun().after(stream(familiarity))
    assert state.course.alarm_at is not None
    assert len(state.unfamiliar) == 24
    assert {image.familiarity for image in state.unfamiliar} == {1 / 301}
    assert all(image.number > state.course.low_at for image in state.unfamiliar)
    assert state.unfamiliar[0].file == "a99.png"


def test_a_state_of_few_bytes_holds_many_images(draw):
    state = begun().after(stream(draw(np.random.default_rng(0), 5000)))
    assert len(state.model_dump_json()) < 60_000


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("bundle"),
        lambda state: state.update(more=1),
        lambda state: state.update(alpha=0),
        lambda state: state.update(schema_version=2),
        lambda state: state.update(counts=[1]),
        lambda state: state.update(values=state["values"][::-1]),
        lambda state: state["wealth"].update(money=[1e308] * 7),
        lambda state: state["wealth"].update(money=[0.1]),
        lambda state: state["wealth"].update(number=4),
        lambda state: state["course"].update(points=[]),
        lambda state: state["course"].update(low_at=10**9),
        lambda state: state["course"].update(stride=0),
        lambda state: state["course"].update(low=float("nan")),
        lambda state: state.update(read=[{"rows": 1, "digest": "../../etc"}]),
        lambda state: state.update(unfamiliar=[{"number": 1, "file": 3, "familiarity": 2}]),
    ],
)
def test_a_damaged_state_is_refused(tmp_path, change):
    content = json.loads(begun().after(stream([0.5, 0.25, 0.125])).model_dump_json())
    path = tmp_path / "watch.json"
    path.write_text(json.dumps(content))
    load_state(path)
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"no state of `gpimaging watch`, or damaged .* Put a copy back"):
        load_state(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, '{"bundle": 1}', "\ufeffPK", "9" * 5000])
def test_what_is_no_state_is_refused(tmp_path, text):
    path = tmp_path / "watch.json"
    path.write_text(text)
    with pytest.raises(InputError, match="no state of `gpimaging watch`"):
        load_state(path)


def test_a_folder_is_no_state(tmp_path: Path):
    with pytest.raises(InputError, match="no state of `gpimaging watch`"):
        load_state(tmp_path)


@pytest.mark.parametrize("money", [[0.0] * 7, [1e150] * 7])
def test_wealth_that_no_stream_has_is_survived(money):
    content = json.loads(begun().model_dump_json())
    content["wealth"]["money"] = money
    state = WatchState.model_validate(content).after(stream([0.5] * 50))
    assert WatchState.model_validate_json(state.model_dump_json()).wealth.number == 50
