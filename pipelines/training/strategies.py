"""Starting a training on several devices or machines, and ending all of its processes where one is lost."""

import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tensorflow as tf
from rich.console import Console

from data_prep.errors import InputError
from pipelines.command.console import say
from pipelines.command.strategies import ClusterTask, StrategyName, read_task
from pipelines.errors import ProcessLost
from pipelines.training.rendezvous import wait_for_processes
from pipelines.training.replicas import Replicas

_LOST: Final = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
"""What TensorFlow raises in a process whose sums wait for one that has ended or stopped answering."""


@dataclass(frozen=True)
class TrainingContext:
    """Where a process trains.

    Attributes:
        replicas: The devices; None for one device.
        folder: Folder to write to: that of the run, or of a process that is not the chief a temporary one.
        console: Where it says what it does.
    """

    replicas: Replicas | None
    folder: Path
    console: Console

    @property
    def is_chief(self) -> bool:
        """Whether what this process writes is kept."""
        return self.replicas is None or self.replicas.is_chief


@contextmanager
def training_context(
    name: StrategyName, *, out: Path, resume: bool, console: Console
) -> Iterator[TrainingContext]:
    """Start a strategy, and yield where this process trains.

    Only the chief writes to the folder of the run. The other processes train the same, so that all have the
    same weights, and write to a temporary folder, which begins as a copy of a run that is to be resumed.

    Args:
        name: The strategy.
        out: Folder of the run.
        resume: Whether it is to be resumed.
        console: Of the command.

    Raises:
        InputError: `TF_CONFIG` cannot be used, or the strategy is started too late.
        ProcessLost: Another process did not come, ended or does not answer.
    """
    if name is StrategyName.NONE:
        yield TrainingContext(None, out, console)
        return
    if name is StrategyName.MIRRORED:
        replicas = Replicas(tf.distribute.MirroredStrategy())
        _print_devices(replicas, console)
        yield TrainingContext(replicas, out, console)
        return
    task = read_task()
    wait_for_processes(task)
    with _one_message(task), tempfile.TemporaryDirectory(prefix="gpimaging-") as temporary:
        replicas = Replicas(_multi_worker_strategy(), task)
        folder, own_console = out, console
        if task.is_chief:
            _print_devices(replicas, console)
        else:
            say(
                console,
                f"This is {task.title}. It trains with the chief ({task.addresses[0]}), which alone writes "
                f"to {out} and says how far the training is.",
            )
            folder, own_console = Path(temporary) / "run", Console(quiet=True)
            if resume and out.exists():
                shutil.copytree(out, folder, ignore=shutil.ignore_patterns("tensorboard"))
        replicas.wait()  # no process writes before the others have read
        yield TrainingContext(replicas, folder, own_console)
        replicas.wait()  # nobody ends while another one needs it


def _print_devices(replicas: Replicas, console: Console) -> None:
    if replicas.count == 1:
        say(console, "Note: there is one device only, so the strategy makes no difference.")
    else:
        say(console, f"Each batch is shared by {replicas.count} devices")


def _multi_worker_strategy() -> tf.distribute.Strategy:
    """Return TensorFlow's strategy, in a process that SIGTERM still ends.

    The strategy takes SIGTERM for notice that the machine will be taken away, and lets the process live.
    """
    at_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        if threading.current_thread() is threading.main_thread():  # only there can it be set
            signal.signal(signal.SIGTERM, signal.SIG_DFL if at_sigterm is None else at_sigterm)
        return strategy
    except RuntimeError as error:
        raise InputError(
            f"The strategy multi_worker must be started before TensorFlow does anything else ({error}). "
            "Start each training in a process of its own, as the command line does."
        ) from error


@contextmanager
def _one_message(task: ClusterTask) -> Iterator[None]:
    """Turn TensorFlow's errors about a lost process into one that says what to do."""
    try:
        yield
    except _LOST as error:
        others = ", ".join(address for k, address in enumerate(task.addresses) if k != task.number)
        detail = next((line for line in error.message.splitlines() if line.strip()), type(error).__name__)
        raise ProcessLost(
            f"{task.title} lost another process of the training, one of {others}, and ends: {detail} If that "
            "one gave a reason, remove it. The chief's last checkpoint is kept: start all processes again "
            "with the same commands and --resume."
        ) from error
