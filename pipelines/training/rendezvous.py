"""Waiting until all processes of a training are there, with a limit and a message that says who is missing.

TensorFlow waits for them as well, but in a call that neither Ctrl-C nor a clock of Python ends. So the
processes meet before: each one reports to the address of the chief, which lets all of them go on.
"""

import select
import socket
import time
from importlib.metadata import version
from typing import Final

from data_prep.errors import InputError
from pipelines.command.strategies import ClusterTask
from pipelines.errors import ProcessLost

WAIT_SECONDS: Final = 600.0
"""How long a process waits for the others: job schedulers start them one after another."""

_NAME: Final = "gpimaging"
_GO: Final = "go"
_PAUSE: Final = 0.2
_LONGEST_LINE: Final = 1000
_GREETING_SECONDS: Final = 5.0  # for whoever comes: the others wait meanwhile


def wait_for_processes(task: ClusterTask, *, seconds: float = WAIT_SECONDS) -> None:
    """Return when all processes of a training have reported to its chief.

    Args:
        task: Part of this process.
        seconds: How long to wait for the others.

    Raises:
        InputError: The address of the chief cannot be used, two processes have the same task, or one has
            another version; raised in all of them.
        ProcessLost: Some did not come in time.

    Example:
        >>> wait_for_processes(ClusterTask(("127.0.0.1:1",), number=0, name="worker 0"))  # alone
    """
    if len(task.addresses) == 1:
        return
    until = time.monotonic() + seconds
    if task.is_chief:
        _gather(task, until, seconds)
    else:
        _report(task, until, seconds)


def _gather(task: ClusterTask, until: float, seconds: float) -> None:
    """Wait for all others, and let them go on; a problem is told to all of them."""
    host, port = _host_and_port(task.addresses[0])
    try:
        listener = socket.create_server(("", port))
    except OSError as error:
        raise InputError(
            f"The chief {task.title} cannot listen on port {port} of {host} ({error.strerror}). Choose a "
            "free port in TF_CONFIG, the same in all processes."
        ) from error
    present: dict[int, socket.socket] = {}
    with listener:
        problem = _problem(task, listener, present, until, seconds)
    for connection in present.values():
        _answer(connection, _GO if problem is None else str(problem))
    if problem is not None:
        raise problem


def _problem(
    task: ClusterTask,
    listener: socket.socket,
    present: dict[int, socket.socket],
    until: float,
    seconds: float,
) -> InputError | ProcessLost | None:
    """Fill `present` by number with the processes that come; return what is wrong, None if all are there."""
    while True:
        for number in [number for number, other in present.items() if _has_ended(other)]:
            present.pop(number).close()  # it may come again
        if len(present) == len(task.addresses) - 1:
            return None
        try:
            listener.settimeout(_left(until))
            connection, _ = listener.accept()
        except TimeoutError:
            return ProcessLost(_missing(task, present, seconds))
        problem = _greeted(task, connection, present, until)
        if problem is not None:
            _answer(connection, str(problem))
            return problem


def _greeted(
    task: ClusterTask, connection: socket.socket, present: dict[int, socket.socket], until: float
) -> InputError | None:
    """Add a process that has come to those present, or return what is wrong with it."""
    try:
        connection.settimeout(min(_GREETING_SECONDS, _left(until)))
        greeting = _read_line(connection).split()
    except OSError:
        greeting = []  # whoever it was comes again, or is missing in the end
    if len(greeting) != 3 or greeting[0] != _NAME or not greeting[2].isdecimal():
        connection.close()  # a stranger, such as a probe of the port
        return None
    number = int(greeting[2])
    if not 0 < number < len(task.addresses):
        return InputError(
            f"A process with the number {number + 1} came to the chief {task.title}, whose TF_CONFIG has "
            f"{len(task.addresses)} processes. Give all of them the same cluster."
        )
    if number in present and not _has_ended(present[number]):
        return InputError(
            f"Two processes have the task of {task.title_of(number)} in TF_CONFIG. Give each one its own "
            "index."
        )
    if greeting[1] != version(_NAME):
        return InputError(
            f"{task.title_of(number)} has gpimaging {greeting[1]}, but the chief has {version(_NAME)}. "
            "Install the same version everywhere."
        )
    present[number] = connection
    return None


def _has_ended(connection: socket.socket) -> bool:
    """Whether the other side has closed a connection, on which it says nothing after its greeting."""
    readable, _, _ = select.select([connection], [], [], 0)
    try:
        return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


def _left(until: float) -> float:
    """Return the seconds until a time, at least a moment: none at all would not wait, and not time out."""
    return max(until - time.monotonic(), 0.001)


def _missing(task: ClusterTask, present: dict[int, socket.socket], seconds: float) -> str:
    names = [task.title_of(k) for k in range(1, len(task.addresses)) if k not in present]
    return (
        f"{', '.join(names)} did not come within {seconds:g} seconds. Expected all processes of TF_CONFIG to "
        "be started with the same command, and to reach the chief. Start them again, with --resume if the "
        "run had begun."
    )


def _report(task: ClusterTask, until: float, seconds: float) -> None:
    """Report to the chief until it answers, and wait until it lets this process go on."""
    chief = _host_and_port(task.addresses[0])
    answer = ""
    while not answer and time.monotonic() < until:
        try:
            with socket.create_connection(chief, timeout=_left(until)) as connection:
                connection.sendall(f"{_NAME} {version(_NAME)} {task.number}\n".encode())
                answer = _read_line(connection)
        except OSError:  # the chief is not there yet
            answer = ""
        if not answer:
            time.sleep(_PAUSE)
    if not answer:
        raise ProcessLost(
            f"The chief of the training ({task.addresses[0]}) did not answer {task.title} within {seconds:g} "
            "seconds. Expected it to be started with the same command, and to be reached at that address. "
            "Start all processes again, with --resume if the run had begun."
        )
    if answer != _GO:
        raise InputError(f"The chief of the training ({task.addresses[0]}) ended: {answer}")


def _answer(connection: socket.socket, text: str) -> None:
    """Send a line, and wait until the other side has closed: the port is then free for TensorFlow."""
    with connection:
        connection.settimeout(10.0)
        try:
            connection.sendall(f"{text}\n".encode())
            connection.recv(1)
        except OSError:
            return  # it has ended, which the training finds out


def _read_line(connection: socket.socket) -> str:
    """Return the line that the other side sends, empty if it ends before."""
    received = b""
    while not received.endswith(b"\n") and len(received) < _LONGEST_LINE:
        some = connection.recv(_LONGEST_LINE)
        if not some:
            return ""
        received += some
    return received.decode(errors="replace").strip()


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
