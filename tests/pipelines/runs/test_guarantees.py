"""Guarantees that a run keeps: of which model they are, and files that nobody has checked."""

from types import SimpleNamespace

import pytest

from data_prep.errors import InputError
from pipelines.bundles.guarantees import GuaranteeRecord
from pipelines.runs.guarantees import (
    RUN_GUARANTEES,
    HeadGuarantee,
    RunGuarantees,
    keep_guarantee,
    possible_guarantee,
    read_guarantees,
)

RECORD = GuaranteeRecord(
    confidence=0.95, judged="images", units=200, noun="images", binomial=True, thresholds=((0.02, 0.3),)
)
SOURCE = {"head": "hgp", "temperature": 1.25, "weights_sha256": "0"}


def test_what_is_written_is_read_again_and_found_by_its_model_alone(tmp_path):
    written = RunGuarantees(heads=(HeadGuarantee(source=SOURCE, record=RECORD),))
    (tmp_path / RUN_GUARANTEES).write_text(written.model_dump_json())
    read = read_guarantees(tmp_path)
    assert read == written
    assert read.of(SOURCE) == RECORD
    assert read.of(SOURCE | {"temperature": 1.0}) is None
    assert read.of(SOURCE | {"pool_temperatures": {"images": 0.8}}) is None


def test_a_run_of_an_earlier_version_has_none(tmp_path):
    assert read_guarantees(tmp_path).of(SOURCE) is None


@pytest.mark.parametrize(
    "content", ["{", "[1]", '{"heads": [{}]}', '{"heads": [], "more": 1}', "[" * 100_000]
)
def test_a_damaged_file_is_refused_with_what_to_do(tmp_path, content):
    (tmp_path / RUN_GUARANTEES).write_text(content)
    with pytest.raises(InputError, match=r"(?s)guarantees.json cannot be read .* --resume, which computes"):
        read_guarantees(tmp_path)


def test_without_a_selection_part_nothing_is_written(tmp_path):
    keep_guarantee(SimpleNamespace(splits=SimpleNamespace(selection=()), folder=tmp_path), "hgp", None)
    assert not (tmp_path / RUN_GUARANTEES).exists()


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (
            [0, 1],
            "2 images are held out: if all of them are right, they can guarantee an error of 80 %",
        ),
        (
            range(149),
            "149 images are held out: if all of them are right, they can guarantee an error of 2 %",
        ),
        (
            [0, 0, 1, 1],
            "2 groups of images are held out: if all of them are right, they can guarantee",
        ),
        ([0], "an error of 95 % at best"),
        ([0, 0], "they can guarantee nothing with --max-error"),
    ],
)
def test_what_can_be_guaranteed_at_best_is_said_before_the_training(groups, said):
    names = [f"{number}" for number in range(len(groups))]
    assert said in possible_guarantee(job_of(names, dict(zip(names, map(str, groups), strict=True))))


def job_of(
    names: list[str], groups: dict[str, str], *, refers_classes: bool = True, has_numbers: bool = False
) -> SimpleNamespace:
    """A job whose held-out examples are of class "a" but for one of ten."""
    judge = SimpleNamespace(
        judged="images", groups=lambda _data, _names: groups, refers_classes=refers_classes
    )
    examples = [SimpleNamespace(group=groups[name], label=int(name) % 10 == 9) for name in names]
    manifest = SimpleNamespace(select=lambda _names: examples, class_names=("a", "b"))
    return SimpleNamespace(
        application=SimpleNamespace(judge=judge, judge_for=None),
        data=SimpleNamespace(manifest=manifest),
        run=SimpleNamespace(refitted_folds=0),
        splits=SimpleNamespace(selection=names),
        has_real_targets=has_numbers,
        has_several_labels=False,
    )


@pytest.mark.parametrize(("count", "said"), [(1, "up to 50 %"), (9, "up to 90 %"), (19, "up to 95 %")])
def test_of_numbers_the_widest_intervals_are_said(count, said):
    names = [f"{number}" for number in range(count)]
    assert said in possible_guarantee(job_of(names, dict(zip(names, names, strict=True)), has_numbers=True))


def test_the_rarest_class_is_named_and_maps_need_the_bound_for_groups():
    names = [f"{number}" for number in range(149)]
    groups = {name: name for name in names}
    said = possible_guarantee(job_of(names, groups))
    assert "an error of 2 % at best with --max-error, and of b (14 held out), 20 % missed" in said
    said = possible_guarantee(job_of(names, groups, refers_classes=False))
    assert "an error of 2.5 % at best with --max-error; a larger" in said
