"""Show what the shared assertions compared, as pytest does in test files; trace less, and variants last."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.gpmodels.layer_contract")


@pytest.fixture(autouse=True, scope="session")
def _many_engines() -> None:
    """Keep more engines of estimators, whose traces take most of the time of fits, and up to 200 MB each."""
    from gpmodels.estimators.fitting import engine  # noqa: PLC0415 - not while pytest starts

    engine.MAX_ENGINES = 8


@pytest.fixture(scope="session")
def isolated() -> Iterator[Callable[..., Any]]:
    """Calls a function of `isolated_checks` in the one process that has two devices and is deterministic."""
    from tests.gpmodels.isolated_checks import deterministic_process  # noqa: PLC0415 - not while pytest starts

    with deterministic_process() as process:
        yield lambda check, *arguments: process.submit(check, *arguments).result()


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the variants of a family of heads to other commands where checks take long, or train a model."""
    for item in items:
        contract = getattr(item, "cls", None)
        if item.get_closest_marker("long") and not contract.has_long_checks:
            item.add_marker(pytest.mark.exhaustive)
        if not getattr(contract, "is_variant", False):
            continue
        if item.get_closest_marker("once_a_family") and not contract.is_own_head:
            item.add_marker(pytest.mark.exhaustive)
        if item.get_closest_marker("traces") or ("model" in item.fixturenames and not contract.is_own_head):
            item.add_marker(pytest.mark.slow)
