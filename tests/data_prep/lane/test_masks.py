"""Which levels of a set of masks mean lane."""

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from data_prep.errors import InputError
from data_prep.lane.masks import LaneCoding, choose_coding, count_levels, populated_levels

FOLDER = Path("masks")

CAMVID = dict(enumerate([168, 233, 10, 317, 45, 97, 12, 11, 59, 6, 3, 39]))  # per mille, twelve classes


def lane_mask(side: int = 64) -> np.ndarray:
    """A lane that narrows towards the top, with slanted edges."""
    rows, columns = np.mgrid[:side, :side]
    return np.where((np.abs(columns - side / 2) < rows / 3) & (rows > side / 4), 255, 0).astype(np.uint8)


def counts_of(mask: np.ndarray) -> dict[int, int]:
    levels, counts = np.unique(mask, return_counts=True)
    return dict(zip(levels.tolist(), counts.tolist(), strict=True))


def jpeg(mask: np.ndarray, quality: int) -> np.ndarray:
    buffer = io.BytesIO()
    Image.fromarray(mask).save(buffer, "JPEG", quality=quality)
    return np.array(Image.open(buffer))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({0: 10}, [0]),
        ({0: 10, 255: 5}, [0, 255]),
        ({0: 10, 1: 5}, [0, 1]),
        ({3: 10, 4: 5, 9: 0}, [3, 4]),
        (CAMVID, list(range(12))),
        ({0: 900, 1: 1, 2: 99}, [0, 1, 2]),  # rare classes count too
        ({0: 700, 1: 290, 255: 10}, [0, 1, 255]),  # 255 marks pixels without a label
        ({0: 700, 1: 150, 2: 140, 255: 10}, [0, 1, 2, 255]),
        ({**dict.fromkeys(range(41), 20), 255: 10}, [*range(41), 255]),
        ({0: 700, 100: 5, 255: 280}, [0, 100, 255]),  # a third level
        ({0: 700, 200: 5, 255: 280}, [0, 200, 255]),
        ({0: 700, 3: 5, 252: 4, 255: 291}, [0, 255]),  # ringing around both
        ({0: 700, **dict.fromkeys(range(40, 200, 4), 1), 255: 260}, [0, 255]),  # blurred edges
        ({0: 700, **dict.fromkeys(range(40, 200, 4), 1), 120: 50, 255: 260}, [0, 120, 255]),
        ({0: 40_000, 65_535: 9_000}, [0, 65_535]),
        ({0: 500, 255: 300, 65_535: 200}, [0, 255, 65_535]),  # 8 and 16 bits mixed
    ],
)
def test_populated_levels(counts: dict[int, int], expected: list[int]) -> None:
    assert populated_levels(counts) == expected


def test_a_photograph_is_no_mask() -> None:
    assert len(populated_levels(dict.fromkeys(range(256), 10))) > 100


@pytest.mark.parametrize("quality", [10, 30, 50, 75, 90, 95])
@pytest.mark.parametrize("side", [32, 64, 200])
def test_ringing_of_compressed_masks_is_not_taken_for_levels(quality: int, side: int) -> None:
    assert len(populated_levels(counts_of(jpeg(lane_mask(side), quality)))) == 2


@pytest.mark.parametrize("quality", [30, 75, 95])
def test_third_level_is_seen_through_compression(quality: int) -> None:
    mask = lane_mask()
    mask[:20, :40] = 127
    assert len(populated_levels(counts_of(jpeg(mask, quality)))) > 2


def test_blurred_edges_of_resized_masks_are_not_taken_for_levels() -> None:
    resized = np.array(Image.fromarray(lane_mask(200)).resize((67, 67), Image.Resampling.BICUBIC))
    assert len(populated_levels(counts_of(resized))) == 2


def test_default_is_above_half_of_the_maximum_of_the_set() -> None:
    coding = choose_coding(FOLDER, {"a.png": {0: 5}, "b.png": {0: 10, 100: 4, 200: 9}}, None, (100,))
    assert (coding.lane_values, coding.lane_above, coding.ignore_values) == (None, 100, (100,))
    assert coding.encode(np.array([[0, 99, 100, 101, 200]])).tolist() == [[0, 0, 255, 1, 1]]


@pytest.mark.parametrize("background", [128, 200])
def test_the_lower_of_two_bright_levels_is_background(background: int) -> None:
    coding = choose_coding(FOLDER, {"a.png": {background: 10, 255: 4}}, None, ())
    assert coding.encode(np.array([[0, background, 255]])).tolist() == [[0, 0, 1]]


def test_level_of_ignored_pixels_does_not_set_the_scale() -> None:
    coding = choose_coding(FOLDER, {"a.png": {0: 10, 1: 4, 255: 9}}, None, (255,))
    assert coding.encode(np.array([[0, 1, 255]])).tolist() == [[0, 1, 255]]


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=50),
    st.sets(st.integers(0, 20), min_size=1),
    st.sets(st.integers(21, 40)),
)
def test_coding_by_values(levels: list[int], lane: set[int], ignored: set[int]) -> None:
    coded = LaneCoding(lane_values=tuple(lane), ignore_values=tuple(ignored)).encode(np.array([levels]))
    assert coded.dtype == np.uint8
    assert coded[0].tolist() == [1 if v in lane else 255 if v in ignored else 0 for v in levels]


def test_several_levels_without_lane_values_are_listed() -> None:
    with pytest.raises(InputError) as raised:
        choose_coding(FOLDER, {"a.png": CAMVID}, None, ())
    message = str(raised.value)
    assert "masks: the masks have 12 populated levels: 0 (16.80%), 1 (23.30%)" in message
    assert "4 (4.50%)" in message
    assert "10 (0.30%)" in message
    assert "lane_values" in message


def test_long_lists_of_levels_are_cut_to_the_largest_shares() -> None:
    counts = {level: 1 + level for level in range(200)}
    with pytest.raises(InputError, match=r"198 \(0\.99%\), 199 \(1\.00%\) and 180 more") as raised:
        choose_coding(FOLDER, {"a.png": counts}, None, ())
    assert " 50 (" not in str(raised.value)


def test_set_without_lane_names_its_files() -> None:
    with pytest.raises(InputError) as raised:
        choose_coding(FOLDER, {"a.png": {0: 50}, "b.png": {0: 30, 2: 20}}, (3, 4), ())
    message = str(raised.value)
    assert "masks: no mask has a pixel of the lane values [3, 4] (a.png, b.png)" in message
    assert "Levels found: 0 (80.00%), 2 (20.00%)" in message
    assert "give lane_values that occur" in message
    with pytest.raises(
        InputError, match="no mask has a pixel above the middle of the lowest and the highest level"
    ):
        choose_coding(FOLDER, {f"{i}.png": {0: 50} for i in range(9)}, None, ())


def test_one_mask_without_lane_is_fine() -> None:
    choose_coding(FOLDER, {"a.png": {0: 50}, "b.png": {0: 30, 255: 20}}, None, ())


def test_set_of_one_level_is_refused() -> None:
    with pytest.raises(InputError, match="every pixel of every mask has level 255"):
        choose_coding(FOLDER, {"a.png": {255: 50}}, None, ())


def test_levels_of_a_file_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "mask.png"
    Image.fromarray(np.array([[0, 4, 4], [11, 4, 0]], dtype=np.uint8)).save(path)
    assert count_levels(path) == {0: 2, 4: 3, 11: 1}
