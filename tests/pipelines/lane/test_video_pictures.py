"""Pictures of videos: the way ahead drawn where it is, and a sheet of frames over the whole length."""

import numpy as np
import pytest

from pipelines.lane.corridor import Corridor, Interval, View
from pipelines.lane.prediction import Throughput
from pipelines.lane.video_pictures import WAY_COLOUR, FrameSheet, corridor_overlay
from pipelines.scores.pictures import REFERRED_COLOUR

VIEW = View(field_of_view=90.0, look_ahead=0.5)
PICTURE = np.full((200, 300, 3), 90, np.uint8)


def coloured(picture, colour) -> np.ndarray:
    return (np.abs(picture.astype(int) - np.array(colour)) < 30).all(axis=-1)


def test_the_bar_lies_in_the_row_looked_at_over_the_free_width():
    found = Corridor(1.0, Interval(20.0, 15.0, 25.0), Interval(10.0, 8.0, 12.0))
    drawn = corridor_overlay(PICTURE, found, VIEW)
    bar = np.flatnonzero(coloured(drawn, WAY_COLOUR)[100])
    assert abs(bar.min() - VIEW.column(15.0, 300)) < 5
    assert abs(bar.max() - VIEW.column(25.0, 300)) < 5
    assert (PICTURE == 90).all()  # it is not changed


def test_no_way_is_said_in_the_colour_of_what_a_person_should_look_at():
    drawn = corridor_overlay(PICTURE, Corridor(0.1, None, None), VIEW)
    assert coloured(drawn, REFERRED_COLOUR).sum() > 100
    assert not coloured(drawn, REFERRED_COLOUR)[:100].any()


def test_a_sheet_shows_frames_over_the_length_and_the_least_certain_last():
    sheet = FrameSheet()
    for number in range(100):
        frame = np.full((90, 300, 3), number, np.uint8)
        sheet.add(frame, number / 10, 1.0 if number == 37 else 0.1)
    picture = sheet.picture()
    assert picture.shape == (2 * 90 + 6, 3 * 300 + 2 * 6, 3)
    corners = [int(picture[row + 89, column + 299, 0]) for row in (0, 96) for column in (0, 306, 612)]
    assert corners[0] == 0
    assert corners[:5] == sorted(corners[:5])
    assert corners[4] > 70
    assert corners[5] == 37


def test_a_sheet_of_one_frame_shows_it_twice_and_of_none_is_refused():
    sheet = FrameSheet()
    with pytest.raises(ValueError, match="at least one frame"):
        sheet.picture()
    sheet.add(PICTURE, 0.0, 0.1)
    assert sheet.picture().shape == (200, 2 * 300 + 6, 3)


def test_throughput_counts_the_parts_by_themselves():
    throughput = Throughput()
    assert throughput.text() is None
    assert list(throughput.decoding(range(3))) == [0, 1, 2]
    throughput.add(0.5, 0.1, 0.25)
    throughput.decode = 0.15
    assert throughput.text() == (
        "Videos: 1.0 frames a second; alone decoding 6.7, network 2.0, smoothing 10, writing 4.0"
    )
