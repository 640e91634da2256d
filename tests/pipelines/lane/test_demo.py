"""What the demo says at its end."""

import math

import pytest

from pipelines.lane.demo import flagged_line, guarantee_line
from pipelines.lane.prediction import LanePrediction
from pipelines.scores.guarantee_thresholds import Guarantee
from pipelines.scores.guarantees import JudgedGuarantee

MADE = Guarantee(0.06, 0.95, 0.2, 0.9, "", 60)
REFUSED = Guarantee(0.06, 0.95, None, 0.0, "there are too few", 60)


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (
            JudgedGuarantee(MADE, 0.875, 0.031),
            "87.5 % are kept, and 3.1 % of their pixels are wrong: kept there",
        ),
        (JudgedGuarantee(MADE, 0.875, 0.071), "7.1 % of their pixels are wrong: not kept there"),
        (JudgedGuarantee(MADE, 0.0, math.nan), "Of the unseen material none is kept"),
        (JudgedGuarantee(REFUSED, math.nan, math.nan), "Not guaranteed: at most 6 % of the pixels wrong"),
    ],
)
def test_guarantee_is_said_with_what_came_of_it(kept, said):
    assert said in guarantee_line(kept)


def test_flagged_scenes_are_counted_without_and_with_an_obstacle():
    free, obstructed = (
        [LanePrediction("scene", unfamiliar_fraction=share) for share in shares]
        for shares in ((0.0, 0.02, 0.04), (0.03, 0.01, 0.2))
    )
    said = flagged_line(free, obstructed)
    assert "2 % of the pixels without an obstacle, 8 % with one" in said
    assert "More than 2 % are flagged in 1 of 3 scenes without, 2 of 3 with an obstacle" in said
