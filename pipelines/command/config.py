"""Settings from defaults, a YAML file, `--set key=value` and options; each one beats those before it.

Settings are frozen pydantic models that forbid unknown fields; every field has a default and a description.

YAML is read as `data_prep.files.yaml_text` does, without what surprises; numbers must be finite here.
"""

import difflib
import json
import logging
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import annotated_types
import yaml
from pydantic import AliasChoices, BaseModel, GetCoreSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from data_prep.errors import InputError
from data_prep.files.atomic import write_text
from data_prep.files.yaml_text import format_yaml, parse_yaml, yaml_problem

LOGGER = logging.getLogger(__name__)

Settings = TypeVar("Settings", bound=BaseModel)


@dataclass(frozen=True)
class Choices:
    """The texts that a setting takes, where they are known only when the settings are read.

    It annotates a text, as in `Annotated[str, Choices(head_names)]`, and its message is that of `Literal`.

    Attributes:
        names: Returns the texts.
        words: What tables of settings say where the texts are too many to list; empty lists them.
    """

    names: Callable[[], Sequence[str]]
    words: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return pydantic's schema of a text that is one of the choices."""
        return core_schema.no_info_after_validator_function(self._require_known, handler(source))

    def _require_known(self, value: str) -> str:
        names = self.names()
        if value not in names:
            *others, last = map(repr, names)
            expected = f"{', '.join(others)} or {last}" if others else last
            if self.words and len(names) > _MOST_LISTED:
                nearest = difflib.get_close_matches(value, names, n=1)
                expected = self.words + (f"; the nearest is {nearest[0]}" if nearest else "")
            raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
        return value


CONFIG_NAME = "config.yaml"
"""Name under which a run or a bundle keeps the settings it was made with."""

_MOST_LISTED = 12  # names in a message; more are told in words
_LARGEST_FILE = 1_000_000  # bytes; settings are a page or two
_LONGEST_VALUE = 80  # characters of a value shown in a message


@dataclass(frozen=True)
class SettingDescription:
    """A row of the table of settings: dotted key, type in words, default as YAML, purpose."""

    key: str
    type: str
    default: str
    description: str


@dataclass(frozen=True)
class _Given:
    """A value that the user gave, and where it was given."""

    key: tuple[str, ...]
    value: Any
    source: str


def load_settings(
    cls: type[Settings],
    *,
    base: Settings | None = None,
    config: Path | None = None,
    overrides: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> Settings:
    """Build settings; later sources win: `base` or defaults, `config`, `overrides`, `options`.

    Args:
        cls: The settings class.
        base: Settings to begin with, for example those of a run that is resumed; None for the defaults.
        config: YAML file that maps keys to values; nested settings are nested mappings.
        overrides: `key=value` texts with the value in YAML; a dotted key names a nested setting.
        options: Explicit command-line options by key, None where the user gave none.

    Returns:
        An instance of `cls`.

    Raises:
        InputError: The file cannot be read, a key is unknown or repeated, or a value does not fit.

    Example:
        >>> from data_prep.lane.settings import LanePrepareSettings
        >>> load_settings(LanePrepareSettings, overrides=["size=[96, 128]"], options={"seed": 3}).size
        (96, 128)
    """
    cls = with_tables(cls)
    given = [
        *(_read_file(config) if config is not None else ()),
        *(_parse_override(text) for text in overrides),
        *(
            _Given((key,), value, f"--{key.replace('_', '-')}")
            for key, value in (options or {}).items()
            if value is not None
        ),
    ]
    known = {tuple(row.key.split(".")): row for row in describe_settings(cls)}
    values = (cls() if base is None else base).model_dump(mode="json")
    sources: dict[tuple[str, ...], _Given] = {}
    for item in given:
        for leaf in _leaves(_by_present_name(item, cls), cls):
            _require_known(leaf, cls, known)
            _require_finite(leaf)
            _put(values, leaf.key, leaf.value)
            sources[leaf.key] = leaf
    try:
        # JSON in strict mode: lists become tuples and texts paths, but "3" is no number and true is not 1.
        return cls.model_validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        raise InputError(_explain(error, sources, known)) from error


def with_tables(cls: type[Settings]) -> type[Settings]:
    """Return the settings with the tables of registered head families, where they have a place for these."""
    complete: Callable[[], type[Settings]] | None = getattr(cls, "with_tables", None)
    return cls if complete is None else complete()


def dump_settings(settings: BaseModel, path: Path) -> None:
    """Write settings as YAML that `load_settings` reads back to an equal instance.

    Raises:
        InputError: The file cannot be written.
    """
    write_text(path, format_yaml(settings.model_dump(mode="json")))


def describe_settings(cls: type[BaseModel]) -> list[SettingDescription]:
    """List every setting with its type, default and purpose; nested ones follow the one that holds them."""
    cls = with_tables(cls)
    return list(_describe(cls, cls().model_dump(mode="json"), ()))


def _describe(
    cls: type[BaseModel], defaults: Mapping[str, Any] | None, parent: tuple[str, ...]
) -> Iterator[SettingDescription]:
    for name, field in cls.model_fields.items():
        default = None if defaults is None else defaults[name]
        nested = _nested_class(field.annotation)
        shown = _short(default) if nested is None or default is None else "see below"
        yield SettingDescription(
            ".".join((*parent, name)), _type_of(field), shown, " ".join((field.description or "").split())
        )
        if nested is not None:
            inner = default if default is not None else nested().model_dump(mode="json")
            yield from _describe(nested, inner, (*parent, name))


def _read_file(path: Path) -> Iterator[_Given]:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise InputError(
                f"{path}: has {path.stat().st_size} bytes; expected a file of settings, which is small."
            )
        values = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}). Check the path given to --config."
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is no YAML file of settings: {yaml_problem(error)}.") from error
    if values is None:
        return
    if not isinstance(values, dict):
        raise InputError(
            f"{path}: holds {_short(values)}; expected lines of the form `key: value`, one for each setting."
        )
    for key, value in values.items():
        yield _Given((str(key),), value, str(path))


