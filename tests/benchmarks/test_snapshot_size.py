"""Windows of all sizes have the same centres, and a snapshot and its neighbour have different groups."""

from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.snapshot_size import cut_at, nearest_scores, table, unit_vectors
from data_prep.sonar.plan import plan_snapshots
from data_prep.sonar.settings import SonarPrepareSettings
from data_prep.sonar.snapshots import Snapshot


def test_windows_of_all_sides_have_the_same_centres(tmp_path: Path) -> None:
    levels = np.random.default_rng(0).integers(0, 256, (96, 96), dtype=np.uint8)
    mask = np.zeros((96, 96), np.uint8)
    mask[40:50, 30:40] = 255
    for name, image in (("images", levels), ("masks", mask)):
        (tmp_path / name).mkdir()
        Image.fromarray(image).save(tmp_path / name / "a.png")
    settings = SonarPrepareSettings(window=(16, 16), background_ratio=2, clutter_ratio=1, group_pattern="^")
    plan, _ = plan_snapshots(tmp_path / "images", tmp_path / "masks", settings, jobs=1, progress=None)
    small, large = cut_at(plan.sources[0], (4, 16), settings)
    assert [one.class_name for one in small] == ["object", "background", "background", "clutter"]
    for inner, outer in zip(small, large, strict=True):
        np.testing.assert_array_equal(inner.levels, outer.levels[6:10, 6:10])
    np.testing.assert_array_equal(large[0].levels, levels[37:53, 27:43])


def test_vectors_forget_the_gain() -> None:
    levels = np.random.default_rng(0).integers(20, 120, (8, 8), dtype=np.uint8)
    louder = [Snapshot("a", "x", levels), Snapshot("b", "x", 2 * levels), Snapshot("c", "x", levels[::-1])]
    first, second, third = unit_vectors(louder, 8)
    assert np.isclose(first @ first, 1.0)
    assert first @ second > 0.999
    assert first @ third < 0.9


def test_neighbours_are_of_other_groups() -> None:
    vectors = np.array([[1.0, 0.0], [0.96, 0.28], [0.0, 1.0], [0.28, 0.96], [0.8, 0.6], [0.6, 0.8]])
    label = np.array(["a", "a", "b", "b", "b", "a"])
    # The nearest neighbour has the same class, except for the last two vectors, which are a pair.
    assert nearest_scores(vectors, label, np.arange(6)) == (4 / 6, (2 / 3 + 2 / 3) / 2)
    # With these groups every nearest neighbour in another group has the other class.
    assert nearest_scores(vectors, label, np.array([0, 0, 1, 1, 2, 3])) == (0.0, 0.0)


def test_the_table_has_a_row_for_each_side() -> None:
    keys = ("resized", "resized_recall", "whole", "whole_recall")
    cells = [
        {"side": side, "seed": seed, **dict.fromkeys(keys, 0.5 + 0.1 * seed)}
        for side in (10, 5)
        for seed in (0, 1)
    ]
    rows = table(cells)
    assert [row["window"] for row in rows] == ["5 x 5", "10 x 10"]
    assert rows[0]["mean recall, all pixels"] == "0.550 ± 0.071"
