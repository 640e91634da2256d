"""Show what the shared assertions compared, as pytest does in test files; more problems on request."""

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.gpmodels.layer_contract")
settings.register_profile("thorough", max_examples=2000)


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the variants of a family of heads to `make test-exhaustive` where checks take long."""
    for item in items:
        if item.get_closest_marker("once_a_family") and getattr(
            getattr(item, "cls", None), "is_variant", False
        ):
            item.add_marker(pytest.mark.exhaustive)
