"""The search of a size finds the scale at which classes differ, and never looks into the own group."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_prep.errors import InputError
from data_prep.sonar.settings import SonarPrepareSettings, SpeckleNormalisation
from data_prep.sonar.size import nearest_in_other_groups, search_size

PLAIN = SonarPrepareSettings(
    normalisation=SpeckleNormalisation(method="none"), duplicate_distance=-1, test_fraction=0.0
)


def test_neighbours_are_of_other_groups() -> None:
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(40, 3)).astype(np.float32)
    groups = generator.integers(0, 6, 40)
    for number, neighbour in enumerate(nearest_in_other_groups(vectors, groups)):
        distances = [np.linalg.norm(vectors[number] - v) for v in vectors]
        others = [i for i in range(40) if groups[i] != groups[number]]
        assert neighbour == min(others, key=distances.__getitem__)


@pytest.fixture
def stripes(tmp_path: Path) -> Path:
    """Two classes that differ in stripes of two pixels, and pairs of copies with other classes' names."""
    generator = np.random.default_rng(0)
    for name, first in (("even", 0), ("odd", 2)):
        (tmp_path / name).mkdir()
        for number in range(8):
            level = np.where((np.arange(32) + first) % 4 < 2, 60, 190)
            image = level + generator.normal(0, 20, (32, 32))
            Image.fromarray(np.clip(image, 0, 255).astype(np.uint8)).save(tmp_path / name / f"{number}.png")
    return tmp_path


def test_sizes_that_show_the_difference_score_best(stripes: Path) -> None:
    calls: list[str] = []
    scores = search_size(stripes, PLAIN, sizes=(4, 32), progress=lambda stage, *_: calls.append(stage))
    assert [score.size for score in scores] == [4, 32]
    assert scores[1].accuracy == scores[1].balanced_accuracy == 1
    assert scores[0].accuracy < 0.9
    assert set(calls) == {"Reading images", "Resizing snapshots"}


def test_what_is_tested_on_chooses_no_size(stripes: Path, tmp_path: Path) -> None:
    tested = tmp_path / "test.txt"
    tested.write_text("".join(f"{name}/{number}.png\n" for name in ("even", "odd") for number in range(4)))
    settings = PLAIN.model_copy(update={"test_list": tested})
    before = search_size(stripes, settings, sizes=(4, 32))
    for number in range(4):  # what is tested on changes: every image is of the other class
        (stripes / "even" / f"{number}.png").rename(stripes / "moved.png")
        (stripes / "odd" / f"{number}.png").rename(stripes / "even" / f"{number}.png")
        (stripes / "moved.png").rename(stripes / "odd" / f"{number}.png")
    assert search_size(stripes, settings, sizes=(4, 32)) == before
    assert search_size(stripes, PLAIN, sizes=(4, 32)) != before


def test_near_duplicates_do_not_count(stripes: Path) -> None:
    together = PLAIN.model_copy(update={"group_pattern": "^[a-z]+"})  # each class is one group
    assert search_size(stripes, together, sizes=(32,))[0].accuracy == 0
    one = PLAIN.model_copy(update={"consecutive": 8, "group_pattern": "^"})
    with pytest.raises(InputError, match="all training snapshots are one group"):
        search_size(stripes, one, sizes=(32,))


def test_sizes_beyond_the_images_are_not_tried_and_a_few_right_ones_are_no_certainty(stripes: Path) -> None:
    scores = search_size(stripes, PLAIN, sizes=(16, 32, 48))  # the images have 32 pixels
    assert [score.size for score in scores] == [16, 32]
    assert scores[1].accuracy == 1
    assert scores[1].number == 16
    assert 0.05 < scores[1].standard_error < 0.1  # (18 / 20 · 2 / 20 / 20)^½
