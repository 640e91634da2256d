"""What TensorBoard shows, by reading the event files of a run back."""

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

from data_prep.lane.dataset import lane_records
from data_prep.lane.manifest import LaneManifest
from data_prep.prepared.manifest import load_manifest
from pipelines.lane.settings import LaneRun
from pipelines.runs.description import load_run
from pipelines.scores.pictures import probability_picture, truth_overlay, uncertainty_picture


class Events:
    """Tags and values of the event files in a folder, by tag and step."""

    def __init__(self, folder: Path) -> None:
        self._accumulator = EventAccumulator(str(folder), size_guidance={"tensors": 0})
        self._accumulator.Reload()

    @property
    def tags(self) -> set[str]:
        return set(self._accumulator.Tags()["tensors"])

    def kind(self, tag: str) -> str:
        return self._accumulator.SummaryMetadata(tag).plugin_data.plugin_name

    def values(self, tag: str) -> dict[int, np.ndarray]:
        return {e.step: tensor_util.make_ndarray(e.tensor_proto) for e in self._accumulator.Tensors(tag)}

    def scalars(self, tag: str) -> list[float]:
        return [float(value) for _, value in sorted(self.values(tag).items())]


@pytest.fixture(scope="module")
def hgp(lane_run: Path) -> Events:
    return Events(lane_run / "tensorboard" / "hgp")


def history(run: Path, name: str) -> list[dict[str, float]]:
    return json.loads((run / "heads" / name / "state.json").read_text())["history"]


SCALARS = {
    "bound/training",
    "bound_per_point/training",
    "bound_per_point/selection",
    "learning_rate",
    *(
        f"{quantity}/{part}"
        for quantity in ("expected_log_likelihood", "nll", "accuracy")
        for part in ("training", "selection")
    ),
    "f_measure/selection",
    "ece/selection",
}
UNITS = {"global", "expert_1", "expert_2"}


def test_every_tag_is_there_and_no_other(hgp):
    units = {f"{quantity}/{unit}" for quantity in ("kl", "median_lengthscale") for unit in UNITS}
    experts = {"occupancy/expert_1", "occupancy/expert_2"}
    scalars = {tag for tag in hgp.tags if hgp.kind(tag) == "scalars"}
    assert scalars == SCALARS | units | experts
    histograms = {tag for tag in hgp.tags if hgp.kind(tag) == "histograms"}
    assert histograms == {f"lengthscales/{unit}" for unit in UNITS}
    images = {tag for tag in hgp.tags if hgp.kind(tag) == "images"}
    assert len(images) == 1
    assert next(iter(images)).startswith("images/scene_")


def test_a_linear_head_has_neither_units_nor_experts(lane_run):
    events = Events(lane_run / "tensorboard" / "linear")
    assert {tag for tag in events.tags if events.kind(tag) == "scalars"} == SCALARS
    assert not {tag for tag in events.tags if events.kind(tag) == "histograms"}


def test_every_epoch_has_its_step(lane_run, hgp):
    assert set(hgp.values("learning_rate")) == {1, 2}
    assert set(Events(lane_run / "tensorboard" / "pretraining").values("learning_rate")) == {1}


def test_the_numbers_are_those_of_the_training(lane_run, hgp):
    epochs = history(lane_run, "hgp")
    num_data = load_run(lane_run, LaneRun).num_data
    expected = {
        "bound/training": [-numbers["loss"] * num_data for numbers in epochs],
        "bound_per_point/training": [-numbers["loss"] for numbers in epochs],
        "bound_per_point/selection": [-numbers["selection_loss"] for numbers in epochs],
        "learning_rate": [numbers["learning_rate"] for numbers in epochs],
        "nll/selection": [numbers["selection_nll"] for numbers in epochs],
        "nll/training": [numbers["nll"] for numbers in epochs],
        "accuracy/selection": [numbers["selection_accuracy"] for numbers in epochs],
        "f_measure/selection": [numbers["selection_f_measure"] for numbers in epochs],
        "ece/selection": [numbers["selection_ece"] for numbers in epochs],
        "expected_log_likelihood/training": [numbers["expected_log_likelihood"] for numbers in epochs],
    }
    for tag, values in expected.items():
        np.testing.assert_allclose(hgp.scalars(tag), values, rtol=1e-6, err_msg=tag)


def test_the_bound_is_the_likelihood_less_the_divergences(hgp, lane_run):
    """Once the weights hardly move within an epoch, here by a learning rate that ends at a hundredth."""
    num_data = load_run(lane_run, LaneRun).num_data
    kl = sum(hgp.scalars(f"kl/{unit}")[-1] for unit in UNITS)
    expected = hgp.scalars("expected_log_likelihood/selection")[-1] - kl / num_data
    np.testing.assert_allclose(hgp.scalars("bound_per_point/selection")[-1], expected, rtol=1e-5)


def test_occupancies_are_shares(hgp):
    for epoch in range(2):
        shares = [hgp.scalars(f"occupancy/expert_{k}")[epoch] for k in (1, 2)]
        assert sum(shares) == pytest.approx(1.0)
        assert min(shares) >= 0.0


def test_lengthscales_of_a_unit_are_its_own(hgp):
    """The median lies inside the histogram of its unit."""
    for unit in UNITS:
        buckets = hgp.values(f"lengthscales/{unit}")[2]
        median = hgp.scalars(f"median_lengthscale/{unit}")[-1]
        assert buckets[0, 0] <= median <= buckets[-1, 1]
        assert buckets[:, 2].sum() == 64


def test_panels_show_image_truth_probability_and_uncertainty_side_by_side(hgp, lane_data):
    (tag,) = (tag for tag in hgp.tags if tag.startswith("images/"))
    name = tag.removeprefix("images/")
    ((_, image, mask, _),) = lane_records(lane_data, load_manifest(lane_data, LaneManifest), [name])
    for step in (1, 2):
        width, height, png = hgp.values(tag)[step]
        picture = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
        assert picture.shape == (int(height), int(width), 3) == (16, 4 * 24 + 3 * 4, 3)
        first, second, third, fourth = (picture[:, 28 * i : 28 * i + 24] for i in range(4))
        np.testing.assert_array_equal(first, image)
        np.testing.assert_array_equal(second, truth_overlay(image, mask))
        assert is_of(third, probability_picture)
        assert is_of(fourth, uncertainty_picture)
        assert not is_of(third, uncertainty_picture)


def is_of(picture: np.ndarray, colours: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether all colours of a picture are of a colour map."""
    known = {tuple(colour) for colour in colours(np.linspace(0, 1, 4096)[None])[0].tolist()}
    return {tuple(colour) for colour in picture.reshape(-1, 3).tolist()} <= known
