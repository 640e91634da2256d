"""The command without the packages that it alone needs."""

import sys

import pytest

from data_prep.errors import InputError
from pipelines import survival as room
from pipelines.survival.commands import survival


@pytest.mark.parametrize("package", ["lifelines", "pandas"])
def test_a_missing_package_is_named_with_what_to_install(package, tmp_path, monkeypatch):
    for name in ("compare", "models"):  # so that they are imported once more
        monkeypatch.delitem(sys.modules, f"pipelines.survival.{name}", raising=False)
        monkeypatch.delattr(room, name, raising=False)
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not there
    with pytest.raises(InputError, match=rf"{package}, which is not installed.*gpimaging\[survival\]"):
        survival(None, data=tmp_path, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
