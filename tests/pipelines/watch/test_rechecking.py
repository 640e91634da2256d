"""`gpimaging recheck` as a user calls it."""

import numpy as np
import pytest

from pipelines.bundles.guarantees import GuaranteeRecord

from .conftest import THRESHOLD, write_bundle


def recheck(place, labels: list[str], *, entropy=None, header="image,class", **options):
    table = place.predictions("new", [0.5] * len(labels), entropy=entropy)
    path = place.folder / "labels.csv"
    rows = [f"new/{number}.png,{label}" for number, label in enumerate(labels)]
    path.write_text("\n".join([header, *rows]))
    return place.run("recheck", table, labels=path, **{"max_error": 0.02, **options})


def test_kept_where_nothing_is_wrong(place):
    done = recheck(place, ["benign"] * 170)
    assert done.exit_code == 0, done.output
    assert "keeps 170 (entropy at most 0.3 nats), of which 0 are wrong" in done.output
    assert "kept: at most 0.02 of what is kept here are wrong, with 95% confidence" in done.output


def test_broken_ends_with_3(place):
    done = recheck(place, ["benign", "malignant", "other"] * 5)
    assert done.exit_code == 3
    assert "broken: more than 0.02" in done.output


def test_not_known_yet(place):
    done = recheck(place, ["benign"] * 60)
    assert done.exit_code == 0
    assert "not known yet: about 109 more labels of kept images" in done.output


def test_what_the_guarantee_refers_may_be_wrong(place):
    entropy = np.where(np.arange(300) < 200, THRESHOLD, THRESHOLD + 1e-4)
    done = recheck(place, ["benign"] * 200 + ["malignant"] * 100, entropy=entropy)
    assert "Of 300 labelled images the guarantee of 0.02 keeps 200" in done.output
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
