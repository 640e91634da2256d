"""Where files are kept that can be made again: converted weights, features of frozen trunks."""

import os
from pathlib import Path

from data_prep.errors import InputError

CACHE_VARIABLE = "GPIMAGING_CACHE"


def cache_folder(kind: str) -> Path:
    """Return the folder of one kind of cached files, created where it is missing.

    It lies in the folder that the environment variable `GPIMAGING_CACHE` names, else in `gpimaging` of
    `XDG_CACHE_HOME` or of `~/.cache`. All of it may be deleted at any time.

    Args:
        kind: For example `"weights"`.

    Raises:
        InputError: The folder cannot be created.
    """
    given = os.environ.get(CACHE_VARIABLE)
    base = os.environ.get("XDG_CACHE_HOME")
    folder = Path(given) if given else (Path(base) if base else Path.home() / ".cache") / "gpimaging"
    folder = folder / kind
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be created ({error.strerror}). Let the environment variable {CACHE_VARIABLE} "
            "name a folder that you may write to."
        ) from error
    return folder
