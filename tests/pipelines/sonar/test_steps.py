"""What `sonar prepare` adds to the preparation itself."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from data_prep.errors import InputError
from data_prep.sonar.settings import SonarPrepareSettings, SpeckleNormalisation
from pipelines.sonar import steps as sonar


def test_a_searched_size_is_shown_and_taken(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for name, first in (("even", 0), ("odd", 2)):  # they differ in stripes of two pixels of 64
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(12):
            level = np.where((np.arange(64) + first) % 4 < 2, 90, 160) + generator.normal(0, 10, (64, 64))
            image = np.clip(level, 0, 255).astype(np.uint8)
            Image.fromarray(image).save(tmp_path / "images" / name / f"{number}.png")
    console = Console(record=True, width=100)
    result = sonar.prepare(
        SonarPrepareSettings(normalisation=SpeckleNormalisation(method="none"), duplicate_distance=-1),
        images=tmp_path / "images",
        annotations=None,
        out=tmp_path / "out",
        search=True,
        jobs=1,
        overwrite=False,
        console=console,
    )
    shown = [line for line in console.export_text().splitlines() if "(chosen)" in line]
    # At a quarter of the size the stripes are gone.
    assert result.manifest.size[0] == result.manifest.size[1] >= 40
    assert len(shown) == 1
    assert f"{result.manifest.size[0]} x" in shown[0]


def test_settings_that_do_nothing_are_named(tmp_path: Path) -> None:
    table = tmp_path / "boxes.csv"
    table.touch()
    changed = SonarPrepareSettings(window=(20, 20), context=2.0, clutter_ratio=1.0, mask_names={1: "mine"})
    for annotations, names in (
        (None, "window, context, clutter_ratio, mask_names"),
        (table, "context, mask_names"),
        (tmp_path, "context"),
    ):
        assert [text.split(":")[0] for text in sonar.ignored(changed, annotations)] == [names]
    for annotations in (None, table, tmp_path):
        assert sonar.ignored(SonarPrepareSettings(size=(8, 8)), annotations) == []


def test_a_folder_that_exists_is_refused_before_the_search(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").touch()
    with pytest.raises(InputError, match="already exists"):
        sonar.prepare(
            SonarPrepareSettings(),
            images=tmp_path / "nowhere",  # the search would complain about this
            annotations=None,
            out=tmp_path / "out",
            search=True,
            jobs=1,
            overwrite=False,
            console=Console(quiet=True),
        )
