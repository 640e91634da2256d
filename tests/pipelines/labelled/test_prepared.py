"""What `prepare` says of groups."""

import pytest

from data_prep.labelled.preparing import PrepareResult
from data_prep.prepared.manifest import LabelledExample, LabelledManifest
from pipelines.labelled.prepared import describe_classes


def example(number: int, *, group: str, test: bool, folds: bool) -> LabelledExample:
    place = {"fold": int(test)} if folds else {"split": "test" if test else "train"}
    fields = {"name": f"{number}", "shard": "a", "offset": 0, "length": 1, "height": 8, "width": 8}
    return LabelledExample.model_validate({**fields, "group": group, "label": number % 2, **place})


@pytest.mark.parametrize("folds", [False, True])
def test_the_groups_are_counted(folds: bool) -> None:
    examples = tuple(
        example(number, group=f"line{number // 4}", test=number >= 8, folds=folds) for number in range(12)
    )
    manifest = LabelledManifest(
        application="sonar",
        class_names=("mine", "rock"),
        size=(8, 8),
        num_folds=2 if folds else None,
        settings={},
        num_examples=12,
        num_skipped=0,
        examples=examples,
        sha256={"a": "0"},
    )
    lines = describe_classes(PrepareResult(manifest, (), ()), examples)
    if folds:
        assert lines[:2] == ["3 groups (the largest has 4 of 12), each on one side of every split", "2 folds"]
    else:
        assert (
            lines[0]
            == "3 groups (the largest has 4 of 12), each on one side of every split, 1 of them to judge by"
        )
        assert lines[1] == "mine: 6, 2 of them to judge by"
