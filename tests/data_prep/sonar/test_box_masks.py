"""Boxes around the components of masks."""

import numpy as np

from data_prep.sonar.boxes import Box
from data_prep.sonar.sources import component_boxes, values_without_name

MASK = np.zeros((20, 30), np.uint8)
MASK[2:6, 3:5] = 255
MASK[6, 5] = 255  # touches by a corner
MASK[10:14, 20:30] = 7
MASK[18, 0] = 255


def test_components_are_boxed() -> None:
    boxes = component_boxes(MASK, {}, smallest_area=2)
    assert boxes == [Box("object", 3, 2, 3, 5), Box("object", 20, 10, 10, 4)]
    assert len(component_boxes(MASK, {}, smallest_area=1)) == 3
    assert component_boxes(np.zeros((5, 5), np.uint16), {}, smallest_area=1) == []


def test_values_without_a_name_are_found_whatever_the_depth() -> None:
    assert values_without_name(MASK, {255: "mine"}) == (7,)
    assert values_without_name(MASK[:, ::2].astype(np.uint16) * 100, {700: "rock"}) == (25500,)
    assert values_without_name(np.zeros((5, 5), np.uint8), {}) == ()


def test_values_with_names_only() -> None:
    names = {255: "mine", 7: "rock"}
    assert component_boxes(MASK, names, 9) == [Box("rock", 20, 10, 10, 4), Box("mine", 3, 2, 3, 5)]
    assert component_boxes(MASK, {7: "rock"}, 9) == [Box("rock", 20, 10, 10, 4)]
