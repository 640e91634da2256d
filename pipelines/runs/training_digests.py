"""What a run learned from, so that `evaluate` notices it among what it judges, however that was prepared.

Names would not do: other recordings have the same ones, and a copy may have another. What the network is
given of an example is the same again wherever it is prepared alike, which `evaluate` asks of a folder anyway.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_prep.errors import InputError
from data_prep.files.atomic import write_text

LEARNED_NAME = "learned.txt"
"""File of a run with the digest of each training and selection example."""


def input_digests(inputs: Iterable[NDArray[Any]]) -> list[str]:
    """Digests of what a network is given of some examples; blank ones, which are all alike, have none.

    Args:
        inputs: An array for each example.

    Example:
        >>> import numpy as np
        >>> one, other = input_digests([np.arange(4), np.zeros(4), np.arange(4)])
        >>> one == other
        True
    """
    return [
        hashlib.blake2b(np.ascontiguousarray(values).tobytes(), digest_size=16).hexdigest()
        for values in inputs
        if np.ptp(values)
    ]


def write_learned(run: Path, digests: Iterable[str]) -> None:
    """Keep digests with a run.

    Raises:
        InputError: They cannot be written.
    """
    write_text(run / LEARNED_NAME, "".join(f"{digest}\n" for digest in sorted(set(digests))))


def read_learned(run: Path) -> frozenset[str] | None:
    """The digests kept with a run; None where there is no such file, as an earlier version left none.

    Raises:
        InputError: They cannot be read.
    """
    path = run / LEARNED_NAME
    try:
        return frozenset(path.read_text(encoding="ascii").split()) if path.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read ({error}). Expected what the run learned from. Put the file back, or "
            "remove it to judge the run without looking for that among the judged."
        ) from error
