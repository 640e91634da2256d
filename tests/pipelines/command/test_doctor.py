import re
import tomllib
from pathlib import Path

import pytest

from pipelines.command import doctor

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_extra_for_users_says_what_it_gives():
    assert set(doctor.EXTRAS) == set(PROJECT["optional-dependencies"]) - {"cuda", "dev", "docs", "peers"}


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    asked = ["numpy>=1.26", 'no-such-package>=2; extra == "label"', "numpy; extra == 'dicom'"]
    monkeypatch.setattr(doctor, "requires", lambda _: asked)
    extras = doctor.describe_extras()
    assert extras["label"].startswith("missing no-such-package: the page")
    assert extras["label"].endswith("pip install 'gpimaging[label]'")
    assert extras["dicom"] == "installed: medical images in DICOM files"


@pytest.mark.slow
def test_the_machine_is_described():
    rows = doctor.describe_machine()
    assert re.fullmatch(r"\d+\.\d+.*", rows["tensorflow"])
    assert re.fullmatch(r"\d+ of \d+ may be used", rows["Processors"])
    assert re.fullmatch(r"[\d.]+ of [\d.]+ GiB are free", rows["Memory"])
