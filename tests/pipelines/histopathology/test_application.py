"""Which parts of tissue can be judged, and how they are shown."""

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from data_prep.errors import InputError
from data_prep.histopathology.features import EXTRACTOR, VIEWS
from data_prep.histopathology.manifest import HistopathologyExample, HistopathologyManifest
from data_prep.histopathology.settings import PatchSettings
from data_prep.labelled.view_manifest import FEATURES_NAME
from data_prep.splits.divide import Splits
from pipelines.histopathology.application import HISTOPATHOLOGY, is_of_one_class, mosaic, tissue_application
from pipelines.histopathology.settings import EvaluateSettings, TrainSettings
from pipelines.runs.application import Prepared


def example(source: str, row: int, column: int, label: int, patient: str) -> HistopathologyExample:
    return HistopathologyExample(
        name=f"{source}/{row:06d}_{column:06d}",
        shard="s",
        offset=0,
        length=1,
        height=10,
        width=10,
        group=patient,
        label=label,
        source=source,
        row=row,
        column=column,
        patient=patient,
    )


def manifest(*examples: HistopathologyExample) -> HistopathologyManifest:
    return HistopathologyManifest(
        class_names=("benign", "malignant"),
        size=(8, 8),
        settings={},
        num_examples=len(examples),
        num_skipped=0,
        examples=examples,
        sha256={"s": "", FEATURES_NAME: ""},
        views=VIEWS,
        extractor=EXTRACTOR,
        patches=PatchSettings(),
    )


BY_IMAGE = manifest(
    example("a", 0, 0, 0, "P1"),
    example("a", 0, 10, 0, "P1"),
    example("b", 0, 0, 1, "P1"),
    example("c", 0, 0, 1, "P2"),
)
BY_MASK = manifest(example("a", 0, 0, 0, "P1"), example("a", 0, 10, 1, "P1"))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (BY_IMAGE, {"patch": True, "image": True, "patient": False}),
        (BY_MASK, {"patch": True, "image": False, "patient": False}),
    ],
)
def test_only_what_has_one_class_can_be_judged(data, expected):
    assert {by: is_of_one_class(data, by) for by in expected} == expected


@pytest.mark.parametrize(("by", "number"), [("patch", 4), ("image", 3), ("patient", 2)])
@pytest.mark.parametrize("features", ["handmade", "cnn"])
def test_patches_are_pooled_by_what_is_judged(features, by, number):
    application = tissue_application(features, by)
    assert len({application.judge.pools.name_of(one) for one in BY_IMAGE.examples}) == number
    assert application.judge.judged == {"patch": "patches", "image": "images", "patient": "patients"}[by]


@pytest.mark.parametrize("changes", [{}, {"features": "cnn"}, {"network": "efficientnet_lite0"}])
def test_every_variant_is_judged_by_what_the_settings_ask_for(changes):
    settings = TrainSettings(**changes)
    console = Console(file=io.StringIO(), width=200)
    application, used = HISTOPATHOLOGY.variant_for(settings, console)
    assert (application.rivals == ()) == bool(changes)  # support vector machines on handmade features alone
    left_out = set(settings.heads) - set(used.heads)
    assert all(name in console.file.getvalue() for name in left_out)
    assert bool(left_out) == ("network" in changes)
    data = Prepared(Path("folder"), BY_IMAGE)
    judged = {by: application.judge_for(EvaluateSettings(by=by), data).judged for by in ("patch", None)}
    assert judged == {"patch": "patches", None: "images"}
    with pytest.raises(InputError, match="folder: by=patient, but here one patient may have"):
        application.judge_for(EvaluateSettings(by="patient"), data)
    assert application.judge_for(EvaluateSettings(), Prepared(Path(), BY_MASK)).judged == "patches"


def test_a_mosaic_shows_patches_where_they_lie():
    shown = [example("a", 0, 20, 0, "P"), example("a", 10, 0, 0, "P")]
    picture = mosaic(
        [(one, np.full((8, 8, 3), level, np.uint8)) for one, level in zip(shown, (0, 100), strict=True)]
    )
    assert picture.shape == (96, 96, 3)
    assert [picture[24, 24, 0], picture[24, 72, 0], picture[72, 24, 0], picture[72, 72, 0]] == [
        255,
        0,
        100,
        255,
    ]


def test_classes_of_survival_alone_are_warned_of():
    labelled = Prepared(Path(), BY_IMAGE)
    survival = Prepared(Path(), BY_IMAGE.model_copy(update={"class_names": ("censored", "event")}))
    splits, settings = Splits((), (), ()), TrainSettings(features="cnn")
    application = tissue_application("cnn")
    assert application.inputs.warnings(labelled, splits, settings) == []
    (warning,) = application.inputs.warnings(survival, splits, settings)
    assert "gpimaging histopathology survival" in warning
