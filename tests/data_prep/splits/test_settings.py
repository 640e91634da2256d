"""Every setting that is a seed has the same range, and seeds made of it stay in it."""

import pytest
from pydantic import BaseModel, ValidationError

from data_prep.lane.settings import LanePrepareSettings
from data_prep.sonar.settings import SonarPrepareSettings
from data_prep.splits.settings import LARGEST_SEED, SplitSettings, later_seed
from pipelines.explore.settings import ExploreSettings
from pipelines.lane.settings import EvaluateSettings, TrainSettings
from pipelines.survival.settings import SurvivalSettings


@pytest.mark.parametrize(
    "settings",
    [
        *(SplitSettings, LanePrepareSettings, SonarPrepareSettings, TrainSettings, EvaluateSettings),
        *(ExploreSettings, SurvivalSettings),
    ],
)
def test_seeds_beyond_what_libraries_take_are_refused(settings: type[BaseModel]) -> None:
    assert settings(seed=LARGEST_SEED).seed == LARGEST_SEED
    for seed in (-1, LARGEST_SEED + 1, 2**32):
        with pytest.raises(ValidationError, match="seed"):
            settings(seed=seed)


def test_later_seeds_stay_seeds() -> None:
    assert [later_seed(LARGEST_SEED - 1000, 1000 * k) for k in range(3)] == [2**32 - 1001, LARGEST_SEED, 999]
