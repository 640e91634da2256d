"""Show what the shared assertions compared, as pytest does for those in test files."""

import pytest

pytest.register_assert_rewrite("tests.gpmodels.layer_contract")
