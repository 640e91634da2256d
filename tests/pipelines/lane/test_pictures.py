"""Which images the report of a lane evaluation shows."""

from dataclasses import replace

import numpy as np

from pipelines.lane.pictures import select_gallery
from pipelines.scores.results import segmentation_result
from pipelines.scores.segmentation import segmentation_record


def _record(name, mask, probability, entropy):
    mask = np.array([mask], np.uint8)
    uncertainty = {"predictive_entropy": np.full(mask.shape, entropy)}
    return segmentation_record(name, mask, np.array([probability]), uncertainty, mask)


RECORDS = [
    _record("half", [1, 1, 0, 0], [0.9, 0.1, 0.1, 0.1], 0.3),
    _record("perfect", [1, 1, 0, 0], [0.9, 0.9, 0.1, 0.1], 0.1),
    _record("empty", [0, 0, 0, 0], [0.1, 0.1, 0.1, 0.1], 0.2),
    _record("missed", [1, 1, 0, 0], [0.1, 0.1, 0.1, 0.1], 0.6),
    _record("ignored", [255, 255, 255, 255], [0.1, 0.1, 0.1, 0.1], 0.69),
]


def test_gallery_shows_the_best_with_lane_the_worst_and_the_most_uncertain():
    gallery = select_gallery(segmentation_result("HGP", RECORDS), count=2)
    assert gallery.best == ("perfect", "half")
    assert gallery.worst == ("missed", "half")
    assert gallery.most_uncertain == ("missed", "half")
    assert gallery.names == ("perfect", "half", "missed")
    assert replace(gallery, unfamiliar=("empty",)).names == ("perfect", "half", "missed", "empty")


def test_gallery_takes_what_there_is():
    gallery = select_gallery(segmentation_result("HGP", RECORDS[1:2]), count=3)
    assert gallery.names == ("perfect",)
