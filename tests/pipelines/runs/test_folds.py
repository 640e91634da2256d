"""How the training examples of a small folder are divided for out-of-fold heads, and what judges a run."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from data_prep.prepared.manifest import LabelledExample, LabelledManifest
from data_prep.splits.divide import Splits
from pipelines.runs import folds
from pipelines.runs.folds import (
    held_out_names,
    held_out_points,
    num_folds_of,
    unlearned_note,
    untrained_folds,
)
from pipelines.runs.selection import SelectedNumbers, SelectedPoints


def manifest(num_groups: int, per_group: int = 2, rare: tuple[int, ...] = ()) -> LabelledManifest:
    """Return groups of two classes in turn, and those of a third class that are `rare`."""
    place = {"shard": "s", "offset": 0, "length": 1, "height": 9, "width": 9}
    examples = tuple(
        LabelledExample(
            name=f"{group:03d}/{number}", label=2 if group in rare else group % 2, group=f"g{group}", **place
        )
        for group in range(num_groups)
        for number in range(per_group)
    )
    return LabelledManifest(
        application="test",
        class_names=("a", "b", "c"),
        size=(9, 9),
        settings={},
        num_examples=len(examples),
        num_skipped=0,
        examples=examples,
        sha256={},
    )


@dataclass(frozen=True)
class OneJob:
    """As much of a job as the division asks for."""

    run: Any
    opened: Any
    folder: Any
    application: Any
    settings: Any = field(default_factory=lambda: SimpleNamespace(out_of_fold=True, seed=3))
    has_several_labels: bool = False
    has_real_targets: bool = False

    @property
    def data(self) -> Any:
        return self.opened[0]

    @property
    def splits(self) -> Splits:
        return self.opened[1]

    def groups(self, part: str) -> list[str]:
        return [example.group for example in self.data.manifest.select(getattr(self.splits, part))]

    def batches(self, part: str) -> tuple[str, ...]:
        return getattr(self.splits, part)


def job(
    tmp_path,
    monkeypatch,
    *,
    trained: int = 40,
    selected: int = 8,
    refers: bool = True,
    rare: tuple[int, ...] = (),
) -> OneJob:
    found = manifest(trained + selected, rare=rare)
    names = [example.name for example in found.examples]
    splits = Splits(train=tuple(names[: 2 * trained]), selection=tuple(names[2 * trained :]), test=())
    monkeypatch.setattr(
        folds, "new_run", lambda _application, _data, splits, steps: (len(splits.train), steps)
    )
    judge = SimpleNamespace(
        refers_classes=refers,
        groups=lambda data, names: {e.name: e.group for e in data.manifest.select(names)},
    )
    inputs = SimpleNamespace(steps_per_epoch=lambda _settings, number: number // 4)
    return OneJob(
        SimpleNamespace(refitted_folds=5),
        (SimpleNamespace(manifest=found), splits),
        tmp_path,
        SimpleNamespace(judge=judge, inputs=inputs, run=None),
    )


CLASSES = SimpleNamespace(is_classifier=True, label_shape=())
NUMBERS = SimpleNamespace(is_classifier=False, label_shape=())
FROZEN = SimpleNamespace(network=SimpleNamespace(trainable_weights=[]), head=CLASSES)
TRAINED = SimpleNamespace(network=SimpleNamespace(trainable_weights=["kernel"]), head=CLASSES)
OF_NUMBERS = SimpleNamespace(network=SimpleNamespace(trainable_weights=[]), head=NUMBERS)


@pytest.mark.parametrize(
    ("changes", "model", "expected"),
    [
        ({}, FROZEN, 5),
        ({}, TRAINED, 0),
        ({"refers": False}, FROZEN, 0),  # maps
        ({"trained": 29}, FROZEN, 0),
        ({"trained": 30}, FROZEN, 5),
        ({"refers": False, "trained": 5}, OF_NUMBERS, 5),  # each number says how far off it is
        ({"refers": False, "trained": 4}, OF_NUMBERS, 0),
        ({"selected": 148}, FROZEN, 5),
        ({"selected": 149}, FROZEN, 0),  # which guarantee 2 % by themselves
        ({"selected": 0}, FROZEN, 0),
    ],
)
def test_small_folders_on_a_frozen_network_are_divided(changes, model, expected, tmp_path, monkeypatch):
    assert num_folds_of(job(tmp_path, monkeypatch, **changes), model) == expected


def test_a_user_may_refuse(tmp_path, monkeypatch):
    whole = job(tmp_path, monkeypatch)
    whole.settings.out_of_fold = False
    assert num_folds_of(whole, FROZEN) == 0


def test_each_training_group_is_left_out_once_and_as_a_whole(tmp_path, monkeypatch):
    whole = job(tmp_path, monkeypatch)
    found = untrained_folds(whole)
    left_out = [name for fold in found for name in fold.splits.test]
    assert sorted(left_out) == sorted(whole.splits.train)
    for fold in found:
        assert not set(fold.groups("train")) & set(fold.groups("test"))
        assert set(fold.splits.train) | set(fold.splits.test) == set(whole.splits.train)
        assert fold.splits.selection == whole.splits.selection
        labels = [example.label for example in fold.data.manifest.select(fold.splits.test)]
        assert np.bincount(labels).tolist() == [8, 8]
        assert fold.run == (len(fold.splits.train), len(fold.splits.train) // 4)
    assert [fold.folder for fold in found] == [tmp_path / "folds" / str(number) for number in range(1, 6)]
    assert held_out_names(whole) == (*whole.splits.selection, *left_out)


def test_a_run_without_folds_is_judged_by_its_selection_part(tmp_path, monkeypatch):
    whole = job(tmp_path, monkeypatch)
    whole.run.refitted_folds = 0
    assert untrained_folds(whole) == []
    assert held_out_names(whole) == whole.splits.selection


def test_each_fold_is_predicted_by_the_head_without_it(tmp_path, monkeypatch):
    """The order is that of the names, and examples of several points are counted on."""
    whole = job(tmp_path, monkeypatch)

    def predict(model: str, names: tuple[str, ...]) -> SelectedPoints:
        number = 2 * len(names)
        value = 0.0 if model == "whole" else float(model)
        examples = np.repeat(np.arange(len(names), dtype=np.int32), 2)
        return SelectedPoints(np.full(number, value), np.zeros(number), np.ones(number), examples)

    monkeypatch.setattr(folds, "selected_points", predict)
    monkeypatch.setattr(folds, "load_run", lambda folder, _kind: folder.name)
    monkeypatch.setattr(folds, "load_model", lambda fold, head: {"svgp": fold.run}[head])
    monkeypatch.setattr(folds, "_sharpness", lambda *_: 1.0)
    points = held_out_points(whole, "svgp", "whole").points
    names = held_out_names(whole)
    assert points.examples.tolist() == np.repeat(np.arange(len(names)), 2).tolist()
    by = points.logits[::2]
    assert by[: len(whole.splits.selection)].tolist() == [0.0] * len(whole.splits.selection)
    for number, fold in enumerate(untrained_folds(whole), 1):
        assert {by[names.index(name)] for name in fold.splits.test} == {number}


@pytest.mark.parametrize(
    ("rare", "several", "counted"), [((7,), False, 94), ((7, 9), False, 96), ((7,), True, 96)]
)
def test_what_heads_without_a_fold_never_saw_says_nothing_of_the_head_of_all(
    rare, several, counted, tmp_path, monkeypatch
):
    """A class with one training group: the heads without that group are certain that it is another class."""
    whole = replace(job(tmp_path, monkeypatch, rare=rare), has_several_labels=several)

    def predict(_model: str, names: tuple[str, ...]) -> SelectedPoints:
        number = len(names)
        return SelectedPoints(
            np.zeros((number, 3)), np.zeros(number), np.ones(number), np.arange(number, dtype=np.int32)
        )

    monkeypatch.setattr(folds, "selected_points", predict)
    monkeypatch.setattr(folds, "load_run", lambda folder, _kind: folder.name)
    monkeypatch.setattr(folds, "load_model", lambda _fold, _head: "without a fold")
    points = held_out_points(whole, "svgp", "whole").points
    without_weight = {
        name for name, weight in zip(held_out_names(whole), points.weights, strict=True) if not weight
    }
    assert points.weights.sum() == counted
    assert without_weight == ({"007/0", "007/1"} if counted == 94 else set())
    notes = [unlearned_note(fold) for fold in untrained_folds(whole)]
    assert sum("All training examples of c are in this fold" in note for note in notes) == (counted == 94)
    assert notes.count("") == (4 if counted == 94 else 5)
    of_numbers = replace(whole, has_real_targets=True)
    assert not any(unlearned_note(fold) for fold in untrained_folds(of_numbers))


def test_heads_without_a_fold_are_taken_to_be_as_sure_as_the_head_of_all(tmp_path, monkeypatch):
    """A fold's logits of half the size say the same of the selection part as those of all examples."""
    whole = job(tmp_path, monkeypatch)
    sizes = {"whole": 1.0, "1": 0.5, "2": 1.0, "3": 2.0, "4": 3.0, "5": 1.0}

    def predict(model: str, names: tuple[str, ...]) -> SelectedPoints:
        number = np.arange(len(names), dtype=np.int32)
        return SelectedPoints(sizes[model] * np.cos(number), number % 2, np.ones(len(names)), number)

    monkeypatch.setattr(folds, "selected_points", predict)
    monkeypatch.setattr(folds, "load_run", lambda folder, _kind: folder.name)
    monkeypatch.setattr(folds, "load_model", lambda fold, head: {"svgp": fold.run}[head])
    monkeypatch.setattr(folds, "selection_temperature", lambda points, **_: points.logits[0])  # no prior
    found = held_out_points(whole, "svgp", "whole")
    assert found.sharpness == pytest.approx([1.0 / sizes[str(number)] for number in range(1, 6)])
    first = len(whole.splits.selection)
    for fold in untrained_folds(whole):
        number = len(fold.splits.test)
        of_fold = found.points.logits[first : first + number]
        np.testing.assert_allclose(of_fold, np.cos(np.arange(number)))
        first += number


