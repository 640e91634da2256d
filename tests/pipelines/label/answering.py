"""Answers to all questions about a pool, and the command that is printed after them."""

import shlex

from rich.console import Console

from pipelines.label import steps
from pipelines.label.settings import LabelSettings


def answer(pool, out, say, mode="ask", most=100):
    """Answer questions about a pool with features, and return the names that were asked."""
    out.mkdir(parents=True, exist_ok=True)
    session, encoder = steps._open_session(pool, LabelSettings(), out)
    session.learn_from(
        encoder.encode([one.path for one in pool.images], on_done=lambda _: None, is_stopped=lambda: False)
    )
    asked = []
    while len(asked) < most and (question := session.question("1", mode)) is not None:
        asked.append(question["name"])
        said = say(question["name"])
        verdict = "class" if said else "unsure"
        session.answer([question["number"]], verdict, class_name=said, tab="1", mode=mode)
    session.close()
    return asked


def next_command(pool, out):
    """Return the words of the first command that is printed at the end."""
    console = Console(record=True, width=200)
    steps._show_next(pool, out, console)
    line = next(line for line in console.export_text().splitlines() if " prepare " in line)
    return shlex.split(line)
