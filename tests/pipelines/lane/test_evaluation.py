"""Judging a lane run, and the models and pictures that needs."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.lane.dataset import lane_records
from data_prep.lane.manifest import LaneManifest
from data_prep.prepared.manifest import load_manifest
from data_prep.splits.divide import Splits, manifest_splits
from gpmodels import HGPHead, LinearHead, SVGPHead
from pipelines.evaluation import evaluate as head_evaluation
from pipelines.evaluation.evaluate import judge
from pipelines.lane import application as lane_application
from pipelines.lane.application import LANE, LaneData
from pipelines.lane.pictures import LanePanels, select_gallery
from pipelines.lane.settings import LaneRun, TrainSettings
from pipelines.runs.application import JudgedExample
from pipelines.runs.description import load_run
from pipelines.runs.models import load_model, make_head, make_model, momentum_for, run_predictors
from pipelines.runs.predictors import Predictor
from tests.pipelines.tiny_lane import SETTINGS, SIZE, job


@pytest.fixture(scope="module")
def run(lane_run: Path) -> LaneRun:
    return load_run(lane_run, LaneRun)


@pytest.fixture(scope="module")
def manifest(lane_data: Path) -> LaneManifest:
    return load_manifest(lane_data, LaneManifest)


@pytest.fixture(scope="module")
def splits(manifest: LaneManifest) -> Splits:
    return manifest_splits(manifest, selection_fraction=SETTINGS.selection_fraction)


@pytest.fixture(scope="module")
def predictors(lane_run: Path) -> list[Predictor]:
    return run_predictors(job(lane_run))


# Models -----------------------------------------------------------------------------------------------------


def test_heads_follow_the_settings(run):
    settings = TrainSettings(
        num_experts=4, num_inducing=7, kernel="matern52", global_weight=0.5, expert_variance="thesis"
    )
    linear, svgp, hgp = (make_head(name, LANE, settings, run) for name in ("linear", "svgp", "hgp"))
    assert isinstance(linear, LinearHead)
    assert type(svgp) is SVGPHead
    assert isinstance(hgp, HGPHead)
    assert (linear.name, svgp.name, hgp.name) == ("linear", "svgp", "hgp")
    expected = {"num_inducing": 7, "kernel": "matern52"}
    assert svgp.get_config().items() >= expected.items()
    expected |= {"num_experts": 4, "global_weight": 0.5, "expert_variance": "thesis"}
    assert hgp.get_config().items() >= expected.items()
    deep = {
        "output_kernel": "linear",
        "hidden_posterior": "point",
        "hidden_lengthscales": "median",
        "hidden_kl_weight": 0.1,
    }
    dfgp = make_head("dfgp", LANE, settings.model_copy(update=deep), run)
    assert dfgp.get_config().items() >= (deep | {"num_inducing": 7, "kernel": "matern52"}).items()


def test_models_follow_the_run(run):
    model = make_model("hgp", LANE, SETTINGS, run)
    assert model.num_data == run.num_data
    assert model(np.zeros((1, *SIZE, 3), np.float32))["probability"].shape == (1, *SIZE)


@pytest.mark.parametrize(
    ("steps", "momentum"), [(1, 0.9), (50, 0.9), (100, 0.95), (500, 0.99), (10_000, 0.99), (0, 0.9)]
)
def test_momentum_looks_back_over_a_fifth_of_an_epoch(steps, momentum):
    assert momentum_for(steps) == pytest.approx(momentum)


@pytest.mark.parametrize(
    ("run", "settings"), [({"num_data": 0}, {}), ({}, {"num_inducing": 99_999_999_999_999})]
)
def test_a_run_that_describes_no_model_is_refused(lane_run, run, settings):
    trained = job(lane_run)
    lying = replace(
        trained,
        run=trained.run.model_copy(update=run),
        settings=trained.settings.model_copy(update=settings),
    )
    with pytest.raises(InputError, match="describe no model that can be made") as caught:
        load_model(lying, "hgp")
    assert str(lane_run) in str(caught.value)


@pytest.mark.slow
def test_a_model_is_loaded_with_the_weights_of_its_best_epoch(lane_run, lane_data, manifest, splits):
    """Its loss, or a GP's NLL, on the selection images comes out again, and no epoch has a better one."""
    data = LaneData(lane_data, manifest)
    for name, measure in (("linear", "loss"), ("hgp", "nll")):
        state = json.loads((lane_run / "heads" / name / "state.json").read_text())
        assert state["best"] <= min(epoch[f"selection_{measure}"] for epoch in state["history"])
        model = load_model(job(lane_run), name)
        model.compile()
        batches = LANE.inputs.plain_batches(data, splits.selection, SETTINGS, False)
        judged = model.evaluate(batches, verbose=0, return_dict=True)
        assert judged[measure] == pytest.approx(state["best"], rel=1e-5)


