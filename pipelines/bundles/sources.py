"""The files to predict; apart from the loop that predicts, so that naming one does not import TensorFlow."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.depth import outside_levels
from data_prep.files.entries import IMAGE_SUFFIXES
from data_prep.files.image_settings import ImageKinds, KeptLevels
from data_prep.files.kinds import unlike_kinds
from data_prep.files.unusable import why_not_read
from data_prep.files.videos import VIDEO_SUFFIXES
from pipelines.command.console import say
from pipelines.command.folders import PREDICTIONS

LONGEST_STEM = 235
"""Most bytes of the stem of outputs: a file name may have 255, and a frame's has a number and a suffix."""

KNOWN_SUFFIXES = IMAGE_SUFFIXES | VIDEO_SUFFIXES
"""Suffixes of the images and videos that `predict` reads."""

_MOST_NAMED = 3
"""Folders inside the inputs that a message names."""

_MOST_ENTRIES = 10_000
"""Entries of such folders that are looked at, so that a note does not take minutes in a large tree."""


@dataclass(frozen=True)
class Source:
    """A file to predict and the stem of its outputs.

    Attributes:
        path: The file, or the folder of `files`.
        stem: Stem of its outputs.
        name: What tables call it beside its path; nothing where they call it by its path alone.
        files: What is read in place of the path, where that is a folder.
    """

    path: Path
    stem: str
    name: str = ""
    files: tuple[Path, ...] = ()

    @property
    def is_video(self) -> bool:
        """Return whether the file is read frame by frame."""
        return self.path.suffix.lower() in VIDEO_SUFFIXES


def find_sources(
    inputs: Sequence[Path],
    *,
    suffixes: Collection[str] = KNOWN_SUFFIXES,
    kind: str = "image or video",
) -> list[Source]:
    """Return the files given and the known files in folders given, each path once.

    They are in the order given, those of a folder by name. Then come files of a folder that look like
    pictures and cannot be read, such as a GIF or a pipe named like an image: their lines say so.

    Args:
        inputs: Files and folders.
        suffixes: Suffixes of the files that are taken from a folder, in lower case.
        kind: What these files are, for messages.

    Raises:
        InputError: A path does not exist, or nothing is there to predict.
    """
    paths: list[Path] = []
    unreadable: list[Path] = []
    for path in inputs:
        if path.is_dir():
            files = sorted(path.iterdir())
            paths += [file for file in files if _is_known_file(file, suffixes)]
            unreadable += [file for file in files if _looks_readable(file, suffixes)]
        elif path.exists():
            paths.append(path)
        else:
            raise InputError(f"{path} does not exist. Pass image files, video files, or a folder of them.")
    if not (paths or unreadable):
        filled = [folder for path in inputs for folder in _filled_folders(path, suffixes, ())]
        hint = (
            " Folders within a folder are not searched: pass them by name, such as "
            f"{', '.join(map(str, filled[:_MOST_NAMED]))}."
        )
        raise InputError(
            f"No {kind} in {', '.join(map(str, inputs))}. Expected files ending in "
            f"{', '.join(sorted(suffixes))}.{hint if filled else ''}"
        )
    # These leave no files behind, so that the others need not make room for their names.
    others = [Source(path, path.name) for path in dict.fromkeys(unreadable) if path not in paths]
    return unique_sources(list(dict.fromkeys(paths))) + others


def with_subfolders(inputs: Sequence[Path], out: Path) -> list[Path]:
    """Return files and folders, each folder followed by the folders that are directly inside it.

    Args:
        inputs: Files and folders.
        out: Where predictions are written, which is left out.
    """
    found: list[Path] = []
    for path in inputs:
        inside = sorted(path.iterdir()) if path.is_dir() else []
        found += [path, *(one for one in inside if one.is_dir() and not one.name.startswith("."))]
    return [path for path in found if path.resolve() != out.resolve()]


def print_unsearched(
    inputs: Sequence[Path], out: Path, console: Console, *, suffixes: Collection[str]
) -> None:
    """Say which of the folders have folders inside with files that are not predicted.

    Args:
        inputs: Files and folders, as given to `find_sources`.
        out: Where the predictions are written, which are no files to predict.
        console: Where it is said.
        suffixes: Suffixes of the files that are taken from a folder, in lower case.
    """
    passed_over = {path.resolve() for path in (*inputs, out)}
    for folder in inputs:
        filled = _filled_folders(folder, suffixes, passed_over) if folder.is_dir() else []
        if filled:
            named = " ".join(shlex.quote(str(path)) for path in filled[:_MOST_NAMED])
            more = " and others" if len(filled) > _MOST_NAMED else ""
            say(
                console,
                f"Note: folders inside {folder} are not searched, and some have files to predict. To predict "
                f"these, pass them too: --input {named}{more}",
            )


