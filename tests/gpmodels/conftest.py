"""Show what the shared assertions compared, as pytest does in test files; more problems on request."""

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.gpmodels.layer_contract")
settings.register_profile("thorough", max_examples=2000)