def test_a_head_without_checkpoint_cannot_be_loaded(lane_run):
    with pytest.raises(InputError, match=r"svgp/best\.weights\.h5 cannot be loaded"):
        load_model(job(lane_run), "svgp")


def test_a_checkpoint_of_another_network_cannot_be_loaded(lane_run):
    with pytest.raises(InputError, match="Expected a checkpoint of the same network and head"):
        load_model(replace(job(lane_run), settings=SETTINGS.model_copy(update={"network": "C2K3"})), "linear")


# Scores -----------------------------------------------------------------------------------------------------


def test_the_scores_of_an_epoch_equal_counting(lane_run, lane_data, manifest, splits):
    model = load_model(job(lane_run), "linear")
    f_measures, confidences, rights = [], [], []
    for _, image, mask, _ in lane_records(lane_data, manifest, splits.selection):
        probability = model(image[None].astype(np.float32))["probability"][0].numpy()[mask != 255]
        truth = mask[mask != 255] == 1
        found = probability >= 0.5
        f_measures.append(2 * (found & truth).sum() / (found.sum() + truth.sum()))
        confidences.append(np.maximum(probability, 1 - probability))
        rights.append(found == truth)
    confidence, right = np.concatenate(confidences), np.concatenate(rights)
    ece = 0.0
    for low in np.arange(15) / 15:
        chosen = (confidence > low) & (confidence <= low + 1 / 15)
        if chosen.any():
            ece += chosen.mean() * abs(right[chosen].mean() - confidence[chosen].mean())
    scores = LANE.judge.selection_scores(model, LaneData(lane_data, manifest), splits.selection)
    assert scores == pytest.approx({"f_measure": np.mean(f_measures), "ece": ece}, abs=1e-4)


def test_the_rows_are_every_head_without_and_with_its_temperature(predictors, run):
    titles = ["Linear", "Linear + temperature", "HGP", "HGP + temperature"]
    assert [predictor.title for predictor in predictors] == titles
    linear, tempered, hgp, tempered_hgp = predictors
    assert set(linear.details) == {"training seconds"}
    assert tempered.details == {**linear.details, "temperature": round(run.temperature, 4)}
    assert hgp.details["experts"] in {1, 2}
    assert tempered_hgp.details == {**hgp.details, "temperature": round(run.temperatures["hgp"], 4)}
    shares = [int(share.rstrip("%")) for share in hgp.details["expert occupancy in training"].split(", ")]
    assert shares == sorted(shares, reverse=True)
    assert abs(sum(shares) - 100) <= 1


