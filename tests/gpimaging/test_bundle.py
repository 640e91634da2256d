import numpy as np
import pytest

import gpimaging
from data_prep.errors import InputError
from gpimaging.bundle import as_column


def test_a_folder_that_is_no_bundle_is_refused(tmp_path):
    with pytest.raises(InputError, match="is no bundle"):
        gpimaging.load(tmp_path)


def test_groups_need_a_folder_to_write_to(tmp_path):
    model = gpimaging.Bundle(tmp_path, "classify", ("ant", "bee"))
    with pytest.raises(ValueError, match=r"by writes groups\.csv, so it needs a folder: pass out="):
        model.predict("images", by="folder")


def test_missing_numbers_are_nan_and_other_missing_cells_none():
    np.testing.assert_array_equal(as_column([1.5, None]), [1.5, np.nan])
    assert as_column([1, 2]).dtype.kind == "i"
    assert as_column([True, False]).dtype == bool
    assert as_column([True, None]).tolist() == [True, None]
    assert as_column(["a", "bc"]).tolist() == ["a", "bc"]
