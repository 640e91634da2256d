"""Options that are settings, made from the fields of a settings class.

A settings class names these fields in `options`, each with the placeholder that help shows for a value, empty
where the type says it all, and with a short purpose:

    options: ClassVar[dict[str, tuple[str, str]]] = {"size": ("HxW", "Height and width to resize to.")}

A purpose may say `{default}`, which help shows as the field's own default.

The type of the field decides how the option is written. A pair of whole numbers is `306x306`, a list of them
`3,4`. A list of names repeats the option in the singular: `--head linear --head dfgp-mkl` gives `heads`.
"""

import inspect
import types
import typing
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic import BaseModel
from rich.markup import escape

from data_prep.errors import InputError
from data_prep.files.tables import whole_number

_READ_BY_TYPER: Final = (int, float, bool, Path)
_LONGEST_SHOWN: Final = 80  # characters of a value in a message


def setting_options(cls: type[BaseModel]) -> dict[str, inspect.Parameter]:
    """Return the options of a settings class, by the names of the fields, as parameters for typer.

    The value of a parameter is None where the user did not give the option.
    """
    parameters = {}
    for name, (metavar, purpose) in _marked(cls).items():
        kind = _kind(cls, name)
        annotation = kind if kind in _READ_BY_TYPER else list[str] if _is_repeated(kind) else str
        flag = _flag(name.removesuffix("s") if _is_repeated(kind) else name)
        shown = purpose.replace("{default}", str(cls.model_fields[name].default))
        option = typer.Option(flag, metavar=metavar or None, help=escape(shown))
        parameters[name] = inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[annotation | None, option],
        )
    return parameters


def read_options(cls: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that options have as settings.

    Args:
        cls: The settings class.
        given: What the user gave for each of its options, None where nothing.

    Returns:
        The values by field. None means that nothing was given.

    Raises:
        InputError: A text does not have the form of its option.
    """
    return {
        name: None if value is None else _read(_kind(cls, name), name, value) for name, value in given.items()
    }


def _marked(cls: type[BaseModel]) -> Mapping[str, tuple[str, str]]:
    marked: Mapping[str, tuple[str, str]] = getattr(cls, "options", {})
    return marked


def _read(kind: Any, name: str, value: Any) -> Any:
    if _is_repeated(kind):
        (element, _) = typing.get_args(kind)
        if element is Path:
            return tuple(map(Path, value))
        return tuple(text if is_dataclass(element) else text.replace("-", "_") for text in value)
    if typing.get_origin(kind) is not tuple:
        return value
    if typing.get_args(kind)[-1] is Ellipsis:
        return _whole_numbers(_flag(name), value)
    return _height_and_width(_flag(name), value)


def _kind(cls: type[BaseModel], name: str) -> Any:
    """Return the type of a field without the None that means nothing was set."""
    annotation = cls.model_fields[name].annotation
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        (annotation,) = (kind for kind in typing.get_args(annotation) if kind is not types.NoneType)
    return annotation


def _is_repeated(kind: Any) -> bool:
    """Whether a field holds several names, each of which is an option of its own."""
    arguments = typing.get_args(kind)
    return typing.get_origin(kind) is tuple and arguments[-1] is Ellipsis and arguments[0] is not int


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _height_and_width(flag: str, text: str) -> tuple[int, int]:
    height, width = (whole_number(side) for side in text.lower().partition("x")[::2])
    if height is None or width is None:
        raise InputError(
            f"{flag} {text[:_LONGEST_SHOWN]}: expected HEIGHTxWIDTH in pixels, for example 306x306."
        )
    return height, width


def _whole_numbers(flag: str, text: str) -> tuple[int, ...]:
    numbers = [whole_number(number.strip()) for number in text.split(",")]
    found = tuple(number for number in numbers if number is not None)
    if len(found) < len(numbers):
        raise InputError(
            f"{flag} {text[:_LONGEST_SHOWN]}: expected whole numbers separated by commas, for example 3,4."
        )
    return found