def print_outside_levels(
    sources: Sequence[Source],
    levels: KeptLevels | None,
    console: Console,
    *,
    only_wide: bool = False,
) -> None:
    """Warn of images that the range of levels of the training does not suit.

    Args:
        sources: What was predicted; videos are passed over.
        levels: The levels that became 0 and 255 in the training, see `data_prep.files.depth`.
        console: Where it is said.
        only_wide: As for `data_prep.files.depth.outside_levels`.
    """
    files = [source.path for source in sources if not source.is_video]
    for warning in outside_levels(files, levels, only_wide=only_wide):
        say(console, f"Warning: {warning}")


def print_unlike_kinds(sources: Sequence[Source], kinds: ImageKinds, console: Console) -> None:
    """Warn of images, videos and sequences that are not of the kind of all images of the training.

    Args:
        sources: What was predicted.
        kinds: What all images of the training were.
        console: Where it is said.
    """
    for warning in unlike_kinds([source.path for source in sources], kinds):
        say(console, f"Warning: {warning}")


def _filled_folders(folder: Path, suffixes: Collection[str], passed_over: Collection[Path]) -> list[Path]:
    """Return the first folders at any depth inside a folder that directly hold such files.

    Folders of earlier predictions, hidden folders and folders that the user may not read are passed over.

    Args:
        folder: The folder.
        suffixes: Suffixes of the files, in lower case.
        passed_over: Further folders not to look into, as resolved paths.

    Returns:
        At most one more than messages name; none that lies beyond `_MOST_ENTRIES` entries.
    """
    found: list[Path] = []
    left = _MOST_ENTRIES
    entries = [] if (folder / PREDICTIONS).exists() else list(folder.iterdir())
    pending = deque(_folders_to_search(entries, passed_over))
    while pending and left and len(found) <= _MOST_NAMED:
        current = pending.popleft()
        entries = list(islice(current.iterdir(), left))
        left -= len(entries)
        if any(_is_known_file(entry, suffixes) for entry in entries):
            found.append(current)
        inside = _folders_to_search(entries, passed_over)
        # Links further inside are passed over: they may lead back.
        pending.extend(entry for entry in inside if not entry.is_symlink())
    return found


def _folders_to_search(entries: Iterable[Path], passed_over: Collection[Path]) -> list[Path]:
    """Return the folders among some entries, by name, that are neither hidden, closed nor predictions."""
    return sorted(
        entry
        for entry in entries
        if not entry.name.startswith(".")
        and entry.is_dir()
        and os.access(entry, os.R_OK | os.X_OK)
        and not (entry / PREDICTIONS).exists()
        and entry.resolve() not in passed_over
    )


def _is_known_file(path: Path, suffixes: Collection[str]) -> bool:
    return path.suffix.lower() in suffixes and not path.name.startswith(".") and path.is_file()


def _looks_readable(path: Path, suffixes: Collection[str]) -> bool:
    """Whether a visible entry of a folder looks like a picture, but is of no kind that is read."""
    return not path.name.startswith(".") and not path.is_dir() and why_not_read(path, suffixes) is not None


def unique_sources(paths: Sequence[Path]) -> list[Source]:
    """Return sources whose outputs cannot replace each other; a video's frames are its stem and a number.

    Args:
        paths: All files that are predicted together.
    """
    stems = Counter(path.stem for path in paths)
    names = Counter(path.name for path in paths)
    chosen: dict[Path, Source] = {}
    taken: set[str] = set()
    videos: set[str] = set()
    # Videos choose first: then an image can keep clear of their frames.
    for path in sorted(paths, key=lambda path: path.suffix.lower() not in VIDEO_SUFFIXES):
        source = next(
            Source(path, stem)
            for stem in map(fitting_stem, _possible_stems(path, stems, names))
            if stem not in taken and re.sub(r"_\d{6,}$", "", stem) not in videos
        )
        chosen[path] = source
        taken.add(source.stem)
        if source.is_video:
            videos.add(source.stem)
    return [chosen[path] for path in paths]


def _possible_stems(path: Path, stems: Counter[str], names: Counter[str]) -> Iterator[str]:
    """Yield names for a source's outputs, the shortest first."""
    if stems[path.stem] == 1:
        yield path.stem
    if names[path.name] == 1:
        yield path.name
    yield f"{path.parent.name}_{path.name}"
    yield from (f"{path.name}_{number}" for number in count(2))


def fitting_stem(stem: str) -> str:
    """Return a stem, or the beginning of one that is too long for a file name and a digest of all of it.

    Args:
        stem: Stem of the outputs of a source.
    """
    if len(os.fsencode(stem)) <= LONGEST_STEM:
        return stem
    digest = hashlib.blake2b(os.fsencode(stem), digest_size=4).hexdigest()
    while len(os.fsencode(stem)) > LONGEST_STEM - len(digest) - 1:
        stem = stem[:-1]
    return f"{stem}-{digest}"
