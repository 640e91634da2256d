"""Show what the shared assertions compared, as pytest does in test files; trace less, and variants last."""

import pytest

pytest.register_assert_rewrite("tests.gpmodels.layer_contract")


@pytest.fixture(autouse=True, scope="session")
def _many_engines() -> None:
    """Keep the engines of estimators, whose traces take most of the time that fits of tests take."""
    from gpmodels.estimators import engine  # noqa: PLC0415 - not while pytest starts

    engine.MAX_ENGINES = 16


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the variants of a family of heads to other commands where checks take long."""
    for item in items:
        if getattr(getattr(item, "cls", None), "is_variant", False):
            for marker, other in (("variants_are_slow", "slow"), ("once_a_family", "exhaustive")):
                if item.get_closest_marker(marker):
                    item.add_marker(getattr(pytest.mark, other))