@pytest.mark.slow
def test_predictors_agree_with_their_models(predictors, lane_run, lane_data, run, manifest, splits):
    ((_, image, _, _), *_) = lane_records(lane_data, manifest, splits.test)
    batch = image[None].astype(np.float32)
    for predictor, name, temperature in zip(
        predictors, ("linear", "linear", "hgp", "hgp"), (1.0, run.temperature, 1.0, 1.0), strict=True
    ):
        maps, model = predictor.outputs(image), load_model(job(lane_run), name)
        expected = model(batch)["latent_mean"][0].numpy() / temperature
        np.testing.assert_allclose(maps["latent_mean"], expected, rtol=1e-3, atol=1e-4)
        assert {value.shape for value in maps.values()} == {SIZE}
    plain, tempered = (predictor.outputs(image) for predictor in predictors[2:])
    odds = np.log(plain["probability"]) - np.log1p(-plain["probability"])
    expected = 1.0 / (1.0 + np.exp(-odds / run.temperatures["hgp"]))
    np.testing.assert_allclose(tempered["probability"], expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(tempered["label"], plain["label"])


def test_judging_reads_one_image_at_a_time_and_keeps_scores_only(
    predictors, lane_data, manifest, splits, monkeypatch
):
    order = []
    names = splits.test + splits.train[:1]

    def examples() -> Iterator[JudgedExample]:
        for example in LANE.judge.examples(LaneData(lane_data, manifest), names):
            order.append("read")
            yield example

    real = lane_application.segmentation_record

    def score(*arguments: object) -> object:
        order.append("scored")
        return real(*arguments)

    monkeypatch.setattr(lane_application, "segmentation_record", score)
    result = judge(LANE.judge, predictors[0], examples())
    assert order == ["read", "scored"] * 3
    assert result.name == "Linear"
    assert result.statistics.names == tuple(sorted(names))
    assert result.counts["images"] == 3
    assert result.peak_memory_bytes > 1e8
    assert 0 < result.scores["f_measure"] <= 1


def test_the_clock_leaves_out_tracing(lane_data, manifest, splits):
    calls = []

    class SlowStart:
        title, details = "slow", {}

        def outputs(self, image: np.ndarray) -> dict[str, np.ndarray]:
            calls.append(image)
            clock.now += 100.0 if len(calls) == 1 else 2.0
            half = np.full(SIZE, 0.5, np.float32)
            return {"probability": half, "predictive_entropy": half, "mutual_information": half}

    class Clock:
        now = 0.0

        def perf_counter(self) -> float:
            return self.now

    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_evaluation, "time", clock)
        result = judge(
            LANE.judge, SlowStart(), LANE.judge.examples(LaneData(lane_data, manifest), splits.test)
        )
    assert result.seconds_per_image == 2.0


# Pictures ---------------------------------------------------------------------------------------------------


def test_the_gallery_shows_what_was_predicted(predictors, lane_data, manifest, splits, monkeypatch):
    monkeypatch.setattr(lane_application, "lane_gallery", lambda selection, images: (selection, images))
    data = LaneData(lane_data, manifest)
    result = judge(LANE.judge, predictors[-1], LANE.judge.examples(data, splits.test))
    strange = splits.test[:1]
    selection, images = LANE.judge.gallery(result, predictors[-1], data, 3, unfamiliar=strange)
    assert selection == replace(select_gallery(result, 3), unfamiliar=strange)
    assert set(images) == set(splits.test)
    for name, image, mask, _ in lane_records(lane_data, manifest, splits.test):
        shown, maps = images[name], predictors[-1].outputs(image)
        np.testing.assert_array_equal(shown.image, image)
        np.testing.assert_array_equal(shown.mask, mask)
        np.testing.assert_array_equal(shown.probability, maps["probability"])
        np.testing.assert_array_equal(shown.predictive_entropy, maps["predictive_entropy"])


@pytest.mark.parametrize(
    ("count", "shown"), [(0, []), (1, [0]), (2, [0, 5]), (3, [0, 2, 5]), (50, [0, 1, 2, 3, 4, 5])]
)
def test_panels_are_spread_over_the_names(lane_data, lane_run, manifest, splits, count, shown):
    names = splits.train
    assert len(names) == 6
    panels = LanePanels(lane_data, manifest, names, count)
    pictures = panels(load_model(job(lane_run), "linear")) if count else panels(None)
    assert list(pictures) == [f"images/{names[i]}" for i in shown]


def test_a_broken_head_folder_is_named(lane_run, tmp_path):
    copy = Path(shutil.copytree(lane_run, tmp_path / "run"))
    (copy / "heads" / "hgp" / "best.weights.h5").write_bytes(b"")
    with pytest.raises(InputError, match=rf"{copy}/heads/hgp/best\.weights\.h5 cannot be loaded"):
        run_predictors(job(copy))
