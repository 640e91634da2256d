"""Settings that are of use with a trunk alone."""

import pytest

from data_prep.errors import InputError
from pipelines.command.config import dump_settings, load_settings
from pipelines.histopathology import settings as histopathology
from pipelines.lane import settings as lane
from pipelines.sonar import settings as sonar

ALL = [one.TrainSettings.with_tables() for one in (histopathology, lane, sonar)]


@pytest.mark.parametrize("settings", ALL)
@pytest.mark.parametrize("given", ["weights=none", "unfreeze_blocks=2"])
def test_they_are_refused_without_one(settings, given):
    with pytest.raises(InputError, match=f"{given.split('=')[0]}: .*--set network=efficientnet_lite0"):
        load_settings(settings, overrides=[given])
    assert load_settings(settings, overrides=[given, "network=efficientnet_lite0"])


def test_a_smallest_side_is_refused_without_one():
    with pytest.raises(InputError, match="smallest_side: "):
        load_settings(sonar.TrainSettings, overrides=["smallest_side=64"])


@pytest.mark.parametrize("settings", ALL)
def test_written_defaults_are_read_again(settings, tmp_path):
    dump_settings(settings(), tmp_path / "config.yaml")
    assert load_settings(settings, config=tmp_path / "config.yaml") == settings()
