"""The bundle that `gpimaging recheck --out` writes: other thresholds, and the rest as it was."""

import hashlib
import json

import numpy as np
import pytest

from pipelines.bundles.metadata import load_metadata
from pipelines.scores.guarantee_thresholds import SelectiveErrors, referral_threshold
from pipelines.scores.held_out import read_held_out

from .conftest import write_bundle
from .test_rechecking import recheck

NUMBER = 400
ENTROPY = np.round(np.linspace(0.0, 0.69, NUMBER), 4)


@pytest.fixture
def bundle(place):
    """The bundle of the place with files, as an export writes them."""
    for path in place.bundle.iterdir():
        path.unlink()
    place.bundle.rmdir()
    contents = {"saved_model.pb": b"graph", "variables/data": b"weights", "held_out.npz": b"old"}
    contents |= {"metrics.json": b"{}", "config.yaml": b"head: hgp"}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    write_bundle(place.bundle, sha256=digests, versions={"gpimaging": "0.1.0"})
    (place.bundle / "variables").mkdir()
    for name, content in contents.items():
        (place.bundle / name).write_bytes(content)
    return place.bundle


def labels() -> list[str]:
    """All are called benign: of the most uncertain quarter one of three is wrong."""
    return ["malignant" if row > 300 and row % 3 == 0 else "benign" for row in range(NUMBER)]


def test_new_thresholds_are_those_of_the_labelled_images(place, bundle, tmp_path):
    done = recheck(place, labels(), entropy=ENTROPY, out=tmp_path / "anew")
    assert done.exit_code == 0, done.output
    assert "anew guarantees by the 400 labelled images of" in done.output
    anew = load_metadata(tmp_path / "anew")
    wrong = np.array([label != "benign" for label in labels()], float)
    expected = referral_threshold(SelectiveErrors(ENTROPY, wrong, np.arange(NUMBER)), 0.02).threshold
    assert dict(anew.guarantee.thresholds)[0.02] == pytest.approx(expected)
    assert ENTROPY[300] < expected < ENTROPY[330]  # the old one was .3
    assert (anew.guarantee.units, anew.guarantee.noun) == (NUMBER, "labelled images")
    assert "400 labelled images of labels.csv" in anew.training_data["guarantees by"]
    assert "400 labelled images of labels.csv" in (tmp_path / "anew" / "model_card.md").read_text()
    held_out = read_held_out(tmp_path / "anew" / "held_out.npz")
    assert held_out.error.sum() == wrong.sum()
    np.testing.assert_allclose(held_out.probability, np.tile([0.9, 0.1], (NUMBER, 1)), atol=1e-6)
    for name, digest in anew.sha256.items():
        assert hashlib.sha256((tmp_path / "anew" / name).read_bytes()).hexdigest() == digest
    assert (tmp_path / "anew" / "variables" / "data").read_bytes() == b"weights"
    before = json.loads((bundle / "metadata.json").read_text())
    after = json.loads((tmp_path / "anew" / "metadata.json").read_text())
    assert {key for key in after if after[key] != before[key]} == {"guarantee", "training_data", "sha256"}


@pytest.mark.usefixtures("bundle")
def test_groups_stay_together(place, tmp_path):
    rows = [f"{label},{number // 2}" for number, label in enumerate(labels())]
    recheck(place, rows, header="image,class,group", entropy=ENTROPY, out=tmp_path / "anew")
    guarantee = load_metadata(tmp_path / "anew").guarantee
    assert (guarantee.units, guarantee.noun) == (NUMBER // 2, "labelled groups of images")
    assert not guarantee.binomial


@pytest.mark.usefixtures("bundle")
def test_images_of_no_known_class_leave_guarantees_of_all_alone(place, tmp_path):
    found = ["other" if label == "malignant" else label for label in labels()]
    recheck(place, found, entropy=ENTROPY, out=tmp_path / "anew")
    held_out = read_held_out(tmp_path / "anew" / "held_out.npz")
    assert not held_out.has_classes
    assert held_out.error.sum() == sum(label == "other" for label in found)


@pytest.mark.usefixtures("bundle")
def test_nothing_is_written_where_nothing_can_be_guaranteed(place, tmp_path):
    done = recheck(place, ["malignant"] * 20, out=tmp_path / "anew")
    assert done.exit_code == 2
    assert "no share of wrong ones can be guaranteed here" in done.output
    assert not (tmp_path / "anew").exists()


def test_a_bundle_that_lacks_a_file_is_named(place, bundle, tmp_path):
    (bundle / "variables" / "data").unlink()
    done = recheck(place, labels(), entropy=ENTROPY, out=tmp_path / "anew")
    assert done.exit_code == 2
    assert "variables/data is missing. Restore the bundle" in done.output
    assert not (tmp_path / "anew").exists()


@pytest.mark.usefixtures("bundle")
def test_no_folder_is_overwritten(place, tmp_path):
    (tmp_path / "anew").mkdir()
    (tmp_path / "anew" / "mine").touch()
    done = recheck(place, labels(), entropy=ENTROPY, out=tmp_path / "anew")
    assert done.exit_code == 2
    assert (tmp_path / "anew" / "mine").exists()
