"""Progress of a training, with the time left for the whole stage."""

import io

import pytest
from rich.console import Console

from pipelines.training.progress import EpochProgress, epoch_lines
from pipelines.training.stages import EpochReport


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=120)


def train(progress: EpochProgress, epochs: range, steps: int) -> None:
    for epoch in epochs:
        progress.on_epoch_begin(epoch)
        for step in range(steps):
            progress.on_train_batch_end(step, {"loss": 0.5})


def test_a_log_is_not_cluttered():
    log = console(terminal=False)
    progress = EpochProgress(log, "hgp", 3, 4)
    train(progress, range(3), 4)
    progress.close()
    assert log.file.getvalue() == ""


def test_the_bar_covers_the_stage_and_goes_away():
    screen = console(terminal=True)
    progress = EpochProgress(screen, "hgp", 3, 4)
    train(progress, range(2), 4)
    (task,) = progress._bar.tasks
    assert (task.completed, task.total) == (8, 12)
    progress.close()
    shown = screen.file.getvalue()
    assert "hgp 2/3" in shown
    assert "8/12" in shown
    assert "loss 0.5000" in shown
    assert shown.rstrip().endswith("\x1b[2K")  # the last line is erased


def test_a_resumed_stage_starts_where_it_was_left():
    progress = EpochProgress(console(terminal=True), "hgp", 5, 4)
    progress.on_epoch_begin(3)
    (task,) = progress._bar.tasks
    assert (task.completed, task.total) == (12, 20)
    progress.close()


@pytest.mark.parametrize("begun", [True, False])
def test_closing_twice_or_before_the_start_is_harmless(begun):
    progress = EpochProgress(console(terminal=True), "hgp", 1, 1)
    if begun:
        progress.on_epoch_begin(0)
    progress.close()
    progress.close()


def test_a_line_of_an_epoch_has_the_titles_of_the_application():
    said: list[str] = []
    hook = epoch_lines("svgp", {"nll": "standardised NLL", "rmse": "RMSE"}, said.append)
    hook(
        EpochReport(2, {"loss": 0.5, "selection_nll": 1.25, "selection_rmse": 3.0}, is_best=True, model=None)
    )
    assert said == ["svgp epoch 2: loss 0.5000, standardised NLL 1.2500, RMSE 3.0000 *"]
