"""F1, precision and recall of events among candidates, and which candidates are one event."""

import numpy as np
import pytest

from data_prep.cells.candidates import Candidate
from data_prep.cells.manifest import SequenceFacts
from pipelines.cells.events import FoundEvent, distinct_events, event_label
from pipelines.cells.scores import CELL_SCORES, CellRecord, cell_statistics, missed_events
from pipelines.scores.classification import classification_record
from pipelines.scores.results import score_values


def values(truth: list[int], predicted: list[int], classes: int = 3, missed: float = 0.0) -> dict[str, float]:
    probability = np.full((len(truth), classes), 0.1 / (classes - 1))
    probability[np.arange(len(truth)), predicted] = 0.9
    record = classification_record("a", np.array(truth), probability, {})
    return score_values(CELL_SCORES, cell_statistics([CellRecord(**vars(record), missed_events=missed)]))


def test_an_event_is_found_only_with_its_kind() -> None:
    scores = values([0, 0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2, 0])
    # Of 4 events, 2 are found as what they are, among 4 that are called an event.
    assert scores["event_precision"] == pytest.approx(2 / 4)
    assert scores["event_recall"] == pytest.approx(2 / 4)
    assert scores["event_f1"] == pytest.approx(2 / 4)
    assert scores["accuracy"] == pytest.approx(4 / 7)


def test_events_without_a_candidate_lower_the_recall_of_all() -> None:
    scores = values([0, 0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2, 0], missed=4)
    assert scores["event_recall"] == pytest.approx(2 / 4)
    assert scores["event_recall_all"] == pytest.approx(2 / 8)
    assert scores["event_precision"] == pytest.approx(2 / 4)
    assert scores["event_f1_all"] == pytest.approx(2 / (1 / 0.5 + 1 / 0.25))
    complete = values([0, 1], [0, 1])
    assert complete["event_recall_all"] == complete["event_f1_all"] == 1
    assert values([0, 0], [0, 0], missed=3)["event_recall_all"] == 0


def test_events_without_a_candidate_count_with_their_sequence() -> None:
    facts = [
        SequenceFacts(
            name=name,
            frames=9,
            height=80,
            width=80,
            candidates=30,
            left_out=0,
            annotations=annotations,
            matched=2,
        )
        for name, annotations in (("a", 5), ("b", 2), ("c", 7))
    ]
    shares = missed_events(facts, {"a/1": "a", "a/2": "a", "b/1": "b"})
    assert shares == {"a/1": 1.5, "a/2": 1.5, "b/1": 0}  # c is not judged


def test_two_classes_agree_with_scikit_learn() -> None:
    from sklearn.metrics import f1_score, precision_score, recall_score  # noqa: PLC0415 - for this test alone

    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(0, 2, (2, 50)).tolist()
    scores = values(truth, predicted, classes=2)
    assert scores["event_f1"] == pytest.approx(f1_score(truth, predicted))
    assert scores["event_precision"] == pytest.approx(precision_score(truth, predicted))
    assert scores["event_recall"] == pytest.approx(recall_score(truth, predicted))


def test_without_events_there_is_no_score() -> None:
    scores = values([0, 0], [0, 0])
    assert np.isnan([scores["event_f1"], scores["event_precision"], scores["event_recall"]]).all()


def found(frame: int, column: float, none: float) -> FoundEvent:
    probability = np.array([none, 1 - none])
    return FoundEvent(Candidate(frame, 0.0, column, 20), event_label(probability), probability, 0.1, 0.0)


def test_of_near_candidates_the_most_probable_is_the_event() -> None:
    weak, strong, later, apart = (
        found(3, 0.0, 0.4),
        found(4, 8.0, 0.1),
        found(6, 8.0, 0.3),
        found(4, 30.0, 0.2),
    )
    assert distinct_events([weak, strong, later, apart], radius=10.0, window=1) == [strong, apart, later]
    assert distinct_events([weak, strong], radius=10.0, window=0) == [weak, strong]
    assert distinct_events([], radius=10.0, window=1) == []
