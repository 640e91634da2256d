"""Finding the predicted file that a table of the user names by its path, or by the end of its path."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable

from data_prep.errors import InputError


class FileNames:
    """Finds files by the end of their path.

    Args:
        files: The files, as `predictions.csv` names them.

    Example:
        >>> FileNames(["new/monday/1.png", "new/tuesday/1.png"]).find("monday/1.png", where="labels.csv")
        'new/monday/1.png'
    """

    def __init__(self, files: Iterable[str]) -> None:
        self._by_name: dict[str, dict[str, str]] = defaultdict(dict)
        for file in files:
            plain = _plain(file)
            self._by_name[plain.rpartition("/")[2]][plain] = file

    def find(self, name: str, *, where: str) -> str | None:
        """Return the file of this name, or whose path ends so; None where there is none.

        Args:
            name: Its path, or the end of its path.
            where: Table and line, for messages.

        Raises:
            InputError: The paths of several files end so.
        """
        image = _plain(name)
        same_name = self._by_name.get(image.rpartition("/")[2], {})
        if image in same_name:
            return same_name[image]
        found = [file for plain, file in same_name.items() if f"/{plain}".endswith(f"/{image}")]
        if len(found) > 1:
            raise InputError(
                f"{where}: {found[0]} and {found[1]} both end in {image}. Give more of its path."
            )
        return found[0] if found else None


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", name.replace("\\", "/")).removeprefix("./")