def _parse_override(text: str) -> _Given:
    key, equals, value_text = text.partition("=")
    key = key.strip()
    if not equals or not key or not value_text.strip():
        raise InputError(f"--set {text}: expected key=value, for example --set seed=3 (null for no value).")
    try:
        value = parse_yaml(value_text)
    except yaml.YAMLError as error:
        raise InputError(
            f"--set {_short(text)}: {yaml_problem(error)}. Quote special characters; write lists as [a, b]."
        ) from error
    return _Given(tuple(key.split(".")), value, "--set")


def _by_present_name(given: _Given, cls: type[BaseModel]) -> _Given:
    """Return what was given under the present name of its setting, with a note where it had a former one."""
    for name, field in cls.model_fields.items():
        alias = field.validation_alias
        if isinstance(alias, AliasChoices) and given.key[0] in alias.choices[1:]:
            LOGGER.warning(
                "%s: the setting %s is called %s now; the next release reads the present name alone",
                *(given.source, given.key[0], name),
            )
            return replace(given, key=(name, *given.key[1:]))
    return given


def _leaves(given: _Given, cls: type[BaseModel]) -> Iterator[_Given]:
    """Split a mapping given for nested settings into the settings it holds."""
    nested = _class_at(cls, given.key)
    if nested is not None and isinstance(given.value, dict) and given.value:
        for name, value in given.value.items():
            yield from _leaves(_Given((*given.key, str(name)), value, given.source), cls)
    else:
        yield given


def _put(values: dict[str, Any], key: tuple[str, ...], value: Any) -> None:
    for name in key[:-1]:
        if not isinstance(values.get(name), dict):
            values[name] = {}  # it was switched off; its other fields take their own defaults
        values = values[name]
    values[key[-1]] = value


def _require_known(
    given: _Given, cls: type[BaseModel], known: Mapping[tuple[str, ...], SettingDescription]
) -> None:
    if given.key in known:
        return
    dotted = ".".join(given.key)
    siblings = [row.key for key, row in known.items() if len(given.key) > 1 and key[:-1] == given.key[:-1]]
    keys = siblings or [row.key for row in known.values()]
    # A nested setting given without its parent's name is as near as its own name is.
    names = {key.rpartition(".")[2]: key for key in reversed(keys)} | {key: key for key in keys}
    nearest = difflib.get_close_matches(dotted, names, n=1, cutoff=0.0)[0]
    raise InputError(
        f"{given.source}: {dotted!r} is no setting of {cls.__name__}. Did you mean {names[nearest]!r}? "
        f"Known settings: {', '.join(keys)}."
    )


def _require_finite(given: _Given) -> None:
    try:
        json.dumps(given.value, allow_nan=False, default=str)
    except ValueError as error:
        raise InputError(
            f"{given.source}: {'.'.join(given.key)} is {_short(given.value)}; expected finite numbers."
        ) from error


