"""Strategies by which one training runs on several devices or machines, and the part of one process in it.

No TensorFlow here: the environment variable `TF_CONFIG` is checked before TensorFlow reads it.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from data_prep.errors import InputError

TF_CONFIG: Final = "TF_CONFIG"

CHIEF, WORKER = "chief", "worker"

_ADDRESS: Final = re.compile(r"(?P<host>[^\s:\[\]]+):(?P<port>\d{1,5})")

_EXAMPLE: Final = (
    'Expected for example {"cluster": {"worker": ["10.0.0.1:12345", "10.0.0.2:12345"]}, '
    '"task": {"type": "worker", "index": 0}}, with the number of each machine as its index'
)


class StrategyName(StrEnum):
    """How one training runs: on one device, on all devices of this machine, or on several machines."""

    NONE = "none"
    MIRRORED = "mirrored"
    MULTI_WORKER = "multi_worker"


@dataclass(frozen=True)
class ClusterTask:
    """The part that one process has in a training of several.

    Attributes:
        addresses: Address `host:port` of each process, that of the chief first.
        number: Number of this process among them, from 0, which is the chief's.
        name: What `TF_CONFIG` calls the task of this process, for example `worker 0`.
    """

    addresses: tuple[str, ...]
    number: int
    name: str

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one that writes."""
        return self.number == 0

    @property
    def title(self) -> str:
        """The process in words, with its address."""
        return f"{self.name} ({self.addresses[self.number]})"

    def title_of(self, number: int) -> str:
        """Return a process of the cluster in words.

        Args:
            number: Its number, from 0.
        """
        return f"process {number + 1} of {len(self.addresses)} ({self.addresses[number]})"


def read_task(environment: Mapping[str, str] | None = None) -> ClusterTask:
    """Return the part of this process in the training that `TF_CONFIG` describes.

    Where the cluster lists no chief, the first worker is the chief, as TensorFlow has it.

    Args:
        environment: Environment variables; None for those of the process.

    Raises:
        InputError: `TF_CONFIG` is missing, is no JSON, names no chief, or its task is not in its cluster.

    Example:
        >>> cluster = {"worker": ["10.0.0.1:12345", "10.0.0.2:12345"]}
        >>> config = {"cluster": cluster, "task": {"type": "worker", "index": 1}}
        >>> read_task({"TF_CONFIG": json.dumps(config)}).is_chief
        False
    """
    text = (os.environ if environment is None else environment).get(TF_CONFIG, "")
    if not text.strip():
        raise _refused("it is not set", "Set it for each process")
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise _refused(f"it is no JSON ({error}): {_shortened(text)}", "Correct it") from error
    cluster = config.get("cluster") if isinstance(config, dict) else None
    if not isinstance(cluster, dict) or not cluster:
        raise _refused(f"it names no cluster: {_shortened(text)}", "List the addresses of all processes")
    _require_known_jobs(cluster)
    chiefs, workers = (_addresses(cluster, job) for job in (CHIEF, WORKER))
    if len(chiefs) > 1:
        raise _refused(f"its cluster has {len(chiefs)} chiefs", "List one, and the others as workers")
    if not chiefs and not workers:
        raise _refused(
            f"its cluster names no chief, and no worker that could be it: {_shortened(json.dumps(cluster))}",
            "List the chief, or workers of which the first is the chief",
        )
    addresses = (*chiefs, *workers)
    if len(set(addresses)) < len(addresses):
        raise _refused(
            f"its cluster lists an address twice: {', '.join(addresses)}", "Give each process its own"
        )
    job, index = _task(config, {CHIEF: chiefs, WORKER: workers})
    return ClusterTask(addresses, index + (len(chiefs) if job == WORKER else 0), f"{job} {index}")


def _require_known_jobs(cluster: Mapping[str, Any]) -> None:
    others = sorted(set(cluster) - {CHIEF, WORKER})
    if others and set(others) != set(cluster):
        raise _refused(
            f"its cluster lists {', '.join(others)}, which multi_worker has no use for",
            "List a chief and workers alone",
        )


def _addresses(cluster: Mapping[str, Any], job: str) -> tuple[str, ...]:
    addresses = cluster.get(job, [])
    if not isinstance(addresses, list):
        raise _refused(f"the {job} of its cluster is {addresses!r}", "Give a list of addresses")
    for address in addresses:
        matched = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
        if matched is None or not 0 < int(matched["port"]) < 65536:
            raise _refused(
                f"its cluster lists {address!r}, which is no HOST:PORT", "Give a name or an IPv4 address"
            )
    return tuple(addresses)


def _task(config: Mapping[str, Any], listed: Mapping[str, tuple[str, ...]]) -> tuple[str, int]:
    """Return the job and the index of this process."""
    task = config.get("task")
    job, index = (task.get("type"), task.get("index")) if isinstance(task, dict) else (None, None)
    if isinstance(index, str) and index.isdecimal():  # job files often write the number as text
        index = int(index)
    has = " and ".join(f"{len(some)} {name}(s)" for name, some in listed.items() if some)
    if not isinstance(job, str) or not isinstance(index, int) or isinstance(index, bool):
        raise _refused(
            f"its task is {_shortened(json.dumps(task))}", "Name the type and the index of this process"
        )
    if not 0 <= index < len(listed.get(job, ())):
        raise _refused(
            f"its task is {job} {index}, but its cluster has {has}",
            "Name a task of the cluster, with an index from 0",
        )
    return job, index


def _refused(found: str, remedy: str) -> InputError:
    return InputError(
        f"--strategy multi_worker needs the environment variable {TF_CONFIG}, but {found}. {_EXAMPLE}. "
        f"{remedy}; see docs/scaling.md."
    )


def _shortened(text: str, length: int = 120) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
