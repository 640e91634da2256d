"""Tables of votes for the class of an image."""

from pathlib import Path

import pytest
from PIL import Image

from data_prep.classify.manifest import VoteExample, VoteManifest
from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from data_prep.classify.votes import VoteTable, read_votes
from data_prep.errors import InputError
from data_prep.prepared.manifest import load_manifest

BY_ROWS = ("a.png,cat", "b.png,dog", "a.png,dog", "a.png,cat", "b.png,dog", "c.png,cat")


def write(folder: Path, header: str, *rows: str) -> Path:
    for shade, name in enumerate(sorted({row.split(",")[0] for row in rows})):
        Image.new("RGB", (4, 4), (40 * shade, 9 * shade, 0)).save(folder / name)
    table = folder / "table.csv"
    table.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return table


def read(folder: Path, header: str, *rows: str) -> VoteTable:
    return read_votes(folder, write(folder, header, *rows))


def test_every_row_is_a_vote(tmp_path):
    found = read(tmp_path, "image,class", *BY_ROWS)
    assert found.class_names == ("cat", "dog")
    assert [one.labels for one in found.sources] == [(2 / 3, 1 / 3), (0.0, 1.0), (1.0, 0.0)]
    assert [one.class_name for one in found.sources] == ["cat", "dog", "cat"]


@pytest.mark.parametrize("rows", [("a.png,2,1", "b.png,0,4"), ("a.png,0.5,0.25", "b.png,,1")])
def test_a_column_counts_the_votes_of_a_class_or_has_its_share(tmp_path, rows):
    found = read(tmp_path, "image,cat,dog", *rows)
    assert [one.labels for one in found.sources] == [(2 / 3, 1 / 3), (0.0, 1.0)]


def test_classes_are_in_the_order_of_their_names_whatever_that_of_the_columns(tmp_path):
    table = write(tmp_path, "image,dog,cat", "a.png,2,1", "b.png,0,3", "c.png,3,0", "d.png,0,1")
    settings = ClassifyPrepareSettings(votes=True, size=(8, 8), test_fraction=0.5)
    manifest = prepare_classify(tmp_path, tmp_path / "out", settings, table=table).manifest
    assert manifest.class_names == ("cat", "dog")
    assert manifest.targets(["a", "b"]) == [(1 / 3, 2 / 3), (1.0, 0.0)]
    assert [example.label for example in manifest.examples] == [1, 0, 1, 0]


def test_a_class_that_never_has_most_votes_is_kept(tmp_path):
    table = write(tmp_path, "image,cat,dog,fox", "a.png,2,0,1", "b.png,0,3,1", "c.png,3,0,0", "d.png,0,1,0")
    settings = ClassifyPrepareSettings(votes=True, size=(8, 8), test_fraction=0.5)
    result = prepare_classify(tmp_path, tmp_path / "out", settings, table=table)
    manifest = load_manifest(tmp_path / "out", VoteManifest)
    assert result.manifest == manifest
    assert manifest.class_names == ("cat", "dog", "fox")
    assert manifest.targets(["a"]) == [(2 / 3, 0.0, 1 / 3)]


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        ("image,cat,dog", ("a.png,2,many",), "line 2: dog has 'many' votes"),
        ("image,cat,dog", ("a.png,2,-1",), "line 2: dog has '-1' votes"),
        ("image,cat,dog", ("a.png,2,inf",), "line 2: dog has 'inf' votes"),
        ("image,cat", ("a.png,2",), "has votes for 1 classes"),
        ("image,class", ("a.png,cat", "b.png,cat"), "has votes for 1 classes"),
    ],
)
def test_what_are_no_votes_is_refused(tmp_path, header, rows, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, header, *rows)


def test_an_image_without_a_vote_or_with_two_groups_is_left_out(tmp_path):
    found = read(tmp_path, "image,cat,dog", "a.png,0,0", "b.png,1,0", "c.png,0,1")
    assert [one.name for one in found.sources] == ["b", "c"]
    assert "a has no vote" in found.skipped[0].reason
    rows = ("a.png,cat,x", "a.png,dog,y", "b.png,cat,x", "c.png,dog,y")
    found = read(tmp_path, "image,class,group", *rows)
    assert [one.name for one in found.sources] == ["b", "c"]
    assert "different rows" in found.skipped[0].reason


@pytest.mark.parametrize(
    ("header", "rows"), [("image,class", BY_ROWS), ("image,cat,dog", ("a.png,1,0", "b.png,0,1"))]
)
def test_classes_that_nobody_chose_can_be_added(tmp_path, header, rows):
    table = write(tmp_path, header, *rows)
    found = read_votes(tmp_path, table, ("dog", "bee", "cat"))
    assert found.class_names == ("bee", "cat", "dog")
    assert {one.labels[0] for one in found.sources} == {0.0}
    with pytest.raises(InputError, match="has votes for 'dog', which the setting classes does not name"):
        read_votes(tmp_path, table, ("cat", "dig"))


def test_votes_need_a_table(tmp_path):
    with pytest.raises(InputError, match="without --table there are no votes"):
        prepare_classify(tmp_path, tmp_path / "out", ClassifyPrepareSettings(votes=True))


def test_a_manifest_with_other_shares_is_refused(tmp_path):
    table = write(tmp_path, "image,class", *BY_ROWS)
    settings = ClassifyPrepareSettings(votes=True, size=(8, 8), test_fraction=1)
    manifest = prepare_classify(tmp_path, tmp_path / "out", settings, table=table).manifest
    for labels in ((0.5, 0.4), (1.0,), (1.5, -0.5)):
        examples = [
            *manifest.examples[:-1],
            VoteExample(**{**manifest.examples[-1].model_dump(), "labels": labels}),
        ]
        with pytest.raises(ValueError, match="not a share of the votes for each class"):
            VoteManifest(**{**manifest.model_dump(), "examples": examples})
    wrong = [one.model_copy(update={"label": 1 - one.label}) for one in manifest.examples]
    with pytest.raises(ValueError, match="is none of the classes with most votes"):
        VoteManifest(**{**manifest.model_dump(), "examples": wrong})
