"""Digits as folders of classes, the table of heads of DenseNet-40, and calls that were interrupted."""

import json

import cv2
import numpy as np

from benchmarks import densenet_digits
from benchmarks.densenet_digits import scores_of, table, write_digits


def test_digits_become_folders_of_classes_and_only_the_test_part_judges(tmp_path):
    images = np.arange(12, dtype=np.uint8)[:, None, None] * np.ones((1, 28, 28), np.uint8)
    labels = np.arange(12, dtype=np.uint8) % 3
    file = tmp_path / "mnist.npz"
    np.savez(file, x_train=images[:6], y_train=labels[:6], x_test=images[6:], y_test=labels[6:])
    listed = write_digits(file, tmp_path, 4, seed=0)
    written = sorted(path.relative_to(tmp_path / "images").as_posix() for path in tmp_path.glob("images/*/*"))
    names = listed.read_text(encoding="utf-8").split()
    assert len(written) == 8
    assert sorted(names) == [name for name in written if "test" in name]
    for name in written:
        folder, part, number = name.removesuffix(".png").replace("/", "_").split("_")
        place = int(number) + (6 if part == "test" else 0)
        assert int(folder) == labels[place]
        assert (cv2.imread(str(tmp_path / "images" / name), cv2.IMREAD_GRAYSCALE) == place).all()


def test_a_row_is_the_mean_over_seeds_with_the_thesis_beside_it():
    cells = [
        {"methods": {"Linear": {"accuracy": accuracy, "nll": 0.1, "ece": 0.01}}} for accuracy in (0.9, 0.96)
    ]
    (row,) = table(cells)
    assert row["error, %"] == "7.00"
    assert row["seeds"] == 2
    assert row["thesis, CIFAR-10: error, %"].startswith("7.00 (300 epochs)")


def test_a_call_that_was_interrupted_is_resumed(tmp_path, monkeypatch):
    file = tmp_path / "mnist.npz"
    images, labels = np.zeros((4, 28, 28), np.uint8), np.arange(4, dtype=np.uint8)
    np.savez(file, x_train=images, y_train=labels, x_test=images, y_test=labels)
    steps = Steps()
    monkeypatch.setattr(densenet_digits.gpimaging, "classify", steps)
    for _ in range(2):
        assert scores_of(file, tmp_path / "work", 2, seed=0) == {"Linear": {"nll": 0.5}}
    assert steps.calls == [("prepare", None), ("train", False), ("train", True)]


class Steps:
    """The steps of `classify`, which refuse a folder that exists, as the real ones do."""

    def __init__(self):
        self.calls = []

    def prepare(self, *, out, **_):
        out.mkdir()
        self.calls.append(("prepare", None))

    def train(self, *, out, resume, **_):
        out.mkdir(exist_ok=resume)
        self.calls.append(("train", resume))

    def evaluate(self, *, out, **_):
        out.mkdir()
        metrics = {"methods": {"Linear": {"scores": {"nll": 0.5}}}}
        (out / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
