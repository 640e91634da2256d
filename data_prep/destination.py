"""Where `prepare` may write."""

from collections.abc import Iterable
from pathlib import Path

from data_prep.atomic import refuse_existing
from data_prep.errors import InputError
from data_prep.manifest import MANIFEST_NAME


def check_destination(out: Path, sources: Iterable[Path], *, overwrite: bool) -> None:
    """Refuse to write where input lies, or over what `prepare` has not written.

    Raises:
        InputError: `out` exists and `overwrite` is false, was not written by `prepare`, or holds a source.
    """
    refuse_existing(out, overwrite=overwrite)
    for source in sources:
        if source.resolve().is_relative_to(out.resolve()):
            raise InputError(f"{out}: holds the input folder {source}. Choose another output folder.")
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST_NAME).is_file():
        raise InputError(
            f"{out}: has no {MANIFEST_NAME}, so it was not written by `prepare`; it is not overwritten. "
            "Choose another output folder, or remove this one yourself."
        )
