"""A small evaluation of three methods on made-up images, for the tests of what shows results."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipelines.lane.pictures import LaneImage
from pipelines.scores.results import Evaluation, MethodResult, compare, segmentation_result
from pipelines.scores.segmentation import segmentation_record

IMAGE_NAMES = tuple(f"scene {i}.png" for i in range(6))


def _image(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Picture, mask and log-odds of one image: a noisy ramp whose right half is lane."""
    random = np.random.default_rng(IMAGE_NAMES.index(name))
    logit = np.linspace(-6, 6, 24)[None, :] + random.normal(0, 2, (16, 24))
    mask = np.zeros((16, 24), np.uint8)
    mask[:, 12:] = 1
    mask[0] = 255
    reddish = np.array([200, 120, 40], np.uint8) + random.integers(0, 40, (16, 24, 3), np.uint8)
    return reddish, mask, logit


def _entropy(probability: np.ndarray) -> np.ndarray:
    return -probability * np.log(probability) - (1 - probability) * np.log1p(-probability)


def _result(name: str, sharpness: float, **costs: float | dict[str, float]) -> MethodResult:
    records = []
    for image in IMAGE_NAMES:
        _, mask, logit = _image(image)
        probability = 1 / (1 + np.exp(-sharpness * logit))
        uncertainty = {"predictive_entropy": _entropy(probability)}
        original_mask = np.kron(mask, np.ones((2, 2), np.uint8))
        records.append(segmentation_record(image, mask, probability, uncertainty, original_mask))
    return segmentation_result(name, records, **costs)


@pytest.fixture(scope="session")
def evaluation() -> Evaluation:
    results = (
        _result("linear", 3.0),
        _result("linear + temperature", 1.5, details={"temperature": 2.0}),
        _result("HGP", 1.0, seconds_per_image=0.25, peak_memory_bytes=1_500_000_000),
    )
    return Evaluation(
        "lane",
        results,
        tuple(compare(results[-1], results[:-1], resamples=50)),
        settings={"head": {"num_experts": 9, "pixels": None}, "size": [16, 24], "learning_rate": 0.001},
        data={"test_images": 6, "name": "<scenes> & more"},
        warnings=("2 files were skipped: <i>a</i>.png",),
    )


@pytest.fixture(scope="session")
def perfect_evaluation() -> Evaluation:
    """One method, no mistakes, nothing compared, nothing measured: most of the optional parts are missing."""
    mask = np.array([[0, 1]], np.uint8)
    record = segmentation_record("a", mask, np.array([[0.25, 0.75]]), {}, mask)
    return Evaluation("lane", (segmentation_result("linear", [record]),))


@pytest.fixture(scope="session")
def gallery_images() -> dict[str, LaneImage]:
    """Every image of `evaluation` with the prediction of its last method."""
    images = {}
    for name in IMAGE_NAMES:
        image, mask, logit = _image(name)
        probability = 1 / (1 + np.exp(-logit))
        images[name] = LaneImage(name, image, mask, probability, _entropy(probability))
    return images


Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Make a folder once for all processes of tests; whoever needs it meanwhile waits."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # of the folders of all processes
    shared = shared / "made_once"
    shared.mkdir(exist_ok=True)

    def made(name: str, make: Callable[[Path], object]) -> Path:
        folder, finished = shared / name, shared / f"{name}.finished"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not finished.exists():
                shutil.rmtree(folder, ignore_errors=True)  # what an error left
                make(folder)
                finished.touch()
        return folder

    return made


@pytest.fixture(scope="session")
def lane_data(once: Once) -> Path:
    """Ten prepared scenes; see `tiny_lane`."""
    from . import tiny_lane  # noqa: PLC0415 - TensorFlow, which the tests of reports do without

    return once("lane", tiny_lane.prepare) / "prepared"


@pytest.fixture(scope="session")
def lane_run(once: Once, lane_data: Path) -> Path:
    """A trained run; tests that change it work on a copy."""
    from . import tiny_lane  # noqa: PLC0415

    return once("run", lambda out: tiny_lane.train(lane_data, out))


@pytest.fixture(scope="session")
def lane_bundle(once: Once, lane_run: Path) -> Path:
    """The run's HGP head as a bundle; tests that change it work on a copy."""
    from . import tiny_lane  # noqa: PLC0415

    return once("bundle", lambda out: tiny_lane.export(lane_run, out))