def test_folds_whose_heads_are_less_sure_do_not_narrow_the_intervals_of_numbers(tmp_path, monkeypatch):
    """Some heads without a fold ended less sure than the head of all examples."""
    whole = job(tmp_path, monkeypatch, refers=False)
    deviations = {"whole": 0.5, "1": 0.5, "2": 0.4, "3": 1.0, "4": 2.0, "5": 1.0}

    def predict(model: str, names: tuple[str, ...]) -> SelectedNumbers:
        number = len(names)
        said = np.stack([np.zeros(number), np.full(number, deviations[model] ** 2)], axis=1)
        return SelectedNumbers(said, np.ones(number), np.ones(number), np.arange(number, dtype=np.int32))

    monkeypatch.setattr(folds, "selected_points", predict)
    monkeypatch.setattr(folds, "load_run", lambda folder, _kind: folder.name)
    monkeypatch.setattr(folds, "load_model", lambda fold, head: {"svgp": fold.run}[head])
    points = held_out_points(whole, "svgp", "whole").points
    names = held_out_names(whole)
    for number, fold in enumerate(untrained_folds(whole), 1):
        found = {round(float(points.logits[names.index(name), 1]), 6) for name in fold.splits.test}
        assert found == {round(min(deviations[str(number)], 0.5) ** 2, 6)}
    held_out = points.held_out(1.0, np.arange(len(names)))
    assert held_out.factor(0.5) == 2.0  # of errors of 1 and a deviation of 0.5, not of 1 or 2
