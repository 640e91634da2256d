"""A predict step goes on where an earlier one stopped, and only where nothing has changed."""

import csv
import json
import threading
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from rich.console import Console

from data_prep.errors import ClusterLost, InputError, Skipped
from pipelines.bundles import prediction_run
from pipelines.bundles.prediction import predict_files, predict_sources, recorded
from pipelines.bundles.prediction_run import RECORDS, bundle_sha256, open_run, source_sha256
from pipelines.bundles.remote import PredictorFactory, in_threads
from pipelines.bundles.sources import Source, find_sources
from pipelines.bundles.unreadable import UnreadableSourceError
from pipelines.classify.label_prediction import LabelPredictSettings
from pipelines.command.folders import METADATA, check_paths
from pipelines.lane.prediction import LanePrediction, LanePredictor, make_predictor
from pipelines.lane.settings import PredictSettings
from pipelines.scores.costs import CostTable

SETTINGS = PredictSettings()


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for number, name in enumerate("abcd"):
        Image.fromarray(np.full((6, 8, 3), 20 * number, np.uint8)).save(folder / f"{name}.png")
    return folder


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "bundle"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"graph")
    (folder / "variables" / "variables.index").write_bytes(b"weights")
    (folder / METADATA).write_text("{}")
    return folder


class Network:
    """Calls a function of the number of images that it was given, and answers."""

    def __init__(self, stop_at: int | None = None):
        self.stop_at = stop_at
        self.calls = 0

    def __call__(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        if self.calls == self.stop_at:
            raise KeyboardInterrupt
        self.calls += 1
        probability = tf.cast(images[..., 0], tf.float32) / 255
        return {"probability": probability, "predictive_entropy": 0.5 * probability}


def predict(network: Network, images: Path, bundle: Path, out: Path, settings=SETTINGS) -> list:
    sources = find_sources([images])
    run = open_run(out, application="lane", bundle=bundle, settings=settings, sources=sources)
    predictor = LanePredictor(network, out, settings)
    return predict_files(LanePrediction, predictor, sources, out, left_out=predictor.left_out, run=run)


def contents(out: Path) -> dict[str, bytes]:
    """Every file but the table with the seconds and the records that repeat them."""
    others = ("predictions.csv", RECORDS)
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*.*") if p.name not in others}


def without_seconds(out: Path) -> list[str]:
    lines = (out / "predictions.csv").read_text().splitlines()
    column = lines[0].split(",").index("seconds")
    return [",".join(cell for i, cell in enumerate(line.split(",")) if i != column) for line in lines]


def test_the_same_command_skips_what_is_predicted(images, bundle, tmp_path):
    (images / "broken.png").write_bytes(b"broken")
    once = Network()
    predict(once, images, bundle, tmp_path / "once")
    with pytest.raises(KeyboardInterrupt):
        predict(Network(stop_at=2), images, bundle, tmp_path / "twice")
    with (tmp_path / "twice" / RECORDS).open("a") as records:
        records.write('{"file": "cut o')  # a kill in the middle of a line
    rest = Network()
    predict(rest, images, bundle, tmp_path / "twice")
    assert (once.calls, rest.calls) == (4, 2)
    assert contents(tmp_path / "once") == contents(tmp_path / "twice")
    assert without_seconds(tmp_path / "once") == without_seconds(tmp_path / "twice")
    before = (tmp_path / "twice" / "predictions.csv").read_bytes()
    again = Network()
    predict(again, images, bundle, tmp_path / "twice")
    assert (again.calls, before) == (0, (tmp_path / "twice" / "predictions.csv").read_bytes())


class Together:
    """Answers for a file when as many others are asked about at the same time as there are threads."""

    def __init__(self, threads: int):
        self.barrier = threading.Barrier(threads, timeout=30)

    def __call__(self, source: Source):
        self.barrier.wait()
        if source.path.name == "b.png":
            raise UnreadableSourceError("b.png: broken")
        if source.path.name == "d.png":
            raise InputError("the disk is full")
        yield LanePrediction(file=source.path.name, height=ord(source.path.name[0]))


def test_threads_predict_several_files_at_a_time_and_keep_their_order(images, bundle, tmp_path):
    sources, out = find_sources([images]), tmp_path / "out"
    run = open_run(out, application="lane", bundle=bundle, settings=SETTINGS, sources=sources)
    predictor = Together(threads=2)
    remote = in_threads(2, predictor, LanePrediction, out)
    with pytest.raises(InputError, match="the disk is full"):
        predict_files(LanePrediction, predictor, sources, out, run=run, remote=remote)
    rows = list(csv.DictReader((out / "predictions.csv").read_text().splitlines()))
    assert [(Path(row["file"]).name, row["height"], row["status"]) for row in rows] == [
        ("a.png", "97", "ok"),
        ("b.png", "", "b.png: broken"),
        ("c.png", "99", "ok"),
    ]
    run = open_run(out, application="lane", bundle=bundle, settings=SETTINGS, sources=sources)
    assert [Path(record.file).name for record in run.kept.values()] == ["a.png", "c.png"]


def test_the_summary_tells_what_was_kept_from_what_is_new(images, bundle, tmp_path):
    (images / "d.png").rename(tmp_path / "d.png")
    predict(Network(), images, bundle, tmp_path / "out")
    (tmp_path / "d.png").rename(images / "d.png")
    sources = find_sources([images])
    for said in ("3 kept from before and 1 new", "4 kept from before and 0 new"):
        run = open_run(
            tmp_path / "out", application="lane", bundle=bundle, settings=SETTINGS, sources=sources
        )
        predictor = LanePredictor(Network(), tmp_path / "out", SETTINGS)
        console = Console(file=StringIO(), width=400)
        predict_sources(LanePrediction, predictor, sources, tmp_path / "out", console, run=run)
        assert f"4 predictions in {tmp_path / 'out'}, {said}, " in console.file.getvalue()


def test_a_stop_keeps_the_rows_of_files_that_come_later(images, bundle, tmp_path):
    out = tmp_path / "out"
    predict(Network(), images, bundle, out)
    for name in ("a1", "b1"):
        Image.fromarray(np.zeros((6, 8, 3), np.uint8)).save(images / f"{name}.png")
    with pytest.raises(KeyboardInterrupt):
        predict(Network(stop_at=1), images, bundle, out)
    files = [Path(line.split(",")[0]).stem for line in without_seconds(out)[1:]]
    assert files == ["a", "a1", "b", "c", "d"]


def test_files_without_their_outputs_are_predicted_again(images, bundle, tmp_path, caplog):
    out = tmp_path / "out"
    predict(Network(), images, bundle, out)
    before = contents(out)
    next(out.rglob("*/a*.png")).unlink()
    next(out.rglob("*/c*.png")).write_bytes(b"cut off")
    network = Network()
    predict(network, images, bundle, out)
    assert network.calls == 2
    assert "2 files are predicted again" in caplog.text
    assert contents(out) == before
    predict(network, images, bundle, out)
    assert network.calls == 2


def test_outputs_that_only_a_worker_sees_stop_the_run(images, bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(prediction_run, "_SHARED_SECONDS", 0.0)

    def unshared(source, record):
        if source.stem == "b":
            next((tmp_path / "out").rglob("*/b*.png")).unlink()
        return record

    with pytest.raises(
        InputError, match=r"b.*\.png: a worker .*--out must be a folder that all workers share"
    ):
        predict_elsewhere(unshared, images, bundle, tmp_path / "out", Network())
    network = Network()
    predict(network, images, bundle, tmp_path / "out")
    assert network.calls == 3


def test_what_could_not_be_read_is_tried_again(images, bundle, tmp_path):
    (images / "b.png").write_bytes(b"broken")
    predict(Network(), images, bundle, tmp_path / "out")
    Image.fromarray(np.zeros((6, 8, 3), np.uint8)).save(images / "b.png")
    network = Network()
    lines = predict(network, images, bundle, tmp_path / "out")
    assert (network.calls, [line.status for line in lines]) == (1, ["ok"] * 4)
    assert not (tmp_path / "out" / "skipped.csv").exists()


def test_what_was_left_out_is_remembered(images, bundle, tmp_path):
    out, sources = tmp_path / "out", find_sources([images])
    said = []
    for _ in range(2):
        run = open_run(out, application="lane", bundle=bundle, settings=SETTINGS, sources=sources)
        left_out: list[Skipped] = []

        def lines(source, left_out=left_out):
            left_out.append(Skipped(source.path, f"{source.path}: frame 3 is damaged"))
            yield LanePrediction(str(source.path), referred=False, seconds=0.5)

        predict_files(LanePrediction, lines, sources, out, left_out=left_out, run=run)
        said.append((out / "skipped.csv").read_text())
    assert said[0] == said[1]
    assert said[0].count("frame 3 is damaged") == 4


def test_other_tables_of_costs_are_refused_without_printing_them(images, bundle, tmp_path):
    def predict_by(**costs: float) -> None:
        tables = {
            name: CostTable(
                classes=("no", "yes"), decisions=("no", "yes"), values=((0.0, 1.0), (missed, 0.0))
            )
            for name, missed in costs.items()
        }
        sources, settings = find_sources([images]), LabelPredictSettings(costs=tables)
        out = tmp_path / "out"
        run = open_run(out, application="multilabel", bundle=bundle, settings=settings, sources=sources)
        predict_files(LanePrediction, LanePredictor(Network(), out, SETTINGS), sources, out, run=run)

    predict_by(red=2.0, dark=3.0)
    predict_by(red=2.0, dark=3.0)
    for other in ({"red": 2.0, "dark": 4.0}, {}):
        with pytest.raises(InputError, match=r"already holds predictions by other costs\. Run the command"):
            predict_by(**other)


def test_another_bundle_setting_or_file_is_refused(images, bundle, tmp_path):
    out = tmp_path / "out"
    predict(Network(), images, bundle, out)
    changed = PredictSettings(threshold=0.25)
    with pytest.raises(InputError, match=r"already holds predictions by threshold=0\.5 instead of 0\.25"):
        predict(Network(), images, bundle, out, changed)
    before = (images / "c.png").read_bytes()
    (images / "c.png").write_bytes(before + b" ")
    with pytest.raises(InputError, match=r"c\.png: has changed since .*out was predicted"):
        predict(Network(), images, bundle, out)
    (images / "c.png").unlink()
    with pytest.raises(InputError, match=r"predictions of .*c\.png as c, which is not among the files"):
        predict(Network(), images, bundle, out)
    (images / "c.png").write_bytes(before)
    digest = bundle_sha256(bundle)
    (bundle / METADATA).write_text((bundle / METADATA).read_text() + " ")
    assert bundle_sha256(bundle) != digest
    with pytest.raises(InputError, match="already holds predictions by another bundle"):
        predict(Network(), images, bundle, out)


def test_predictions_without_a_record_and_damaged_records_are_refused(images, bundle, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "predictions.csv").touch()
    values = {"inputs": [images], "model": None, "out": out}
    for refuse in (lambda: predict(Network(), images, bundle, out), lambda: check_paths("predict", values)):
        with pytest.raises(InputError, match=r"already holds predictions\. Give another --out"):
            refuse()
    (out / "predictions.csv").unlink()
    predict(Network(), images, bundle, out)
    check_paths("predict", values)
    first, *others = (out / RECORDS).read_text().splitlines(keepends=True)
    record = json.loads(first)
    [line] = record["lines"]
    for broken in (
        [],
        {**record, "lines": []},
        {**record, "lines": [{"x": 1}]},
        {**record, "lines": [{**line, "x": 1}]},
        {**record, "lines": [{**line, "status": None}]},
        {**record, "sha256": 1},
        {**record, "files": [["a.png"]]},
    ):
        (out / RECORDS).write_text("".join([json.dumps(broken), "\n", *others]))
        with pytest.raises(InputError, match=r"predict_run\.jsonl: is damaged .*Give another --out"):
            predict(Network(), images, bundle, out)
    (out / RECORDS).write_bytes(b"\xff\n")
    with pytest.raises(InputError, match=r"predict_run\.jsonl: is damaged"):
        predict(Network(), images, bundle, out)
    for text in ("{", "[]", '{"settings": [1]}'):
        (out / "predict_run.json").write_text(text)
        with pytest.raises(InputError, match=r"predict_run\.json: is damaged .*Give another --out"):
            predict(Network(), images, bundle, out)


def test_the_run_file_says_what_predicted_the_folder(images, bundle, tmp_path):
    predict(Network(), images, bundle, tmp_path / "out")
    said = json.loads((tmp_path / "out" / "predict_run.json").read_text())
    assert said["application"] == "lane"
    assert said["settings"] == SETTINGS.model_dump(mode="json")
    assert said["bundle"] == bundle_sha256(bundle)


def test_nothing_predicted_leaves_no_run_file(images, bundle, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        predict(Network(stop_at=0), images, bundle, tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*.*"))


def predict_elsewhere(elsewhere, images: Path, bundle: Path, out: Path, network: Network) -> list:
    """Predict by what `elsewhere(source, record)` yields of each source, given what was predicted of it."""
    sources = find_sources([images])
    run = open_run(out, application="lane", bundle=bundle, settings=SETTINGS, sources=sources)

    def remote(asked):
        predictor = LanePredictor(network, out, SETTINGS)
        for source in asked:
            yield elsewhere(source, recorded(LanePrediction, predictor, out, source))

    return predict_files(LanePrediction, None, sources, out, run=run, remote=remote)


def test_a_lost_cluster_keeps_what_is_done_and_the_same_command_goes_on(images, bundle, tmp_path):
    def lost(source, record):
        if source.stem == "c":
            raise ClusterLost("the scheduler no longer answers")
        return record

    out = tmp_path / "out"
    predict(Network(), images, bundle, tmp_path / "once")
    with pytest.raises(ClusterLost):
        predict_elsewhere(lost, images, bundle, out, Network())
    assert len(without_seconds(out)) == 3
    rest = Network()
    predict_elsewhere(lambda _, record: record, images, bundle, out, rest)
    assert rest.calls == 2
    assert contents(tmp_path / "once") == contents(out)
    assert without_seconds(tmp_path / "once") == without_seconds(out)


def test_a_worker_refuses_another_bundle_at_the_same_path(bundle, tmp_path):
    recipe = PredictorFactory(
        make_predictor, LanePrediction, "lane", bundle, "0" * 64, SETTINGS, tmp_path / "out"
    )
    with pytest.raises(InputError, match=r"bundle: a worker sees something else at this path"):
        recipe.open()


def test_a_file_that_ends_every_worker_is_named_and_tried_again(images, bundle, tmp_path):
    def deadly(source, record):
        return Skipped(source.path, f"{source.path}: every worker ended") if source.stem == "b" else record

    out = tmp_path / "out"
    lines = predict_elsewhere(deadly, images, bundle, out, Network())
    assert [line.status for line in lines] == ["ok", f"{images / 'b.png'}: every worker ended", "ok", "ok"]
    assert (out / "skipped.csv").read_text().count("every worker ended") == 1
    predict(Network(), images, bundle, out)
    assert not (out / "skipped.csv").exists()


def test_files_of_one_source_count_by_names_contents_and_order(images):
    a, b = images / "a.png", images / "b.png"

    def digest(*files: Path) -> str:
        return source_sha256(Source(images, "images", files=files))

    found = [digest(a, b), digest(b, a), digest(a)]
    a.rename(images / "c.png")
    found += [digest(images / "c.png", b), digest(a, b)]  # the last one cannot be read
    (images / "c.png").rename(a)
    b.write_bytes(b"other")
    found += [digest(a, b)]
    assert len(set(found)) == len(found)
