"""The one exception for input that a user can put right."""


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
