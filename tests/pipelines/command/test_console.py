"""Log lines are shown once, whatever libraries do with the root logger, and names as they are."""

import io
import logging

import pytest
from rich.console import Console

from pipelines.command.console import configure_logging, make_console, show_table


def test_a_line_is_shown_once(caplog: pytest.LogCaptureFixture) -> None:
    shown = io.StringIO()
    configure_logging(Console(file=shown, width=80))
    logging.getLogger("data_prep.anything").info("one line")  # `caplog` listens where libraries would
    assert shown.getvalue() == "one line\n"
    assert caplog.messages == []


def test_the_next_test_hears_what_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("data_prep.anything").warning("one line")
    assert caplog.messages == ["one line"]


def test_names_that_look_like_emojis_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    console = make_console()
    console.print("Read as votes for :smile:, [b]", markup=False)
    show_table(console, "Prepared", {"Images of :cat:": ":dog:"})
    printed = capsys.readouterr().out
    assert "Read as votes for :smile:, [b]" in printed
    assert ":cat:" in printed
    assert ":dog:" in printed
