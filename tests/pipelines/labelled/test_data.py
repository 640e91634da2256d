"""Prepared folders are checked when they are opened."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data_prep.errors import InputError
from data_prep.histopathology.manifest import HistopathologyManifest
from data_prep.histopathology.prepare import prepare_histopathology
from data_prep.histopathology.settings import HistopathologyPrepareSettings
from pipelines.labelled.data import open_images, open_views
from tests.data_prep.tissue_files import write_tissue


@pytest.mark.parametrize("opened", [open_images, open_views])
def test_a_size_that_is_not_that_of_the_images_is_refused(opened: Callable[..., Any], tmp_path: Path) -> None:
    write_tissue(tmp_path / "images", ["benign/a.png", "malignant/b.png"])
    settings = HistopathologyPrepareSettings(patch_size=40, size=(8, 8))
    prepare_histopathology(tmp_path / "images", tmp_path / "prepared", settings)
    path = tmp_path / "prepared" / "manifest.json"
    opened(path.parent, HistopathologyManifest)
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(manifest | {"size": [16, 16]}), encoding="utf-8")
    with pytest.raises(InputError, match=r"manifest\.json: says that examples have the shape \[16, 16, 3\]"):
        opened(path.parent, HistopathologyManifest)
