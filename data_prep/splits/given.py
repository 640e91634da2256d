"""A split that the data themselves give, by folders or by a column, instead of settings."""

from collections.abc import Mapping
from pathlib import Path

from data_prep.errors import InputError
from data_prep.files.split_folders import Side
from data_prep.splits.settings import SplitSettings

Names = tuple[str, ...] | None
"""Names of the files of a side; None where nothing says it."""


def given_split(
    sides: Mapping[str, Side | None],
    settings: SplitSettings,
    lists: tuple[Names, Names],
    where: Path,
) -> tuple[Names, Names]:
    """Return the names to train on and to test on: those that the data give, or those of lists.

    Args:
        sides: Side of each file by its name; None where the data give none.
        settings: Settings of `prepare`.
        lists: Names of the lists that the settings name.
        where: Folder or table that gives the sides, for messages.

    Raises:
        InputError: The data give a split, and the settings another one.
    """
    if None in sides.values():
        return lists
    if settings.folds is not None or lists != (None, None):
        raise InputError(
            f"{where}: gives a split itself, by folders such as train and test or by a column split, and "
            "folds or lists are given too. Give one of them."
        )
    train, test = (tuple(name for name, one in sides.items() if one == side) for side in ("train", "test"))
    return train or None, test or None
