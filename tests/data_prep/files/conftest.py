"""Fixtures of files at addresses."""

import pytest


@pytest.fixture
def store():
    """A new store with `stores.FILES` below `/slides`."""
    from tests.data_prep.files import stores  # noqa: PLC0415 - needs fsspec, which is optional

    return stores.new_store()
