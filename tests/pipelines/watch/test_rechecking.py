"""`gpimaging recheck` as a user calls it."""

import numpy as np
import pytest
from typer.testing import CliRunner

from pipelines.bundles.guarantees import GuaranteeRecord
from pipelines.cli import make_app

from .conftest import THRESHOLD, write_bundle


def recheck(place, labels: list[str], *, entropy=None, header="image,class", settings=None, **options):
    table = place.predictions("new", [0.5] * len(labels), entropy=entropy, settings=settings)
    path = place.folder / "labels.csv"
    rows = [f"new/{number}.png,{label}" for number, label in enumerate(labels)]
    path.write_text("\n".join([header, *rows]))
    return place.run("recheck", table, labels=path, **{"max_error": 0.02, **options})


def test_kept_where_nothing_is_wrong(place):
    done = recheck(place, ["benign"] * 170)
    assert done.exit_code == 0, done.output
    assert (
        "of 170 labelled images 170 are kept (entropy at most 0.3 nats); of the 170 that count 0 are wrong"
        in done.output
    )
    assert "kept: at most 0.02 of these are wrong here, with 95% confidence" in done.output


def test_broken_ends_with_3(place):
    done = recheck(place, ["benign", "malignant", "other"] * 5)
    assert done.exit_code == 3
    assert "broken: more than 0.02" in done.output


def test_not_known_yet(place):
    done = recheck(place, ["benign"] * 60)
    assert done.exit_code == 0
    assert "not known yet: about 109 more labels that count" in done.output


def test_what_the_guarantee_refers_may_be_wrong(place):
    entropy = np.where(np.arange(300) < 200, THRESHOLD, THRESHOLD + 1e-4)
    done = recheck(place, ["benign"] * 200 + ["malignant"] * 100, entropy=entropy)
    assert "of 300 labelled images 200 are kept" in done.output
    assert "kept: " in done.output


def test_images_of_few_groups_say_little(place):
    labels = [f"benign,{number % 20}" for number in range(400)]
    done = recheck(place, labels, header="image,class,group")
    assert "not known yet: about" in done.output


def test_groups_are_asked_for_where_the_guarantee_counts_them(place):
    place.bundle.rename(place.folder / "other")
    record = GuaranteeRecord(
        confidence=0.95,
        judged="images",
        units=200,
        noun="groups of images",
        binomial=False,
        thresholds=((0.02, 0.3),),
    )
    write_bundle(place.bundle, guarantee=record)
    note = "was given by groups of images"
    assert note in recheck(place, ["benign"] * 5).output
    assert note not in recheck(place, ["benign,a"] * 5, header="image,class,group").output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_error": 0.001}, "cannot be guaranteed"),
        ({"max_error": 0}, "max-error"),
        ({"max_error": 5}, "max-error"),
    ],
)
def test_guarantees_that_the_bundle_does_not_give(place, options, message):
    done = recheck(place, ["benign"], **options)
    assert done.exit_code == 2
    assert message in done.output


def test_a_bundle_without_guarantees(place):
    place.bundle.rename(place.folder / "other")
    write_bundle(place.bundle, guarantee=None)
    done = recheck(place, ["benign"])
    assert done.exit_code == 2
    assert "holds no guarantees. Train on with --resume" in done.output


def test_a_bundle_of_numbers_is_no_case_for_it(place):
    table = place.predictions("new", [0.5])
    (place.folder / "labels.csv").write_text("image,class\nnew/0.png,benign")
    place.bundle.rename(place.folder / "other")
    write_bundle(place.bundle, guarantee=None, class_names=())
    done = place.run("recheck", table, labels=place.folder / "labels.csv", max_error=0.02)
    assert done.exit_code == 2
    assert "predicts no classes" in done.output


def test_guarantees_of_classes_are_of_what_predict_kept(place):
    settings = {"max_error": ["malignant=0.1"], "max_false": ["benign=0.1"]}
    options = {"max_error": "malignant=0.1", "settings": settings}  # all are called benign, and kept
    done = recheck(place, ["malignant"] * 5 + ["benign"] * 60, **options)
    assert done.exit_code == 3
    assert (
        "at most 10 % of the class malignant are kept as another class: of 65 labelled images 65"
        in done.output
    )
    assert "of the 5 that count 5 are wrong." in done.output
    false = {"max_false": "benign=0.1", "settings": settings}
    done = recheck(place, ["benign"] * 60, **false, max_error="malignant=0.1")
    assert done.exit_code == 0
    assert "at most 10 % of those kept as benign are of another class: of 60 labelled images" in done.output
    assert "of the 60 that count 0 are wrong." in done.output
    assert "kept: at most 0.1" in done.output
    assert "of the 0 that count 0 are wrong." in done.output


def test_guarantees_that_predict_did_not_give_cannot_be_rechecked(place):
    done = recheck(place, ["benign"], max_error="malignant=0.1")
    assert done.exit_code == 2
    assert "does not say that it was predicted with --max-error malignant=0.1" in done.output
    assert recheck(place, ["benign"], max_error="malign=0.1").exit_code == 2


def test_several_guarantees_are_of_what_predict_kept_by_all_of_them(place):
    settings = {"max_error": ["0.1", "malignant=0.1"]}
    done = recheck(place, ["benign"] * 40, entropy=[0.6] * 40, settings=settings, max_error="0.1")
    assert "of 40 labelled images 0 are kept (entropy at most 0.5 nats)" in done.output
    table = place.predictions("new", [0.5] * 40, entropy=[0.6] * 40, settings=settings)
    (place.folder / "labels.csv").write_text(
        "image,class\n" + "".join(f"new/{n}.png,benign\n" for n in range(40))
    )
    both = ["--max-error=0.1", "--max-error=malignant=0.1", f"--labels={place.folder / 'labels.csv'}"]
    arguments = ["recheck", f"--model={place.bundle}", *both, "--predictions", str(table)]
    done = CliRunner().invoke(make_app(), arguments, env={"COLUMNS": "300"})
    assert "of 40 labelled images 40 are kept (not referred)" in done.output
    assert "label referred ones as well" in done.output


@pytest.mark.parametrize(
    ("cell", "said"),
    [("TRUE", "of 1 labelled images 1 are kept (entropy"), ("WAHR", "expected one of benign, malignant")],
)
def test_tables_that_other_programs_saved_again(place, cell, said):
    table = place.predictions("new", [0.5, 0.5])
    table.write_text(table.read_text().replace("false", cell))
    (place.folder / "labels.csv").write_text("image,class\nnew/0.png,benign\n")
    done = place.run("recheck", table, labels=place.folder / "labels.csv", max_error=0.02)
    assert said in done.output
