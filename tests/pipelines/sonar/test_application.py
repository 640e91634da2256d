"""Sonar snapshots as the shared steps see them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_prep.errors import InputError
from data_prep.sonar.prepare import prepare_sonar
from data_prep.sonar.settings import SonarPrepareSettings, SpeckleNormalisation
from data_prep.splits.divide import manifest_splits
from pipelines.sonar.application import SONAR, snapshot_facts
from pipelines.sonar.settings import SnapshotPreprocessing, SonarRun


def test_what_masks_mean_reaches_the_bundle(tmp_path: Path) -> None:
    for number in range(4):
        path = tmp_path / "images" / ("mine" if number % 2 else "rock") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), 60 * number, np.uint8)).save(path)
    settings = SonarPrepareSettings(
        size=(8, 8), mask_names={7: "mine", 9: "rock"}, smallest_area=4, duplicate_distance=-1
    )
    prepare_sonar(tmp_path / "images", tmp_path / "prepared", settings)
    data = SONAR.inputs.open(tmp_path / "prepared")
    snapshots = snapshot_facts(data, manifest_splits(data.manifest, selection_fraction=0))["snapshots"]
    stored = SnapshotPreprocessing.model_validate_json(json.dumps(snapshots.model_dump(mode="json")))
    assert (stored.mask_names, stored.smallest_area) == ({7: "mine", 9: "rock"}, 4)


def test_snapshots_normalised_in_another_way_are_not_judged(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for name in ("mine", "rock"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(4):
            image = generator.integers(0, 256, (8, 8), dtype=np.uint8)
            Image.fromarray(image).save(tmp_path / "images" / name / f"{number}.png")
    methods = {
        "log": SpeckleNormalisation(),
        "again": SpeckleNormalisation(),
        "none": SpeckleNormalisation(method="none"),
        "stretched": SpeckleNormalisation(percentiles=(5.0, 95.0)),
    }
    for name, method in methods.items():
        settings = SonarPrepareSettings(size=(8, 8), normalisation=method)
        prepare_sonar(tmp_path / "images", tmp_path / name, settings)
    data = SONAR.inputs.open(tmp_path / "log")
    splits = manifest_splits(data.manifest, selection_fraction=0)
    run = SonarRun(
        application="sonar",
        size=(8, 8),
        batch_norm_momentum=0.9,
        counts={},
        manifest_sha256="",
        **SONAR.inputs.all_facts(data, splits),
    )
    SONAR.inputs.require_fitting(SONAR.inputs.open(tmp_path / "again"), tmp_path / "run", run)
    other = run.model_copy(update={"snapshots": run.snapshots.model_copy(update={"levels": (0, 1)})})
    floats = replace(data, manifest=data.manifest.model_copy(update={"levels": (0, 0.5)}))
    with pytest.raises(InputError, match=r"here levels 0 to 0\.5 .* in the training levels 0 to 1"):
        SONAR.inputs.require_fitting(floats, tmp_path / "run", other)
    for name, found in (("none", "method='none'"), ("stretched", r"method='log' percentiles=\(5\.0, 95")):
        with pytest.raises(InputError, match=rf"{name} has snapshots normalised by {found}.* but .*run was"):
            SONAR.inputs.require_fitting(SONAR.inputs.open(tmp_path / name), tmp_path / "run", run)
