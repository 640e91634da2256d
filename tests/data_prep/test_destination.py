"""Nothing is written over what `prepare` has not written."""

from pathlib import Path

import pytest

from data_prep.destination import check_destination
from data_prep.errors import InputError


def test_only_prepared_folders_are_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    check_destination(out, [tmp_path / "images"], overwrite=False)
    (out / "images").mkdir(parents=True)
    with pytest.raises(InputError, match="already exists"):
        check_destination(out, [], overwrite=False)
    with pytest.raises(InputError, match=r"has no manifest\.json"):
        check_destination(out, [], overwrite=True)
    (out / "manifest.json").touch()
    check_destination(out, [tmp_path], overwrite=True)
    with pytest.raises(InputError, match="holds the input folder"):
        check_destination(out, [out / "images"], overwrite=True)
