"""What is wrong with the input: the one exception for what a user can put right, and what was left out.

And the exception for a cluster that is lost while it works.
"""

from dataclasses import dataclass
from pathlib import Path


class InputError(ValueError):
    """Bad user input: a file, a folder or a setting that cannot be used as it is.

    The message says what was found, what was expected and what to do, and names the file. The command line
    prints it without a traceback and ends with exit code 2.

    Example:
        >>> raise InputError("a.png: 20 x 30 pixels, but a.jpg has 40 x 60. Export it again.")
        Traceback (most recent call last):
        ...
        data_prep.errors.InputError: a.png: 20 x 30 pixels, but a.jpg has 40 x 60. Export it again.
    """


@dataclass(frozen=True)
class Skipped:
    """A file that was left out, with the reason.

    Attributes:
        file: The file, or the list or table that names what cannot be used.
        reason: Text that begins with the file and says what is wrong and what to do.
    """

    file: Path
    reason: str


class ClusterLost(RuntimeError):  # noqa: N818 - what happened, and what the message says
    """A cluster stopped answering while it worked; the message says which and how to go on.

    The command line prints it without a traceback and ends with exit code 1.
    """
