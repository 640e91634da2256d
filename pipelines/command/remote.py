"""Work with a network on the workers of a cluster; without TensorFlow, which each starts before use."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from data_prep.errors import InputError, Skipped
from data_prep.prepared.workers import Cluster, work_in_order
from pipelines.command.tensorflow_start import start_tensorflow

Item = TypeVar("Item")
Result = TypeVar("Result")


def work_with_tensorflow(
    cluster: Cluster,
    make: Callable[[], Callable[[Item], Result]],
    items: Sequence[Item],
    file_of: Callable[[Item], Path],
    ahead: int | None = None,
) -> Iterator[Result | Skipped]:
    """Apply to each item what every worker makes once, such as an opened network.

    Args:
        cluster: The cluster.
        make: Makes the function of an item, in a worker that has started TensorFlow with one thread.
        items: Items to work on.
        file_of: Returns the file that an item is read from.
        ahead: See `data_prep.prepared.workers.work_in_order`.

    Yields:
        What the function returned for each item, in their order; or a `Skipped` where each worker that took
        the item ended.

    Raises:
        InputError: What `make` or the function raised, or a worker cannot be used.
        ClusterLost: The cluster no longer answers.
    """
    arguments = (pickle.dumps(make),)
    for _, result in work_in_order(cluster, apply_made, items, arguments, file_of, ahead):
        yield result


def apply_made(item: Item, make: bytes) -> Any:
    """Return what the function of `work_with_tensorflow` returns for an item, in a worker process.

    Args:
        item: The item.
        make: What makes the function, pickled: unpickled by Dask, it would import TensorFlow before it is
            kept quiet.
    """
    start_tensorflow(1)
    return made(make)(item)


@lru_cache(maxsize=1)
def made(make: bytes) -> Callable[[Any], Any]:
    """Return the function of the items, made once in a worker process."""
    function: Callable[[Any], Any] = pickle.loads(make)()  # noqa: S301 - by the command itself, as Dask does
    return function


def other_file_seen(path: Path) -> InputError:
    """Return the error of a worker that does not find at a path what the command found there.

    Args:
        path: The file or folder, as the command calls it.
    """
    return InputError(
        f"{path}: a worker sees something else at this path than the command, or it has changed since the "
        "command began. All machines of a cluster must see the files under the same paths. When they do, "
        "give the command again, `train` and `features` with --resume."
    )
