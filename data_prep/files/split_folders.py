"""Folders and columns that say which part an example is of, as public sets have them: train, val and test."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from data_prep.errors import InputError
from data_prep.files.entries import is_folder, listed

Side = Literal["train", "test"]
"""Side of a fixed split."""

_TRAIN = frozenset({"train", "training"})
_VALIDATION = frozenset({"val", "valid", "validation", "dev"})
_TEST = frozenset({"test", "testing"})


def sides_of(words: Iterable[str]) -> dict[str, Side]:
    """Return the side of the split that each word names, in any case; other words are absent.

    Validation examples train where there are test ones, for `train` holds some out to choose by; where there
    are none, they are what is judged by.

    Example:
        >>> sides_of(["train", "Val"]), sides_of(["val", "test", "day 1"])
        ({'train': 'train', 'Val': 'test'}, {'val': 'train', 'test': 'test'})
    """
    words = list(dict.fromkeys(words))
    validation: Side = "train" if any(word.lower() in _TEST for word in words) else "test"
    sides: dict[str, Side] = {}
    for word in words:
        if word.lower() in _TRAIN:
            sides[word] = "train"
        elif word.lower() in _TEST:
            sides[word] = "test"
        elif word.lower() in _VALIDATION:
            sides[word] = validation
    return sides


def split_folders(folder: Path) -> dict[str, Side]:
    """Return the side of each subfolder where all of them are parts of a split that hold class folders.

    Args:
        folder: Folder of images or videos.

    Returns:
        The side by the name of the subfolder; empty where the subfolders are something else.

    Raises:
        InputError: The folder cannot be listed, or has other folders beside those of a split.
    """
    entries = _visible(folder)
    parts = [entry for entry in entries if is_folder(entry)]
    sides = sides_of(part.name for part in parts)
    named = [part for part in parts if part.name in sides]
    if len(named) < 2 or "train" not in sides.values():
        return {}
    if not all(any(map(is_folder, _visible(part))) for part in named):
        return {}
    others = [part.name for part in parts if part not in named and _may_hold_classes(part)]
    if others:
        raise InputError(
            f"{folder}: {' and '.join(sides)} hold class folders and give the split, but beside them is "
            f"{', '.join(others[:3])}. Expected the parts of the split alone. Move the rest elsewhere."
        )
    return sides


def _may_hold_classes(folder: Path) -> bool:
    """Whether a folder has folders inside that could be classes; macOS adds `__MACOSX` to archives."""
    return folder.name != "__MACOSX" and any(map(is_folder, _visible(folder)))


def split_note(folder: Path) -> tuple[str, ...]:
    """Return a sentence about the given split of a folder; none where it has no such subfolders."""
    sides = split_folders(folder)
    if not sides:
        return ()
    purposes = {"train": "for training", "test": "for the test"}
    named = ", ".join(f"{name} {purposes[side]}" for name, side in sides.items())
    return (f"the folders of {folder.name} give the split: {named}.",)


def _visible(folder: Path) -> list[Path]:
    return [entry for entry in listed(folder) if not entry.name.startswith(".")]
