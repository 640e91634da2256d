"""A window slides over all of an image, and of overlapping finds the best is kept."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from data_prep.sonar.boxes import Box
from data_prep.sonar.settings import SpeckleNormalisation
from pipelines.sonar import windows as sonar_windows
from pipelines.sonar.settings import PredictSettings
from pipelines.sonar.windows import Search, search_image, snapshot_of

SEARCH = Search(
    window=(8, 10),
    size=(4, 4),
    normalisation=SpeckleNormalisation(method="none"),
    stride=0.5,
    threshold=0.4,
    overlap=0.2,
    class_names=("background", "mine", "rock"),
    objects=(1, 2),
)


def brightness(snapshots: np.ndarray) -> dict[str, np.ndarray]:
    """Stands for a bundle: bright windows are mines, of middle grey are rocks."""
    level = snapshots.mean(axis=(1, 2, 3)) / 255.0
    rock = np.where(level < 0.7, level, 0.0)
    mine = np.where(level >= 0.7, level, 0.0)
    probability = np.stack([1.0 - rock - mine, mine, rock], axis=1)
    return {"probability": probability, "predictive_entropy": 1.0 - level, "mutual_information": 0.1 * level}


def image_with(*places: tuple[int, int, int], size: tuple[int, int] = (40, 50)) -> np.ndarray:
    levels = np.zeros(size, np.uint8)
    for top, left, level in places:
        levels[top : top + 8, left : left + 10] = level
    return levels


def test_objects_are_found_once_with_their_class_and_the_best_first():
    finds = search_image(image_with((8, 10, 255), (28, 35, 153)), SEARCH, brightness)
    assert [find.box for find in finds] == [Box("mine", 10, 8, 10, 8), Box("rock", 35, 28, 10, 8)]
    assert [find.score for find in finds] == pytest.approx([1.0, 0.6])
    assert finds[1].predictive_entropy == pytest.approx(0.4)
    np.testing.assert_allclose(finds[1].probability, [0.4, 0.0, 0.6])


@pytest.mark.parametrize("side", [12, 13])
def test_an_object_has_one_box_wherever_it_lies_between_the_windows(side):
    defaults = PredictSettings()
    search = replace(
        SEARCH,
        window=(side, side),
        size=(side, side),
        stride=defaults.stride,
        overlap=defaults.overlap,
        threshold=defaults.threshold,
        class_names=("background", "mine"),
        objects=(1,),
    )

    def share_seen(snapshots: np.ndarray) -> dict[str, np.ndarray]:
        share = snapshots[..., 0].sum(axis=(1, 2)) / (8 * 8 * 255.0)
        probability = np.stack([1.0 - share, share], axis=1)
        return {"probability": probability, "predictive_entropy": share, "mutual_information": share}

    for top, left in np.ndindex(side, side):
        levels = np.zeros((60, 60), np.uint8)
        levels[20 + top : 28 + top, 20 + left : 28 + left] = 255
        assert len(search_image(levels, search, share_seen)) == 1, (top, left)


@pytest.mark.parametrize("size", [(8, 10), (9, 11), (23, 37), (16, 20), (5, 60), (60, 5), (3, 4)])
def test_windows_cover_every_pixel_and_stay_inside_where_they_fit(size):
    covered = np.zeros(size, int)
    corners = list(sonar_windows._corners(size, SEARCH))
    assert len(set(corners)) == len(corners)
    for top, left in corners:
        covered[max(top, 0) : top + 8, max(left, 0) : left + 10] += 1
        for start, side, extent in ((top, 8, size[0]), (left, 10, size[1])):
            assert (start >= 0 and start + side <= extent) or extent < side
    assert covered.min() >= 1


def test_only_one_batch_of_windows_is_cut_at_a_time(monkeypatch):
    monkeypatch.setattr(sonar_windows, "WINDOWS_AT_ONCE", 7)
    sizes = []

    def counted(snapshots: np.ndarray) -> dict[str, np.ndarray]:
        sizes.append(len(snapshots))
        return brightness(snapshots)

    levels = image_with((8, 10, 255))
    in_batches = search_image(levels, SEARCH, counted)
    assert max(sizes) == 7
    assert sum(sizes) == len(list(sonar_windows._corners(levels.shape, SEARCH)))
    assert [find.box for find in in_batches] == [Box("mine", 10, 8, 10, 8)]


def test_of_large_windows_one_is_in_memory_at_a_time():
    levels = np.broadcast_to(np.zeros(3, np.uint8), (3000, 3000, 3))
    search = replace(SEARCH, window=(1000, 1000))
    tracemalloc.start()
    search_image(levels, search, brightness)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15e6  # 25 windows are 75 MB, and 25 MB in grey


def test_windows_larger_than_prepare_cuts_are_refused():
    with pytest.raises(ValidationError, match="from 1 to 4096 pixels"):
        PredictSettings(window=(4097, 10))


def test_an_image_of_nothing_has_no_finds():
    assert search_image(image_with(), SEARCH, brightness) == []


def test_sixteen_bits_and_channels_become_a_snapshot():
    levels = np.full((6, 9), 65535, np.uint16)
    white = np.full((4, 4, 3), 255).tolist()
    assert snapshot_of(levels, (4, 4), SEARCH.normalisation).tolist() == white
    channels = np.repeat(levels[..., None], 3, axis=2)
    assert snapshot_of(channels, (4, 4), SEARCH.normalisation).tolist() == white
