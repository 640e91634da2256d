"""Scores of lane videos: flicker of what moves and of what does not, and tables of all rows."""

import numpy as np
import pytest

from benchmarks.lane_video import Footage, corridor_scores, flicker, flows, mask_scores, report, smoothed

STILL = [np.zeros((8, 10, 2), np.float32)] * 2


def test_flicker_is_the_share_of_labelled_pixels_that_change():
    lane = np.zeros((3, 8, 10), bool)
    labelled = np.ones_like(lane)
    assert flicker(lane, labelled, STILL) == 0
    lane[1, :4] = True  # half of the pixels, there and back
    assert flicker(lane, labelled, STILL) == pytest.approx(0.5)
    labelled[:, :4] = False
    assert flicker(lane, labelled, STILL) == 0


def test_a_lane_that_moves_with_the_flow_does_not_flicker():
    lane = np.zeros((2, 8, 10), bool)
    lane[0, :, 2:6] = True
    lane[1, :, 4:8] = True
    moved = [np.full((8, 10, 2), (-2, 0), np.float32)]  # back to where it was
    labelled = np.ones_like(lane)
    assert flicker(lane, labelled, moved) == 0
    assert flicker(lane, labelled, STILL[:1]) > 0.3


def test_perfect_masks_have_an_f_measure_of_one():
    lane = np.random.default_rng(0).uniform(size=(3, 8, 10)) > 0.5
    footage = Footage(np.zeros((3, 8, 10, 3), np.uint8), lane, np.ones_like(lane))
    scores = mask_scores(lane.astype(np.float32), footage, STILL)
    assert scores["f_measure"] == 1.0
    assert scores["nll"] == pytest.approx(0.0, abs=1e-6)


def test_certain_lanes_have_directions_that_hold():
    lane = np.zeros((2, 40, 60), bool)
    lane[:, :, 20:50] = True
    labelled = np.ones_like(lane)
    labelled[1, :, 50:55] = False  # who knows how wide the way is here
    footage = Footage(np.zeros((*lane.shape, 3), np.uint8), lane, labelled)
    scores = corridor_scores(lane.astype(np.float32), footage, 0.1)
    assert scores["frames"] == 1
    assert scores["corridor"] == 0.0
    assert scores["direction covered"] == scores["width covered"] == 1.0
    assert scores["direction error"] == pytest.approx(0.0, abs=1e-6)


def test_flows_and_smoothing_keep_the_number_of_frames():
    images = np.random.default_rng(0).integers(0, 256, (3, 40, 60, 3)).astype(np.uint8)
    assert len(flows(images)) == 2
    p = np.random.default_rng(1).uniform(size=(3, 40, 60)).astype(np.float32)
    assert smoothed(p, images, 0.3, optical_flow=True).shape == p.shape


def test_the_report_has_a_row_of_each_way_to_smooth_and_each_length():
    scores = {"f_measure": 0.9, "nll": 0.1, "flicker": 0.01}
    halves = {"chosen on": scores, "judged on": scores}
    keys = [f"{name} {key}" for name in ("direction", "width") for key in ("covered", "error", "interval")]
    corridor = {"frames": 3, **dict.fromkeys(("corridor", *keys), 0.5)}
    truth = {"chosen on": {"flicker": 0.02}, "judged on": {"flicker": 0.03}}
    found = {
        "smoothing": [
            {"smoothing": "flow", "seconds": 0.3, **halves},
            {"smoothing": "true masks", "seconds": 0.0, **truth},
        ],
        "corridor": [{"length": 0.4, "chosen on": corridor, "judged on": corridor}],
        "speed": "Videos: 3 frames a second",
    }
    text = report({"host": {"cores": 2}, "models": {"C3K3": found}})
    assert "| flow | 0.3 | 0.9000 | 0.1000 | 0.0100 | 0.9000 | 0.1000 | 0.0100 |" in text
    assert "| true masks | 0 |  |  | 0.0200 |  |  | 0.0300 |" in text
    assert "| 0.4 | 3 | 0.50 |" in text
    assert "Videos: 3 frames a second." in text
