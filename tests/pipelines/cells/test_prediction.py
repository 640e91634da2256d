"""What is written of sequences: all events in one table, bad sequences named, frames marked."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tifffile
from rich.console import Console

from data_prep.cells.prepare import prepare_cells
from data_prep.cells.settings import CandidateSettings, CellsPrepareSettings
from data_prep.cells.views import VIEWS
from data_prep.errors import InputError
from pipelines.bundles.line_rules import LineRules
from pipelines.bundles.prediction import predict_files, predict_sources
from pipelines.bundles.prediction_lines import probability_column
from pipelines.bundles.prediction_run import open_run
from pipelines.bundles.sources import Source
from pipelines.bundles.step import FinishedPrediction
from pipelines.bundles.unreadable import UnreadableSourceError
from pipelines.cells.prediction import (
    CELLS_PREDICTION,
    CellsPrediction,
    CellsPredictor,
    sequence_sources,
    write_events,
)
from pipelines.cells.settings import PredictSettings
from pipelines.scores.costs import CostTable
from tests.data_prep.cell_files import still_frames, with_spots, write_folder, write_stack
from tests.pipelines.written import rows

SPOTS = [(1, 20, 30), (2, 70, 40), (4, 40, 60)]


class Certain:
    """A bundle's signature to which everything is a mitosis; remembers how much it was given."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.stop_at = stop_at
        self.batches: list[int] = []

    def __call__(self, **views: tf.Tensor) -> dict[str, tf.Tensor]:
        assert {name: int(view.shape[1]) for name, view in views.items()} == VIEWS
        number = int(views["current_lbp"].shape[0])
        if len(self.batches) == self.stop_at:
            raise KeyboardInterrupt
        self.batches.append(number)
        probability = tf.constant([[0.1, 0.2, 0.7]] * number)
        entropy = -tf.reduce_sum(probability * tf.math.log(probability), axis=1)
        return {
            "probability": probability,
            "predictive_entropy": entropy,
            "mutual_information": 0.5 * entropy,
        }


CLASSES = ("none", "apoptosis", "mitosis")


def predictor(out: Path, stop_at: int | None = None, **settings: object) -> CellsPredictor:
    out.mkdir(exist_ok=True)
    return CellsPredictor(
        signature=Certain(stop_at),
        class_names=CLASSES,
        candidates=CandidateSettings(),
        settings=PredictSettings.model_validate(settings),
        out=out,
    )


def lines(predict: CellsPredictor, inputs: Path) -> list[CellsPrediction]:
    found = [line for source in sequence_sources([inputs])[0] for line in predict(source)]
    write_events(found, predict.out, CLASSES, familiarity=False)
    return found


def test_events_of_all_sequences_are_in_one_table(tmp_path: Path) -> None:
    write_folder(tmp_path / "in" / "a", with_spots(still_frames(6), SPOTS))
    deep = [frame.astype(np.uint16) * 100 for frame in with_spots(still_frames(6), SPOTS[:1])]
    write_stack(tmp_path / "in" / "b.tif", deep)
    predict = predictor(tmp_path / "out", candidates_at_once=2, first_frame=1, refer_above=0.5)
    a, b = lines(predict, tmp_path / "in")
    assert (a.sequence, a.frames, a.candidates, a.events, a.referred_events) == ("a", 6, 3, 3, 3)
    assert (b.sequence, b.events, b.status) == ("b", 1, "ok")
    assert predict.signature.batches == [2, 1, 1]
    events = rows(tmp_path / "out" / "events.csv")
    assert [(e["sequence"], e["frame"], e["x"], e["y"], e["kind"]) for e in events] == [
        ("a", "2", "19.5", "29.5", "mitosis"),
        ("a", "3", "69.5", "39.5", "mitosis"),
        ("a", "5", "39.5", "59.5", "mitosis"),
        ("b", "2", "19.5", "29.5", "mitosis"),
    ]
    assert (events[0]["probability"], events[0]["probability of mitosis"]) == ("0.9", "0.7")