def _explain(
    error: ValidationError,
    sources: Mapping[tuple[str, ...], _Given],
    known: Mapping[tuple[str, ...], SettingDescription],
) -> str:
    lines: dict[tuple[str, ...], str] = {}
    for detail in error.errors(include_url=False, include_context=False):
        location = tuple(str(part) for part in detail["loc"])
        prefixes = [location[:length] for length in range(len(location), -1, -1)]
        key = next(prefix for prefix in prefixes if prefix in known or not prefix)
        # The first reason is the cause; what follows it for the same key are consequences.
        lines.setdefault(key, _explain_one(detail, key, sources, known))
    return "\n".join(lines.values())


_EXPECTATION = "Input should be "
"""How reasons of pydantic begin that say what is expected."""


def _explain_one(
    detail: ErrorDetails,
    key: tuple[str, ...],
    sources: Mapping[tuple[str, ...], _Given],
    known: Mapping[tuple[str, ...], SettingDescription],
) -> str:
    reason = detail["msg"].removeprefix("Value error, ")
    if key not in sources:  # a rule about several settings
        involved = {given.source for given in sources.values() if given.key[: len(key)] == key}
        return f"{': '.join([', '.join(sorted(involved)), *key])}: {reason}."
    given = sources[key]
    if detail["type"] == "literal_error" and detail["input"] != given.value:  # an entry of a list
        nearest = difflib.get_close_matches(str(detail["input"]), re.findall("'(.+?)'", reason), n=1)
        reason = f"{detail['input']!r} is none of these" + (
            f"; the nearest is {nearest[0]!r}" if nearest else ""
        )
    expected = f"{known[key].type} ({reason})"
    if isinstance(given.value, str) and known[key].type == _NAMES[str] and reason.startswith(_EXPECTATION):
        expected = reason.removeprefix(_EXPECTATION)  # it is text, but none of those that are known
    return f"{given.source}: {'.'.join(key)} is {_short(given.value)}; expected {expected}."


def _short(value: Any) -> str:
    """Return a value as one would write it in YAML, on one line."""
    text = json.dumps(value, ensure_ascii=False, default=str) if not isinstance(value, str) else value
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _class_at(cls: type[BaseModel], key: Sequence[str]) -> type[BaseModel] | None:
    """Return the settings class that holds the fields below `key`, None where there is none."""
    current: type[BaseModel] | None = cls
    for name in key:
        field = None if current is None else current.model_fields.get(name)
        current = None if field is None else _nested_class(field.annotation)
    return current


def _nested_class(annotation: Any) -> type[BaseModel] | None:
    for option in (annotation, *typing.get_args(annotation)):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


def _type_of(field: FieldInfo) -> str:
    limits = " and ".join(limit for limit in map(_limit_in_words, field.metadata) if limit)
    words, alternative, _ = _type_in_words(field.annotation).partition(" or null")
    return f"{words} {limits}{alternative}" if limits else words + alternative


def _limit_in_words(limit: Any) -> str:
    match limit:
        case annotated_types.Ge(ge=bound):
            return f"≥ {bound}"
        case annotated_types.Gt(gt=bound):
            return f"> {bound}"
        case annotated_types.Le(le=bound):
            return f"≤ {bound}"
        case annotated_types.Lt(lt=bound):
            return f"< {bound}"
        case annotated_types.MinLen(min_length=length):
            return f"(at least {length})"
        case _:
            return ""


_NAMES = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    types.NoneType: "null",
}


def _type_in_words(annotation: Any) -> str:
    arguments = typing.get_args(annotation)
    match typing.get_origin(annotation):
        case None:
            return _NAMES.get(annotation, "text" if is_dataclass(annotation) else "mapping")
        case typing.Annotated:
            choices = next(choice for choice in annotation.__metadata__ if isinstance(choice, Choices))
            return choices.words or " | ".join(choices.names())
        case typing.Literal:
            return " | ".join(str(argument) for argument in arguments)
        case typing.Union | types.UnionType:
            null_last = sorted(arguments, key=lambda argument: argument is types.NoneType)
            return " or ".join(_type_in_words(argument) for argument in null_last)
        case origin:
            words = [_type_in_words(argument) for argument in arguments if argument is not Ellipsis]
            if origin is dict:
                return f"mapping of {' to '.join(words)}"
            return f"list of {words[0]}" if arguments[-1] is Ellipsis else f"list [{', '.join(words)}]"
