"""Views are read as they were written, beside the images they describe, and refused where they are not."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.labelled.dataset import labelled_records
from data_prep.labelled.examples import ExampleFacts, PreparedExample
from data_prep.labelled.preparing import LabelledPlan, prepare_labelled
from data_prep.labelled.view_manifest import FEATURES_NAME, ViewsManifest
from data_prep.labelled.views import read_views
from data_prep.prepared.manifest import load_manifest
from data_prep.splits.settings import SplitSettings

SOURCES = ("d", "a", "c", "b")


def cut(source: str, _settings: SplitSettings, class_names: Sequence[str]) -> list[PreparedExample]:
    """Two examples of a source, of one number; the second comes first."""
    number = SOURCES.index(source)
    examples = []
    for part in (1, 0):
        value = 10 * number + part
        facts = ExampleFacts(
            name=f"{source}/{part}",
            source=source,
            label=number % len(class_names),
            height=4,
            width=4,
            others={"source": source, "row": 0, "column": 4 * part},
        )
        views = {"one": np.full(1, value, np.float32), "three": np.full(3, -value, np.float32)}
        examples.append(PreparedExample(facts, np.full((4, 4, 3), value, np.uint8), views))
    return examples


def manifest_of(fields: dict[str, Any]) -> ViewsManifest:
    """A manifest of the two views."""
    return ViewsManifest(
        application="t", size=(4, 4), views={"one": 1, "three": 3}, extractor="t 1", **fields
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four sources of two examples."""
    out = tmp_path_factory.mktemp("views") / "out"
    plan = LabelledPlan(SOURCES, ("x", "y"), {name: name for name in SOURCES}, (), ("a", "b"), ("c", "d"))
    settings = SplitSettings(seed=0)
    prepare_labelled(
        plan,
        settings,
        out,
        stage="",
        what="image",
        origin=out,
        prepare_source=cut,
        file_of=Path,
        make_manifest=manifest_of,
        jobs=1,
        overwrite=False,
        progress=None,
    )
    return out


def test_views_belong_to_the_image_of_their_row(prepared: Path) -> None:
    manifest = load_manifest(prepared, ViewsManifest)
    views = read_views(prepared, manifest)
    assert {name: values.shape for name, values in views.items()} == {"one": (8, 1), "three": (8, 3)}
    images = list(labelled_records(prepared, manifest, [example.name for example in manifest.examples]))
    assert [name for name, _, _ in images] == [example.name for example in manifest.examples]
    for row, (_, image, _) in enumerate(images):
        assert views["one"][row, 0] == image[0, 0, 0]
        assert (views["three"][row] == -views["one"][row, 0]).all()
    assert manifest.num_features == 4


def test_a_file_of_other_views_is_refused(prepared: Path) -> None:
    manifest = load_manifest(prepared, ViewsManifest)
    with pytest.raises(InputError, match=r"expected finite float32 \(8, 2\)"):
        read_views(prepared, manifest.model_copy(update={"views": {"one": 2}}))
    with pytest.raises(InputError, match="an array for each of other"):
        read_views(prepared, manifest.model_copy(update={"views": {"other": 1}}))


def test_a_changed_file_is_refused(prepared: Path, tmp_path: Path) -> None:
    for file in prepared.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with (tmp_path / FEATURES_NAME).open("ab") as features:
        features.write(b"0")
    with pytest.raises(InputError, match=FEATURES_NAME):
        load_manifest(tmp_path, ViewsManifest)