def test_corrected_events_are_prepared_under_their_sequences(tmp_path: Path) -> None:
    sequences = tmp_path / "in"
    for plate in ("plate1", "plate2"):
        (sequences / plate).mkdir(parents=True)
        write_stack(sequences / plate / "w1.tif", with_spots(still_frames(6), SPOTS))
    write_folder(sequences / "still", still_frames(6))
    predict = predictor(tmp_path / "out", first_frame=1)
    assert [line.sequence for line in lines(predict, sequences)] == ["plate1/w1", "plate2/w1", "still"]
    table = tmp_path / "out" / "events.csv"
    assert (tmp_path / "out" / "marked" / "plate1_w1.tif").exists()
    # Of each sequence with events a person removes the first.
    text = table.read_text(encoding="utf-8").splitlines()
    kept = [line for line in text if ",2,19.5,29.5," not in line]
    table.write_text("\n".join(kept) + "\n", encoding="utf-8")
    prepared = prepare_cells(
        sequences, table, tmp_path / "prepared", CellsPrepareSettings(first_frame=1, radius=10)
    )
    facts = prepared.manifest.sequences
    assert [(f.name, f.annotations, f.matched) for f in facts] == [
        ("plate1/w1", 2, 2),
        ("plate2/w1", 2, 2),
        ("still", 0, 0),
    ]
    assert prepared.skipped == ()


def test_frames_are_marked_around_an_event(tmp_path: Path) -> None:
    frames = with_spots(still_frames(8), [(1, 50, 40)])
    frames[6] = frames[6][:9]
    write_folder(tmp_path / "a", frames)
    assert lines(predictor(tmp_path / "out"), tmp_path / "a")[0].frames == 8
    marked = tifffile.imread(tmp_path / "out" / "marked" / "a.tif").astype(int)
    assert marked.shape == (8, 80, 100, 3)
    assert (np.ptp(marked, axis=-1).max(axis=(1, 2)) > 0).tolist() == [True] * 4 + [False] * 4
    np.testing.assert_array_equal(marked[7, ..., 0], frames[7])
    assert not marked[6].any()  # pages keep their numbers


def test_threshold_and_nearness_decide_what_is_an_event(tmp_path: Path) -> None:
    write_folder(tmp_path / "a", with_spots(still_frames(6), [(1, 30, 30), (2, 45, 30)]))
    assert lines(predictor(tmp_path / "one"), tmp_path / "a")[0].events == 1
    apart = predictor(tmp_path / "two", radius=10)
    assert lines(apart, tmp_path / "a")[0].events == 2
    none = predictor(tmp_path / "none", threshold=0.95, annotate=False)
    assert lines(none, tmp_path / "a")[0].events == 0
    (row,) = rows(tmp_path / "none" / "events.csv")  # `prepare` wants to know that there is none
    assert {name for name, value in row.items() if value} == {"sequence"}
    assert not (tmp_path / "none" / "marked").exists()


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    stack = write_stack(tmp_path / "a.tif", still_frames(1))
    with pytest.raises(UnreadableSourceError, match="no two consecutive frames"):
        lines(predictor(tmp_path / "out"), stack)
    with pytest.raises(InputError, match="no sequence"):
        sequence_sources([tmp_path / "missing"])


def test_frames_and_paths_that_cannot_be_used_are_listed(tmp_path: Path) -> None:
    frames = with_spots(still_frames(6), SPOTS)
    frames[3] = frames[3][:9]
    write_folder(tmp_path / "a", frames)
    (tmp_path / "empty").mkdir()
    predict, out = predictor(tmp_path / "out"), tmp_path / "out"
    sources, left_out = sequence_sources([tmp_path / "empty", tmp_path / "a"])
    predict.left_out.extend(left_out)
    console = Console(record=True, width=300, quiet=False)
    (line,) = predict_sources(CellsPrediction, predict, sources, out, console, left_out=predict.left_out)
    assert (line.status, line.events) == ("ok", 2)
    empty, frame = rows(tmp_path / "out" / "skipped.csv")
    assert empty["file"] == str(tmp_path / "empty")
    assert "no sequence found" in empty["reason"]
    assert frame["file"] == str(tmp_path / "a" / "frame4.png")
    assert f"Left out: {frame['reason']}" in console.export_text()


