"""Labels beside predictions: which belong together, and what of the labels cannot be used."""

import numpy as np
import pytest

from data_prep.errors import InputError
from pipelines.scores.guarantee_thresholds import SelectiveErrors
from pipelines.watch.labels import guarantee_losses, read_labelled

from .conftest import NAMES


def labelled(place, text, tables=None):
    path = place.folder / "labels.csv"
    path.write_text(text, encoding="utf-8")
    return read_labelled(tables or [place.predictions("new", [0.5] * 4)], path, NAMES)


@pytest.mark.parametrize(
    "header",
    ["image,class,group", "Filename,Label,group", "file,category,GROUP", "image_path,class name,group"],
)
def test_columns_have_the_names_that_other_commands_take(place, header):
    found, missing = labelled(place, f"{header}\nnew/1.png,malignant,p\nnew\\0.png,benign,q\n")
    assert [(one.label, one.predicted, one.group) for one in found] == [
        ("malignant", "benign", "p"),
        ("benign", "benign", "q"),
    ]
    assert missing == 0


def test_the_end_of_a_path_is_enough_where_it_is_of_one_image(place):
    tables = [place.predictions("new", [0.5] * 2), place.predictions("newer", [0.5] * 3)]
    found, missing = labelled(
        place, "image;class\n2.png;benign\n./new/1.png;benign\nx/1.png;benign\n", tables
    )
    assert len(found) == 2
    assert missing == 1
    inner = place.folder / "inner.csv"
    inner.write_text(tables[0].read_text().replace("new/", "old/new/"))
    assert len(labelled(place, "image,class\nnew/1.png,benign\n", [tables[0], inner])[0]) == 1
    with pytest.raises(InputError, match=r"line 2: new/1.png and newer/1.png both end in 1.png. Give more"):
        labelled(place, "image,class\n1.png,benign\n", tables)


def test_labels_that_are_not_known_yet_and_other_classes(place):
    found, missing = labelled(place, "image,class\n0.png,\n1.png,other\n2.png,benign\n9.png,benign\n")
    assert [one.label for one in found] == ["other", "benign"]
    assert missing == 1
    assert all(one.group is None for one in found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "image,class\n1.png,Benign\n",
            r"line 2: 'Benign' is no class of the bundle; expected one of benign, mal",
        ),
        ("image,class\n1.png,benign\nnew/1.png,benign\n", "line 3: new/1.png has a label before"),
        ("image,class\nnone.png,benign\n", "none of its 1 labels belongs to a prediction"),
        ("image,class\n", "none of its 0 labels"),
        ("image,class\n,benign\n", "none of its 1 labels"),
        ("picture,class\n1.png,benign\n", "no column image"),
        ("", "no column image, class"),
    ],
)
def test_labels_that_cannot_be_used(place, text, message):
    with pytest.raises(InputError, match=message):
        labelled(place, text)


@pytest.mark.parametrize("entropy", ["", "-1", "much", "nan"])
def test_predictions_that_cannot_be_used(place, entropy):
    table = place.predictions("new", [0.5])
    table.write_text(table.read_text().replace("benign,0.1,", f"benign,{entropy},"))
    with pytest.raises(InputError, match=f"new/0.png has the entropy '{entropy}'"):
        labelled(place, "image,class\n0.png,benign\n", [table])


def test_a_table_without_classes(place):
    table = place.folder / "predictions.csv"
    table.write_text("file,lane_fraction,status\na.png,0.5,ok\n")
    with pytest.raises(InputError, match="`recheck` takes predictions of images, snapshots or videos"):
        labelled(place, "image,class\na.png,benign\n", [table])


def test_two_predictions_of_an_image(place):
    table = place.predictions("new", [0.5])
    other = place.folder / "other.csv"
    other.write_text(table.read_text().replace("benign,0.1,", "malignant,0.1,"))
    found, _ = labelled(place, "image,class\n0.png,benign\n", [table, table])
    assert len(found) == 1
    with pytest.raises(InputError, match="another prediction before"):
        labelled(place, "image,class\n0.png,benign\n", [table, other])


def test_losses_are_those_by_which_the_guarantee_was_given():
    rng = np.random.default_rng(0)
    uncertainty, wrong = rng.random(40), rng.random(40) < 0.3
    unit = np.concatenate([np.arange(8), rng.integers(0, 8, 32)])
    errors = SelectiveErrors(uncertainty, wrong.astype(np.float64), unit)
    place = 20
    kept = uncertainty <= errors.thresholds[place]
    groups = [f"group {number}" for number in unit]
    losses = guarantee_losses(wrong.tolist(), kept.tolist(), groups, 0.1)
    assert sorted(losses - 0.1) == pytest.approx(sorted(errors.loss(0.1)[:, place]))


def test_images_without_a_group_are_independent_and_what_is_referred_says_nothing():
    losses = guarantee_losses(
        [True, False, True, True], [True, True, False, True], [None, None, None, "a"], 0.1
    )
    assert losses.tolist() == [1.0, 0.0, 1.0]
    assert guarantee_losses([True], [False], ["a"], 0.1).size == 0
