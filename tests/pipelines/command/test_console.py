"""Log lines are shown once, whatever libraries do with the root logger."""

import io
import logging

import pytest
from rich.console import Console

from pipelines.command.console import configure_logging


def test_a_line_is_shown_once(caplog: pytest.LogCaptureFixture) -> None:
    shown = io.StringIO()
    configure_logging(Console(file=shown, width=80))
    logging.getLogger("data_prep.anything").info("one line")  # `caplog` listens where libraries would
    assert shown.getvalue() == "one line\n"
    assert caplog.messages == []


def test_the_next_test_hears_what_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("data_prep.anything").warning("one line")
    assert caplog.messages == ["one line"]