def test_sequences_of_one_name_stay_apart(tmp_path: Path) -> None:
    for day in ("one", "two"):
        write_folder(tmp_path / day / "a", still_frames(2))
    sources, _ = sequence_sources([tmp_path / "one" / "a", tmp_path / "two" / "a"])
    one, two = (
        tuple(tmp_path / day / "a" / f"frame{number}.png" for number in (1, 2)) for day in ("one", "two")
    )
    assert sources == [
        Source(tmp_path / "one" / "a", "a", "a", one),
        Source(tmp_path / "two" / "a", "a_2", "a_2", two),
    ]


def test_a_stopped_command_keeps_the_events_of_complete_sequences_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "metadata.json").touch()
    for name in "abc":
        write_folder(tmp_path / "in" / name, with_spots(still_frames(6), SPOTS))

    def predict(out: Path, stop_at: int | None = None) -> Certain:
        predict, (sources, _) = predictor(out, stop_at), sequence_sources([tmp_path / "in"])
        run = open_run(
            out, application="cells", bundle=tmp_path / "bundle", settings=predict.settings, sources=sources
        )
        write = partial(write_events, out=out, class_names=CLASSES, familiarity=False)
        predict_files(CellsPrediction, predict, sources, out, run=run, write_more=write)
        return predict.signature

    predict(tmp_path / "once")
    out = tmp_path / "twice"
    with pytest.raises(KeyboardInterrupt):
        predict(out, stop_at=1)
    assert {row["sequence"] for row in rows(out / "events.csv")} == {"a"}
    assert predict(out).batches == [3, 3]
    for name in ("events.csv", "marked/a.tif", "marked/c.tif"):
        assert (out / name).read_bytes() == (tmp_path / "once" / name).read_bytes()
    (tmp_path / "in" / "b" / "frame3.png").unlink()
    with pytest.raises(InputError, match=r"b: has changed since .*, or put its files back"):
        predict(out)


def test_familiarity_is_told_of_events_and_not_of_sequences() -> None:
    assert CellsPrediction.columns((), LineRules(least_familiarity=0.01)) == CellsPrediction.columns()


def test_events_get_decisions_by_costs_and_sequences_count_what_is_referred(tmp_path: Path) -> None:
    costs = CostTable(
        classes=CLASSES,
        decisions=(*CLASSES, "refer"),
        values=((0, 1, 1, 1), (9, 0, 9, 1), (2, 2, 0, 1)),
    )
    event = dict(zip(map(probability_column, CLASSES), (0.1, 0.2, 0.7), strict=True))
    sure = dict(zip(map(probability_column, CLASSES), (0.05, 0.01, 0.94), strict=True))
    sequence = CellsPrediction(
        file="a", rows=[{"sequence": "a", "referred": False} | one for one in (event, sure)], events=2
    )
    empty = CellsPrediction(file="b", rows=[{"sequence": "b"}], events=0, referred_events=0, referred=False)
    decided = [line.ruled(LineRules(costs=costs)) for line in (sequence, empty)]
    assert [row.get("decision") for line in decided for row in line.rows] == ["refer", "mitosis", None]
    assert (decided[0].referred_events, decided[0].referred) == (1, True)
    assert (decided[1].referred_events, decided[1].referred) == (0, False)
    unread = CellsPrediction(file="c", status="broken")
    assert unread.ruled(LineRules(costs=costs)) == unread
    write_events(decided, tmp_path, CLASSES, familiarity=False, costs=True)
    header = (tmp_path / "events.csv").read_text().splitlines()[0]
    assert ",referred,decision,expected_cost,probability of none," in header


@pytest.mark.parametrize("flags", [(True, False, True), (False, None)])
def test_unfamiliar_events_are_counted_on_the_console(tmp_path: Path, flags: tuple[bool | None, ...]) -> None:
    console = Console(record=True, width=200)
    line = CellsPrediction(file="a", events=len(flags), rows=[{"unfamiliar": flag} for flag in flags])
    CELLS_PREDICTION.finish(FinishedPrediction(None, (), [line], tmp_path, console, None))
    assert ("2 of 3 events are unfamiliar" in console.export_text()) == bool(flags[0])
